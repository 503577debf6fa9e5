"""Comparisons of every two systems, by people or by a chat model: win rates, Elo points and tests."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from typing import Any, Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import Resampling
from captious.render import Cell, Chart, Column, Figure, Phrase, Series, Span, Table
from captious.render.answers import format_p, join_names
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.pairwise import ELO_CENTER, ONLINE_STEP, name_elo, name_rate, update_elo_online
from captious.stats.ranks import Ranks, format_ranks, rank_breaks, rank_note, shared_ranks
from captious.stats.resampling import holm

# Bradley-Terry strengths, independent of the order of comparisons; or points updated one by one, as in Chatbot Arena.
Elo = Literal["bradley-terry", "online"]


def estimate_online_elo(
    first: Ints, second: Ints, score: Floats, systems: Sequence[str], resampling: Resampling
) -> dict[str, Estimate]:
    """Return the Elo points of each system, updated comparison by comparison: median over resamples, with interval."""
    points = update_elo_online(first, second, score, len(systems), resampling.samples, resampling.seed)
    middle = np.median(points, axis=0)
    if not resampling.samples:
        return {name_elo(name): Estimate(float(value)) for name, value in zip(systems, middle, strict=True)}
    return {
        name_elo(name): Estimate.of(float(middle[index]), points[:, index], resampling.level)
        for index, name in enumerate(systems)
    }


@dataclass(frozen=True, eq=False)
class Tournament:
    """Wins and ties of every two systems, with ranks, tests and tables."""

    systems: tuple[str, ...]
    wins: Floats
    """The number of wins of each system (row) over each other (column), without ties."""
    ties: Floats
    """The number of ties of each pair of systems."""
    estimates: Mapping[str, Estimate]
    """The values of ``stats.pairwise.pairwise_values`` with their intervals."""
    p_values: Mapping[tuple[str, str], float]
    """The p-value of each pair of systems, in the order of ``systems``; NaN if the two were never compared."""
    test: str
    """The name of the test, for the note of the table."""
    resampling: Resampling
    elo: Elo = "bradley-terry"
    """How the Elo points were computed."""

    @property
    def ranked(self) -> list[str]:
        """The systems, the strongest first."""
        return sorted(self.systems, key=lambda name: -np.nan_to_num(self.estimates[name_elo(name)].value, nan=-np.inf))

    @cached_property
    def tests(self) -> list[dict[str, Any]]:
        """Every pair of systems: wins of the first, ties, losses, and the test with Holm's correction."""
        rows: list[dict[str, Any]] = []
        for (index, one), (number, other) in combinations(enumerate(self.systems), 2):
            won, lost, tied = self.wins[index, number], self.wins[number, index], self.ties[index, number]
            counts = {"wins": int(won), "ties": int(tied), "losses": int(lost)}
            rows.append({"first": one, "second": other, **counts, "p": self.p_values[one, other]})
        for row, p in zip(rows, holm([row["p"] for row in rows]), strict=True):
            winner = row["first"] if row["wins"] > row["losses"] else row["second"]
            row |= {"p_holm": p, "better": winner if p < 1 - self.resampling.level else None}
        return rows

    @cached_property
    def ranks(self) -> dict[str, Ranks]:
        """The ranks of the systems, the strongest first: two share one exactly if their test finds no difference."""
        return shared_ranks(self.ranked, [(one["first"], one["second"]) for one in self.tests if one["better"]])

    def answer(self, prefer: str) -> list[str | Figure]:
        """Return the plain answer; ``prefer`` is its beginning if there is one best system, such as People prefer."""
        if len(self.systems) < 2 or not (self.wins.any() or self.ties.any()):
            return ["There is no comparison to judge by."]
        first, *others = self.ranked
        equal = [name for name in others if {*self.ranks[name]} & {*self.ranks[first]}]
        column = Column("win rate", decimals=1, scale=100, unit="%", spread="half")
        rate = Figure(self.estimates[name_rate(first)], column)
        if not equal:
            test = next(one for one in self.tests if {one["first"], one["second"]} == {first, others[0]})
            sure = f"the difference from {others[0]}, the next, has a Holm-adjusted p {format_p(test['p_holm'])}"
            return [f"{prefer} {first}: it wins ", rate, f" of its comparisons; {sure}."]
        return [
            f"Cannot tell which system is better: {first} wins the most, ",
            rate,
            f" of its comparisons, but no test distinguishes it from {join_names(equal)}.",
        ]

    def count_outcomes(self, name: str) -> tuple[int, int, int]:
        """Return wins, ties and losses of a system."""
        index = self.systems.index(name)
        return int(self.wins[index].sum()), int(self.ties[index].sum()), int(self.wins[:, index].sum())

    @property
    def _level(self) -> float | None:
        return self.resampling.level if self.resampling.samples else None

    def make_table(self) -> Table:
        """Return a row per system, the strongest first."""
        columns: list[Column | str] = [Column("rank", "text"), "system"]
        columns += [Column("Elo", decimals=0, level=self._level, bold=True)]
        columns += [Column("win rate", decimals=1, scale=100, unit="%", spread="half", higher_is_better=True, bar=True)]
        columns += [Column("wins"), Column("ties"), Column("losses"), Column("win − loss", signed=True)]
        rows: list[Sequence[Value]] = []
        for name in self.ranked:
            won, tied, lost = self.count_outcomes(name)
            points, rate = self.estimates[name_elo(name)], self.estimates[name_rate(name)]
            numbers = (Cell.of(points), Cell.of(rate), won, tied, lost, won - lost)
            rows.append((format_ranks(self.ranks[name]), name, *numbers))
        half = f" ± is half of the {100 * self.resampling.level:.4g}% interval." if self.resampling.samples else ""
        note = (
            f"Elo: Bradley–Terry strengths; 400 points are odds of 10 to 1, and the mean of the systems is "
            f"{ELO_CENTER:.0f}. Each pair starts with half a win for either side. A tie is half a win.{half}"
        )
        if self.elo == "online":
            drawn = "the median over resampled comparisons" if self.resampling.samples else "in the order of the items"
            note = (
                f"Elo: updated comparison by comparison from {ELO_CENTER:.0f} on with K = {ONLINE_STEP:.0f}, {drawn}. "
                f"A tie is half a win.{half}"
            )
        ranks = rank_note("systems", self.resampling.level, self.test)
        if any(math.isnan(p) for p in self.p_values.values()):
            ranks += "; systems that never met share a rank"
        note = f"{note} {ranks[0].upper()}{ranks[1:]}."
        return Table("systems", "Systems", columns, rows, note, rank_breaks([*self.ranks.values()]))

    def draw_chart(self) -> Chart:
        """Return a chart of the Elo points with their intervals."""
        points = [self.estimates[name_elo(name)] for name in self.ranked]
        ends = [[one.low for one in points], [one.high for one in points]] if self.resampling.samples else [(), ()]
        series = Series("Elo", self.ranked, [one.value for one in points], *ends)
        return Chart("intervals", [series], "Elo", reference=ELO_CENTER, reference_name="mean", decimals=0)

    def make_pair_table(self) -> Table:
        """Return a row per pair of systems."""
        rate = Column("win rate", decimals=1, scale=100, unit="%", level=self._level, bold=True, bar=True)
        columns: list[Column | str] = ["first", "second", rate, Column("wins"), Column("ties"), Column("losses")]
        columns += [Column("p (Holm)", "p", key="p_holm"), "better"]
        rows: list[Sequence[Value]] = []
        for one in self.tests:
            if not one["wins"] + one["ties"] + one["losses"]:
                continue  # the two never met
            better = Span(one["better"], "strong") if one["better"] else Span("neither", "quiet")
            cell = replace(Cell.of(self.estimates[name_rate(one["first"], one["second"])]), limits=(0.0, 1.0))
            numbers = one["wins"], one["ties"], one["losses"], one["p_holm"]
            rows.append((one["first"], one["second"], cell, *numbers, Phrase((better,))))
        note = (
            f"The win rate is that of the first; p: {self.test}, two-sided. "
            f"“better” names a system where the corrected p is below {1 - self.resampling.level:.4g}"
        )
        return Table("pairs", "Pairs", columns, rows, note)

    def data(self) -> dict[str, Any]:
        """Return systems and pairs as JSON values."""

        def interval(name: str) -> dict[str, float]:
            one = self.estimates[name]
            return {"value": one.value, "low": one.low, "high": one.high}

        systems = {}
        for name in self.systems:
            won, tied, lost = self.count_outcomes(name)
            strengths = {"elo": interval(name_elo(name)), "win_rate": interval(name_rate(name))}
            systems[name] = {"ranks": self.ranks[name], **strengths, "wins": won, "ties": tied, "losses": lost}
        pairs = [{**one, "win_rate": interval(name_rate(one["first"], one["second"]))} for one in self.tests]
        return {"systems": systems, "pairs": pairs}
