"""Probes: what an encoder, a painter or a metric can and cannot tell apart."""

from captious._lazy import exports

__getattr__, __dir__ = exports(__name__)
