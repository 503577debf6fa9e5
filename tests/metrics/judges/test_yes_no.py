"""Yes or no: by their probabilities, or by whole words."""

import pytest

from captious.metrics.judges._yes_no import read_yes_no
from captious.models.chat.messages import Reply, ReplyToken


@pytest.mark.parametrize(
    ("text", "yes"),
    [
        ("Yes", True),
        ("yes, it does.", True),
        ("**Yes**", True),
        ("No, the eyes of the cat are closed.", False),
        ("NO", False),
        ("No dog, yes a cat", False),
        ("The answer is: no.", False),
        ("I would say yes", True),
        ("I see eyes and noses", None),
        ("It may be yes, it may be no", None),
        ("", None),
    ],
)
def test_words_are_read_as_whole_words(text, yes):
    if yes is None:
        with pytest.raises(ValueError, match="yes"):
            read_yes_no(Reply(text))
    else:
        assert read_yes_no(Reply(text)) == (yes, float(yes), True)


@pytest.mark.parametrize(
    ("tops", "probability"),
    [
        ([{"Yes": 0.3, " yes": 0.3, "No": 0.2}], 0.75),  # .6 against .2
        ([{"No": 0.4, "Yes": 0.3, "YES": 0.1}], 0.5),  # a tie
        ([{"\n": 0.9, "Yes": 0.1}, {"No": 0.9, "Yes": 0.1}], 0.1),  # the first token that is not blank
        ([{"The": 0.9, "No": 0.03, "Yes": 0.01}], 0.25),
    ],
)
def test_yes_is_weighed_against_no(tops, probability):
    tokens = tuple(
        ReplyToken(max(top, key=top.get).encode(), tuple((text.encode(), chance) for text, chance in top.items()))
        for top in tops
    )
    answer = read_yes_no(Reply("No.", tokens))
    assert answer.probability == pytest.approx(probability) and answer.yes == (probability > 0.5)


def test_words_count_where_no_alternative_is_yes_or_no():
    assert read_yes_no(Reply("Certainly yes.", (ReplyToken(b"Certainly", ((b"Certainly", 0.9), (b"Sure", 0.1))),))).yes
