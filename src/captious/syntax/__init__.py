"""Words of captions with their parts of speech, phrases, and detail units. Names are imported when first used."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from captious.syntax.chunking import bracketed, outline, tree
    from captious.syntax.sentences import Sentence
    from captious.syntax.tagging import tag, tag_texts, tagger_named
    from captious.syntax.units import Rules, unit_spans

_HOMES = {
    "Rules": "units",
    "Sentence": "sentences",
    "bracketed": "chunking",
    "outline": "chunking",
    "tag": "tagging",
    "tag_texts": "tagging",
    "tagger_named": "tagging",
    "tree": "chunking",
    "unit_spans": "units",
}

__all__ = [
    "Rules",
    "Sentence",
    "bracketed",
    "outline",
    "tag",
    "tag_texts",
    "tagger_named",
    "tree",
    "unit_spans",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
