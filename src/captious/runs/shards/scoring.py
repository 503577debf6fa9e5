"""``captious.score_shards``: metrics over shards, each read, scored and written by one worker, and a report of all.

A metric that needs the whole corpus first, such as CIDEr its document frequencies, takes two passes::

    shard 1 ─▶ state 1 ─┐                ┌─▶ part 1 ─┐
    shard 2 ─▶ state 2 ─┼▶ merged state ─┼─▶ part 2 ─┼▶ report
    shard 3 ─▶ state 3 ─┘                └─▶ part 3 ─┘
       pass 1 (workers)  (this process)   pass 2 (workers)

Pass 2 opens the merged state memory-mapped, and reads and tokenizes the shards again: their token tables are larger
than the shards themselves, and are made faster than read from a disk. Other metrics need only pass 2. Finished
parts are not computed again.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.hashing import Hashes
from captious.engines.tasks import Finished, describe_deaths, run_tasks
from captious.errors import InputError
from captious.io.read import reading_of
from captious.io.shards import Shard, expand
from captious.metrics.contract import Metric, refuse_batches
from captious.metrics.registry import DEFAULT, parse
from captious.metrics.requests import Specs
from captious.options import Engine, Missing, Reading, Resampling, Runtime, check_settings, get_runtime, using
from captious.runs.folder import FAILED, Run
from captious.runs.marker import COLUMNS, Marker
from captious.runs.report import Report, make_report
from captious.runs.report_sections import list_shard_warnings
from captious.runs.shards._passes import PreparationPass, ScoringPass, ShardOutcome
from captious.runs.shards.shard_plan import (
    assign_gpus,
    claim_folder,
    collect_reading_facts,
    divide_limits,
    need_images,
    parse_for_shards,
    refuse_unready,
)
from captious.runs.source import PART, StoredItems
from captious.runs.stored_states import CorpusStates
from captious.runs.summary import PartSummary, merge_origins

if TYPE_CHECKING:
    import pyarrow as pa

# Number of failed shards that are named.
LISTED = 5


class ShardsFailed(InputError):
    """Raised if not a single shard could be scored."""

    def __init__(self, folder: str, failures: Mapping[str, str], shards: int) -> None:
        # The line that says why, by the name of the shard.
        self.failures = dict(failures)
        lines = [f"{folder}: {format_failures(failures, shards)}; the same again tries them again"]
        lines += [f"{name}: {line}" for name, line in list(failures.items())[:LISTED]]
        lines += [f"and {len(failures) - LISTED:,} more"] if len(failures) > LISTED else []
        super().__init__("\n".join(lines) if shards > 1 else next(iter(failures.values())))


def format_failures(failures: Collection[str], shards: int) -> str:
    """Return the number of failed shards and their names as text.

    >>> format_failures(["part-2"], 4)
    '1 of 4 shards failed (part-2)'
    """
    names = [*list(failures)[:LISTED], *(["…"] if len(failures) > LISTED else [])]
    return f"{len(failures):,} of {shards:,} shards failed ({', '.join(names)})"


def score_shards(
    source: Any,
    metrics: Specs = DEFAULT,
    *,
    out: str | os.PathLike[str],
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    reading: Reading = Reading(),
    engine: Engine = Engine(),
    add: Specs | None = None,
    store_references: bool = True,
    store_rows: bool = True,
    overwrite: bool = False,
) -> Report:
    """Score shards with all metrics, and write the folder of a run.

    The same call resumes a run that was stopped: finished shards are not scored again. The same call with more shards
    adds them. A shard that cannot be scored is left out: the report's ``failed`` has the reason, and the same call
    tries it again. Files outside the shards (references, images, models) and the folder must have the same path on
    every machine.

    Parameters
    ----------
    source
        A pattern such as ``shards/{000..499}.tar`` or ``shards/*.parquet``, an address such as ``s3://bucket/*.tar``, a
        folder of shards, or a list of these.
    metrics
        Written forms, such as ``"bleu,cider(idf=coco)"``, or metrics.
    out
        The folder to write, new or with the scores of some of these shards. It may be on an object store.
    resampling
        How the bootstrap makes intervals. It resamples items, as for a file; of more than 200,000 items, or without
        their statistics, it resamples shards.
    runtime
        Where and how models run, in every worker.
    progress
        Called with a line of progress whenever it changes.
    references, images
        The file of the references, and the folder of the images, if the shards do not contain them.
    missing, language
        As in ``evaluate``.
    reading
        Options of reading; it may contain the four before it as well.
    engine
        The workers. Results do not depend on it.
    add
        Metrics to add to those of the folder; only these are computed, and ``metrics`` is ignored.
    store_references
        Whether to store the references of the items too.
    store_rows
        Whether to store the statistics of the items too, from which other commands compare runs item by item.
    overwrite
        Replace other scores in the folder.
    """
    resampling, runtime = check_settings(resampling, runtime, progress)
    reading = reading_of(reading, references, images, missing, language)
    shards = expand(source, reading.format)
    chosen = parse_for_shards(metrics if add is None else add, shards, reading)
    for metric in chosen:
        metric.refuse_language(reading.language or "")
        refuse_batches(metric, "shards")
    engine = assign_gpus(engine, chosen, runtime.device)
    judging = divide_limits(runtime.judging, chosen, engine, len(shards))
    runtime = replace(runtime, cache=runtime.cache and engine.store_features, judging=judging)
    refuse_unready(engine)
    facts = collect_reading_facts(reading, store_references, store_rows)
    run = claim_folder(out, chosen, shards, facts, add=add is not None, overwrite=overwrite)
    known = {str(metric): metric for metric in chosen}
    every = [known.get(key) or parse(key) for key in run.metrics]
    stored = run.marker.reading.get("store_references") is not False
    work = ShardScoring(run, tuple(every), reading, engine, progress or (lambda step: None), stored)
    with using(runtime), _log_interruption(work):
        try:
            failed = work.score()
        finally:
            # Those of the serial executor; those of other workers end with them.
            if need_images(every):
                from captious.models.clip_frames import close_decoders

                close_decoders()
    return _finish(replace(run, marker=work.marker), every, resampling, failed)


@contextmanager
def _log_interruption(work: ShardScoring) -> Iterator[None]:
    """Log the progress if the work is interrupted."""
    try:
        yield
    except KeyboardInterrupt:
        run, shards = work.run, work.run.marker.shards
        done = sum(not work.find_missing(one, {}) for one in run.find_finished().values())
        get_runtime().log(
            f"{run.address}: stopped, {done:,} of {len(shards):,} shards are scored; run the same again to resume"
        )
        raise


def _finish(run: Run, metrics: Sequence[Metric], resampling: Resampling, failed: Mapping[str, str]) -> Report:
    """Return the report of all scored shards, and write it with the marker into the folder."""
    run.tidy()
    finished = {name: one for name, one in run.find_finished().items() if name not in failed}
    columns = merge_origins(finished.values())
    marker = replace(
        run.marker,
        reading={**run.marker.reading_options, **({COLUMNS: columns} if columns else {})},
        items=sum(one.items for one in finished.values()),
        skipped=sum(one.skipped for one in finished.values()),
        parts={name: one.items for name, one in finished.items()},
        failed=dict(failed),
        complete=True,
    )
    repeated = find_repeated_ids(replace(run, marker=marker))
    # Resample items, as for a file, unless they are too many for memory.
    by_item = run.has_rows and marker.items <= PART and not repeated[0]
    run = replace(run, marker=replace(marker, unit="item" if by_item else "shard"))
    report = make_report(run, resampling, {str(metric): metric for metric in metrics})
    by_shard = bool(report.intervals) and not by_item
    warnings = list_shard_warnings(report.parts, failed, repeated, by_shard)
    report = replace(report, warnings=tuple(warnings))
    run = replace(run, marker=report.marker(marker.parts))
    report = replace(report, source=StoredItems(run, report.parts))
    if failed:
        addresses = {shard.name: shard.address for shard in marker.shards}
        lines = [f"{addresses[name]}\t{' '.join(line.split())}\n" for name, line in failed.items()]
        run.storage.write(FAILED, "".join(lines).encode("utf-8", "replace"))
    else:
        run.storage.remove(FAILED)
    report.write()
    return report


@dataclass(frozen=True)
class ShardScoring:
    """The work of one call: the unfinished shards of both passes."""

    run: Run
    metrics: tuple[Metric, ...]
    reading: Reading
    engine: Engine
    step: Callable[[str], None]
    store_references: bool = True
    events: list[str] = field(default_factory=list)
    """Events of this call, for the history of the run."""

    @property
    def marker(self) -> Marker:
        """The marker of the run with the events so far."""
        return replace(self.run.marker, history=(*self.run.marker.history, *self.events))

    def _record_event(self, line: str) -> None:
        """Add a line to the history of the run, and save it in case the run is interrupted."""
        self.events.append(line)
        if not self.run.marker.complete:
            replace(self.run, marker=self.marker).write_marker()

    def _record_resumption(self, there: int, what: str) -> None:
        """Log and record that a part of the work was done before."""
        if there:
            line = f"resumed: {there:,} of {len(self.run.marker.shards):,} shards were already {what}"
            get_runtime().log(f"{self.run.address}: {line}")
            self._record_event(line)

    def score(self) -> dict[str, str]:
        """Score all unfinished shards; return the failed ones with the reason.

        If no shard could be scored, the folder is removed.
        """
        try:
            failed = self._score_rest(self.run.find_finished())
            finished = self.run.find_finished()
            if failed and not any(summary.items for summary in finished.values()):
                raise ShardsFailed(self.run.address, failed, len(self.run.marker.shards))
            if not any(summary.items for summary in finished.values()):
                self.run.discard()
                raise InputError("shards: none of them contains an item, expected at least one that does")
            return failed
        except InputError:
            corpus = [metric for metric in self.metrics if metric.needs_corpus]
            if not self.run.find_finished() and not any(CorpusStates(self.run, one).has_any() for one in corpus):
                self.run.discard()
            raise

    def find_missing(self, summary: PartSummary | None, corpora: Mapping[str, str]) -> list[Metric]:
        """Return the metrics for which a part has no values, or values of another corpus; all if there is no part."""
        if summary is None:
            return list(self.metrics)
        stored = {one.metric: one.corpus for one in summary.metrics}
        missing = []
        for metric in self.metrics if summary.items else ():
            key = str(metric)
            if key not in stored or corpora.get(key, stored[key]) != stored[key]:
                missing.append(metric)
        return missing

    def _score_rest(self, finished: Mapping[str, PartSummary]) -> dict[str, str]:
        """Run both passes over the unfinished shards; return the failed ones with the reason."""
        valued = {one.metric for summary in finished.values() for one in summary.metrics if one.scored}
        failed, corpora = self._merge_states(valued)
        left = self._find_left(finished, corpora, failed)
        if not left:
            return failed
        self._record_resumption(len(self.run.marker.shards) - len(left) - len(failed), "scored")
        self._mark_incomplete(finished, left)
        wanted = [metric for metric in self.metrics if any(metric in missing for missing in left.values())]
        settings = {
            one.metric: one.signature.settings
            for summary in finished.values()
            for one in summary.metrics
            if corpora.get(one.metric, one.corpus) == one.corpus
        }
        scoring = ScoringPass(
            self.run, tuple(wanted), self.reading, str(Path.cwd()), settings, corpora, self.store_references
        )
        return {**failed, **self._run_pass("scored", scoring, list(left), valued)}

    def _merge_states(self, valued: set[str]) -> tuple[dict[str, str], dict[str, str]]:
        """Run pass 1 and merge the states; return the failed shards, and the corpus digest of each metric."""
        failed, corpora = dict[str, str](), dict[str, str]()
        if two_passes := [metric for metric in self.metrics if metric.needs_corpus]:
            failed = self._prepare(two_passes, valued)
            readable = [shard for shard in self.run.marker.shards if shard.name not in failed]
            for metric in two_passes if readable else ():
                self.step(f"{metric.label}: merging the states of {len(readable):,} shards")
                corpora[str(metric)] = CorpusStates(self.run, metric).merge(readable)
        return failed, corpora

    def _find_left(
        self, finished: Mapping[str, PartSummary], corpora: Mapping[str, str], failed: Collection[str]
    ) -> dict[Shard, list[Metric]]:
        """Return the shards for pass 2, each with its missing metrics."""
        shards = [shard for shard in self.run.marker.shards if shard.name not in failed]
        left = {shard: missing for shard in shards if (missing := self.find_missing(finished.get(shard.name), corpora))}
        return left | {shard: [] for shard in shards if self._needs_columns(finished, shard)}

    def _mark_incomplete(self, finished: Mapping[str, PartSummary], left: Mapping[Shard, Sequence[Metric]]) -> None:
        """Mark the run as incomplete if values will change, because the numbers on disk become outdated."""
        stored = {name: {one.metric for one in summary.metrics} for name, summary in finished.items()}
        again = any(str(metric) in stored.get(shard.name, ()) for shard, missing in left.items() for metric in missing)
        if again and self.run.marker.complete:
            replace(self.run, marker=replace(self.run.marker, complete=False)).write_marker()

    def _needs_columns(self, finished: Mapping[str, PartSummary], shard: Shard) -> bool:
        """Return True if the file of a shard without items has no column for an added metric."""
        summary = finished.get(shard.name)
        if summary is None or summary.items:
            return False
        with self.run.parquet(self.run.items_name(shard.name)) as file:
            return not set(self.run.metrics) <= set(file.schema_arrow.names)

    def _prepare(self, metrics: Sequence[Metric], valued: set[str]) -> dict[str, str]:
        """Run pass 1 for these metrics on shards without states; return the failed ones with the reason."""
        shards = self.run.marker.shards
        prepared = set.intersection(*(CorpusStates(self.run, metric).find_prepared(shards) for metric in metrics))
        left = [shard for shard in shards if shard.name not in prepared]
        if not left:
            return {}
        what = f"prepared for {', '.join(metric.label for metric in metrics)}"
        self._record_resumption(len(shards) - len(left), what)
        preparation = PreparationPass(self.run, tuple(metrics), self.reading, str(Path.cwd()))
        return self._run_pass(what, preparation, left, valued)

    def _run_pass(
        self, what: str, setup: PreparationPass | ScoringPass, shards: Sequence[Shard], valued: Collection[str]
    ) -> dict[str, str]:
        """Run a pass over shards; return the failed ones with the reason. A failure does not stop the others."""
        pace = ShardProgress(what, len(self.run.marker.shards), len(shards), self.step)
        failures: dict[str, str] = {}
        repeated: list[Finished[ShardOutcome]] = []
        with closing(run_tasks(setup, shards, self.engine)) as ends:
            for end in ends:
                name = shards[end.index].name
                repeated += [end] if end.deaths else []
                if end.result is None:
                    failures[name] = end.error
                elif end.result.conflict:
                    raise InputError(end.result.conflict)
                elif end.index == 0:
                    self._refuse_unfit(end.result, valued)
                pace.advance(end.result, end.error and f"{name}: {end.error}")
        if line := describe_deaths(repeated, "shard"):
            self._record_event(line)
        order = {shard.name: index for index, shard in enumerate(self.run.marker.shards)}
        return dict(sorted(failures.items(), key=lambda entry: order[entry[0]]))

    def _refuse_unfit(self, outcome: ShardOutcome, valued: Collection[str]) -> None:
        """Raise InputError if the first shard has no input for a metric: the other shards will have none either.

        A folder without finished shards is removed.
        """
        for metric, line in outcome.unfit.items():
            if metric not in valued:
                if not valued:
                    self.run.discard()
                raise InputError(line)


class ShardProgress:
    """The progress of a pass: a bar of shards, and a line with the rate and the failures."""

    def __init__(self, what: str, shards: int, left: int, step: Callable[[str], None]) -> None:
        self.what, self.shards, self.done, self.step = what, shards, shards - left, step
        self.items, self.failed, self.start = 0, 0, time.perf_counter()
        self._show()

    def advance(self, outcome: ShardOutcome | None, error: str) -> None:
        """Count a shard that ended, with a result or with an error."""
        self.done += 1
        if outcome is None:
            self.failed += 1
            if self.failed <= LISTED and self.shards > 1:
                get_runtime().log(" ".join(error.split()))
        else:
            self.items += outcome.items
        self._show()

    def _show(self) -> None:
        rate = self.items / max(time.perf_counter() - self.start, 1e-9)
        parts = [f"{self.done - self.failed:,} of {self.shards:,} shards {self.what}"]
        parts += [f"{rate:,.0f} items/s"] if self.items else []
        parts += [f"{self.failed:,} failed"] if self.failed else []
        self.step(", ".join(parts))
        get_runtime().progress("shards", self.done, self.shards)


# Detection of ids that occur in several shards, by their hashes in bounded memory.
# Largest number of hashes that are sorted at a time.
TOGETHER = 1 << 23
# Number of ids that are hashed at a time.
SLICE = 1 << 19
# Number of repeated ids that are named.
EXAMPLES = 5
# The base of the polynomial: odd, so that it has an inverse modulo 2**64.
FACTOR = 0x9E3779B97F4A7C15


def find_repeated_ids(run: Run) -> tuple[int, list[str]]:
    """Return the number of ids that occur more than once, and a line for each of a few examples with its shards.

    The number is that of repeated 64-bit hashes. Collisions make it too large with a probability of about 1 in 4,000 at
    100 million items. For the examples the ids themselves are compared.
    """
    repeated = _find_repeated_hashes(run)
    first = np.sort(repeated[:EXAMPLES])
    shards: dict[str, list[str]] = {}
    for name, ids in _iterate_ids(run) if len(first) else ():
        for index in np.flatnonzero(np.isin(hash_column(ids), first)).tolist():
            shards.setdefault(ids[index].as_py(), []).append(name)
    lines = [f"{key!r} in {' and '.join(names[:2])}" for key, names in shards.items() if len(names) > 1]
    # Without lines, the repeated hashes were collisions of different ids.
    return (len(repeated) if lines else 0), lines


def _iterate_ids(run: Run) -> Iterator[tuple[str, pa.Array]]:
    """Yield the name of each shard with a slice of its ids."""
    for name in run.names:
        ids = run.table(name, ["id"])["id"].combine_chunks()
        for start in range(0, len(ids), SLICE):
            yield name, ids.slice(start, SLICE)


def _find_repeated_hashes(run: Run) -> Hashes:
    """Return the hashes that occur more than once.

    To bound memory, hashes are split by their first bits into files, and one file is sorted at a time.
    """
    items = run.marker.items
    bits = max(0, (items // TOGETHER).bit_length())  # so that a file has at most about `TOGETHER` hashes
    with ExitStack() as stack:
        files = [stack.enter_context(tempfile.TemporaryFile()) for _ in range(1 << bits)]
        for _, ids in _iterate_ids(run):
            hashes = np.sort(hash_column(ids))
            bounds = np.array([part << (64 - bits) for part in range(1, 1 << bits)], dtype=np.uint64)
            for file, part in zip(files, np.split(hashes, np.searchsorted(hashes, bounds)), strict=True):
                file.write(part.tobytes())
        return np.concatenate([_find_duplicates(file) for file in files])


def _find_duplicates(file: Any) -> Hashes:
    file.seek(0)
    hashes = np.sort(np.frombuffer(file.read(), dtype=np.uint64))
    return np.unique(hashes[1:][hashes[1:] == hashes[:-1]])


def hash_column(texts: pa.Array) -> Hashes:
    """Return a 64-bit hash for each text: a polynomial over its bytes, each mapped to a random number.

    >>> import pyarrow as pa
    >>> a, b, c = hash_column(pa.array(["x", "", "x"]))
    >>> bool(a == c), bool(a == b)
    (True, False)
    """
    import pyarrow as pa

    # Arrow stores all texts joined in one buffer; text i is the bytes from bounds[i] to bounds[i + 1].
    texts = texts.cast(pa.large_string())
    _, offsets, content = texts.buffers()
    bounds = np.frombuffer(offsets, dtype=np.int64)[texts.offset : texts.offset + len(texts) + 1]
    size = int(bounds[-1] - bounds[0])
    data = np.frombuffer(content, dtype=np.uint8)[bounds[0] : bounds[-1]] if size else np.zeros(0, np.uint8)
    bounds = bounds - bounds[0]
    # With b_i the random number of byte i of all texts joined, S_k = Σ_{i<k} b_i f^(i+1) modulo 2**64. The hash of the
    # text from s to e is (S_e - S_s) / f^(s+1): prefix sums replace a loop over texts, and it does not depend on s.
    with np.errstate(over="ignore"):
        powers = np.multiply.accumulate(np.full(size + 1, FACTOR, dtype=np.uint64))
        inverse = np.multiply.accumulate(np.full(size + 1, pow(FACTOR, -1, 2**64), dtype=np.uint64))
        sums = np.concatenate([np.zeros(1, np.uint64), np.cumsum(_BYTE_VALUES[data] * powers[:size], dtype=np.uint64)])
        hashes = (sums[bounds[1:]] - sums[bounds[:-1]]) * inverse[bounds[:-1]]
        # Mix at the end: low bits of a sum depend only on low bits of its terms. Add the length.
        hashes = (hashes ^ (hashes >> np.uint64(32))) * np.uint64(FACTOR) + np.diff(bounds).astype(np.uint64)
        mixed: Hashes = hashes ^ (hashes >> np.uint64(29))
    return mixed


# The random number of each byte value; the seed is fixed, so hashes are the same in every process.
_BYTE_VALUES = np.random.default_rng(0).integers(1, 2**64, size=256, dtype=np.uint64)
