"""What a worker does with a shard: pass 1 prepares the states of metrics, pass 2 scores and writes.

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
from captious.models.decoding import DECODERS
from captious.models.store import close_stores
from captious.options import Reading, get_runtime
from captious.runs.folder import Run
from captious.runs.shards.plan import need_columns, need_images
from captious.runs.states import CorpusStates, Members
from captious.runs.summary import PartSummary, part_summary
from captious.runs.tables import items_table, rows_table, rows_with, types_of, with_columns, without_machine_paths


@dataclass(frozen=True)
class ShardOutcome:
    """What a worker says of a shard when it is done. The scores are in the folder."""

    items: int
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Metrics that can score no item of the shard because of what it lacks, each with the line that says so."""
    conflict: str = ""
    """Why the scores do not belong to those of the other shards; they are not written."""


@dataclass(frozen=True)
class PreparationPass:
    """Pass 1, which workers get as the setup of their tasks: the state of a shard for each metric that needs one."""

    run: Run
    metrics: tuple[Metric, ...]
    reading: Reading
    work_folder: str
    """The folder that relative paths start from."""

    def __call__(self) -> Callable[[Shard], ShardOutcome]:
        """The function of a shard."""
        change_folder(self.work_folder)
        shards = self.run.marker.shards
        merged = {metric: CorpusStates(self.run, metric).merged_shards(shards) for metric in self.metrics}
        return partial(self.prepare, merged)

    def prepare(self, merged: Mapping[Metric, Members], shard: Shard) -> ShardOutcome:
        """Save the states of a shard; that of a shard which has nothing for a metric is empty.

        ``merged`` has the shards whose states were merged in an earlier run.
        """
        metrics = [one for one in self.metrics if not CorpusStates(self.run, one).is_prepared(shard, merged[one])]
        captions = read_shard(shard, self.reading, need_images(metrics), need_columns(metrics)).captions
        unfit = unfit_metrics(metrics, captions)
        states = prepare_shard(captions, [one for one in metrics if str(one) not in unfit]) if len(captions) else {}
        for metric in metrics:
            CorpusStates(self.run, metric).save(shard, states.get(metric))
        return ShardOutcome(len(captions), unfit)


@dataclass(frozen=True)
class ScoringPass:
    """Pass 2, or the only one: the setup that workers get."""

    run: Run
    metrics: tuple[Metric, ...]
    """The metrics that some shard lacks."""
    reading: Reading
    work_folder: str
    """The folder that relative paths start from."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """The settings of each metric in shards that were finished before; those of other shards must agree."""
    corpora: Mapping[str, str] = field(default_factory=dict)
    """The fingerprint of the shards that a metric's corpus statistics come from, by metric."""
    store_references: bool = True

    def __call__(self) -> Callable[[Shard], ShardOutcome]:
        """The function of a shard. Models are loaded and merged states opened here, once for all shards of a worker."""
        change_folder(self.work_folder)
        DECODERS.keep()
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
    """What a worker keeps while it scores shard after shard."""

    scoring: ScoringPass
    states: Mapping[Metric, Any]

    def score(self, shard: Shard) -> ShardOutcome:
        """Read a shard, measure what it lacks, write its part."""
        scoring, clock = self.scoring, Clock()
        if not get_runtime().cache:
            # A feature that a shard before had would leave a gap in a batch, and move the last digits of its neighbors.
            close_stores()
        clock.begin("read")
        before = self._before(shard)
        wanted = self._wanted(before)
        content = read_shard(shard, scoring.reading, images=need_images(wanted))
        captions = content.captions
        unfit = unfit_metrics(wanted, captions)
        measured = measure_shard(captions, wanted, self.states, clock.begin) if len(captions) else {}
        measurements = {str(metric): one for metric, one in measured.items()}
        if conflict := self._conflict(measurements):
            return ShardOutcome(len(captions), conflict=conflict)
        clock.begin("write")
        summary = part_summary(
            shard.name,
            scoring.run,
            captions,
            measurements,
            size=shard.size,
            skipped=captions.skipped,
            faults=content.faults,
            examples=content.examples,
            warnings=tuple(finding.message for finding in find_misleading(captions)),
            corpora=scoring.corpora,
        )
        own = without_machine_paths(captions)
        items = items_table(own, measurements, scoring.run.metrics, scoring.store_references)
        rows = rows_table(measurements) if scoring.run.has_rows and measurements else None
        if before is not None:
            with scoring.run.parquet(scoring.run.items_name(shard.name)) as file:
                items = with_columns(file.read(), items, list(map(str, wanted)))
            if rows is not None and before.metrics:
                with scoring.run.parquet(scoring.run.rows_name(shard.name)) as file:
                    rows = rows_with(file.read(), rows)
            summary = _combined(before, summary, scoring.run.metrics)
        scoring.run.write_part(_timed(summary, before, clock), items, types_of(measurements), rows)
        return ShardOutcome(len(captions), unfit)

    def _wanted(self, before: PartSummary | None) -> list[Metric]:
        """The metrics that a part has no values of, or those of another corpus."""
        there = {one.metric: one.corpus for one in before.metrics} if before else {}
        corpora = self.scoring.corpora
        return [
            metric
            for metric in self.scoring.metrics
            if str(metric) not in there or corpora.get(str(metric), "") != there[str(metric)]
        ]

    def _before(self, shard: Shard) -> PartSummary | None:
        """The summary of the part that already exists, of the shard as it is now."""
        run = self.scoring.run
        if not run.storage.exists(run.items_name(shard.name)):
            return None
        summary = run.summary(shard.name)
        return summary if run.is_current(shard, summary) else None

    def _conflict(self, measurements: Mapping[str, Measurement]) -> str:
        """The line that says that a metric has other settings than in shards that were finished before."""
        for key, one in measurements.items():
            now, then = one.signature.settings, self.scoring.settings.get(key, one.signature.settings)
            if dict(now) != dict(then):
                name = next(name for name in {**now, **then} if now.get(name) != then.get(name))
                return (
                    f"{self.scoring.run.address}: {key} was computed with {name}:{then.get(name)},"
                    f" now it is {name}:{now.get(name)}; pass overwrite=True to score all shards again"
                )
        return ""


def _combined(before: PartSummary, now: PartSummary, metrics: Sequence[str]) -> PartSummary:
    """The summary of a part to which metrics were added."""
    if (before.items, before.ids) != (now.items, now.ids):
        raise InputError(f"{before.name}: contains other ids than when it was scored; pass overwrite=True")
    both = {one.metric: one for one in (*before.metrics, *now.metrics)}
    return replace(now, metrics=tuple(both[key] for key in metrics if key in both))


def _timed(summary: PartSummary, before: PartSummary | None, clock: Clock) -> PartSummary:
    """The summary with the seconds of every step, added to those of the part that was there before."""
    seconds = clock.seconds()
    earlier = dict(before.seconds) if before else {}
    return replace(
        summary, seconds={**earlier, **{step: earlier.get(step, 0.0) + one for step, one in seconds.items()}}
    )


def change_folder(path: str) -> None:
    """Work in the folder of the process that started this one, where there is such a folder."""
    with suppress(OSError):
        os.chdir(path)


class Clock:
    """Seconds by step. The step of a chunk counts for that of its metric."""

    def __init__(self) -> None:
        self._seconds: dict[str, float] = {}
        self._step, self._start = "", time.perf_counter()

    def begin(self, step: str) -> None:
        """End the step at work, if any, and begin another."""
        now = time.perf_counter()
        if self._step:
            self._seconds[self._step] = self._seconds.get(self._step, 0.0) + now - self._start
        self._step, self._start = step.partition(", items ")[0], now

    def seconds(self) -> dict[str, float]:
        """End the step at work, and give the seconds of all steps."""
        self.begin("")
        return self._seconds


def unfit_metrics(metrics: Sequence[Metric], captions: CaptionSet) -> dict[str, str]:
    """Metrics that can score no item because of what it lacks, each with the line that says so."""
    unfit = {}
    for metric in metrics:
        try:
            metric.refuse_unfit(captions)
        except InputError as error:
            unfit[str(metric)] = str(error)
    return unfit
