"""The contract of a metric.

A metric is a frozen dataclass: a name and its parameters. It turns a CaptionSet into **statistics**, one row per item,
and statistics into a **score**. Corpus values, per-item values, intervals, paired tests and the merging of shards all
follow from these two, and none of them looks at a caption again.
"""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.encoders.encoder import Cost
from captious.errors import InputError, nearest
from captious.measurement import Floats, Measurement, Statistics, Sums, sign
from captious.text.tokenisers import tokeniser_named

Need = Literal["references", "several candidates", "image", "style", "model", "judge"]


@dataclass(frozen=True)
class Metric(ABC):
    """Base of all metrics; see the module's text for the idea and `docs/metrics.md` for how to add one."""

    name: ClassVar[str]
    needs: ClassVar[tuple[Need, ...]] = ("references",)
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    higher_is_better: ClassVar[bool] = True
    citation: ClassVar[str] = ""
    shown: ClassVar[tuple[str, ...]] = ()
    """Parameters that are printed even at their default."""
    undefined: ClassVar[str] = "the value is undefined"
    """Why an item may have no value that `unscorable` does not foresee."""
    cost: ClassVar[Cost | None] = None
    """Of a metric with a model: parameters and arithmetic of one caption with the default weights."""

    @abstractmethod
    def statistics(self, captions: CaptionSet, state: Any) -> Statistics:
        """One row of statistics per item."""

    @abstractmethod
    def score(self, sums: Floats) -> Floats:
        """Values from statistics: any number of rows, each of one item or summed over many."""

    @property
    def label(self) -> str:
        """What tables call the metric."""
        return str(self)

    def members(self) -> tuple[Metric, ...]:
        """The metrics that this one stands for: itself, or several where a name without a parameter means them all."""
        return (self,)

    def prepare(self, captions: CaptionSet) -> Any:
        """What the metric must know of the whole corpus first, such as document frequencies; it merges over shards."""
        return None

    def settings(self, state: Any) -> Mapping[str, str]:
        """What enters the signature beyond the parameters."""
        return {}

    def counts(self, captions: CaptionSet, state: Any) -> Mapping[str, int]:
        """What enters the signature and adds up over shards, such as captions cut at a limit; the same names always."""
        return {}

    def faults(self, captions: CaptionSet, state: Any) -> Mapping[int, str]:
        """Reasons that come out only in scoring, such as an image that does not open, by the item's position."""
        return {}

    def _settings(self, state: Any) -> dict[str, str]:
        if not hasattr(self, "tokeniser"):
            return dict(self.settings(state))
        return {"tok": str(tokeniser_named(self.tokeniser)), **self.settings(state)}

    def unscorable(self, captions: CaptionSet) -> Mapping[str, npt.NDArray[np.bool_]]:
        """Reasons for having no value, each with the items it holds for."""
        reasons = {"no candidate caption": captions.candidates.counts == 0}
        if "references" in self.needs:
            reasons["no references"] = captions.references.counts == 0
        if "several candidates" in self.needs:
            reasons["one candidate, needs several"] = captions.candidates.counts == 1
        return reasons

    def remarks(self, captions: CaptionSet) -> list[str]:
        """What a user should know of this set before trusting the number; printed as warnings."""
        return []

    def measure(self, captions: CaptionSet, state: Any = None) -> Measurement:
        """Score a set. ``state`` is what `prepare` returned, for a shard of a larger corpus that of the whole."""
        unscored = np.zeros(len(captions), dtype=np.bool_)
        reasons: dict[str, str] = {}
        for reason, mask in self.unscorable(captions).items():
            for index in np.flatnonzero(mask & ~unscored).tolist():
                reasons[captions.ids[index]] = reason
            unscored |= mask
        if state is None:
            state = self.prepare(captions)
        statistics = self.statistics(captions, state)
        if unscored.any() and isinstance(statistics, Sums):
            statistics = Sums(np.where(unscored[:, None], np.nan, statistics.rows))
        faults = self.faults(captions, state)
        for index in np.flatnonzero(np.isnan(statistics.rows).any(axis=1) & ~unscored).tolist():
            reasons[captions.ids[index]] = faults.get(index, self.undefined)
        signature = sign(self, captions, self._settings(state), len(reasons), self.counts(captions, state))
        return Measurement(self, captions.ids, statistics, signature, reasons)

    def __str__(self) -> str:
        parameters = [
            f"{field.name}={_printed(getattr(self, field.name))}"
            for field in fields(self)
            if field.name in self.shown or getattr(self, field.name) != field.default
        ]
        return f"{self.name}({','.join(parameters)})" if parameters else self.name

    @classmethod
    def from_text(cls, values: Mapping[str, str]) -> Metric:
        """Build the metric from parameters as written between the parentheses of its name."""
        hints = get_type_hints(cls)
        legal = [field.name for field in fields(cls)]
        parsed = {}
        for key, text in values.items():
            if key not in legal:
                known = ", ".join(legal) or "none"
                raise InputError(f"{cls.name} has no parameter {key!r}, legal ones: {known}{nearest(key, legal)}")
            parsed[key] = _parsed(text, hints[key], f"{cls.name}({key}={text})")
        return cls(**parsed)

    def refuse_empty(self, measurement: Measurement, name: str) -> None:
        """Stop where not one item of a whole set has a value, and say what would mend it."""
        if not measurement.ids or len(measurement.reasons) < len(measurement.ids):
            return
        ((reason, _),) = Counter(measurement.reasons.values()).most_common(1)
        raise InputError(f"{self} cannot score {name}: {reason}{self.remedy(reason)}")

    def remedy(self, reason: str) -> str:
        """What would mend a reason for having no value, to follow it in a message."""
        return _REMEDIES.get(reason, "")


@dataclass(frozen=True)
class MeanMetric(Metric):
    """A metric whose corpus value is the mean over captions: statistics are (sum of values, number of values)."""

    def score(self, sums: Floats) -> Floats:
        """Sum of values over their number."""
        with np.errstate(invalid="ignore"):
            result: Floats = sums[..., 0] / sums[..., 1]
        return result


def summed(captions: CaptionSet, values: Floats, *others: Floats) -> Sums:
    """Statistics of a mean: of each item the sum of its candidates' values, their number, and the sums of others.

    Values are in the order of the candidates; NaN where one candidate of an item has none.
    """
    item = np.repeat(np.arange(len(captions)), captions.candidates.counts)
    columns = (values, np.ones(len(values)), *others)
    return Sums(np.stack([np.bincount(item, weights=one, minlength=len(captions)) for one in columns], axis=1))


_REMEDIES = {
    "no references": "; give a file of references with --references",
    "one candidate, needs several": "; give several candidates per item",
}


def _printed(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    text = str(value)
    return f'"{text}"' if any(character in text for character in "(),\"' ") else text


def _parsed(text: str, hint: Any, where: str) -> Any:
    if get_origin(hint) in (Union, types.UnionType):
        if text.lower() == "none" and type(None) in get_args(hint):
            return None
        hint = next(option for option in get_args(hint) if option is not type(None))
    if get_origin(hint) is Literal:
        choices = {str(choice): choice for choice in get_args(hint)}
        if text not in choices:
            raise InputError(f"{where}: expected one of {', '.join(choices)}{nearest(text, choices)}")
        return choices[text]
    if hint is bool:
        answers = {"yes": True, "true": True, "1": True, "no": False, "false": False, "0": False}
        if text.lower() not in answers:
            raise InputError(f"{where}: expected yes or no")
        return answers[text.lower()]
    if hint in (int, float):
        try:
            return hint(text)
        except ValueError:
            raise InputError(f"{where}: expected a {'whole ' if hint is int else ''}number") from None
    return text
