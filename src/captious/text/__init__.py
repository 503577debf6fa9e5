"""From captions to tokens, n-gram counts and document frequencies.

Names are imported when first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.text.idf import DocumentFrequency
    from captious.text.tables import NgramTable, TextTable
    from captious.text.tokenizers import TOKENIZERS, Tokenizer, tokenizer_named

_HOMES = {
    "TOKENIZERS": "tokenizers",
    "DocumentFrequency": "idf",
    "NgramTable": "tables",
    "TextTable": "tables",
    "Tokenizer": "tokenizers",
    "tokenizer_named": "tokenizers",
}

__all__ = ["TOKENIZERS", "DocumentFrequency", "NgramTable", "TextTable", "Tokenizer", "tokenizer_named"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    import importlib

    return getattr(importlib.import_module(f"{__name__}.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
