"""Probes: what an encoder, a painter or a metric can and cannot distinguish."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
