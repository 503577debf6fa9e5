"""Random numbers by address."""

import numpy as np

from captious._core.random import below, fork, keys_of, uniform
from captious.edits.wrong_words import first_success


def test_uniform_numbers_have_the_mean_and_variance_of_uniform_numbers():
    draws = uniform(fork(keys_of([str(i) for i in range(100)], 7), 0)[:, None], np.arange(2000)[None]).ravel()
    assert abs(draws.mean() - 0.5) < 4 * np.sqrt(1 / 12 / len(draws))
    assert abs(draws.var() - 1 / 12) < 4 * np.sqrt(1 / 180 / len(draws))
    assert draws.min() >= 0 and draws.max() < 1
    assert abs(np.corrcoef(draws[:-1], draws[1:])[0, 1]) < 4 / np.sqrt(len(draws))


def test_keys_depend_on_seed_and_id_and_nothing_else():
    assert keys_of(["a", "b"], 1)[1] == keys_of(["b"], 1)[0]
    assert keys_of(["a"], 1)[0] != keys_of(["a"], 2)[0] != keys_of(["b"], 2)[0]
    # The separator keeps seed 1 with id "1x" apart from seed 11 with id "x".
    assert keys_of(["1x"], 1)[0] != keys_of(["x"], 11)[0]


def test_below_covers_its_range_evenly():
    found = np.bincount(below(keys_of([str(i) for i in range(30000)], 0), np.full(30000, 3)), minlength=3)
    assert len(found) == 3 and abs(found / 30000 - 1 / 3).max() < 4 * np.sqrt(2 / 9 / 30000)


def test_the_first_success_has_the_law_of_trying_again_until_something_has_changed():
    # With chance .3 and three trials, given one success: P(first = k) = .3 * .7**k / (1 - .343).
    draws = uniform(keys_of(["x"], 0), np.arange(200_000))
    share = np.bincount(first_success(draws, 0.3, np.full(200_000, 3)), minlength=3) / 200_000
    expected = np.array([0.3, 0.21, 0.147]) / 0.657
    assert len(share) == 3 and abs(share - expected).max() < 4 * np.sqrt(0.25 / 200_000)
    assert first_success(np.array([0.999999]), 0.3, np.array([1])).tolist() == [0]
