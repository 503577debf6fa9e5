"""``captious.score_shards``: metrics over shards, each read, scored and written by one worker, and a report of all.

A metric that needs the whole corpus first, such as CIDEr its document frequencies, takes two passes. Pass 1 writes the
state of every shard. These are merged into one file, which pass 2 opens memory-mapped. Pass 2 reads and tokenizes the
shards again: their token tables are larger than the shards themselves, and are made faster than read from a disk.
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from types import NoneType
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._files import digest
from captious._hashing import Hashes, text_hashes
from captious._specs import split
from captious._typing import Ints
from captious.captions import CaptionSet
from captious.engines.processes import process_count, visible_gpus
from captious.engines.tasks import run_tasks
from captious.errors import InputError
from captious.evaluation import Specs, metric_specs, settings_of
from captious.io.check import findings_that_mislead
from captious.io.shards import Shard, expand, read_shard
from captious.io.storage import Storage, split_address
from captious.metrics.chunks import measure_shard, prepare_shard
from captious.metrics.contract import Metric
from captious.metrics.judges.dry_run import DryRun, dry_run
from captious.metrics.judges.judged import CallPlan
from captious.metrics.measurement import Measurement
from captious.metrics.registry import ALL, DEFAULT, parse_all
from captious.metrics.rows import TypeSets
from captious.models.decoding import DECODERS
from captious.models.devices import resolve_device
from captious.models.store import close_stores
from captious.options import Engine, Judging, Reading, Resampling, Runtime, current, using
from captious.scale.folder import Manifest, ShardFolder
from captious.scale.report import ShardReport
from captious.scale.states import CorpusStates
from captious.scale.summary import MetricSummary, ShardSummary, ids_fingerprint

if TYPE_CHECKING:
    import pyarrow as pa

LISTED = 5
"""Failed shards that are named."""


class ShardsFailed(InputError):
    """Some shards could not be scored; the others are, and stay so."""

    def __init__(self, folder: str, failures: Mapping[str, str], shards: int) -> None:
        self.failures = dict(failures)
        """The line that says why, by the name of the shard."""
        names = [*list(failures)[:LISTED], *(["…"] if len(failures) > LISTED else [])]
        failed = f"{len(failures):,} of {shards:,} shards failed ({', '.join(names)})"
        self.summary = f"{folder}: {failed}; the same again goes on with them"
        if shards == 1:
            (self.summary,) = failures.values()
            super().__init__(self.summary)
            return
        lines = [f"{name}: {line}" for name, line in list(failures.items())[:LISTED]]
        rest = [f"and {len(failures) - LISTED:,} more"] if len(failures) > LISTED else []
        super().__init__("\n".join([self.summary, *lines, *rest]))


def score_shards(
    source: Any,
    metrics: Specs = DEFAULT,
    *,
    out: str | os.PathLike[str],
    reading: Reading = Reading(),
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    engine: Engine = Engine(),
    progress: Callable[[str], None] | None = None,
    overwrite: bool = False,
) -> ShardReport:
    """Score shards with every metric asked for, and write a folder of scores.

    A run that was stopped, or in which shards failed, is followed by the same call again: finished shards are not
    scored again. The report is written once all shards are finished. Files that the shards do not hold (references,
    images, models) and the folder must have the same path on every machine.

    Parameters
    ----------
    source
        A pattern such as ``shards/{000..499}.tar`` or ``shards/*.parquet``, an address such as ``s3://bucket/*.tar``, a
        folder of shards, or a list of these.
    metrics
        Written forms, such as ``"bleu,cider(idf=coco)"``, or metrics.
    out
        The folder to write, new or with the scores of some of these shards. It may be on an object store.
    reading
        How the shards are read. References, where they are no column of the shards, are a file.
    resampling
        How the bootstrap makes intervals; it resamples shards.
    runtime
        Where and how models run, in every worker.
    engine
        Who works on the shards. It moves no number.
    progress
        Called with what is at work whenever that changes.
    overwrite
        Replace other scores that the folder holds.
    """
    resampling, runtime = settings_of(resampling, runtime, progress)
    shards = expand(source, reading.format)
    chosen = tuple(parse_all(metric_specs(metrics), _first_captions(metrics, shards, reading)))
    engine = with_gpus(engine, chosen, runtime.device)
    judging = share_of_worker(runtime.judging, chosen, engine, len(shards))
    runtime = replace(runtime, cache=runtime.cache and engine.store_features, judging=judging)
    refuse_unready(engine)
    manifest = Manifest(tuple(map(str, chosen)), shards, reading_facts(reading))
    folder = ShardFolder.open(out, manifest, overwrite)
    try:
        with using(runtime):
            Run(folder, chosen, reading, engine, progress or (lambda step: None)).score()
    finally:
        DECODERS.close()  # of the serial executor; those of other workers end with them
    folder.tidy()
    report = ShardReport.of(folder, resampling)
    report.write()
    return report


def with_gpus(engine: Engine, metrics: Sequence[Metric], device: str) -> Engine:
    """The engine with a GPU for each process where models run on GPUs: one process per core would load a model each.

    On a cluster ``gpus`` says it.
    """
    models = any("model" in metric.needs for metric in metrics)
    if engine.engine in ("serial", "ray") or engine.gpus or not models or not visible_gpus():
        return engine
    if resolve_device(device).type != "cuda":
        return engine
    return replace(engine, gpus=1.0) if device in ("auto", "cuda") else replace(engine, jobs=engine.jobs or 1)


def refuse_unready(engine: Engine) -> None:
    """Say that Ray is not installed before other scores are replaced."""
    if engine.engine == "ray":
        from captious.engines.ray import import_ray

        import_ray()


def share_of_worker(judging: Judging, metrics: Sequence[Metric], engine: Engine, shards: int) -> Judging:
    """What each worker may ask chat models, so that all together keep to the limits."""
    if engine.engine == "serial" or not any("judge" in metric.needs for metric in metrics):
        return judging
    if engine.engine == "ray" and not engine.jobs:
        raise InputError("metrics that ask a chat model share its limits over the workers; pass jobs=..., their number")
    workers = min(engine.jobs, shards) if engine.engine == "ray" else process_count(engine, shards)
    return replace(
        judging,
        concurrency=max(1, judging.concurrency // workers),
        most_tokens=judging.most_tokens and max(1, judging.most_tokens // workers),
        most_cost=judging.most_cost and judging.most_cost / workers,
    )


def plan_shards(
    source: Any, metrics: Specs, reading: Reading = Reading(), progress: Callable[[str], None] | None = None
) -> DryRun:
    """What chat models would be asked about all shards, before anything is sent."""
    shards = expand(source, reading.format)
    chosen = parse_all(metric_specs(metrics), _first_captions(metrics, shards, reading))
    plans: dict[tuple[str, str], CallPlan] = {}
    for number, shard in enumerate(shards, 1):
        if progress:
            progress(f"shard {number:,} of {len(shards):,}")
        captions = read_shard(shard, reading, images=need_images(chosen)).captions
        for (_, metric), calls in dry_run({shard.name: captions}, chosen).plans.items():
            key = (f"{len(shards):,} shards", metric)
            plans[key] = plans.get(key, CallPlan()) + calls
    return DryRun(plans, current().judging.prices)


def _first_captions(metrics: Specs, shards: Sequence[Shard], reading: Reading) -> list[CaptionSet] | None:
    """The captions that say which metrics ``all`` stands for; None where it is not asked for."""
    specs = [metrics] if isinstance(metrics, str) else metrics if isinstance(metrics, (list, tuple)) else []
    wanted = any(isinstance(spec, str) and ALL in map(str.lower, split(spec)) for spec in specs)
    return [read_shard(shards[0], reading, images=False).captions] if wanted else None


def reading_facts(reading: Reading) -> dict[str, Any]:
    """Options of reading that are not at their default, for the manifest; references by the content of their file."""
    facts: dict[str, Any] = {}
    for option in fields(reading):
        value = getattr(reading, option.name)
        if option.name in ("references", "images") and not isinstance(value, (str, os.PathLike, NoneType)):
            raise InputError(f"{option.name}: {type(value).__name__}, expected a path that every worker can read")
        if value != option.default:
            facts[option.name] = value if isinstance(value, bool) else os.fspath(value)
    if reading.references is not None:
        folder, name = split_address(os.fspath(reading.references))
        facts["references"] += f"#{digest(Storage.at(folder).read(name))}"
    return facts


@dataclass(frozen=True)
class Run:
    """The work of one call: what is left of both passes."""

    folder: ShardFolder
    metrics: tuple[Metric, ...]
    reading: Reading
    engine: Engine
    step: Callable[[str], None]

    def score(self) -> None:
        """Score all shards that are not finished. Where not one could be worked on, no folder is left behind."""
        try:
            self._score_rest(self.folder.finished())
            if not any(summary.items for summary in self.folder.finished().values()):
                self.folder.discard()
                raise InputError("shards: none of them holds an item, expected at least one that does")
        except InputError:
            if not self.folder.finished() and not any(CorpusStates(self.folder, one).begun() for one in self._corpus):
                self.folder.discard()
            raise

    @property
    def _corpus(self) -> list[Metric]:
        """Metrics that take two passes."""
        return [metric for metric in self.metrics if metric.needs_corpus]

    def _score_rest(self, finished: Mapping[str, ShardSummary]) -> None:
        left = [shard for shard in self.folder.manifest.shards if shard.name not in finished]
        if not left:
            return
        valued = {one.metric for summary in finished.values() for one in summary.metrics if one.scored}
        if unmerged := [metric for metric in self._corpus if not CorpusStates(self.folder, metric).merged()]:
            self._prepare(unmerged, valued)
        settings = {one.metric: one.signature.settings for summary in finished.values() for one in summary.metrics}
        scoring = Scoring(self.folder, self.metrics, self.reading, str(Path.cwd()), settings)
        self._work("scored", scoring, left, valued)

    def _prepare(self, metrics: Sequence[Metric], valued: set[str]) -> None:
        """Pass 1 for these metrics, and the merging of their states."""
        shards = self.folder.manifest.shards
        states = [CorpusStates(self.folder, metric) for metric in metrics]
        prepared = set.intersection(*(one.prepared() for one in states))
        left = [shard for shard in shards if shard.name not in prepared]
        preparation = Preparation(self.folder, tuple(metrics), self.reading, str(Path.cwd()))
        self._work(f"prepared for {', '.join(metric.label for metric in metrics)}", preparation, left, valued)
        for one in states:
            self.step(f"{one.metric.label}: merging the states of {len(shards):,} shards")
            one.merge()

    def _work(self, what: str, setup: Preparation | Scoring, shards: Sequence[Shard], valued: Collection[str]) -> None:
        """Work on shards; those that fail do not stop the others, and are named in the end."""
        pace = Pace(what, len(self.folder.manifest.shards), len(shards), self.step)
        failures: dict[str, str] = {}
        with closing(run_tasks(setup, shards, self.engine)) as ends:
            for end in ends:
                name = shards[end.index].name
                if end.result is None:
                    failures[name] = end.error
                elif end.index == 0:
                    self._refuse_unfit(end.result, valued)
                pace.advance(end.result, end.error and f"{name}: {end.error}")
        if failures:
            raise ShardsFailed(self.folder.address, failures, len(self.folder.manifest.shards))

    def _refuse_unfit(self, outcome: Outcome, valued: Collection[str]) -> None:
        """Stop where the first shard has nothing for a metric: the other shards will lack it too.

        A folder in which nothing was finished before is left as if it had not been begun.
        """
        for metric, line in outcome.unfit.items():
            if metric not in valued:
                if not valued:
                    self.folder.discard()
                raise InputError(line)


class Pace:
    """How far the work is: a bar of shards, and a line with the rate and the failures."""

    def __init__(self, what: str, shards: int, left: int, step: Callable[[str], None]) -> None:
        self.what, self.shards, self.done, self.step = what, shards, shards - left, step
        self.items, self.failed, self.start = 0, 0, time.perf_counter()
        self._show()

    def advance(self, outcome: Outcome | None, error: str) -> None:
        """A shard ended, well or with an error."""
        self.done += 1
        if outcome is None:
            self.failed += 1
            if self.failed <= LISTED and self.shards > 1:
                current().log(" ".join(error.split()))
        else:
            self.items += outcome.items
        self._show()

    def _show(self) -> None:
        rate = self.items / max(time.perf_counter() - self.start, 1e-9)
        parts = [f"{self.done - self.failed:,} of {self.shards:,} shards {self.what}"]
        parts += [f"{rate:,.0f} items/s"] if self.items else []
        parts += [f"{self.failed:,} failed"] if self.failed else []
        self.step(", ".join(parts))
        current().progress("shards", self.done, self.shards)


@dataclass(frozen=True)
class Outcome:
    """What came of a shard. Its scores are in the folder."""

    items: int
    unfit: Mapping[str, str] = field(default_factory=dict)
    """Metrics that can score no item of the shard because of what it lacks, each with the line that says so."""


@dataclass(frozen=True)
class Preparation:
    """Pass 1, which workers get as the setup of their tasks: the state of a shard for each metric that needs one."""

    folder: ShardFolder
    metrics: tuple[Metric, ...]
    reading: Reading
    work_folder: str
    """That relative paths mean."""

    def __call__(self) -> Callable[[Shard], Outcome]:
        """The function of a shard."""
        change_folder(self.work_folder)
        return self.prepare

    def prepare(self, shard: Shard) -> Outcome:
        """Save the states of a shard; that of a shard which has nothing for a metric is empty."""
        metrics = [metric for metric in self.metrics if shard.name not in CorpusStates(self.folder, metric).prepared()]
        captions = read_shard(shard, self.reading, images=need_images(metrics)).captions
        unfit = unfit_metrics(metrics, captions)
        states = prepare_shard(captions, [one for one in metrics if str(one) not in unfit]) if len(captions) else {}
        for metric in metrics:
            CorpusStates(self.folder, metric).save(shard, states.get(metric))
        return Outcome(len(captions), unfit)


@dataclass(frozen=True)
class Scoring:
    """Pass 2, or the only one: the setup that workers get."""

    folder: ShardFolder
    metrics: tuple[Metric, ...]
    reading: Reading
    work_folder: str
    """That relative paths mean."""
    settings: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    """Of the metrics in shards that were finished before; those of others must agree."""

    def __call__(self) -> Callable[[Shard], Outcome]:
        """The function of a shard. Models are loaded and merged states opened here, once for all shards of a worker."""
        change_folder(self.work_folder)
        DECODERS.keep()
        nothing = CaptionSet.of({})
        states = {
            metric: CorpusStates(self.folder, metric).open() if metric.needs_corpus else metric.prepare(nothing)
            for metric in self.metrics
        }
        return Scorer(self, states).score


@dataclass(frozen=True)
class Scorer:
    """What a worker keeps while it scores shard after shard."""

    scoring: Scoring
    states: Mapping[Metric, Any]

    def score(self, shard: Shard) -> Outcome:
        """Read a shard, measure it, write its file."""
        scoring, clock = self.scoring, Clock()
        if not current().cache:
            # A feature that a shard before had would leave a gap in a batch, and move the last digits of its neighbors.
            close_stores()
        clock.begin("read")
        content = read_shard(shard, scoring.reading, images=need_images(scoring.metrics))
        captions = content.captions
        unfit = unfit_metrics(scoring.metrics, captions)
        measurements: list[Measurement] = []
        if len(captions):
            measurements += measure_shard(captions, scoring.metrics, self.states, clock.begin).values()
        self._refuse_other_settings(measurements)
        clock.begin("write")
        summary = ShardSummary(
            shard=shard.name,
            manifest=scoring.folder.manifest.digest,
            size=shard.size,
            items=len(captions),
            metrics=tuple(MetricSummary.of(one, captions) for one in measurements),
            candidates=len(captions.candidates.values),
            words=int(_words(captions).sum()),
            images=sum(image is not None for image in captions.images),
            ids=ids_fingerprint(captions.ids),
            faults=content.faults,
            examples=content.examples,
            warnings=tuple(finding.message for finding in findings_that_mislead(captions)),
        )
        table, types = items_table(captions, measurements, scoring.folder.manifest.metrics), _types(measurements)
        scoring.folder.write_shard(replace(summary, seconds=clock.seconds()), table, types)
        return Outcome(len(captions), unfit)

    def _refuse_other_settings(self, measurements: Sequence[Measurement]) -> None:
        for one in measurements:
            now, then = one.signature.settings, self.scoring.settings.get(str(one.metric), one.signature.settings)
            if now != then:
                name = next(name for name in {**now, **then} if now.get(name) != then.get(name))
                raise InputError(
                    f"{self.scoring.folder.address}: {one.metric} was computed with {name}:{then.get(name)},"
                    f" now it is {name}:{now.get(name)}; pass overwrite=True to score all shards again"
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
        """Of all steps; the last one ends."""
        self.begin("")
        return self._seconds


def need_images(metrics: Sequence[Metric]) -> bool:
    """Whether any of the metrics looks at images."""
    return any("image" in metric.needs for metric in metrics)


def unfit_metrics(metrics: Sequence[Metric], captions: CaptionSet) -> dict[str, str]:
    """Metrics that can score no item because of what it lacks, each with the line that says so."""
    unfit = {}
    for metric in metrics:
        try:
            metric.refuse_unfit(captions)
        except InputError as error:
            unfit[str(metric)] = str(error)
    return unfit


def items_table(captions: CaptionSet, measurements: Sequence[Measurement], metrics: Sequence[str]) -> pa.Table:
    """The columns of a shard's file. A missing value is null, and ``unscored`` says why, as JSON by metric."""
    import pyarrow as pa

    reasons: dict[str, dict[str, str]] = {}
    for one in measurements:
        for key, reason in one.reasons.items():
            reasons.setdefault(key, {})[str(one.metric)] = reason
    values = {str(one.metric): one.values for one in measurements}
    unscored = [json.dumps(reasons[key], ensure_ascii=False) if key in reasons else None for key in captions.ids]
    return pa.table(
        {
            "id": pa.array(captions.ids, pa.string()),
            "candidates": pa.array([list(texts) for texts in captions.candidates], pa.list_(pa.string())),
            "words": pa.array(_fewest(captions), pa.int32()),
            **{metric: pa.array(values.get(metric, ()), pa.float64(), from_pandas=True) for metric in metrics},
            "unscored": pa.array(unscored, pa.string()),
        }
    )


def _words(captions: CaptionSet) -> Ints:
    """Words of each candidate."""
    texts = captions.candidates.values
    return np.fromiter((len(text.split()) for text in texts), dtype=np.int64, count=len(texts))


def _fewest(captions: CaptionSet) -> Ints:
    """Words of each item's shortest candidate, so that ``words > 4`` holds for all of them; 0 without candidates."""
    fewest = np.full(len(captions), np.iinfo(np.int64).max)
    np.minimum.at(fewest, captions.candidates.owners, _words(captions))
    return np.where(captions.candidates.counts > 0, fewest, 0)


def _types(measurements: Sequence[Measurement]) -> dict[str, Hashes]:
    """Hashes of the distinct things that metrics count, sorted."""
    return {
        str(one.metric): np.unique(text_hashes(frozenset().union(*one.rows.types)))
        for one in measurements
        if isinstance(one.rows, TypeSets)
    }
