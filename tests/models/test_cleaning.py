"""Cleaning that moves no plain caption, and mends the rest as OpenAI's code does."""

import sys

import pytest

from captious.errors import MissingExtra
from captious.models.tokenizers import cleaned


def test_cleaning_needs_no_extra_library_for_plain_texts(monkeypatch):
    monkeypatch.setitem(sys.modules, "ftfy", None)
    assert cleaned(" Black & White\n") == "black & white"
    with pytest.raises(MissingExtra, match=r"captious\[clip\]"):
        cleaned("“so”")


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        ("A dog’s “bone”", 'a dog\'s "bone"'),
        ("caf\u00c3\u00a9", "caf\u00e9"),
        ("salt &amp; pepper", "salt & pepper"),
        ("a\tb\n\n c", "a b c"),
        ("bell\x07", "bell"),
        ("AT&T & co", "at&t & co"),
    ],
)
def test_what_cleaning_mends(text, wanted):
    pytest.importorskip("ftfy")
    assert cleaned(text) == wanted
