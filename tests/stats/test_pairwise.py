"""Bradley–Terry against closed forms, and against the likelihood maximized by SciPy."""

import numpy as np
import pytest
from scipy.optimize import minimize

from captious.stats.pairwise import bradley_terry, elo


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
