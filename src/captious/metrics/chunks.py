"""Several metrics on one set, chunk by chunk: neither time per item nor the memory of tables grows with the set.

A chunk is tokenized once for all metrics, and its n-gram tables are gone before the next chunk is read. A metric that
must know the whole corpus first, such as CIDEr its document frequencies, prepares a state on every chunk; the states
are merged, and a second pass scores. Values are those of the set scored in one piece, to the last digit.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from typing import Any

from captious.captions import CaptionSet
from captious.metrics.contract import Metric, TokenMetric
from captious.metrics.measurement import Measurement
from captious.metrics.rows import Scored
from captious.text.tables import TextTable

CHUNK = 20_000
"""Items of a chunk: so many have n-gram tables of about 200 MB."""
Progress = Callable[[str], None]


def measure_all(
    captions: CaptionSet,
    metrics: Sequence[Metric],
    progress: Progress | None = None,
    chunk: int | None = None,
) -> dict[str, Measurement]:
    """Measurements by the written form of their metric; a metric that can score no item at all is refused.

    ``progress`` is called with the name of each step as it begins. ``chunk`` is another number of items than `CHUNK`.
    """
    for metric in metrics:
        metric.refuse_unfit(captions)
    measurements = measure_shard(captions, metrics, {}, progress, chunk)
    for metric, one in measurements.items():
        metric.refuse_empty(one, captions.name)
    return {str(metric): one for metric, one in measurements.items()}


def measure_shard(
    captions: CaptionSet,
    metrics: Sequence[Metric],
    states: Mapping[Metric, Any],
    progress: Progress | None = None,
    chunk: int | None = None,
) -> dict[Metric, Measurement]:
    """Measurements of a set that may be a part of a larger one, of which ``states`` holds what is known already."""
    step = progress or (lambda name: None)
    measurements = _by_chunk(captions, [metric for metric in metrics if metric.by_chunk], states, step, chunk or CHUNK)
    for metric in metrics:
        if not metric.by_chunk:
            step(metric.label)
            measurements[metric] = metric.measure(captions, states.get(metric))
    return {metric: measurements[metric] for metric in metrics}


def prepare_shard(captions: CaptionSet, metrics: Sequence[Metric]) -> dict[Metric, Any]:
    """What metrics that need the whole corpus must know of a part of it."""
    trees = {metric: _States() for metric in metrics if metric.by_chunk}
    for chunk, _ in _chunks(captions, CHUNK):
        for metric, tree in trees.items():
            tree.add(_prepared(metric, chunk, captions))
    return {metric: trees[metric].merged() if metric.by_chunk else metric.prepared(captions) for metric in metrics}


def _prepared(metric: Metric, chunk: CaptionSet, captions: CaptionSet) -> Any:
    """The state of a chunk; that of one among several does not keep the n-gram tables."""
    state = metric.prepared(chunk)
    if chunk is not captions:
        state.release()
    return state


def _by_chunk(
    captions: CaptionSet, metrics: Sequence[Metric], known: Mapping[Metric, Any], step: Progress, size: int
) -> dict[Metric, Measurement]:
    states = {metric: state for metric, state in known.items() if metric in metrics}
    partial_states: dict[Metric, _States] = {}
    parts: dict[Metric, list[Scored]] = {metric: [] for metric in metrics}
    tables: list[dict[str, TextTable]] = []
    for chunk, place in _chunks(captions, size):
        for metric in metrics:
            step(f"{metric.label}{place}")
            if metric.needs_corpus and metric not in states:
                partial_states.setdefault(metric, _States()).add(_prepared(metric, chunk, captions))
                continue
            if metric not in states:
                states[metric] = metric.prepare(chunk)
            parts[metric].append(metric.score(chunk, states[metric]))
        # Copies leave the n-grams behind.
        names = {metric.tokenizer for metric in partial_states if isinstance(metric, TokenMetric)}
        tables.append({name: replace(TextTable.of(chunk, name)) for name in names} if chunk is not captions else {})
    states |= {metric: tree.merged() for metric, tree in partial_states.items()}
    for (chunk, place), by_tokenizer in zip(_chunks(captions, size) if partial_states else (), tables, strict=False):
        for name in list(by_tokenizer):
            chunk.once(("tokens", name), partial(by_tokenizer.pop, name))
        for metric in partial_states:
            if place:
                step(f"{metric.label}{place}")
            parts[metric].append(metric.score(chunk, states[metric]))
    sizes = [len(chunk) for chunk, _ in _chunks(captions, size)]
    measurements = {}
    for metric in metrics:
        measurements[metric] = metric.measurement(captions, states[metric], Scored.joined(parts.pop(metric), sizes))
    return measurements


def _chunks(captions: CaptionSet, size: int) -> Iterator[tuple[CaptionSet, str]]:
    """Contiguous parts of a set, each with its place among them in words; a small set is one part."""
    if len(captions) <= size:
        yield captions, ""
        return
    for first in range(0, len(captions), size):
        end = min(first + size, len(captions))
        yield captions.part(first, end), f", items {first + 1:,} to {end:,} of {len(captions):,}"


class _States:
    """States of chunks, merged two of a size at a time: each is merged log₂(chunks) times, and few are held."""

    def __init__(self) -> None:
        self._merged: list[tuple[int, Any]] = []

    def add(self, state: Any) -> None:
        """Add the state of the next chunk."""
        size = 1
        while self._merged and self._merged[-1][0] == size:
            state, size = self._merged.pop()[1].merge(state), 2 * size
        self._merged.append((size, state))

    def merged(self) -> Any:
        """The state of all chunks."""
        return reduce(lambda one, other: one.merge(other), (state for _, state in self._merged))
