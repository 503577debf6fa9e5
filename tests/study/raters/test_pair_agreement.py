"""Pairs of captions with a preferred one: recognized without a recipe, and how far raters agree about them."""

import json

import numpy as np
import pytest

import captious
from captious.errors import InputError
from captious.options import Resampling
from captious.study import PairsAgreement, open_ratings, rater_agreement
from captious.study.judgments import open_judgments

ONCE = Resampling(samples=0)
# By image: what two raters prefer; None is a tie.
ANSWERS = {"i1": (0, 0), "i2": (1, 1), "i3": (0, 1), "i4": (None, None)}


def pairs(answers=ANSWERS, raters=("ann", "bob")):
    rows = []
    for image, chosen in answers.items():
        for rater, preferred in zip(raters, chosen, strict=True):
            captions = [f"a dog on grass {image}", f"a cat in a box {image}"]
            row = {"id": f"{image}/{rater}", "image": image, "captions": captions, "references": captions[:1]}
            rows.append({**row, "preferred": preferred, "rater": rater, "category": "sat-oscar"})
    return rows


def lines(path, rows):
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def without(rows, *columns):
    return [{key: value for key, value in row.items() if key not in columns} for row in rows]


@pytest.mark.parametrize("absent", [(), ("rater",), ("category",), ("rater", "category", "id")])
def test_a_file_of_pairs_needs_no_recipe(run, tmp_path, absent):
    path = lines(tmp_path / "pairs.jsonl", without(pairs(), *absent))
    code, out, error = run("study", "run", path, "--metrics", "rouge", "--samples", 0)
    assert code == 0, error
    assert "6 pairs of 3 images" in out and "left out: 2 (people see no difference)" in out
    assert "pairs: a tie of the metric counts ½" in out
    summary = json.loads(run("study", "run", path, "--metrics", "rouge", "--samples", 0, "--json")[1])
    # The first caption is the reference, so the metric prefers it always; people do in 3 of 6 answers.
    assert summary["metrics"][0]["statistics"]["mean"]["value"] == 0.5
    assert summary["dropped"] == {"people see no difference": 2}


def test_pairs_are_recognized_in_memory_too():
    study = captious.correlate(pairs(), "rouge", resampling=ONCE, permutations=9)
    assert study.estimates["rouge"]["mean"].value == 0.5
    with pytest.raises(InputError, match="contains pairs with a preferred caption, expected ratings"):
        open_ratings(pairs())


def test_a_filter_keeps_the_pairs_of_which_both_captions_pass(run, tmp_path):
    rows = pairs()
    for row in rows:
        if row["image"] == "i2":
            row["captions"][1] += " with many further words"
    path = lines(tmp_path / "pairs.jsonl", rows)
    options = ("--metrics", "rouge", "--samples", 0, "--json", "--where", "words < 8 and category == 'sat-oscar'")
    code, out, error = run("study", "run", path, *options)
    assert code == 0, error
    summary = json.loads(out)
    # i2 has a caption of 9 words; of the answers for i1 and i3, people prefer the first caption in 3 of 4.
    assert (summary["rows"], summary["metrics"][0]["statistics"]["mean"]["value"]) == (4, 0.75)
    assert summary["dropped"] == {"people see no difference": 2, "not words < 8 and category == 'sat-oscar'": 2}


def test_a_rating_beside_a_preference_is_a_rating():
    rows = [{"id": str(n), "caption": "a dog", "rating": n, "preferred": True} for n in range(3)]
    assert open_judgments(rows).values.ravel().tolist() == [0, 1, 2]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"preferred": 2}, r"row 1: preferred is a number \(2\), expected 0 or 1, or null for a tie"),
        ({"captions": ["a"]}, r"row 1: caption is a list .*, expected two strings"),
        ({"captions": "a"}, "row 1: caption is 'a', expected two strings"),
    ],
)
def test_a_wrong_pair_is_one_line(tmp_path, change, message):
    path = lines(tmp_path / "pairs.jsonl", [{**pairs()[0], **change}, *pairs()[1:]])
    with pytest.raises(InputError, match=message):
        open_judgments(path)


def test_a_misspelled_column_of_the_preferred_one_is_named(tmp_path):
    rows = [{**row, "prefered": row["preferred"]} for row in pairs()]
    message = r"expected a string, or a column 'preferred' beside two captions; did you mean 'prefered'\?"
    with pytest.raises(InputError, match=message):
        open_judgments(lines(tmp_path / "pairs.jsonl", without(rows, "preferred")))


def test_a_recipe_of_pairs_needs_the_column_of_the_preferred_one(run, tmp_path):
    lines(tmp_path / "pairs.jsonl", without(pairs(), "preferred"))
    (tmp_path / "pairs.toml").write_text('kind = "pairs"\n[[layouts]]\nratings = "pairs.jsonl"\n')
    code, _, error = run("study", "run", tmp_path / "pairs.toml", "--metrics", "rouge")
    assert code == 2 and "no column 'preferred'" in error


def test_alpha_of_preferences():
    result = rater_agreement(pairs(), resampling=ONCE)
    assert isinstance(result, PairsAgreement) and result.alpha.measurement == "nominal"
    # Coincidences: 00 2, 11 2, tie-tie 2, 01 and 10 1 each; n = 8, margins 3, 3, 2.
    # D_o = 2/8; D_e = (64 − 9 − 9 − 4) / (8 · 7) = 42/56; alpha = 1 − (1/4) / (3/4).
    assert result.alpha.estimate.value == pytest.approx(2 / 3)
    assert (result.alpha.units, result.alpha.ratings, result.alpha.raters) == (4, 8, 2)
    # In the place of a metric each is right on i1 and i2 and wrong on i3; the other's tie is no row.
    assert result.ceiling.value == pytest.approx(2 / 3)
    ann = result.raters[0]
    assert (ann.name, ann.pairs, ann.ties, ann.shared, ann.same) == ("ann", 4, 1, 4, 0.75)
    assert ann.accuracy == pytest.approx(2 / 3) and np.isnan(ann.alpha_without)


def test_a_tie_of_a_rater_is_half_right_and_an_odd_one_shows():
    answers = {"i1": (0, 0, None), "i2": (1, 1, 0), "i3": (0, 0, 1)}
    ann, bob, odd = rater_agreement(pairs(answers, ("ann", "bob", "odd")), resampling=ONCE).raters
    assert odd.accuracy == pytest.approx((2 * 0.5 + 0 + 0) / 6)
    assert odd.alpha_without == 1 and max(ann.alpha_without, bob.alpha_without) < 0
    # ann against bob 3 of 3, against odd's two preferences 0 of 2.
    assert ann.accuracy == pytest.approx(3 / 5) and ann.same == pytest.approx(3 / 6)


def test_of_many_raters_the_terminal_shows_some():
    raters = tuple(f"r{n}" for n in range(60))
    answers = {f"i{n}": tuple((n + rater) % 2 for rater in range(60)) for n in range(3)}
    document = rater_agreement(pairs(answers, raters), resampling=ONCE).document()
    assert len(document.table("raters").rows) == 50 and "10 more raters" in document.table("raters").note
    assert len(document.table("all_raters").rows) == 60 and document.table("all_raters").detail


def test_the_side_of_a_caption_does_not_matter():
    def swapped(row):
        preferred = None if row["preferred"] is None else 1 - row["preferred"]
        return {**row, "captions": row["captions"][::-1], "preferred": preferred}

    rows = [swapped(row) if row["rater"] == "bob" else row for row in pairs()]
    assert rater_agreement(rows, resampling=ONCE).alpha == rater_agreement(pairs(), resampling=ONCE).alpha


def test_agreement_on_pairs_from_the_command_line(run, tmp_path):
    path = lines(tmp_path / "pairs.jsonl", pairs())
    layout = '[[layouts]]\nratings = "pairs.jsonl"\ncaption = "captions"\n'
    (tmp_path / "pairs.toml").write_text(f'kind = "pairs"\n{layout}')
    code, out, _ = run("study", "agreement", path, "--samples", 20)
    assert code == 0 and "Krippendorff's alpha (nominal)" in out and "66.7" in out
    by_recipe = json.loads(run("study", "agreement", tmp_path / "pairs.toml", "--samples", 0, "--json")[1])
    assert by_recipe["alpha"]["estimate"]["value"] == pytest.approx(2 / 3)
    ordinal = json.loads(run("study", "agreement", path, "--measurement", "ordinal", "--samples", 0, "--json")[1])
    assert ordinal["alpha"]["measurement"] == "ordinal"


@pytest.mark.parametrize("rater", ["ann", None])
def test_pairs_of_one_answer_have_no_agreement(run, tmp_path, rater):
    rows = [{**row, "rater": rater} for row in pairs() if row["rater"] == "ann"]
    code, out, error = run("study", "agreement", lines(tmp_path / "pairs.jsonl", rows))
    assert (code, out) == (2, "") and "no pair was judged by two raters" in error and error.count("\n") == 1


def test_a_rater_judges_a_pair_once(tmp_path):
    path = lines(tmp_path / "pairs.jsonl", [pairs()[0], {**pairs()[0], "id": "again"}])
    with pytest.raises(InputError, match="row 2: rater 'ann' judges the same pair a second time"):
        open_judgments(path)


def test_of_two_different_answers_to_a_pair_the_first_counts(tmp_path):
    path = lines(tmp_path / "pairs.jsonl", [pairs()[0], {**pairs()[0], "id": "again", "preferred": 1}])
    judged = open_judgments(path, missing="skip")
    assert judged.preferred.tolist() == [pairs()[0]["preferred"]] and sum(judged.dropped.values()) == 1


def test_copies_of_pairs_count_once(tmp_path):
    judged = open_judgments(lines(tmp_path / "pairs.jsonl", [*pairs(), *pairs()]))
    once = open_judgments(lines(tmp_path / "once.jsonl", pairs()))
    assert len(judged.preferred) == len(once.preferred) and judged.answers.values.shape == once.answers.values.shape
    assert judged.dropped["a copy of an earlier row"] == len(pairs())


@pytest.mark.parametrize("odd", [{"prefered": 0}, {"preferred": ""}])
def test_a_pair_without_an_answer_is_no_tie(run, tmp_path, odd):
    rows = pairs()
    rows[1] = {**{key: value for key, value in rows[1].items() if key != "preferred"}, **odd}
    path = lines(tmp_path / "pairs.jsonl", rows)
    with pytest.raises(InputError, match=r"row 2: .*preferred.*expected 0.*; pass missing='skip' to leave out"):
        open_judgments(path)
    judged = open_judgments(path, missing="skip")
    assert judged.dropped["the row cannot be read"] == 1 and len(judged.answers.values[0]) == 2
    code, out, error = run("study", "agreement", path, "--missing", "skip", "--samples", 0)
    assert code == 0 and "left out: 1 (the row cannot be read)" in out and "|left_out:1|" in out
    assert "row 2: " in error and run("study", "agreement", path)[2].endswith("--missing skip to leave out such rows\n")


def test_a_recipe_lies_with_its_data(run, tmp_path, monkeypatch):
    lines(tmp_path / "pairs.jsonl", pairs())
    (tmp_path / "mine.toml").write_text('kind = "pairs"\n[[layouts]]\nratings = "pairs.jsonl"\n')
    monkeypatch.chdir(tmp_path.parent)
    for arguments in ([tmp_path / "mine.toml"], ["mine.toml", "--data", tmp_path]):
        code, out, error = run("study", "run", *arguments, "--metrics", "rouge", "--samples", 0)
        assert code == 0 and "6 pairs of 3 images" in out, error
    code, _, error = run("study", "run", "mine.toml", "--data", tmp_path / "absent")
    assert code == 2 and "mine.toml: no such recipe" in error
