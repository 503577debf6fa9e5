"""ImaginE by hand: see `Mixer` in tests/models/painters/painting.py for the pictures, `ColorEncoder` for the vectors.

Under seed 0 a text's picture has its colors, under seed 1 half of it is green. So "red" is (1, 0, 0) and (1, 1, 0)/√2.
"""

from math import sqrt

import numpy as np
import pytest
from tests.merging import measure_parts
from tests.models.painters.painting import Mixer

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.imagine import Imagine
from captious.metrics.registry import parse, parse_all
from captious.options import Resampling

pytestmark = pytest.mark.usefixtures("colors")


@pytest.fixture(autouse=True)
def mixer(monkeypatch):
    """Every painter is a `Mixer`."""
    painter = Mixer()
    monkeypatch.setattr("captious.metrics.imagine.load_painter", lambda name, options: painter)
    return painter


def measured(candidates, others=None, columns=None, **options):
    metric = Imagine(**{"kind": "image", "painter": "mixer", "weights": "colors", "seeds": 2, **options})
    return metric.measure(CaptionSet.of(candidates, others, columns))


PAIR = {"1": "red"}, {"1": ["red", "blue"]}
# Seed 0: red and blue share nothing, F(0) = −.1/.9. Seed 1: (1, 1, 0)·(0, 1, 1)/2 = 1/2, F(1/2) = .4/.9.


@pytest.mark.parametrize(
    ("options", "by_seed"),
    [
        ({}, (1.0, 1.0)),
        ({"references": "mean"}, ((1 - 1 / 9) / 2, (1 + 4 / 9) / 2)),
        ({"references": "mean", "clip": True}, (1 / 2, (1 + 4 / 9) / 2)),
        # Texts are plain colors: with red 1 and 1/√2, with blue 0 both times; F(s) = (s − .1)/.3.
        ({"kind": "text&image"}, (3.0, (1 / sqrt(2) - 0.1) / 0.3)),
        ({"kind": "text&image", "references": "mean"}, ((3 - 1 / 3) / 2, ((1 / sqrt(2) - 0.1) / 0.3 - 1 / 3) / 2)),
        ({"kind": "text&image", "clip": True}, (1.0, 1.0)),
        # Seeds 0 and 1 against 2 and 3, which are half green: 1/√2 and 1.
        ({"pairing": "different"}, ((1 / sqrt(2) - 0.1) / 0.9, 1.0)),
    ],
)
def test_the_formulas(options, by_seed):
    found = measured(*PAIR, **options)
    assert found.metric.seed_values(found)[0] == pytest.approx(by_seed, abs=1e-6)
    assert found.corpus == pytest.approx(np.mean(by_seed), abs=1e-6)
    low, high = found.metric.range
    assert low - 1e-6 <= min(by_seed) and max(by_seed) <= high + 1e-6


def test_both_kinds_stand_for_imagine_without_a_kind():
    assert [metric.label for metric in parse_all("imagine(painter=module:painter)")] == ["IE-image", "IE-text&image"]


def test_against_the_source_instead_of_references():
    found = measured({"1": "red", "2": "blue", "3": "blue"}, None, {"source": ["red", "green", " "]}, against="source")
    # Seed 1 of item 2: blue is (0, 1, 1)/√2, green (0, 1, 0).
    assert found.items["1"] == pytest.approx(1.0, abs=1e-6)
    assert found.items["2"] == pytest.approx(((-1 / 9) + (1 / sqrt(2) - 0.1) / 0.9) / 2, abs=1e-6)
    assert found.reasons == {"3": "no source text"}
    metric = Imagine(kind="image", painter="mixer", weights="colors", against="source")
    with pytest.raises(InputError, match="no source text; give a column 'source'"):
        evaluate(CaptionSet.of({"1": "red"}), [metric])


def test_what_has_no_picture_has_no_value_and_says_why():
    candidates = {"ok": "red", "black": "black red", "broken": "broken", "nothing": "hm", "empty": " ", "ref": "red"}
    references = {key: ["red"] for key in candidates} | {"ref": ["black", "hm"], "ok": ["black", "red"]}
    found = measured(candidates, references)
    assert found.items["ok"] == pytest.approx(1.0, abs=1e-6)  # the black reference is left out
    assert {key: reason.split(" (")[0] for key, reason in found.reasons.items()} == {
        "black": "the painter gave a black picture",
        "broken": "the painter gave a picture that is not finite",
        "nothing": "the text says nothing that this painter can draw",
        "empty": "empty caption",
        "ref": "reference: the painter gave a black picture",
    }
    # Three candidates and three references (black twice, hm once), two seeds each.
    assert "unpainted:12" in str(found.signature) and "unscored:5" in str(found.signature)


def test_the_signature_names_painter_encoder_seeds_and_what_was_cut(mixer):
    found = measured({"1": "red a b c d e f", "2": "red"}, {"1": ["red"], "2": ["red"]}, kind="text&image")
    text = str(found.signature)
    assert f"painter:mixer#{mixer.fingerprint}|settings:size=4|seeds:0-1|encoder:colors#" in text
    assert "truncated:1" in text  # seven words, of which the painter reads six
    short = measured({"1": "red a b c d e f"}, {"1": ["red"]}, kind="text&image", weights="short")
    assert "truncated:1" in str(short.signature)  # nine tokens of eight: cut by both, counted once


def test_the_spread_over_seeds_is_told():
    metric = Imagine(kind="image", painter="mixer", weights="colors", seeds=2, references="mean")
    remarks = metric.measure(CaptionSet.of(*PAIR)).warnings
    low, high = (1 - 1 / 9) / 2, (1 + 4 / 9) / 2
    mean, spread = (low + high) / 2, (high - low) / sqrt(2)
    assert list(remarks) == [
        f"IE-image (mixer#0123456789ab): over 2 seeds {mean:.4f} ± {spread:.4f} (standard deviation)"
    ]


def test_several_candidates_have_their_mean_and_shards_merge():
    candidates = {"1": ["red", "blue"], "2": ["green"], "3": ["red green"]}
    captions = CaptionSet.of(candidates, {"1": ["red"], "2": ["green blue"], "3": ["blue", "red"]})
    metric = Imagine(kind="image", painter="mixer", weights="colors", seeds=2)
    whole = evaluate(captions, [metric], resampling=Resampling(samples=0))[str(metric)]
    assert whole.items["1"] == pytest.approx((1 + (-1 / 9 + 4 / 9) / 2) / 2, abs=1e-6)
    parts = measure_parts([captions.take([0]), captions.take([1, 2])], metric)
    assert parts.corpus == pytest.approx(whole.corpus, abs=1e-12)
    assert metric.seed_values(parts) == pytest.approx(metric.seed_values(whole), abs=1e-12)


def test_pictures_are_judged_by_clip_unless_other_weights_are_named():
    assert Imagine(painter="mixer").encoder().name == "openai/clip-vit-base-patch32"
    assert Imagine(painter="mixer", weights="own").encoder().name == "own"


def test_its_written_form():
    text = str(Imagine(kind="text&image", painter="module:painter", seeds=3, steps=20))
    assert text == "imagine(kind=text&image,painter=module:painter,seeds=3,steps=20)"
    read = parse("imagine(kind=text&image,painter=module:painter,guidance=5,size=none)")
    assert read == Imagine(kind="text&image", painter="module:painter", guidance=5.0)
    with pytest.raises(InputError, match="expected from 1 to 10,000"):
        Imagine(seeds=0)
    with pytest.raises(InputError, match="expected one of image, text&image"):
        parse("imagine(kind=picture)")
