"""Leakage for image captioning (LIC): how much more a captioner gives an attribute away than people do.

The function that runs an audit is ``captious.audit``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.bias.audit import Audit
    from captious.bias.classifiers.bert import Bert
    from captious.bias.classifiers.linear import Linear
    from captious.bias.classifiers.lstm import Lstm
    from captious.bias.corpus import Subject, read_subjects
    from captious.bias.lic import Lic
    from captious.bias.masking import Mask
    from captious.bias.protocol import PRESETS, Protocol, preset_named, protocol_for, published_seeds

_HOMES = {
    "Audit": "audit",
    "Bert": "classifiers.bert",
    "Lic": "lic",
    "Linear": "classifiers.linear",
    "Lstm": "classifiers.lstm",
    "Mask": "masking",
    "PRESETS": "protocol",
    "Protocol": "protocol",
    "Subject": "corpus",
    "preset_named": "protocol",
    "protocol_for": "protocol",
    "published_seeds": "protocol",
    "read_subjects": "corpus",
}

__all__ = [
    "PRESETS",
    "Audit",
    "Bert",
    "Lic",
    "Linear",
    "Lstm",
    "Mask",
    "Protocol",
    "Subject",
    "preset_named",
    "protocol_for",
    "published_seeds",
    "read_subjects",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'captious.bias' has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"captious.bias.{_HOMES[name]}"), name)
