"""A toy world: drawn scenes with captions, captioners of known quality, styles, ratings and planted bias."""

from lab.toy.sample import Sample, make, write
from lab.toy.scenes import scenes

__all__ = ["Sample", "make", "scenes", "write"]
