"""The estimate by one question: means of systems, differences, shares and win rates, and the gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any

import numpy as np

from captious._core.types import Floats, Ints
from captious.errors import InputError
from captious.stats.bootstrap import NAN, Estimate
from captious.stats.ranks import shared_ranks
from captious.stats.regression import Contrast
from captious.stats.resampling import holm
from captious.stats.survey import (
    ENOUGH_RATERS,
    Answers,
    MeanContrast,
    Population,
    SurveyMeans,
    constant_interval,
    wilson_interval,
)
from captious.stats.tests import t_point, t_tail
from captious.study.few_ratings._auxiliary_columns import (
    ROUGH,
    AuxiliaryColumn,
    EstimateSetting,
    choose_columns,
    fit_columns,
)
from captious.study.few_ratings._rated_sample import RatedSample, merge_strata, refuse_few
from captious.study.few_ratings._sample_warnings import check_balance, warn_answers, warn_unjudged
from captious.study.few_ratings.people_verdict import (
    Gain,
    PlanParts,
    QuestionVerdict,
    SystemVerdict,
    VarianceParts,
    VerdictContest,
)
from captious.study.judgments import Ratings


def estimate_question(
    question: str,
    values: Floats,
    ratings: Ratings,
    sample: RatedSample,
    columns: Sequence[AuxiliaryColumn],
    setting: EstimateSetting,
    warnings: list[str],
    remarks: list[str],
) -> QuestionVerdict:
    """Estimate the means of all systems by one question."""
    chosen = values[sample.row]
    match, column = np.nonzero(~np.isnan(chosen))
    rating, item, rater = chosen[match, column], sample.item[match], sample.rater[column]
    scale = ratings.scale if values is ratings.values else None
    kind = "mean"
    if setting.share is not None:
        if not rating.min() <= setting.share <= rating.max():
            raise InputError(f"share={setting.share:g}: ratings are {rating.min():g} to {rating.max():g}")
        rating, kind = (rating >= setting.share).astype(np.float64), "share"
    elif sample.pairs:
        kind = "win rate"
    elif np.isin(rating, (0, 1)).all():
        kind = "share"
    ends = (0.0, 1.0) if kind != "mean" else scale or (float(rating.min()), float(rating.max()))
    population = Population(sample.system, sample.image, np.zeros((len(sample.system), 0)), sample.stratum)
    answers = Answers(item, rating, rater if sample.named else None, sample.chance)
    refuse_few(question, ratings.name, sample, item)
    population = merge_strata(population, answers, remarks)
    warnings += warn_answers(answers, population, sample)
    warnings += warn_unjudged(values, ratings)
    constant = find_constant(sample, answers)
    # Without a scale the smallest and the largest rating are no limits: of three ratings, the mean of all captions is
    # outside of them in one study of four.
    limits = ends if kind != "mean" or scale else (-math.inf, math.inf)
    fitted = QuestionFit(sample, population, answers, constant, ends, limits, setting)
    used = choose_columns(columns, population, answers, setting, remarks) if fitted.has_regression else []
    plain, _ = fitted.estimate([])
    with_columns, facts = fitted.estimate(used) if used else (plain, {})
    if used and not np.isfinite(with_columns.means).all():
        raise InputError(f"{ratings.name}: the regression on {', '.join(facts['using'])} has no solution")
    for number, value in constant.items():
        remarks.append(
            _describe_constant(question, sample, number, value, int(plain.rated_images[number]), ends, setting)
        )
    if sample.chance is None:
        # Also of metrics that are not used: one that hardly varies among the rated captions shows how they were picked.
        warnings += check_balance(population, answers, columns)
    if int(plain.rated_images.min()) < ROUGH:
        remarks.append(f"fewer than {ROUGH} rated images of a system: the interval is rough")
    return fitted.make_verdict(
        question, kind, plain, with_columns, facts, len(rating), scale if kind == "mean" else None
    )


def find_constant(sample: RatedSample, answers: Answers) -> dict[int, float]:
    """Return the systems, or pairs of systems, whose captions are all rated the same, with that rating.

    If raters are counted, they may differ although the captions do not: then all ratings must be equal.
    """
    rating = answers.rating
    if answers.rater is None or len(np.unique(answers.rater)) < ENOUGH_RATERS:
        rating = (np.bincount(answers.item, rating) / np.maximum(np.bincount(answers.item), 1))[answers.item]
    constant = {}
    for number in range(len(sample.systems)):
        own = rating[sample.system[answers.item] == number]
        # Means of the same ratings in another order differ in the last digit.
        if np.ptp(own) <= 1e-12 * np.abs(own).max():
            constant[number] = float(own[0])
    return constant


def _describe_constant(
    question: str,
    sample: RatedSample,
    number: int,
    value: float,
    images: int,
    ends: tuple[float, float],
    setting: EstimateSetting,
) -> str:
    """Describe on what the interval of captions that are all rated the same rests."""
    system = sample.systems[number]
    if sample.pairs:
        return f"{system}: all captions have the same answer; it is tested by the sign test over {images} images"
    if ends[0] == ends[1]:
        return f"{question}: all ratings are {value:g}, so there is no interval; scale=... gives the ends of the scale"
    low, high = constant_interval(value, images, ends, setting.level)
    return f"{system}: all ratings are {value:g}; its interval [{low:.3f}, {high:.3f}] rests on their number"


# Largest standard error of differences that are all the same, as a share of the largest difference.
FLAT = 1e-12


@dataclass(eq=False)
class QuestionFit:
    """The data of one question, with methods that compute means, differences and shares from regressions."""

    sample: RatedSample
    population: Population
    answers: Answers
    constant: dict[int, float]
    """Systems whose ratings are all equal, with that rating; no regression can use them."""
    ends: tuple[float, float]
    """The scale, or the smallest and the largest rating: what captions that are not rated may get at most."""
    limits: tuple[float, float]
    """Where intervals are cut: the scale if it is known."""
    setting: EstimateSetting

    @property
    def has_regression(self) -> bool:
        return len(self.constant) < len(self.sample.systems)

    @property
    def has_scale(self) -> bool:
        """Whether there is a scale, or ratings differ: if all are equal, nothing says how far others may be."""
        return self.ends[0] < self.ends[1]

    def drop_constant(self) -> tuple[Population, Answers]:
        """Return the captions and answers without those of systems whose ratings are all equal."""
        if not self.constant:
            return self.population, self.answers
        rows = ~np.isin(self.population.system[self.answers.item], list(self.constant))
        answers = replace(
            self.answers,
            item=self.answers.item[rows],
            rating=self.answers.rating[rows],
            rater=None if self.answers.rater is None else self.answers.rater[rows],
        )
        return self._drop_constant_systems(self.population), self._renumber(answers)

    def _find_varied_captions(self) -> Ints:
        return np.flatnonzero(~np.isin(self.population.system, list(self.constant)))

    def _drop_constant_systems(self, population: Population) -> Population:
        kept = self._find_varied_captions()
        _, system = np.unique(population.system[kept], return_inverse=True)
        stratum = None if population.stratum is None else population.stratum[kept]
        return Population(system.astype(np.int64), population.image[kept], population.values[kept], stratum)

    def _renumber(self, answers: Answers) -> Answers:
        kept = self._find_varied_captions()
        place = np.full(len(self.population.system), -1)
        place[kept] = np.arange(len(kept))
        chance = None if answers.chance is None else answers.chance[kept]
        return replace(answers, item=place[answers.item], chance=chance)

    def estimate(self, columns: Sequence[AuxiliaryColumn]) -> tuple[SurveyMeans, dict[str, Any]]:
        """Estimate the means of all systems.

        A system whose ratings are all equal is left out of the regression: its mean is that rating. In differences, its
        variance is the one whose t interval reaches the farther end of `constant_interval`, two-sided: if all ratings
        are the best of the scale, the mean can only be lower, so half of the interval's width would be too little.
        """
        if not self.constant:
            return fit_columns(self.population, self.answers, columns, self.setting)
        number = len(self.sample.systems)
        varied = [index for index in range(number) if index not in self.constant]
        kept = self._find_varied_captions()
        system = self.population.system[self.answers.item]
        totals = np.bincount(self.population.system, minlength=number)
        rated = np.array([len(np.unique(self.answers.item[system == index])) for index in range(number)])
        images = np.array(
            [len(np.unique(self.population.image[self.answers.item[system == index]])) for index in range(number)]
        )
        means = np.zeros(number)
        facts: dict[str, Any] = {}
        parts = {name: np.zeros((number, number)) for name in ("images", "raters", "world")}
        item_variance, strata = np.full(number, np.nan), np.ones(number, dtype=np.int64)
        people = np.zeros(number, dtype=np.int64)
        slopes = np.zeros(0)
        if varied:
            chosen = [replace(one, values=one.values[kept], raw=one.raw[kept]) for one in columns]
            inner, facts = fit_columns(*self.drop_constant(), chosen, self.setting)
            means[varied], item_variance[varied] = inner.means, inner.item_variance
            strata[varied], people[varied], slopes = inner.strata, inner.number_raters, inner.slopes
            for name, matrix in parts.items():
                matrix[np.ix_(varied, varied)] = getattr(inner, name)
        for index, value in self.constant.items():
            means[index] = value
            level = self.setting.level
            low, high = constant_interval(value, int(images[index]), self.ends, (1 + level) / 2)
            reach = max(value - low, high - value)
            parts["images"][index, index] = (reach / t_point(level, max(images[index] - 1, 1))) ** 2
        whole = SurveyMeans(
            means, slopes, **parts, item_variance=item_variance, fraction=rated / totals, rated=rated,
            rated_images=images, number_raters=people, strata=strata, target=self.setting.target,
        )  # fmt: skip
        return whole, facts

    def _make_contrasts(self, means: SurveyMeans) -> tuple[list[str], list[Floats], Floats]:
        """Return for each system the weights and the constant that make its value from the estimated means.

        Without pairs the value is the system's own mean. With pairs it is a win rate: the mean over the pairs that the
        system is in, where that of the second system is 1 − the estimated mean.
        """
        if not self.sample.pairs:
            return list(self.sample.systems), list(np.eye(len(self.sample.systems))), np.zeros(len(self.sample.systems))
        pairs = self.sample.pairs
        names = sorted({name for pair in pairs for name in pair})
        weights, constants = [], []
        for name in names:
            own = np.array([(pair[0] == name) * 1.0 - (pair[1] == name) for pair in pairs])
            number = np.abs(own).sum()
            weights.append(own / number)
            constants.append(float((own < 0).sum() / number))  # a rate of the second system is 1 − the first's
        return names, weights, np.array(constants)

    def _make_estimate(self, number: MeanContrast, constant: float, system: int | None, share: bool) -> Estimate:
        """Return an estimate of a mean or share, its interval cut to the scale."""
        one = number.estimate
        value = one.value + constant
        factor = self._find_factor(one.degrees)
        if system in self.constant:
            if not self.has_scale:
                return Estimate(value)
            low, high = constant_interval(
                value, self.rated_images(system), self.ends, self._find_level(factor, one.degrees)
            )
        elif share:
            value = min(max(value, 0.0), 1.0)
            low, high = wilson_interval(value, one.error, one.degrees, self.setting.level, factor)
        else:
            low, high = Contrast(value, one.error, one.degrees).interval(self.setting.level, factor)
        return Estimate(value, max(low, self.limits[0]), min(high, self.limits[1]), one.error)

    def _find_factor(self, degrees: float, tests: int = 1) -> float | None:
        """Return the factor of the standard error at a look, for intervals that hold together for several tests.

        There are no p-values to which Holm's correction could be applied, so the error is divided (Bonferroni).
        """
        if self.setting.factor is None:
            return None
        return self.setting.factor(self.images, degrees, 1 - (1 - self.setting.level) / tests)

    def _find_level(self, factor: float | None, degrees: float) -> float:
        """Return the level of an interval that has this factor of the standard error in place of Student's t."""
        return self.setting.level if factor is None else 1 - 2 * t_tail(factor, degrees)

    @property
    def images(self) -> int:
        """How many images have a rated caption."""
        return len(np.unique(self.population.image[self.answers.item]))

    def rated_images(self, system: int) -> int:
        """Return how many images have a rated caption of a system."""
        own = self.answers.item[self.population.system[self.answers.item] == system]
        return len(np.unique(self.population.image[own]))

    def make_verdict(
        self,
        question: str,
        kind: str,
        plain: SurveyMeans,
        means: SurveyMeans,
        facts: dict[str, Any],
        ratings: int,
        scale: tuple[float, float] | None,
    ) -> QuestionVerdict:
        """Return the verdict: means, differences, the gain, and the variances that a plan needs."""
        names, weights, constants = self._make_contrasts(means)
        share = kind != "mean"
        with_columns = [means.contrast(one) for one in weights]
        without = [plain.contrast(one) for one in weights]
        # The only system, or pair of systems, that a value is made of; a win rate over several pairs has none.
        parts_of = [np.flatnonzero(one) for one in weights]
        own = [int(touched[0]) if len(touched) == 1 else None for touched in parts_of]
        estimates = [self._make_estimate(one, constants[i], own[i], share) for i, one in enumerate(with_columns)]
        ratings_only = [self._make_estimate(one, constants[i], own[i], share) for i, one in enumerate(without)]
        contests, differences, differences_plain = self._test_pairs(means, plain, names, weights, constants, share)
        order = sorted(range(len(names)), key=lambda index: (-estimates[index].value, names[index]))
        different = [(one.first, one.second) for one in contests if one.differs(self.setting.level)]
        place = {names[index]: number for number, index in enumerate(order)}
        contests.sort(key=lambda one: (place[one.first], place[one.second]))
        ranks = shared_ranks([names[index] for index in order], different)
        systems = []
        for index in order:
            touched = np.flatnonzero(weights[index])
            systems.append(
                SystemVerdict(
                    names[index],
                    ranks[names[index]],
                    estimates[index],
                    ratings_only[index],
                    with_columns[index].estimate.degrees,
                    int(np.isin(self.population.system, touched).sum()),
                    int(means.rated[touched].sum()),
                    self._count_images(touched),
                )
            )
        gain = None
        if facts:
            ratio = np.mean([one.estimate.error**2 for one in without]) / np.mean(
                [one.estimate.error**2 for one in with_columns]
            )
            gain = Gain.of(int(means.rated.sum()), float(ratio), self.images)
        parts = PlanParts(
            tuple(VarianceParts(one.images, one.raters, one.fixed) for one in without),
            tuple(VarianceParts(one.images, one.raters, one.fixed) for one in with_columns),
            tuple(differences_plain),
            tuple(differences),
            int(means.rated.sum()),
            self.images,
            int(means.strata.max()),
            int(means.number_raters.max()),
            len(self.population.system),
            means.target,
        )
        covariance = means.images + np.maximum(means.raters, 0) + (means.world if means.target == "world" else 0)
        return QuestionVerdict(
            question, tuple(systems), tuple(contests), gain, scale, kind, ratings, parts, facts,
            tuple(tuple(map(float, row)) for row in covariance), self.setting.share,
        )  # fmt: skip

    def _count_images(self, systems: Ints) -> int:
        own = self.answers.item[np.isin(self.population.system[self.answers.item], systems)]
        return len(np.unique(self.population.image[own]))

    def _test_pairs(
        self,
        means: SurveyMeans,
        plain: SurveyMeans,
        names: Sequence[str],
        weights: Sequence[Floats],
        constants: Floats,
        share: bool,
    ) -> tuple[list[VerdictContest], list[VarianceParts], list[VarianceParts]]:
        """Test every two systems, the better one first; pairs are tested against one half."""
        rows: list[tuple[str, str, MeanContrast, MeanContrast, float, int]] = []
        if self.sample.pairs:
            for index, (first, second) in enumerate(self.sample.pairs):
                unit = np.eye(len(self.sample.pairs))[index]
                sign = 1.0 if means.means[index] >= 0.5 else -1.0
                pair = (first, second) if sign > 0 else (second, first)
                one, other = means.contrast(sign * unit), plain.contrast(sign * unit)
                rows.append((*pair, one, other, -0.5 * sign, self._count_images(np.array([index]))))
        else:
            for one_index, other_index in combinations(range(len(names)), 2):
                ahead = means.means[one_index] >= means.means[other_index]
                better, worse = (one_index, other_index) if ahead else (other_index, one_index)
                gap = weights[better] - weights[worse]
                common = self._count_common(better, worse)
                rows.append((names[better], names[worse], means.contrast(gap), plain.contrast(gap), 0.0, common))
        tests = []
        for _, _, one, _, constant, _ in rows:
            tests.append(one.estimate._replace(value=one.estimate.value + constant))
        fixed = self.setting.factor is None
        p_values = [test.p for test in tests]
        # The largest difference of two ratings; of a win rate from one half.
        widest = 0.5 if self.sample.pairs else self.ends[1] - self.ends[0]
        most = self.limits[1] - self.limits[0]
        # Differences that are the same for all images, such as pairs that all agree, have no t test. What these raters
        # would say of captions that they have all rated is known without error.
        flat = [
            (bool(self.sample.pairs) and index in self.constant)
            or (test.error <= FLAT * widest and self.setting.target != "ratings")
            for index, test in enumerate(tests)
        ]
        for index, (test, row) in enumerate(zip(tests, rows, strict=True)):
            if flat[index]:  # the sign test
                p_values[index] = min(1.0, 2 * 0.5 ** row[-1]) if abs(test.value) > FLAT * widest else 1.0
        adjusted = holm(p_values)
        contests = []
        for index, ((first, second, *_, images), test, p, p_holm) in enumerate(
            zip(rows, tests, p_values, adjusted, strict=True)
        ):
            factor = self._find_factor(test.degrees, len(rows))
            low, high = test.interval(self.setting.level, factor)
            low, high = max(low, -most), min(high, most)
            if self.sample.pairs:
                ends = wilson_interval(test.value + 0.5, test.error, test.degrees, self.setting.level, factor)
                low, high = ends[0] - 0.5, ends[1] - 0.5
            if flat[index]:
                level = self._find_level(factor, test.degrees)
                low, high = constant_interval(test.value, max(images, 1), (-widest, widest), (1 + level) / 2)
            estimate = Estimate(test.value, low, high, test.error) if self.has_scale else Estimate(test.value)
            contests.append(
                VerdictContest(
                    first, second, estimate, test.degrees, p if fixed else NAN, p_holm if fixed else NAN, images
                )
            )
        with_columns = [VarianceParts(one.images, one.raters, one.fixed) for _, _, one, *_ in rows]
        without = [VarianceParts(other.images, other.raters, other.fixed) for _, _, _, other, *_ in rows]
        return contests, with_columns, without

    def _count_common(self, first: int, second: int) -> int:
        """Count the images of which captions of both systems were rated."""
        system, image = self.population.system[self.answers.item], self.population.image[self.answers.item]
        return len(np.intersect1d(image[system == first], image[system == second]))
