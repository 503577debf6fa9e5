from __future__ import annotations

import random
from collections import Counter

import pytest
from lab.toy import make
from lab.toy.captions import STYLES, all_facts, styled
from lab.toy.scenes import scene, scenes, stream


def test_styled_captions_state_only_truths() -> None:
    for one in scenes(100):
        for style in STYLES:
            assert set(styled(one, style, stream(0, one.id, style)).facts) <= all_facts(one)


def test_words_tell_the_styles_apart() -> None:
    sample = make(400)
    rows = [row for one in sample.scenes() for row in sample.styled(one)]
    words = {
        style: Counter(word for row in rows if row["style"] == style for word in set(row["caption"].split()))
        for style in STYLES
    }
    held_out = make(100, seed=1)
    tests = [row for one in held_out.scenes() for row in held_out.styled(one)]
    exclusive = {s: {w for w in words[s] if all(words[o][w] == 0 for o in STYLES if o != s)} for s in STYLES}
    hits = [bool(set(row["caption"].split()) & exclusive[row["style"]]) for row in tests if row["style"] != "plain"]
    assert sum(hits) / len(hits) > 0.9
    wrong = [s for row in tests for s in STYLES if s != row["style"] and set(row["caption"].split()) & exclusive[s]]
    assert len(wrong) / len(tests) < 0.05


def test_an_unknown_style_is_named_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown style 'baroque': expected one of plain, romantic"):
        styled(scene(0), "baroque", random.Random(0))
