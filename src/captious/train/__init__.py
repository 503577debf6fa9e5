"""Training of contrastive encoders (CLIP, LongCLIP, SPECS) and of a learned metric that ranks captions (UMIC)."""

from captious._core.lazy import make_exports

__getattr__, __dir__ = make_exports(__name__)
