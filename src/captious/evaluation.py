"""What tables and pictures call metrics: their labels, as long as those tell them apart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import reduce
from typing import Any

from captious.captions import CaptionSet
from captious.errors import InputError, nearest, require
from captious.io.check import findings_that_mislead
from captious.metrics.contract import Measurement, Metric
from captious.metrics.registry import DEFAULT, FAMILIES, parse, parse_all
from captious.options import LEVEL, SAMPLES, SEED, Runtime, current, using
from captious.stats.resampling import Interval, bootstrap


def told_apart(labels: Mapping[str, str]) -> dict[str, str]:
    """A name for each written form: its label, or the written form where another metric has the same label.

    >>> told_apart({"clipscore": "CLIPScore", "clipscore(w=1)": "CLIPScore", "cider": "CIDEr"})
    {'clipscore': 'clipscore', 'clipscore(w=1)': 'clipscore(w=1)', 'cider': 'CIDEr'}
    """
    number = Counter(labels.values())
    return {key: label if number[label] == 1 else key for key, label in labels.items()}


REASONS = 5
"""Different reasons that a warning names."""


def misleading(captions: CaptionSet, measurements: Sequence[Measurement]) -> list[str]:
    """What a person should know before trusting these numbers."""
    warnings = [finding.message for finding in findings_that_mislead(captions)]
    warnings += [remark for measurement in measurements for remark in measurement.metric.remarks(captions)]
    labels: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for measurement in measurements:
        if measurement.reasons:
            counts = tuple(Counter(measurement.reasons.values()).most_common())
            labels.setdefault(counts, []).append(measurement.metric.label)
    for counts, metrics in labels.items():
        why = ", ".join(f"{number} × {reason}" for reason, number in counts[:REASONS])
        if rest := sum(number for _, number in counts[REASONS:]):
            why += f", {rest} × other reasons"
        warnings.append(f"{', '.join(metrics)}: items without a value: {why}")
    return list(dict.fromkeys(warnings))


Specs = str | Metric | Iterable[str | Metric]


@dataclass(frozen=True, eq=False)
class Report:
    """Measurements of one set, by the written form of their metric."""

    captions: CaptionSet
    measurements: Mapping[str, Measurement]
    intervals: Mapping[str, Interval] = field(default_factory=dict)
    warnings: Sequence[str] = ()

    def __getitem__(self, key: str) -> Measurement:
        """A measurement by ``cider(idf=refs)``, by bare name where only one metric has it, or by label."""
        if key in self.measurements:
            return self.measurements[key]
        by_label = {self.label(name): measurement for name, measurement in self.measurements.items()}
        if key in by_label:
            return by_label[key]
        named = [measurement for measurement in self.measurements.values() if measurement.metric.name == key]
        if len(named) == 1:
            return named[0]
        if key in FAMILIES and (default := str(parse(key))) in self.measurements:
            return self.measurements[default]
        try:
            return self.measurements[str(parse(key))]
        except (InputError, KeyError):
            known = list(self.measurements)
            raise KeyError(f"{key!r} was not measured, only {', '.join(known)}{nearest(key, known)}") from None

    def __iter__(self) -> Iterator[Measurement]:
        return iter(self.measurements.values())

    def label(self, key: str) -> str:
        """What tables call a metric: its label, or its written form where two metrics share the label."""
        return told_apart({name: one.metric.label for name, one in self.measurements.items()})[key]

    def signature(self, key: str) -> str:
        """The signature of a number with that of its interval."""
        measurement = self[key]
        interval = self.intervals.get(str(measurement.metric))
        return f"{measurement.signature}|ci:{interval}" if interval else str(measurement.signature)

    def to_pandas(self) -> Any:
        """Per-item values as a frame, one row per item id and one column per metric."""
        pandas = require("pandas", "pandas")
        columns = {key: measurement.values for key, measurement in self.measurements.items()}
        return pandas.DataFrame(columns, index=pandas.Index(self.captions.ids, name="id"))

    def save(self, folder: str, overwrite: bool = False) -> None:
        """Write the run: per-item Parquet and JSONL, ``captious-run.json``, ``report.tex`` and ``report.html``."""
        from captious.report.run import save

        save(self, folder, overwrite=overwrite)

    def __str__(self) -> str:
        labels = {self.label(key): measurement.corpus for key, measurement in self.measurements.items()}
        width = max(map(len, labels))
        return "\n".join(f"{label:<{width}}  {value:.4f}" for label, value in labels.items())


def evaluate(
    captions: CaptionSet,
    metrics: Specs = DEFAULT,
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
    progress: Callable[[str], None] | None = None,
    runtime: Runtime | None = None,
) -> Report:
    """Score a set with every metric asked for.

    ``samples`` bootstrap resamples give each corpus value an interval; 0 leaves intervals out. ``progress`` is called
    with the name of each step as it begins. ``runtime`` says where and how encoders run.

    >>> captions = CaptionSet.of({"1": "a cat", "2": "a dog runs"}, {"1": ["a cat"], "2": ["the dog runs"]})
    >>> report = evaluate(captions, "bleu,rouge")
    >>> round(report["rouge"].items["2"], 6)
    0.666667
    """
    measurements: dict[str, Measurement] = {}
    with using(runtime or current()):
        for metric in parse_all(metrics):
            if progress:
                progress(metric.label)
            measurements[str(metric)] = metric.measure(captions)
            metric.refuse_empty(measurements[str(metric)], captions.name)
        warnings = misleading(captions, list(measurements.values()))
    if progress and samples:
        progress("intervals")
    return Report(captions, measurements, bootstrap(measurements, samples, seed, level), warnings)


def evaluate_shards(
    shards: Iterable[CaptionSet],
    metrics: Specs = DEFAULT,
    *,
    samples: int = SAMPLES,
    seed: int = SEED,
    level: float = LEVEL,
    runtime: Runtime | None = None,
) -> tuple[dict[str, Measurement], dict[str, Interval]]:
    """Score shards as if they were one set: corpus-wide states are merged first, then the shards' measurements."""
    shards = [shard for shard in shards if len(shard)]
    if not shards:
        raise InputError("no shard holds an item, expected at least one that does")
    measurements: dict[str, Measurement] = {}
    with using(runtime or current()):
        for metric in parse_all(metrics):
            states = [metric.prepare(shard) for shard in shards]
            state = None if any(part is None for part in states) else reduce(lambda a, b: a.merge(b), states)
            parts = (metric.measure(shard, state) for shard in shards)
            measurements[str(metric)] = reduce(lambda a, b: a.merge(b), parts)
            metric.refuse_empty(measurements[str(metric)], "the shards")
    return measurements, bootstrap(measurements, samples, seed, level)
