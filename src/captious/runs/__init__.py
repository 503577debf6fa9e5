"""The run folder that ``captious score`` writes: format, reader and report, the same for a file and for shards."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
