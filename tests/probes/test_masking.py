"""The part-of-speech study on drawn scenes and by hand."""

import numpy as np
import pytest
from lab.toy.painter import Drawn

from captious.edits.word_masks import mask
from captious.errors import InputError
from captious.models.mini import load_mini
from captious.models.painters import Imagined
from captious.options import Resampling
from captious.probes.masking import Masking, compute_capital_share, cosines_across_seeds, measure_influences

TEXTS = ["a red ball in the snow", "a black dog on the beach", "two blue kites in a field", "a green car at night"]


def test_every_word_is_taken_out_once():
    masked = [(one.group, one.token, one.rest) for one in mask(["A red ball, a dog."])]
    assert masked == [
        ("DET", "A", "red ball, a dog."),
        ("ADJ", "red", "A ball, a dog."),
        ("NOUN", "ball", "A red, a dog."),
        ("DET", "a", "A red ball, dog."),
        ("NOUN", "dog", "A red ball, a."),
    ]


def test_pictures_of_different_seeds_are_compared():
    rows = np.array([[1, 0], [0, 1], [0.6, 0.8]], np.float32)
    imagined = Imagined(rows, np.array([[0, 1], [2, 2], [0, -1]]), np.zeros((3, 2), np.int32))
    # Text 0 with itself: (1, 0)·(0, 1) both ways. With text 1: (1, 0)·(.6, .8) and (0, 1)·(.6, .8), the mean .7.
    assert cosines_across_seeds(imagined, np.array([0, 0]), np.array([0, 1])) == pytest.approx([0.0, 0.7], abs=1e-6)
    assert np.isnan(cosines_across_seeds(imagined, np.array([0]), np.array([2]))).all()


def test_colors_and_nouns_matter_and_determiners_do_not():
    resampling = Resampling(samples=50)
    rows, base, unpainted = measure_influences(TEXTS, Drawn.of(96), load_mini("captious-mini"), 3, resampling)
    by_tag = {one.group: one.decrease.value for one in rows}
    assert by_tag["NOUN"] > 0.05 and by_tag["ADJ"] > 0.02
    assert by_tag["DET"] == pytest.approx(0.0, abs=1e-7)  # the same picture; its vector has single precision
    assert sum(one.frequency for one in rows) == pytest.approx(1.0)
    assert 0 < base.mean() < 1
    table, *charts = Masking("texts.jsonl", resampling, rows, base, unpainted, "painter:drawn").document().sections
    assert table.rows[0][0] == rows[0].group and len(charts) == 2


def test_what_it_needs():
    with pytest.raises(InputError, match="at least 2"):
        measure_influences(TEXTS, Drawn.of(32), load_mini("captious-mini"), 1)
    with pytest.raises(InputError, match="no word to take out"):
        measure_influences(["dog"], Drawn.of(32), load_mini("captious-mini"), 2)
    with pytest.raises(InputError, match="nothing to compare: the text says nothing that this painter can draw"):
        measure_influences(["the economy grew"], Drawn.of(32), load_mini("captious-mini"), 2)


def test_the_baseline_counts_the_texts_that_were_painted():
    once = Resampling(samples=0)
    rows, base, unpainted = measure_influences(
        [*TEXTS, "the economy grew"], Drawn.of(32), load_mini("captious-mini"), 2, once
    )
    document = Masking("texts.jsonl", once, rows, base, unpainted, "painter:drawn").document()
    assert document.notes[0].endswith(f"over {len(TEXTS)} texts")


def test_a_tagger_that_does_not_fit_the_text_is_reported():
    """Eight words do not begin a sentence; Microsoft, China, Bill and Gates have a capital."""
    news = ["Shares of Microsoft fell in China", "He met Bill Gates"]
    assert compute_capital_share(news) == pytest.approx(4 / 8)
    once = Resampling(samples=0)
    rows, base, unpainted = measure_influences(TEXTS, Drawn.of(32), load_mini("captious-mini"), 2, once)
    for capitals, warned in ((0.5, True), (0.01, False)):
        document = Masking("news", once, rows, base, unpainted, "painter:drawn", capitals).document()
        assert any("--tagger spacy" in note for note in document.notes) == warned


def test_ten_frequent_words_of_a_tag_are_listed():
    colors = ("red", "green", "blue", "black", "white", "yellow", "orange", "pink", "purple", "brown", "gray")
    texts = [f"a {color} ball" for color in colors]
    rows, _, _ = measure_influences(texts, Drawn.of(32), load_mini("captious-mini"), 2, Resampling(samples=0))
    assert len(next(row for row in rows if row.group == "ADJ").common) == 10
