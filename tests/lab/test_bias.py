from __future__ import annotations

import math
from collections import Counter

import pytest
from lab.toy import make
from lab.toy.sample import COMMON, OWN, label_of, portrait
from lab.toy.scenes import scene, scenes, stream

PEOPLE = [one for one in scenes(6000) if one.person is not None]


def information(pairs: list[tuple[str, str]]) -> float:
    """Mutual information in bits of two columns."""
    both, first, second = Counter(pairs), Counter(a for a, _ in pairs), Counter(b for _, b in pairs)
    n = len(pairs)
    return sum(k / n * math.log2(k * n / (first[a] * second[b])) for (a, b), k in both.items())


def measured(bias: float, purpose: str) -> float:
    pairs = [
        (one.person.group, portrait(one, bias, stream(0, one.id, purpose)).activity) for one in PEOPLE if one.person
    ]
    return information(pairs)


def test_activity_lists_are_disjoint() -> None:
    words = [*OWN["a"], *OWN["b"], *COMMON]
    assert len(words) == len(set(words))


def test_groups_are_about_equally_frequent() -> None:
    share = sum(one.person.group == "a" for one in PEOPLE if one.person) / len(PEOPLE)
    assert abs(share - 0.5) < 4 * 0.5 / math.sqrt(len(PEOPLE))


@pytest.mark.parametrize("bias", [0.0, 0.25, 0.5, 0.75, 1.0])
def test_information_is_the_planted_share_in_bits(bias: float) -> None:
    # I = b·H(label) = b bits; the share of own words over ~2,700 draws has a standard deviation below 0.01.
    assert measured(bias, "model") == pytest.approx(bias, abs=0.04)


def test_equal_amounts_leak_the_same_for_model_and_people() -> None:
    assert measured(0.4, "model") == pytest.approx(measured(0.4, "people"), abs=0.06)


def test_nothing_but_the_activity_and_the_person_words_depends_on_the_label() -> None:
    named = {"woman", "lady", "man", "guy"}
    pairs = []
    for one in PEOPLE:
        said = portrait(one, 1.0, stream(0, one.id, "rest"))
        rest = said.text.replace(said.activity, "")
        pairs += [(one.person.group, word) for word in rest.split() if one.person and word not in named]
    assert information(pairs) < 0.01


def test_rows_carry_label_caption_and_five_references() -> None:
    sample = make(50, bias=1.0, human_bias=0.0, labels=("young", "old"))
    rows = {one.id: sample.biased(one) for one in sample.scenes()}
    for one in sample.scenes():
        row = rows[one.id]
        if one.person is None:
            assert row is None
            continue
        assert row is not None
        assert row["label"] == {"a": "young", "b": "old"}[one.person.group]
        assert any(word in row["caption"] for word in OWN[one.person.group])
        assert len(row["references"]) == 5
        assert all(any(word in text for word in COMMON) for text in row["references"])


def test_a_scene_without_a_person_has_no_label() -> None:
    empty = next(one for one in scenes(50) if one.person is None)
    with pytest.raises(ValueError, match=f"scene {empty.id} has no person"):
        label_of(empty, ("female", "male"))
    with pytest.raises(ValueError, match="no person"):
        portrait(scene(empty.id - 1001), 0.5, stream(0, 1, "x"))
