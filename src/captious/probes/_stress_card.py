"""Sections of a stress card: charts with a row per edit, dose curves, tables for a paper, and the worst offenders."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from captious.edits.changes import mark, summarize
from captious.edits.edit import GROUPS, Group
from captious.probes._effects import CHANCE, MARGIN, Verdict
from captious.probes._stress_test import StressTest
from captious.render import Cell, Chart, Column, Entry, Evidence, Line, Section, Series, Table, link, open_evidence
from captious.render import Group as Folded
from captious.render.answers import count_noun, join_names
from captious.render.document import Value

if TYPE_CHECKING:
    from captious.probes._stress import MetricStress

MARKS: dict[Verdict, str] = {"holds": "", "fails": "*", "undecided": "?"}
MARK_NOTE = "* fails; ? undecided: the interval reaches both sides of the bound, or there are fewer than 20 images."
TITLES: dict[Group, str] = {
    "harm": "Harm: the caption becomes wrong",
    "damage": "Damage: the caption becomes worse as text",
    "harmless": "Harmless: the caption says the same",
    "gaming": "Gaming: longer or emptier, not truer",
    "pairs": "Pairs that people wrote",
}


@dataclass(frozen=True)
class Offender:
    """A caption whose edit a metric answers wrongly, with its scores before and after."""

    edit: str
    group: Group
    id: str
    caption: str
    edited: str
    done: Mapping[str, Any]
    before: float
    after: float


@dataclass(frozen=True)
class EditedPair:
    """A caption and its edited text, with the scores of every metric before and after."""

    id: str
    caption: str
    edited: str
    done: Mapping[str, Any]
    scores: Mapping[str, tuple[float, float]]
    """By the label of the metric."""


# The pairs that metrics answer worst, by edit.
WorstPairs = Mapping[str, Sequence[EditedPair]]


def build_sections(test: StressTest, rows: Sequence[MetricStress], level: float, worst: WorstPairs) -> list[Section]:
    """Build all sections of the card, in reading order."""
    hrefs = {edit: open_evidence(f"edit-{number}") for number, edit in enumerate(worst)}
    groups = [group for group in GROUPS if any(effect.group == group for row in rows for effect in row.effects)]
    sections: list[Section] = [_build_summary(rows, groups)]
    sections += [replace(_draw_group(rows, group), hrefs=hrefs) for group in groups]
    sections += _draw_doses(rows)
    sections += _build_paper_tables(rows, groups, hrefs)
    sections += _build_dose_tables(rows, level)
    sections += _build_rate_tables(rows, level, hrefs)
    sections += [
        Folded(f"Worst offenders of {row.label}", [_build_offender_table(row, number)])
        for number, row in enumerate(rows, 1)
        if row.offenders
    ]
    return [
        *sections,
        Folded("All numbers", [_build_effect_table(rows, level)]),
        Folded("The edits", [_build_edit_table(test, hrefs)]),
        *(_build_panel(f"edit-{number}", test, edit, pairs) for number, (edit, pairs) in enumerate(worst.items())),
    ]


# The fault of a metric that fails an edit of a group.
FAULTS: dict[Group, str] = {
    "harm": "does not notice",
    "damage": "does not notice",
    "pairs": "does not notice",
    "harmless": "is moved by",
    "gaming": "rises with",
}


def describe_failures(row: MetricStress) -> str:
    """Return the plain answer on one metric: the edits that it clearly fails, and how many are undecided."""
    counts = Counter(one.verdict for one in row.effects)
    number = count_noun(len(row.effects), "edit")
    undecided = f"; {counts['undecided']} are undecided" if counts["undecided"] else ""
    if not counts["fails"]:
        return f"{row.label} is not shown to fail any of {number}{undecided}."
    faults: dict[str, list[str]] = {}
    for one in row.effects:
        if one.verdict == "fails":
            faults.setdefault(FAULTS[one.group], []).append(one.edit)
    listed = ", ".join(f"it {fault} {join_names(edits, 6)}" for fault, edits in faults.items())
    return f"{row.label} fails {counts['fails']} of {number}: {listed}{undecided}."


def _build_panel(key: str, test: StressTest, edit: str, pairs: Sequence[EditedPair]) -> Evidence:
    """Build the cards of an edit: the pairs that the metrics answer worst."""
    group, about = next((group, part.about[edit]) for part in test.parts for form, group in part.edits if form == edit)
    entries = []
    for pair in pairs:
        before, after = mark(pair.caption, pair.edited, pair.done, harmful=group != "harmless")
        facts = [f"{label} {one:.3f} → {two:.3f}" for label, (one, two) in pair.scores.items()]
        entries.append(Entry(pair.id, [Line(before, "caption"), Line(after, "edited")], None, facts))
    expected = {"harmless": "not change", "gaming": "not rise"}.get(group, "fall")
    note = f"{about}. Every score should {expected}; the pairs that the metrics answer worst, on average, come first."
    return Evidence(key, f"{edit}: worst pairs", entries, f"{note[0].upper()}{note[1:]}")


def _link_edit(edit: str, hrefs: Mapping[str, str]) -> Value:
    return link(edit, hrefs[edit]) if edit in hrefs else edit


def _build_summary(rows: Sequence[MetricStress], groups: Sequence[Group]) -> Table:
    """Build a table with one line per metric: the numbers of edits that hold, fail and are undecided."""
    lines: list[list[Value]] = []
    for row in rows:
        counts = {group: Counter(one.verdict for one in row.effects if one.group == group) for group in groups}
        lines.append([row.label, *(_format_counts(counts[group]) for group in groups)])
    return Table(
        "summary", "Edits that hold, fail and are undecided", ["metric", *groups], lines, "There is no overall score."
    )


def _format_counts(counts: Counter[Verdict]) -> str:
    order: tuple[Verdict, ...] = ("holds", "fails", "undecided")
    plural = {"holds": "hold", "fails": "fail"}
    shown = {verdict: verdict if counts[verdict] == 1 else plural.get(verdict, verdict) for verdict in order}
    return ", ".join(f"{counts[verdict]} {shown[verdict]}" for verdict in order if counts[verdict]) or "—"


def _list_edits(rows: Sequence[MetricStress], group: Group) -> list[str]:
    """List the edits of a group, in the order in which they were tried."""
    return list(dict.fromkeys(one.edit for row in rows for one in row.effects if one.group == group))


def _draw_group(rows: Sequence[MetricStress], group: Group) -> Chart:
    """Draw one row per edit, with a dot and an interval for each metric; rings for undecided verdicts."""
    harmless = group == "harmless"
    series = []
    for row in rows:
        own = [one for one in row.effects if one.group == group and one.n]
        scale = 1 if harmless else 100
        series.append(
            Series(
                row.label,
                [one.edit for one in own],
                [scale * one.decisive.value for one in own],
                [scale * one.decisive.low for one in own],
                [scale * one.decisive.high for one in own],
                hollow=[one.verdict == "undecided" for one in own],
            )
        )
    what = "share of captions that rise" if group == "gaming" else "share of captions that fall"
    return Chart(
        "dots",
        series,
        TITLES[group],
        f"{GROUPS[group].partition(': ')[2].capitalize()}. Rings: undecided."
        + (f" Dashed: no change, and the bounds ±{MARGIN}." if harmless else ""),
        x="mean change in standard deviations" if harmless else f"{what}, percent, ties one half",
        reference=0.0 if harmless else 100 * CHANCE,
        reference_name="no change" if harmless else "chance",
        bounds=(-MARGIN, MARGIN) if harmless else (),
        decimals=2 if harmless else 1,
        bands=tuple(range(len(_list_edits(rows, group)))),
    )


def _draw_doses(rows: Sequence[MetricStress]) -> list[Section]:
    """Draw the size at each dose, with a line for each metric."""
    charts: list[Section] = []
    for name in dict.fromkeys(one.edit for row in rows for one in row.doses):
        series = []
        for row in rows:
            for one in row.doses:
                if one.edit == name:
                    points = [0.0, *map(float, one.doses)]
                    y = [0.0, *(size.value for size in one.sizes)]
                    low, high = ([0.0, *(getattr(size, end) for size in one.sizes)] for end in ("low", "high"))
                    series.append(Series(row.label, points, y, low, high))
        note = "Mean change in standard deviations of the metric. A sound metric falls with every dose."
        title = f"Dose and response: {name}"
        charts.append(Chart("lines", series, title, note, x="dose", y="size", reference=0.0, decimals=2))
    return charts


def _build_paper_tables(
    rows: Sequence[MetricStress], groups: Sequence[Group], hrefs: Mapping[str, str]
) -> list[Section]:
    """Build two tables with metrics side by side: sides in percent, and sizes of harmless edits."""
    tables: list[Section] = []
    sided = [group for group in groups if group != "harmless"]
    if sided:
        tables.append(_build_paper_table("sides", "Sides, percent", rows, sided, 100, 1, hrefs))
    if "harmless" in groups:
        title = f"Sizes of harmless edits, which must be within ±{MARGIN}"
        tables.append(_build_paper_table("sizes", title, rows, ["harmless"], 1, 2, hrefs))
    return tables


def _build_paper_table(
    key: str,
    title: str,
    rows: Sequence[MetricStress],
    groups: Sequence[Group],
    scale: float,
    decimals: int,
    hrefs: Mapping[str, str],
) -> Table:
    lines: list[list[Value]] = []
    breaks = []
    for group in groups:
        breaks.append(len(lines))
        for edit in _list_edits(rows, group):
            effects = [next((one for one in row.effects if one.edit == edit), None) for row in rows]
            cells = [None if one is None or not one.n else Cell.of(one.decisive, MARKS[one.verdict]) for one in effects]
            lines.append(
                [_link_edit(edit, hrefs), group, max((one.n for one in effects if one is not None), default=0), *cells]
            )
    columns: list[Column | str] = ["edit", "group", Column("n")]
    columns += [Column(row.label, decimals=decimals, scale=scale, spread="half") for row in rows]
    return Table(key, title, columns, lines, MARK_NOTE, breaks=breaks[1:])


def _build_dose_tables(rows: Sequence[MetricStress], level: float) -> list[Section]:
    lines: list[list[Value]] = [
        [row.label, one.edit, one.n, Cell.of(one.slope), "yes" if one.monotone else "no", Cell.of(one.falling)]
        for row in rows
        for one in row.doses
    ]
    columns: list[Column | str] = ["metric", "edit", Column("n"), Column("slope", level=level)]
    columns += [Column("monotone", "text"), Column("falls with every dose, %", decimals=1, scale=100, key="falling")]
    note = "Slope: the change for each dose in the metric's own unit. Monotone: the mean falls with every dose."
    return [Table("doses", "Dose and response", columns, lines, note)] if lines else []


def _build_rate_tables(rows: Sequence[MetricStress], level: float, hrefs: Mapping[str, str]) -> list[Section]:
    """Build a table of how many edits outweigh one injected object, metrics side by side."""
    edits = {one.edit: one.group for row in rows for one in row.rates}
    lines: list[list[Value]] = []
    for edit, group in edits.items():
        rates = [next((one.rate for one in row.rates if one.edit == edit), None) for row in rows]
        lines.append([_link_edit(edit, hrefs), group, *(None if rate is None else Cell.of(rate) for rate in rates)])
    columns: list[Column | str] = ["edit", "group"]
    columns += [Column(row.label, decimals=2, level=level) for row in rows]
    note = (
        "How many of these edits change the score as much as one injected object: below 1, the edit weighs more than a "
        "wrong object. ∞: the edit does not change the score."
    )
    return (
        [Table("rates", "Exchange rates with one injected object", columns, lines, note, detail=True)] if lines else []
    )


def _build_offender_table(row: MetricStress, number: int) -> Table:
    lines: list[list[Value]] = []
    for one in row.offenders:
        before, after = mark(one.caption, one.edited, one.done, harmful=one.group != "harmless")
        lines.append([one.edit, one.id, before, after, summarize(one.done), one.before, one.after])
    columns: list[Column | str] = [
        "edit",
        "id",
        "caption",
        "edited",
        "what was done",
        Column("before"),
        Column("after"),
    ]
    return Table(f"offenders_{number}", f"Edits that {row.label} fails", columns, lines, detail=True)


def _build_effect_table(rows: Sequence[MetricStress], level: float) -> Table:
    """Build a table of all numbers, with a row per metric and edit, for other programs."""
    lines: list[list[Value]] = [
        [
            *(row.metric, row.signature, one.group, one.edit, one.n),
            *(Cell.of(one.sides), Cell.of(one.size), Cell.of(one.change), one.verdict),
        ]
        for row in rows
        for one in row.effects
    ]
    columns: list[Column | str] = ["metric", Column("signature", "text", latex=None), "group", "edit", Column("n")]
    columns += [Column(name, level=level) for name in ("sides", "size", "change")]
    return Table("effects", "Effects", [*columns, Column("verdict", "text")], lines, detail=True)


def _build_edit_table(test: StressTest, hrefs: Mapping[str, str]) -> Table:
    lines: list[list[Value]] = []
    for part in test.parts:
        made = Counter(one.column for one in part.edited)
        for column, (edit, group) in enumerate(part.edits):
            lines.append([_link_edit(edit, hrefs), group, part.about[edit], made[column], part.left_out.get(edit, 0)])
    columns: list[Column | str] = ["edit", "group", Column("what it does", "text"), Column("made"), Column("left out")]
    return Table("edits", "Edits, and captions that they cannot be made of", columns, lines, detail=True)
