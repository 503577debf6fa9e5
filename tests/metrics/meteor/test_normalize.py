"""The normalizer gives what the one inside meteor-1.5.jar gives."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from captious.metrics.meteor.engine import clean, normalize

PREFIXES = {"No": True, "Mr": False, "vs": False, "D": False}

# From edu.cmu.meteor.util.Normalizer.normalizeLine(line, 0, true).toLowerCase() of meteor-1.5.jar.
GOLDEN = [
    ("A man's dog, isn't it?", "a man 's dog , isn 't it ?"),
    ("The U.S. flag", "the us flag"),
    ("No. 5 and no. five", "no. 5 and no. five"),
    ("vs. the Mr. Smith", "vs. the mr. smith"),
    ("black-and-white t-shirt", "black and white t shirt"),
    ("a -- b \u2013 c", "a - b - c"),
    ("``quoted'' \u201ctext\u201d", '" quoted " " text "'),
    ("1,000 people, 3.5 miles", "1,000 people , 3.5 miles"),
    ("wait... what", "wait ... what"),
    ("end of it.", "end of it ."),
    ("rock 'n' roll in the 90's", "rock ' n ' roll in the 90 's"),
    ("caf\u00e9 \u21165 & co.", "caf\u00e9 \u2116 5 & co ."),
    ("a/b (c) [d]", "a / b ( c ) [ d ]"),
    ("i.e. this", "ie this"),
    ("o'clock 'tis", "o 'clock ' tis"),
    ("....", "...."),
    ("$5.00 + 10%", "$ 5.00 + 10 %"),
    ("a.b. c. D.", "ab c . d."),
    ("", ""),
]


@pytest.mark.parametrize(("line", "expected"), GOLDEN)
def test_tokens_equal_the_originals(line, expected):
    assert " ".join(normalize(line, PREFIXES)) == expected


@given(st.text(alphabet="abZ019 ", max_size=40))
def test_plain_words_are_only_lowered(text):
    assert normalize(text, PREFIXES) == text.lower().split()


@given(st.text(alphabet="ab'\u2019\u201c.,-1 \u00e9(", max_size=30))
def test_tokens_hold_no_spaces_and_no_capitals(text):
    for token in normalize(text, PREFIXES):
        assert token == token.lower()
        assert token
        assert not set(token) & set(" \t\n\u00a0")


@pytest.mark.parametrize("mark", ["\n", "\t", "\r\n", "\x00", "\x85", "\u2028", "|||"])
def test_marks_of_the_line_protocol_become_spaces(mark):
    cleaned, changed = clean(f"a{mark}dog")
    assert cleaned.split() == ["a", "dog"]
    assert changed


@pytest.mark.parametrize("text", ["", "a dog", "a || b", "caf\u00e9 \u2013 \U0001f415"])
def test_other_text_is_left_alone(text):
    assert clean(text) == (text, False)
