"""Metrics as rewards of reinforcement learning, and a monitor of what a policy loses while it gains reward."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
