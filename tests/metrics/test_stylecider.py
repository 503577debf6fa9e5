from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.metrics.style.stylecider import StyleCider

CORPUS = [("happy", "a fine day"), ("gloomy", "a grey day")]
texts = st.lists(st.sampled_from(["fine", "grey", "day", "a", "rain", "dog"]), max_size=8).map(" ".join)


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    # Every ECDF is 1: CNG_happy is ½ for n-grams of "a fine day" alone, −½ for those of gloomy, 0 for a and day.
    target = tmp_path_factory.mktemp("style") / "two.style"
    save(fit(CORPUS, name="two"), target)
    return str(target)


def value(metric: StyleCider, text: str, *references: str) -> float:
    captions = CaptionSet.of({"1": text}, {"1": list(references)}, {"style": ["happy"]})
    return metric.measure(captions).values[0]


def test_by_hand(path: str) -> None:
    # n=1: both vectors are ½ on "fine": 1. n=2: (½) against (½, ½): 1/√2. n=3 and 4: one side has no n-gram.
    assert value(StyleCider(path), "fine day", "a fine day") == pytest.approx((1 + 1 / math.sqrt(2)) / 4, abs=1e-15)


def test_identical_captions(path: str, tmp_path_factory: pytest.TempPathFactory) -> None:
    target = tmp_path_factory.mktemp("long") / "m.style"
    save(fit([("happy", "what a fine day it is"), ("gloomy", "a grey day")]), target)
    assert value(StyleCider(str(target)), "what a fine day", "what a fine day") == pytest.approx(1.0, abs=1e-15)
    # Three words have no 4-gram: 3/4 as in CIDEr, or 1 over the orders there are.
    assert value(StyleCider(path), "a fine day", "a fine day") == pytest.approx(3 / 4)
    assert value(StyleCider(path, short="skip"), "a fine day", "a fine day") == pytest.approx(1.0)


def test_nothing_shared_is_zero(path: str) -> None:
    assert value(StyleCider(path), "fine", "a grey day") == 0.0
    assert value(StyleCider(path), "a day", "a day") == 0.0, "shared words that no style prefers carry no weight"
    assert math.isnan(value(StyleCider(path, short="skip"), "a day", "a day"))


def test_several_references(path: str) -> None:
    # Unigrams only: against "fine" 1, against "grey" 0. Joined, "fine grey" has (½, −½): 1/√2.
    assert value(StyleCider(path), "fine", "fine", "grey") == pytest.approx((1 + 0) / 2 / 4)
    assert value(StyleCider(path, references="max"), "fine", "fine", "grey") == pytest.approx(1 / 4)
    assert value(StyleCider(path, references="pooled"), "fine", "fine", "grey") == pytest.approx(1 / math.sqrt(2) / 4)


def test_joined_references_add_up(path: str) -> None:
    # "fine" twice and "grey" once: (2 · ½, −½), cosine with (½): 1/√1.25.
    score = value(StyleCider(path, references="pooled"), "fine", "fine", "fine", "grey")
    assert score == pytest.approx(1 / math.sqrt(1.25) / 4)


def test_negative_weights(path: str) -> None:
    # grey speaks against happy with −½; shared, its square counts, unless weights below 0 are dropped.
    assert value(StyleCider(path), "grey", "grey") == pytest.approx(1 / 4)
    assert value(StyleCider(path, negative="zero"), "grey", "grey") == 0.0


def test_counts_and_clipping(path: str) -> None:
    # Unigrams of "fine fine grey" are (2, −1)/2 with tf, of "fine grey" (1, −1)/2; the bigram "fine grey" is unseen.
    assert value(StyleCider(path), "fine fine grey", "fine grey") == pytest.approx(1 / 4)
    counted = (2 + 1) / math.sqrt(5 * 2) / 4
    assert value(StyleCider(path, tf=True), "fine fine grey", "fine grey") == pytest.approx(counted)
    clipped = (1 + 1) / math.sqrt(5 * 2) / 4
    assert value(StyleCider(path, tf=True, clip=True), "fine fine grey", "fine grey") == pytest.approx(clipped)


def test_length_penalty_and_scale(path: str) -> None:
    # 0 bigrams against 2: exp(−2²/72).
    plain = value(StyleCider(path), "fine", "fine dog dog")
    assert plain == pytest.approx(1 / 4)
    assert value(StyleCider(path, length_penalty=True), "fine", "fine dog dog") == pytest.approx(
        plain * math.exp(-4 / 72)
    )
    assert value(StyleCider(path, scale=10), "fine", "fine dog dog") == pytest.approx(10 * plain)


def test_several_candidates_and_items(path: str) -> None:
    captions = CaptionSet.of(
        {"1": ["fine", "grey"], "2": "day", "3": "fine"},
        {"1": ["fine", "rain"], "2": ["fine"], "3": ["a fine day", "fine", "dog"]},
        {"style": ["happy"] * 3},
    )
    values = StyleCider(path).measure(captions).values
    assert values.tolist() == pytest.approx([(1 / 2 + 0) / 2 / 4, 0.0, (1 + 1 + 0) / 3 / 4])


@given(texts, st.lists(texts, min_size=1, max_size=3), st.sampled_from(["happy", "gloomy"]))
def test_bounds(path: str, text: str, references: list[str], style: str) -> None:
    captions = CaptionSet.of({"1": text}, {"1": references}, {"style": [style]})
    for options in ("", ",tf=yes", ",tf=yes,clip=yes", ",negative=zero", ",references=pooled", ",length_penalty=yes"):
        score = parse(f"stylecider(model={path}{options})").measure(captions).values[0]
        assert -1e-12 <= score <= 1 + 1e-12


def test_bad_options(path: str) -> None:
    with pytest.raises(InputError, match="pooled references have no single length"):
        StyleCider(path, references="pooled", length_penalty=True)
    with pytest.raises(InputError, match="expected a scale above 0"):
        StyleCider(path, scale=0)
    with pytest.raises(InputError, match="no references"):
        evaluate(CaptionSet.of({"1": "fine"}, columns={"style": ["happy"]}), StyleCider(path))
