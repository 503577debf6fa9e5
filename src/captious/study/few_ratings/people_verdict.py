"""People's verdict on all captions from the ratings of some, as a result: means, differences, gain and plan."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from captious.render import Cell, Chart, Column, Document, Result, Section, Series, Table, Text
from captious.render.document import Value
from captious.stats.auxiliary import gain_range
from captious.stats.bootstrap import Estimate
from captious.stats.looks import find_smallest, look_factor
from captious.stats.ranks import Ranks, format_ranks, rank_breaks, rank_note
from captious.stats.survey import Target
from captious.stats.tests import t_point
from captious.study._statistic_columns import list_left_out

# Smallest gain that counts as help.
NO_GAIN = 1.02


@dataclass(frozen=True)
class SystemVerdict:
    """The estimated rating of all captions of one system."""

    system: str
    ranks: Ranks
    """Two systems share a rank if and only if they do not differ significantly."""
    mean: Estimate
    """The estimate with the auxiliary metrics, if there are any."""
    ratings_only: Estimate
    """The estimate from ratings only."""
    degrees: float
    captions: int
    rated: int
    images: int
    """Rated images."""


@dataclass(frozen=True)
class VerdictContest:
    """Two systems, the better one first; the difference is that of their means."""

    first: str
    second: str
    difference: Estimate
    degrees: float
    p: float
    p_holm: float
    images: int
    """Images of which captions of both were rated."""

    def differs(self, level: float) -> bool:
        """Return whether the two differ significantly; at one of several looks, whether the interval excludes 0."""
        if math.isnan(self.p_holm):
            return self.difference.low > 0 or self.difference.high < 0
        return self.p_holm < 1 - level


class VarianceParts(NamedTuple):
    """The variance of an estimate, divided into what shrinks with more rated images and with more raters."""

    images: float
    """The variance between images."""
    raters: float
    """The variance between raters."""
    fixed: float = 0.0
    """The part of ``images`` that more ratings of the same captions do not reduce: the metrics' means over all captions
    have it. It is below 0 for the target ``items``, where the variance of rated captions is subtracted."""

    def forecast(self, times: float, rated: float) -> float:
        """Forecast ``images`` for ``times`` as many rated images; the share ``rated`` of all captions is rated now.

        More images than there are must be new ones, and they reduce the fixed part too. If the fixed part is below 0,
        the variance stays above the share of captions that are not rated.
        """
        images = (self.images - self.fixed) / times
        if self.fixed < 0:
            return max(images + self.fixed, max(1 - rated * times, 0.0) * images)
        return images + self.fixed * min(1.0, 1 / (rated * times))


@dataclass(frozen=True)
class Gain:
    """The value of auxiliary metrics, as a number of ratings that would give the same intervals without them."""

    rated: int
    """The number of rated captions."""
    factor: float
    """The variance without auxiliary metrics, divided by that with them."""
    low: float
    high: float

    @classmethod
    def of(cls, rated: int, factor: float, images: int) -> Gain:
        """Return the gain with its range."""
        return cls(rated, factor, *gain_range(factor, images))

    @property
    def counts_as(self) -> float:
        """The number of rated captions that would give the same intervals without auxiliary metrics."""
        return self.rated * self.factor

    def __str__(self) -> str:
        number = f"{self.rated:,} rated captions"
        if self.factor < NO_GAIN:
            return f"Auxiliary metrics do not help here: your {number} count as {self.counts_as:,.0f}."
        low, high = self.rated * self.low, self.rated * self.high
        return f"Your {number} count as {self.counts_as:,.0f} ({low:,.0f}–{high:,.0f})."


@dataclass(frozen=True)
class SizePlan:
    """The number of captions to rate for a given width, without and with auxiliary metrics."""

    half_width: float
    what: str
    """``mean`` or ``difference``."""
    rated: int
    needed: int | None
    """Rated captions in total without auxiliary metrics, if the number of raters grows with them; None if no number is
    enough."""
    needed_using: int | None
    """Rated captions in total with auxiliary metrics; None if there are none, or no number is enough."""
    spread: float
    """The relative error of the numbers."""
    raters: int
    """The number of raters of the pilot; 0 if they are not named."""
    needed_same_raters: int | None
    """Rated captions in total by the raters of the pilot; None if no number is enough."""
    limit: float
    """Half width if these raters rated infinitely many captions."""
    captions: int
    """All captions, rated or not."""
    using: str = ""

    def __str__(self) -> str:
        needed = self.needed_using if self.using else self.needed
        aim = f"For ± {self.half_width:g} of each {self.what}"
        if needed is not None and needed <= self.rated:
            return f"{aim}: reached, no more ratings are needed."
        parts = []
        if self.needed is not None:
            parts.append(f"{max(self.needed - self.rated, 0):,} more rated captions")
        if self.using and self.needed_using is not None:
            parts.append(f"{self.needed_using - self.rated:,} with {self.using}")
        text = f"{aim}: {', or '.join(parts)}" if parts else f"{aim}: all {self.captions:,} captions are not enough"
        text += f" (± {100 * self.spread:.0f} %)" if parts else ""
        if self.raters:
            text += f", with as many ratings per person as now; these {self.raters} raters "
            if self.needed_same_raters is None:
                text += f"cannot make the interval narrower than ± {self.limit:.2g}: invite more"
            else:
                text += f"would need {self.needed_same_raters - self.rated:,} more"
        if parts and (needed or 0) > self.captions:
            unrated = self.captions - self.rated
            state = f"Only {unrated:,} captions are not rated yet" if unrated else "All these captions are rated"
            text += f". {state}: the others must be of new images"
        return f"{text}."


@dataclass(frozen=True)
class PlanParts:
    """The input of a plan: variances of every mean and difference, and the sizes of the pilot."""

    means: tuple[VarianceParts, ...]
    means_using: tuple[VarianceParts, ...]
    differences: tuple[VarianceParts, ...]
    differences_using: tuple[VarianceParts, ...]
    rated: int
    images: int
    strata: int
    raters: int
    captions: int
    """All captions, rated or not."""
    target: Target


@dataclass(frozen=True)
class QuestionVerdict:
    """The verdict by one question: the systems, the best first, tests of every two, and the gain."""

    question: str
    systems: tuple[SystemVerdict, ...]
    contests: tuple[VerdictContest, ...]
    gain: Gain | None
    scale: tuple[float, float] | None
    kind: str = "mean"
    """``mean``, ``share`` or ``win rate``."""
    ratings: int = 0
    parts: PlanParts | None = None
    slopes: Mapping[str, Any] = field(default_factory=dict)
    """Labels of the auxiliary metrics in use, the method, and its slopes on standardized values."""
    covariance: tuple[tuple[float, ...], ...] = ()
    share: float | None = None
    """The rating from which a caption is counted; None for means, win rates, and ratings that are yes or no."""

    @property
    def good(self) -> str:
        """The words for a caption that is counted, such as *rated 4 or more*."""
        return "good" if self.share is None else f"rated {self.share:g} or more"


@dataclass(frozen=True, eq=False, repr=False)
class Verdict(Result):
    """Estimated ratings of all captions, from the ratings of some: ``questions`` has the rating, then aspects."""

    name: str
    questions: tuple[QuestionVerdict, ...]
    using: tuple[str, ...]
    """Labels of the auxiliary metrics that were used."""
    target: str
    level: float
    counts: str
    signature: str
    factor: str = ""
    """The reason why intervals are wider than those of a single look; empty if they are not."""
    precision: float | None = None
    wanted_difference: float | None = None
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()
    left_out: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        means = ", ".join(f"{one.system} {one.mean.value:.4g}" for one in self.systems)
        return f"<Verdict {PurePath(self.name).name}: {means}>"

    @property
    def systems(self) -> tuple[SystemVerdict, ...]:
        """The systems by the first question, the best first."""
        return self.questions[0].systems

    @property
    def contests(self) -> tuple[VerdictContest, ...]:
        """Every two systems by the first question."""
        return self.questions[0].contests

    @property
    def gain(self) -> Gain | None:
        """The gain from the auxiliary metrics by the first question; None without any."""
        return self.questions[0].gain

    def plan(self, half_width: float, what: str = "mean") -> SizePlan:
        """Return how many captions must be rated for means, or differences, ± ``half_width``."""
        parts = self.questions[0].parts
        if parts is None:
            raise ValueError("no plan without a regression")
        means = what == "mean"
        without = parts.means if means else parts.differences
        using = (parts.means_using if means else parts.differences_using) if self.using else ()
        needed_same = _find_needed(using or without, parts, half_width, self.level, grow=False)
        return SizePlan(
            half_width,
            what,
            parts.rated,
            _find_needed(without, parts, half_width, self.level),
            _find_needed(using, parts, half_width, self.level) if using else None,
            math.sqrt(2 / max(parts.images - 1, 1)),
            parts.raters,
            needed_same if parts.raters else None,
            max((_compute_rater_limit(one, parts.raters, self.level) for one in using or without), default=0.0),
            parts.captions,
            " + ".join(self.using),
        )

    def forecast(self, images: int, boundary: float | None = None) -> float:
        """Return the half width that the widest interval of a mean will have at this number of rated images.

        The raters stay the same. ``boundary`` is that of a look (`stats.looks.look_boundaries`); by default it is the
        only one.
        """
        parts = self.questions[0].parts
        if parts is None:
            raise ValueError("no forecast without a regression")
        means = parts.means_using if self.using else parts.means
        return _forecast_width(means, parts, images / parts.images, self.level, grow=False, boundary=boundary)

    def answer(self) -> str:
        """Return the verdict in one or two sentences."""
        first = self.questions[0]
        best, *others = first.systems
        format_value = _format_share if first.kind != "mean" else _format_mean
        value = format_value(best.mean.value, first)
        if not math.isnan(best.mean.low):
            value += (
                f" ({format_value(best.mean.low, first, end=True)}–{format_value(best.mean.high, first, end=True)})"
            )
        verb = {
            "mean": f"people would rate it {value}",
            "share": f"{value} of its captions are {first.good}",
            "win rate": f"people prefer it in {value} of comparisons",
        }[first.kind]
        if not others:
            return f"{best.system}: {verb}."
        beaten = {test.second for test in first.contests if test.first == best.system and test.differs(self.level)}
        tied = [one for one in others if one.system not in beaten]
        if not tied:
            return f"{best.system} wins: {verb}, and {others[0].system} {format_value(others[0].mean.value, first)}."
        names = ", ".join(one.system for one in tied[:3]) + (f" and {len(tied) - 3} more" if len(tied) > 3 else "")
        return f"No winner yet: {best.system} is first ({verb}), but does not differ significantly from {names}."

    def document(self) -> Document:
        """Build the document: the answer, means with a chart, differences, the plan."""
        first, *aspects = self.questions
        answer = " ".join([self.answer(), *([str(first.gain)] if first.gain is not None else [])])
        lines: list[str] = []
        if first.parts is not None:
            lines += [str(self.plan(self.precision))] if self.precision else []
            lines += [str(self.plan(self.wanted_difference, "difference"))] if self.wanted_difference else []
        sections: list[Section] = [Text(lines)] if lines else []
        sections += [self._means_table(first), self._chart(first)]
        if first.contests:
            sections.append(self._contests_table("contests", [first]))
        for one in aspects:
            sections.append(self._means_table(one, f"people_{one.question}"))
        if aspects and first.contests:
            sections.append(self._contests_table("aspect_contests", aspects))
        title = f"{PurePath(self.name).name}: what people would say of all captions"
        about = "Means of systems over all their captions, from the ratings of some, with intervals and tests."
        notes = [self.counts, *list_left_out(self.left_out), *self.remarks]
        return Document(
            title, about, sections, self.warnings, notes, (self.signature,), self.data(), "estimate", answer=answer
        )

    def _column(self, question: QuestionVerdict, name: str, key: str, **options: Any) -> Column:
        scale = {"scale": 100.0, "unit": "%", "decimals": 1} if question.kind != "mean" else {"decimals": 2}
        return Column(name, key=key, level=self.level, **{**scale, **options})

    def _means_table(self, question: QuestionVerdict, key: str = "people") -> Table:
        name = question.question if question.kind == "mean" else question.kind
        title = f"share {question.good}" if question.kind == "share" else name
        columns: list[Column | str] = [Column("rank", "text"), "system"]
        columns.append(self._column(question, f"people: {name}", "mean", higher_is_better=True, bold=True))
        if self.using:
            columns.append(self._column(question, "only ratings", "ratings_only"))
        columns += [Column("rated"), Column("captions"), Column("images")]
        rows: list[list[Value]] = []
        for one in question.systems:
            cells = [Cell.of(one.mean), *([Cell.of(one.ratings_only)] if self.using else [])]
            rows.append([format_ranks(one.ranks), one.system, *cells, one.rated, one.captions, one.images])
        target = {
            "world": "Intervals are for images like these",
            "items": "Intervals are for exactly these captions",
            "ratings": "Intervals are for what these raters would say of these captions",
        }[self.target]
        notes = [rank_note("systems", self.level, looks=bool(self.factor))] if question.contests else []
        note = ". ".join([*notes, target + (f"; {self.factor}" if self.factor else "")]) + "."
        breaks = rank_breaks([one.ranks for one in question.systems])
        return Table(key, f"What people would say of all captions: {title}", columns, rows, note, breaks)

    def _chart(self, question: QuestionVerdict) -> Chart:
        scale = 100 if question.kind != "mean" else 1
        names = [one.system for one in question.systems]
        series = []
        kinds = [("with metrics", "mean"), ("only ratings", "ratings_only")] if self.using else [("", "mean")]
        for label, part in kinds:
            points = [getattr(one, part) for one in question.systems]
            values = [[scale * getattr(point, end) for point in points] for end in ("value", "low", "high")]
            series.append(Series(label or question.question, names, *values))
        title = question.question if question.kind == "mean" else f"{question.kind} in %"
        return Chart("intervals" if len(series) == 1 else "dots", series, title, decimals=2)

    def _contests_table(self, key: str, questions: Sequence[QuestionVerdict]) -> Table:
        several = key != "contests"
        difference = self._column(questions[0], "difference", "difference", signed=True)
        columns: list[Column | str] = [*(["aspect"] if several else []), "better", "worse", difference]
        tests = [] if self.factor else [Column("p", "p"), Column("p (Holm)", "p", key="p_holm", bold=True)]
        columns += [*tests, Column("common images")]
        rows: list[list[Value]] = [
            [
                *([one.question] if several else []),
                *(test.first, test.second, Cell.of(test.difference)),
                *(() if self.factor else (test.p, test.p_holm)),
                test.images,
            ]
            for one in questions
            for test in one.contests
        ]
        note = (
            "p: t test, two-sided, by leaving out images and raters (sign test if all images agree); Holm's correction "
            "over the pairs of systems"
        )
        if self.factor:
            note = "without p-values: they are valid for one look only; a difference counts if its interval excludes 0"
            if (number := max(len(one.contests) for one in questions)) > 1:
                note += f". Intervals are as wide as needed to hold for all {number} pairs of systems together"
        return Table(key, "Each two systems", columns, rows, note)

    def data(self) -> dict[str, Any]:
        """Return everything as JSON."""
        return {
            "name": self.name,
            "answer": self.answer(),
            "questions": self.questions,
            "using": self.using,
            "for": self.target,
            "level": self.level,
            "plans": [
                self.plan(width, what)
                for width, what in ((self.precision, "mean"), (self.wanted_difference, "difference"))
                if width and self.questions[0].parts is not None
            ],
            "counts": self.counts,
            "dropped": self.left_out,
            "signature": self.signature,
        }


def _format_mean(value: float, question: QuestionVerdict, end: bool = False) -> str:
    of = f" of {question.scale[1]:g}" if question.scale and question.scale[0] >= 0 and not end else ""
    return f"{value:.2f}{of}"


def _format_share(value: float, question: QuestionVerdict, end: bool = False) -> str:
    return f"{100 * value:.1f}" + ("" if end else " %")


def _compute_rater_limit(part: VarianceParts, raters: int, level: float) -> float:
    """Return the half width that remains if these raters rate infinitely many captions."""
    return t_point(level, raters - 1) * math.sqrt(part.raters) if raters > 1 else 0.0


def _forecast_width(
    variances: Sequence[VarianceParts],
    parts: PlanParts,
    times: float,
    level: float,
    grow: bool = True,
    boundary: float | None = None,
) -> float:
    """Return the half width of the widest interval with ``times`` as many rated captions; infinite if they are too few.

    ``grow`` and ``boundary`` are explained in `_find_needed` and `Verdict.forecast`.
    """
    raters = parts.raters * times if grow else parts.raters
    degrees = parts.images * times - parts.strata
    if parts.raters:
        degrees = min(degrees, raters - 1)
    if degrees < 1:
        return math.inf
    point = t_point(level, degrees) if boundary is None else look_factor(boundary, degrees)
    share = 1 / times if grow else 1.0
    rated = parts.rated / parts.captions
    # What these raters would say is known of the captions that they rated.
    unknown = (1 - rated * times) / (1 - rated) if parts.target == "ratings" and rated < 1 else 1.0
    variance = (unknown * (one.forecast(times, rated) + one.raters * share) for one in variances)
    return max(point * math.sqrt(max(one, 0.0)) for one in variance)


def _find_needed(
    variances: Sequence[VarianceParts], parts: PlanParts, half_width: float, level: float, grow: bool = True
) -> int | None:
    """Return the smallest number of rated captions with which the widest interval is ± ``half_width``.

    The number of images grows with that of the captions. With ``grow`` the number of raters grows too, so that each has
    as many ratings as now. Unless the target is ``world``, there are no other captions to rate: the result is None if
    all of them are not enough.
    """
    if not grow and any(_compute_rater_limit(part, parts.raters, level) >= half_width for part in variances):
        return None

    def is_enough(number: int) -> bool:
        return _forecast_width(variances, parts, number / parts.rated, level, grow) <= half_width

    if parts.target != "world" and not is_enough(parts.captions):
        return None
    return find_smallest(is_enough, 2)
