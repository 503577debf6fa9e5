"""Measurements of a metric on a set, and the signature of everything that can change their values."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.types import Floats, Ints
from captious._core.values import PlainState
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError, UnknownKey
from captious.io.columns import WITHOUT_PREDICTION_COLUMN
from captious.metrics.registry import get_package_version
from captious.metrics.statistic_rows import Rows, TypeSets, find_nan_rows, join_rows
from captious.render import Column, Document, Table
from captious.stats.resampling import Statistic, sort_ids

if TYPE_CHECKING:
    from captious.metrics.contract import Metric


@dataclass(frozen=True)
class Signature:
    """Everything that can change a number, printed on one line. Compare numbers only if their signatures agree.

    ``settings`` must agree when shards are merged; the counts add up. The settings of a metric from another package end
    with the name and version of that package.
    """

    metric: str
    settings: Mapping[str, str]
    items: int
    references: tuple[int, int]
    """The smallest and the largest number of references of an item."""
    fingerprint: int
    """A fingerprint of ids and references, in any order.

    The same items against the same references give the same one.
    """
    skipped: int = 0
    unscored: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts of the metric, such as truncated captions; zeros are not printed."""

    @classmethod
    def of(
        cls, metric: Metric, captions: CaptionSet, state: Any, unscored: int, counts: Mapping[str, int]
    ) -> Signature:
        """Build the signature of a metric on a set."""
        references = captions.references.counts
        return cls(
            metric=str(metric),
            settings={
                **metric.text_settings(captions),
                **metric.model_settings(state),
                **metric.frame_settings(captions),
                **metric.settings(state),
                **metric.frame_settings(captions),  # again: frames may change an entry, such as the prompt's
                **({"list": captions.selection} if captions.selection else {}),
                **captions.settings,
                **get_package_version(type(metric)),
            },
            items=len(captions),
            references=(int(references.min()), int(references.max())) if len(references) else (0, 0),
            fingerprint=captions.fingerprint,
            skipped=captions.skipped,
            unscored=unscored,
            counts={
                **counts,
                **({"missing:zero": zeros} if (zeros := _count_zeros(captions)) else {}),
                **({"cleaned": captions.origin.cleaned} if captions.origin.cleaned else {}),
            },
        )

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
        """Merge the signatures of two shards. Raise InputError if metric or settings differ."""
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


def _count_zeros(captions: CaptionSet) -> int:
    """Count the videos without predictions that count 0."""
    return sum(map(bool, captions.columns.get(WITHOUT_PREDICTION_COLUMN, ())))


class ItemValues(dict[str, float]):
    """Values by item id; an id may be given as a string or as a number."""

    def __getitem__(self, key: object, /) -> float:  # wider than a dictionary's, for type checkers
        return super().__getitem__(key)  # type: ignore[index]

    def __missing__(self, key: object) -> float:
        if str(key) in self.keys():
            return self[str(key)]
        known = f"; ids are such as {next(iter(self))!r}" if self else ""
        raise UnknownKey(f"no item with id {str(key)!r}{known}")

    def __contains__(self, key: object) -> bool:
        return super().__contains__(str(key))

    def get(self, key: object, default: Any = None) -> Any:
        """Return the value of an id, or the default if there is no such item."""
        return super().get(str(key), default)


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(PlainState):
    """The result of one metric on one set: a value per item, a corpus value, and the rows for aggregating again."""

    metric: Metric
    ids: tuple[str, ...]
    rows: Rows
    signature: Signature
    reasons: Mapping[str, str] = field(default_factory=dict)
    """The reason why an item has no value, by id."""
    warnings: tuple[str, ...] = ()
    """Warnings about the set that a user should read before trusting the numbers."""
    notes: tuple[str, ...] = ()
    """Remarks on the computation, such as its cost."""

    @cached_property
    def values(self) -> Floats:
        """One value per item in the order of ``ids``; NaN for items in ``reasons``."""
        values = self.metric.aggregate(self.rows.counts if isinstance(self.rows, TypeSets) else self.rows)
        if self.reasons:
            values = np.where([key in self.reasons for key in self.ids], np.nan, values)
        return values

    @cached_property
    def items(self) -> ItemValues:
        """The value of each item by id."""
        return ItemValues(zip(self.ids, self.values.tolist(), strict=True))

    @cached_property
    def corpus(self) -> float:
        """The value of the whole set."""
        if len(self.reasons) == len(self.ids):
            return float("nan")
        return float(self.metric.aggregate(self._total[None, :])[0])

    @cached_property
    def _total(self) -> Floats:
        """The sum of all rows."""
        return self.rows.total() if isinstance(self.rows, TypeSets) else _fill_unscored(self.rows).sum(axis=0)

    @property
    def additive(self) -> bool:
        """Whether the rows add up over items, as resampling requires."""
        return not isinstance(self.rows, TypeSets)

    @cached_property
    def statistic(self) -> Statistic:
        """The corpus value in the form that resampling needs."""
        if isinstance(self.rows, TypeSets):
            raise InputError(f"{self.metric} counts distinct things over the whole set and cannot be resampled")
        rows = _fill_unscored(self.rows).take(_get_order(self.ids), axis=0)
        return Statistic(rows, self.metric.aggregate, self._total, self.corpus)

    def merge(self, other: Measurement) -> Measurement:
        """Merge two shards of one set, as if they had been scored together."""
        if twice := set(self.ids).intersection(other.ids):
            raise InputError(f"cannot merge shards that share {len(twice)} ids, such as {min(twice)}")
        signature = self.signature.merge(other.signature)
        return Measurement(
            self.metric,
            self.ids + other.ids,
            join_rows([self.rows, other.rows]),
            signature,
            {**self.reasons, **other.reasons},
            tuple(dict.fromkeys(self.warnings + other.warnings)),
            self.notes + other.notes,
        )

    def _repr_html_(self) -> str:
        from captious.render.notebook import render_notebook

        scored = self.values[~np.isnan(self.values)]
        spread = np.percentile(scored, [0, 25, 50, 75, 100]).tolist() if len(scored) else [float("nan")] * 5
        names = ("lowest", "lower quartile", "median", "upper quartile", "highest")
        row = [self.metric.label, self.corpus, len(self.ids), len(self.reasons), *spread]
        columns: list[Column | str] = ["metric", Column("value", bold=True), Column("items"), Column("unscored")]
        title = f"{self.metric.label} over {len(self.ids):,} items"
        table = Table("measurement", title, [*columns, *map(Column, names)], [row])
        return render_notebook(Document(title, "", [table], self.warnings, signatures=[str(self.signature)]))

    def __repr__(self) -> str:
        return f"<Measurement {self.metric}: {self.corpus:.4f} over {len(self.ids)} items>"


_orders: deque[tuple[tuple[str, ...], Ints]] = deque(maxlen=4)


def _get_order(ids: tuple[str, ...]) -> Ints:
    """Return `id_order` of the items, cached for all metrics of a run."""
    # A list of a few entries: a dictionary would hash all ids at each lookup.
    for cached_ids, order in tuple(_orders):
        if cached_ids is ids or cached_ids == ids:
            return order
    order = np.array(sort_ids(ids), dtype=np.int64)
    _orders.append((ids, order))
    return order


def _fill_unscored(rows: Floats) -> Floats:
    """Replace the rows of unscored items by zeros, which add nothing."""
    unscored = find_nan_rows(rows)
    if not len(unscored):
        return rows
    rows = rows.copy()
    rows[unscored] = 0.0
    return rows
