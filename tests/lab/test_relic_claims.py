"""The four claims of RELIC, tested on values by seed made for the purpose."""

import pytest
from lab.reproductions.beside import Row
from lab.reproductions.relic_claims import build_page, check_claims
from scipy import stats

GENDER = {"nic_plus": (1.0, 2.0, 3.0), "nic_equalizer": (6.0, 7.5, 7.0), "sat": (3.0, 5.0, 4.0)}
RACE = {"nic_plus": (1.0, 2.0, 3.5), "nic_equalizer": (2.0, 2.0, 3.0), "sat": (-3.0, -1.0, -2.0)}
PUBLISHED = {"nic_plus": 7.4, "nic_equalizer": 12.2, "sat": 6.4}


def make_rows(title, kind, lics, published=PUBLISHED):
    """Rows as a run writes them, with LIC_D of 40 in every seed."""
    for name, by_seed in lics.items():
        mean = sum(by_seed) / len(by_seed)
        what = f"Table {title}, {kind}"
        spread = {"sd": 1.0, "published_sd": 1.5}
        yield Row(f"{what}: LIC_M", name, 40 + mean, published=45.0, more=spread)
        yield Row(f"{what}: LIC_D", name, 40.0, published=39.3, more=spread)
        seeds = {"model": [40 + value for value in by_seed], "human": [[40.0, 40.0] for _ in by_seed]}
        more = {"seeds": seeds, "ratio": 1 / 9}
        yield Row(f"{what}: LIC", name, mean, mean - 1, mean + 1, published[name], more=more)


@pytest.fixture
def found():
    tuned = {name: values[:2] for name, values in GENDER.items()} | {"sat": (8.0, 9.0)}
    rows = [
        *make_rows("1 gender", "lstm", GENDER),
        *make_rows("2 race", "lstm", RACE),
        *make_rows("1 gender", "bert-ft", tuned, {"nic_plus": 2.2, "nic_equalizer": 7.0, "sat": 1.1}),
    ]
    return {(row.what, row.name): row for row in check_claims(rows)}


def test_claim_1_is_the_rank_correlation_of_two_classifiers(found):
    # LSTM: plus < sat < Equalizer; fine-tuned: plus < Equalizer < sat, one exchange: Spearman 1 - 6 * 2 / (3 * 8) = .5,
    # Kendall 1/3. Printed: sat < plus < Equalizer in both.
    row = found["Claim 1, 1 gender: Spearman × 100 of the captioners' LIC", "lstm, bert-ft"]
    assert row.ours == pytest.approx(50) and row.published == pytest.approx(100)
    assert row.note == "Kendall × 100 33, published 100"
    # Over the two seeds that both have: (3 + 5) / 2 - (8 + 9) / 2.
    assert found["Claim 1, 1 gender: lstm − bert-ft", "sat"].ours == pytest.approx(-4.5)


def test_claim_2_is_one_sided_and_adjusted(found):
    # Differences 3, 5, 4: mean 4, sample sd 1; the second of three p-values, times 2.
    t = 4 / (1 / 3 + 1 / 9) ** 0.5
    row = found["Claim 2, 1 gender, lstm: LIC above 0", "sat"]
    assert row.published == 6.4 and float(row.note.rpartition(" ")[2]) == pytest.approx(2 * stats.t.sf(t, 2), rel=0.02)
    assert float(found["Claim 2, 2 race, lstm: LIC above 0", "sat"].note.rpartition(" ")[2]) > 0.9


def test_claims_3_and_4_are_paired_differences_beside_both_printed_values(found):
    row = found["Claim 3, lstm: race − gender", "sat"]
    assert row.ours == pytest.approx(-6) and row.note.endswith("published 6.4 and 6.4")
    row = found["Claim 4: Equalizer − NIC+", "1 gender, lstm"]
    assert row.ours == pytest.approx((5 + 5.5 + 4) / 3) and row.note.endswith("published 12.2 and 7.4")
    assert found["Captioners, 2 race, lstm", "nic_plus − sat"].ours == pytest.approx((4 + 3 + 5.5) / 3)


def test_one_seed_has_no_tests():
    assert check_claims(list(make_rows("1 gender", "lstm", {"sat": (3.0,)}))) == []


def test_the_page_has_ours_beside_published():
    page = build_page(make_rows("2 race", "lstm", {"sat": RACE["sat"]}))
    assert "| SAT       | 38.0 ± 1.0 / 45.0 ± 1.5 | 40.0 ± 1.0 / 39.3 ± 1.5 | −2.0 (−3.0 – −1.0) / 6.4 |" in page
