"""Bradley–Terry against closed forms, and against the likelihood maximized by SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from captious.stats.pairwise import adjust_strengths, bradley_terry, elo


def by_scipy(wins):
    """The maximum of the log-likelihood, found without its derivatives being told."""
    number = len(wins)

    def loss(free):
        strengths = np.append(free, 0.0)
        gaps = strengths[:, None] - strengths[None, :]
        return float((wins * np.log1p(np.exp(-gaps))).sum())

    best = minimize(loss, np.zeros(number - 1), method="BFGS", options={"gtol": 1e-9}).x
    strengths = np.append(best, 0.0)
    return strengths - strengths.mean()


def test_two_systems_differ_by_the_log_odds_of_the_win_rate():
    for won, lost in ((3, 1), (50, 70), (0.5, 9.5), (1000, 1)):
        strengths = bradley_terry(np.array([[0.0, won], [lost, 0.0]]))
        assert strengths[0] - strengths[1] == pytest.approx(np.log(won / lost), abs=1e-9)
        assert strengths.sum() == pytest.approx(0, abs=1e-12)


def test_several_systems_have_the_strengths_that_scipy_finds():
    generator = np.random.default_rng(0)
    for number in (3, 4, 7):
        wins = generator.integers(1, 40, size=(number, number)) + 0.5 * generator.integers(0, 2, size=(number, number))
        np.fill_diagonal(wins, 0)
        assert bradley_terry(wins) == pytest.approx(by_scipy(wins), abs=1e-5)


def test_the_likelihood_is_stationary_at_the_strengths():
    # At the maximum every system has as many wins as the model expects: Σ wins = Σ games · chance.
    wins = np.array([[0.0, 900.0, 3.0], [1.0, 0.0, 2.0], [0.5, 40.0, 0.0]])
    strengths = bradley_terry(wins)
    chances = 1 / (1 + np.exp(strengths[None, :] - strengths[:, None]))
    assert ((wins + wins.T) * chances).sum(axis=1) == pytest.approx(wins.sum(axis=1), abs=1e-8)


def test_systems_that_never_met_are_compared_through_a_third():
    # a beats b 2 to 1, b beats c 2 to 1; a and c never met: the odds multiply to 4.
    strengths = bradley_terry(np.array([[0, 2, 0], [1, 0, 2], [0, 1, 0]]))
    assert strengths[0] - strengths[2] == pytest.approx(np.log(4))


def test_there_is_no_finite_strength_of_a_system_that_always_won_without_the_prior():
    always = np.array([[0.0, 5.0], [0.0, 0.0]])
    assert np.isnan(bradley_terry(always)).all()
    strengths = bradley_terry(always, prior=0.5)
    assert strengths[0] - strengths[1] == pytest.approx(np.log(5.5 / 0.5))


def test_systems_that_never_met_at_all_have_no_strength():
    apart = np.zeros((4, 4))
    apart[0, 1] = apart[1, 0] = apart[2, 3] = apart[3, 2] = 1
    assert np.isnan(bradley_terry(apart, prior=0.5)).all()


def test_tournaments_are_solved_together_and_a_broken_one_spoils_none():
    good, broken = np.array([[0.0, 3.0], [1.0, 0.0]]), np.zeros((2, 2))
    together = bradley_terry(np.stack([good, broken, good.T]))
    assert together[0] == pytest.approx(bradley_terry(good)) and np.isnan(together[1]).all()
    assert together[2] == pytest.approx(-bradley_terry(good))


def test_odds_of_ten_to_one_are_400_elo_points():
    points = elo(bradley_terry(np.array([[0.0, 10.0], [1.0, 0.0]])))
    assert points[0] - points[1] == pytest.approx(400) and points.mean() == pytest.approx(1000)


def test_without_covariates_adjusted_strengths_are_the_plain_ones():
    generator = np.random.default_rng(4)
    first = generator.integers(0, 3, 200)
    second = (first + generator.integers(1, 3, 200)) % 3
    score = generator.choice([0.0, 0.5, 1.0], 200)
    wins = np.zeros((3, 3))
    np.add.at(wins, (first, second), score)
    np.add.at(wins, (second, first), 1 - score)
    found = adjust_strengths(first, second, score, np.ones(200), np.zeros((200, 0)), np.arange(200))
    assert [one.value for one in found.strengths] == pytest.approx(bradley_terry(wins, prior=0.5), abs=1e-8)


def test_a_judge_that_loves_the_first_and_the_longer_caption_is_corrected():
    # The true strengths are equal; system 1 writes 10 words more, which doubles its odds, as does the first position.
    generator = np.random.default_rng(5)
    number = 4000
    first = generator.integers(0, 2, number)
    longer = np.where(first == 1, 1.0, -1.0) + generator.normal(0, 0.5, number)
    chance = 1 / (1 + np.exp(-np.log(2) * (1 + longer)))
    score = (generator.random(number) < chance).astype(float)
    covariates = np.stack([np.ones(number), longer], axis=1)
    plain = adjust_strengths(first, 1 - first, score, np.ones(number), np.zeros((number, 0)), np.arange(number))
    found = adjust_strengths(first, 1 - first, score, np.ones(number), covariates, np.arange(number))
    assert plain.strengths[1].value > 0.2
    assert abs(found.strengths[1].value) < 3 * found.strengths[1].error < 0.3
    for effect in found.effects:
        assert abs(effect.value - np.log(2)) < 3 * effect.error
