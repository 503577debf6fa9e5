"""Probes: tests of what an encoder, a painter or a metric can distinguish."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
