"""What a metric is, a small frozen value that prepares, scores items and aggregates; and a measurement, its result.

A metric prints as ``cider(idf=coco)`` and parses back. Scoring has three steps. `Metric.prepare` collects what must be
known of the whole corpus. `Metric.score_items` gives each item a row of statistics. `Metric.aggregate` makes values
from rows: of one item, or summed over many. Per-item values, the corpus value, intervals, paired tests and the merging
of shards follow from these.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from itertools import accumulate, chain
from typing import Any, ClassVar, Generic, Literal, TypeVar

import numpy as np

from captious import _written
from captious._typing import Bools, Floats, Ints
from captious._values import PlainState
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError, UnknownKey
from captious.io.images import NO_SUCH
from captious.metrics.explanation import Breakdown, Explanation
from captious.render import Column, Document, Table, Why
from captious.stats.resampling import Statistic, id_order
from captious.text.tables import TextTable
from captious.text.tokenizers import tokenizer_named

T = TypeVar("T")
Need = Literal["references", "several candidates", "image", "style", "model", "judge"]

HINTS = {
    "no references": "; pass references=..., a file of references",
    "one candidate, needs several": "; give several candidates per item",
    "no image": "; pass images=..., their folder or a list, or a column 'image' with their paths",
    f"image: {NO_SUCH}": "; none of the image files exists: pass images=..., the folder that holds them",
    "no source text": "; give a column 'source'",
}
"""What would mend a reason for having no value."""
LISTED = 5
"""Ids that a warning lists before it only counts."""


@dataclass(frozen=True, eq=False)
class TypeSets:
    """Rows of distinct things, such as a vocabulary: over items they unite instead of adding up."""

    types: tuple[frozenset[Any], ...]
    tokens: Ints

    @property
    def counts(self) -> Floats:
        """Distinct types and running tokens of each item."""
        sizes = np.fromiter(map(len, self.types), dtype=np.float64, count=len(self.types))
        return np.stack([sizes, self.tokens], axis=1)

    @classmethod
    def joined(cls, parts: Sequence[TypeSets]) -> TypeSets:
        """The rows of several sets, one after the other."""
        types = tuple(chain.from_iterable(part.types for part in parts))
        return cls(types, np.concatenate([part.tokens for part in parts]))

    def total(self) -> Floats:
        """Distinct types and running tokens of all items."""
        return np.array([len(frozenset().union(*self.types)), self.tokens.sum()], dtype=np.float64)


Rows = Floats | TypeSets
"""One row of statistics per item. Those of an array add up over items; NaN marks an item without a value."""


def join_rows(parts: Sequence[Rows]) -> Rows:
    """The rows of the parts of a set, one after the other."""
    sets = [part for part in parts if isinstance(part, TypeSets)]
    if len(sets) == len(parts):
        return TypeSets.joined(sets)
    if sets:
        raise InputError("cannot merge rows of numbers and rows of distinct things")
    return np.concatenate([part for part in parts if isinstance(part, np.ndarray)])


@dataclass(frozen=True, eq=False)
class Scored:
    """What scoring the items of a set gives."""

    rows: Rows
    reasons: Mapping[int, str] = field(default_factory=dict)
    """Why an item has no value, by its index."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts for the signature, such as truncated captions. They add up over shards; the names never vary."""
    warnings: Sequence[str] = ()
    """What a user should know of this set before trusting the numbers."""
    notes: Sequence[str] = ()
    """What a user may want to know of the computation, such as what it cost."""

    @classmethod
    def joined(cls, parts: Sequence[Scored], sizes: Sequence[int]) -> Scored:
        """The parts of one set, which hold so many items each, as if they had been scored together."""
        if len(parts) == 1:
            return parts[0]
        reasons: dict[int, str] = {}
        counts: dict[str, int] = {}
        for part, first in zip(parts, accumulate(sizes, initial=0), strict=False):
            reasons |= {first + index: reason for index, reason in part.reasons.items()}
            for name, number in part.counts.items():
                counts[name] = counts.get(name, 0) + number
        return cls(
            join_rows([part.rows for part in parts]),
            reasons,
            counts,
            list(dict.fromkeys(chain.from_iterable(part.warnings for part in parts))),
            list(chain.from_iterable(part.notes for part in parts)),
        )


@dataclass(frozen=True, eq=False)
class Shared(Generic[T]):
    """A state that is the same for every shard, such as a model: merging only checks that."""

    value: T
    key: str

    def merge(self, other: Shared[T]) -> Shared[T]:
        """The state itself."""
        if self.key != other.key:
            raise InputError(f"cannot merge shards scored by {self.key} and {other.key}")
        return self


@dataclass(frozen=True)
class Signature:
    """Everything that can move a number. Prints on one line; two numbers compare only if their signatures do.

    ``settings`` must agree when shards are merged; the counts add up.
    """

    metric: str
    settings: Mapping[str, str]
    items: int
    references: tuple[int, int]
    """The smallest and the largest number of references of an item."""
    fingerprint: int
    """Of ids and references, in any order: the same items against the same references give the same one."""
    skipped: int = 0
    unscored: int = 0
    counts: Mapping[str, int] = field(default_factory=dict)
    """What the metric counted on the way, such as truncated captions; zeros are not printed."""

    @classmethod
    def of(
        cls, metric: Metric, captions: CaptionSet, state: Any, unscored: int, counts: Mapping[str, int]
    ) -> Signature:
        """The signature of a metric on a set."""
        references = captions.references.counts
        return cls(
            metric=str(metric),
            settings=dict(metric.settings(state)),
            items=len(captions),
            references=(int(references.min()), int(references.max())) if len(references) else (0, 0),
            fingerprint=captions.fingerprint,
            skipped=captions.skipped,
            unscored=unscored,
            counts=dict(counts),
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


class ItemValues(dict[str, float]):
    """Values by item id, which may be asked for as a string or as a number."""

    def __missing__(self, key: object) -> float:
        if str(key) in self.keys():
            return self[str(key)]
        known = f"; ids are such as {next(iter(self))!r}" if self else ""
        raise UnknownKey(f"no item with id {str(key)!r}{known}")

    def __contains__(self, key: object) -> bool:
        return super().__contains__(str(key))

    def get(self, key: object, default: Any = None) -> Any:
        """The value of an id, or the default where there is no such item."""
        return super().get(str(key), default)


@dataclass(frozen=True, eq=False, repr=False)
class Measurement(PlainState):
    """One metric on one set: a value per item, a corpus value, and the rows to aggregate again without recomputing."""

    metric: Metric
    ids: tuple[str, ...]
    rows: Rows
    signature: Signature
    reasons: Mapping[str, str] = field(default_factory=dict)
    """Why an item has no value, by id."""
    warnings: tuple[str, ...] = ()
    """What a user should know of the set before trusting the numbers."""
    notes: tuple[str, ...] = ()
    """What a user may want to know of the computation, such as what it cost."""

    @cached_property
    def values(self) -> Floats:
        """One value per item in the order of ``ids``; NaN where ``reasons`` says why."""
        values = self.metric.aggregate(self.rows.counts if isinstance(self.rows, TypeSets) else self.rows)
        if self.reasons:
            values = np.where([key in self.reasons for key in self.ids], np.nan, values)
        return values

    @cached_property
    def items(self) -> Mapping[str, float]:
        """The value of each item by id."""
        return ItemValues(zip(self.ids, self.values.tolist(), strict=True))

    @cached_property
    def corpus(self) -> float:
        """The value of the whole set."""
        if len(self.reasons) == len(self.ids):
            return float("nan")
        total = self.rows.total() if isinstance(self.rows, TypeSets) else _zeroed(self.rows).sum(axis=0)
        return float(self.metric.aggregate(total[None, :])[0])

    @property
    def additive(self) -> bool:
        """Whether the rows add up over items, which resampling needs."""
        return not isinstance(self.rows, TypeSets)

    @cached_property
    def statistic(self) -> Statistic:
        """The corpus value as resampling wants it."""
        if isinstance(self.rows, TypeSets):
            raise InputError(f"{self.metric} counts distinct things over the whole set and cannot be resampled")
        rows = _zeroed(self.rows)
        return Statistic(rows[_order(self.ids)], self.metric.aggregate, rows.sum(axis=0), self.corpus)

    def merge(self, other: Measurement) -> Measurement:
        """Two shards of one set as if they had been scored together."""
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
        from captious.render.notebook import notebook

        scored = self.values[~np.isnan(self.values)]
        spread = np.percentile(scored, [0, 25, 50, 75, 100]).tolist() if len(scored) else [float("nan")] * 5
        names = ("lowest", "lower quartile", "median", "upper quartile", "highest")
        row = [self.metric.label, self.corpus, len(self.ids), len(self.reasons), *spread]
        columns: list[Column | str] = ["metric", Column("value", bold=True), Column("items"), Column("unscored")]
        title = f"{self.metric.label} over {len(self.ids):,} items"
        table = Table("measurement", title, [*columns, *map(Column, names)], [row])
        return notebook(Document(title, "", [table], self.warnings, signatures=[str(self.signature)]))

    def __repr__(self) -> str:
        return f"<Measurement {self.metric}: {self.corpus:.4f} over {len(self.ids)} items>"


@dataclass(frozen=True)
class Metric(ABC):
    """Base of all metrics. A subclass is a frozen dataclass whose fields are the parameters.

    What is declared here as a property may be a class variable, or depend on the parameters. CONTRIBUTING.md shows how
    to add a metric.
    """

    name: ClassVar[str]
    citation: ClassVar[str] = ""
    higher_is_better: ClassVar[bool] = True
    main: ClassVar[str] = ""
    """The parameter that may be written without its name, as in ``clipscore(captious-mini)``."""
    always_shown: ClassVar[tuple[str, ...]] = ()
    """Parameters that are printed even at their default."""
    variants: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """A parameter and its values: a written form that leaves it out stands for one metric of each value."""
    by_chunk: ClassVar[bool] = False
    """Whether a large set is scored chunk by chunk. A metric that asks a model makes batches itself."""
    undefined_reason: ClassVar[str] = "the value is undefined"
    """Why an item has no value whose row is NaN without a reason of its own."""

    @property
    def needs(self) -> tuple[Need, ...]:
        """What must be known of an item besides its candidates."""
        return ("references",)

    @property
    def installed(self) -> bool:
        """Whether this computer has the tables that the metric reads, where it reads any."""
        return True

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest value possible."""
        return (0.0, 1.0)

    @property
    def is_count(self) -> bool:
        """Whether the value is a number of things: tables show it without decimals and never × 100."""
        return self.range == (0.0, math.inf)

    @property
    def label(self) -> str:
        """What tables call the metric."""
        return str(self)

    @property
    def needs_corpus(self) -> bool:
        """Whether a value depends on the other items, so that all shards are prepared before one is scored.

        The states of shards are then merged (`captious.metrics.states`). Otherwise each shard prepares its own.
        """
        return False

    def prepare(self, captions: CaptionSet) -> Any:
        """What the metric must know of the whole corpus first, such as document frequencies; it merges over shards."""
        return Shared(None, "")

    @abstractmethod
    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """One row of statistics per item. Items that lack what the metric needs are dealt with by `measure`."""

    @abstractmethod
    def aggregate(self, rows: Floats) -> Floats:
        """One value per row; a row is that of one item, or summed over many."""

    def settings(self, state: Any) -> Mapping[str, str]:
        """What enters the signature beyond the parameters."""
        return {}

    def seed_values(self, measurement: Measurement) -> Floats | None:
        """Items × random seeds: the values under each seed; None where the metric does not depend on any."""
        return None

    @property
    def explains(self) -> bool:
        """Whether `explain` says what made the value of an item."""
        return False

    def explain(self, captions: CaptionSet, id: Any, state: Any = None) -> Explanation:
        """Why an item has its value: parts that add up to it.

        The item is one of a set, whose statistics count, such as document frequencies. ``state`` is what `prepare`
        returned; without it the set is prepared, once for all its items.
        """
        if not self.explains:
            raise InputError(f"{self} does not explain single values")
        index = captions.position(id)
        if state is None:
            state = captions.once(("state", self), lambda: self._prepared(captions, self._missing_inputs(captions)))
        item = captions.take([index])
        measured, key = self.measure(item, state), captions.ids[index]
        reason = measured.reasons.get(key, "")
        return Explanation(
            metric=str(self),
            label=self.label,
            id=key,
            value=float(measured.values[0]),
            breakdown=self.break_down_missing(item, state) if reason else self.break_down(item, state),
            reason=reason,
            signature=str(Signature.of(self, captions, state, 0, {})),
        )

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """What made the value of the one item of a set, which has a value. The parts must add up to it."""
        raise NotImplementedError

    def break_down_missing(self, item: CaptionSet, state: Any) -> Breakdown:
        """What is known of the one item of a set that has no value, in its notes."""
        return Breakdown([])

    @property
    def explains_on_page(self) -> bool:
        """Whether the report's page shows what made the values of items."""
        return False

    def page_explanations(self, captions: CaptionSet, indices: Sequence[int], state: Any) -> list[Why]:
        """What the report's page shows of these items; nothing at all where it cannot be said any more."""
        raise NotImplementedError

    def compares_with(self, other: Metric) -> bool:
        """Whether its values, which another program computed, are those that a metric of captious stands for."""
        return False

    def hint(self, reason: str) -> str:
        """What would mend a reason for having no value, to follow it in a message."""
        return HINTS.get(reason, "")

    def measure(self, captions: CaptionSet, state: Any = None) -> Measurement:
        """Score a set. ``state`` is what `prepare` returned, for a shard of a larger corpus that of the whole."""
        if state is None:
            state = self._prepared(captions, self._missing_inputs(captions))
        return self.measurement(captions, state, self.score(captions, state))

    def score(self, captions: CaptionSet, state: Any) -> Scored:
        """The rows of a set, with a reason for every item without a value."""
        return self._complete(self.score_items(captions, state), self._missing_inputs(captions))

    def measurement(self, captions: CaptionSet, state: Any, scored: Scored) -> Measurement:
        """The measurement of a set from its rows."""
        return Measurement(
            self,
            captions.ids,
            scored.rows,
            Signature.of(self, captions, state, len(scored.reasons), scored.counts),
            {captions.ids[index]: reason for index, reason in scored.reasons.items()},
            tuple(scored.warnings),
            tuple(scored.notes),
        )

    def candidate_values(self, captions: CaptionSet, state: Any) -> Floats:
        """The value of each candidate as if it were the only one of its item, NaN where it has none."""
        alone = captions.once("candidates alone", captions.candidates_alone)
        scored = self.score(alone, state)
        values = self.aggregate(scored.rows.counts if isinstance(scored.rows, TypeSets) else scored.rows)
        values[list(scored.reasons)] = np.nan
        return values

    def _complete(self, scored: Scored, missing: Mapping[int, str]) -> Scored:
        """What was scored, with a reason for every item without a value and a row of NaN for every reason."""
        reasons, rows = {**missing, **scored.reasons, **missing}, scored.rows
        if isinstance(rows, np.ndarray):
            for index in np.flatnonzero(np.isnan(rows).any(axis=1)).tolist():
                reasons.setdefault(index, self.undefined_reason)
            if reasons:
                rows = rows.astype(np.float64)  # a copy, and of floats where no item has a candidate
                rows[list(reasons)] = np.nan
        return replace(scored, rows=rows, reasons=reasons)

    def refuse_unfit(self, captions: CaptionSet) -> None:
        """Raise an error, before anything is computed, where not one item has what the metric needs."""
        missing = self._missing_inputs(captions)
        if missing and len(missing) == len(captions):
            raise self._refusal(missing.values(), captions.name)

    def refuse_empty(self, measurement: Measurement, name: str) -> None:
        """Raise an error where not one item of a whole set has a value, and say what would mend it."""
        if measurement.ids and len(measurement.reasons) == len(measurement.ids):
            raise self._refusal(measurement.reasons.values(), name)

    def _missing_inputs(self, captions: CaptionSet) -> dict[int, str]:
        """Items that lack what the metric needs, by index."""
        missing = {"no candidate caption": captions.candidates.counts == 0}
        if "references" in self.needs:
            missing["no references"] = captions.references.counts == 0
        if "several candidates" in self.needs:
            missing["one candidate, needs several"] = captions.candidates.counts == 1
        if "image" in self.needs:
            missing["no image"] = np.array([image is None for image in captions.images], dtype=np.bool_)
        reasons: dict[int, str] = {}
        for reason, mask in missing.items():
            for index in np.flatnonzero(mask).tolist():
                reasons.setdefault(index, reason)
        return reasons

    def _prepared(self, captions: CaptionSet, reasons: Mapping[int, str]) -> Any:
        """The state; where it fails and no item could be scored anyway, the error says that first."""
        try:
            return self.prepare(captions)
        except InputError:
            if reasons and len(reasons) == len(captions):
                raise self._refusal(reasons.values(), captions.name) from None
            raise

    def _refusal(self, reasons: Any, name: str) -> InputError:
        ((reason, _),) = Counter(reasons).most_common(1)
        return InputError(f"{self} cannot score {name}: {reason}{self.hint(reason)}")

    def __str__(self) -> str:
        return _written.write(self, self.name, self.always_shown)

    @classmethod
    def from_text(cls, values: Mapping[str, str]) -> Metric:
        """The metric from its parameters as written between the parentheses of its name."""
        return cls(**_written.arguments(cls, values, cls.name, main=cls.main))


@dataclass(frozen=True)
class MeanMetric(Metric):
    """A metric whose corpus value is the mean over captions or items: rows are (sum of values, number of values)."""

    def aggregate(self, rows: Floats) -> Floats:
        """Sum of values over their number."""
        with np.errstate(invalid="ignore"):
            result: Floats = rows[..., 0] / rows[..., 1]
        return result


class TokenMetric(Metric):
    """A metric over the token table of a set. Its tokenizer is a parameter and part of the signature."""

    tokenizer: str

    by_chunk: ClassVar[bool] = True

    def table(self, captions: CaptionSet) -> TextTable:
        """The token table of a set."""
        return TextTable.of(captions, self.tokenizer)

    def settings(self, state: Any) -> Mapping[str, str]:
        """The tokenizer with its version."""
        return {"tok": str(tokenizer_named(self.tokenizer))}


class CandidateMetric(TokenMetric):
    """A metric that gives each candidate a row of its own; the row of an item is their sum."""

    @abstractmethod
    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """One row of statistics per candidate."""

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """The rows of an item's candidates, summed."""
        scored = self.score_candidates(captions, state)
        return replace(scored, rows=self.table(captions).per_item(np.asarray(scored.rows)))

    def candidate_values(self, captions: CaptionSet, state: Any) -> Floats:
        """The value of each candidate, NaN where its item lacks what the metric needs."""
        values = self.aggregate(np.asarray(self.score_candidates(captions, state).rows))
        missing = np.zeros(len(captions), dtype=np.bool_)
        missing[list(self._missing_inputs(captions))] = True
        return np.where(missing[captions.candidates.owners], np.nan, values)


class NgramMetric(TokenMetric):
    """A metric over n-grams of one order, which is a parameter and always printed."""

    n: int

    main: ClassVar[str] = "n"
    always_shown: ClassVar[tuple[str, ...]] = ("n",)
    highest_n: ClassVar[int | None] = None

    def __post_init__(self) -> None:
        if self.n < 1 or (self.highest_n and self.n > self.highest_n):
            legal = f"from 1 to {self.highest_n}" if self.highest_n else "of at least 1"
            raise InputError(f"{self.name}(n={self.n}): expected n {legal}")


def candidate_means(captions: CaptionSet, values: Floats, *others: Floats) -> Floats:
    """Rows of a mean over captions: the sum of an item's values, their number, and the sums of ``others``.

    Values stand in the order of the candidates; NaN where one candidate of an item has none.
    """
    columns = (values, np.ones(len(values)), *others)
    owners = captions.candidates.owners
    return np.stack([np.bincount(owners, weights=one, minlength=len(captions)) for one in columns], axis=1)


def item_means(values: Floats) -> Floats:
    """Rows of a mean over items: the value and 1."""
    return np.stack([values, np.where(np.isnan(values), np.nan, 1.0)], axis=1)


def where(mask: Bools, reason: str) -> dict[int, str]:
    """A reason for each item of a mask."""
    return dict.fromkeys(np.flatnonzero(mask).tolist(), reason)


def blank_texts(captions: CaptionSet, references: bool = False, candidates: bool = True) -> dict[int, str]:
    """Reasons of items with a blank candidate and, where references are compared, of those with blank ones only.

    Without ``candidates`` a blank candidate is no reason: the metric scores it.
    """
    ours, others = captions.candidates, captions.references
    reasons = dict.fromkeys(ours.owners[ours.blank].tolist(), "empty caption") if candidates else {}
    if references:
        number = np.bincount(others.owners[~others.blank], minlength=len(captions))
        reasons = {**where((number == 0) & (others.counts > 0), "all references are empty"), **reasons}
    return reasons


def encoded_means(
    label: str, captions: CaptionSet, values: Floats, reasons: Mapping[int, str], lengths: Ints, limit: int
) -> Scored:
    """A mean over captions that an encoder read, with a count and a warning of those longer than its limit."""
    truncated = captions.candidates.owners[lengths > limit].tolist()
    warnings = truncation_warning(label, captions, truncated, limit)
    return Scored(candidate_means(captions, values), reasons, {"truncated": len(truncated)}, warnings)


def truncation_warning(label: str, captions: CaptionSet, items: Sequence[int], limit: int) -> list[str]:
    """A warning on captions that were truncated, given the item of each; nothing where there are none."""
    if not items:
        return []
    number = f"{len(items):,} caption{' is' if len(items) == 1 else 's are'}"
    ids = listed_ids(captions, items)
    return [f"{label}: {number} longer than the encoder's {limit} tokens and read only so far (ids {ids})"]


def listed_ids(captions: CaptionSet, items: Sequence[int]) -> str:
    """The first ids of these items, each once."""
    ids = list(dict.fromkeys(captions.ids[item] for item in items))
    return ", ".join(ids[:LISTED]) + (", …" if len(ids) > LISTED else "")


@lru_cache(maxsize=4)
def _order(ids: tuple[str, ...]) -> Ints:
    """`id_order` of the items of a run, which all its metrics share."""
    return np.array(id_order(ids), dtype=np.int64)


def _zeroed(rows: Floats) -> Floats:
    """The rows with those of unscored items as zeros, which add nothing."""
    return np.where(np.isnan(rows).any(axis=1, keepdims=True), 0.0, rows)
