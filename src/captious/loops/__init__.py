"""Training loops: reports in the trackers of experiments, and metrics in the trainers of Hugging Face."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
