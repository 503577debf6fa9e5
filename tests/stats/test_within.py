"""Statistics within images, and soft pairwise accuracy."""

from itertools import combinations

import numpy as np
import pytest
from scipy.stats import kendalltau, pearsonr, spearmanr

from captious.errors import InputError
from captious.stats.correlation import WithinCorrelation, WithinImage, soft_pairwise_accuracy


def test_sample_tau_is_the_mean_over_images_and_counts_those_without():
    values = np.array([0.1, 0.5, 0.3, 0.9, 0.2, 0.2, 0.4])
    human = np.array([1.0, 3.0, 2.0, 2.0, 2.0, 2.0, 5.0])
    cluster = np.array([0, 0, 0, 0, 1, 1, 2])
    within = WithinImage.of(values, human, cluster, 3)
    first = kendalltau(values[:4], human[:4]).statistic
    assert within(np.ones((3, 1)))["sample_tau"][0] == pytest.approx(first)
    assert within.skipped == 2  # image 1 is constant, image 2 has one caption
    assert np.isnan(within(np.array([[0.0], [1.0], [1.0]]))["sample_tau"][0])


def accuracy(gap, human, epsilon):
    tied = np.abs(gap) <= epsilon
    return np.mean(np.where(tied, human == 0, np.sign(gap) == np.sign(human)))


def test_tie_calibration_finds_the_best_threshold():
    rng = np.random.default_rng(7)
    human, cluster = rng.integers(1, 5, 40).astype(float), np.repeat(np.arange(8), 5)
    values = human + rng.normal(0, 1, 40)
    pairs = [pair for image in range(8) for pair in combinations(np.flatnonzero(cluster == image), 2)]
    gap = np.array([values[a] - values[b] for a, b in pairs])
    people = np.array([human[a] - human[b] for a, b in pairs])
    within = WithinImage.of(values, human, cluster, 8)
    accuracies = within(np.ones((8, 1)))
    tries = [accuracy(gap, people, -1), *(accuracy(gap, people, epsilon) for epsilon in np.abs(gap))]
    assert accuracies["accuracy"][0] == pytest.approx(np.mean(np.sign(gap) == np.sign(people)))
    assert accuracies["accuracy_eq"][0] == pytest.approx(max(tries))
    assert accuracy(gap, people, within.epsilon()) == pytest.approx(max(tries))
    weights = rng.integers(0, 3, (8, 4)).astype(float)
    for draw in range(4):
        copies = np.repeat(np.arange(len(gap)), weights[cluster[[a for a, _ in pairs]], draw].astype(int))
        best = max(accuracy(gap[copies], people[copies], epsilon) for epsilon in [-1, *np.abs(gap)])
        assert within(weights)["accuracy_eq"][draw] == pytest.approx(best)


def test_soft_pairwise_accuracy_by_hand():
    # Two systems, all differences positive for people and all negative for the metric: p near 0 and near 1.
    group, system = np.repeat(np.arange(12), 2), np.tile([0, 1], 12)
    human = np.where(system == 0, 2.0, 1.0)
    worst = soft_pairwise_accuracy(-human, human, group, system)
    assert worst == pytest.approx(2 / 4096, abs=0.01)
    assert soft_pairwise_accuracy(3 * human, human, group, system) == 1.0
    with pytest.raises(InputError, match="two systems"):
        soft_pairwise_accuracy(human, human, group, np.zeros(24, int))


def test_correlations_within_images_are_scipys_averaged():
    rng = np.random.default_rng(5)
    cluster = np.repeat(np.arange(6), [5, 7, 1, 4, 9, 3])
    values, human = rng.integers(0, 4, len(cluster)).astype(float), rng.integers(1, 6, len(cluster)) / 3
    values[cluster == 5], human[cluster == 5] = [1, 3, 2], [1, 2, 2]
    human[cluster == 3] = 1.0  # an image without any difference is left out
    weights = np.array([[1.0], [2.0], [1.0], [1.0], [0.0], [3.0]])
    found = WithinCorrelation.of(values, human, cluster, 6)(weights)
    for name, function in (("sample_pearson", pearsonr), ("sample_spearman", spearmanr)):
        own = {one: function(values[cluster == one], human[cluster == one])[0] for one in (0, 1, 5)}
        assert found[name][0] == pytest.approx((own[0] + 2 * own[1] + 3 * own[5]) / 6)
