"""The word tokenizer against the tokenizers library and by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from captious.errors import InputError
from captious.models.mini import END, PAD, START, UNKNOWN, WordTokenizer, split_words

TEXTS = [
    "A photo of two cats.",
    "there's a dog, left of it!",
    "",
    "a cat — über-cat's \t naïve 3.5 cats",
    "unheard of words",
]


def test_words_and_marks():
    assert split_words("It's a red-ish ball… (big)!") == [
        "it's",
        "a",
        "red",
        "-",
        "ish",
        "ball",
        "…",
        "(",
        "big",
        ")",
        "!",
    ]
    assert split_words("  \n") == []


def test_ids_are_pad_unknown_words_start_end():
    tokenizer = WordTokenizer.from_texts(["b a", "a"], limit=4)
    assert tokenizer.vocabulary == {PAD: 0, UNKNOWN: 1, "a": 2, "b": 3, START: 4, END: 5}
    assert (tokenizer.pad, tokenizer.start, tokenizer.end) == (0, 4, 5)
    assert WordTokenizer.from_texts(["b a", "a"], least=2).words == ("a",)


def test_cutting_keeps_the_end_and_counts_all():
    tokenizer = WordTokenizer(("a", "b"), limit=4)
    ids, lengths = tokenizer.tokenize(["a b a b", "a", ""])
    assert ids.tolist() == [[4, 2, 3, 5], [4, 2, 5, 0], [4, 5, 0, 0]]
    assert lengths.tolist() == [6, 3, 2]
    assert ids.dtype == lengths.dtype == np.int64


def test_no_texts():
    ids, lengths = WordTokenizer(("a",)).tokenize([])
    assert ids.shape == (0, 2) and lengths.shape == (0,)


def test_same_ids_as_the_tokenizers_library(tmp_path):
    tokenizers = pytest.importorskip("tokenizers")
    tokenizer = WordTokenizer.from_texts(TEXTS[:4], limit=9)
    tokenizer.save(tmp_path)
    theirs = tokenizers.Tokenizer.from_file(str(tmp_path / "tokenizer.json"))
    expected = np.array([row.ids for row in theirs.encode_batch(TEXTS)])
    assert np.array_equal(tokenizer.tokenize(TEXTS).ids, expected)


def test_comes_back_from_its_file(tmp_path):
    tokenizer = WordTokenizer.from_texts(TEXTS, limit=77)
    tokenizer.save(tmp_path)
    assert WordTokenizer.load(tmp_path) == tokenizer


def test_foreign_files_are_refused_in_one_line(tmp_path):
    with pytest.raises(InputError, match=r"tokenizer\.json: not a word tokenizer"):
        WordTokenizer.load(tmp_path)
    (tmp_path / "tokenizer.json").write_text('{"model": {"type": "BPE", "vocab": {"a": 0}}, "truncation": null}')
    with pytest.raises(InputError, match="not a word tokenizer"):
        WordTokenizer.load(tmp_path)
    stored = {"model": {"vocab": {"a": 0, "b": 1, "c": 2, "d": 3}}, "truncation": {"max_length": 5}}
    (tmp_path / "tokenizer.json").write_text(json.dumps(stored))
    with pytest.raises(InputError, match="found another order"):
        WordTokenizer.load(tmp_path)
