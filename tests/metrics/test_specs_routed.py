"""The length-routed score by hand: see `ColorEncoder` in conftest.py for the vectors."""

import math

import pytest

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.metrics.registry import parse

pytestmark = pytest.mark.usefixtures("colors")


@pytest.fixture
def captions(photos):
    paths = {name: str(photos / f"{name}.png") for name in ("red", "green", "blue")}
    texts = {"1": "red", "2": "a green green field", "3": "blue x"}
    return CaptionSet.of(texts, columns={"image": [paths["red"], paths["green"], paths["blue"]]})


# Of "red" behind the prefix (3 tokens, short); of the others without it (6 and 4 tokens).
COSINES = {"1": 1 / math.sqrt(10), "2": 2 / math.sqrt(8), "3": 1 / math.sqrt(2)}


def test_short_captions_go_to_clip_and_long_ones_to_specs(captions):
    measured = parse("specs_routed(under=4)").measure(captions)
    for key, cosine in COSINES.items():
        assert measured.items[key] == pytest.approx((cosine + 1) / 2, abs=1e-6)
    assert "|by_short:1|by_long:2|" in str(measured.signature)


def test_each_side_on_its_own_scale(captions):
    measured = parse("specs_routed(under=4,scale=own)").measure(captions)
    assert measured.items["1"] == pytest.approx(2.5 * COSINES["1"], abs=1e-6)
    assert measured.items["2"] == pytest.approx((COSINES["2"] + 1) / 2, abs=1e-6)


def test_matched_scales_have_one_mean_and_spread(captions):
    measured = parse("specs_routed(under=4,scale=matched)").measure(captions)
    # Behind the prefix: (1,0,0,3), (0,2,0,5), (0,0,1,4); without: (1,0,0,0), (0,2,0,2), (0,0,1,1).
    short = [1 / math.sqrt(10), 2 / math.sqrt(29), 1 / math.sqrt(17)]
    long = [1, 2 / math.sqrt(8), 1 / math.sqrt(2)]

    def mean(values):
        return sum(values) / 3

    def spread(values):
        return math.sqrt(mean([(value - mean(values)) ** 2 for value in values]))

    expected = mean(short) + (long[1] - mean(long)) * spread(short) / spread(long)
    assert measured.items["1"] == pytest.approx(2.5 * short[0], abs=1e-6)
    assert measured.items["2"] == pytest.approx(2.5 * expected, abs=1e-5)
    assert "|matched:3|" in str(measured.signature)


def test_a_set_on_two_scales_is_remarked_on(captions):
    assert any(
        "1 captions are scored by CLIP and 2 by SPECS" in line
        for line in evaluate(captions, "specs_routed(under=4)").warnings
    )
    assert not any(
        "scored by CLIP" in line for line in evaluate(captions, "specs_routed(under=4,scale=matched)").warnings
    )
    assert not any("scored by CLIP" in line for line in evaluate(captions, "specs_routed").warnings)
