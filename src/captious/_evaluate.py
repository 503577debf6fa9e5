"""``captious.evaluate``: every metric on one set of captions, with intervals, as one report."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.check import find_misleading
from captious.io.read import read, reading_of
from captious.metrics.chunks import measure_all, measure_systems
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.metrics.registry import DEFAULT, choose_inputs, parse_all
from captious.metrics.requests import Specs, choose_metrics
from captious.options import Missing, Reading, Resampling, Runtime, check_settings, using
from captious.runs.report import Report, compute_intervals, compute_system_intervals
from captious.runs.report_sections import format_reasons
from captious.runs.source import MemoryItems, StoredItems


@dataclass(frozen=True)
class Scoring:
    """Options of reading and scoring systems, passed on as one value."""

    reading: Reading
    resampling: Resampling
    runtime: Runtime
    progress: Callable[[str], None] | None = None

    @classmethod
    def of(
        cls,
        resampling: Any,
        runtime: Any,
        progress: Any,
        reading: Any,
        references: Any = None,
        images: Any = None,
        missing: Missing = "error",
        language: str | None = None,
    ) -> Scoring:
        """Check the types of the arguments of a public function and return them as one value."""
        checked, runtime = check_settings(resampling, runtime, progress)
        return cls(reading_of(reading, references, images, missing, language), checked, runtime, progress)


def _collect_warnings(captions: CaptionSet, measurements: Collection[Measurement]) -> list[str]:
    """Return warnings that a reader needs before trusting the numbers, without duplicates."""
    warnings = [finding.message for finding in find_misleading(captions)]
    warnings += [warning for measurement in measurements for warning in measurement.warnings]
    labels: dict[str, list[str]] = {}
    for measurement in measurements:
        if measurement.reasons:
            labels.setdefault(format_reasons(measurement), []).append(measurement.metric.label)
    warnings += [f"{', '.join(metrics)}: items without a value: {why}" for why, metrics in labels.items()]
    return list(dict.fromkeys(warnings))


def evaluate(
    captions: Any,
    metrics: Specs = DEFAULT,
    *,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    reading: Reading = Reading(),
) -> Report:
    """Score captions with all metrics.

    Parameters
    ----------
    captions
        Whatever ``captious.read`` reads: a path, captions by id, a list of captions, a frame, a ``CaptionSet``, …
    metrics
        Written forms, such as ``"bleu,cider(idf=coco)"``, or metrics.
    resampling
        How the bootstrap makes the intervals of the corpus values; ``Resampling(samples=0)`` leaves them out.
    runtime
        Where and how models run.
    progress
        Called with the name of each step as it begins.
    references
        References by id, or a list of them in the order of the captions, if ``captions`` has none.
    images
        Folder of the images; or paths, PIL images, arrays or tensors, in a list in the order of the captions or by id.
    missing
        Ids that are missing from the captions or the references: an error, or left out with ``skip``.
    language
        The code of the captions' language, such as ``zh``, which chooses the tokenizer of metrics that name none. A
        metric that does not know the language is refused.
    reading
        Options of reading: names of columns, several candidates of an item, format; it may contain references, images,
        ``missing`` and ``language`` too.

    >>> report = evaluate({"1": "a cat", "2": "a dog runs"}, "rouge", references={"1": "a cat", "2": "the dog runs"})
    >>> round(report["rouge"].items["2"], 6)
    0.666667
    >>> report = evaluate(["a cat", "a dog runs"], "rouge", references=[["a cat"], ["the dog runs"]])
    >>> round(report["rouge"].items[1], 6)
    0.666667
    """
    resampling, runtime = check_settings(resampling, runtime, progress)
    specs = choose_metrics(metrics)
    captions = read(captions, reading=reading_of(reading, references, images, missing, language))
    return _make_report(captions, specs, resampling, runtime, progress)


def evaluate_systems(
    systems: Mapping[str, CaptionSet],
    metrics: Sequence[Metric],
    resampling: Resampling,
    progress: Callable[[str], None] | None = None,
) -> dict[str, Report]:
    """Return a report for each of several systems that captioned the same items; all intervals use the same draws."""
    measurements = measure_systems(systems, metrics, progress)
    if progress and resampling.samples:
        progress("intervals")
    intervals = compute_system_intervals(measurements, resampling)
    return {
        name: Report(MemoryItems(captions), own, intervals[name], _collect_warnings(captions, own.values()), resampling)
        for (name, captions), own in zip(systems.items(), measurements.values(), strict=True)
    }


def _make_report(
    captions: CaptionSet,
    specs: Sequence[str | Metric],
    resampling: Resampling,
    runtime: Runtime,
    progress: Callable[[str], None] | None = None,
) -> Report:
    """Score the captions and return the report with all intervals."""
    with using(runtime):
        measurements = measure_all(captions, _resolve_metrics(specs, captions), progress)
    if progress and resampling.samples:
        progress("intervals")
    warnings = _collect_warnings(captions, measurements.values())
    intervals = compute_intervals(measurements, resampling)
    return Report(MemoryItems(captions), measurements, intervals, warnings, resampling)


def _resolve_metrics(specs: Sequence[str | Metric], captions: CaptionSet) -> list[Metric]:
    """Return the metrics for these captions; only ``all`` is still to be parsed."""
    metrics = [one for one in specs if isinstance(one, Metric)]
    return choose_inputs(metrics, [captions]) if len(metrics) == len(specs) else parse_all(specs, [captions])


def add_metrics(
    report: Report,
    metrics: Specs,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    *,
    captions: CaptionSet | None = None,
) -> Report:
    """Return the report with more metrics; only metrics that it does not have yet are computed.

    ``captions`` are those of the report, read again; needed if it comes from a run and metrics need images.

    >>> report = evaluate(["a red dog"], "rouge", resampling=Resampling(0), references=[["the red dog"]])
    >>> list(add_metrics(report, "rouge,bleu(n=1)", Resampling(0)).measurements)
    ['rouge', 'bleu(n=1)']
    """
    from captious.runs.pairing import load_statistics

    resampling, runtime = check_settings(resampling, runtime, progress)
    report = load_statistics(report)
    captions = report.captions if captions is None else set_language(captions, report)
    known = next(iter(report)) if report.measurements else None
    if known is not None and known.ids != captions.ids:
        raise InputError(f"{captions.name}: has other ids than {report.name}, or in another order; score all again")
    if report.captions.candidates.values != captions.candidates.values:
        raise InputError(f"{captions.name}: has other captions than {report.name}; score all again")
    chosen = _resolve_metrics(choose_metrics(metrics), captions)
    new = [one for one in chosen if str(one) not in report.measurements]
    with using(runtime):
        added = measure_all(captions, new, progress) if new else {}
    measurements = {**report.measurements, **added}
    if progress and resampling.samples:
        progress("intervals")
    warnings = _collect_warnings(captions, measurements.values())
    intervals = compute_intervals(measurements, resampling)
    return Report(_keep_parts(report, captions, measurements), measurements, intervals, warnings, resampling)


def _keep_parts(report: Report, captions: CaptionSet, measurements: Mapping[str, Measurement]) -> MemoryItems:
    """Return the captions as they are saved again: in the parts of the report's run, if it comes from one."""
    if isinstance(report.source, MemoryItems):
        return replace(report.source, captions=captions)
    assert isinstance(report.source, StoredItems)
    reading = report.source.run.marker.reading
    references = reading.get("store_references") is not False
    items = MemoryItems(captions, references, report.source.run.has_rows)
    return items.extend_run(report.source, measurements)


def set_language(captions: CaptionSet, report: Report) -> CaptionSet:
    """Return the captions in the language of a report; raise InputError if they have another one."""
    language = report.captions.language
    if captions.language not in ("", language):
        named = language or "no language"
        raise InputError(f"{captions.name}: language={captions.language!r}, {report.name} was scored with {named}")
    return replace(captions, language=language)
