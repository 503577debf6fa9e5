"""The sections of a report: scores, items, and tables of shards, such as faults and timing.

Where the items are few enough to be resampled one by one, the page lists them all. Of more, it has the distributions
and the worst items, from the summaries of the parts: the values of all items are never in memory together.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from io import BytesIO
from pathlib import Path, PurePath
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

import numpy as np

from captious.captions import VIDEO
from captious.io.join import format_first
from captious.metrics.abilities import ExplainsOnPage, ForeignMetric
from captious.metrics.cider import CUT
from captious.metrics.contract import MeanMetric, Metric
from captious.metrics.measurement import Measurement
from captious.render import (
    Answer,
    Cell,
    Chart,
    Column,
    Figure,
    Group,
    ItemMetric,
    Items,
    Phrase,
    Section,
    Series,
    Table,
    Text,
    Why,
    link,
)
from captious.render.answers import count_noun
from captious.runs.source import MemoryItems
from captious.stats.bootstrap import FEW, warn_few_units
from captious.text.ngram_tables import count_words

if TYPE_CHECKING:
    from PIL.Image import Image

    from captious.runs.report import Report
    from captious.runs.stored import StoredMeasurement
    from captious.runs.summary import PartSummary

# Number of shards below which an interval is rough.
FEW_SHARDS = 20
# Numbers of worst items and of slowest shards on the page, and of bars of a histogram.
WORST, SLOWEST, BARS = 20, 50, 40
# Largest number of items whose videos have posters on the page: each is a file to open. The explorer has no limit.
MOST_POSTERS = 500
# Number of different reasons that a warning lists.
REASONS = 5
NAN = float("nan")


def build_sections(report: Report) -> list[Section]:
    """Return the scores, the explained item, the items, and the sections of shards."""
    explained = report.explanations.document().sections if report.explanations else ()
    items: list[Section] = [make_explorer({PurePath(report.name).name: report})] if lists_items(report) else []
    if not lists_items(report):
        items = [*_make_unscored_table(report), *_draw_histograms(report)]
        items.append(Group("Worst items", [_make_worst_table(report, key) for key in report.measurements]))
    return [_make_score_table(report), *explained, *items, *_build_shard_sections(report)]


# Images of the smallest usual test sets, those of Flickr8k and Flickr30k; COCO's Karpathy split has 5,000.
PUBLISHED = 1000


def build_answer(report: Report) -> Answer:
    """Return the plain answer: the value of the main metric, how sure it is, and with what it can be compared."""
    key = find_main_metric(report)
    if key is None:
        return ""
    measurement, items = report.measurements[key], count_noun(report.size, "item")
    if math.isnan(measurement.corpus):
        return f"{report.label(key)} has no value on {items}: {format_reasons(measurement) or 'nothing was scored'}."
    parts: list[str | Figure] = [
        f"{report.label(key)} is ",
        Figure(scale_cells([report], key)[0], _make_value_column(report)),
        f" on {items}",
    ]
    if unscored := measurement.signature.unscored:
        parts.append(f", {unscored:,} of them without a value")
    if any(line.startswith(CUT) for line in measurement.warnings):
        parts.append(". Do not report it: the length penalty erased captions whose length differs from the references.")
    elif report.size < PUBLISHED:
        parts.append(": too few to compare with published values. Compare systems on these same items.")
    else:
        parts.append(". Compare it only with values that have the same items and the same signature.")
    return parts


def find_main_metric(report: Report) -> str | None:
    """Return the metric of the plain answer: CIDEr-D if it was computed, otherwise the first."""
    return next((key for key, one in report.measurements.items() if one.metric.name == "cider"), None) or next(
        iter(report.measurements), None
    )


def _make_value_column(report: Report) -> Column:
    level = report.resampling.level if report.intervals else None
    return Column("value", percent=1, level=level, bold=True, bar=True)


def lists_items(report: Report) -> bool:
    """Return True if the page lists all items, and False if they stay in the folder."""
    return report.unit == "item"


def _make_score_table(report: Report) -> Table:
    columns: list[Column | str] = ["metric", _make_value_column(report)]
    if lower := any(not one.metric.higher_is_better for one in report):
        columns.append(Column("better", "text", latex=None))
    if unscored := any(one.signature.unscored for one in report):
        columns.append(Column("unscored", latex=None))
    rows: list[list[Any]] = []
    for key, one in report.measurements.items():
        row: list[Any] = [link_metric(report, key), scale_cells([report], key)[0]]
        row += ["higher" if one.metric.higher_is_better else "lower"] if lower else []
        row += [_make_unscored_cell(report, key)] if unscored else []
        rows.append(row)
    return Table("scores", "Scores", columns, rows, _format_resampling_note(report))


def link_metric(report: Report, key: str) -> Phrase:
    """Return the label of a metric, linked to the items sorted by it if the page lists them."""
    label = report.label(key)
    return link(label, sort_items(key)) if lists_items(report) else Phrase.of(label)


def sort_items(key: str) -> str:
    """Return the address that sorts the items of the page by a metric."""
    return f"#sort={quote(key)}"


def link_system(name: str) -> Phrase:
    """Return the name of a system, linked to the items of the page with only its captions in the foreground."""
    return link(name, f"#system={quote(name)}")


def _make_unscored_cell(report: Report, key: str) -> Cell:
    one = report.measurements[key]
    number = one.signature.unscored
    if not lists_items(report):
        return Cell(number, decimals=0)
    href = f"#sort={quote(key)}&unscored=1" if number else ""
    return Cell(number, note=format_reasons(one), decimals=0, href=href)


def _format_resampling_note(report: Report) -> str:
    """Return a note on the number of resampled shards; empty if items are resampled."""
    if lists_items(report) or not report.intervals:
        return ""
    full = sum(1 for part in report.parts if part.items)
    return f"Intervals: {report.resampling.samples:,} resamples of {full} shards"


def format_references(report: Report) -> str:
    """Return the number of references per item as text."""
    low, high = next((one.signature.references for one in report), (0, 0))
    span = str(low) if low == high else f"{low}–{high}"
    return f"{span} reference{'' if high == 1 else 's'} per item" if high else "no references"


def scale_cells(reports: Sequence[Report], key: str) -> list[Cell]:
    """Return the value of a metric in each report, with the ends of the bar that the page draws.

    The bar ends at the metric's highest value if that is 1, otherwise at the next round number.
    """
    cells = [report.cell(key) for report in reports]
    ends = [end for cell in cells for end in (cell.value, cell.low, cell.high) if not math.isnan(end)]
    top = reports[0].measurements[key].metric.range[1]
    if top > 1:
        highest = max([*ends, 1e-9])
        power = 10.0 ** math.floor(math.log10(highest))
        top = next(step * power for step in (1, 2, 5, 10) if step * power >= highest)
    limits = (min([0.0, *ends]), top)
    own = get_own_scale(reports[0].measurements[key].metric)
    return [Cell(cell.value, cell.low, cell.high, limits=limits, **own) for cell in cells]


def get_own_scale(metric: Metric) -> dict[str, Any]:
    """Return the cell options of a value that is not a score: the decimals of its metric, and never × 100."""
    return {} if metric.decimals is None else {"decimals": metric.decimals, "scale": 1.0}


def make_score_column(label: str, metric: Metric) -> Column:
    """Return a column for the values of items."""
    if metric.decimals is None:
        return Column(label, key=str(metric), percent=1)
    return Column(label, key=str(metric), decimals=metric.decimals)


def make_explorer(reports: Mapping[str, Report]) -> Items:
    """Return the items of systems with the same ids in the same order, for the page to search and sort."""
    first = next(iter(reports.values()))
    sets = [report.captions for report in reports.values()]
    images: Sequence[Any] = next((one.images for one in sets if "image" in one.columns), ())
    if not any(images):
        images = next(filter(any, map(_list_posters, reports.values())), ())
    keys = list(first.measurements)

    def explain(system: int, metric: int, indices: Sequence[int]) -> Sequence[Why]:
        return list(reports.values())[system]._explain_for_page(keys[metric], indices)

    return Items(
        ids=first.captions.ids,
        metrics=[
            ItemMetric(
                key,
                first.label(key),
                one.metric.higher_is_better,
                one.metric.range,
                one.metric.decimals is None,
                isinstance(one.metric, ExplainsOnPage) and one.metric.explains_on_page,
            )
            for key, one in first.measurements.items()
        ],
        systems=list(reports),
        values=[[one.values for one in report] for report in reports.values()],
        texts=[one.candidates for one in sets],
        references=first.captions.references,
        reasons=[[one.reasons for one in report] for report in reports.values()],
        images=images,
        fields={name: column for name, column in first.captions.columns.items() if name not in ("image", VIDEO)},
        language=first.captions.language,
        count_words=partial(count_words, language=first.captions.language),
        explain=explain,
    )


@dataclass(frozen=True)
class ClipPoster:
    """The middle frame of a video, which is decoded only when a page shows it."""

    path: str
    part: tuple[float, float] | None

    def picture(self) -> Image:
        """Decode it. Raise OSError if that is not possible, as for an image that cannot be read."""
        from PIL import Image

        from captious.models.clip_stills import make_poster

        content = make_poster(Path(self.path), self.part)
        if content is None:
            raise OSError(f"{self.path}: cannot be decoded")
        return Image.open(BytesIO(content))


def _list_posters(report: Report) -> Sequence[ClipPoster | None]:
    """Return the posters of videos in files; none for many items, and for a run from elsewhere, whose paths may lead
    anywhere.
    """
    source = report.source
    is_own = isinstance(source, MemoryItems) and source.before is None
    if not is_own or not report.captions.has_videos or len(report.captions) > MOST_POSTERS:
        return ()
    from captious.models.clip_stills import can_decode

    if not can_decode():
        return ()
    return [
        ClipPoster(clip.video, None if clip.start is None or clip.end is None else (clip.start, clip.end))
        if clip is not None and isinstance(clip.video, str)
        else None
        for clip in report.captions.clips
    ]


def list_narrow_intervals(report: Report) -> list[str]:
    """Return notes on intervals that are too narrow: few items, or a mean in which few items differ from the rest.

    A rare value that no item of the sample has widens no interval, whichever way the interval is made.
    """
    if not report.intervals or not lists_items(report):
        return []
    if few := warn_few_units(report.size, report.resampling):
        return few
    notes = []
    for key, one in report.measurements.items():
        if key not in report.intervals or not isinstance(one.metric, MeanMetric):
            continue
        values = one.values[~np.isnan(one.values)]
        differing = len(values) - int(np.unique(values, return_counts=True)[1].max(initial=0))
        if 0 < differing < FEW <= len(values):
            notes.append(
                f"{report.label(key)}: only {differing} of {len(values):,} items differ from the rest; below {FEW} "
                "the interval is too narrow"
            )
    return notes


def compare_foreign_values(report: Report) -> list[str]:
    """Return notes on the agreement of imported values with those that captious computed."""
    notes = []
    for original in report:
        for measurement in report:
            other = original.metric
            if isinstance(other, ForeignMetric) and other.compares_with(measurement.metric):
                from captious.stats.correlation import pearson

                both = ~(np.isnan(original.values) | np.isnan(measurement.values))
                if both.sum() < 2:
                    continue
                original_values, values = original.values[both], measurement.values[both]
                names = [report.label(str(one.metric)) for one in (measurement, original)]
                notes.append(
                    f"{names[0]} beside {names[1]}, {len(values):,} items that both have: mean {values.mean():.4f} and "
                    f"{original_values.mean():.4f}, Pearson correlation {pearson(values, original_values):.4f}."
                )
    return notes


def format_reasons(measurement: Measurement) -> str:
    """Return how often each reason for a missing value occurs, and for which items."""
    ids: dict[str, list[str]] = {}
    for key, reason in measurement.reasons.items():
        ids.setdefault(reason, []).append(key)
    counts = sorted(ids.items(), key=lambda entry: -len(entry[1]))
    texts = [f"{len(keys)} × {reason} (id {format_first(keys)})" for reason, keys in counts[:REASONS]]
    rest = [key for _, keys in counts[REASONS:] for key in keys]
    return ", ".join([*texts, *([f"{len(rest)} × other reasons (id {format_first(rest)})"] if rest else [])])


def _make_unscored_table(report: Report) -> list[Table]:
    rows: list[Sequence[Any]] = []
    starts: list[int] = []
    for key, one in report.measurements.items():
        reasons = _as_stored(one).reason_counts
        starts += [len(rows)] if reasons and rows else []
        for text, reason in reasons.items():
            share = reason.count / one.signature.items
            rows.append((report.label(key), text, reason.count, share, ", ".join(reason.ids)))
    columns = ("metric", "reason", Column("items"), _make_share_column("of all"), "such as")
    return [Table("unscored", "Without a value", columns, rows, breaks=starts)] if rows else []


def _draw_histograms(report: Report) -> list[Section]:
    charts: list[Section] = []
    for key, one in report.measurements.items():
        edges, counts = _merge_bins(_as_stored(one))
        if len(counts) > 1:
            labels = [
                f"{low:.4g} to {high:.4g}: {count:,} items"
                for low, high, count in zip(edges, edges[1:], counts, strict=False)
            ]
            series = Series(report.label(key), edges, counts, labels=labels)
            charts.append(Chart("histogram", [series], report.label(key), y="items"))
    heading = Text(["How many items have which value."], "Distributions", detail=True)
    return [heading, *charts] if charts else []


def _make_worst_table(report: Report, key: str) -> Table:
    one = _as_stored(report.measurements[key])
    shown = 4 if any(item.reference for item in one.worst) else 3
    columns = ("id", make_score_column(report.label(key), one.metric), "candidate", "first reference")
    rows = [(item.id, item.value, item.candidate, item.reference)[:shown] for item in one.worst[:WORST]]
    return Table(f"worst_{key}", f"Worst by {report.label(key)}", columns[:shown], rows)


def _build_shard_sections(report: Report) -> list[Section]:
    """Return the sections of shards: faults of reading, failures, and timing."""
    if not report.source.shards:
        return []
    return [
        *_make_fault_table(report),
        *_make_failed_table(report),
        Group("Time and shards", [_make_step_table(report), _make_shard_table(report)]),
    ]


def _make_fault_table(report: Report) -> list[Table]:
    counts: Counter[str] = Counter()
    shards: Counter[str] = Counter()
    examples: dict[str, str] = {}
    for part in report.source.shards:
        counts.update(part.faults)
        shards.update(part.faults.keys())
        examples = {**part.examples, **examples}
    rows = [(reason, number, shards[reason], examples.get(reason, "")) for reason, number in counts.most_common()]
    columns = ("reason", Column("times"), Column("shards"), "such as")
    return [Table("faults", "Left out when reading", columns, rows)] if rows else []


def _make_failed_table(report: Report) -> list[Table]:
    rows = list(report.failed.items())
    rest = len(rows) - SLOWEST
    note = f"{rest:,} more are in failed-shards.txt" if rest > 0 else ""
    columns = ("shard", "why")
    return [Table("failed", "Shards that failed and are left out", columns, rows[:SLOWEST], note)] if rows else []


def _make_step_table(report: Report) -> Table:
    seconds, items = sum_seconds(report), report.size
    total = sum(seconds.values())
    rows = [
        (step, spent, spent / total if total else NAN, _compute_rate(items, spent))
        for step, spent in sorted(seconds.items(), key=lambda entry: -entry[1])
    ]
    rows.append(("all", total, 1.0 if total else NAN, _compute_rate(items, total)))
    columns = ("step", Column("seconds", decimals=1), _make_share_column("of all"), Column("items/s", key="rate"))
    note = "Seconds of all workers together; items/s is the rate of one worker"
    return Table("steps", "Time", columns, rows, note, breaks=[len(rows) - 1], detail=True)


def sum_seconds(report: Report) -> dict[str, float]:
    """Return the seconds per step (read, each metric's label, write), summed over all shards and workers."""
    seconds: Counter[str] = Counter()
    for part in report.source.shards:
        seconds.update(part.seconds)
    return dict(seconds)


def _make_shard_table(report: Report) -> Table:
    spent = {part.name: sum(part.seconds.values()) for part in report.source.shards}
    slowest = sorted(report.source.shards, key=lambda part: -spent[part.name])
    rows = []
    for part in slowest[:SLOWEST]:
        unscored = [one.signature.unscored for one in part.metrics]
        seconds = spent[part.name]
        rate = _compute_rate(part.items, seconds)
        faults = sum(part.faults.values())
        rows.append((part.name, part.items, seconds, rate, max(unscored, default=0), faults))
    rest = len(report.source.shards) - len(rows)
    columns = (
        "shard",
        Column("items"),
        Column("seconds", decimals=2),
        Column("items/s", key="rate"),
        Column("unscored"),
        Column("left out", key="faults"),
    )
    note = "The slowest first; “unscored” is that of the metric with the most"
    note += f". {rest:,} faster ones are in shards.csv" if rest else ""
    return Table("shards", "Shards", columns, rows, note, detail=True)


def collect_shards_data(report: Report) -> dict[str, Any]:
    """Return the JSON values of shards; empty if a file was scored."""
    shards, faults = report.source.shards, Counter[str]()
    for part in shards:
        faults.update(part.faults)
    facts = {"faults": dict(faults), "failed": dict(report.failed), "seconds": sum_seconds(report)}
    return {"shards": len(shards), **facts} if shards else {}


def collect_metric_data(report: Report, key: str) -> dict[str, Any]:
    """Return the numbers of a metric, with its histogram if the values of the items are not in memory."""
    facts = vars(report.facts(key))
    if lists_items(report):
        return facts
    one = _as_stored(report.measurements[key])
    edges, counts = _merge_bins(one)
    reasons = {reason: found.count for reason, found in one.reason_counts.items()}
    return {**facts, "reasons": reasons, "histogram": {"edges": edges, "counts": counts}}


def _as_stored(measurement: Measurement) -> StoredMeasurement:
    """Return the measurement, which is known to be made of summaries of parts."""
    from captious.runs.stored import StoredMeasurement

    assert isinstance(measurement, StoredMeasurement)
    return measurement


def collect_shard_columns(report: Report) -> Mapping[str, Sequence[Any]]:
    """Return one row per shard: items, the value of each metric, the number without a value, faults, seconds."""
    parts = report.source.shards
    return {
        "shard": [part.name for part in parts],
        "items": [part.items for part in parts],
        **{key: _aggregate_shards(report, key) for key in report.measurements},
        **{
            f"{key}_unscored": [part[key].signature.unscored if part.items else 0 for part in parts]
            for key in report.measurements
        },
        "faults": [sum(part.faults.values()) for part in parts],
        "seconds": [sum(part.seconds.values()) for part in parts],
    }


def _aggregate_shards(report: Report, key: str) -> list[float | None]:
    """Return the value of a metric on each shard, or None."""
    full = [part for part in report.source.shards if part.items]
    sums = np.array([part[key].sums for part in full], dtype=np.float64)
    values = report.measurements[key].metric.aggregate(sums).tolist() if full else []
    scored = {part.name: value for part, value in zip(full, values, strict=True)}
    by_shard = [scored[part.name] if part.items and part[key].scored else NAN for part in report.source.shards]
    return [value if math.isfinite(value) else None for value in by_shard]


def _compute_rate(items: int, seconds: float) -> int | None:
    """Return items per second."""
    return round(items / seconds) if seconds else None


def _make_share_column(name: str) -> Column:
    return Column(name, decimals=1, scale=100.0, unit=" %", key="share")


def _merge_bins(measurement: StoredMeasurement) -> tuple[list[float], list[int]]:
    """Return edges and counts of at most `BARS` bins; the highest possible value is counted in the last bin."""
    histogram, highest = measurement.histogram, measurement.metric.range[1]
    while len(histogram.counts) > BARS + 1:
        histogram = histogram.coarsen(histogram.exponent + 1)
    edges, counts = histogram.edges.tolist(), list(histogram.counts)
    if len(counts) > 1 and edges[-2] >= highest:
        counts[-2:] = [counts[-2] + counts[-1]]
        edges.pop()
    return edges, counts


def list_shard_warnings(
    parts: Sequence[PartSummary], failed: Mapping[str, str], repeated: tuple[int, Sequence[str]], intervals: bool
) -> list[str]:
    """Return warnings on the numbers of shards.

    ``repeated`` is how many ids occur more than once, and lines that name some.
    """
    full = sum(1 for part in parts if part.items)
    warnings = []
    if failed:
        name, why = next(iter(failed.items()))
        are = "shard is" if len(failed) == 1 else "shards are"
        warnings.append(f"{len(failed):,} of {len(failed) + len(parts):,} {are} left out, such as {name}: {why}")
    number, examples = repeated
    if number:
        such = f"such as {examples[0]}"
        occur, their = ("id occurs", "its") if number == 1 else ("ids occur", "their")
        warnings.append(f"{number:,} {occur} more than once over the shards, {such}: {their} items count twice")
    if empty := [part.name for part in parts if not part.items]:
        warnings.append(f"{len(empty):,} of {len(parts):,} shards contain no item, such as {empty[0]}")
    if intervals and full < FEW_SHARDS:
        warnings.append(f"intervals resample {full} shards; below {FEW_SHARDS} they are rough, and often too narrow")
    texts = [(part.name, text) for part in parts for text in (*part.warnings, *_iterate_metric_warnings(part))]
    return [*warnings, *_group_alike(texts)]


def _iterate_metric_warnings(part: PartSummary) -> Iterator[str]:
    return (warning for one in part.metrics for warning in one.warnings)


# Parts in which equal warnings of two shards differ: ids, shares, numbers, and the plural s.
_VARYING = re.compile(r" \([^()]*\)|,? \d+% of all|\d[\d.,]*%?|s\b")


def _group_alike(texts: Sequence[tuple[str, str]]) -> list[str]:
    """Group warnings of shards that differ only in numbers and ids: show the first, and the number of shards."""
    alike: dict[str, list[tuple[str, str]]] = {}
    for name, text in texts:
        alike.setdefault(_VARYING.sub("", text), []).append((name, text))
    lines = []
    for same in alike.values():
        (name, text), shards = same[0], len({name for name, _ in same})
        lines.append(f"{name}: {text}" if shards == 1 else f"{shards:,} shards, such as {name}: {text}")
    return lines
