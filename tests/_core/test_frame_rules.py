"""Rules that choose frames of a clip."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious._core.frame_rules import FrameRule
from captious.errors import InputError

TWENTY = np.arange(20) / 10
UNEVEN = [0, 0.04, 0.08, 0.12, 1, 1.04, 1.08, 2.5, 2.54, 2.58, 2.62, 4.0]


@pytest.mark.parametrize(
    ("rule", "number", "indices"),
    [
        # int(i · 19 / 9) for i = 0 … 9
        ("uniform:10", 20, [0, 2, 4, 6, 8, 10, 12, 14, 16, 19]),
        ("uniform:8", 20, [0, 2, 5, 8, 10, 13, 16, 19]),
        ("uniform:10", 60, [0, 6, 13, 19, 26, 32, 39, 45, 52, 59]),
        ("uniform:10", 3, [0, 1, 2]),
        ("uniform:1", 20, [0]),
        # int((i + 0.5) · 20 / 8) for i = 0 … 7
        ("middle:8", 20, [1, 3, 6, 8, 11, 13, 16, 18]),
        ("middle:1", 20, [10]),
        ("all", 3, [0, 1, 2]),
    ],
)
def test_frames_by_their_number(rule, number, indices):
    assert FrameRule.parse(rule).choose(np.arange(number) / 10).tolist() == indices


def test_frames_on_screen_at_regular_times():
    # 0, 1/3, 2/3, 1, 4/3 and 5/3 s: frames of 0.1 s
    assert FrameRule.parse("fps:3").choose(TWENTY, end=2.0).tolist() == [0, 3, 6, 10, 13, 16]
    # 0, .5, 1, … 4 s: frame 3 (.12 s) is on screen until 1 s, frame 6 at 1.5 and 2 s, frame 10 at 3 and 3.5 s
    assert FrameRule.parse("fps:2").choose(UNEVEN, end=4.04).tolist() == [0, 3, 4, 6, 7, 10, 11]
    # From 0.5 s: frames at 0.5, 0.9 (0.8333 s shows frame 8) s, before the end at 1 s
    assert FrameRule.parse("fps:3").choose(TWENTY[5:10], start=0.5, end=1.0).tolist() == [0, 3]


def test_key_frames():
    keys = np.arange(20) % 7 == 0
    assert FrameRule.parse("key").choose(TWENTY, keys).tolist() == [0, 7, 14]


@given(st.sampled_from(["uniform", "middle"]), st.integers(1, 50), st.integers(1, 500))
def test_as_many_frames_as_there_are(sampling, wanted, number):
    chosen = FrameRule(sampling, wanted).choose(np.arange(number) / 25)
    assert len(chosen) == min(wanted, number) and (np.diff(chosen) > 0).all()
    assert chosen[0] >= 0 and chosen[-1] < number


@pytest.mark.parametrize("text", ["uniform:10", "middle:8", "fps:1", "fps:0.5", "key", "all"])
def test_a_rule_prints_as_it_is_written(text):
    assert str(FrameRule.parse(text)) == text and FrameRule.parse(str(FrameRule.parse(text))) == FrameRule.parse(text)


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ("uniform:0", "frames=uniform:0: expected a number of frames from 1"),
        ("uniform", "frames=uniform: expected a number of frames from 1"),
        ("uniform:1e3", "frames=uniform:1e3: expected a number of frames from 1"),
        ("unifrom:3", "did you mean 'uniform'"),
        ("fps:0", "frames=fps:0: expected a number of frames per second"),
        ("fps:nan", "frames=fps:nan: expected a number of frames per second"),
        ("key:2", "frames=key:2: key takes no number"),
    ],
)
def test_what_is_not_a_rule(text, line):
    with pytest.raises(InputError, match=line):
        FrameRule.parse(text)
