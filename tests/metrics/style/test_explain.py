from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.errors import InputError
from captious.metrics.style.explain import StyleTable, StyleWords, explain, find_top_words, weigh_ngram
from captious.metrics.style.fitting import fit
from captious.metrics.style.model import StyleModel
from captious.metrics.style.onlystyle import OnlyReading
from captious.render import html

MODEL = fit([("happy", "a fine day"), ("happy", "a fine fine dog"), ("gloomy", "a grey day"), ("angry", "a dog")])


@given(
    st.lists(st.sampled_from(["a", "fine", "grey", "day", "dog", "zebra"]), min_size=1, max_size=8).map(" ".join),
    st.sampled_from(MODEL.styles),
    st.builds(
        OnlyReading,
        st.sampled_from(["set", "multiset"]),
        st.sampled_from(["zero", "skip"]),
        st.sampled_from(["zero", "skip"]),
    ),
)
def test_contributions_add_up(text: str, style: str, reading: OnlyReading) -> None:
    closest = explain(MODEL, text, style, reading)
    why = closest.why
    if np.isnan(why.value):
        assert all(part.details["styles"] == 0 for part in why.parts)
        return
    assert sum(part.adds for part in why.parts) == pytest.approx(why.value, abs=1e-12)
    assert sum(why.breakdown.texts[0].weights) == pytest.approx(why.value, abs=1e-12)
    assert dict(closest.ranking)[style] == pytest.approx(why.value, abs=1e-12)


def test_unseen_words_are_named() -> None:
    (note,) = explain(MODEL, "a zebra day", "happy").why.breakdown.notes
    assert note == "no style has: zebra; they score 0 and still count"


def test_ranking_puts_the_closest_first(model: StyleModel) -> None:
    assert explain(model, "the grey dog weeps").style == "gloomy"


def test_top_words_of_a_style() -> None:
    # fine stands in two of two happy captions and nowhere else: CNG = 2/3 · ECDF(2) = 2/3.
    best = find_top_words(MODEL, "happy", 1, 1)[0]
    assert (best.ngram, best.captions, best.styles) == ("fine", 2, 1)
    assert best.score == pytest.approx(2 / 3)
    assert [word.n for word in StyleWords.of(MODEL, ["angry"], 5).words["angry"]] == [1, 1, 2]


def test_chosen_words_under_chosen_styles() -> None:
    table = StyleTable.of(MODEL, ["FINE", "fine day", "zebra"], ["happy", "angry"]).scores
    assert table["fine"]["happy"] == pytest.approx(2 / 3)
    assert table["fine day"]["angry"] == pytest.approx(-MODEL.scores[1].base[MODEL.number("fine day")])
    assert table["zebra"] == {"happy": None, "angry": None}
    with pytest.raises(InputError, match="'a fine fine fine dog' has 5 words, expected 1 to 4"):
        StyleTable.of(MODEL, ["a fine fine fine dog"])


def test_contrast_by_hand() -> None:
    # Captions with each word: happy (2) a 2, fine 2, day 1, dog 1; gloomy (1) a, grey, day; angry (1) a, dog.
    # tf-idf: fine has 2 of happy's 6 pairs of caption and word, and is in 1 of 3 styles; "a" is in all of them.
    assert weigh_ngram(MODEL, "fine", "tfidf").tolist() == pytest.approx([0, 0, 2 / 6 * math.log(3)])
    assert weigh_ngram(MODEL, "a", "tfidf").tolist() == [0, 0, 0]
    assert weigh_ngram(MODEL, "day", "tfidf").tolist() == pytest.approx([0, math.log(1.5) / 3, math.log(1.5) / 6])
    # Delta: dog is in 1 of 2 happy captions and in 1 of the 2 others; day in the gloomy one and in 1 of the 3 others.
    assert weigh_ngram(MODEL, "dog", "delta")[2] == pytest.approx(0)
    assert weigh_ngram(MODEL, "day", "delta")[1] == pytest.approx(math.log2((1.5 / 1) / (1.5 / 3)))
    assert weigh_ngram(MODEL, "fine dog", "delta")[2] == pytest.approx(math.log2((1.5 / 2) / (0.5 / 2)))


def test_the_table_has_every_weight_and_says_where_tfidf_is_zero() -> None:
    table = StyleTable.of(MODEL, ["a", "fine", "zebra"], contrast=["tfidf", "delta"])
    document = table.document()
    assert [str(column) for column in document.table("scores").columns[:2]] == ["n-gram", "style"]
    assert len(document.table("scores").rows) == 9
    assert table.contrast["delta"]["zebra"] == {"angry": None, "gloomy": None, "happy": None}
    assert document.answer.endswith("tf-idf is 0 under every style for “a”.")
    assert document.answer.startswith(
        "CNG of “a” is the same in all styles; CNG of “fine” is highest in happy (+0.667)"
    )


def test_pages_escape_what_they_show() -> None:
    model = fit([("<b>", "a fine day"), ("&", "a grey day")])
    for result in (
        explain(model, "fine <script>", "<b>"),
        StyleWords.of(model, ["<b>"], 3),
        StyleTable.of(model, ["fine"]),
    ):
        page = html.render_page(result.document())
        assert "<b>" not in page and "fine <script>" not in page and "&lt;b&gt;" in page
