"""Training: encoders by contrast (CLIP, LongCLIP, SPECS), and a learned metric that ranks captions (UMIC)."""

from captious._core.lazy import exports

__getattr__, __dir__ = exports(__name__)
