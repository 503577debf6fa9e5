"""What the files of rated captions may hold, and the one line that everything else gets."""

import json

import pytest

from captious.errors import InputError
from captious.study.judgments import open_ratings, open_recipe
from captious.study.recipes import Layout, Recipe, from_toml

NAN, INF = float("nan"), float("inf")
SKIP = "; pass missing='skip' to leave out such rows"


def rated(tmp_path, **fields):
    """A file of four rows, the third with other fields."""
    rows = [{"image": f"{number}.jpg", "caption": "a dog", "references": ["dogs"], "rating": 3} for number in range(4)]
    rows[2] |= fields
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("references", "found"),
    [
        (5, "a number (5)"),
        (True, "a boolean (True)"),
        (NAN, "a number (nan)"),
        ({"a": 1}, "an object ({'a': 1})"),
        (["a dog", None], "null (None)"),
        (["a dog", NAN], "a number (nan)"),
        (["a dog", 3], "a number (3)"),
        ([["a dog"]], "a list (['a dog'])"),
    ],
)
def test_references_that_are_no_texts(tmp_path, references, found):
    with pytest.raises(InputError) as error:
        open_ratings(rated(tmp_path, references=references))
    assert str(error.value).endswith(f"row 3: reference is {found}, expected a string{SKIP}")


@pytest.mark.parametrize("references", [None, [], ""])
def test_a_row_may_have_no_references(tmp_path, references):
    ratings = open_ratings(rated(tmp_path, references=references))
    assert [len(item.references) for item in ratings.captions] == [1, 1, 0, 1]


@pytest.mark.parametrize("rating", [INF, -INF, [INF, 1], "1e400", "inf", 10**400, {"ann": INF}])
def test_ratings_too_large_for_any_statistic(tmp_path, rating):
    with pytest.raises(
        InputError, match=r"row 3: rating is infinite or too large, expected a number of at most 1e\+100"
    ):
        open_ratings(rated(tmp_path, rating=rating))


@pytest.mark.parametrize("rating", [True, [True, 1], "good", [[1]], {"ann": "good"}, "1_000", "٣", "３"])
def test_ratings_that_are_no_numbers(tmp_path, rating):
    with pytest.raises(InputError, match=rf"row 3: rating is .*, expected a number{SKIP}$"):
        open_ratings(rated(tmp_path, rating=rating))


@pytest.mark.parametrize(
    "odd",
    [{"rating": "n/a"}, {"rating": [3, "x"]}, {"caption": None}, {"caption": 5}, {"references": [3]}, {"image": []}],
)
def test_one_odd_row_stops_nobody(tmp_path, odd):
    ratings = open_ratings(rated(tmp_path, **odd), missing="skip")
    assert ratings.groups == ("0.jpg", "1.jpg", "3.jpg") and ratings.dropped == {"the row cannot be read": 1}
    assert "1 row left out that cannot be read: " in ratings.warnings[0] and "r.jsonl: row 3: " in ratings.warnings[0]


def test_a_file_without_a_readable_row_is_refused_in_any_case(tmp_path):
    path = tmp_path / "r.jsonl"
    path.write_text('{"image": "a", "caption": "b", "rating": "x"}\n' * 3)
    with pytest.raises(InputError, match=r"row 1: rating is 'x', expected a number$"):
        open_ratings(path, missing="skip")


def test_ratings_outside_the_scale_are_left_out_one_by_one(tmp_path):
    path = rated(tmp_path, rating=[3, 9])
    recipe = Recipe("r", (Layout(str(path)),), scale=(1, 5))
    with pytest.raises(InputError, match=r"row 3: rating 9 is outside the scale 1 to 5; pass missing='skip'"):
        open_ratings(path, recipe=recipe)
    ratings = open_ratings(path, recipe=recipe, missing="skip")
    assert ratings.mean.tolist() == [3, 3, 3, 3] and ratings.dropped == {"a rating outside the scale 1 to 5": 1}


def write(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


ROW = {"id": "a", "image": "1.jpg", "caption": "a dog", "system": "s"}


def test_copies_of_rating_rows_count_once(tmp_path):
    lists = [{**ROW, "rating": [1, 2]}, {**ROW, "id": "b", "rating": [4, 4]}]
    ratings = open_ratings(write(tmp_path / "lists.jsonl", [*lists, lists[0], lists[1], lists[0]]))
    assert ratings.ids == ("a", "b") and ratings.values.tolist() == [[1, 2], [4, 4]]
    assert ratings.dropped == {"a copy of an earlier row": 3}
    named = [{**ROW, "rater": rater, "rating": 3} for rater in ("ann", "bob", "ann")]
    ratings = open_ratings(write(tmp_path / "named.jsonl", named))
    assert ratings.values.tolist() == [[3, 3]] and ratings.dropped == {"a copy of an earlier row": 1}


def test_rows_without_a_rater_are_several_people(tmp_path):
    ratings = open_ratings(write(tmp_path / "r.jsonl", [{**ROW, "rating": 3}] * 2))
    assert ratings.values.tolist() == [[3, 3]] and not ratings.dropped


def test_of_two_different_answers_of_a_rater_the_first_counts(tmp_path):
    path = write(tmp_path / "r.jsonl", [{**ROW, "rater": "ann", "rating": rating} for rating in (3, 4)])
    with pytest.raises(
        InputError, match=r"row 2: rater 'ann' rates the same caption a second time; pass missing='skip'"
    ):
        open_ratings(path)
    ratings = open_ratings(path, missing="skip")
    assert ratings.values.tolist() == [[3]] and list(ratings.dropped.values()) == [1]


@pytest.mark.parametrize("field", ["image", "caption", "references", "system", "id", "rater"])
def test_half_a_character_is_named(tmp_path, field):
    what = f"{field.removesuffix('s')}s?"
    with pytest.raises(
        InputError, match=rf"row 3: {what} contains half a character \('\\ud800'\), expected valid Unicode"
    ):
        open_ratings(rated(tmp_path, **{field: "a\ud800"}))


@pytest.mark.parametrize("name", [["a"], {"a": 1}, True, INF])
def test_names_that_are_no_names(tmp_path, name):
    for field in ("image", "system", "id"):
        with pytest.raises(InputError, match=rf"row 3: {field} is .*, expected a string or a number"):
            open_ratings(rated(tmp_path, **{field: name}))


@pytest.mark.parametrize("part", ["id", "image", "caption", "rating", "system", "rater"])
def test_a_column_that_is_named_must_exist(tmp_path, part):
    path = rated(tmp_path)
    with pytest.raises(InputError) as error:
        open_ratings(path, columns=Layout(str(path), **{part: "captoin"}))
    assert str(error.value) == (
        f"{path}: no column 'captoin', found columns image, caption, references, rating; did you mean 'caption'?"
    )


@pytest.mark.parametrize(
    ("part", "what"), [("system", "system"), ("rater", "rater"), ("image", "image"), ("id", "item")]
)
def test_a_column_that_is_named_must_have_a_value(tmp_path, part, what):
    path = rated(tmp_path, who="x")
    with pytest.raises(InputError, match=rf"row 1: no value in column 'who', expected the name of the {what}"):
        open_ratings(path, columns=Layout(str(path), **{part: "who"}))


def test_a_system_that_some_rows_lack_is_said(tmp_path):
    ratings = open_ratings(rated(tmp_path, system="a"))
    assert ratings.systems is None
    assert "row 1: no system, as 3 of 4 captions: systems are not compared" in ratings.warnings[0]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ([1], "contains a JSON list"),
        ({"7": 3}, "7: has no list human_judgement"),
        ({"7": {"human_judgement": [3]}}, "7: a judgement is a number (3)"),
        ({"7": {"human_judgement": [{"caption": 3}]}}, "7: a judgement is an object"),
        ({"7": {"human_judgement": [{"caption": "a", "rating": INF}]}}, "7: rating is infinite"),
        ({"7": {"human_judgement": [], "ground_truth": [3]}}, "7: reference is a number (3)"),
    ],
)
def test_the_json_of_clipscore_that_cannot_be_read(tmp_path, data, message):
    (tmp_path / "f.json").write_text(json.dumps(data))
    with pytest.raises(InputError) as error:
        open_recipe(Recipe("r", (Layout("f.json", format="clipscore"),)), tmp_path)
    assert message in str(error.value)


def test_text_files_that_are_not_utf8_name_the_byte(tmp_path):
    (tmp_path / "t.txt").write_bytes(b"a.jpg#0\tA caf\xe9 .\n")
    with pytest.raises(InputError, match="line 1: byte 0xe9"):
        open_recipe(Recipe("r", (Layout("t.txt", ("t.txt",), format="flickr8k"),)), tmp_path)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("scale = [1]", "scale = [1], expected the lowest and the highest rating"),
        ("scale = [inf, 5]", "expected the lowest and the highest rating"),
        ('scale = "ab"', "expected the lowest and the highest rating"),
        ('expected = "many"', "expected = 'many', expected a whole number"),
        ('notes = "a line"', "expected a list of lines"),
        ("humans = 4", "humans = 4, expected a text in quotation marks"),
    ],
)
def test_a_recipe_whose_fields_have_the_wrong_type(tmp_path, line, message):
    path = tmp_path / "bad.toml"
    path.write_text(f'{line}\n[[layouts]]\nratings = "x"\n')
    with pytest.raises(InputError) as error:
        from_toml(path)
    assert message in str(error.value)
    path.write_text('[[layouts]]\nratings = "x"\nrating = 3\n')
    with pytest.raises(InputError, match="rating = 3, expected a column or a list of columns"):
        from_toml(path)
