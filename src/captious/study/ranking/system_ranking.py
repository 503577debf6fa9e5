"""Which systems people prefer, as a result: means or win rates, tests between systems, strengths and power."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import PurePath
from typing import Any, Literal, TypeAlias

from captious._tournament import Tournament
from captious.options import Resampling
from captious.render import Answer, Cell, Chart, Column, Document, Figure, Result, Section, Series, Table, Text
from captious.render.answers import format_p, join_names
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.ranks import Ranks, format_ranks, rank_breaks, rank_note
from captious.stats.tests import count_needed
from captious.study._statistic_columns import list_left_out

# Units that the bootstrap draws.
Over: TypeAlias = Literal["images", "images+raters"]
POWER = 0.8
# Name of ratings that are ranks; every ranking compares its systems two at a time.
RANK = "rank"


@dataclass(frozen=True)
class SystemMean:
    """The mean rating of one system."""

    system: str
    ranks: Ranks
    """Two systems share a rank exactly if no test distinguishes them."""
    mean: Estimate
    ratings: int
    captions: int
    images: int


# Tests of two systems that the terminal shows, those of ten systems; more are only on the page and in files.
SHOWN_TESTS = 45


@dataclass(frozen=True)
class SystemContest:
    """Two systems, the better one first; the difference is that of their means."""

    first: str
    second: str
    difference: Estimate
    p: float
    p_holm: float


@dataclass(frozen=True)
class QuestionRanking:
    """The systems by one question, the best first, and every two of them."""

    question: str
    systems: tuple[SystemMean, ...]
    contests: tuple[SystemContest, ...]
    share: bool = False
    """Whether the answers are 0 and 1, so that the mean is a share."""


@dataclass(frozen=True)
class SystemPower:
    """The power of these ratings: a normal test with the largest standard error of a difference."""

    error: float
    detectable: float
    """The difference that one test finds with probability 0.8."""
    detectable_holm: float
    """The same at the level of the first step of Holm's correction."""
    difference: float | None = None
    power: float | None = None
    """The chance to find ``difference`` with one test."""


@dataclass(frozen=True, eq=False, repr=False)
class SystemRanking(Result):
    """Which systems people prefer: means or win rates with intervals, tests, strengths, and what could have been found.

    ``standings`` has the ratings, the overall one first, then the aspects; ``tournament`` the comparisons of pairs
    and rankings.
    """

    name: str
    standings: tuple[QuestionRanking, ...]
    tournament: Tournament | None
    power: SystemPower | None
    over: Over
    signature: str
    counts: str
    """The numbers of answers and people that the result is based on, as a line."""
    test: str
    resampling: Resampling
    """How the intervals were made; over raters they are always those of Student's t."""
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    """Further notes, such as the columns that were read."""
    left_out: Mapping[str, int] = field(default_factory=dict)
    """The number of rows or answers that were left out at reading, by reason."""

    def __repr__(self) -> str:
        return f"<SystemRanking {PurePath(self.name).name}: {', '.join(self.order)}>"

    @property
    def order(self) -> list[str]:
        """The systems, the best first."""
        if self.standings:
            return [one.system for one in self.standings[0].systems]
        return self.tournament.ranked if self.tournament else []

    def document(self) -> Document:
        """Build the document: means or win rates with a chart, tests between systems, and the power of the study."""
        title = f"{PurePath(self.name).name}: which system people prefer"
        about = "Means or win rates of systems as people judged them, with intervals, and tests between every two."
        return Document(
            title,
            about,
            self.sections(),
            self.warnings,
            self.notes(),
            (self.signature,),
            self.data(),
            "systems",
            self.answer(),
        )

    def answer(self) -> Answer:
        """Return the plain answer: which system people prefer, by how much, and what was not distinguished."""
        if self.standings:
            return self._answer_by_means(self.standings[0])
        return [] if self.tournament is None else self.tournament.answer("People prefer")

    def _answer_by_means(self, standing: QuestionRanking) -> list[str | Figure]:
        first, *others = standing.systems
        what = f"{'share' if standing.share else 'mean'} {standing.question}"
        value: list[str | Figure] = [f"its {what} is ", Figure(first.mean, self._column(standing, what, "mean"))]
        if not others:
            return [f"There is one system, {first.system}: ", *value, "."]
        equal = [one.system for one in others if {*one.ranks} & {*first.ranks}]
        test = next(one for one in standing.contests if {one.first, one.second} == {first.system, others[0].system})
        column = self._column(standing, "difference", "difference", signed=True)
        sure: list[str | Figure] = [Figure(test.difference, column), f", Holm-adjusted p {format_p(test.p_holm)}"]
        if not equal:
            return [
                f"People prefer {first.system}: ",
                *value,
                f". The next is {others[0].system}, a difference of ",
                *sure,
                ".",
            ]
        ending = "."
        gap = test.difference
        if self.over == "images" and gap.value and gap.error > 0:
            images = max(one.images for one in standing.systems)
            more = count_needed(gap.value, gap.error, images, self.resampling.level) - images
            if more > 0 and test.second == equal[0]:
                ending = f"; about {more:,} more images would show a difference of that size four times in five."
        return [
            f"Cannot tell which system people prefer: {first.system} is ahead, {value[0]}",
            *value[1:],
            f", but no test distinguishes it from {join_names(equal)}. The difference from {others[0].system} is ",
            *sure,
            ending,
        ]

    def sections(self) -> list[Section]:
        """Build tables and charts; a study of metrics has them too."""
        sections: list[Section] = []
        if self.standings:
            first, *aspects = self.standings
            sections += [self._means_table(first), self._means_chart(first)]
            if aspects:
                sections += [self._aspects_table(aspects), self._aspects_chart(aspects)]
            sections.append(self._tests_table("people_tests", [first]))
            if aspects:
                sections.append(replace(self._tests_table("aspect_tests", aspects), detail=True))
        if self.tournament is not None:
            key = "win_rates" if self.standings else "people"
            table, chart = self.tournament.make_table(), self.tournament.draw_chart()
            title = "Win rates and strengths"
            sections += [replace(table, key=key, title=title, note=f"{table.note} {self._intervals}"), chart]
            sections.append(replace(self.tournament.make_pair_table(), key="people_pairs", title="Each two systems"))
        if self.power is not None:
            sections.append(Text([self.power_statement()], "What could have been found"))
        return sections

    @property
    def _intervals(self) -> str:
        sentence = self.resampling.sentence(self.over.replace("+", " and "))
        if sentence and self.over == "images":
            return f"{sentence} They are for these raters."
        return sentence

    def notes(self) -> list[str]:
        """List what the numbers rest on."""
        return [self.counts, *list_left_out(self.left_out), *self.remarks]

    def power_statement(self) -> str:
        """Describe the difference that would have been found, in a sentence or two."""
        power, level = self.power, 1 - self.resampling.level
        if power is None:
            return "Without resamples there is no statement of power."
        kind = "win rate" if not self.standings else "share" if self.standings[0].share else "mean"
        pairs = (
            len(self.standings[0].contests) if self.standings else len(self.tournament.tests if self.tournament else ())
        )

        def shown(gap: float) -> str:
            return {"win rate": f"{100 * (0.5 + gap):.1f} %", "share": f"{100 * gap:.1f} points"}.get(
                kind, f"{gap:.2f}"
            )

        largest = {"win rate": 0.5, "share": 1.0}.get(kind, math.inf)
        what = "win rate" if kind == "win rate" else "difference"
        start = f"A {what} of" if power.detectable <= largest else f"Not even a {what} of"
        text = (
            f"{start} {shown(min(power.detectable, largest))} between two systems would have been found with "
            f"probability {POWER:.2f} (two-sided test at {level:.4g}"
        )
        if pairs > 1 and power.detectable_holm <= largest:
            text += f"; {shown(power.detectable_holm)} at {level:.4g} / {pairs}, the first step of Holm's correction"
        if power.difference is not None and power.power is not None:
            text += f"). One of {shown(power.difference)} would have been found with probability {power.power:.2f}."
            return text
        return f"{text})."

    def _column(self, standing: QuestionRanking, name: str, key: str, **options: Any) -> Column:
        level = self.resampling.level if self.resampling.samples else None
        scale = {"scale": 100.0, "unit": "%", "decimals": 1} if standing.share else {"decimals": 2}
        return Column(name, key=key, level=level, **{**scale, **options})

    def _means_table(self, standing: QuestionRanking) -> Table:
        name = f"{'share' if standing.share else 'mean'} {standing.question}"
        value = self._column(standing, name, "mean", higher_is_better=True, bold=True)
        columns: list[Column | str] = [Column("rank", "text"), "system", value]
        columns += [Column("captions"), Column("ratings"), Column("images")]
        rows: list[list[Value]] = [
            [format_ranks(one.ranks), one.system, Cell.of(one.mean), one.captions, one.ratings, one.images]
            for one in standing.systems
        ]
        notes = ["the best caption has the highest rank"] if standing.question == RANK else []
        notes.append(rank_note("systems", self.resampling.level))
        note = f"{'; '.join(notes)}. {self._intervals}".strip()
        breaks = rank_breaks([one.ranks for one in standing.systems])
        return Table("people", f"What people say: {standing.question}", columns, rows, note, breaks)

    def _means_chart(self, standing: QuestionRanking) -> Chart:
        note = "Neighbors of one shade do not differ significantly."
        bands = [one.ranks[0] for one in standing.systems]
        return Chart("intervals", [self._series(standing)], standing.question, note, decimals=2, bands=bands)

    def _series(self, standing: QuestionRanking, prefix: str = "") -> Series:
        scale = 100 if standing.share else 1
        means = [one.mean for one in standing.systems]
        names = [f"{prefix}{one.system}" for one in standing.systems]
        values = [[scale * getattr(mean, part) for mean in means] for part in ("value", "low", "high")]
        ends = values[1:] if self.resampling.samples else [[], []]
        return Series(standing.question, names, values[0], *ends)

    def _aspects_table(self, aspects: Sequence[QuestionRanking]) -> Table:
        columns: list[Column | str] = ["system"]
        columns += [
            self._column(one, one.question, one.question, spread="half", higher_is_better=True) for one in aspects
        ]
        by_system = [{mean.system: mean.mean for mean in one.systems} for one in aspects]
        rows: list[list[Value]] = [
            [name, *(Cell.of(means[name]) if name in means else None for means in by_system)] for name in self.order
        ]
        half = f"±: half of the {100 * self.resampling.level:.4g}% interval" if self.resampling.samples else ""
        return Table("aspects", "Each aspect", columns, rows, half)

    def _aspects_chart(self, aspects: Sequence[QuestionRanking]) -> Chart:
        series = [self._series(one, f"{one.question}: ") for one in aspects]
        return Chart("intervals", series, "Each aspect", decimals=2)

    def _tests_table(self, key: str, standings: Sequence[QuestionRanking]) -> Table:
        several = key == "aspect_tests"
        difference = self._column(standings[0], "difference", "difference", signed=True)
        columns: list[Column | str] = [*(["aspect"] if several else []), "better", "worse", difference]
        columns += [Column("p", "p"), Column("p (Holm)", "p", key="p_holm", bold=True)]
        rows: list[list[Value]] = [
            [
                *([one.question] if several else []),
                test.first,
                test.second,
                Cell.of(test.difference),
                test.p,
                test.p_holm,
            ]
            for one in standings
            for test in one.contests
        ]
        note = f"p: {self.test}, two-sided; Holm's correction over the pairs of systems" + (
            " of each aspect" if several else ""
        )
        title = "Each two systems, by aspect" if several else f"Each two systems: {standings[0].question}"
        # The ranks of the table above say who differs; hundreds of rows would only push it off the terminal.
        return Table(key, title, columns, rows, note, detail=len(rows) > SHOWN_TESTS)

    def data(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "name": self.name,
            "order": self.order,
            "questions": self.standings,
            "pairs": None if self.tournament is None else self.tournament.data(),
            "power": self.power,
            "over": self.over,
            "test": self.test,
            "counts": self.counts,
            "dropped": self.left_out,
            "signature": self.signature,
        }
