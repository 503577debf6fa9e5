"""The embedded demo set: drawn scenes with captions, captioners of known quality, styles, ratings and planted bias."""

from captious.samples.sample import Sample, make, write
from captious.samples.scenes import scenes

__all__ = ["Sample", "make", "scenes", "write"]
