"""Metrics as rewards for reinforcement learning, and a monitor for reward hacking and collapse."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
