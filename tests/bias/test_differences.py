"""Differences of LIC between captioners, classifiers and attributes."""

import math

import numpy as np
import pytest
from scipy import stats

from captious import InputError
from captious.bias.audit import audit
from captious.bias.classifiers.linear import Linear
from captious.bias.differences import adjust_increases, compare_lics, subtract
from captious.bias.lic import Lic
from captious.bias.masks import Mask
from captious.bias.protocol import Protocol, get_published_seeds
from captious.render.terminal import format_text


def lic_of(*by_seed):
    """A LIC with these values by seed, tested on a ninth of what it was trained on."""
    return Lic(40.0 + np.array(by_seed), np.full((len(by_seed), 2), 40.0), ratio=1 / 9)


def test_a_difference_is_paired_by_seed():
    # Differences 6 − 5 = 1, 9 − 6 = 3, 3 − 1 = 2: mean 2, sample sd 1. Unpaired, their spread would be near 4.
    difference = subtract(lic_of(6, 9, 3), lic_of(5, 6, 1))
    error = math.sqrt(1 / 3 + 1 / 9)
    assert difference.lic == pytest.approx(2) and difference.error == pytest.approx(error)
    assert difference.p_value == pytest.approx(2 * stats.t.sf(2 / error, 2))


def test_all_pairs_are_adjusted_together():
    lics = {"a": lic_of(6, 9, 3), "b": lic_of(5, 6, 1), "c": lic_of(0.1, 0, 0)}
    rows = compare_lics(lics)
    assert [(row.first, row.second) for row in rows] == [("a", "b"), ("a", "c"), ("b", "c")]
    smallest = min(rows, key=lambda row: row.lic.p_value)
    assert smallest.p_holm == pytest.approx(3 * smallest.lic.p_value)  # the smallest of three p-values, times 3


def test_two_attributes_are_compared_captioner_by_captioner():
    gender, race = {"a": lic_of(6, 9), "b": lic_of(5, 6)}, {"b": lic_of(5, 8), "a": lic_of(2, 4)}
    rows = compare_lics(race, gender)
    assert {row.first: row.lic.lic for row in rows} == {"b": pytest.approx(1), "a": pytest.approx(-4.5)}


def test_one_seed_has_no_test():
    (row,) = compare_lics({"a": lic_of(6), "b": lic_of(5)})
    assert row.lic.lic == 1 and math.isnan(row.p_holm)


def test_other_seeds_are_refused():
    with pytest.raises(InputError, match="LIC of 3 and of 2 seeds, expected the same seeds"):
        subtract(lic_of(1, 2, 3), lic_of(1, 2))


def test_an_increase_is_tested_on_one_side():
    lics = {"more": lic_of(2, 3, 4), "less": lic_of(-2, -3, -4)}
    # Mean 3, sample sd 1.
    p = stats.t.sf(3 / math.sqrt(1 / 3 + 1 / 9), 2)
    adjusted = adjust_increases(lics)
    assert adjusted["more"] == pytest.approx(2 * p) and adjusted["less"] == pytest.approx(1 - p)


def test_an_audit_compares_its_captioners(planted):
    protocol = Protocol(Mask.from_name("gender"), seeds=get_published_seeds(3))
    captioners = [planted(bias, 0.2, name=name) for name, bias in (("strong", 0.9), ("weak", 0.3), ("none", 0.2))]
    two = [Linear(), Linear(orders=1)]
    object.__setattr__(two[1], "name", "words")
    result = audit(captioners, protocol, two)
    (table,) = result._build_differences()
    rows = {tuple(row[:3]): row for row in table.rows}
    gaps = {row.model: row.lic for row in result.rows if row.classifier == "linear"}
    cell = rows["linear", "strong", "weak"][3]
    assert cell.value == pytest.approx(gaps["strong"].lic - gaps["weak"].lic) and cell.value > 10
    assert ("strong", "linear", "words") in rows and len(rows) == 2 * 3 + 3
    assert "Spearman's correlation of the captioners' LIC: linear and words 1.00" in table.note
    assert "Differences of LIC" in format_text(result.document())
    assert result.document().data["differences"][0]["p_holm"] < 0.05
    assert "are significant (Holm" not in format_text(result.document())


def test_of_many_differences_the_terminal_names_the_significant_ones(planted, monkeypatch):
    monkeypatch.setattr("captious.bias.audit.SHOWN_DIFFERENCES", 2)
    protocol = Protocol(Mask.from_name("gender"), seeds=get_published_seeds(3))
    captioners = [planted(bias, 0.2, name=name) for name, bias in (("strong", 0.9), ("weak", 0.2), ("none", 0.2))]
    result = audit(captioners, protocol, [Linear()])
    (table,) = result._build_differences()
    significant = [row for row in table.rows if row[-1] < 0.05]
    assert table.detail and 0 < len(significant) < 3
    text = " ".join(format_text(result.document()).split())
    assert f"{len(significant)} of 3 are significant (Holm-adjusted p < 0.05)" in text
    assert all(f"linear: {row[1]} less {row[2]} {row[3].value:+.1f} (" in text for row in significant)
    assert len(result.document().data["differences"]) == 3
