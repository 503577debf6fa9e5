"""Training: encoders by contrast (CLIP, LongCLIP, SPECS), and a learnt metric that ranks captions (UMIC).

Public names are imported when first used, for they need a model library.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.train.options import ClipOptions, LongClipOptions, Settings, SpecsOptions, Training, UmicOptions
    from captious.train.run import Trained, train

_HOMES = {
    "ClipOptions": "captious.train.options",
    "LongClipOptions": "captious.train.options",
    "Settings": "captious.train.options",
    "SpecsOptions": "captious.train.options",
    "Trained": "captious.train.run",
    "Training": "captious.train.options",
    "UmicOptions": "captious.train.options",
    "train": "captious.train.run",
}

__all__ = [
    "ClipOptions",
    "LongClipOptions",
    "Settings",
    "SpecsOptions",
    "Trained",
    "Training",
    "UmicOptions",
    "train",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'captious.train' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(_HOMES[name]), name)
