"""Metrics as rewards of reinforcement learning, and a monitor of what a policy loses while it gains reward."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
