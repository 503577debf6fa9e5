"""One metric on one set: per-item values, a corpus value, and the statistics to aggregate again without recomputing."""

from __future__ import annotations

import types
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from typing import Any, ClassVar, Literal, Union, get_args, get_origin, get_type_hints

import numpy as np

from captious._typing import Bools, Floats, Ints
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError, nearest
from captious.models.encoder import Cost
from captious.text.tokenizers import tokenizer_named


@dataclass(frozen=True, eq=False)
class Sums:
    """Statistics that add up over items: one row per item, NaN where the item could not be scored."""

    rows: Floats
    additive = True

    def total(self) -> Floats:
        """The statistics of all scored items together."""
        totals: Floats = self.known.sum(axis=0)
        return totals

    @cached_property
    def known(self) -> Floats:
        """The rows with unscored items as zeros, which add nothing."""
        return np.where(np.isnan(self.rows).any(axis=1, keepdims=True), 0.0, self.rows)

    def merge(self, other: Sums) -> Sums:
        """Statistics of two shards."""
        return Sums(np.concatenate([self.rows, other.rows]))


@dataclass(frozen=True, eq=False)
class TypeSets:
    """Statistics of distinct things, such as a vocabulary: they unite instead of adding up.

    A row and a total read (distinct types, running tokens).
    """

    types: tuple[frozenset[Any], ...]
    tokens: Ints
    additive = False

    @property
    def rows(self) -> Floats:
        """Distinct types and tokens of each item."""
        return np.stack(
            [np.fromiter(map(len, self.types), dtype=np.float64, count=len(self.types)), self.tokens], axis=1
        )

    def total(self) -> Floats:
        """Distinct types and tokens of all items."""
        return np.array([len(frozenset().union(*self.types)), self.tokens.sum()], dtype=np.float64)

    def merge(self, other: TypeSets) -> TypeSets:
        """Statistics of two shards."""
        return TypeSets(self.types + other.types, np.concatenate([self.tokens, other.tokens]))


Statistics = Sums | TypeSets


@dataclass(frozen=True)
class Signature:
    """Everything that can move a number. Prints on one line; two numbers compare only if their signatures do.

    ``settings`` must agree when shards are merged; the counts add up.
    """

    metric: str
    settings: Mapping[str, str]
    items: int
    references: tuple[int, int]
    fingerprint: int
    """Of ids and references, in any order: the same items against the same references give the same one."""
    skipped: int = 0
    unscored: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """What the metric counted on the way, such as captions cut at an encoder's limit; zeros are not printed."""

    def __str__(self) -> str:
        low, high = self.references
        parts = [self.metric, *(f"{key}:{value}" for key, value in self.settings.items()), f"items:{self.items}"]
        if high:
            parts.append(f"refs:{low}" if low == high else f"refs:{low}-{high}")
            parts.append(f"data:{self.fingerprint:016x}"[:13])
        parts += [f"{name}:{number}" for name, number in self.counts.items() if number]
        if self.skipped:
            parts.append(f"skipped:{self.skipped}")
        if self.unscored:
            parts.append(f"unscored:{self.unscored}")
        return "|".join([*parts, f"captious:{__version__}"])

    def merge(self, other: Signature) -> Signature:
        """The signature of two shards together."""
        if (self.metric, self.settings) != (other.metric, other.settings):
            raise InputError(f"cannot merge measurements of different making: {self} and {other}")
        return replace(
            self,
            items=self.items + other.items,
            references=(
                min(part.references[0] for part in (self, other) if part.items or not self.items + other.items),
                max(self.references[1], other.references[1]),
            ),
            fingerprint=(self.fingerprint + other.fingerprint) % 2**64,
            skipped=self.skipped + other.skipped,
            unscored=self.unscored + other.unscored,
            counts={
                name: self.counts.get(name, 0) + other.counts.get(name, 0) for name in {**self.counts, **other.counts}
            },
        )


@dataclass(frozen=True, eq=False)
class Measurement:
    """One metric on one set of captions."""

    metric: Metric
    ids: tuple[str, ...]
    statistics: Statistics
    signature: Signature
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why an item has no value, by id."""

    @cached_property
    def values(self) -> Floats:
        """One value per item in the order of ``ids``; NaN where ``reasons`` says why."""
        values = self.metric.score(self.statistics.rows)
        if self.reasons:
            values = np.where([key in self.reasons for key in self.ids], np.nan, values)
        return values

    @cached_property
    def items(self) -> Mapping[str, float]:
        """The value of each item by id."""
        return dict(zip(self.ids, self.values.tolist(), strict=True))

    @cached_property
    def corpus(self) -> float:
        """The value of the whole set."""
        if len(self.reasons) == len(self.ids):
            return float("nan")
        return float(self.metric.score(self.statistics.total()[None, :])[0])

    def merge(self, other: Measurement) -> Measurement:
        """Two shards of one set as if they had been scored together."""
        if twice := set(self.ids).intersection(other.ids):
            raise InputError(f"cannot merge shards that share {len(twice)} ids, such as {min(twice)}")
        if type(self.statistics) is not type(other.statistics):
            raise InputError(f"cannot merge {self.metric} and {other.metric}")
        return Measurement(
            self.metric,
            self.ids + other.ids,
            self.statistics.merge(other.statistics),  # type: ignore[arg-type]
            self.signature.merge(other.signature),
            {**self.reasons, **other.reasons},
        )

    def __repr__(self) -> str:
        return f"<Measurement {self.metric}: {self.corpus:.4f} over {len(self.ids)} items>"


def sign(
    metric: Metric,
    captions: CaptionSet,
    settings: Mapping[str, str],
    unscored: int,
    counts: Mapping[str, int] | None = None,
) -> Signature:
    """The signature of a metric on a set."""
    references = captions.references.counts
    return Signature(
        metric=str(metric),
        settings=dict(settings),
        items=len(captions),
        references=(int(references.min()), int(references.max())) if len(references) else (0, 0),
        fingerprint=captions.fingerprint,
        skipped=captions.skipped,
        unscored=unscored,
        counts=dict(counts or {}),
    )


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
        if not hasattr(self, "tokenizer"):
            return dict(self.settings(state))
        return {"tok": str(tokenizer_named(self.tokenizer)), **self.settings(state)}

    def unscorable(self, captions: CaptionSet) -> Mapping[str, Bools]:
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
    item = captions.candidates.owners
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
