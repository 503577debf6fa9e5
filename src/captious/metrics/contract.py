"""What a metric is: a small frozen value that prepares, scores items and aggregates.

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
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Literal

import numpy as np

from captious import _written
from captious._typing import Floats
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.images import NO_SUCH
from captious.metrics.explanation import Breakdown, Explanation
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.rows import Scored, TypeSets
from captious.metrics.states import Shared
from captious.render import Why
from captious.text.tables import TextTable
from captious.text.tokenizers import tokenizer_named

Need = Literal["references", "several candidates", "image", "style", "objects", "model", "judge"]

HINTS = {
    "no references": "; pass references=..., a file of references",
    "one candidate, needs several": "; give several candidates per item",
    "no image": "; pass images=..., their folder or a list, or a column 'image' with their paths",
    f"image: {NO_SUCH}": "; none of the image files exists: pass images=..., the folder that holds them",
    "no source text": "; give a column 'source'",
}
"""What would mend a reason for having no value."""


@dataclass(frozen=True)
class Metric(ABC):
    """Base of all metrics. A subclass is a frozen dataclass whose fields are the parameters.

    What is declared here as a property may be a class variable, or depend on the parameters. CONTRIBUTING.md shows how
    to add a metric.
    """

    name: ClassVar[str]
    citation: ClassVar[str] = ""
    main: ClassVar[str] = ""
    """The parameter that may be written without its name, as in ``clipscore(captious-mini)``."""
    always_shown: ClassVar[tuple[str, ...]] = ()
    """Parameters that are printed even at their default."""
    variants: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """A parameter and its values: a written form that leaves it out stands for one metric of each value."""
    by_chunk: ClassVar[bool] = False
    """Whether a large set is scored chunk by chunk. A metric that asks a model makes batches itself."""

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
    def higher_is_better(self) -> bool:
        """Whether the better of two captions has the higher value."""
        return True

    @property
    def undefined_reason(self) -> str:
        """Why an item has no value whose row is NaN without a reason of its own, or is 0 / 0 in a ratio of sums."""
        return "the value is undefined"

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
        """What was scored, with a reason for every item without a value and a row of NaN for every reason.

        A finite row whose own value is undefined, 0 / 0 in a ratio of sums, stays: the item has a part in the value of
        the set, and in paired tests.
        """
        reasons, rows = {**missing, **scored.reasons, **missing}, scored.rows
        if isinstance(rows, np.ndarray):
            for index in np.flatnonzero(np.isnan(rows).any(axis=1)).tolist():
                reasons.setdefault(index, self.undefined_reason)
            if reasons:
                rows = rows.astype(np.float64)  # a copy, and of floats where no item has a candidate
                rows[list(reasons)] = np.nan
            if len(rows):
                for index in np.flatnonzero(np.isnan(self.aggregate(rows))).tolist():
                    reasons.setdefault(index, self.undefined_reason)
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
