"""The human ceiling, and raters one by one."""

import numpy as np
import pytest

from captious.errors import InputError
from captious.options import Resampling
from captious.stats.rater_agreement import krippendorff
from captious.study.judgments import Ratings
from captious.study.raters.agreement import compute_ceiling, diagnose_raters, is_ordered, rater_agreement

NAN = np.nan
ONCE = Resampling(samples=0)


def as_ratings(values):
    ids = tuple(map(str, range(len(values))))
    return Ratings(ids, np.asarray(values, dtype=float), ids)


def panel():
    """Three raters see the same quality; the second is harsh by one point, the third answers at random."""
    rng = np.random.default_rng(13)
    quality = rng.integers(2, 6, 200)
    columns = [quality + rng.integers(0, 2, 200), quality - 1, rng.integers(1, 6, 200)]
    return as_ratings(np.stack(columns, axis=1))


def test_raters_show_their_bias_and_their_inconsistency():
    first, harsh, random = diagnose_raters(panel())
    assert harsh.bias < 0 < first.bias
    assert random.pearson < 0.3 < first.pearson
    others = krippendorff(panel().values[:, :2], "interval", ONCE).estimate.value
    assert random.alpha_without == pytest.approx(others)
    assert random.alpha_without > max(first.alpha_without, harsh.alpha_without)


def test_the_ceiling_is_the_mean_of_raters_in_the_place_of_a_metric():
    people = panel()
    top = compute_ceiling(people, Resampling(100))
    each = diagnose_raters(people)
    assert top.tau_b.value == pytest.approx(np.mean([one.tau_b for one in each]))
    assert top.pearson.value == pytest.approx(np.mean([one.pearson for one in each]))
    assert top.tau_c.low < top.tau_c.value < top.tau_c.high
    with pytest.raises(InputError, match="no rater"):
        compute_ceiling(as_ratings([[1, NAN], [NAN, 2], [1, NAN], [NAN, 2]]), ONCE)


def test_sorted_ratings_are_noticed():
    assert is_ordered(as_ratings(np.sort(panel().values, axis=1)))
    assert not is_ordered(panel())


def test_agreement_takes_what_correlate_takes():
    values = panel().values
    by_id = {str(index): row.tolist() for index, row in enumerate(values)}
    assert rater_agreement(by_id, resampling=ONCE).alpha == rater_agreement(panel(), resampling=ONCE).alpha
    with pytest.raises(InputError, match=r"measurement='intervl', expected nominal .* did you mean 'interval'"):
        rater_agreement(by_id, "intervl")
