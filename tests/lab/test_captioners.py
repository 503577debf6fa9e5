from __future__ import annotations

from dataclasses import replace
from itertools import pairwise
from statistics import mean

import pytest
from lab.toy import make
from lab.toy.captions import all_facts, facts_in
from lab.toy.sample import CAPTIONERS, EXPERT, STOCK, misremembered
from lab.toy.scenes import scenes, stream

SAMPLE = make(300)


def test_expert_and_solid_state_only_truths() -> None:
    for scene in SAMPLE.scenes():
        for name in ("expert", "solid"):
            said = SAMPLE.prediction_of(scene, name)
            assert facts_in(said.text) == frozenset(said.facts)
            assert set(said.facts) <= all_facts(scene)


def test_quality_falls_strictly_from_expert_to_parrot() -> None:
    qualities = [mean(SAMPLE.prediction_of(s, name).verdict.quality for s in SAMPLE.scenes()) for name in CAPTIONERS]
    assert list(CAPTIONERS) == ["expert", "solid", "sloppy", "parrot"]
    assert all(better - worse > 0.05 for better, worse in pairwise(qualities)), qualities


def test_share_of_true_details_is_one_until_errors_set_in_and_then_falls() -> None:
    shares = {
        name: mean(SAMPLE.prediction_of(s, name).verdict.share_right for s in SAMPLE.scenes()) for name in CAPTIONERS
    }
    assert shares["expert"] == shares["solid"] == 1.0
    assert 1.0 > shares["sloppy"] > shares["parrot"] > 0.0


def test_ratings_follow_quality() -> None:
    rows = [row for scene in SAMPLE.scenes() for row in SAMPLE.rated(scene)]
    assert all(1 <= rating <= 5 for row in rows for rating in row["ratings"])
    assert all(len(row["ratings"]) == 5 for row in rows)
    means = [mean(mean(row["ratings"]) for row in rows if row["captioner"] == name) for name in CAPTIONERS]
    assert means == sorted(means, reverse=True)


def test_raters_keep_their_leniency() -> None:
    rows = [row for scene in SAMPLE.scenes() for row in SAMPLE.rated(scene)]
    halves = rows[: len(rows) // 2], rows[len(rows) // 2 :]
    first, second = ([mean(row["ratings"][rater] for row in half) for rater in range(5)] for half in halves)
    order = sorted(range(5), key=first.__getitem__)
    assert second[order[-1]] > second[order[0]]


@pytest.mark.parametrize("aspect", ["object", "color", "relation", "setting"])
def test_an_error_rate_of_one_changes_that_aspect_in_every_scene(aspect: str) -> None:
    certain = replace(EXPERT, **{f"wrong_{aspect}": 1.0})
    for scene in scenes(100):
        remembered = misremembered(scene, certain, stream(0, scene.id, "test"))
        true, believed = (
            {fact for fact in all_facts(one) if fact.aspect == aspect and fact.value != "next to"}
            for one in (scene, remembered)
        )
        assert not true & believed


def test_stock_captions_state_what_they_say() -> None:
    for caption in STOCK:
        assert facts_in(caption.text) == frozenset(caption.facts)


def test_the_parrot_mostly_repeats_itself() -> None:
    said = list(SAMPLE.predictions("parrot").values())
    stock = {caption.text for caption in STOCK}
    share = sum(text in stock for text in said) / len(said)
    assert 0.78 < share < 0.92  # 0.85 planted; 300 draws have a standard deviation of 0.02


def test_an_unknown_captioner_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match=r"unknown captioner 'poet': expected one of expert, solid, sloppy, parrot"):
        SAMPLE.predictions("poet")
