"""The scored folder: what ``captious score`` writes, opens again and reports, from a file and from shards alike."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
