"""One metric on one set: per-item values, a corpus value, and the statistics to aggregate again without recomputing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious._version import __version__
from captious.errors import InputError

if TYPE_CHECKING:
    from captious.captions import CaptionSet
    from captious.metrics.base import Metric

Floats = npt.NDArray[np.float64]


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
    tokens: npt.NDArray[np.int64]
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
