"""Our numbers against coco-caption's own scorers on the same tokens: random captions, every odd shape included."""

import importlib.util
from pathlib import Path

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from captious.captions import CaptionSet
from captious.metrics.bleu import Bleu
from captious.metrics.cider import Cider
from captious.metrics.rouge import Rouge

pytest.importorskip("pycocoevalcap", reason="pycocoevalcap, the reference implementation, is not installed")
_spec = importlib.util.spec_from_file_location("reference", Path(__file__).with_name("reference.py"))
reference = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(reference)

CAPTION = st.lists(st.sampled_from(["a", "dog", "cat", "the", "runs", "red", "on", "two", "mat"]), max_size=14).map(
    " ".join
)
SETS = st.lists(st.tuples(CAPTION, st.lists(CAPTION, min_size=1, max_size=5)), min_size=1, max_size=8)


def caption_set(items):
    return CaptionSet.of(
        {str(i): candidate for i, (candidate, _) in enumerate(items)},
        {str(i): references for i, (_, references) in enumerate(items)},
    )


@given(SETS)
@settings(max_examples=150, deadline=None)
def test_bleu(items):
    corpus, values = reference.bleu(*zip(*items, strict=True))
    captions = caption_set(items)
    for n in (1, 2, 3, 4):
        measured = Bleu(n=n, tokenizer="whitespace").measure(captions)
        assert measured.corpus == pytest.approx(corpus[n - 1], abs=1e-12)
        assert np.allclose(measured.values, values[n - 1], rtol=0, atol=1e-12)


@given(SETS)
@settings(max_examples=150, deadline=None)
def test_rouge(items):
    expected = reference.rouge(*zip(*items, strict=True))
    measured = Rouge(tokenizer="whitespace").measure(caption_set(items))
    assert np.allclose(measured.values, expected, rtol=0, atol=1e-12)
    assert measured.corpus == pytest.approx(np.mean(expected), abs=1e-12)


@given(SETS)
@settings(max_examples=150, deadline=None)
def test_cider(items):
    assume(
        any(any(references) for _, references in items)
    )  # where all are empty the reference code stops with an error
    corpus, expected = reference.cider(*zip(*items, strict=True))
    measured = Cider(tokenizer="whitespace").measure(caption_set(items))
    assert np.allclose(measured.values, expected, rtol=0, atol=1e-9)
    assert measured.corpus == pytest.approx(corpus, abs=1e-9)
