"""Filters of the explorer: what each form selects over several systems, by hand, and that `keep` selects the same."""

import json
from itertools import chain

import pytest

from captious.runs.filters import FilterError
from captious.studio.explore._views import Explorer, parse_view

# ROUGE-L of sat: 1 and 3 are their reference (1.0); 2 "a dog" and 4 "a bus" share one word with theirs.
# ROUGE-L of oscar: 2 is its reference (1.0).


def ids(table, text, system=""):
    view = parse_view(table, {"where": text, "order": "given", "system": system})
    return "".join(chain.from_iterable(Explorer(table).iterate_ids(view)))


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
        ("bleu > 0.99", "123"),
        ("words in (2)", "124"),
        ("words in (1.5, 2.0)", "124"),
        ("raters in (1.5)", ""),
        ("0.9 < rouge <= 1 and words + 1 > 4", "123"),
        ("top(rouge@sat, 0.5)", "13"),
        ("top(rouge, 0.25)", "123"),
        ("rating@sat + rating@oscar == 5.5", "2"),
        ("characters < 6", "124"),
        ("candidates == 1", "1234"),
        ('image has "3.png"', "3"),
        ('reference has "running" or references has "tennis"', "13"),
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
    assert ids(table, "rouge == 1", "oscar") == "2"


def test_a_value_that_is_missing_is_neither_below_nor_above(table):
    assert ids(table, "rating < 3 or rating >= 3") == "12"
    assert ids(table, "not rating < 3") == "12"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("rouge <", "character 8: expected a column, a number or a text"),
        ("roug < 1", "no metric or column 'roug'.* 'rouge'"),
        ("rouge@sart < 1", "no system 'sart'.*'sat'"),
        ("(" * 5000, "5,000 characters"),
        ("(" * 2000, "nested more than"),
        ("rouge < 1; DROP TABLE items", "';' is not understood"),
        ("caption has '\ud800'", "lone surrogate"),
    ],
)
def test_a_mistake_is_one_line_with_its_position(table, text, message):
    with pytest.raises(FilterError if "characters" not in message else ValueError, match=message) as caught:
        ids(table, text)
    assert "\n" not in str(caught.value)


CURATED = [
    {"id": "1", "caption": "a dog runs", "references": ["a dog runs"], "width": 640, "language": "en"},
    {"id": "2", "caption": "a dog", "references": ["the dog sits"], "width": 200, "language": "de"},
    {"id": "3", "caption": ["A Dog!", "two dogs sit there"], "references": ["a dog"], "width": 900, "language": None},
    {"id": "4", "caption": "two cats sit", "references": ["two cats"], "width": 640, "words": 77},
    {"id": "5", "caption": "", "references": ["a boat"], "width": None, "language": "en"},
]


@pytest.mark.parametrize("kept_in", ["memory", "disk"])
def test_view_and_keep_select_the_same_ids_of_a_file_and_of_shards(tmp_path, monkeypatch, kept_in):
    from captious import Resampling, evaluate, read, score_shards
    from captious.options import Engine, Reading
    from captious.runs.keep_items import keep
    from captious.studio.explore.explorer_table import open_table

    if kept_in == "disk":
        monkeypatch.setattr("captious.studio.explore.explorer_table.HELD", -1)
    shards = {"all": CURATED, "a": CURATED[:2], "b": CURATED[2:]}
    for name, rows in shards.items():
        (tmp_path / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    reading = Reading(several=True)
    captions = read(tmp_path / "all.jsonl", reading=reading)
    evaluate(captions, "rouge,bleu(n=1),bleu(n=4)", resampling=Resampling(0)).save(tmp_path / "file")
    pattern = str(tmp_path / "{a,b}.jsonl")
    options = {"reading": reading, "resampling": Resampling(0), "engine": Engine("serial")}
    score_shards(pattern, "rouge,bleu(n=1),bleu(n=4)", out=tmp_path / "shards", **options)
    tables = [open_table([tmp_path / name]) for name in ("file", "shards")]
    # The means of words: 3, 2, (2 + 4) / 2, 3, 0.
    for text, expected in {
        "words == 3": "134",
        "words >= 2 and characters < 10": "2",
        "candidates > 1": "3",
        'caption has "DOG" and not caption matches "^two"': "12",
        'references has "boat" or width > 800': "35",
        "input.words > 4": "4",
        "language is missing": "34",
        'language in ("de", "fr") or not width < 900': "23",
        "top(width, 0.25)": "3",
        "bleu <= bleu-1 and rouge > 0.99": "1",
        "0.1 < rouge < 0.99": "234",
        "width / 0 > 1": "",
    }.items():
        for table in tables:
            assert ids(table, text) == expected, text
        for name in ("file", "shards"):
            keep(tmp_path / name, text, out=tmp_path / "ids.txt", overwrite=True)
            assert (tmp_path / "ids.txt").read_text().split() == list(expected), text
