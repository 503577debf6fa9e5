"""The two passes of a worker over a shard: pass 1 prepares the states of metrics, pass 2 scores and writes.

A pass is the setup that workers get, pickled. A worker calls it once, which loads models and opens merged states, and
calls the function that comes back for shard after shard::

    PreparationPass()(shard)    captions of the shard ──▶ a state for each metric that needs the corpus
    ScoringPass()(shard)        captions of the shard, merged states ──▶ items, statistics and summary of one part
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.check import find_misleading
from captious.io.shards import Shard, read_shard
from captious.metrics.chunks import measure_shard, prepare_shard
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.models.store import close_stores
from captious.options import Reading, get_runtime
from captious.runs.folder import Run
from captious.runs.run_tables import (
    add_metric_columns,
    add_metric_rows,
    hash_types,
    hide_machine_paths,
    make_items_table,
    make_rows_table,
)
from captious.runs.shards.shard_plan import need_columns, need_images
from captious.runs.stored_states import CorpusStates, Members
from captious.runs.summary import PartSummary, summarize_part


@dataclass(frozen=True)
class ShardOutcome:
    """The result that a worker reports for a shard. The scores are in the folder."""

    items: int
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Metrics that can score no item of the shard because an input is missing, each with its error line."""
    conflict: str = ""
    """The reason why the scores cannot be mixed with those of the other shards; they are not written."""


@dataclass(frozen=True)
class PreparationPass:
    """Pass 1, pickled to workers: computes the state of a shard for each metric that needs the corpus."""

    run: Run
    metrics: tuple[Metric, ...]
    reading: Reading
    work_folder: str
    """The folder that relative paths start from."""

    def __call__(self) -> Callable[[Shard], ShardOutcome]:
        """Return the function that prepares one shard."""
        change_folder(self.work_folder)
        shards = self.run.marker.shards
        merged = {metric: CorpusStates(self.run, metric).find_merged(shards) for metric in self.metrics}
        return partial(self.prepare, merged)

    def prepare(self, merged: Mapping[Metric, Members], shard: Shard) -> ShardOutcome:
        """Save the states of a shard; the state is empty if a metric can use nothing of the shard.

        ``merged`` has the shards whose states were merged in an earlier run.
        """
        metrics = [one for one in self.metrics if not CorpusStates(self.run, one).is_prepared(shard, merged[one])]
        captions = read_shard(shard, self.reading, need_images(metrics), need_columns(metrics)).captions
        unfit = find_unfit(metrics, captions)
        states = prepare_shard(captions, [one for one in metrics if str(one) not in unfit]) if len(captions) else {}
        for metric in metrics:
            CorpusStates(self.run, metric).save(shard, states.get(metric))
        return ShardOutcome(len(captions), unfit)


@dataclass(frozen=True)
class ScoringPass:
    """Pass 2, pickled to workers: scores shards and writes their parts."""

    run: Run
    metrics: tuple[Metric, ...]
    """The metrics that are missing in some shard."""
    reading: Reading
    work_folder: str
    """The folder that relative paths start from."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The settings of each metric in shards that were finished before; those of other shards must agree."""
    corpora: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of the shards that a metric's corpus statistics come from, by metric."""
    store_references: bool = True

    def __call__(self) -> Callable[[Shard], ShardOutcome]:
        """Load models and open merged states, once per worker; return the function that scores one shard."""
        change_folder(self.work_folder)
        if need_images(self.metrics):
            from captious.models.clip_frames import keep_decoders

            keep_decoders()
        nothing = replace(CaptionSet.of({}), language=self.reading.language or "")
        states = {
            metric: CorpusStates(self.run, metric).open(self.corpora[str(metric)])
            if metric.needs_corpus
            else metric.prepare(nothing)
            for metric in self.metrics
        }
        return ShardScorer(self, states).score


@dataclass(frozen=True)
class ShardScorer:
    """The scorer that a worker keeps for all its shards."""

    scoring: ScoringPass
    states: Mapping[Metric, Any]

    def score(self, shard: Shard) -> ShardOutcome:
        """Read a shard, measure the missing metrics, and write its part."""
        scoring, clock = self.scoring, Clock()
        if not get_runtime().cache:
            # A feature cached from an earlier shard would change the batches, and with them the last digits of others.
            close_stores()
        clock.begin("read")
        before = self._read_existing(shard)
        wanted = self._find_missing(before)
        content = read_shard(shard, scoring.reading, images=need_images(wanted))
        captions = content.captions
        unfit = find_unfit(wanted, captions)
        measured = measure_shard(captions, wanted, self.states, clock.begin) if len(captions) else {}
        measurements = {str(metric): one for metric, one in measured.items()}
        if conflict := self._find_conflict(measurements):
            return ShardOutcome(len(captions), conflict=conflict)
        clock.begin("write")
        summary = summarize_part(
            shard.name,
            scoring.run,
            captions,
            measurements,
            size=shard.size,
            skipped=captions.skipped,
            columns=captions.origin_columns,
            references=captions.reference_range,
            faults=content.faults,
            examples=content.examples,
            warnings=tuple(finding.message for finding in find_misleading(captions)),
            corpora=scoring.corpora,
        )
        own = hide_machine_paths(captions)
        items = make_items_table(own, measurements, scoring.run.metrics, scoring.store_references)
        rows = make_rows_table(measurements) if scoring.run.has_rows and measurements else None
        if before is not None:
            with scoring.run.parquet(scoring.run.items_name(shard.name)) as file:
                items = add_metric_columns(file.read(), items, list(map(str, wanted)))
            if rows is not None and before.metrics:
                with scoring.run.parquet(scoring.run.rows_name(shard.name)) as file:
                    rows = add_metric_rows(file.read(), rows)
            summary = _combine(before, summary, scoring.run.metrics)
        scoring.run.write_part(_add_seconds(summary, before, clock), items, hash_types(measurements), rows)
        return ShardOutcome(len(captions), unfit)

    def _find_missing(self, before: PartSummary | None) -> list[Metric]:
        """Return the metrics for which a part has no values, or values of another corpus."""
        there = {one.metric: one.corpus for one in before.metrics} if before else {}
        corpora = self.scoring.corpora
        return [
            metric
            for metric in self.scoring.metrics
            if str(metric) not in there or corpora.get(str(metric), "") != there[str(metric)]
        ]

    def _read_existing(self, shard: Shard) -> PartSummary | None:
        """Return the summary of the existing part if it was scored from the shard in its present size."""
        run = self.scoring.run
        if not run.storage.exists(run.items_name(shard.name)):
            return None
        summary = run.summary(shard.name)
        return summary if run.is_current(shard, summary) else None

    def _find_conflict(self, measurements: Mapping[str, Measurement]) -> str:
        """Return an error line if a metric has other settings than in finished shards, else an empty string."""
        for key, one in measurements.items():
            now, then = one.signature.settings, self.scoring.settings.get(key, one.signature.settings)
            if dict(now) != dict(then):
                name = next(name for name in {**now, **then} if now.get(name) != then.get(name))
                return (
                    f"{self.scoring.run.address}: {key} was computed with {name}:{then.get(name)},"
                    f" now it is {name}:{now.get(name)}; pass overwrite=True to score all shards again"
                )
        return ""


def _combine(before: PartSummary, now: PartSummary, metrics: Sequence[str]) -> PartSummary:
    """Return the summary of a part with further metrics added."""
    if (before.items, before.ids) != (now.items, now.ids):
        raise InputError(f"{before.name}: contains other ids than when it was scored; pass overwrite=True")
    both = {one.metric: one for one in (*before.metrics, *now.metrics)}
    # Images are read only for metrics that need them, which may be those of the earlier part.
    columns = {**before.columns, **now.columns}
    return replace(now, metrics=tuple(both[key] for key in metrics if key in both), columns=columns)


def _add_seconds(summary: PartSummary, before: PartSummary | None, clock: Clock) -> PartSummary:
    """Return the summary with the seconds of every step, added to those of the earlier part."""
    seconds = clock.seconds()
    earlier = dict(before.seconds) if before else {}
    return replace(
        summary, seconds={**earlier, **{step: earlier.get(step, 0.0) + one for step, one in seconds.items()}}
    )


def change_folder(path: str) -> None:
    """Change to the working folder of the parent process, if it exists here."""
    with suppress(OSError):
        os.chdir(path)


class Clock:
    """Seconds by step. A step of a chunk is counted for its metric."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._step, self._start = "", time.perf_counter()

    def begin(self, step: str) -> None:
        """End the current step, if any, and begin another."""
        now = time.perf_counter()
        if self._step:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._start
        self._step, self._start = step.partition(", items ")[0], now

    def seconds(self) -> dict[str, float]:
        """End the current step, and return the seconds of all steps."""
        self.begin("")
        return self._seconds


def find_unfit(metrics: Sequence[Metric], captions: CaptionSet) -> dict[str, str]:
    """Return the metrics that can score no item because an input is missing, each with its error line."""
    unfit = {}
    for metric in metrics:
        try:
            metric.refuse_unfit(captions)
        except InputError as error:
            unfit[str(metric)] = str(error)
    return unfit
