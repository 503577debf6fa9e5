"""Metrics of captious in a Hugging Face trainer, under the name of the library; `captious.loops.trainers` defines them."""

from captious.loops.trainers import CaptionCallback as CaptionCallback
from captious.loops.trainers import CaptionMetrics as CaptionMetrics
