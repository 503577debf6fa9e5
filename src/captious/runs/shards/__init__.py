"""Shards: the same metrics over more captions than fit into memory, on one machine or on a cluster."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
