"""captious: judge image captions, judge the judges, and collect the judgments."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
