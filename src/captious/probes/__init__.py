"""Probes: what an encoder, a painter or a metric can and cannot distinguish."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
