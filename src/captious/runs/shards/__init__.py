"""Scoring of shards: more captions than fit into memory, on one machine or on a cluster."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
