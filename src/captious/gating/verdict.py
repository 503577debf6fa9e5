"""``captious.gate``: a non-inferiority test between a base and a new system on the same items, with one verdict."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, NamedTuple

import numpy as np

from captious._compare import StatisticPair
from captious._evaluate import Scoring
from captious.captions import ImageData, Item
from captious.errors import InputError
from captious.gating.margins import AllowedLoss, Margins, match_margins, parse_margins
from captious.gating.sides import PairedSides, read_sides
from captious.metrics.requests import Specs
from captious.options import LEVEL, Bounds, Missing, Option, Reading, Resampling, Runtime, Undecided, check_value
from captious.render import (
    Answer,
    Cell,
    Column,
    Document,
    Entry,
    Evidence,
    Figure,
    Line,
    Phrase,
    Picture,
    Result,
    Section,
    Span,
    Table,
    Text,
    link,
    name_several,
    open_evidence,
)
from captious.render.answers import count_noun
from captious.render.document import Tone, Value
from captious.runs.report import join_signatures
from captious.stats.noninferiority import POWER, Decision, GainDraws, NonInferiority, compute_span, make_decisions
from captious.stats.resampling import Resamples, compute_influences, make_error_statistic, resample_statistics, sort_ids

# Captions with the largest losses that a gate lists.
LOST = 10
# Items, or changed captions, below which a loss of the margin can pass in more than 8 % (docs/results/gate.md).
FEW: dict[Bounds, int] = {"studentized": 30, "t": 100, "percentile": 100}
# Warnings below `FEW`; `lab/benchmarks/gate_shapes.py` computes the numbers.
TOO_OFTEN: dict[Bounds, str] = {
    "studentized": "a large loss in a few captions can be missed: such a loss, as large as the margin, passes in 11% "
    "of cases with 15 changed captions and in 23% with 7, instead of 5%",
    "t": "a loss as large as the margin passes in 5 to 30% of cases instead of 5%; interval=studentized is better",
    "percentile": "a loss as large as the margin passes in 4 to 29% of cases instead of 5%; interval=studentized is "
    "better",
}
# First line of the Markdown, which identifies the comment that CI replaces.
MARK = "<!-- captious-gate -->"
TONES: dict[Decision, Tone] = {"pass": "good", "worse": "bad", "undecided": "unsure"}
WORDS: dict[Decision, str] = {"pass": "pass", "worse": "worse", "undecided": "cannot tell"}
EXIT: dict[Decision, int] = {"pass": 0, "worse": 1, "undecided": 3}


@dataclass(frozen=True)
class GateRow:
    """The test of one metric."""

    metric: str
    label: str
    higher_is_better: bool
    base: float
    new: float
    difference: float
    """New minus base."""
    low: float
    """The difference is at least this with the confidence of the level, and at most ``high``: two one-sided bounds."""
    high: float
    error: float
    """Standard error of the difference."""
    margin: float
    """The largest loss that passes, in the unit of the metric."""
    given: str
    """The margin as it was given, such as ``1%``."""
    verdict: Decision
    p_worse: float
    """The p-value of the null hypothesis that no more than the margin is lost."""
    p_holm: float
    """The same after Holm's correction over the metrics."""
    items: int
    """Items that both have a value for."""
    smallest_margin: float
    """The smallest margin with which these results pass."""
    equal_passes: float
    """The margin with which an equal system passes four times in five, at this size and with as many changes."""
    items_to_decide: int | None
    """Items that would decide with power 0.8, if the difference stays as it is."""
    reason: str = ""
    """The reason why the metric cannot pass, if it is not the test."""
    decimals: int | None = None


class LostCaption(NamedTuple):
    """An item whose caption scores lower than that of the base."""

    id: str
    base_value: float
    new_value: float
    base: str | None
    """The caption of the base; None if it is a lock file, which has no captions."""
    new: str
    reference: str


_SCORE, _MARGIN = Column("base", percent=1), Column("margin", percent=2)


@dataclass(frozen=True, repr=False)
class Gate(Result):
    """The verdict on a new system, with its tests. ``print``, ``save`` and others come from ``Result``."""

    base: str
    new: str
    rows: tuple[GateRow, ...]
    items: int
    unit: str
    """The unit that was resampled: items or shards."""
    changed: float | None
    """Share of the items whose captions differ; None if that is unknown."""
    lost: tuple[LostCaption, ...]
    lost_by: str
    """The metric by which the captions are listed: the one that decided."""
    resampling: Resampling
    paired: bool = True
    """Whether the items of the base are known; otherwise its values are taken as fixed numbers."""
    undecided: Undecided | None = None
    warnings: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    interval: Bounds = "studentized"
    """How the bounds follow from the resamples."""
    cards: tuple[Entry, ...] = ()
    """The lost captions with all references and values, which the page opens."""
    read: tuple[str, ...] = ()
    """The columns and files that were read, a line per system unless the lines are equal."""

    def __repr__(self) -> str:
        return f"<Gate {self.new} against {self.base}: {self.verdict}, {len(self.rows)} metrics, {self.items} items>"

    @property
    def verdict(self) -> Decision:
        """``worse`` if any metric is, ``pass`` if all do, otherwise ``undecided``."""
        found = {row.verdict for row in self.rows}
        return "worse" if "worse" in found else "pass" if found == {"pass"} else "undecided"

    @property
    def passed(self) -> bool:
        """Whether every metric passes."""
        return self.verdict == "pass"

    @property
    def exit_code(self) -> int:
        """Exit code of the command: 0 pass, 1 worse, 3 cannot tell, unless ``undecided`` sets another."""
        if self.verdict == "undecided" and self.undecided:
            return EXIT["pass"] if self.undecided == "warn" else EXIT["worse"]
        return EXIT[self.verdict]

    @property
    def headline(self) -> str:
        """The verdict in one sentence."""
        names = {one: ", ".join(row.label for row in self.rows if row.verdict == one) for one in ("worse", "undecided")}
        if self.verdict == "pass":
            return f"Pass: {self.new} is not worse than {self.base} by more than the margin"
        if self.verdict == "worse":
            return f"Worse: {self.new} loses more than the margin in {names['worse']}"
        return f"Cannot tell whether {self.new} loses more than the margin in {names['undecided']}"

    def document(self) -> Document:
        """Return the verdict, the metrics, advice on undecided ones, and the captions that lost most."""
        sections: list[Section] = [self._build_metrics_table()]
        if lines := self._list_advice():
            sections.append(Text(lines, "What would decide", bullets=len(lines) > 1))
        if self.lost:
            sections.append(self._build_lost_table())
            sections += [Evidence(f"item-{number}", card.id, [card]) for number, card in enumerate(self.cards)]
        size = f"{self.items:,} items{self._format_changed()}"
        return Document(
            f"Gate: {self.new} against {self.base}",
            "",
            sections,
            warnings=self.warnings,
            notes=[f"{size}; bounds by {self.resampling.signature(self._unit, self.interval)}", *self.read],
            signatures=self.signatures,
            data=self.data(),
            name="gate",
            answer=self._answer(),
            page=f"Gate: {self.new} against {self.base} by {name_several([row.label for row in self.rows])}",
        )

    def _answer(self) -> Answer:
        """Return the plain answer: the verdict, the change of the metric that decided, and what would decide."""
        row = next((row for row in self.rows if row.metric == self.lost_by), self.rows[0])
        if row.reason:
            return f"{self.headline}: {row.reason}."
        cells, loss = self._make_cells(row), "loss" if row.higher_is_better else "rise"
        allowed = replace(cells["margin"], value=row.margin, mark="")
        advice = f" What would decide: {_describe_needed(row)}." if row.verdict == "undecided" else ""
        return [
            f"{self.headline}. {row.label} changed by ",
            Figure(cells["difference"], self._make_difference_column()),
            f" on {count_noun(self.items, 'item')}; a {loss} of ",
            Figure(allowed, _MARGIN),
            f" is allowed.{advice}",
        ]

    def _format_changed(self) -> str:
        return "" if self.changed is None else f", {100 * self.changed:.3g}% of the captions changed"

    @property
    def _unit(self) -> str:
        return "" if self.unit == "items" else self.unit

    def _build_metrics_table(self) -> Table:
        columns: tuple[Column | str, ...] = (
            "metric",
            "verdict",
            _SCORE,
            replace(_SCORE, name="new", bold=True),
            self._make_difference_column(),
            replace(_MARGIN, signed=True),
            Column("would pass", percent=2, key="smallest_margin", signed=True),
        )
        rows: list[Sequence[Value]] = []
        for row in self.rows:
            verdict = Phrase((Span(WORDS[row.verdict], TONES[row.verdict]),))
            rows.append((row.label, verdict, *self._make_cells(row).values()))
        one_sided = f"{100 * self.resampling.level:g}%"
        note = (
            f"Each end of the interval is a one-sided {one_sided} bound. Pass: a loss of more than the margin is ruled "
            "out; worse: it is shown, with Holm's correction over the metrics. “would pass”: the smallest margin with "
            "which these results pass"
        )
        return Table("gate", "", columns, rows, note)

    def _make_difference_column(self) -> Column:
        return Column("difference", percent=2, signed=True, level=2 * self.resampling.level - 1)

    def _make_cells(self, row: GateRow) -> dict[str, Cell]:
        """Return the numbers of a metric in the order of the table's columns."""
        own: dict[str, Any] = {} if row.decimals is None else {"decimals": row.decimals, "scale": 1.0}
        sign = -1.0 if row.higher_is_better else 1.0  # of the allowed loss; + 0.0 below turns −0 into 0
        relative = f" ({row.given})" if row.given.endswith("%") else ""
        return {
            "base": Cell(row.base, **own),
            "new": Cell(row.new, **own),
            "difference": Cell(row.difference, row.low, row.high, **own),
            "margin": Cell(sign * row.margin + 0.0, mark=relative, **own),
            "smallest_margin": Cell(sign * row.smallest_margin + 0.0, **own),
        }

    def _list_advice(self) -> list[str]:
        """Return a line for each undecided metric: what would decide it."""
        lines = []
        for row in self.rows:
            if row.verdict != "undecided":
                continue
            if row.reason:
                lines.append(f"{row.label}: {row.reason}.")
                continue
            lines.append(
                f"{row.label}: {_describe_needed(row)}. With these {self.items:,} items, an equal system passes "
                f"{100 * POWER:.0f}% of the time from a margin of {row.equal_passes:.2g} on."
            )
        return lines

    def _build_lost_table(self) -> Table:
        row = next(row for row in self.rows if row.metric == self.lost_by)
        decimals = 4 if row.decimals is None else row.decimals
        percent = 1 if row.decimals is None else None
        columns: list[Column | str] = [
            "id",
            Column("base", percent=percent, decimals=decimals, key="base_value"),
            Column("new", percent=percent, decimals=decimals, key="new_value"),
            Column("caption of base", "text", key="base"),
            Column("caption of new", "text", key="new"),
            Column("first reference", "text", key="reference"),
        ]
        linked = [link(card.id, open_evidence(f"item-{number}")) for number, card in enumerate(self.cards)]
        ids: Sequence[Value] = linked or [one.id for one in self.lost]
        rows = [
            (ids[number], one.base_value, one.new_value, one.base, one.new, one.reference)
            for number, one in enumerate(self.lost)
        ]
        keep = [index for index in range(5) if index != 3 or self.lost[0].base is not None]
        keep += [5] if any(one.reference for one in self.lost) else []
        return Table(
            "lost",
            f"Captions that lost most, by {row.label}",
            [columns[index] for index in keep],
            [[one[index] for index in keep] for one in rows],
        )

    def data(self) -> dict[str, Any]:
        """Return the verdict and every number as JSON."""
        return {
            "verdict": self.verdict,
            "exit_code": self.exit_code,
            "base": self.base,
            "new": self.new,
            "items": self.items,
            "unit": self.unit,
            "changed": self.changed,
            "paired": self.paired,
            "level": self.resampling.level,
            "resampling": {**asdict(self.resampling), "interval": self.interval},
            "metrics": [asdict(row) for row in self.rows],
            "lost_by": self.lost_by,
            "lost": [one._asdict() for one in self.lost],
        }

    def to_markdown(self, link: str = "") -> str:
        """Return Markdown for a step summary or comment, with a hidden first line that identifies the comment."""
        return f"{MARK}\n{super().to_markdown(link)}"

    def to_junit(self) -> str:
        """Return JUnit XML with a test case for each metric."""
        from captious.gating.junit import format_junit

        return format_junit(self)


def _describe_needed(row: GateRow) -> str:
    if row.items_to_decide:
        return f"about {row.items_to_decide:,} items like these, if the difference stays as it is"
    return "no number of items, if the difference stays as it is: it is at the margin"


def gate(
    base: Any,
    new: Any,
    metrics: Specs | None = None,
    margin: Margins | None = None,
    *,
    resampling: Resampling = Resampling(),
    runtime: Runtime | None = None,
    progress: Callable[[str], None] | None = None,
    references: Any = None,
    images: Any = None,
    missing: Missing = "error",
    language: str | None = None,
    reading: Reading = Reading(),
    undecided: Undecided | None = None,
    interval: Bounds | None = None,
) -> Gate:
    """Test that a new system is not worse than a base by more than a margin, on the same items.

    Parameters
    ----------
    base
        A run, a report, captions as ``evaluate`` takes them, or a lock file that ``captious gate --update`` wrote.
    new
        A run, a report, or captions.
    metrics
        As in ``evaluate``. Without it, those of the margin's file, of the lock file or of the runs.
    margin
        How much a metric may lose: ``0.02``, ``"1%"`` of the base's value, ``"cider=0.02,rouge=1%"``, a mapping, or the
        path of a TOML file with ``metrics``, ``margin``, ``[margins]`` and ``undecided``.
    resampling
        How the bootstrap makes the bounds; ``level`` is that of each one-sided bound, 1 − level the rate of false
        passes.
    runtime, progress, references, images, missing, language, reading
        As in ``compare``.
    undecided
        What a gate that cannot tell exits with: 0 for ``warn``, 1 for ``fail``, otherwise 3.
    interval
        How the bounds follow from the resamples: ``studentized``, ``t`` or ``percentile``. By default ``studentized``;
        ``t`` if that is the interval of ``resampling``. The other two let a loss pass too often.

    >>> references = {"1": "a cat sits", "2": "a dog runs"}
    >>> captions = {"1": "a cat", "2": "a dog"}
    >>> gate(captions, captions, "rouge", 0, references=references).verdict
    'pass'
    """
    scoring = Scoring.of(resampling, runtime, progress, reading, references, images, missing, language)
    if not resampling.samples:
        raise InputError("samples=0: a gate needs resamples, expected at least 1")
    if not 0.5 < resampling.level < 1:
        raise InputError(f"level={resampling.level}: a one-sided bound, expected a level above 0.5, such as {LEVEL}")
    settings = parse_margins(margin)
    if not settings.by_name:
        raise InputError("no margin, expected one such as margin=1%; plan=True shows which ones the items can confirm")
    undecided = undecided or settings.undecided or None
    if undecided is not None:
        check_value("undecided", undecided, Undecided, Option(""))
    bounds: Bounds = interval or ("t" if resampling.interval == "t" else "studentized")
    check_value("interval", bounds, Bounds, Option(""))
    sides = read_sides(base, new, settings.select_specs(metrics), scoring)
    return _decide(sides, match_margins(settings.by_name, sides.labels), resampling, undecided, bounds)


def _decide(
    sides: PairedSides,
    losses: Mapping[str, AllowedLoss],
    resampling: Resampling,
    undecided: Undecided | None,
    bounds: Bounds,
) -> Gate:
    """Run the tests of all metrics and build the gate."""
    keys = list(sides.labels)
    margins = {key: losses[key].absolute(sides.pairs[key].baseline.value) for key in keys}
    higher = {key: sides.get_metric(key).higher_is_better for key in keys}
    tests = run_tests(sides.pairs, margins, higher, resampling, bounds)
    decided = make_decisions([tests[key] for key in keys], resampling.level)
    rows = [
        _make_row(sides, key, str(losses[key]), tests[key], decision, p_holm, resampling.level)
        for key, (decision, p_holm) in zip(keys, decided, strict=True)
    ]
    warnings = [
        *sides.warnings,
        *_warn_about_few(sides, bounds),
        *(f"{row.label}: {row.reason}" for row in rows if row.reason),
    ]
    decisive = _find_decisive_metric(rows)
    lost, cards = _list_lost_captions(sides, decisive)
    signatures = [str(sides.new.measurements[key].signature) for key in keys]
    return Gate(
        sides.base.name,
        sides.new.name,
        tuple(rows),
        sides.items,
        "shards" if sides.sharded else "items",
        sides.changed,
        tuple(lost),
        decisive,
        resampling,
        sides.lock is None or all(sides.lock.metrics[key].width for key in keys),
        undecided,
        tuple(dict.fromkeys(warnings)),
        tuple(join_signatures(signatures)),
        bounds,
        tuple(cards),
        sides.read,
    )


def _make_row(
    sides: PairedSides, key: str, given: str, test: NonInferiority, decision: Decision, p_holm: float, level: float
) -> GateRow:
    """Return the row of one metric, with the bounds in the direction of the metric."""
    pair, metric = sides.pairs[key], sides.get_metric(key)
    reason = "no item has a value on both sides" if np.isnan(test.error) else _describe_gap(sides, key)
    sign = 1 if metric.higher_is_better else -1
    low, high = sorted((sign * test.low, sign * test.high))
    return GateRow(
        metric=key,
        label=sides.labels[key],
        higher_is_better=metric.higher_is_better,
        base=pair.baseline.value,
        new=pair.system.value,
        difference=pair.system.value - pair.baseline.value,
        low=low,
        high=high,
        error=test.error,
        margin=test.margin,
        given=given,
        verdict="undecided" if reason and decision == "pass" else decision,
        p_worse=test.p_worse,
        p_holm=p_holm,
        items=pair.items,
        smallest_margin=test.smallest_margin,
        equal_passes=compute_span(level) * test.error,
        items_to_decide=test.items_to_decide(sides.units, level) if decision == "undecided" else None,
        reason=reason,
        decimals=metric.decimals,
    )


def _warn_about_few(sides: PairedSides, bounds: Bounds) -> list[str]:
    """Return a warning if there are too few items, or too few changed captions, for the bounds."""
    sizes = {} if sides.sharded else {"items": min(one.items for one in sides.pairs.values())}
    if changed := sides.changed:
        sizes["changed captions"] = round(changed * sides.items)
    few = next((f"{size} {what}" for what, size in sizes.items() if size < FEW[bounds]), "")
    return [f"{few}: below {FEW[bounds]}, {TOO_OFTEN[bounds]}"] if few else []


def run_tests(
    pairs: Mapping[str, StatisticPair],
    margins: Mapping[str, float],
    higher_is_better: Mapping[str, bool],
    resampling: Resampling,
    bounds: Bounds = "studentized",
) -> dict[str, NonInferiority]:
    """Test each metric from the statistics of both sides; all metrics share the resamples."""
    statistics = [(one.baseline, one.system) for one in pairs.values()]
    weights = Resamples(len(statistics[0][0].rows), resampling.samples, resampling.seed)
    errors = [make_error_statistic(compute_influences(*pair)) for pair in statistics] if bounds == "studentized" else []
    sides = [side for pair in statistics for side in pair]
    values = resample_statistics([*sides, *errors], weights)
    tests = {}
    for index, (key, pair) in enumerate(pairs.items()):
        sign = 1 if higher_is_better[key] else -1
        base, new = pair.baseline.value, pair.system.value
        gains = sign * (values[2 * index + 1] - values[2 * index])
        defined = ~np.isnan(gains)  # resamples without any scored item are left out
        draws = GainDraws(gains[defined], len(pair.system.rows))
        if errors:
            draws = replace(
                draws,
                error=errors[index].value,
                errors=values[len(sides) + index][defined],
                changed=int((pair.system.rows != pair.baseline.rows).any(axis=1).sum()),
            )
        gain, scale = sign * (new - base), max(abs(base), abs(new))
        tests[key] = NonInferiority.of(gain, draws, margins[key], scale, resampling.level, bounds)
    return tests


def _describe_gap(sides: PairedSides, key: str) -> str:
    """Return a warning about items with a value in the base but not in the new system; they could hide a loss."""
    base, new = sides.base.measurements.get(key), sides.new.measurements[key]
    if sides.sharded or base is None:
        known = sides.lock.metrics[key] if base is None and sides.lock is not None else base
        number = max(0, new.signature.unscored - (known.signature.unscored if known is not None else 0))
    else:
        missing = [np.isnan(np.asarray(one.rows)).any(axis=1) for one in (base, new)]
        number = int((missing[1] & ~missing[0]).sum())
    plural = "" if number == 1 else "s"
    return f"{sides.new.name} has no value for {number:,} item{plural} that {sides.base.name} has one for" * (
        number > 0
    )


def _find_decisive_metric(rows: Sequence[GateRow]) -> str:
    """Return the metric that decided: a worse one before an undecided one, then the one with the largest loss."""
    order = ("worse", "undecided", "pass")

    def get_severity(row: GateRow) -> tuple[int, float]:
        gain = row.difference if row.higher_is_better else -row.difference
        return order.index(row.verdict), (gain + row.margin) / row.error if row.error > 0 else 0.0

    return min(rows, key=get_severity).metric


def _list_lost_captions(sides: PairedSides, key: str) -> tuple[list[LostCaption], list[Entry]]:
    """Return the items that lost most by a metric, in the order of their losses, then of their ids, and their cards."""
    ours, theirs = sides.base.measurements.get(key), sides.new.measurements[key]
    if ours is None:
        return [], []
    before = dict(zip(ours.ids, ours.values.tolist(), strict=True))
    base = np.array([before[id] for id in theirs.ids])
    losses = (base - theirs.values) * (1 if theirs.metric.higher_is_better else -1)
    order = np.array(sort_ids(theirs.ids))
    losing = order[np.nan_to_num(losses[order], nan=-1.0) > 0]
    indices = losing[np.argsort(-losses[losing], kind="stable")][:LOST].tolist()
    captions = sides.new.report.captions_at(indices)
    former: dict[str, str] = {}
    if sides.base.report is not None:
        places = {id: index for index, id in enumerate(ours.ids)}
        earlier = sides.base.report.captions_at([places[theirs.ids[index]] for index in indices])
        former = {item.id: " | ".join(item.candidates) for item in earlier}
    lost = [
        LostCaption(
            item.id,
            float(base[index]),
            float(theirs.values[index]),
            former.get(item.id),
            " | ".join(item.candidates),
            (*item.references, "")[0],
        )
        for index, item in zip(indices, captions, strict=True)
    ]
    return lost, [_make_card(sides, one, item) for one, item in zip(lost, captions, strict=True)]


def _make_card(sides: PairedSides, lost: LostCaption, item: Item) -> Entry:
    """Return the card of an item: both captions, the value of every metric before and after, and all references."""
    facts = []
    for key, label in sides.labels.items():
        base, new = sides.base.measurements.get(key), sides.new.measurements[key]
        decimals = 4 if new.metric.decimals is None else new.metric.decimals
        values = [one.values[one.ids.index(item.id)] for one in (base, new) if one is not None]
        facts.append(f"{label} {' → '.join(f'{value:.{decimals}f}' for value in values)}")
    lines = [Line(lost.base, sides.base.name)] if lost.base is not None else []
    image = item.fields.get("image")
    picture = Picture(image) if isinstance(image, (str, ImageData)) else None
    return Entry(item.id, [*lines, Line(lost.new, sides.new.name)], picture, facts, (), item.references)
