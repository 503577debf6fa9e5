"""Simulations: intervals cover and tests reject at their nominal rates."""

import numpy as np
import pytest

from captious.options import Resampling
from captious.stats.bootstrap import Estimate, compute_observed, draw_bootstrap
from captious.stats.tests import compute_bootstrap_p, compute_permutation_p, williams
from captious.study._design import RatingRows
from captious.study.metric_agreement._contests import permute_differences


def rows_of(human, cluster):
    return RatingRows(human, np.arange(len(human)), cluster, int(cluster.max()) + 1, human)


def test_permutation_of_two_images_is_exact():
    """With two images there are four swaps; the draws take only the differences these give."""
    human, cluster = np.array([1.0, 2.0, 3.0, 4.0]), np.array([0, 0, 1, 1])
    one, other = np.array([1.0, 2.0, 3.0, 4.0]), np.array([2.0, 1.0, 4.0, 3.0])
    difference, draws = permute_differences(rows_of(human, cluster), [(one, other)], "tau_b", 200, 0)[0]
    # Swapping both or none gives +-(1 - 1/3); swapping one image gives both metrics one inversion: 0.
    assert difference == pytest.approx(2 / 3)
    assert {round(float(gap), 9) for gap in draws} == {round(2 / 3, 9), round(-2 / 3, 9), 0.0}


def simulated(rng, images=30, captions=4, quality=(0.6, 0.6)):
    """Captions of one image are alike, in quality and in both metrics' errors."""
    cluster = np.repeat(np.arange(images), captions)
    truth = rng.normal(size=images)[cluster] + rng.normal(size=images * captions)
    human = np.clip(np.round(truth + rng.normal(size=len(truth)) + 3), 1, 5)
    errors = [rng.normal(size=images)[cluster] + rng.normal(size=len(truth)) for _ in quality]
    metrics = [share * truth + (1 - share) * error for share, error in zip(quality, errors, strict=True)]
    return human, cluster, metrics


@pytest.mark.parametrize("name", ["tau_b", "pearson", "spearman"])
def test_intervals_over_images_cover_the_truth(name):
    rng = np.random.default_rng(8)
    human, cluster, metrics = simulated(rng, images=8000)
    whole = rows_of(human, cluster)
    truth = compute_observed(whole.family(whole.families[name], metrics[0]), whole.clusters)[name]
    covered, studies = 0, 200
    for _ in range(studies):
        human, cluster, metrics = simulated(rng, images=60)
        rows = rows_of(human, cluster)
        statistic = rows.family(rows.families[name], metrics[0])
        value = compute_observed(statistic, rows.clusters)[name]
        estimate = Estimate.of(value, draw_bootstrap([statistic], rows.clusters, Resampling(200, 1))[0][name], 0.9)
        covered += estimate.low <= truth <= estimate.high
    # 200 intervals at 90 %: the standard deviation of the rate is .021; percentile intervals are a little short.
    assert 0.83 <= covered / studies <= 0.96


def test_rows_instead_of_images_would_not_cover():
    """Why images are drawn: three equal ratings of a caption, taken as rows, give intervals far too short."""
    rng = np.random.default_rng(9)
    human, cluster, metrics = simulated(rng, images=80)
    item = np.repeat(np.arange(len(human)), 3)
    by_image = RatingRows(human[item], item, cluster, 80, human)
    by_row = RatingRows(human[item], np.arange(len(item)), np.arange(len(item)), len(item), human[item])
    few = Resampling(300, 0)
    wide = draw_bootstrap([by_image.family("kendall", metrics[0])], 80, few)[0]["tau_b"].std()
    narrow = draw_bootstrap([by_row.family("kendall", metrics[0][item])], len(item), few)[0]["tau_b"].std()
    assert wide > 1.5 * narrow


def test_tests_between_equal_metrics_reject_at_their_level():
    rng = np.random.default_rng(10)
    rejected, studies = np.zeros(3), 250
    for _ in range(studies):
        human, cluster, (one, other) = simulated(rng, images=40)
        rows = rows_of(human, cluster)
        difference, draws = permute_differences(rows, [(one, other)], "tau_b", 99, 2)[0]
        families = [rows.family("kendall", values) for values in (one, other)]
        gaps = np.subtract(*(part["tau_b"] for part in draw_bootstrap(families, 40, Resampling(99, 3))))
        r = np.corrcoef([human[::4], one[::4], other[::4]])
        rejected += [
            compute_permutation_p(difference, draws)[0] < 0.05,
            compute_bootstrap_p(difference, gaps) < 0.05,
            williams(r[0, 1], r[0, 2], r[1, 2], 40).p < 0.05,
        ]
    # 250 tests at 5 %: the standard deviation of the rate is .014.
    assert (rejected / studies < 0.095).all() and (rejected / studies > 0.012).all()


def test_tests_find_a_real_difference():
    human, cluster, metrics = simulated(np.random.default_rng(11), images=150, quality=(0.7, 0.45))
    difference, draws = permute_differences(rows_of(human, cluster), [tuple(metrics)], "tau_b", 199, 4)[0]
    assert difference > 0 and compute_permutation_p(difference, draws)[0] < 0.02
