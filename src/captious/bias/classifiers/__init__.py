"""Classifiers by their written form: ``linear``, ``lstm(stack=4)``, ``bert-ft(model=FOLDER)``, ``bert-pre``."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from captious._core.specs import convert_arguments, parse_spec
from captious.errors import InputError, nearest

if TYPE_CHECKING:
    from captious.bias.corpus import Classifier

NAMES = ("linear", "lstm", "bert-ft", "bert-pre")


def classifier_named(text: str, frozen: Mapping[str, Any] | None = None) -> Classifier:
    """A classifier from its written form; ``frozen`` is what a preset changes in the frozen BERT.

    >>> classifier_named("linear(c=0.1)")
    Linear(orders=2, least=2, c=0.1, iterations=100)
    """
    name, values = parse_spec(text, "classifier", "linear or bert-ft(model=FOLDER)")
    if name not in NAMES:
        raise InputError(f"unknown classifier {name!r}, expected {', '.join(NAMES)}{nearest(name, NAMES)}")
    if name == "linear":
        from captious.bias.classifiers.linear import Linear

        return Linear(**convert_arguments(Linear, values, name))
    if name == "lstm":
        from captious.bias.classifiers.lstm import Lstm

        return Lstm(**convert_arguments(Lstm, values, name))
    from captious.bias.classifiers.bert import Bert

    changed = convert_arguments(Bert, values, name, omit=("frozen",))
    return Bert(**changed) if name == "bert-ft" else Bert.pre(**{**(frozen or {}), **changed})
