from __future__ import annotations

import math
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.merging import measure_parts

from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.metrics.style.fitting import fit
from captious.metrics.style.model_files import save
from captious.metrics.style.onlystyle import OnlyStyle

WORDS = ["fine", "grey", "day", "a", "rain", "sun", "dog"]


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> str:
    # One caption a style, so every ECDF is 1: CNG_happy is ½ for its own n-grams, −½ for gloomy's, 0 for shared ones.
    target = tmp_path_factory.mktemp("style") / "two.style"
    save(fit([("happy", "a fine day"), ("gloomy", "a grey day")], name="two"), target)
    return str(target)


def one(text: str, **columns: object) -> CaptionSet:
    return CaptionSet.of({"1": text}, columns={name: [value] for name, value in columns.items()})


def value(metric: OnlyStyle, text: str) -> float:
    return metric.measure(one(text, style="happy")).values[0]


def test_by_hand(path: str) -> None:
    # n=1: (0 + ½ + 0)/3; n=2: "a fine", "fine day" ½ each; n=3: ½; n=4: none, 0.
    assert value(OnlyStyle(path), "A fine day!") == pytest.approx((1 / 6 + 1 / 2 + 1 / 2 + 0) / 4, abs=1e-15)
    assert value(OnlyStyle(path), "a grey day") == pytest.approx(-(1 / 6 + 1 / 2 + 1 / 2 + 0) / 4, abs=1e-15)


def test_short_captions(path: str) -> None:
    assert value(OnlyStyle(path), "fine") == pytest.approx(1 / 2 / 4)
    assert value(OnlyStyle(path, short="skip"), "fine") == pytest.approx(1 / 2)
    assert value(OnlyStyle(path), "...") == 0.0
    assert math.isnan(value(OnlyStyle(path, short="skip"), "..."))


def test_unseen_ngrams(path: str) -> None:
    # fine ½, zebra unseen: mean over two, or over the one that is known; "fine zebra" is unseen as well.
    assert value(OnlyStyle(path), "fine zebra") == pytest.approx(1 / 4 / 4)
    assert value(OnlyStyle(path, unseen="skip"), "fine zebra") == pytest.approx(1 / 2 / 4)
    assert value(OnlyStyle(path), "zebra") == 0.0
    measured = OnlyStyle(path, unseen="skip").measure(
        CaptionSet.of({"1": "zebra", "2": "fine"}, columns={"style": ["happy", "happy"]})
    )
    assert measured.reasons == {"1": "the model knows no n-gram of the caption"}
    assert measured.corpus == pytest.approx(1 / 8)


def test_repetition(path: str) -> None:
    # Unigrams of "fine fine day": set (½ + 0)/2, multiset (½ + ½ + 0)/3. Bigrams: "fine fine" 0, "fine day" ½.
    assert value(OnlyStyle(path), "fine fine day") == pytest.approx((1 / 4 + 1 / 4) / 4)
    assert value(OnlyStyle(path, grams="multiset"), "fine fine day") == pytest.approx((1 / 3 + 1 / 4) / 4)


def test_style_of_items(path: str) -> None:
    captions = CaptionSet.of(
        {"1": "fine", "2": "fine", "3": "fine"},
        columns={"style": ["happy", "gloomy", None], "mood": ["gloomy"] * 3},
    )
    measured = OnlyStyle(path).measure(captions)
    assert measured.values[:2].tolist() == [0.125, -0.125]
    assert measured.reasons == {"3": "no style"}
    assert OnlyStyle(path, column="mood").measure(captions).corpus == -0.125
    assert OnlyStyle(path, style="happy").measure(captions).corpus == 0.125


def test_signature_names_model_and_corpus(path: str) -> None:
    signature = str(parse(f"onlystyle(model={path},short=skip)").measure(one("fine", style="happy")).signature)
    model = fit([("happy", "a fine day"), ("gloomy", "a grey day")])
    assert f"|tok:plain.1|model:{model.mark}|corpus:2:{model.fingerprint:016x}"[:-8] in signature
    assert "short=skip" in signature and "styles:2" in signature


def test_shards_merge(path: str) -> None:
    captions = CaptionSet.of(
        {"1": "fine day", "2": "a grey dog", "3": "day"}, columns={"style": ["happy", "gloomy", "happy"]}
    )
    whole = OnlyStyle(path).measure(captions)
    merged = measure_parts([captions.take([0]), captions.take([1, 2])], OnlyStyle(path))
    assert merged.corpus == pytest.approx(whole.corpus, abs=1e-15)
    assert str(merged.signature) == str(whole.signature)


def test_bad_input(path: str, tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"captions: id 1: the style model two has no style 'hapy'.*mean 'happy'"):
        OnlyStyle(path).measure(one("fine", style="hapy"))
    with pytest.raises(InputError, match=r"the style model two has no style 'glomy'.*did you mean 'gloomy'"):
        OnlyStyle(path, style="glomy").measure(one("fine"))
    with pytest.raises(InputError, match="no style; give a column 'style'"):
        evaluate(one("fine"), OnlyStyle(path))
    with pytest.raises(InputError, match="onlystyle needs a style model: onlystyle"):
        OnlyStyle().measure(one("fine", style="happy"))
    with pytest.raises(InputError, match="cannot be read"):
        OnlyStyle(str(tmp_path / "none")).measure(one("fine", style="happy"))


@given(st.lists(st.sampled_from(WORDS), max_size=8).map(" ".join), st.sampled_from(["happy", "gloomy"]))
def test_bounds(path: str, text: str, style: str) -> None:
    for reading in (OnlyStyle(path), OnlyStyle(path, unseen="skip"), OnlyStyle(path, grams="multiset")):
        score = reading.measure(one(text, style=style)).values[0]
        assert math.isnan(score) or -1 / 2 <= score <= 1 / 2
