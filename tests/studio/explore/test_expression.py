"""The filter language: what each form selects, by hand, and one line with the position for each mistake."""

import numpy as np
import pytest

from captious.studio.explore.expression import ExpressionError, matching

# ROUGE-L of sat: 1 and 3 are their reference (1.0); 2 "a dog" and 4 "a bus" share one word with theirs.
# ROUGE-L of oscar: 2 is its reference (1.0).


def ids(table, text, systems=(0, 1)):
    matches = np.logical_or.reduce([matching(table, text, system) for system in systems])
    return "".join(table.ids[item] for item in matches.nonzero()[0])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("rouge == 1", "123"),
        ('rouge == 1 and system == "sat"', "13"),
        ("rouge@oscar == 1", "2"),
        ("rouge@sat > rouge@oscar", "13"),
        ("rouge@sat >= 1 or rouge@oscar >= 1", "123"),
        ("not rouge < 1 and not system = 'oscar'", "13"),
        ('caption has "DOG"', "12"),
        ('caption has "dog" and system == "oscar"', ""),
        ('caption == "a cat"', "1"),
        ('caption not has "a "', "3"),
        ('references has "running"', "1"),
        ('references matches "^(two|a train)"', "34"),
        ('style == "happy"', "13"),
        ('style in ("sad", "angry")', "2"),
        ('style not in ("sad")', "13"),
        ("style is missing", "4"),
        ("style is present", "123"),
        ("style is not missing", "123"),
        ("rating >= 4", "2"),
        ("rating is missing", "134"),
        ("human-rating <= 1.5", "2"),
        ("fluency == 5", "2"),
        ("gap > 1", "1"),
        ("raters == 2", "12"),
        ('comment has "no"', "1"),
        ("words == 2", "124"),
        ("bleu-1 > 0.99", "123"),
        ("bleu(n=1) > 0.99", "123"),
        ("`bleu(n=1)` > 0.99 and `bleu(n=1)`@sat > 0.99", "13"),
        ("BLEU-1@`oscar` > .99", "2"),
        ('id in ("1", "4")', "14"),
        ("id == '3' or (id == '4' and words > 2)", "34"),
        ("rouge < -1e-3", ""),
    ],
)
def test_what_an_expression_selects(table, text, expected):
    assert ids(table, text) == expected


def test_only_the_systems_that_are_looked_at_count(table):
    assert ids(table, "rouge == 1", systems=(1,)) == "2"


def test_a_value_that_is_missing_is_neither_below_nor_above(table):
    assert ids(table, "rating < 3 or rating >= 3") == "12"
    assert ids(table, "not rating < 3") == "12"


@pytest.mark.parametrize(
    ("text", "at", "message"),
    [
        ("rouge <", 7, "expected a column, a number or a text, found the end"),
        ("roug < 1", 0, "no column 'roug', .* did you mean 'rouge'"),
        ("rouge@sart < 1", 10, "no system 'sart', there are sat, oscar; did you mean 'sat'"),
        ('rouge < "a"', 8, "a number and a text do not compare"),
        ('caption < "a"', 10, "a caption has no order"),
        ("caption has 3", 12, "expected a text after 'has'"),
        ('caption has "dog', 12, "has no end"),
        ('rouge has "x"', 6, "rouge holds numbers"),
        ("(rouge < 1", 10, r"expected '\)' after the parenthesis, found the end"),
        ("rouge < 1 style", 10, "'style' is too much"),
        ("rouge ~ 1", 6, "'~' is not understood here"),
        ("rouge is", 8, "expected missing or present"),
        ("rouge", 5, "expected a comparison such as"),
        ('1 has "x"', 0, "begins with a column"),
        ('references matches "("', 19, "missing"),
        ('rouge in ("a")', 10, "expected a number"),
        ("system in (1)", 11, "expected a text"),
        ("", 0, "expected a column"),
        ("not " * 40 + "rouge < 1", 120, "nested more than 30 deep"),
        ("id == 1002", 6, 'do not compare, expected quotation marks: "1002"'),
        ("(" * 5000, 1000, "expected at most 1000"),
        ("__import__('os')", 10, "is too much|expected a comparison|no column"),
    ],
)
def test_a_mistake_is_one_line_with_its_position(table, text, at, message):
    with pytest.raises(ExpressionError, match=message) as caught:
        matching(table, text, 0)
    assert "\n" not in str(caught.value)
    if "__" not in text:
        assert caught.value.at == at and str(caught.value).startswith(f"filter, character {at + 1}: ")
