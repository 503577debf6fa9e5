from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.errors import InputError
from captious.metrics.style.fitting import count, fit
from captious.metrics.style.model import StyleModel

captions = st.lists(
    st.tuples(st.sampled_from("pqrs"), st.lists(st.sampled_from("abcdef"), max_size=7).map(" ".join)),
    min_size=2,
    max_size=25,
).filter(lambda rows: len({style for style, _ in rows}) > 1)


def test_scores_by_hand() -> None:
    # happy: a 2, day 1, fine 2; gloomy: a 1, day 1, grey 1. F_happy = [2, 1, 2], F_gloomy = [1, 1, 1].
    model = fit([("happy", "a fine day"), ("happy", "a fine"), ("gloomy", "a grey day")])
    # ECDF_happy(1) = 1/3, ECDF_happy(2) = 1, ECDF_gloomy(1) = 1, ECDF(0) = 0.
    assert model.score("fine", "happy") == pytest.approx(1 / 2 * (1 - 0) / 1, abs=1e-15)
    assert model.score("grey", "happy") == pytest.approx(1 / 2 * (0 - 1) / 1, abs=1e-15)
    assert model.score("day", "happy") == pytest.approx(1 / 2 * (1 / 3 - 1) / 2, abs=1e-15)
    assert model.score("a", "happy") == pytest.approx(1 / 2 * (1 - 1) / 2, abs=1e-15)
    assert model.score("a fine", "happy") == pytest.approx(1 / 2, abs=1e-15)


def test_three_styles_by_hand() -> None:
    # x stands in p and q with ECDF 1 each and not in r: CNG_p = 1/3 · [(1 − 1) + (1 − 0)] / 2 = 1/6,
    # CNG_r = 1/3 · [(0 − 1) + (0 − 1)] / 2 = −1/3, the paper's lower bound −1/|S|.
    model = fit([("p", "x"), ("q", "x"), ("r", "y")])
    assert model.score("x", "p") == pytest.approx(1 / 6, abs=1e-15)
    assert model.score("x", "r") == pytest.approx(-1 / 3, abs=1e-15)
    assert model.score("y", "r") == pytest.approx(2 / 3, abs=1e-15), "the upper bound (|S| − 1)/|S|"


def test_repeated_use_inside_a_caption_counts_once() -> None:
    model = fit([("p", "x x x"), ("q", "y")])
    assert model.orders[0].frequency.tolist() == [1, 1]


def test_unseen_ngram_scores_zero_and_has_no_number(model: StyleModel) -> None:
    assert model.score("zebra", "happy") == 0.0
    assert model.number("zebra") == -1
    assert model.number("fine sunny") == -1
    assert model.number("fine and") >= 0


@given(captions)
def test_bounds_of_the_paper(rows: list[tuple[str, str]]) -> None:
    model = fit(rows)
    styles = len(model.styles)
    for n, order in enumerate(model.orders, start=1):
        grams = np.arange(len(order.last))
        values = [model.score_ngrams(n, grams, np.full(len(grams), style)) for style in range(styles)]
        for value in values:
            assert (value <= (styles - 1) / styles + 1e-12).all()
            assert (value >= -1 / styles - 1e-12).all()
        assert np.abs(np.sum(values, axis=0)).max(initial=0.0) < 1e-12, "the contrast adds up to nothing"


@given(captions, st.integers(0, 25), st.integers(1, 6))
def test_merged_shards_equal_the_whole(rows: list[tuple[str, str]], cut: int, block: int) -> None:
    whole = fit(rows)
    for merged in (count(rows[:cut]).merge(count(rows[cut:])), count(rows, block=block), count(rows[::-1])):
        assert merged.mark == whole.mark
        assert merged.fingerprint == whole.fingerprint
        assert merged.styles == whole.styles and merged.vocabulary == whole.vocabulary
        for ours, theirs in zip(merged.orders, whole.orders, strict=True):
            assert all(np.array_equal(one, other) for one, other in zip(ours, theirs, strict=True))


def test_one_style_is_refused() -> None:
    with pytest.raises(InputError, match=r"corpus: contains one style \('p'\), expected at least two"):
        fit([("p", "x"), ("p", "y")])
    with pytest.raises(InputError, match="contains no style"):
        fit([])


def test_unknown_style_gets_the_nearest(model: StyleModel) -> None:
    with pytest.raises(InputError, match="moods has no style 'hapy', only 3: angry, gloomy, happy; did you mean 'happ"):
        model.score("day", "hapy")


def test_tokenizers_do_not_mix() -> None:
    with pytest.raises(InputError, match=r"tokenized by plain\.1 and ptb\.1"):
        count([("p", "x")]).merge(count([("q", "x")], tokenizer="ptb"))


def test_tokenizer_is_an_option() -> None:
    rows = [("p", "A dog doesn't"), ("q", "a cat")]
    assert "doesn" in fit(rows).vocabulary
    assert "n't" in fit(rows, tokenizer="ptb").vocabulary
    assert fit(rows).mark != fit(rows, tokenizer="ptb").mark
