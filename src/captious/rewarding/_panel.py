"""The panel behind the rewards of a run: one pass over a batch for all metrics, with floors for faulty captions."""

from __future__ import annotations

import contextvars
import math
import os
import threading
import warnings
from collections import Counter, OrderedDict
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from operator import is_
from typing import Any

import numpy as np

from captious._core.languages import find_language
from captious._core.types import Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError, format_one_line
from captious.io.columns import OBJECT_COLUMN, STYLE_COLUMN
from captious.metrics.contract import Metric, Need
from captious.metrics.registry import find_key
from captious.options import Runtime, get_runtime
from captious.rewarding._rollouts import RolloutReader, Rollouts
from captious.rewarding._scaling import is_number, make_scalings
from captious.scorer import CaptionValues, Scorer, has_column

# Batches whose values are kept: each reward of a run asks for the same one, and threads alternate.
REMEMBERED = 16
# Attributes that are not pickled.
_OWN = ("_lock", "_memo", "_said", "_last")
UNKNOWN = "its id is not among the references or images"


@dataclass(frozen=True)
class ScoredBatch:
    """The values of a batch by each metric."""

    rollouts: Rollouts
    values: Mapping[str, Floats]
    """Values by written form: the metric's floor for a fault of the caption, NaN in all metrics for a technical gap."""
    faults: frozenset[int]
    """Captions that are empty, were not found in the completion, or have no value by their own fault."""
    gaps: Mapping[int, str]
    """The reason why a caption has no reward, although it may be a good one."""

    def list_rewards(self, rewards: Floats) -> list[float | None]:
        """Return a reward for each caption, as trainers expect them; None for a technical gap."""
        values: list[float | None] = rewards.tolist()
        for index in self.gaps:
            values[index] = None
        return values

    @property
    def missing(self) -> float:
        """The share of captions without a reward."""
        return len(self.gaps) / max(len(self.rollouts.texts), 1)

    @property
    def floored(self) -> float:
        """The share of captions that got the floor of a metric."""
        return len(self.faults) / max(len(self.rollouts.texts), 1)


@dataclass
class _Remembered:
    batch: Future[ScoredBatch] = field(default_factory=Future)
    seen: set[str] = field(default_factory=set)


class Panel:
    """Metrics with their references, images and models: prepared once, shared by all rewards and threads.

    A pickle leaves out models and remembered batches.
    """

    def __init__(
        self,
        metrics: Sequence[Metric],
        references: Any,
        images: Any,
        reader: RolloutReader,
        floors: Mapping[str, float] | None = None,
        runtime: Runtime | None = None,
        watched: Sequence[Metric] = (),
        clip: Any = None,
        scale: Any = None,
        language: str | None = None,
    ) -> None:
        """Prepare the metrics, and the watched ones, which no reward uses."""
        self.metrics = tuple(metrics)
        self.prepared = tuple(dict.fromkeys([*metrics, *watched]))
        # The language of items that come with a batch.
        self.language = "" if language is None else language
        if language is not None:
            find_language(language)
            for metric in self.prepared:
                metric.refuse_language(language)
        self.runtime = _divide_limits(runtime, self.prepared)
        self.floors = _find_floors(metrics, floors or {})
        in_columns = references is None and images is None
        needs = {need for metric in self.prepared for need in metric.needs}
        self.reader = replace(
            reader,
            references=references is None and "references" in needs,
            images=images is None and "image" in needs,
        )
        self._given = (
            None if in_columns else _make_scorer(self.prepared, references, images, self.reader, self.runtime, language)
        )
        # Columns that metrics read and that no item given by id has; batches may have them.
        self._later = frozenset(_list_batch_columns(needs, self._given))
        missing = self.reader.references or self.reader.images
        # The function from values to rewards, by written form.
        self.scalings = make_scalings(self.metrics, clip, scale, None if missing else self._given)
        # True once ids of a batch were found among those given.
        self._settled = False
        # The scorer whose models and document frequencies those of batches share; without one, the first batch's.
        self._base = self._given
        if self.reader.references:
            _refuse_corpora(self.prepared)
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._memo: OrderedDict[tuple[Any, ...], _Remembered] = OrderedDict()
        self._said: set[str] = set()
        self._last: tuple[list[Any], dict[str, list[Any]], Rollouts] | None = None

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name not in _OWN}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def sum_rewards(self, values: Mapping[str, Floats], weights: Mapping[Metric, float]) -> Floats:
        """Return the weighted sum of the rewards of each caption; NaN if it has none."""
        parts = [weight * self.scalings[str(one)](values[str(one)]) for one, weight in weights.items()]
        total: Floats = np.sum(parts, axis=0)
        return total

    def score(self, asker: str, completions: Sequence[Any], columns: Mapping[str, Any]) -> tuple[ScoredBatch, bool]:
        """Return the values of a batch, and whether the batch is new: the first reward that asks has it scored.

        Others that ask meanwhile wait for it. A reward that asks twice for equal captions is in its next batch.
        """
        rollouts = self._read_batch(completions, columns)
        key = (rollouts.texts, rollouts.ids, rollouts.references, _make_key(rollouts.fields))
        with self._lock:
            first = key not in self._memo
            remembered = self._memo.setdefault(key, _Remembered())
            new = first or asker in remembered.seen
            remembered.seen = {asker} if new else remembered.seen | {asker}
            while len(self._memo) > REMEMBERED:
                self._memo.popitem(last=False)
        if first:
            try:
                batch = self.score_rollouts(rollouts)
                self._warn(batch.gaps)
                remembered.batch.set_result(batch)
            except BaseException as error:
                with self._lock:
                    self._memo.pop(key, None)
                remembered.batch.set_exception(error)
                raise
        return remembered.batch.result(), new

    def _read_batch(self, completions: Sequence[Any], columns: Mapping[str, Any]) -> Rollouts:
        """Read the captions and items of a batch, once for all rewards: a trainer passes them the same objects."""
        lists = {name: values for name, values in columns.items() if isinstance(values, list)}
        if self._last is not None:
            texts, others, rollouts = self._last
            known = lists.keys() == others.keys() and all(_is_same(lists[name], others[name]) for name in lists)
            if known and isinstance(completions, list) and _is_same(completions, texts):
                return rollouts
        rollouts = self.reader.read(completions, columns, self._given)
        self._last = (list(completions), {name: list(values) for name, values in lists.items()}, rollouts)
        return rollouts

    def get_scorer(self, rollouts: Rollouts) -> Scorer:
        """Return the scorer for the items of a batch: those given by id, or those in its columns."""
        in_batch = self.reader.references or self.reader.images or self._later & rollouts.fields.keys()
        if self._given is not None and not in_batch:
            return self._given
        items = _collect_items(rollouts, self._given, self.language)
        with self._lock:
            if self._base is None:
                self._base = Scorer(self.prepared, references=items, runtime=self.runtime)
        return self._base.with_items(items)

    def score_rollouts(self, rollouts: Rollouts) -> ScoredBatch:
        """Score captions without the memo of batches."""
        size = len(rollouts.texts)
        scorer = self.get_scorer(rollouts)
        positions = scorer.positions(rollouts.ids)
        gaps = dict.fromkeys(np.flatnonzero(positions < 0).tolist(), UNKNOWN)
        if self._given is not None and not self._settled:
            self._fix_id_column(rollouts, len(gaps))
        faults = {index for index, text in enumerate(rollouts.texts) if not text or text.isspace()} - gaps.keys()
        scored = np.delete(np.arange(size), [*faults, *gaps])
        found = self._compute_values(
            scorer, positions[scored], [rollouts.texts[index] or "" for index in scored.tolist()]
        )
        columns = {key: np.full(size, self.floors[key]) for key in self.floors}
        for metric in self.metrics:
            own, column = found[str(metric)], columns[str(metric)]
            column[scored] = own.values
            for place, reason in own.reasons.items():
                index = int(scored[place])
                if reason == metric.undefined_reason and metric.undefined_by_caption:
                    faults.add(index)
                    column[index] = self.floors[str(metric)]
                else:
                    gaps.setdefault(index, f"{metric.label}: {reason}")
            for index in np.flatnonzero(~np.isfinite(column)).tolist():
                gaps.setdefault(index, f"{metric.label}: the value is not finite")
        for column in columns.values() if gaps else ():
            column[list(gaps)] = np.nan
        return ScoredBatch(rollouts, columns, frozenset(faults - gaps.keys()), gaps)

    def refuse_unknown(self, ids: Sequence[str]) -> None:
        """Raise InputError for items of a probe set that cannot be scored without a batch."""
        if self._given is None or self.reader.references or self.reader.images:
            raise InputError("probe=... needs the references and images of its items by id: references=..., images=...")
        if self._later:
            raise InputError(
                f"probe=... needs the {min(self._later)!r} of its items by id, as a column of references=..."
            )
        if unknown := [key for key in ids if key not in self._given]:
            raise InputError(f"probe: {unknown[0]!r} is not among the references or images")

    def _fix_id_column(self, rollouts: Rollouts, unknown: int) -> None:
        """Keep the id column of the first batch; raise InputError if no id is known, or objects are missing."""
        assert self._given is not None
        if OBJECT_COLUMN in self._later and OBJECT_COLUMN not in rollouts.fields:
            metric = next(one for one in self.prepared if "objects" in one.needs)
            raise InputError(f"{metric} needs objects{metric.hint('no objects')}")
        if rollouts.ids and unknown == len(rollouts.ids):
            raise InputError(
                f"column {rollouts.id_column!r}: no id, such as {rollouts.ids[0]!r}, is one of the references or "
                f"images, which have such as {self._given.ids[0]!r}"
            )
        self.reader = replace(self.reader, id_column=rollouts.id_column)
        self._settled = True

    def _compute_values(self, scorer: Scorer, positions: Ints, texts: Sequence[str]) -> dict[str, CaptionValues]:
        """Return the values of captions by every metric. All judges are asked at once, while the others score."""
        judges = [metric for metric in self.metrics if "judge" in metric.needs]
        others = [metric for metric in self.metrics if metric not in judges]
        if not judges:
            return _score_together(scorer, positions, texts, others)
        with ThreadPoolExecutor(len(judges)) as pool:
            asked = {
                str(one): pool.submit(contextvars.copy_context().run, _ask_judge, scorer, positions, texts, one)
                for one in judges
            }
            found = _score_together(scorer, positions, texts, others) if others else {}
            return {**found, **{key: one.result() for key, one in asked.items()}}

    def _warn(self, gaps: Mapping[int, str]) -> None:
        """Warn about each reason once; training continues."""
        for reason, number in Counter(gaps.values()).items():
            if reason not in self._said:
                self._said.add(reason)
                warnings.warn(
                    f"captious: {number} captions of a batch have no reward ({reason}); this warning is given once",
                    RuntimeWarning,
                    stacklevel=2,
                )


def _make_key(fields: Mapping[str, tuple[Any, ...]]) -> tuple[Any, ...]:
    """Return a key for the columns of a batch; images by their address, because a remembered batch keeps them alive."""
    return tuple((name, *map(id if name == "image" else repr, values)) for name, values in fields.items())


def _is_same(one: list[Any], other: list[Any]) -> bool:
    """Return True if two lists contain the same objects."""
    return len(one) == len(other) and all(map(is_, one, other))


def _score_together(
    scorer: Scorer, positions: Ints, texts: Sequence[str], metrics: Sequence[Metric]
) -> dict[str, CaptionValues]:
    """Return the values of captions by metrics without a judge."""
    try:
        return {str(metric): found for metric, found in scorer.explain_values_at(positions, texts, metrics).items()}
    except Exception:
        return {str(metric): _score_one_by_one(scorer, positions, texts, metric) for metric in metrics}


def _ask_judge(scorer: Scorer, positions: Ints, texts: Sequence[str], judge: Metric) -> CaptionValues:
    """Return the values by a judge; after a failure (server down, limit reached) it is not asked again."""
    try:
        return scorer.explain_values_at(positions, texts, [judge])[str(judge)]
    except Exception as error:
        return CaptionValues(np.full(len(texts), np.nan), dict.fromkeys(range(len(texts)), format_one_line(error)))


def _score_one_by_one(scorer: Scorer, positions: Ints, texts: Sequence[str], metric: Metric) -> CaptionValues:
    """Score captions singly after scoring them together failed; a caption that fails again has no value."""
    values, reasons = np.full(len(texts), np.nan), dict[int, str]()
    for index, text in enumerate(texts):
        try:
            alone = scorer.explain_values_at(positions[index : index + 1], [text], [metric])[str(metric)]
        except Exception as error:
            reasons[index] = format_one_line(error)
            continue
        values[index] = alone.values[0]
        if alone.reasons:
            reasons[index] = alone.reasons[0]
    return CaptionValues(values, reasons)


def _make_scorer(
    metrics: Sequence[Metric],
    references: Any,
    images: Any,
    reader: RolloutReader,
    runtime: Runtime | None,
    language: str | None,
) -> Scorer:
    """Return the scorer of references or images that are given by id; missing inputs come with each batch."""
    wanted: dict[Need, bool] = {"references": reader.references, "image": reader.images, "objects": True}
    return Scorer(
        metrics,
        references=references,
        images=images,
        runtime=runtime,
        language=language,
        later=[need for need, later in wanted.items() if later],
    )


def _list_batch_columns(needs: Collection[Need], given: Scorer | None) -> list[str]:
    """Return the columns of objects and styles that metrics need and that no given item has."""
    if given is None:
        return []
    items, columns = given.take(given.ids), {"objects": OBJECT_COLUMN, "style": STYLE_COLUMN}
    return [name for need, name in columns.items() if need in needs and not has_column(items, name)]


def _collect_items(rollouts: Rollouts, given: Scorer | None, language: str) -> CaptionSet:
    """Return the items of a batch, each once, from its columns and from the inputs given by id."""
    first = {key: index for index, key in reversed(list(enumerate(rollouts.ids)))}
    chosen = sorted(first.values())
    if given is not None:
        chosen = [index for index in chosen if rollouts.ids[index] in given]
    ids = tuple(rollouts.ids[index] for index in chosen)
    fields = {name: tuple(values[index] for index in chosen) for name, values in rollouts.fields.items()}
    if given is not None:
        items = given.take(ids)
        references, language = items.references, items.language
        fields = {**items.columns, **fields}
    if rollouts.references is not None:
        references = Ragged.of([rollouts.references[index] for index in chosen])
    elif given is None:
        references = Ragged.of([()] * len(ids))
    return CaptionSet(ids, Ragged.of([()] * len(ids)), references, fields, name="batch", language=language)


def _refuse_corpora(metrics: Sequence[Metric]) -> None:
    """Raise InputError for metrics that must know all references if these come with the batches."""
    for metric in metrics:
        if metric.needs_corpus:
            hint = ", or cider(idf=NAME) with document frequencies of a corpus" if metric.name == "cider" else ""
            raise InputError(f"{metric} must know all references before the first batch: pass references=...{hint}")


def _find_floors(metrics: Sequence[Metric], floors: Mapping[str, float]) -> dict[str, float]:
    """Return the reward of an empty caption by each metric: its worst value, or the given one."""
    labels = {str(metric): metric.label for metric in metrics}
    given: dict[str, float] = {}
    for name, value in floors.items():
        if not is_number(value):
            raise InputError(f"floors: {value!r} for {name}, expected a number")
        given[find_key(name, labels, "floors")] = float(value)
    found = {}
    for metric in metrics:
        worst = given.get(str(metric), float(metric.range[0] if metric.higher_is_better else metric.range[1]))
        if not math.isfinite(worst):
            hint = f"pass one for empty captions, floors={{'{metric.name}': ...}}"
            raise InputError(f"{metric} has no worst value: {hint}")
        found[str(metric)] = worst
    return found


def _divide_limits(runtime: Runtime | None, metrics: Sequence[Metric]) -> Runtime | None:
    """Return the runtime of one of several processes: they share the limits of judges, which must have one."""
    if not any("judge" in metric.needs for metric in metrics):
        return runtime
    runtime = runtime or get_runtime()
    judging = runtime.judging
    if judging.most_tokens is None and judging.most_cost is None and not judging.replay:
        raise InputError(
            "a judge as a reward needs a limit: pass runtime=Runtime(judging=Judging(most_tokens=...)), or most_cost"
        )
    ranks = max(int(os.environ.get("WORLD_SIZE", "1") or 1), 1)
    tokens = None if judging.most_tokens is None else max(judging.most_tokens // ranks, 1)
    cost = None if judging.most_cost is None else judging.most_cost / ranks
    return replace(runtime, judging=replace(judging, most_tokens=tokens, most_cost=cost))
