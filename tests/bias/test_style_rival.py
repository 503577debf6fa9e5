"""Classifiers of styles, cross-fitted on the folds of a style check."""

from __future__ import annotations

import numpy as np
import pytest

from captious.bias import Linear, cross_fit

WORDS = {"calm": ("still", "quiet"), "loud": ("bang", "crash"), "sad": ("grey", "tear")}


def make_captions(number: int) -> tuple[list[str], list[str], list[np.ndarray]]:
    generator = np.random.default_rng(0)
    styles = [list(WORDS)[index % 3] for index in range(number)]
    texts = [f"a {generator.choice(WORDS[style])} {generator.choice(['dog', 'day', 'sea'])}" for style in styles]
    folds = [np.arange(number) // 3 % 2 == part for part in range(2)]
    return texts, styles, folds


def test_a_classifier_finds_styles_that_words_tell() -> None:
    texts, styles, folds = make_captions(120)
    first, wins = cross_fit(Linear(), texts, styles, folds, 3)
    assert first.tolist() == [1.0] and wins.tolist() == [1.0]  # one training: it does not depend on a seed


def test_captions_are_tested_outside_of_what_was_trained_on() -> None:
    # Each caption has a word of its own, which only a classifier that has seen the caption can use.
    styles = ["calm", "loud"] * 40
    texts = [f"word{index} word{index} dog" for index in range(80)]
    folds = [np.arange(80) % 4 < 2, np.arange(80) % 4 >= 2]
    first, _ = cross_fit(Linear(least=1), texts, styles, folds, 1)
    assert first.tolist() == [0.0]  # equally likely: a tie fails


def test_an_lstm_has_one_value_per_seed() -> None:
    pytest.importorskip("torch")
    from captious.bias import Lstm

    texts, styles, folds = make_captions(48)
    lstm = Lstm(embedding=8, hidden=8, layers=1, dropout=0.0, rate=0.02, epochs=2)
    first, wins = cross_fit(lstm, texts, styles, folds, 2)
    assert first.shape == wins.shape == (2,)
    assert wins[0] != wins[1] and np.all(first <= wins)
