"""Power of a planned study, by simulation."""

import pytest

from captious.errors import InputError
from captious.options import Resampling
from captious.study.metric_agreement.power import simulate_power


@pytest.mark.parametrize("wrong", [{"alike": 2}, {"alike": -0.1}, {"noise": -1}, {"level": 0}, {"level": 1}])
def test_power_refuses_numbers_that_no_study_can_have(wrong):
    with pytest.raises(InputError, match=r"alike=.* from 0 to 1|noise=-1, expected a number from 0|between 0 and 1"):
        level = wrong.pop("level", 0.95)
        simulate_power(0.1, 100, resampling=Resampling(2, level=level), **wrong)


def test_power_grows_with_items_and_its_error_shrinks_as_the_root():
    small, large = (simulate_power(0.03, items, resampling=Resampling(150)) for items in (250, 1000))
    assert small.power < large.power
    assert small.error / large.error == pytest.approx(2.0, rel=0.2)
    assert small.needed == pytest.approx(large.needed, rel=0.4)
    assert large.ratings == 3 * large.needed and large.needed_90 > large.needed
    # At the size for power .8, the difference is 1.96 + 0.84 standard errors.
    assert large.detectable / large.error == pytest.approx(2.8016, abs=1e-3)


def test_many_raters_are_counted_and_not_drawn_one_by_one():
    """Up to as many raters as levels every rater is drawn; above that the numbers at each level are multinomial."""
    few = Resampling(samples=300)
    drawn, counted = (simulate_power(0.03, 200, raters=5, levels=levels, resampling=few).error for levels in (5, 4))
    assert counted == pytest.approx(drawn, rel=0.15)
    many = simulate_power(0.03, 200, raters=1000, resampling=Resampling(samples=20))
    assert many.error < drawn and "captions simulated" not in many.assumed


def test_without_noise_all_raters_agree():
    noiseless = (simulate_power(0.03, 100, raters=raters, noise=0, resampling=Resampling(100)) for raters in (5, 50))
    one, other = (result.error for result in noiseless)
    assert one == pytest.approx(other, rel=0.3)


def test_of_a_large_study_a_part_is_simulated():
    large = simulate_power(0.03, 50_000, resampling=Resampling(samples=100))
    part = simulate_power(0.03, 5_000, resampling=Resampling(samples=100))
    assert "6,666 captions simulated and the error scaled to 50,000" in large.assumed
    assert part.error / large.error == pytest.approx(10**0.5, rel=0.3)


@pytest.mark.parametrize(
    ("difference", "items", "message"), [(0.0, 100, "difference=0"), (0.1, 5, "items=5, expected a number from 10")]
)
def test_power_of_nothing(difference, items, message):
    with pytest.raises(InputError, match=message):
        simulate_power(difference, items)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"difference": "3"}, "difference: '3', expected a number"),
        ({"items": 100.5}, "items: 100.5, expected a whole number"),
        ({"raters": None}, "raters: None, expected a whole number"),
        ({"tau": [0.4]}, r"tau: \[0.4\], expected a number"),
        ({"resampling": 400}, "resampling: int, expected one such as"),
    ],
)
def test_power_refuses_what_is_no_number(wrong, message):
    with pytest.raises(InputError, match=message):
        simulate_power(**{"difference": 0.1, "items": 100, **wrong})


def test_a_tau_may_be_written_as_tables_print_it():
    few = Resampling(samples=20)
    assert simulate_power(3, 100, tau=45, resampling=few) == simulate_power(0.03, 100, tau=0.45, resampling=few)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"difference": 0.6}, "the better metric has 1.05, above 1"),
        ({"difference": 300}, "difference=300, expected a tau such as 0.03, or 3 of tau × 100"),
        ({"difference": float("nan")}, "difference=nan, expected a tau"),
        ({"tau": float("inf")}, "tau=inf, expected a tau"),
        ({"raters": 0}, "raters=0, expected a number from 1"),
        ({"levels": 1}, "levels=1, expected a number from 2"),
        ({"noise": float("nan")}, "noise=nan, expected a number from 0"),
        ({"items": 10**12}, "items=1e\\+12, expected a number from 10"),
    ],
)
def test_numbers_that_cannot_be_simulated_are_named(arguments, message):
    with pytest.raises(InputError, match=message):
        simulate_power(**{"difference": 0.03, "items": 100, **arguments})
