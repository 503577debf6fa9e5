"""Metrics of captious in a Hugging Face trainer, by the name of the library; defined in `captious.loops.trainers`."""

from captious.loops.trainers import CaptionCallback as CaptionCallback
from captious.loops.trainers import CaptionMetrics as CaptionMetrics
