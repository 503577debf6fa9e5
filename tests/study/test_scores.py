"""Values of a metric computed elsewhere: how their rows find the rated captions."""

import csv
import json

import numpy as np
import pytest

import captious
from captious.errors import InputError
from captious.options import Resampling
from captious.study.judgments import open_ratings
from captious.study.recipes import Layout, Recipe
from captious.study.scores import read_scores

CAPTIONS = [
    ("i.jpg", "a", "a dog"),
    ("i.jpg", "b", "a  brown dog"),
    ("j.jpg", "a", "a cat"),
    ("j.jpg", "b", "a cat"),  # the same words by another system
    ("k.jpg", "a", "a cow"),
]


@pytest.fixture
def recipe(tmp_path):
    """A file of ratings whose columns have names of their own, and no ids."""
    path = tmp_path / "ratings.jsonl"
    rows = [
        {"img": image, "sys": system, "text": text, "s1": number % 5, "s2": 1}
        for number, (image, system, text) in enumerate(CAPTIONS)
    ]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return Recipe("r", (Layout(str(path), image="img", caption="text", rating=("s1", "s2")),))


@pytest.fixture
def ratings(recipe):
    layout = recipe.layouts[0]
    return open_ratings(layout.ratings, columns=layout, recipe=recipe)


def values_file(path, header, rows):
    with path.open("w", newline="") as file:
        csv.writer(file).writerows([header, *rows])
    return path


def test_values_join_by_image_and_caption_under_the_names_of_the_ratings(ratings, recipe, tmp_path):
    assert ratings.ids == ("i.jpg#0", "i.jpg#1", "j.jpg#0", "j.jpg#1", "k.jpg#0")
    rows = [("k.jpg", "a cow", 5), ("i.jpg", "a brown dog", 2), ("i.jpg", "a dog", 1), ("j.jpg", "a cat", 3)]
    for header in (("img", "text", "mine"), ("image", "caption", "mine")):
        (score,) = read_scores(values_file(tmp_path / "m.csv", header, rows), ratings, recipe)
        assert score.key == "mine" and score.values.tolist() == [1, 2, 3, 3, 5]


def test_values_join_by_the_ids_that_the_ratings_get(ratings, recipe, tmp_path):
    rows = [(key, number, "words") for number, key in enumerate(ratings.ids)]
    (score,) = read_scores(values_file(tmp_path / "m.csv", ("id", "mine", "remark"), rows), ratings, recipe)
    assert score.values.tolist() == [0, 1, 2, 3, 4]
    path = values_file(tmp_path / "m.csv", ("uid", "mine", "remark"), rows)
    (score,) = read_scores(path, ratings, recipe, id_column="uid")
    assert score.values.tolist() == [0, 1, 2, 3, 4]
    with pytest.raises(InputError, match="no column 'udi', found columns uid, mine, remark; did you mean 'uid'"):
        read_scores(path, ratings, recipe, id_column="udi")


def test_systems_tell_captions_of_one_image_apart(recipe, tmp_path):
    layout = Layout(recipe.layouts[0].ratings, image="img", caption="text", rating="s1", system="sys")
    ratings = open_ratings(layout.ratings, columns=layout)
    rows = [(image, system, number) for number, (image, system, _) in enumerate(CAPTIONS)]
    path = values_file(tmp_path / "m.csv", ("img", "sys", "mine"), rows)
    (score,) = read_scores(path, ratings, Recipe("r", (layout,)))
    assert score.values.tolist() == [0, 1, 2, 3, 4]


def test_an_image_alone_is_enough_where_it_has_one_caption(tmp_path):
    rows = [{"image": name, "caption": "a dog", "rating": number} for number, name in enumerate("abc")]
    path = values_file(tmp_path / "m.csv", ("image", "mine"), [("b", 1), ("c", 2), ("a", 0)])
    (score,) = read_scores(path, open_ratings(rows))
    assert score.values.tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("header", "rows", "message"),
    [
        (
            ("img", "mine"),
            [("i.jpg", 1)],
            r"image 'i.jpg' has 2 rated captions \(ids i.jpg#0, i.jpg#1\), expected the c",
        ),
        (
            ("remark", "mine"),
            [("x", 1)],
            r"row 2: no id: found columns remark, mine; a row needs the image and the capti",
        ),
        (
            ("id", "mine"),
            [("0", 1), ("1", 2)],
            r"5 of 5 rated items .* IMAGE#k, the rated captions of one image counted",
        ),
        (("img", "text"), [("i.jpg", "a dog")], "no column of numbers besides the ids"),
        (("id", "mine"), [("i.jpg#0", 1), ("i.jpg#0", 2)], "row 3: i.jpg#0 has a second value of mine"),
        (("id", "mine"), [("i.jpg#0", "1e400")], "row 2: mine is infinite or too large"),
    ],
)
def test_values_that_do_not_join(ratings, recipe, tmp_path, header, rows, message):
    with pytest.raises(InputError, match=message):
        read_scores(values_file(tmp_path / "m.csv", header, rows), ratings, recipe)


@pytest.mark.parametrize("place", [0, 2])
def test_a_text_among_numbers_is_a_missing_value(tmp_path, ratings, recipe, place):
    """The metric stays, whichever row has the text; a column of text is named and is no metric."""
    rows = [[f"{image}#{'ab'.index(system)}", n, "fine", n] for n, (image, system, _) in enumerate(CAPTIONS)]
    rows[place][1] = "n/a"
    path = values_file(tmp_path / "m.csv", ("id", "mine", "comment", "other"), rows)
    mine, other = read_scores(path, ratings, recipe)
    assert np.isnan(mine.values).sum() == 1 and not np.isnan(other.values).any()
    assert mine.remarks[0].startswith(f"{path}: row {place + 2}: mine is 'n/a', expected a number: 1 row has no")
    assert mine.signature.endswith("|text_cells:1") and not other.remarks
    assert mine.notes == (f"{path}: comment: text, so not a metric",)


def test_a_file_of_texts_alone_has_no_metric(tmp_path, ratings, recipe):
    rows = [[image, text, "fine"] for image, _, text in CAPTIONS]
    with pytest.raises(InputError, match=r"no column of numbers besides the ids; .*comment: text, so not a metric"):
        read_scores(values_file(tmp_path / "m.csv", ("img", "text", "comment"), rows), ratings, recipe)


PEOPLE = {str(number): number % 5 for number in range(30)}
VALUES = {"m": {key: value + int(key) % 3 for key, value in PEOPLE.items()}}


@pytest.mark.parametrize(
    ("ratings", "measurements", "options", "message"),
    [
        (5, VALUES, {}, "ratings are of type int, expected Ratings, a path, a table"),
        (PEOPLE, 5, {}, "measurements are of type int, expected a report"),
        (PEOPLE, [5], {}, "measurements are of type list, expected a report"),
        (PEOPLE, {}, {}, "no metric to study"),
        (PEOPLE, {"m": [1, 2]}, {}, "m: values are of type list, expected {id: value}"),
        (PEOPLE, {"m": {"0": "x"}}, {}, "m: item '0': value is 'x', expected a number"),
        (PEOPLE, {"m": {"0": float("inf")}}, {}, "m: item '0': value is infinite or too large"),
        ({"a": "good"}, VALUES, {}, "ratings: item 'a': rating is 'good', expected a number"),
        ({"a": 10**5000}, VALUES, {}, "ratings: item 'a': rating is infinite or too large"),
        (PEOPLE, VALUES, {"recipe": 3}, "recipe='3', expected a Recipe, or the name of one: flickr8k-expert"),
        (PEOPLE, VALUES, {"recipe": "thum"}, "thum: no such file or recipe, .* did you mean 'thumb'"),
        (PEOPLE, VALUES, {"resampling": 100}, r"resampling is of type int, expected Resampling\(samples=1000\)"),
        (PEOPLE, VALUES, {"test": "permute"}, "test='permute', expected permutation or bootstrap or williams"),
        (PEOPLE, VALUES, {"missing": "drop"}, "missing='drop', expected error or skip"),
        (PEOPLE, VALUES, {"permutations": 0}, "permutations=0, expected a whole number of at least 1"),
        (PEOPLE, VALUES, {"statistic": 3}, "statistic=3, expected a name such as 'tau_b'"),
        (PEOPLE, VALUES, {"statistic": "system_tau"}, "system_tau: .* needs captions of two systems .* system=..."),
        (PEOPLE, VALUES, {"statistic": "sample_tau"}, "sample_tau: .* several captions of one image.* group=..."),
    ],
)
def test_wrong_arguments_of_correlate_are_one_line(ratings, measurements, options, message):
    with pytest.raises(InputError, match=message) as error:
        captious.correlate(ratings, measurements, **options)
    assert "\n" not in str(error.value)


def test_correlate_takes_rows_in_memory_and_a_list_of_metrics():
    rows = [
        {"image": str(number), "caption": f"a {word}", "references": ["a dog"], "rating": rating}
        for number, (word, rating) in enumerate([("dog", 3), ("cat", 1), ("dog runs", 2), ("brown cow", 1)])
    ]
    one = captious.correlate(rows, ["rouge", "bleu(n=1)"], resampling=Resampling(0))
    pandas = pytest.importorskip("pandas")
    other = captious.correlate(pandas.DataFrame(rows), "rouge,bleu(n=1)", resampling=Resampling(0))
    assert one.estimates == other.estimates
    np.testing.assert_array_equal(one.design.human, [3, 1, 2, 1])


def test_an_id_may_be_made_of_several_columns(tmp_path):
    rows = [{"image": str(n // 2), "style": "ab"[n % 2], "caption": f"dog {n}", "rating": n} for n in range(4)]
    layout = Layout("list", id="image,style")
    ratings = open_ratings(rows, columns=layout)
    assert ratings.ids == ("0:a", "0:b", "1:a", "1:b")
    path = values_file(tmp_path / "m.csv", ("image", "style", "mine"), [(n // 2, "ab"[n % 2], n) for n in (3, 1, 0, 2)])
    (score,) = read_scores(path, ratings, Recipe("r", (layout,)))
    assert score.values.tolist() == [0, 1, 2, 3]
    with pytest.raises(InputError, match="no column 'stlye', found columns image, style"):
        open_ratings(rows, columns=Layout("list", id="image,stlye"))
    with pytest.raises(InputError, match="no column 'stlye', found columns image, style, mine"):
        read_scores(path, ratings, id_column="image,stlye")
