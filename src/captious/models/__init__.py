"""Images and texts to vectors: encoders, cross-encoders and painters, and the store of what they computed.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.models.crossencoders import load_backbone
    from captious.models.encoder import Encoder
    from captious.models.features import Encoded, cosines, image_features, text_features
    from captious.models.language import load_contextual
    from captious.models.loading import load, load_trainable
    from captious.models.painters import load_painter
    from captious.models.store import Store, open_store

_HOMES = {
    "Encoded": "features",
    "Encoder": "encoder",
    "Store": "store",
    "cosines": "features",
    "image_features": "features",
    "load": "loading",
    "load_backbone": "crossencoders",
    "load_contextual": "language",
    "load_painter": "painters",
    "load_trainable": "loading",
    "open_store": "store",
    "text_features": "features",
}

__all__ = [
    "Encoded",
    "Encoder",
    "Store",
    "cosines",
    "image_features",
    "load",
    "load_backbone",
    "load_contextual",
    "load_painter",
    "load_trainable",
    "open_store",
    "text_features",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
