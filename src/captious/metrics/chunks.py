"""Measuring several metrics chunk by chunk: memory and time per item do not grow with the set.

A chunk is tokenized once for all metrics, and its n-gram tables are dropped before the next chunk is read. A metric
that needs the whole corpus first, such as CIDEr its document frequencies, prepares a state on every chunk; the states
are merged, and a second pass scores. Values equal those of the set scored in one piece, to the last digit.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, compress, count
from typing import Any, TypeVar

import numpy as np

from captious._core.types import Ints
from captious.captions import CaptionSet, Ragged
from captious.metrics.abilities import ReadsFrames
from captious.metrics.contract import CandidateMetric, Metric, TokenMetric
from captious.metrics.measurement import Measurement
from captious.metrics.statistic_rows import Scored
from captious.text.idf import DocumentFrequency
from captious.text.ngram_tables import TextTable, make_table_key

# Items of a chunk; their n-gram tables take about 100 MB.
CHUNK = 10_000
# Memory budget, in bytes, of n-gram counts kept from the first pass for the second: about 700,000 items.
KEPT = 1 << 29
Progress = Callable[[str], None]
T = TypeVar("T")


def measure_all(
    captions: CaptionSet,
    metrics: Sequence[Metric],
    progress: Progress | None = None,
    chunk: int | None = None,
) -> dict[str, Measurement]:
    """Measure all metrics on a set, by written form. Raise InputError for a metric that can score no item at all.

    ``progress`` is called with the name of each step as it begins. ``chunk`` is another number of items than `CHUNK`.
    """
    for metric in metrics:
        metric.refuse_unfit(captions)
    measurements = measure_shard(captions, metrics, {}, progress, chunk)
    for metric, one in measurements.items():
        metric.refuse_empty(one, captions.name)
    return {str(metric): one for metric, one in measurements.items()}


def measure_systems(
    systems: Mapping[str, CaptionSet], metrics: Sequence[Metric], progress: Progress | None = None
) -> dict[str, dict[str, Measurement]]:
    """Measure several systems that captioned the same items.

    If all have one caption per item and the same references, metrics that allow it score them together: the references
    are then tokenized and their n-grams counted once.
    """
    step = progress or (lambda name: None)
    for captions in systems.values():
        for metric in metrics:
            metric.refuse_unfit(captions)
    joint = [metric for metric in metrics if isinstance(metric, CandidateMetric) and metric.compares_jointly]
    together: dict[str, dict[Metric, Measurement]] = {name: {} for name in systems}
    if joint and len(systems) > 1 and _are_comparable(list(systems.values())):
        together = dict(zip(systems, _measure_together(list(systems.values()), joint, step), strict=True))
    measurements = {}
    for name, captions in systems.items():
        alone = [metric for metric in metrics if metric not in together[name]]
        own = together[name] | measure_shard(captions, alone, {}, lambda what, name=name: step(f"{name}: {what}"))  # type: ignore[misc]
        for metric, one in own.items():
            metric.refuse_empty(one, captions.name)
        measurements[name] = {str(metric): own[metric] for metric in metrics}
    return measurements


def _are_comparable(systems: Sequence[CaptionSet]) -> bool:
    """Return True if all sets have the same items and references, and one candidate per item."""
    first = systems[0]
    return all(
        (one.candidates.counts == 1).all()
        and (one.ids, one.language, one.tokenizer) == (first.ids, first.language, first.tokenizer)
        and np.array_equal(one.references.offsets, first.references.offsets)
        and one.references.values == first.references.values
        for one in systems
    )


def _measure_together(
    systems: Sequence[CaptionSet], metrics: Sequence[CandidateMetric], step: Progress
) -> list[dict[Metric, Measurement]]:
    """Measure each system; the distinct candidates of an item are scored as candidates of one set."""
    first = systems[0]
    candidates, own = _find_distinct_candidates(systems)
    joined = CaptionSet(
        first.ids,
        candidates,
        first.references,
        language=first.language,
        settings=first.settings,
        tokenizer=first.tokenizer,
    )
    for one in (joined, *systems[1:]):
        one.copy_digests(first)

    def score(metric: Metric, chunk: CaptionSet, state: Any) -> Scored:
        assert isinstance(metric, CandidateMetric)
        return metric.score_candidates(chunk, state)

    states, parts, sizes = _score_by_chunk(joined, metrics, {}, step, CHUNK, score)
    measurements: list[dict[Metric, Measurement]] = [{} for _ in systems]
    for metric in metrics:
        scored = Scored.join(parts.pop(metric), sizes)
        for captions, candidate, measured in zip(systems, own.T, measurements, strict=True):
            rows = np.asarray(scored.rows).take(candidate, axis=0)
            completed = metric.fill_reasons(captions, replace(scored, rows=rows))
            measured[metric] = metric.measurement(captions, states[metric], completed)
    return measurements


def _find_distinct_candidates(systems: Sequence[CaptionSet]) -> tuple[Ragged, Ints]:
    """Return the distinct candidates of each item, and their indices by item (row) and system (column)."""
    texts = list(chain.from_iterable(zip(*(one.candidates.values for one in systems), strict=True)))
    numbering: defaultdict[str, int] = defaultdict(count().__next__)
    numbers = np.fromiter(map(numbering.__getitem__, texts), np.int64, len(texts)).reshape(-1, len(systems))
    # alike[item, system]: the first system with the same candidate.
    alike = np.stack([(numbers == column[:, None]).argmax(axis=1) for column in numbers.T], axis=1)
    new = alike == np.arange(len(systems))
    offsets = np.concatenate(([0], np.cumsum(new.sum(axis=1))))
    own = np.take_along_axis(np.cumsum(new, axis=1) - 1, alike, axis=1) + offsets[:-1, None]
    candidates = Ragged(tuple(compress(texts, new.ravel().tolist())), offsets)
    candidates.keep("distinct", (list(numbering), numbers[new]))
    return candidates, own


def measure_shard(
    captions: CaptionSet,
    metrics: Sequence[Metric],
    states: Mapping[Metric, Any],
    progress: Progress | None = None,
    chunk: int | None = None,
) -> dict[Metric, Measurement]:
    """Measure a set that may be a part of a larger one; ``states`` has the states that are prepared already."""
    step = progress or (lambda name: None)
    by_chunk = [metric for metric in metrics if metric.by_chunk]
    all_states, parts, sizes = _score_by_chunk(captions, by_chunk, states, step, chunk or CHUNK, Metric.score_set)
    measurements = {}
    for metric in by_chunk:
        measurements[metric] = metric.measurement(captions, all_states[metric], Scored.join(parts.pop(metric), sizes))
    if captions.has_videos:
        # A clip that has to be decoded for one metric is encoded for the others too.
        readers = [metric for metric in metrics if isinstance(metric, ReadsFrames)]
        captions.keep("frame encoders", [encoder for metric in readers for encoder in metric.frame_encoders()])
    for metric in metrics:
        if not metric.by_chunk:
            step(metric.label)
            measurements[metric] = metric.measure(captions, states.get(metric))
    return {metric: measurements[metric] for metric in metrics}


def prepare_shard(captions: CaptionSet, metrics: Sequence[Metric]) -> dict[Metric, Any]:
    """Prepare the states of metrics that need the whole corpus, for one part of it."""
    trees = {metric: _States() for metric in metrics if metric.by_chunk}
    for chunk, _ in _split_chunks(captions, CHUNK):
        for metric, tree in trees.items():
            state = metric.prepared(chunk)
            state.release()
            tree.add(state)
    return {metric: trees[metric].merge_added() if metric.by_chunk else metric.prepared(captions) for metric in metrics}


def _score_by_chunk(
    captions: CaptionSet,
    metrics: Sequence[Metric],
    known: Mapping[Metric, Any],
    step: Progress,
    size: int,
    score: Callable[[Metric, CaptionSet, Any], T],
) -> tuple[dict[Metric, Any], dict[Metric, list[T]], list[int]]:
    """Return the states of metrics, the result of ``score`` for each chunk, and the sizes of the chunks."""
    states = {metric: state for metric, state in known.items() if metric in metrics}
    partial_states: dict[Metric, _States] = {}
    parts: dict[Metric, list[T]] = {metric: [] for metric in metrics}
    budget = KEPT
    chunks = list(_split_chunks(captions, size))
    for chunk, position in chunks:
        prepared: dict[Metric, Any] = {}
        for metric in metrics:
            step(f"{metric.label}{position}")
            if metric.needs_corpus and metric not in states:
                prepared[metric] = metric.prepared(chunk)
                continue
            if metric not in states:
                states[metric] = metric.prepare(chunk)
            parts[metric].append(score(metric, chunk, states[metric]))
        tables = dict[Metric, TextTable]()
        if chunk is not captions:
            tables, budget = _reduce_chunk(chunk, prepared, budget)
        for metric, state in prepared.items():
            partial_states.setdefault(metric, _States()).add(state, tables.get(metric))
    waiting = list(partial_states)
    for metric in waiting:
        states[metric] = partial_states.pop(metric).merge_added()
    for chunk, position in chunks if waiting else ():
        for metric in waiting:
            if position:
                step(f"{metric.label}{position}")
            parts[metric].append(score(metric, chunk, states[metric]))
        if chunk is not captions:
            chunk.forget()
    return states, parts, [len(chunk) for chunk, _ in chunks]


def _reduce_chunk(
    chunk: CaptionSet, prepared: Mapping[Metric, Any], budget: int
) -> tuple[dict[Metric, TextTable], int]:
    """Reduce a chunk and its states to what the second pass needs.

    Tokens are always kept, n-gram counts as long as the ``budget`` of bytes allows. Return the tables that need the
    merged state, and what is left of the budget.
    """
    names: dict[Metric, str] = {one: one.tokenizer_name(chunk) for one in prepared if isinstance(one, TokenMetric)}
    tables = {name: TextTable.of(chunk, name) for name in names.values()}
    counted = [one for one, state in prepared.items() if isinstance(state, DocumentFrequency)]
    for state in prepared.values():
        state.release()
    kept = {name: replace(table) for name, table in tables.items()}
    for name in {names[one]: None for one in counted} if budget > 0 else ():
        compact = tables[name].compact()
        budget -= sum(one.nbytes for one in compact.compact_rows)
        if budget >= 0:
            kept[name] = compact
    chunk.forget()
    for name, table in kept.items():
        chunk.keep(make_table_key(name), table)
    return {one: kept[names[one]] for one in counted}, budget


def _split_chunks(captions: CaptionSet, size: int) -> Iterator[tuple[CaptionSet, str]]:
    """Yield contiguous parts of a set, each with a text for progress messages; a small set is one part."""
    if len(captions) <= size:
        yield captions, ""
        return
    for first in range(0, len(captions), size):
        end = min(first + size, len(captions))
        yield captions.part(first, end), f", items {first + 1:,} to {end:,} of {len(captions):,}"


class _States:
    """States of chunks, merged as they arrive. Those with a table are merged at the end.

    The others are merged two of a size at a time, as in a binary counter: each is merged log₂(chunks) times, and few
    are kept.
    """

    def __init__(self) -> None:
        self._merged: list[tuple[int, Any]] = []
        self._waiting: list[tuple[Any, TextTable]] = []

    def add(self, state: Any, table: TextTable | None = None) -> None:
        """Add the state of the next chunk, and its table if it needs the merged state; all chunks have one, or none."""
        if table is not None:
            self._waiting.append((state, table))
            return
        size = 1
        while self._merged and self._merged[-1][0] == size:
            state, size = self._merged.pop()[1].merge(state), 2 * size
        self._merged.append((size, state))

    def merge_added(self) -> Any:
        """Return the state of all chunks."""
        states = [state for state, _ in self._waiting] or [state for _, state in self._merged]
        return type(states[0]).merge_all(states, [table for _, table in self._waiting])
