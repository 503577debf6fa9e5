"""Evidence about metrics, as data: the agreement of each with people, on which captions, and who computed it.

The rows are in ``evidence.jsonl``, which ``python -m lab.evidence`` writes from published data. Nobody edits them.
"""

from __future__ import annotations

import json
import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cached_property, lru_cache
from pathlib import Path
from typing import Any, Literal, TypeAlias

from captious._core.records import from_json, read_text
from captious.errors import InputError, format_choices, format_suggestion
from captious.options import LEVEL
from captious.render import Cell, Column, Document, Result, Section, Table, Text
from captious.render.answers import join_names
from captious.render.document import NAN, Value
from captious.stats.ranks import format_ranks, rank_breaks, rank_note
from captious.study._statistic_columns import get_label, make_column

Kind: TypeAlias = Literal["ratings", "pairs", "systems"]
Source: TypeAlias = Literal["computed", "stored-outputs", "printed"]
FILE = Path(__file__).with_name("evidence.jsonl")
STRESS_FILE = Path(__file__).with_name("stress.jsonl")
# Baselines: a metric ranked below one of them is no better than counting words.
BASELINES = {"words": "number of words"}

# Weights of encoders that were trained for the evidence and that nobody can download, and what a reader does not have.
UNPUBLISHED = {"photographs": "its weights, trained on photographs of the same collection"}


@dataclass(frozen=True)
class EvidenceRow:
    """One number: the agreement of a metric with people on a set of captions."""

    dataset: str
    kind: Kind
    """The kind of agreement: with ratings of captions, with pairs of them, or with means of systems."""
    domain: str
    """The subject of the captions: photographs, video, audio, drawn scenes, or generated images."""
    language: str
    caption_words: float | None
    """The median number of words of a caption; None if the source does not say it."""
    references: float | None
    """The median number of references; None if the source does not say it."""
    items: int
    """Captions, pairs or systems that the number is over."""
    statistic: str
    metric: str
    """The written form of the metric; for a metric that captious does not have, its usual name."""
    signature: str
    value: float
    low: float | None
    high: float | None
    ranks: tuple[int, ...] | None
    """Two metrics share a rank exactly if no test distinguishes them. None for all but the headline of a data set."""
    source: Source
    """Computed by captious; another program's values per item, correlated by captious; or printed in a paper."""
    where: str
    """The command or the paper and table."""
    recipe: str
    date: str

    @property
    def label(self) -> str:
        """The name of the metric in tables."""
        return get_metric_label(self.metric)


@dataclass(frozen=True)
class StressRow:
    """How one metric answered one edit of captions, a row of ``captious probe stress``."""

    metric: str
    signature: str
    group: str
    """``harm``, ``damage``, ``harmless``, ``gaming`` or ``pairs``."""
    edit: str
    n: int
    """Captions that could be edited."""
    sides: float
    size: float
    low: float
    high: float
    verdict: str
    """``holds``, ``fails`` or ``undecided``."""
    dataset: str
    """The captions that were edited."""


@lru_cache(maxsize=256)
def get_metric_label(written: str) -> str:
    """Return the label of a metric in tables, with the parameters that its label does not tell; other metrics by their
    name.

    >>> get_metric_label("bleu(n=4)"), get_metric_label("clipscore(weights=captious-mini)"), get_metric_label("words")
    ('BLEU-4', 'CLIPScore (captious-mini)', 'number of words')
    """
    metric = find_shipped(written)
    if metric is None:
        return BASELINES.get(written, written)
    name, _, parameters = written.partition("(")
    if not parameters or metric.label != find_shipped(name).label or str(metric) == str(find_shipped(name)):
        return str(metric.label)
    parts = [part for part in parameters.rstrip(")").split(",") if not part.endswith("=")]
    told = [part.rpartition("/")[2].removeprefix("weights=") for part in parts]
    return f"{metric.label} ({', '.join(told)})"


@lru_cache(maxsize=256)
def find_shipped(written: str) -> Any:
    """Parse the written form of a metric; None if captious does not have it."""
    from captious.metrics.registry import parse

    try:
        return None if written in BASELINES else parse(written)
    except InputError:
        return None


def load_evidence(path: str | Path | None = None) -> tuple[EvidenceRow, ...]:
    """Read the rows of a file of evidence; by default those of the package."""
    rows: tuple[EvidenceRow, ...] = _read_rows(EvidenceRow, Path(path or FILE))
    for number, row in enumerate(rows, 1):
        if not math.isfinite(row.value):
            raise InputError(f"{path}: row {number}: value is {row.value}, expected a number")
    return rows


def load_stress(path: str | Path | None = None) -> tuple[StressRow, ...]:
    """Read the verdicts of stress cards; by default those of the package."""
    rows: tuple[StressRow, ...] = _read_rows(StressRow, Path(path or STRESS_FILE))
    return rows


@lru_cache(maxsize=8)
def _read_rows(kind: type, path: Path) -> tuple[Any, ...]:
    rows = []
    for number, line in enumerate(read_text(path, "file of evidence").splitlines(), 1):
        try:
            rows.append(from_json(kind, json.loads(line)))
        except (TypeError, ValueError, RecursionError) as error:
            raise InputError(f"{path}: row {number}: no row of evidence ({str(error)[:80]})") from None
    if not rows:
        raise InputError(f"{path}: contains no evidence")
    return tuple(rows)


def find_headline(rows: Iterable[EvidenceRow]) -> str:
    """Return the statistic that the metrics of a data set are ranked by; the first one if none is ranked."""
    rows = list(rows)
    return next((row.statistic for row in rows if row.ranks is not None), rows[0].statistic)


@dataclass(frozen=True, eq=False, repr=False)
class Leaderboard(Result):
    """The evidence on metrics: a table for each data set, with published numbers and ours."""

    rows: tuple[EvidenceRow, ...]

    def __repr__(self) -> str:
        return f"<Leaderboard: {len(self.rows)} rows of {len(self.datasets)} data sets>"

    @cached_property
    def datasets(self) -> dict[tuple[str, Kind], list[EvidenceRow]]:
        """The rows of each data set and kind."""
        found: dict[tuple[str, Kind], list[EvidenceRow]] = {}
        for row in self.rows:
            found.setdefault((row.dataset, row.kind), []).append(row)
        return found

    def search(self, word: str) -> Leaderboard:
        """Return the data set of this name, or all whose name contains the word; if none does, metrics that do."""
        wanted = word.lower()
        for matches in (
            [row for row in self.rows if wanted == row.dataset.lower()],
            [row for row in self.rows if wanted in row.dataset.lower()],
            [row for row in self.rows if wanted in f"{row.metric} {get_metric_label(row.metric)}".lower()],
        ):
            if matches:
                return Leaderboard(tuple(matches))
        known = dict.fromkeys(row.dataset for row in self.rows)
        raise InputError(f"no data set or metric contains {word[:60]!r}{format_choices(word, known)}")

    def document(self) -> Document:
        """Build an overview of the data sets, a table for each, the best metric first, and what the columns mean."""
        sections: list[Section] = [_build_overview(self.datasets)] if len(self.datasets) > 1 else []
        sections += [_build_table(name, kind, rows) for (name, kind), rows in self.datasets.items()]
        sources = dict.fromkeys(row.where for row in self.rows if row.source == "printed")
        sections.append(Text([*NOTES, *(f"published: {where}" for where in sources)], "How to read it", bullets=True))
        return Document(
            TITLE,
            "How well metrics agree with people, on published data.",
            sections,
            data={"rows": [asdict(row) for row in self.rows]},
            name="leaderboard",
            answer=self._answer(),
        )

    def _answer(self) -> str:
        """Return the plain answer: the metrics that are most often in the first rank."""
        tested = [ranked for rows in self.datasets.values() if (ranked := find_best(rows))]
        if not tested:
            return "No test ranks the metrics of these data: there are printed numbers only."
        # Of a selection of metrics, even the best may be behind metrics that are not shown.
        firsts = Counter(metric for rank, best in tested if rank == 1 for metric in best)
        if not firsts:
            return f"None of these metrics is in the first rank on any of the data sets. {ADVICE}"
        if len(tested) == 1:
            best = [get_metric_label(metric) for metric in firsts]
            is_ = "is best" if len(best) == 1 else "are not distinguished from the best"
            return f"{join_names(best)} {is_} on these data. {ADVICE}"
        (name, count), *others = firsts.most_common(3)
        rest = "".join(f", {get_metric_label(metric)} on {number}" for metric, number in others)
        return (
            f"{get_metric_label(name)} is in the first rank on {count} of {len(tested)} data sets with tests{rest}. "
            f"{ADVICE}"
        )


TITLE = "Metrics against people"
ADVICE = "Which metric works depends on the captions: captious study advise looks at yours."
NOTES = (
    f"{rank_note('metrics', LEVEL, 'permutation test')}; a dash: not tested",
    "source: computed by captious; stored: another program's values per caption, correlated by captious; printed: a "
    "number from a paper, which has neither interval nor rank",
    "correlations and accuracies × 100; intervals are 95 % percentiles of the bootstrap over images",
)
SOURCES: dict[str, str] = {"computed": "computed", "stored-outputs": "stored", "printed": "printed"}


def find_best(rows: Sequence[EvidenceRow]) -> tuple[int, list[str]] | None:
    """Return the first rank among these rows and its metrics, the best first; None if no test ranks them."""
    first = find_headline(rows)
    ranked = [row for row in rows if row.ranks and row.statistic == first]
    if not ranked:
        return None
    rank = min(min(row.ranks or ()) for row in ranked)
    return rank, [row.metric for row in ranked if rank in (row.ranks or ())]


def _build_overview(datasets: Mapping[tuple[str, Kind], Sequence[EvidenceRow]]) -> Table:
    """Build the table of data sets, each with the metrics of the first rank, or with the highest printed one."""
    cells: list[list[Value]] = []
    for (name, kind), rows in datasets.items():
        rank, metrics = find_best(rows) or (None, [])
        best = [get_metric_label(metric) for metric in metrics]
        if not best:
            first = find_headline(rows)
            highest = max((row for row in rows if row.statistic == first), key=lambda row: row.value)
            best = [get_metric_label(highest.metric) + ", as printed" * (highest.source == "printed")]
        more = f" = {len(best) - 1} more" if len(best) > 1 else ""
        number = next((f"{row.items:,} {kind}" for row in rows if row.items), kind)
        cells.append([name, number, "–" if rank is None else str(rank), f"{best[0]}{more}"])
    return Table("datasets", TITLE, ["data set", "people gave", "rank", "best metric"], cells)


def _build_table(name: str, kind: Kind, rows: Sequence[EvidenceRow]) -> Table:
    """Build the table of the metrics of one data set, each statistic with what was published."""
    first = find_headline(rows)
    statistics = [first, *dict.fromkeys(row.statistic for row in rows if row.statistic != first)]
    ours = {(row.metric, row.statistic): row for row in rows if row.source != "printed"}
    printed = {(row.metric, row.statistic): row for row in reversed(rows) if row.source == "printed"}
    published = [one for one in statistics if any(statistic == one for _, statistic in printed)]
    columns: list[Column | str] = [Column("rank", "text"), "metric"]
    for statistic in statistics:
        head = get_label(statistic)
        if any(key[1] == statistic for key in ours):
            level = 0.95 if statistic == first else None
            columns.append(make_column(statistic, level=level, bold=statistic == first))
        if statistic in published:
            columns.append(make_column(statistic, f"{head} published", key=f"{statistic}_published"))
    columns.append("source")
    order = sorted({row.metric for row in rows}, key=lambda metric: _sort_key(metric, statistics, ours, printed))
    cells: list[list[Value]] = []
    ranked = {metric: row.ranks for (metric, statistic), row in ours.items() if statistic == first}
    for metric in order:
        row = ours.get((metric, first))
        line: list[Value] = [
            "–" if row is None or row.ranks is None else format_ranks(row.ranks),
            get_metric_label(metric),
        ]
        for statistic in statistics:
            if any(key[1] == statistic for key in ours):
                line.append(_format_cell(ours.get((metric, statistic)), statistic == first))
            if statistic in published:
                line.append(_format_cell(printed.get((metric, statistic)), False))
        source = next(one.source for one in rows if one.metric == metric)
        cells.append([*line, SOURCES[source]])
    untested = (0,)  # as if they had a rank of their own
    breaks = rank_breaks([ranked.get(metric) or untested for metric in order])
    return Table(f"{name}_{kind}".replace(" ", "_"), _describe_data(name, kind, rows), columns, cells, "", breaks)


def _sort_key(metric: str, statistics: Sequence[str], ours: Any, printed: Any) -> tuple[bool, float]:
    """Sort key of a metric: ours first, the best first; then what is only printed."""
    for table in (ours, printed):
        for statistic in statistics:
            if (metric, statistic) in table:
                return table is printed, -table[metric, statistic].value
    raise AssertionError(metric)


def _format_cell(row: EvidenceRow | None, interval: bool) -> Value:
    if row is None:
        return None
    ends = (row.low, row.high) if interval and row.low is not None and row.high is not None else (NAN, NAN)
    return Cell(row.value, *ends)


def _describe_data(name: str, kind: Kind, rows: Sequence[EvidenceRow]) -> str:
    """Describe what was rated: how many captions of how many words in which language of what."""
    row = next((row for row in rows if row.source != "printed"), rows[0])
    what = "captions" if kind == "ratings" else kind
    parts = [f"{row.items:,} {what} of {row.domain}" if row.items else f"{what} of {row.domain}"]
    parts += [] if row.caption_words is None else [f"{row.caption_words:.0f} words"]
    if row.references is not None:
        parts.append(
            f"{row.references:.0f} reference{'s' * (row.references != 1)}" if row.references else "no references"
        )
    parts.append(row.language)
    return f"{name}: {', '.join(parts)}"


def leaderboard(
    dataset: str | None = None, metric: str | None = None, evidence: str | Path | None = None
) -> Leaderboard:
    """Collect the evidence on metrics, of one data set or of one metric if they are named.

    >>> leaderboard("flickr8k-expert", "cider").rows[0].label
    'CIDEr-D'
    """
    rows = load_evidence(evidence)
    if dataset is not None:
        names = list(dict.fromkeys(row.dataset for row in rows))
        if dataset not in names:
            raise InputError(f"dataset={dataset[:60]!r}, known: {', '.join(names)}{format_suggestion(dataset, names)}")
        rows = tuple(row for row in rows if row.dataset == dataset)
    if metric is not None:
        names = list(dict.fromkeys(row.metric for row in rows))
        wanted = {name for name in names if _is_named(name, metric)}
        if not wanted:
            raise InputError(f"metric={metric[:60]!r}: no evidence, there is some for {', '.join(names)}")
        rows = tuple(row for row in rows if row.metric in wanted)
    return Leaderboard(rows)


def _is_named(written: str, wanted: str) -> bool:
    """Return whether a metric has this name: its written form, its name without parameters, or its label."""
    lowered = wanted.lower()
    asked = find_shipped(lowered)
    names = {written.lower(), written.partition("(")[0].lower(), get_metric_label(written).lower()}
    return lowered in names or (asked is not None and str(asked) == written)
