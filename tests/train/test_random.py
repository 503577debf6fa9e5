"""Random numbers by address."""

import numpy as np

from captious._core.random import draw_below, draw_uniform, fork, make_keys
from captious.edits.wrong_words import find_first_success


def test_uniform_numbers_have_the_mean_and_variance_of_uniform_numbers():
    draws = draw_uniform(fork(make_keys([str(i) for i in range(100)], 7), 0)[:, None], np.arange(2000)[None]).ravel()
    assert abs(draws.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(draws))
    assert abs(draws.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / len(draws))
    assert draws.min() >= 0 and draws.max() < 1
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 4 / np.sqrt(len(draws))


def test_keys_depend_on_seed_and_id_and_nothing_else():
    assert make_keys(["a", "b"], 1)[1] == make_keys(["b"], 1)[0]
    assert make_keys(["a"], 1)[0] != make_keys(["a"], 2)[0] != make_keys(["b"], 2)[0]
    # The separator keeps seed 1 with id "1x" apart from seed 11 with id "x".
    assert make_keys(["1x"], 1)[0] != make_keys(["x"], 11)[0]


def test_below_covers_its_range_evenly():
    found = np.bincount(draw_below(make_keys([str(i) for i in range(30000)], 0), np.full(30000, 3)), minlength=3)
    assert len(found) == 3 and abs(found / 30000 - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 30000)


def test_the_first_success_has_the_law_of_trying_again_until_something_has_changed():
    # With chance .3 and three trials, given one success: P(first = k) = .3 * .7**k / (1 - .343).
    draws = draw_uniform(make_keys(["x"], 0), np.arange(200_000))
    share = np.bincount(find_first_success(draws, 0.3, np.full(200_000, 3)), minlength=3) / 200_000
    expected = np.array([0.3, 0.21, 0.147]) / 0.657
    assert len(share) == 3 and abs(share - expected).max() < 4 * np.sqrt(0.25 / 200_000)
    assert find_first_success(np.array([0.999999]), 0.3, np.array([1])).tolist() == [0]
