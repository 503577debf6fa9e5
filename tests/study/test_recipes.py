"""Recipes: the data layouts they read, what they drop, and the published numbers they give."""

import json
from dataclasses import replace

import numpy as np
import pytest

import captious
from captious.errors import InputError
from captious.options import Resampling
from captious.study.ratings import Record, gather, open_ratings, open_recipe, references_of
from captious.study.recipes import RECIPES, Layout, Recipe, from_toml, recipe_named

FLICKR8K_EXPERT, PASCAL50S = RECIPES["flickr8k-expert"], RECIPES["pascal50s"]


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_every_recipe_says_its_protocol_and_where_to_get_the_data(recipe, tmp_path):
    text = " ".join(recipe.protocol())
    assert "references:" in text and ("tau-" in text or "tie of the metric" in text)
    with pytest.raises(InputError, match="get it from") as error:
        open_recipe(recipe, tmp_path)
    assert recipe.layouts[0].ratings in str(error.value) and recipe.source in str(error.value)


def test_the_text_files_of_the_original_release(tmp_path):
    captions = ["a.jpg#0\tA dog runs .", "a.jpg#1\tA brown dog .", "b.jpg#0\tA cat .", "b.jpg#1\tA cat sits ."]
    (tmp_path / "Flickr8k.token.txt").write_text("\n".join(captions) + "\n")
    expert = ["a.jpg\ta.jpg#0\t4\t4\t4", "a.jpg\tb.jpg#0\t1\t1\t2", "b.jpg\ta.jpg#1\t1\t1\t1"]
    (tmp_path / "ExpertAnnotations.txt").write_text("\n".join(expert) + "\n")
    ratings = open_recipe(FLICKR8K_EXPERT, tmp_path)
    assert ratings.values.tolist() == [[1, 1, 2], [1, 1, 1]]
    assert ratings.dropped == {"the caption is one of the image's references": 1}
    assert ratings.captions["a.jpg/b.jpg#0"].references == ("A dog runs .", "A brown dog .")
    crowd = ["a.jpg\ta.jpg#0\t1.0\t3\t0", "a.jpg\tb.jpg#0\t0.333\t1\t2", "b.jpg\ta.jpg#1\t0\t0\t3"]
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text("\n".join(crowd) + "\n")
    votes = open_recipe(RECIPES["flickr8k-cf"], tmp_path)
    assert votes.values.ravel().tolist() == [1.0, 0.333, 0.0]
    assert votes.captions["a.jpg/a.jpg#0"].references == ("A brown dog .",)  # the candidate is taken out


def test_the_json_of_clipscore(tmp_path):
    judgements = [{"image_path": "x/a.jpg", "caption": "a  cat", "rating": rating} for rating in (1, 2, 1)]
    data = {"7": {"image_path": "x/a.jpg", "ground_truth": ["a dog", "dogs"], "human_judgement": judgements}}
    (tmp_path / "flickr8k.json").write_text(json.dumps(data))
    ratings = open_recipe(FLICKR8K_EXPERT, tmp_path)
    assert ratings.values.tolist() == [[1, 2, 1]] and ratings.groups == ("a.jpg",)
    assert ratings.captions.item(0).candidate == "a cat"


def test_thumb_finds_coco_references_by_the_number_in_the_image_name(tmp_path):
    row = {"seg_id": "974", "image": "COCO_val2014_000000000974.jpg"}
    systems = [("Up-Down", "An elephant", 3.5), ("Human", "Some people", 5.0)]
    rows = [{**row, "SYS": name, "hyp": text, "human_score": score} for name, text, score in systems]
    lines(tmp_path / "mscoco_THumB-1.0.jsonl", rows)
    lines(tmp_path / "val2014.jsonl.gz", [{"id": 974, "references": ["Some people", "An elephant walks"]}])
    ratings = open_recipe(RECIPES["thumb"], tmp_path)
    assert ratings.systems == ("Up-Down", "Human")
    assert ratings.ids == ("COCO_val2014_000000000974.jpg/Up-Down", "COCO_val2014_000000000974.jpg/Human")
    assert [len(item.references) for item in ratings.captions] == [2, 1]


def test_references_are_found_by_name_stem_number_or_id():
    references = {"12": ["n"], "b": ["s"], "c.jpg": ["f"], "k": ["i"]}
    assert references_of(references, "c.jpg") == ["f"] and references_of(references, "b.png") == ["s"]
    assert references_of(references, "COCO_val2014_000000000012.jpg") == ["n"]
    assert references_of(references, "z", "k") == ["i"] and references_of(references, "z") == []


def test_pairs_leave_out_what_people_cannot_decide():
    records = [Record("r", "i", ("a", "b"), preferred=choice, category="HC") for choice in (0.0, None, 1.0)]
    pairs = gather(PASCAL50S, records, "pairs")
    assert pairs.preferred.tolist() == [0, 1] and pairs.dropped == {"people see no difference": 1}
    assert len(pairs.ids) == 4


def test_rows_of_raters_become_one_item(tmp_path):
    rows = [{"id": i, "rater": rater, "rating": i + rater} for i in (1, 2) for rater in (1, 2)]
    ratings = open_ratings(lines(tmp_path / "long.jsonl", rows))
    assert ratings.values.tolist() == [[2, 3], [3, 4]] and ratings.raters == ("1", "2")
    assert ratings.captions is None
    with pytest.raises(InputError, match="row 5: rater '2' rates the same caption a second time"):
        open_ratings(lines(tmp_path / "twice.jsonl", [*rows, {"id": 2, "rater": 2, "rating": 1}]))
    unnamed = [{"id": 1, "rating": 4}, {"id": 1, "rating": 5}, {"id": 2, "rating": 1}]
    again = open_ratings(lines(tmp_path / "unnamed.jsonl", unnamed))
    np.testing.assert_array_equal(again.values, [[4, 5], [1, np.nan]])


def test_a_recipe_from_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "My ratings"\ntau = "c"\nrows = "mean"\nscale = [1, 5]\nown = "drop"\nsource = "our server"\n'
        '[[layouts]]\nratings = "mine.csv"\nimage = "picture"\nrating = "stars"\n'
    )
    recipe = from_toml(path)
    assert recipe.name == "mine" and recipe.scale == (1, 5) and recipe.layouts[0].image == "picture"
    (tmp_path / "mine.csv").write_text("id,picture,caption,stars\n1,p,a dog,4\n2,p,a cat,2\n3,q,a cow,5\n")
    ratings = open_recipe(recipe_named(str(path)), tmp_path)
    assert ratings.values.ravel().tolist() == [4, 2, 5] and ratings.groups == ("p", "p", "q")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tau = 1 2", "not a recipe in TOML"),
        ('tau = "c"', "no [[layouts]]"),
        ('tau = "d"\n[[layouts]]\nratings = "x"', "expected one of b, c"),
        ('[[layouts]]\nrating = "x"', "no field 'ratings'"),
        ('titel = "x"\n[[layouts]]\nratings = "x"', "did you mean 'title'"),
    ],
)
def test_a_recipe_that_cannot_be_read(tmp_path, text, message):
    path = tmp_path / "bad.toml"
    path.write_text(text)
    with pytest.raises(InputError) as error:
        from_toml(path)
    assert message in str(error.value)


def test_a_misspelt_recipe_is_pointed_out():
    with pytest.raises(InputError, match="did you mean 'flickr8k-expert'"):
        recipe_named("flickr8k-exprt")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1, "caption": "a", "rating": "good"}, "row 1: rating is 'good', expected a number"),
        ({"id": 1, "caption": "a", "stars": 3}, "row 1: no rating"),
        ({"caption": "a", "rating": 3}, "row 1: no image or id"),
        ({"id": 1, "caption": 5, "rating": 3}, "row 1: caption is 5"),
    ],
)
def test_rows_that_cannot_be_read(tmp_path, row, message):
    with pytest.raises(InputError) as error:
        open_ratings(lines(tmp_path / "bad.jsonl", [row]))
    assert message in str(error.value)


def test_a_rating_outside_the_scale_names_its_row(tmp_path):
    rows = [{"id": i, "rating": rating} for i, rating in enumerate((1, 5, 7, 9))]
    path = lines(tmp_path / "r.jsonl", rows)
    with pytest.raises(InputError, match=r"row 3: rating 7 is outside the scale 1 to 5 \(2 such ratings\)"):
        open_ratings(path, recipe=Recipe("r", (Layout(str(path)),), scale=(1, 5)))


@pytest.mark.shared_data
def test_flickr8k_expert_has_the_published_taus(shared_data):
    """README of aimagelab/pacscore, Kendall × 100 over 16,992 rows: tau-b, tau-c."""
    ratings = open_recipe(FLICKR8K_EXPERT, shared_data / "flickr8k")
    study = captious.correlate(
        ratings, "bleu(n=1),bleu(n=4),rouge,cider", recipe=FLICKR8K_EXPERT, resampling=Resampling(100)
    )
    published = {"bleu(n=1)": (32.175, 32.324), "bleu(n=4)": (30.599, 30.776), "rouge": (32.139, 32.314)}
    for key, (tau_b, tau_c) in {**published, "cider": (43.602, 43.891)}.items():
        estimates = study.estimates[key]
        assert 100 * estimates["tau_b"].value == pytest.approx(tau_b, abs=0.005)
        assert 100 * estimates["tau_c"].value == pytest.approx(tau_c, abs=0.005)
        assert estimates["tau_c"].low < estimates["tau_c"].value < estimates["tau_c"].high
    assert len(study.design.human) == 16_992 and study.design.clusters == 1000
    assert study.clusters[0] == ("cider",) and set(study.clusters[1]) == set(published)
    assert study.warnings == ()


@pytest.mark.shared_data
def test_averaging_the_experts_first_gives_other_numbers(shared_data):
    recipe = replace(FLICKR8K_EXPERT, rows="mean", expected=None)
    ratings = open_recipe(recipe, shared_data / "flickr8k")
    study = captious.correlate(ratings, "cider", recipe=recipe, resampling=Resampling(0))
    assert 100 * study.estimates["cider"]["tau_c"].value == pytest.approx(45.39, abs=0.05)


@pytest.mark.shared_data
def test_pascal50s_accuracies(shared_data):
    """ROUGE-L and CIDEr-D with ties ½, as measured beside the data; strict accuracies of the FLEUR file."""
    pairs = open_recipe(PASCAL50S, shared_data / "pascal50s")
    study = captious.correlate(pairs, "bleu(n=4),rouge,cider", recipe=PASCAL50S, resampling=Resampling(100))
    measured = {"rouge": (63.5, 96.1, 91.8, 61.3), "cider": (65.4, 98.6, 90.1, 65.4)}
    for key, values in measured.items():
        for category, value in zip(("HC", "HI", "HM", "MM"), values, strict=True):
            assert 100 * study.estimates[key][category].value == pytest.approx(value, abs=0.0501)
    strict = captious.correlate(
        pairs, "bleu(n=4),rouge", recipe=replace(PASCAL50S, ties="strict"), resampling=Resampling(0)
    )
    # From a script with a plainer tokenizer: up to 4 pairs of 1,000 fall out otherwise.
    by_hand = {"bleu(n=4)": (60.8, 93.6, 84.7, 58.7), "rouge": (62.3, 95.9, 91.6, 60.4)}
    for key, values in by_hand.items():
        estimates = strict.estimates[key]
        for category, value in zip(("HC", "HI", "HM", "MM"), values, strict=True):
            assert 100 * estimates[category].value == pytest.approx(value, abs=0.41)
        assert estimates["mean"].value == estimates["strict"].value == study.estimates[key]["strict"].value


@pytest.mark.shared_data
def test_capeval1k(shared_data):
    recipe = RECIPES["capeval1k"]
    study = captious.correlate(
        open_recipe(recipe, shared_data / "umic"), "bleu(n=1),bleu(n=4),rouge,cider", recipe=recipe
    )
    for key, value in {"bleu(n=1)": 27.0, "bleu(n=4)": 25.4, "rouge": 24.5, "cider": 31.2}.items():
        assert 100 * study.estimates[key]["tau_c"].value == pytest.approx(value, abs=0.0501)
