"""Classifiers by their written form: ``linear``, ``lstm(stack=4)``, ``bert-ft(model=FOLDER)``, ``bert-pre``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from captious._core.notation import convert_arguments, parse_spec
from captious.errors import InputError, format_suggestion

if TYPE_CHECKING:
    from captious.bias.corpus import Classifier

NAMES = ("linear", "lstm", "bert-ft", "bert-pre")


def make_classifier(text: str, frozen: Mapping[str, Any] | None = None) -> Classifier:
    """Make a classifier from its written form; ``frozen`` are a preset's settings of the frozen BERT.

    >>> make_classifier("linear(c=0.1)")
    Linear(orders=2, least=2, c=0.1, iterations=100)
    """
    name, values = parse_spec(text, "classifier", "linear or bert-ft(model=FOLDER)")
    if name not in NAMES:
        raise InputError(f"unknown classifier {name!r}, expected {', '.join(NAMES)}{format_suggestion(name, NAMES)}")
    if name == "linear":
        from captious.bias.classifiers.linear import Linear

        return Linear(**convert_arguments(Linear, values, name))
    if name == "lstm":
        from captious.bias.classifiers.lstm import Lstm

        return Lstm(**convert_arguments(Lstm, values, name))
    from captious.bias.classifiers.bert import Bert

    changed = convert_arguments(Bert, values, name, omit=("frozen",))
    return Bert(**changed) if name == "bert-ft" else Bert.pre(**{**(frozen or {}), **changed})
