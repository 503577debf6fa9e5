"""Combination studies: a metric before and after another is added, and the factor chosen by cross-validation."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.options import Resampling
from captious.study._design import RatingRows
from captious.study.judgments import Ratings
from captious.study.metric_agreement.combine import add, combine_metrics, cross_validate
from captious.study.scores import MetricScores


def simulated(rng, n=120):
    quality = rng.normal(size=n)
    human = quality + rng.normal(0, 0.5, n)
    return RatingRows(human, np.arange(n), np.repeat(np.arange(n // 4), 4), n // 4, human), quality


def test_adding_a_metric_before_and_after_over_seeds():
    rng = np.random.default_rng(0)
    rows, quality = simulated(rng)
    base = MetricScores("m", "m", quality + rng.normal(size=120))
    seeds = [quality + rng.normal(size=120) for _ in range(5)]
    nothing, added = add(rows, [base], {"ie": seeds}, (0.0, 1.0))
    before = np.corrcoef(rows.human, base.values)[0, 1]
    after = [np.corrcoef(rows.human, base.values + seed)[0, 1] for seed in seeds]
    assert nothing.before == nothing.after == pytest.approx(before)
    assert nothing.spread == pytest.approx(0.0, abs=1e-12) and nothing.gain.high == pytest.approx(0.0, abs=1e-12)
    assert added.after == pytest.approx(np.mean(after))
    assert added.spread == pytest.approx(np.std(after, ddof=1))
    assert added.seeds == 5 and 0 < added.gain.low < added.gain.value < added.gain.high
    with pytest.raises(InputError, match="no such statistic"):
        add(rows, [base], {"ie": seeds}, statistic="r")


def test_a_metric_of_a_large_scale_hardly_moves():
    """The paper's tiny ± for CIDEr: something between 0 and 1 is little beside it."""
    rng = np.random.default_rng(1)
    rows, quality = simulated(rng)
    other = [rng.random(120) for _ in range(5)]
    small = MetricScores("small", "small", quality + rng.normal(size=120))
    large = MetricScores("large", "large", 100 * small.values)
    first, second = add(rows, [small, large], {"ie": other}, resampling=Resampling(0))
    assert second.spread < first.spread / 10


def test_the_held_out_value_is_that_of_the_images_left_out():
    rng = np.random.default_rng(0)
    rows, quality = simulated(rng, 200)
    metric, other = MetricScores("m", "m", quality + rng.normal(size=200)), quality + rng.normal(size=200)
    (result,) = cross_validate(rows, [metric], {"o": [other]}, grid=(0.0, 0.5, 1.0, 4.0), folds=4, seed=3)
    fold = (np.random.default_rng(3).permutation(50) % 4)[rows.cluster]
    before, after, chosen = [], [], []
    for number in range(4):
        inside = fold == number

        def r(factor, mask):
            return np.corrcoef(rows.human[mask], (metric.values + factor * other)[mask])[0, 1]

        best = max((0.0, 0.5, 1.0, 4.0), key=lambda factor: r(factor, ~inside))
        chosen.append(best)
        before.append(r(0.0, inside))
        after.append(r(best, inside))
    assert result.factors == tuple(chosen)
    assert result.before == pytest.approx(np.mean(before)) and result.after == pytest.approx(np.mean(after))
    assert np.isnan(result.spread) and result.seeds == 1 and result.after > result.before


def test_noise_is_not_chosen():
    rng = np.random.default_rng(1)
    rows, quality = simulated(rng, 200)
    metric = MetricScores("m", "m", quality + 0.1 * rng.normal(size=200))
    seeds = [10 * rng.normal(size=200) for _ in range(3)]
    (result,) = cross_validate(rows, [metric], {"noise": seeds})
    assert result.factor == 0.0 and result.after == pytest.approx(result.before)
    assert result.spread == pytest.approx(0.0, abs=1e-12)


def test_the_gain_has_a_p_value():
    rng = np.random.default_rng(2)
    rows, quality = simulated(rng, 200)
    metric = MetricScores("m", "m", quality + rng.normal(size=200))
    useful, noise = quality + rng.normal(size=200), 0.01 * rng.normal(size=200)
    good, nothing = add(rows, [metric], {"good": [useful], "noise": [noise]}, resampling=Resampling(300))
    assert good.p < 0.02 < nothing.p
    assert np.isnan(add(rows, [metric], {"good": [useful]}, resampling=Resampling(0))[0].p)


@pytest.mark.parametrize(("folds", "statistic"), [(1, "pearson"), (51, "pearson"), (5, "r")])
def test_what_it_needs(folds, statistic):
    rows, quality = simulated(np.random.default_rng(0), 200)
    with pytest.raises(InputError, match=r"expected 2 to 50|no such statistic"):
        cross_validate(rows, [MetricScores("m", "m", quality)], {"o": [quality]}, folds=folds, statistic=statistic)


@pytest.mark.parametrize("factors", [(), (float("nan"),), (1.0, float("inf"))])
def test_factors_are_finite_numbers(factors):
    people = Ratings.of({str(number): number % 5 for number in range(30)})
    scores = [MetricScores(name, name, np.arange(30.0) % length) for name, length in (("a", 7), ("b", 4))]
    with pytest.raises(InputError, match=r"factors=.*: expected finite numbers"):
        combine_metrics(people, scores[:1], scores[1:], factors=factors)
