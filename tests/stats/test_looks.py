"""Boundaries of looks, confidence sequences and sizes: golden numbers of ../shared/spec/estimate.md section 4."""

import pytest

from captious.errors import InputError
from captious.stats.looks import anytime_factor, find_size, look_boundaries, look_factor, spend


@pytest.mark.parametrize(
    ("times", "kind", "boundaries"),
    [
        ((0.2, 0.4, 0.6, 0.8, 1.0), "obrien-fleming", (4.8769, 3.3570, 2.6803, 2.2898, 2.0310)),
        ((1 / 3, 2 / 3, 1.0), "obrien-fleming", (3.7103, 2.5114, 1.9930)),
        ((0.2, 0.5, 0.8, 1.0), "obrien-fleming", (4.8769, 2.9626, 2.2662, 2.0278)),
        ((0.2, 0.4, 0.6, 0.8, 1.0), "pocock", (2.4380, 2.4268, 2.4102, 2.3966, 2.3860)),
    ],
)
def test_boundaries_of_looks(times, kind, boundaries):
    """Numbers of a prototype with Simpson's rule; two-sided, alpha .05."""
    assert look_boundaries(times, kind=kind) == pytest.approx(boundaries, abs=5e-5)


def test_one_look_at_the_end_is_the_usual_interval():
    assert look_boundaries([1.0]) == pytest.approx([1.959964], abs=1e-6)
    assert spend(1.0, level=0.9) == pytest.approx(0.05)


def test_many_looks_end_at_2_143():
    """Every ten images from 20 to 300."""
    times = [number / 300 for number in range(20, 301, 10)]
    assert look_boundaries(times)[-1] == pytest.approx(2.143, abs=5e-4)


@pytest.mark.parametrize("times", [(0.5, 0.5), (0.0, 1.0), (0.5, 1.2), (0.8, 0.4)])
def test_times_must_increase_up_to_one(times):
    with pytest.raises(InputError, match="expected increasing shares up to 1"):
        look_boundaries(times)


def test_few_images_have_the_factor_of_student():
    assert look_factor(1.959964, 9) == pytest.approx(2.262157, abs=1e-5)


def test_factor_of_a_confidence_sequence():
    factors = [anytime_factor(number) for number in (20, 50, 100, 200, 400)]
    assert factors == pytest.approx([3.763, 3.227, 3.070, 3.035, 3.069], abs=5e-4)


def test_sizes_without_a_pilot():
    """sd 1 ± .2; TIFA160, sd .9596, r² .3573, ± .1 and ± .2; CapEval1k, sd .2329, r² .2166 of SPICE, ± .025."""
    assert (find_size(1, 0.2), find_size(1, 0.2, 0.36, 1)) == (99, 65)
    assert (find_size(0.9596, 0.1), find_size(0.9596, 0.1, 0.3573, 1)) == (357, 231)
    assert (find_size(0.9596, 0.2), find_size(0.9596, 0.2, 0.3573, 1)) == (91, 61)
    assert (find_size(0.2329, 0.025), find_size(0.2329, 0.025, 0.2166, 1)) == (336, 265)
    with pytest.raises(InputError, match="more than 10,000,000 captions"):
        find_size(1, 1e-5)
