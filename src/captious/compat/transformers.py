"""Metrics of captious in a Hugging Face trainer, under the name of the library; `captious._trainers` defines them."""

from captious._trainers import CaptionCallback as CaptionCallback
from captious._trainers import CaptionMetrics as CaptionMetrics
