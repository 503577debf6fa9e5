"""Images and texts to vectors: encoders, cross-encoders and painters, and the store of what they computed."""

from __future__ import annotations

import importlib
from typing import Any

_EXPORTS = {
    "Encoder": "encoder",
    "Store": "store",
    "cosines": "features",
    "cost": "cost",
    "image_features": "features",
    "load": "load",
    "load_backbone": "crossencoders",
    "load_contextual": "language",
    "load_painter": "painters",
    "load_trainable": "load",
    "open_store": "store",
    "text_features": "features",
}
"""Public names, and the modules that define them."""

__all__ = sorted(_EXPORTS)  # noqa: PLE0605


def __getattr__(name: str) -> Any:
    if name not in _EXPORTS:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_EXPORTS[name]}"), name)
