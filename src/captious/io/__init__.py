"""Files, tables and dictionaries as a CaptionSet (`captious.read`), and what is wrong with them (`captious.check`)."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
