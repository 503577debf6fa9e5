"""The embedded demo set: drawn scenes with captions, captioners of known quality, styles, ratings and planted bias."""

from captious.samples.sample import Sample, make
from captious.samples.sampling import scenes
from captious.samples.writing import write

__all__ = ["Sample", "make", "scenes", "write"]
