"""``captious.metric_from``: a metric from a function of a caption and its references."""

from __future__ import annotations

import inspect
import math
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar

import numpy as np

from captious._core.files import digest
from captious.captions import CaptionSet
from captious.errors import InputError, format_one_line
from captious.metrics.contract import MeanMetric, Need
from captious.metrics.registry import FUNCTIONS, METRICS
from captious.metrics.statistic_rows import Scored, candidate_means, find_missing_inputs


@dataclass(frozen=True)
class FunctionMetric(MeanMetric):
    """A metric whose values a function computes, one for each candidate. `metric_from` makes a subclass of it."""

    function: ClassVar[Callable[..., float | None]]
    options: ClassVar[Mapping[str, Any]]
    undefined_reason: ClassVar[str] = "the function gives no value"

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        missing = find_missing_inputs(captions, self.needs)
        owners = captions.candidates.owners.tolist()
        values = np.full(len(owners), np.nan)
        for place, (owner, caption) in enumerate(zip(owners, captions.candidates.values, strict=True)):
            if owner not in missing:
                texts = [caption, list(captions.references[owner])] if self.needs else [caption]
                values[place] = self._call_function(captions.ids[owner], *texts)
        return Scored(candidate_means(captions, values))

    def _call_function(self, id: str, *texts: Any) -> float:
        """Return the value of a candidate, NaN if the function returns None. An error of the function names the id."""
        try:
            value = type(self).function(*texts)
            return math.nan if value is None else float(value)
        except Exception as error:
            raise InputError(f"{self}: id {id!r}: {type(error).__name__}: {format_one_line(error)}") from error

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return the function by its name, and by its source if that can be read."""
        function = type(self).function
        name = f"{function.__module__}.{function.__qualname__}"
        try:
            return {"function": f"{name}#{digest(inspect.getsource(function).encode())[:8]}"}
        except (OSError, TypeError):
            return {"function": name}

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[()]]:
        return partial(metric_from, type(self).function, self.name, **self.options), ()


def metric_from(
    function: Callable[..., float | None],
    name: str = "",
    *,
    label: str = "",
    range: tuple[float, float] = (-math.inf, math.inf),
    higher_is_better: bool = True,
    decimals: int | None = None,
    citation: str = "",
) -> FunctionMetric:
    """Make a metric from a function that scores a caption, given the caption and the list of its references.

    A function that can be called with one argument, and has none called ``references``, gets only the caption. The
    value of an item is the mean over its candidates, that of a set the mean over all candidates. ``None`` or NaN is no
    value. The metric is registered under its name in this process.

    Parameters
    ----------
    function
        Called as ``function(caption, references)`` or ``function(caption)``.
    name
        Name of the metric in lists of metrics; by default the name of the function.
    label
        Label in tables; by default the name.
    range
        The lowest and the highest value possible.
    higher_is_better
        Whether a higher value is a better one.
    decimals
        Decimals in tables if the value is on a scale of its own, such as 1 for a number of words.
    citation
        The paper to cite.

    >>> from captious import evaluate
    >>> def overlap(caption, references):
    ...     return len(set(caption.split()) & set(references[0].split())) / len(set(caption.split()))
    >>> report = evaluate(["a red dog", "a cat"], [metric_from(overlap), "rouge"], references=[["a dog"], ["a cat"]])
    >>> report["overlap"].values.round(4).tolist()
    [0.6667, 1.0]
    """
    name = _check_name(function, name)
    options = {
        "label": label,
        "range": range,
        "higher_is_better": higher_is_better,
        "decimals": decimals,
        "citation": citation,
    }
    known = FUNCTIONS.get(name)
    if known and issubclass(known, FunctionMetric) and (known.function, known.options) == (function, options):
        return known()
    needs: tuple[Need, ...] = ("references",) if _takes_references(function) else ()
    facts = {**options, "label": label or name, "options": options, "name": name, "needs": needs}
    doc = inspect.getdoc(function) or f"The function {name}."
    kind = type(name, (FunctionMetric,), {**facts, "function": staticmethod(function), "__doc__": doc})
    FUNCTIONS[name] = kind
    metric: FunctionMetric = kind()
    return metric


def _check_name(function: Any, name: str) -> str:
    """Return the name of the metric, by default the function's. Raise InputError if no metric can have it."""
    if not callable(function):
        raise InputError(f"metric_from: {type(function).__name__}, expected a function of a caption and its references")
    name = name or getattr(function, "__name__", "")
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", name):
        raise InputError(f"metric_from: the name {name!r}, expected one of lower-case letters, digits, _ and -")
    if name in METRICS:
        raise InputError(f"metric_from: {name} is a metric of captious, expected another name")
    return name


def _takes_references(function: Callable[..., Any]) -> bool:
    """Return True if a function takes a caption and its references, False if it takes only the caption."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):  # some functions of C have no signature
        return True
    for texts in (("caption",), ("caption", "references")):
        try:
            signature.bind(*texts)
        except TypeError:
            continue
        return len(texts) == 2 or bool({"references", "refs", "args"} & set(signature.parameters))
    raise InputError(f"metric_from: the function takes {signature}, expected (caption, references) or (caption)")
