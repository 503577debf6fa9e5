"""Reading of captions into a CaptionSet (`captious.read`), and checks of input files (`captious.check`)."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
