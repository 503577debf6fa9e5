"""``captious.study.systems``: which system people prefer, with intervals over images and raters."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import combinations
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious._tournament import Elo, Tournament, estimate_online_elo
from captious._version import __version__
from captious.errors import InputError, format_suggestion
from captious.options import PERMUTATIONS, Missing, Reading, Resampling, get_choices
from captious.stats.bootstrap import NAN, Estimate, draw_crossed, warn_few_units
from captious.stats.pairwise import PRIOR, compute_pairwise_values, count_wins, name_elo, name_rate
from captious.stats.ranks import rank_signature, shared_ranks
from captious.stats.resampling import Statistic, holm, paired_randomization, sort_ids, sum_clusters, swap_masks
from captious.stats.tests import compute_bootstrap_p, compute_power, find_detectable
from captious.study._statistic_columns import sign_left_out
from captious.study.judgments import (
    Preferences,
    Ratings,
    as_ratings,
    count_unused_answers,
    has_named_raters,
    list_questions,
)
from captious.study.load import load_ratings
from captious.study.ranking.system_ranking import (
    RANK,
    Over,
    QuestionRanking,
    SystemContest,
    SystemMean,
    SystemPower,
    SystemRanking,
)
from captious.study.recipes import find_recipe_for
from captious.study.study_options import StudyInput

# Fewest named raters for which the bootstrap draws raters too: from two, nothing can be inferred about others.
ENOUGH = 3


def systems(
    ratings: Any,
    *,
    over: Over | None = None,
    difference: float | None = None,
    resampling: Resampling = Resampling(),
    permutations: int = PERMUTATIONS,
    elo: Elo = "bradley-terry",
    missing: Missing = "error",
) -> SystemRanking:
    """Compute which system people prefer, from ratings, rankings or pairs whose systems are known.

    Ratings and rankings give the mean of each system over its captions, which count the same however many people rated
    them, and the difference of every two; pairs and rankings give win rates, and Bradley–Terry strengths in Elo points,
    a tie being half a win. P-values are from a permutation test that swaps the two systems within images, or from the
    paired bootstrap if raters are drawn too. Holm's correction is over all pairs.

    Parameters
    ----------
    ratings
        What ``captious.correlate`` takes, or the folder of ``captious studio export``. If the folder of a file has a
        recipe of the same name, as that folder does, the recipe says how the file is read.
    over
        What the bootstrap draws: ``images``, or ``images+raters``, which is the default for three named raters or more.
    difference
        A difference of means, or of a win rate from one half: the result states the power to find it.
    resampling, permutations
        The bootstrap, and the permutations of the test over images.
    elo
        ``bradley-terry``, or ``online``: points updated answer by answer, over resampled answers, as in Chatbot Arena.
    missing
        Rows that cannot be read: ``error``, or ``skip`` to leave them out and count them.

    >>> rows = [{"image": i, "system": s, "rating": r} for i, both in enumerate([(4, 2), (5, 3), (3, 3)])
    ...         for s, r in zip("ab", both)]
    >>> [(one.system, round(one.mean.value, 4)) for one in systems(rows).standings[0].systems]
    [('a', 4.0), ('b', 2.6667)]
    """
    if over is not None and over not in (choices := get_choices(Over)):
        raise InputError(f"over={over!r}, expected {' or '.join(choices)}{format_suggestion(str(over), choices)}")
    if elo not in (choices := get_choices(Elo)):
        raise InputError(f"elo={elo!r}, expected {' or '.join(choices)}{format_suggestion(str(elo), choices)}")
    if difference is not None and not 0 < difference < np.inf:
        raise InputError(f"difference={difference!r}, expected a number above 0")
    if isinstance(ratings, (str, Path)):
        ratings, _ = load_ratings(StudyInput(find_recipe_for(str(ratings))), Reading(missing=missing))
    judged = as_ratings(ratings, missing=missing)
    answers = _Answers.of(judged)
    draw = _choose_draws(answers, over, resampling)
    rule = _ResamplingRule(draw, resampling, permutations)
    standings, tournament = [], None
    if isinstance(judged, Ratings):
        for question, values in list_questions(judged).items():
            if not np.isnan(values).all():
                standings.append(_rank_systems(question, judged, values, answers, rule))
    comparisons = _collect_comparisons(judged, answers)
    if comparisons is not None:
        tournament = _compute_tournament(comparisons, answers, rule, elo)
    facts, left_out = _count_facts(judged, answers), count_unused_answers(judged)
    parts = [
        f"systems:{judged.name}",
        *([f"questions:{','.join(one.question for one in standings)}"] if standings else []),
        *(f"{key}:{number}" for key, number in facts.items()),
        *sign_left_out(left_out),
        *([f"ties:half|{'elo:online' if elo == 'online' else f'bradley-terry:prior={PRIOR:g}'}"] if tournament else []),
        f"ci:{rule.intervals.signature(draw)}",
        f"test:{rule.signature},holm",
        rank_signature(resampling.level),
        f"captious:{__version__}",
    ]
    line = " ".join(f"{number:,} {key}," for key, number in facts.items()).rstrip(",")
    return SystemRanking(
        judged.name,
        tuple(standings),
        tournament,
        _compute_power(standings, tournament, difference, resampling),
        draw,
        "|".join(parts),
        line + f"; {len(answers.systems)} systems",
        rule.test,
        rule.intervals,
        (
            *_list_warnings(judged, answers, over),
            *(warn_few_units(len(answers.images), resampling, "images") if draw == "images" else ()),
        ),
        remarks=(judged.read,) if judged.read else (),
        left_out=left_out,
    )


class _Answers(NamedTuple):
    """The image of each item and the rater of each column, as numbers that do not depend on the order of the file."""

    systems: tuple[str, ...]
    images: tuple[str, ...]
    image: Ints
    """The image of each item, as an index into ``images``."""
    raters: tuple[str, ...]
    rater: Ints
    """The rater of each column of the ratings, as an index into ``raters``."""
    named: bool
    """Whether each column is one person; otherwise a column is the first, second, … answer of anyone."""

    @classmethod
    def of(cls, judged: Ratings | Preferences) -> _Answers:
        ratings = judged if isinstance(judged, Ratings) else judged.answers
        if ratings is None:
            raise InputError(f"{judged.name}: no rater's answers, expected rows of pairs")
        systems: list[str] = []
        if isinstance(judged, Ratings):
            systems = list(dict.fromkeys(judged.systems or ()))
        elif judged.systems is not None:
            systems = list(dict.fromkeys(name for pair in judged.systems for name in pair))
        if len(systems) < 2:
            column = (
                "system of every caption" if isinstance(judged, Ratings) else "two systems of every pair, as a list"
            )
            found = f"one system only ({systems[0][:40]})" if systems else "no systems"
            raise InputError(f"{judged.name}: {found}, expected a column with the {column}; name it with system=...")
        images, image = _sort_names(ratings.groups)
        names = ratings.raters or tuple(str(number + 1) for number in range(ratings.values.shape[1]))
        raters, rater = _sort_names(names)
        return cls(tuple(systems), images, image, raters, rater, has_named_raters(ratings))

    def systems_of(self, ratings: Ratings) -> Ints:
        """Return the system of each item, as an index into ``systems``."""
        index = {name: number for number, name in enumerate(self.systems)}
        return np.array([index[name] for name in ratings.systems or ()], dtype=np.int64)


class _ResamplingRule(NamedTuple):
    """The bootstrap and the test: how intervals and p-values are computed."""

    over: Over
    resampling: Resampling
    permutations: int

    @property
    def test(self) -> str:
        """The name of the test, for the notes of tables."""
        if self.over == "images":
            return "permutation test, the two systems swapped within images"
        return "paired bootstrap over images and raters"

    @property
    def intervals(self) -> Resampling:
        """The resampling as signatures name it; intervals over raters are always those of Student's t."""
        return self.resampling if self.over == "images" else replace(self.resampling, interval="t")

    @property
    def signature(self) -> str:
        if self.over == "images":
            return f"permutation({self.permutations},images,seed={self.resampling.seed})"
        return "bootstrap"

    def estimates(
        self,
        aggregate: Callable[[Floats], dict[str, Floats]],
        cells: _Cells,
        rows: Floats,
        limits: Callable[[str], tuple[float, float]],
    ) -> tuple[dict[str, Estimate], dict[str, Floats]]:
        """Estimate every value that ``aggregate`` computes from the sum of rows; return the estimates and the draws.

        There is a row per cell. ``limits`` returns the lowest and the highest value possible, where an interval ends.
        """
        values = {name: float(one[0]) for name, one in aggregate(rows.sum(axis=0, keepdims=True)).items()}
        if not self.resampling.samples:
            return {name: Estimate(value) for name, value in values.items()}, {}
        clusters = [cells.image] if self.over == "images" else [cells.image, cells.rater]
        draws = draw_crossed(aggregate, rows, clusters, self.resampling)
        images = int(cells.image.max()) + 1
        estimates = {
            # `draw_crossed` has widened draws over images and raters to Student's t already.
            name: Estimate.under(value, draws[name], self.resampling, images)
            if self.over == "images"
            else Estimate.of(value, draws[name], self.resampling.level)
            for name, value in values.items()
        }
        return {name: _clip_interval(estimate, *limits(name)) for name, estimate in estimates.items()}, draws

    def p_values(
        self, sides: Sequence[tuple[Floats, Floats]], cells: _Cells, gaps: Sequence[tuple[float, Floats]]
    ) -> list[float]:
        """Compute the p-value of each pair of systems.

        The permutation test over images needs ``sides``, the (sum, count) of each cell for both systems; the bootstrap
        needs ``gaps``, the difference of the two systems and its draws.
        """
        if self.over == "images+raters":
            return [NAN if np.isnan(gap) else compute_bootstrap_p(gap, draws) for gap, draws in gaps]
        images = int(cells.image.max()) + 1
        # `paired_randomization` takes the baseline first.
        pairs = [
            (
                _divide_sums(sum_clusters(second, cells.image, images)),
                _divide_sums(sum_clusters(first, cells.image, images)),
            )
            for first, second in sides
        ]
        with np.errstate(invalid="ignore", divide="ignore"):
            return paired_randomization(pairs, swap_masks(images, self.permutations, self.resampling.seed))


class _Cells(NamedTuple):
    """Cells: all answers of one rater to one image, which are summed before resampling.

    Images and raters are numbered without gaps.
    """

    cell: Ints
    """The cell of each answer."""
    image: Ints
    """The image of each cell, by number."""
    rater: Ints
    """The rater of each cell, by number."""

    @classmethod
    def of(cls, image: Ints, rater: Ints) -> _Cells:
        """Assign numbers to cells, given the image and the rater of each answer."""
        keys, cell = np.unique(np.stack([image, rater]), axis=1, return_inverse=True)
        images, raters = (np.unique(side, return_inverse=True)[1].astype(np.int64) for side in keys)
        return cls(cell.ravel().astype(np.int64), images, raters)

    def sums(self, values: Floats) -> Floats:
        """Sum rows of values, one per answer, by cell."""
        return sum_clusters(values, self.cell, len(self.image))


def _sort_names(names: Sequence[str]) -> tuple[tuple[str, ...], Ints]:
    """Sort the distinct names, whatever the order of the file; return them with the index of each name."""
    distinct = list(dict.fromkeys(names))
    ordered = [distinct[index] for index in sort_ids(distinct)]
    numbers = {name: number for number, name in enumerate(ordered)}
    return tuple(ordered), np.array([numbers[name] for name in names], dtype=np.int64)


def _clip_interval(estimate: Estimate, lowest: float, highest: float) -> Estimate:
    """Clip the interval of an estimate to the limits of the value."""
    return replace(estimate, low=max(estimate.low, lowest), high=min(estimate.high, highest))


def _divide_sums(rows: Floats) -> Statistic:
    """Return the mean as a statistic of rows (sum, count), for the paired test."""
    total = rows.sum(axis=0)
    with np.errstate(invalid="ignore", divide="ignore"):
        value = float(total[0] / total[1]) if total[1] else NAN
    return Statistic(rows, lambda sums: sums[:, 0] / sums[:, 1], total, value)


def _choose_draws(answers: _Answers, over: Over | None, resampling: Resampling) -> Over:
    """Return what the bootstrap draws: ``over`` if it is given, otherwise raters too if there are enough."""
    if over == "images+raters":
        if len(answers.raters) < 2:
            raise InputError("over='images+raters': one rater only, expected at least two")
        if not resampling.samples:
            raise InputError("over='images+raters': the test needs resamples, found samples 0")
    enough = answers.named and len(answers.raters) >= ENOUGH and resampling.samples
    return over or ("images+raters" if enough else "images")


def _rank_systems(
    question: str, ratings: Ratings, values: Floats, answers: _Answers, rule: _ResamplingRule
) -> QuestionRanking:
    """Compute the mean of every system by one question, and test every two of them."""
    item, column = np.nonzero(~np.isnan(values))
    rating, system = values[item, column], answers.systems_of(ratings)[item]
    cells = _Cells.of(answers.image[item], answers.rater[column])
    # Captions count the same, however many people rated them; `study estimate` weighs them so too.
    weight = 1.0 / np.bincount(item)[item]
    counts = np.bincount(system, minlength=len(answers.systems))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.bincount(system, weight * rating, minlength=len(counts)) / np.bincount(
            system, weight, minlength=len(counts)
        )
    order = [int(index) for index in np.argsort(-means, kind="stable") if counts[index]]
    names = [answers.systems[index] for index in order]
    # For each system the weighted (sum, number) of its ratings in each cell; beside one another they are the rows that
    # are drawn. Values are named by numbers: "0" is the mean of the best system, "0 2" its difference from the third.
    sides = [cells.sums(np.stack([weight * rating, weight], axis=1) * (system == index)[:, None]) for index in order]
    pairs = list(combinations(range(len(order)), 2))

    def aggregate(sums: Floats) -> dict[str, Floats]:
        with np.errstate(invalid="ignore", divide="ignore"):
            drawn = (sums[:, ::2] / sums[:, 1::2]).T
        gaps = {f"{one} {other}": drawn[one] - drawn[other] for one, other in pairs}
        return {str(index): drawn[index] for index in range(len(order))} | gaps

    # The scale is that of the main rating; aspects have none.
    limits = ratings.scale if ratings.scale and values is ratings.values else (rating.min(), rating.max())
    reach = limits[1] - limits[0]
    estimates, draws = rule.estimates(
        aggregate, cells, np.hstack(sides), lambda name: (-reach, reach) if " " in name else limits
    )
    gaps = [(estimates[f"{one} {other}"].value, draws.get(f"{one} {other}", np.zeros(0))) for one, other in pairs]
    p_values = rule.p_values([(sides[one], sides[other]) for one, other in pairs], cells, gaps)
    adjusted = holm(p_values)
    contests = tuple(
        SystemContest(names[one], names[other], estimates[f"{one} {other}"], p, p_holm)
        for (one, other), p, p_holm in zip(pairs, p_values, adjusted, strict=True)
    )
    alpha = 1 - rule.resampling.level
    ranks = shared_ranks(names, [(contest.first, contest.second) for contest in contests if contest.p_holm < alpha])
    system_means = tuple(
        SystemMean(
            name,
            ranks[name],
            estimates[str(position)],
            int(counts[index]),
            len(np.unique(item[system == index])),
            len(np.unique(answers.image[item[system == index]])),
        )
        for position, (index, name) in enumerate(zip(order, names, strict=True))
    )
    is_yes_no = {*np.unique(rating).tolist()} <= {0.0, 1.0}
    return QuestionRanking(question, system_means, contests, is_yes_no)


class _Comparisons(NamedTuple):
    """Answers about two systems each: the score of the first is 1 if it won, 0 if it lost, ½ for a tie."""

    first: Ints
    second: Ints
    score: Floats
    image: Ints
    rater: Ints


def _collect_comparisons(judged: Ratings | Preferences, answers: _Answers) -> _Comparisons | None:
    """Collect the comparisons in pairs and rankings; None for other ratings."""
    if isinstance(judged, Preferences):
        assert judged.answers is not None and judged.systems is not None
        index = {name: number for number, name in enumerate(answers.systems)}
        pair = np.array([[index[first], index[second]] for first, second in judged.systems], dtype=np.int64)
        item, column = np.nonzero(~np.isnan(judged.answers.values))
        score = 1 - judged.answers.values[item, column]  # an answer is 0 for the first, 1 for the second caption
        return _Comparisons(pair[item, 0], pair[item, 1], score, answers.image[item], answers.rater[column])
    return _list_ranked_pairs(judged, answers) if judged.question == RANK else None


def _list_ranked_pairs(ratings: Ratings, answers: _Answers) -> _Comparisons:
    """List every two captions that one rater ranked on one page; the one of the higher rank won."""
    system, values = answers.systems_of(ratings), ratings.values
    captions: dict[int, list[int]] = {}
    for item, image in enumerate(answers.image.tolist()):
        captions.setdefault(image, []).append(item)
    pairs = [
        pair for items in captions.values() for pair in combinations(items, 2) if system[pair[0]] != system[pair[1]]
    ]
    one, other = np.array(pairs, dtype=np.int64).reshape(-1, 2).T
    pair, column = np.nonzero(~np.isnan(values[one] - values[other]))
    first, second = one[pair], other[pair]
    score = 0.5 + 0.5 * np.sign(values[first, column] - values[second, column])
    return _Comparisons(system[first], system[second], score, answers.image[first], answers.rater[column])


def _compute_tournament(played: _Comparisons, answers: _Answers, rule: _ResamplingRule, elo: Elo) -> Tournament:
    """Compute win rates and strengths with intervals, and test every two systems; the strongest first."""
    number = len(answers.systems)
    cells = _Cells.of(played.image, played.rater)
    rows = count_wins(played.first, played.second, played.score, cells.cell, len(cells.image), number)
    points = compute_pairwise_values(rows.sum(axis=0, keepdims=True), answers.systems)
    order = sorted(range(number), key=lambda index: -np.nan_to_num(points[name_elo(answers.systems[index])][0]))
    names = [answers.systems[index] for index in order]
    # A row is a table of systems × systems, which is put in the order of the strengths.
    rows = rows.reshape(-1, number, number)[:, order][:, :, order].reshape(-1, number**2)
    elo_names = {name_elo(name) for name in names}
    estimates, draws = rule.estimates(
        lambda sums: compute_pairwise_values(sums, names),
        cells,
        rows,
        lambda name: (-np.inf, np.inf) if name in elo_names else (0.0, 1.0),
    )
    won = rows.reshape(-1, number, number)  # cells × winners × losers
    games = won + np.swapaxes(won, 1, 2)
    pairs = [(one, other) for one, other in combinations(range(number), 2) if games[:, one, other].any()]
    rates = [name_rate(names[one], names[other]) for one, other in pairs]
    sides = [
        (
            np.stack([won[:, one, other], games[:, one, other]], axis=1),
            np.stack([won[:, other, one], games[:, one, other]], axis=1),
        )
        for one, other in pairs
    ]
    gaps = [(estimates[name].value - 0.5, draws.get(name, np.zeros(0)) - 0.5) for name in rates]
    p_values: dict[tuple[str, str], float] = dict.fromkeys(combinations(names, 2), NAN)
    for (one, other), p in zip(pairs, rule.p_values(sides, cells, gaps), strict=True):
        p_values[names[one], names[other]] = p
    position = np.argsort(order)  # the position of each system in the order of the strengths
    wins, ties = np.zeros((number, number)), np.zeros((number, number))
    first, second = position[played.first], position[played.second]
    np.add.at(wins, (first, second), played.score == 1)
    np.add.at(wins, (second, first), played.score == 0)
    np.add.at(ties, (first, second), played.score == 0.5)
    np.add.at(ties, (second, first), played.score == 0.5)
    if elo == "online":
        estimates |= estimate_online_elo(first, second, played.score, names, rule.resampling)
    return Tournament(tuple(names), wins, ties, estimates, p_values, rule.test, rule.resampling, elo)


def _compute_power(
    standings: Sequence[QuestionRanking],
    tournament: Tournament | None,
    difference: float | None,
    resampling: Resampling,
) -> SystemPower | None:
    """Compute which difference could have been detected by the first question, or by pairs; None without intervals."""
    errors: list[float] = []
    if standings:
        errors = [one.difference.error for one in standings[0].contests]
    elif tournament:
        rates = [name_rate(one["first"], one["second"]) for one in tournament.tests]
        errors = [tournament.estimates[rate].error for rate in rates]
    errors = [error for error in errors if error > 0]
    if not errors:
        return None
    error, level = max(errors), resampling.level
    corrected = 1 - (1 - level) / len(errors)  # Bonferroni: one level for any of the pairs
    power = None if difference is None else compute_power(difference, error, level)
    return SystemPower(error, find_detectable(error, level), find_detectable(error, corrected), difference, power)


def _count_facts(judged: Ratings | Preferences, answers: _Answers) -> dict[str, int]:
    """Count answers, captions or pairs, images and raters."""
    ratings = judged if isinstance(judged, Ratings) else judged.answers
    assert ratings is not None
    number = int((~np.isnan(ratings.values)).sum())
    what = (
        {"ratings": number, "captions": len(ratings)}
        if ratings is judged
        else {"answers": number, "pairs": len(ratings)}
    )
    return {**what, "images": len(answers.images), **({"raters": len(answers.raters)} if answers.named else {})}


def _list_warnings(judged: Ratings | Preferences, answers: _Answers, over: Over | None) -> list[str]:
    """Warn about too few raters to generalize to others, and about systems that captioned different images."""
    warnings = list(judged.warnings)
    if isinstance(judged, Ratings):
        unanswered = [name for name, values in judged.aspects.items() if np.isnan(values).all()]
        warnings += [f"{name}: no answer, so systems are not compared by it" for name in unanswered]
    if answers.named and len(answers.raters) < ENOUGH and over is None:
        people = "one rater" if len(answers.raters) == 1 else f"{len(answers.raters)} raters"
        warnings.append(f"{people}: intervals and tests are only over images, and say nothing about other raters")
    if isinstance(judged, Ratings):
        system = answers.systems_of(judged)
        images = {name: {*answers.image[system == index].tolist()} for index, name in enumerate(answers.systems)}
        if any(one != next(iter(images.values())) for one in images.values()):
            numbers = ", ".join(f"{name} {len(one):,}" for name, one in images.items())
            warnings.append(
                f"the systems were rated on different images ({numbers}): a difference of means may be one of images"
            )
    return warnings
