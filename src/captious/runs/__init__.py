"""The scored folder: what ``captious score`` writes, opens again and reports, from a file and from shards alike."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
