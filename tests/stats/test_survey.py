"""Means of systems from few ratings: golden numbers of ../shared/spec/estimate.md section 2, and brute force."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.stats.resampling import holm
from captious.stats.survey import (
    Answers,
    Population,
    constant_interval,
    estimate_means,
    find_varied,
    wilson_interval,
)

EXACT = 1e-9


def one_system(values, ratings, **answers):
    """One system, an image per caption, of which the first are rated."""
    number = len(values)
    population = Population(np.zeros(number, int), np.arange(number), np.asarray(values, float).reshape(number, -1))
    return population, Answers(np.arange(len(ratings)), np.asarray(ratings, float), **answers)


def two_systems(order=slice(None)):
    values = np.array([1.0, 2, 3, 4, 5, 9, 2, 2, 4, 5, 5, 8])[:, None]
    item, rating = np.array([0, 1, 2, 3, 6, 7, 8, 9]), np.array([2.0, 3, 3, 5, 3, 3, 5, 5])
    return Population(np.repeat([0, 1], 6), np.tile(np.arange(6), 2), values), Answers(item[order], rating[order])


def test_one_system_by_hand():
    """x 1 2 3 4 5 9, the first four rated 2 3 3 5: slope .9, so 3.25 + .9 · (4 − 2.5) = 4.6."""
    population, answers = one_system([1, 2, 3, 4, 5, 9], [2, 3, 3, 5])
    means = estimate_means(population, answers, target="items")
    assert means.means[0] == pytest.approx(4.6, abs=EXACT)
    assert means.slopes[0] / population.values.std() == pytest.approx(0.9, abs=EXACT)
    assert means.mean(0).estimate.error == pytest.approx(0.8816342277637739, abs=EXACT)


def test_two_systems_with_a_common_slope():
    population, answers = two_systems()
    means = estimate_means(population, answers, target="items")
    centred = population.center()
    assert means.slopes[0] / np.sqrt((centred**2).mean()) == pytest.approx(0.80851064, abs=1e-8)
    assert means.means == pytest.approx([4.46276596, 4.87588652], abs=1e-8)
    errors = [means.mean(system).estimate.error for system in (0, 1)]
    assert errors == pytest.approx([0.2768124, 0.13969333], abs=1e-7)
    difference = means.contrast([1, -1]).estimate
    assert (difference.value, difference.error) == pytest.approx((-0.41312057, 0.41556303), abs=1e-8)
    world = estimate_means(population, answers, target="world")
    errors = [world.mean(system).estimate.error for system in (0, 1)]
    assert errors == pytest.approx([0.97376128, 0.75598853], abs=1e-8)
    assert world.contrast([1, -1]).estimate.error == pytest.approx(0.49530273, abs=1e-8)


def test_two_systems_by_arithmetic_and_refits():
    """Slope (4.5 + 5) / (5 + 6.75) = 38 / 47; each mean moves by slope · (mean of all x − mean of the rated x)."""
    population, answers = two_systems()
    means = estimate_means(population, answers, target="items")
    assert means.means == pytest.approx([3.25 + 38 / 47 * (4 - 2.5), 4 + 38 / 47 * (26 / 6 - 3.25)], abs=EXACT)
    x, own = population.center()[answers.item, 0], population.system[answers.item]
    design = np.stack([own == 0, own == 1, x], axis=1).astype(float)

    def fit(rows):
        return np.linalg.lstsq(design[rows], answers.rating[rows], rcond=None)[0]

    whole = fit(np.ones(8, bool))
    without = np.array([fit(population.image[answers.item] != image) - whole for image in range(4)])
    covariance = 3 / 4 * without.T @ without
    for weights in ([1, 0, 0], [0, 1, 0], [1, -1, 0]):
        error = means.contrast(weights[:2]).estimate.error
        assert error == pytest.approx(float(np.sqrt(weights @ covariance @ weights)), abs=EXACT)
    # `world` adds U / (U − 1) Σ s sᵀ with s = slope · x̃ / N of each of six images.
    part = 38 / 47 * population.center().reshape(2, 6).T / 6
    added = 6 / 5 * part.T @ part
    world = estimate_means(population, answers, target="world")
    for weights in ([1, 0], [0, 1], [1, -1]):
        expected = weights @ (covariance[:2, :2] + added) @ weights
        assert world.contrast(weights).estimate.error == pytest.approx(float(np.sqrt(expected)), abs=EXACT)


def test_three_raters():
    """5 images × 3 raters, rows 342 454 231 553 343: V_I .193333, V_R .213333, V_C .093333."""
    rating = np.array([float(digit) for row in ("342", "454", "231", "553", "343") for digit in row])
    population = Population(np.zeros(5, int), np.arange(5), np.zeros((5, 0)))
    answers = Answers(np.repeat(np.arange(5), 3), rating, np.tile(np.arange(3), 5))
    means = estimate_means(population, answers)
    mean = means.mean(0)
    assert mean.estimate.value == pytest.approx(3.4, abs=EXACT)
    assert mean.images == pytest.approx(0.58 / 3, abs=EXACT)  # image means 3 4⅓ 2 4⅓ 3⅓: their variance / 5
    assert mean.raters == pytest.approx(0.64 / 3 - 0.28 / 3, abs=EXACT)
    assert mean.estimate.error == pytest.approx(0.55976185, abs=1e-8)
    assert mean.estimate.degrees == 2
    two = Answers(answers.item, answers.rating, np.minimum(answers.rater, 1))
    assert estimate_means(population, two).mean(0).raters == 0  # of two raters nothing follows for others


def test_a_system_with_a_single_rater_has_one_degree_of_freedom():
    """Of three raters one rated the first system and two the second; an interval for other raters is very wide."""
    image = np.tile(np.arange(6), 2)
    population = Population(np.repeat([0, 1], 6), image, np.zeros((12, 0)))
    rating, rater = np.array([3.0, 4, 2, 5, 3, 4, 2, 3, 2, 4, 1, 2]), np.array([0] * 6 + [1, 2] * 3)
    means = estimate_means(population, Answers(np.arange(12), rating, rater))
    assert [means.mean(system).estimate.degrees for system in (0, 1)] == [1.0, 1.0]
    assert means.contrast([1, -1]).estimate.degrees < 5


def test_raters_never_make_the_variance_smaller():
    """Raters with equal means vary less than chance: V_R − V_C is below 0 and not counted."""
    rating = np.array([1.0, 3, 2, 3, 2, 1, 2, 1, 3])
    population = Population(np.zeros(3, int), np.arange(3), np.zeros((3, 0)))
    means = estimate_means(population, Answers(np.repeat(np.arange(3), 3), rating, np.tile(np.arange(3), 3)))
    assert means.raters[0, 0] < 0
    assert means.mean(0).estimate.error == pytest.approx(np.sqrt(means.images[0, 0]))


def test_unequal_chances():
    """Ratings 1 2 4 with chances .2 .4 .8: (5 + 5 + 5) / (5 + 2.5 + 1.25)."""
    population, answers = one_system(np.zeros((3, 0)), [1, 2, 4], chance=np.array([0.2, 0.4, 0.8]))
    assert estimate_means(population, answers).means[0] == pytest.approx(15 / 8.75, abs=EXACT)


def test_strata():
    """Strata of 4 and 6: .4 · 1.5 + .6 · 4 = 3, variance .16 · .5 / 2 + .36 · 1 / 3 = .16."""
    population = Population(np.zeros(10, int), np.arange(10), np.zeros((10, 0)), np.array([0] * 4 + [1] * 6))
    mean = estimate_means(population, Answers(np.array([0, 1, 4, 5, 6]), np.array([1.0, 2, 4, 5, 3]))).mean(0)
    assert (mean.estimate.value, mean.estimate.error) == pytest.approx((3.0, 0.4), abs=EXACT)
    assert mean.estimate.degrees == 3  # five images, two strata


def test_several_ratings_of_a_caption_share_its_weight():
    """Captions rated 1, 1, 1 and 4: the mean of captions is 2.5, not that of ratings."""
    population, _ = one_system(np.zeros((2, 0)), [0])
    means = estimate_means(population, Answers(np.array([0, 0, 0, 1]), np.array([1.0, 1, 1, 4])))
    assert means.means[0] == pytest.approx(2.5, abs=EXACT)


def test_order_of_rows_changes_nothing():
    population, answers = two_systems()
    first = estimate_means(population, answers)
    second = estimate_means(*two_systems(np.array([7, 2, 0, 5, 1, 6, 4, 3])))
    np.testing.assert_allclose(first.means, second.means, atol=1e-12)
    np.testing.assert_allclose(first.images, second.images, atol=1e-12)


def test_scale_and_sign_of_an_auxiliary_metric_change_nothing():
    population, answers = two_systems()
    first = estimate_means(population, answers)
    turned = Population(population.system, population.image, -0.03 * population.values + 7)
    second = estimate_means(turned, answers)
    np.testing.assert_allclose(first.means, second.means, atol=1e-12)
    assert second.mean(0).estimate.error == pytest.approx(first.mean(0).estimate.error, abs=1e-12)


def test_own_slopes_equal_each_system_alone():
    population, answers = two_systems()
    own = estimate_means(population, answers, slopes="own", target="items")
    single = estimate_means(*one_system([1, 2, 3, 4, 5, 9], [2, 3, 3, 5]), target="items")
    assert own.means[0] == pytest.approx(single.means[0], abs=1e-12)
    assert own.mean(0).estimate.error == pytest.approx(single.mean(0).estimate.error, abs=1e-12)
    assert own.slopes.shape == (2, 1)


def test_targets_of_a_finite_set_of_captions():
    """Two ratings per caption, 3 of 6 captions: `items` takes f · σ² / n away, `ratings` the factor 1 − f."""
    population, _ = one_system(np.zeros((6, 0)), [0])
    answers = Answers(np.repeat(np.arange(3), 2), np.array([1.0, 2, 3, 3, 5, 4]))
    world, items, ratings = (
        estimate_means(population, answers, target=target).mean(0).estimate.error ** 2
        for target in ("world", "items", "ratings")
    )
    residual = np.array([[1, 2], [3, 3], [5, 4]]) - 3.0  # products −2 · −1, 0, 2 · 1: mean 4 / 3
    assert world == pytest.approx(2.25 / 3)  # means 1.5 3 4.5 of the captions
    assert items == pytest.approx(max(world - 0.5 * residual.prod(axis=1).mean() / 3, 0.5 * world))
    assert ratings == pytest.approx(0.5 * world)


def test_a_value_that_hardly_varies_among_the_rated_is_found():
    population, answers = one_system(np.array([[1, 1.0], [1.01, 2], [1, 3], [9, 4], [2, 5]]), [1, 2, 3])
    assert find_varied(population, answers).tolist() == [False, True]


def test_systems_without_ratings_and_too_many_cells_are_refused():
    population, answers = two_systems()
    with pytest.raises(InputError, match="1 systems or strata have no rating"):
        estimate_means(population, Answers(answers.item[:4], answers.rating[:4]))
    many = Population(np.arange(201), np.arange(201), np.zeros((201, 0)))
    with pytest.raises(InputError, match="201 systems × strata, expected at most 200"):
        estimate_means(many, Answers(np.arange(201), np.ones(201)))


def test_intervals_of_shares_and_of_equal_ratings():
    assert wilson_interval(0.8, 0.05, 49) == pytest.approx((0.683129, 0.881258), abs=1e-6)
    assert wilson_interval(1.0, 0.0, 49) == (1.0, 1.0)
    assert constant_interval(3, 8, (1, 5)) == pytest.approx((2.375312, 3.624688), abs=1e-6)
    assert constant_interval(5, 20, (1, 5)) == pytest.approx((4.444, 5), abs=5e-4)


def test_holm():
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
