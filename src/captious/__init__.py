"""captious: judge image captions, judge the judges, and collect the judgments."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
