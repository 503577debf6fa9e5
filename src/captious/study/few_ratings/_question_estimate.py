"""The estimate by one question: means of systems, differences, shares and win rates, and the gain."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, NamedTuple

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

# A standard error below this share of the largest possible difference counts as 0: all differences are the same.
FLAT = 1e-12


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
    # One entry per answer: its rating, the caption and the rater.
    answered = values[sample.row]
    row, column = np.nonzero(~np.isnan(answered))
    rating, item, rater = answered[row, column], sample.item[row], sample.rater[column]
    # The scale is that of the main rating; aspects have none.
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
    # Without a scale the smallest and the largest rating are no limits: of three ratings, the mean of all captions is
    # outside of them in one study of four.
    limits = ends if kind != "mean" or scale else (-math.inf, math.inf)
    # No auxiliary values yet: `fit_columns` adds those of the columns that are used.
    population = Population(sample.system, sample.image, np.zeros((len(sample.system), 0)), sample.stratum)
    answers = Answers(item, rating, rater if sample.named else None, sample.chance)
    refuse_few(question, ratings.name, sample, item)
    population = merge_strata(population, answers, remarks)
    warnings += warn_answers(answers, population, sample)
    warnings += warn_unjudged(values, ratings)
    constant = find_constant(sample, answers)
    fit = QuestionFit(sample, population, answers, constant, ends, limits, setting)
    used = choose_columns(columns, population, answers, setting, remarks) if fit.has_regression else []
    plain, _ = fit.estimate([])
    with_columns, facts = fit.estimate(used) if used else (plain, {})
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
    return fit.make_verdict(question, kind, plain, with_columns, facts, len(rating), scale if kind == "mean" else None)


def find_constant(sample: RatedSample, answers: Answers) -> dict[int, float]:
    """Return the systems, or pairs of systems, whose captions are all rated the same, with that rating.

    Compare the mean ratings of captions. But if raters are counted, all their ratings must be equal: captions with the
    same mean may be rated by people who differ, and this difference is a part of the error.
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
    """Return the remark on a system whose captions are all rated the same: what its interval depends on."""
    system = sample.systems[number]
    if sample.pairs:
        return f"{system}: all captions have the same answer; it is tested by the sign test over {images} images"
    if ends[0] == ends[1]:
        return f"{question}: all ratings are {value:g}, so there is no interval; scale=... gives the ends of the scale"
    low, high = constant_interval(value, images, ends, setting.level)
    return f"{system}: all ratings are {value:g}; its interval [{low:.3f}, {high:.3f}] depends on their number"


class _PairTest(NamedTuple):
    """The test of a better system against a worse one."""

    better: str
    worse: str
    contrast: MeanContrast
    """The difference with auxiliary metrics, without the constant."""
    plain: MeanContrast
    """The difference without auxiliary metrics, without the constant."""
    constant: float
    """The number that `difference` adds: ±½ for a win rate, which is compared with one half; otherwise 0."""
    images: int
    """Images of which captions of both systems were rated."""

    @property
    def difference(self) -> Contrast:
        """The difference with auxiliary metrics."""
        return self.contrast.estimate._replace(value=self.contrast.estimate.value + self.constant)


def _run_sign_test(test: _PairTest, widest: float) -> float:
    """Return the p-value of the sign test over images, for a difference that is the same for all of them."""
    return min(1.0, 2 * 0.5**test.images) if abs(test.difference.value) > FLAT * widest else 1.0


def _split_variance(contrast: MeanContrast) -> VarianceParts:
    return VarianceParts(contrast.images, contrast.raters, contrast.fixed)


@dataclass(eq=False)
class QuestionFit:
    """The data of one question, with methods that compute means, differences and shares from regressions."""

    sample: RatedSample
    population: Population
    answers: Answers
    constant: dict[int, float]
    """Systems whose ratings are all equal, with that rating; no regression can use them."""
    ends: tuple[float, float]
    """The lowest and the highest rating that an unrated caption may get: the ends of the scale, or of the ratings."""
    limits: tuple[float, float]
    """Where intervals are cut: at the ends of the scale, or nowhere (±∞) if it is not known."""
    setting: EstimateSetting

    @property
    def has_regression(self) -> bool:
        """Whether the ratings of at least one system differ."""
        return len(self.constant) < len(self.sample.systems)

    @property
    def has_scale(self) -> bool:
        """Whether unrated captions may differ from rated ones: not if all ratings are equal and no scale is known."""
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
        """Find the captions of systems whose ratings differ."""
        return np.flatnonzero(~np.isin(self.population.system, list(self.constant)))

    def _drop_constant_systems(self, population: Population) -> Population:
        kept = self._find_varied_captions()
        _, system = np.unique(population.system[kept], return_inverse=True)
        stratum = None if population.stratum is None else population.stratum[kept]
        return Population(system.astype(np.int64), population.image[kept], population.values[kept], stratum)

    def _renumber(self, answers: Answers) -> Answers:
        """Return the answers with their captions numbered as in the population of `_drop_constant_systems`."""
        kept = self._find_varied_captions()
        new_index = np.full(len(self.population.system), -1)
        new_index[kept] = np.arange(len(kept))
        chance = None if answers.chance is None else answers.chance[kept]
        return replace(answers, item=new_index[answers.item], chance=chance)

    def estimate(self, columns: Sequence[AuxiliaryColumn]) -> tuple[SurveyMeans, dict[str, Any]]:
        """Estimate the means of all systems.

        A system whose ratings are all equal is left out of the regression. Its mean is that rating. Differences need a
        variance too: that of a t interval which reaches as far, on either side, as `constant_interval` on its longer
        side. (Half of its width would be too little: if all ratings are the best of the scale, it has only one side.)
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
        raters = np.zeros(number, dtype=np.int64)
        slopes = np.zeros(0)
        if varied:
            kept_columns = [replace(one, values=one.values[kept], raw=one.raw[kept]) for one in columns]
            fit, facts = fit_columns(*self.drop_constant(), kept_columns, self.setting)
            means[varied], item_variance[varied] = fit.means, fit.item_variance
            strata[varied], raters[varied], slopes = fit.strata, fit.number_raters, fit.slopes
            for name, matrix in parts.items():
                matrix[np.ix_(varied, varied)] = getattr(fit, name)
        for index, value in self.constant.items():
            means[index] = value
            level = self.setting.level
            # Half of the error probability, because this bound is one-sided and the t interval is two-sided.
            low, high = constant_interval(value, int(images[index]), self.ends, (1 + level) / 2)
            reach = max(value - low, high - value)
            parts["images"][index, index] = (reach / t_point(level, max(images[index] - 1, 1))) ** 2
        all_means = SurveyMeans(
            means, slopes, **parts, item_variance=item_variance, fraction=rated / totals, rated=rated,
            rated_images=images, number_raters=raters, strata=strata, target=self.setting.target,
        )  # fmt: skip
        return all_means, facts

    def _make_contrasts(self, means: SurveyMeans) -> tuple[list[str], list[Floats], Floats]:
        """Return the names of systems, and for each the weights w and the constant c of its value Σ w · mean + c.

        For ratings the value is the system's own mean. For pairs it is a win rate: the mean over the pairs that the
        system is in. The estimated mean of a pair is the win rate of its first system; that of the second is 1 minus
        it, so the weight is −1 and 1 goes into the constant.
        """
        if not self.sample.pairs:
            return list(self.sample.systems), list(np.eye(len(self.sample.systems))), np.zeros(len(self.sample.systems))
        pairs = self.sample.pairs
        names = sorted({name for pair in pairs for name in pair})
        weights, constants = [], []
        for name in names:
            signs = np.array([(pair[0] == name) * 1.0 - (pair[1] == name) for pair in pairs])
            number = np.abs(signs).sum()
            weights.append(signs / number)
            constants.append(float((signs < 0).sum() / number))
        return names, weights, np.array(constants)

    def _make_estimate(self, contrast: MeanContrast, constant: float, system: int | None, is_share: bool) -> Estimate:
        """Return the estimate of a mean or share, with an interval that ends at the limits of the scale.

        ``system`` is the system, or the pair of systems, whose own mean it is; None for a mean of several.
        """
        error, degrees = contrast.estimate.error, contrast.estimate.degrees
        value, level = contrast.estimate.value + constant, self.setting.level
        factor = self._find_factor(degrees)
        if system in self.constant:
            if not self.has_scale:
                return Estimate(value)
            images = self.rated_images(system)
            low, high = constant_interval(value, images, self.ends, self._find_level(factor, degrees))
        elif is_share:
            value = min(max(value, 0.0), 1.0)
            low, high = wilson_interval(value, error, degrees, level, factor)
        else:
            low, high = Contrast(value, error, degrees).interval(level, factor)
        return Estimate(value, max(low, self.limits[0]), min(high, self.limits[1]), error)

    def _find_factor(self, degrees: float, tests: int = 1) -> float | None:
        """Return the factor of the standard error if results are looked at repeatedly; None for Student's t.

        The error probability is divided by the number of ``tests`` (Bonferroni): results that are looked at repeatedly
        have no p-values to which Holm's correction could be applied.
        """
        if self.setting.factor is None:
            return None
        return self.setting.factor(self.images, degrees, 1 - (1 - self.setting.level) / tests)

    def _find_level(self, factor: float | None, degrees: float) -> float:
        """Return the level at which Student's t equals the factor; without a factor, the level of the setting."""
        return self.setting.level if factor is None else 1 - 2 * t_tail(factor, degrees)

    @property
    def images(self) -> int:
        """The number of images with a rated caption."""
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
        is_share = kind != "mean"
        with_columns = [means.contrast(one) for one in weights]
        without = [plain.contrast(one) for one in weights]
        # The only mean with a weight, that of a system or of a pair; None for a win rate over several pairs.
        own_means = [np.flatnonzero(one) for one in weights]
        only_mean = [int(own[0]) if len(own) == 1 else None for own in own_means]
        estimates, ratings_only = (
            [self._make_estimate(*each, is_share) for each in zip(contrasts, constants, only_mean, strict=True)]
            for contrasts in (with_columns, without)
        )
        tests = self._test_pairs(means, plain, names, weights)
        order = sorted(range(len(names)), key=lambda index: (-estimates[index].value, names[index]))
        position = {names[index]: number for number, index in enumerate(order)}
        contests = sorted(self._list_contests(tests), key=lambda one: (position[one.first], position[one.second]))
        different = [(one.first, one.second) for one in contests if one.differs(self.setting.level)]
        ranks = shared_ranks([names[index] for index in order], different)
        systems = []
        for index in order:
            own = np.flatnonzero(weights[index])  # the system itself, or the pairs that it is in
            systems.append(
                SystemVerdict(
                    names[index],
                    ranks[names[index]],
                    estimates[index],
                    ratings_only[index],
                    with_columns[index].estimate.degrees,
                    int(np.isin(self.population.system, own).sum()),
                    int(means.rated[own].sum()),
                    self._count_images(own),
                )
            )
        gain = None
        if facts:
            ratio = np.mean([one.estimate.error**2 for one in without]) / np.mean(
                [one.estimate.error**2 for one in with_columns]
            )
            gain = Gain.of(int(means.rated.sum()), float(ratio), self.images)
        parts = PlanParts(
            tuple(map(_split_variance, without)),
            tuple(map(_split_variance, with_columns)),
            tuple(_split_variance(test.plain) for test in tests),
            tuple(_split_variance(test.contrast) for test in tests),
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
        """Count the images that have a rated caption of one of some systems."""
        own = self.answers.item[np.isin(self.population.system[self.answers.item], systems)]
        return len(np.unique(self.population.image[own]))

    def _test_pairs(
        self,
        means: SurveyMeans,
        plain: SurveyMeans,
        names: Sequence[str],
        weights: Sequence[Floats],
    ) -> list[_PairTest]:
        """Test every two systems, the better one first; the win rate of a pair is tested against one half."""
        tests = []
        if self.sample.pairs:
            for index, (first, second) in enumerate(self.sample.pairs):
                is_first_better = means.means[index] >= 0.5
                sign = 1.0 if is_first_better else -1.0
                better, worse = (first, second) if is_first_better else (second, first)
                weight = sign * np.eye(len(self.sample.pairs))[index]
                images = self._count_images(np.array([index]))
                contrast, plain_contrast = means.contrast(weight), plain.contrast(weight)
                # The better system's win rate above one half: rate − ½, or (1 − rate) − ½ = −rate + ½.
                tests.append(_PairTest(better, worse, contrast, plain_contrast, -0.5 * sign, images))
            return tests
        for one, other in combinations(range(len(names)), 2):
            high, low = (one, other) if means.means[one] >= means.means[other] else (other, one)
            gap = weights[high] - weights[low]
            images = self._count_common(high, low)
            tests.append(_PairTest(names[high], names[low], means.contrast(gap), plain.contrast(gap), 0.0, images))
        return tests

    def _list_contests(self, tests: Sequence[_PairTest]) -> list[VerdictContest]:
        """List the tests with intervals and Holm-adjusted p-values; no p-values for one of several looks."""
        # The largest difference of two ratings; of a win rate from one half.
        widest = 0.5 if self.sample.pairs else self.ends[1] - self.ends[0]
        # The same for intervals: infinite if the scale is not known.
        limit = self.limits[1] - self.limits[0]
        flat = [self._is_flat(index, test.difference, widest) for index, test in enumerate(tests)]
        p_values = [
            _run_sign_test(test, widest) if is_flat else test.difference.p
            for test, is_flat in zip(tests, flat, strict=True)
        ]
        contests = []
        for test, is_flat, p, p_holm in zip(tests, flat, p_values, holm(p_values), strict=True):
            value, error, degrees = test.difference
            factor = self._find_factor(degrees, len(tests))
            low, high = test.difference.interval(self.setting.level, factor)
            low, high = max(low, -limit), min(high, limit)
            if self.sample.pairs:
                low, high = wilson_interval(value + 0.5, error, degrees, self.setting.level, factor)
                low, high = low - 0.5, high - 0.5
            if is_flat:
                level = (1 + self._find_level(factor, degrees)) / 2
                low, high = constant_interval(value, max(test.images, 1), (-widest, widest), level)
            if self.setting.factor is not None:
                p = p_holm = NAN
            estimate = Estimate(value, low, high, error) if self.has_scale else Estimate(value)
            contests.append(VerdictContest(test.better, test.worse, estimate, degrees, p, p_holm, test.images))
        return contests

    def _is_flat(self, index: int, difference: Contrast, widest: float) -> bool:
        """Return True if a difference is the same for all images, such as if all answers prefer one system: no t test.

        With the target ``ratings`` an error of 0 may also mean that these raters have rated every caption. Then the
        difference is known exactly, and the sign test would be wrong.
        """
        if self.sample.pairs and index in self.constant:
            return True
        return difference.error <= FLAT * widest and self.setting.target != "ratings"

    def _count_common(self, first: int, second: int) -> int:
        """Count the images of which captions of both systems were rated."""
        system, image = self.population.system[self.answers.item], self.population.image[self.answers.item]
        return len(np.intersect1d(image[system == first], image[system == second]))
