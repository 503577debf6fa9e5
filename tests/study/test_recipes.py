"""Recipes: the data layouts they read, what they drop, and the published numbers they give."""

import json
import math
from dataclasses import replace

import numpy as np
import pytest

import captious
from captious.errors import InputError
from captious.options import Reading, Resampling
from captious.study import rater_agreement
from captious.study.judgments import gather, open_ratings, open_recipe
from captious.study.load import load_ratings
from captious.study.rating_files import Record, find_references
from captious.study.recipes import RECIPES, Layout, Recipe, find_recipe, from_toml
from captious.study.scores import read_scores
from captious.study.study_options import StudyInput

FLICKR8K_EXPERT, PASCAL50S = RECIPES["flickr8k-expert"], RECIPES["pascal50s"]


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize("recipe", RECIPES.values(), ids=list(RECIPES))
def test_every_recipe_says_its_protocol_and_where_to_get_the_data(recipe, tmp_path):
    text = " ".join(recipe.protocol())
    assert "references:" in text and ("headline: " in text or "tie of the metric" in text)
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
    crowd = ["a.jpg\ta.jpg#0\t1\t3\t0", "a.jpg\tb.jpg#0\t0.333\t1\t2", "b.jpg\ta.jpg#1\t0\t0\t3"]
    (tmp_path / "CrowdFlowerAnnotations.txt").write_text("\n".join(crowd) + "\n")
    votes = open_recipe(RECIPES["flickr8k-cf"], tmp_path)
    assert votes.values.ravel().tolist() == [1.0, 0.333, 0.0]
    # "A dog runs ." was judged for its own image, so it is a reference of no row of that image.
    assert votes.captions["a.jpg/a.jpg#0"].references == ("A brown dog .",)
    assert votes.captions["a.jpg/b.jpg#0"].references == ("A brown dog .",)
    assert votes.captions["b.jpg/a.jpg#1"].references == ("A cat .", "A cat sits .")


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
    lines(tmp_path / "val2014.jsonl.gz", [{"id": 974, "references": ["Some people", "An elephant"]}])
    ratings = open_recipe(RECIPES["thumb"], tmp_path)
    assert ratings.systems == ("Up-Down", "Human")
    assert ratings.ids == ("COCO_val2014_000000000974.jpg/Up-Down", "COCO_val2014_000000000974.jpg/Human")
    # What people wrote is no reference; what a model wrote stays one.
    assert [item.references for item in ratings.captions] == [("An elephant",), ("An elephant",)]
    _, recipe = load_ratings(StudyInput("thumb", data=tmp_path), Reading())
    assert any("a caption that people wrote is no reference" in line for line in recipe.protocol())


@pytest.fixture
def thumb(tmp_path):
    """Four images in the layout of jungokasai/THumB: JSON Lines, the references called .json and keyed by seg_id."""
    words = ["a dog runs on grass", "two cats sit on a bed", "a man rides a red bike", "boats lie in a harbor"]
    rows, references = [], []
    for index, text in enumerate(words):
        common = {"seg_id": str(100 + index), "image": f"COCO_val2014_{100 + index:012d}.jpg"}
        parts = text.split()
        texts = {"Up-Down": parts[:2], "VinVL-large": parts[: 3 + index % 2], "Human": ["something", "quite", "else"]}
        for number, (system, part) in enumerate(texts.items()):
            rows.append(
                {"SYS": system, "hyp": " ".join(part), "P": 4.0, "human_score": 2.5 + number + index / 4, **common}
            )
        references.append(
            {"seg_id": str(100 + index), "refs": [text, f"{text} today", f"here {text}", f"{text} again"]}
        )
    lines(tmp_path / "mscoco" / "mscoco_THumB-1.0.jsonl", rows)
    lines(tmp_path / "mscoco" / "mscoco_references.json", references)
    return tmp_path


def test_thumb_reads_the_layout_of_its_repository(thumb):
    ratings = open_recipe(RECIPES["thumb"], thumb)
    assert len(ratings) == 12 and {*ratings.systems} == {"Up-Down", "VinVL-large", "Human"}
    assert ratings.captions["COCO_val2014_000000000100.jpg/Human"].references[:2] == (
        "a dog runs on grass",
        "a dog runs on grass today",
    )


def test_thumb_keeps_captions_that_equal_a_reference(thumb):
    """ROUGE-L of a caption that is a reference is 1; without that reference it would be lower."""
    path = thumb / "mscoco" / "mscoco_THumB-1.0.jsonl"
    rows = [json.loads(line) for line in path.read_text().splitlines()]
    row = next(row for row in rows if row["SYS"] == "VinVL-large")
    row["hyp"] = "a dog runs on grass"
    lines(path, rows)
    ratings = open_recipe(RECIPES["thumb"], thumb)
    (copied,) = (item for item in ratings.captions if item.candidate == "a dog runs on grass")
    assert copied.references[0] == copied.candidate and len(copied.references) == 4
    (rouge,) = captious.evaluate(ratings.captions, "rouge").measurements.values()
    assert rouge.items[copied.id] == 1.0
    assert any("candidates that are among the references are kept" in line for line in RECIPES["thumb"].protocol())


def test_thumb_is_printed_with_and_without_the_captions_that_people_wrote(thumb):
    recipe = RECIPES["thumb"]
    ratings = open_recipe(recipe, thumb)
    study = captious.correlate(ratings, "rouge,bleu(n=1)", recipe=recipe, resampling=Resampling(0), permutations=50)
    written = np.array([system == "Human" for system in ratings.systems])
    for name in ("rouge", "bleu(n=1)"):
        values = next(score.values for score in study.scores if score.key == name)
        means = ratings.values[:, 0]
        assert study.estimates[name]["pearson"].value == pytest.approx(np.corrcoef(values, means)[0, 1])
        without = np.corrcoef(values[~written], means[~written])[0, 1]
        assert study.machines.estimates[name]["pearson"].value == pytest.approx(without)
    document = study.document()
    assert document.table("metrics").rows[0][2].value < document.table("machines").rows[0][2].value
    assert document.table("machines").title == "thumb without Human: 8 of 12 rows"
    assert document.table("machine_systems").title == "Between the other systems, without Human"
    data = json.loads(study.to_json())["machines"]
    assert data["rows"] == 8 and data["headline"] == "pearson"
    assert "study:thumb without Human|statistic:pearson|rows:8" in document.signatures[1]


def test_nebula_reads_its_own_columns(tmp_path):
    row = {"mt": "a dog", "refs": ["a dog runs", "the dog"], "score": 0.75}
    rows = [{"imgid": "59cf", **row}, {"imgid": "59cf", **row, "mt": "a cat", "score": 0.0}, {"imgid": "aa0c", **row}]
    path = tmp_path / "annotations" / "nebula_test.json"
    path.parent.mkdir()
    path.write_text(json.dumps(rows, indent=4))
    ratings = open_recipe(RECIPES["nebula"], tmp_path)
    assert ratings.ids == ("59cf#0", "59cf#1", "aa0c#0") and ratings.values.ravel().tolist() == [0.75, 0, 0.75]
    assert ratings.captions["59cf#1"].references == ("a dog runs", "the dog")


def test_every_recipe_says_whether_it_has_met_the_files_of_its_authors():
    answers = {name: recipe.tried.split(";")[0].split(",")[0].split(":")[0] for name, recipe in RECIPES.items()}
    met = (
        "flickr8k-expert",
        "flickr8k-cf",
        "pascal50s",
        "composite-flickr8k",
        "capeval1k",
        "iiw",
        "reformulations",
        "msvd-eval",
        "tifa160",
    )
    met += ("discoursefoil", "composite", "mlqe-et-en", "wmt21-zh-en", "newsroom", "summeval", "realsumm")
    met += ("relic-age-annotators",)
    assert {name for name, answer in answers.items() if answer == "yes"} == {*met}
    assert {*answers.values()} == {"yes", "no", "in part"}
    assert all(f"tried on the authors' files: {recipe.tried}" in recipe.protocol() for recipe in RECIPES.values())


def test_two_columns_are_a_pair_of_which_one_is_always_preferred(tmp_path):
    texts = {"caption": "a red bus", "hall_caption": "a red bus and a dog", "human_corrected_hall_caption": "a red bus"}
    rows = [{"image_id": str(key), "fixed": fixed, **texts} for key, fixed in enumerate(("true", "false", "true"))]
    lines(tmp_path / "discoursefoil.jsonl.gz", rows)
    pairs = open_recipe(RECIPES["discoursefoil"], tmp_path)
    assert pairs.groups == ("0", "2") and pairs.preferred.tolist() == [1, 1]
    assert [item.candidate for item in pairs.captions][:2] == ["a red bus and a dog", "a red bus"]
    assert {item.references for item in pairs.captions} == {("a red bus",)}
    lines(tmp_path / "discoursefoil.jsonl.gz", [{key: cell for key, cell in rows[0].items() if key != "fixed"}])
    with pytest.raises(InputError, match="no column 'fixed', found columns image_id"):
        open_recipe(RECIPES["discoursefoil"], tmp_path)
    lines(tmp_path / "discoursefoil.jsonl.gz", [{**rows[0], "hall_caption": None}])
    with pytest.raises(InputError, match=r"row 1: caption is .*expected two strings"):
        open_recipe(RECIPES["discoursefoil"], tmp_path)
    foils = {
        "image_path": "a.jpg",
        "baseline": "a cat",
        "foil": "a cow",
        "references": ["cats"],
        "domain": "near-domain",
    }
    lines(tmp_path / "nocaps_foil.jsonl.gz", [foils])
    pairs = open_recipe(RECIPES["nocaps-foil"], tmp_path)
    assert pairs.preferred.tolist() == [0] and pairs.categories == ("near-domain",)


def test_reformulations_drop_what_was_not_changed_and_images_outside_of_val2014(tmp_path):
    images = ["COCO_val2014_000000000007.jpg", "COCO_val2014_000000000007.jpg", "7.jpg"]
    texts = [["a Dog", "A dog"], ["a dog", "a cat"], ["a dog", "a cow"]]
    rows = [
        {"id": str(key), "image": image, "captions": captions, "preferred": 1}
        for key, (image, captions) in enumerate(zip(images, texts, strict=True))
    ]
    lines(tmp_path / "pairs.jsonl.gz", rows)
    lines(tmp_path / "val2014.jsonl.gz", [{"id": 7, "references": ["a cat sits"]}])
    pairs = open_recipe(RECIPES["reformulations"], tmp_path)
    assert pairs.ids == ("1/0", "1/1") and pairs.dropped == {"the captions are equal except for case": 1}
    assert pairs.captions["1/1"].references == ("a cat sits",)
    assert "pairs whose captions are equal except for case are dropped" in RECIPES["reformulations"].protocol()


def test_a_rating_that_is_a_word_has_its_number(tmp_path):
    row = {"image_path": "a.jpg", "caption": "a dog", "references": ["dogs"], "contains_hallucination": True}
    rows = [{**row, "sample_id": "1"}, {**row, "sample_id": "2", "contains_hallucination": False}]
    lines(tmp_path / "hat.jsonl.gz", [*rows, {**row, "sample_id": "3", "contains_hallucination": "False"}])
    ratings = open_recipe(RECIPES["hat"], tmp_path)
    assert (ratings.ids, ratings.values.tolist()) == (("1", "2", "3"), [[0], [1], [1]])
    lines(tmp_path / "hat.jsonl.gz", [{**row, "sample_id": "1", "contains_hallucination": "perhaps"}])
    with pytest.raises(InputError, match=r"row 1: contains_hallucination is 'perhaps', expected true or false"):
        open_recipe(RECIPES["hat"], tmp_path)


@pytest.mark.shared_data
def test_hat_has_the_captions_with_a_hallucination_that_its_readme_counts(shared_data):
    ratings = open_recipe(RECIPES["hat"], shared_data / "aloha")
    assert (len(ratings.ids), int((ratings.values == 0).sum())) == (191, 71)


def test_one_number_of_each_raters_list_is_the_rating(tmp_path):
    row = {"id": "v1", "caption": "a dog", "references": ["dogs"], "ratings": [[1, 2, 3, 4, 2.5], [5, 5, 5, 5, 5]]}
    lines(tmp_path / "items.jsonl.gz", [row, {**row, "id": "v2"}])
    ratings = open_recipe(RECIPES["msvd-eval"], tmp_path)
    assert ratings.values.tolist() == [[2.5, 5], [2.5, 5]]
    lines(tmp_path / "items.jsonl.gz", [{**row, "ratings": [[1, 2], [3, 4]]}])
    with pytest.raises(InputError, match=r"row 1: ratings is .*, expected a list of 5 or more for each rater"):
        open_recipe(RECIPES["msvd-eval"], tmp_path)


def test_references_are_found_by_name_stem_number_or_id():
    references = {"12": ["n"], "b": ["s"], "c.jpg": ["f"], "k": ["i"]}
    assert find_references(references, "c.jpg") == ["f"] and find_references(references, "b.png") == ["s"]
    assert find_references(references, "COCO_val2014_000000000012.jpg") == ["n"]
    assert find_references(references, "z", "k") == ["i"] and find_references(references, "z") == []


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


@pytest.mark.parametrize("cell", [[4, 5], {"ann": 4, "bob": 5}, []])
def test_a_row_that_names_its_rater_has_one_rating(tmp_path, cell):
    rows = [{"id": i, "rater": rater, "rating": i + rater} for i in (1, 2) for rater in (1, 2)]
    rows[2]["rating"] = cell
    with pytest.raises(InputError, match=r"row 3: rating is .*, expected a number: the row names its rater, '1'"):
        open_ratings(lines(tmp_path / "long.jsonl", rows), columns=Layout("", rater="rater"))
    rows[2]["rating"] = [4]
    assert open_ratings(lines(tmp_path / "one.jsonl", rows)).values.tolist() == [[2, 3], [4, 4]]


def test_a_recipe_from_toml(tmp_path):
    path = tmp_path / "mine.toml"
    path.write_text(
        'title = "My ratings"\nstatistic = "tau_c"\nrows = "mean"\nscale = [1, 5]\nown = "drop"\nsource = "here"\n'
        '[[layouts]]\nratings = "mine.csv"\nimage = "picture"\nrating = "stars"\n'
    )
    recipe = from_toml(path)
    assert recipe.name == "mine" and recipe.scale == (1, 5) and recipe.layouts[0].image == "picture"
    (tmp_path / "mine.csv").write_text("id,picture,caption,stars\n1,p,a dog,4\n2,p,a cat,2\n3,q,a cow,5\n")
    ratings = open_recipe(find_recipe(str(path)), tmp_path)
    assert ratings.values.ravel().tolist() == [4, 2, 5] and ratings.groups == ("p", "p", "q")


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("tau = 1 2", "not a recipe in TOML"),
        ('statistic = "tau_c"', "no layouts, expected a table for each form of the data"),
        ('statistic = "tau_d"\n[[layouts]]\nratings = "x"', "expected one of tau_b, tau_c, pearson"),
        ('[[layouts]]\nrating = "x"', "[[layouts]] 1: no ratings, expected the name of the file of ratings"),
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
        find_recipe("flickr8k-exprt")


@pytest.mark.parametrize(
    ("row", "message"),
    [
        ({"id": 1, "caption": "a", "rating": "good"}, "row 1: rating is 'good', expected a number"),
        ({"id": 1, "caption": "a", "stars": 3}, "row 1: no rating"),
        ({"caption": "a", "rating": 3}, "row 1: no image or id"),
        ({"id": 1, "caption": 5, "rating": 3}, "row 1: caption is a number (5), expected a string"),
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
def test_flickr8k_cf_from_the_files_of_its_authors_has_the_published_taus(shared_data):
    """README of aimagelab/pacscore, Kendall × 100 over 47,830 rows: tau-b, tau-c."""
    recipe = RECIPES["flickr8k-cf"]
    ratings = open_recipe(recipe, shared_data / "flickr8k")
    study = captious.correlate(
        ratings, "bleu(n=1),bleu(n=4),rouge,cider", recipe=recipe, resampling=Resampling(0), permutations=1
    )
    assert study.rows == 47_830 and study.design.clusters == 1000
    published = {"bleu(n=1)": (17.946, 9.256), "bleu(n=4)": (16.863, 8.710), "rouge": (19.903, 10.274)}
    for key, (tau_b, tau_c) in {**published, "cider": (24.619, 12.724)}.items():
        assert 100 * study.estimates[key]["tau_b"].value == pytest.approx(tau_b, abs=0.011)
        assert 100 * study.estimates[key]["tau_c"].value == pytest.approx(tau_c, abs=0.011)


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


def make_composite(folder):
    """Two parts whose ids both start at 0; the first caption of each is its reference, as a tokenizer writes it."""
    for part in ("flickr8k", "flickr30k", "coco"):
        texts = [f"a {part} 's dog .", "two cats"]
        rows = [
            {"id": number, "image": f"{part}1", "caption": text, "rating": 5 - 4 * number}
            for number, text in enumerate(texts)
        ]
        lines(folder / f"composite_{part}.jsonl.gz", rows)
    references = ["A {}'s dog.", "b", "c", "d", "e", "sixth"]
    for part, name in (("flickr8k", "flickr8k_references"), ("flickr30k", "flickr30k_references"), ("coco", "val2014")):
        own = [text.format(part) for text in references]
        lines(folder / f"{name}.jsonl.gz", [{"id": f"{part}1", "references": own}])


@pytest.mark.parametrize(
    ("own", "ids", "numbers"),
    [("keep", 6, [5] * 6), ("unreference", 6, [4] * 6), ("drop", 3, [5] * 3)],
)
def test_composite_has_three_parts_and_its_own_captions_among_the_references(tmp_path, own, ids, numbers):
    make_composite(tmp_path)
    ratings = open_recipe(replace(RECIPES["composite"], own=own), tmp_path)
    assert len(ratings.ids) == ids and len(set(ratings.groups)) == 3
    assert ratings.ids[0] == ("composite_flickr8k:0" if own != "drop" else "composite_flickr8k:1")
    assert [len(ratings.captions[key].references) for key in ratings.ids] == numbers


def test_a_part_that_is_missing_is_named(tmp_path):
    make_composite(tmp_path)
    (tmp_path / "flickr30k_references.jsonl.gz").unlink()
    with pytest.raises(InputError, match=r"composite_flickr30k\.jsonl\.gz with flickr30k_references\.jsonl\.gz"):
        open_recipe(RECIPES["composite"], tmp_path)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("own", "statistic", "values"),
    [
        # Values that stand beside the data; the second line is published as 31.3 30.6 32.4 38.9 37.7.
        ("keep", "tau_b", (45.19, 45.99, 47.70, 47.94)),
        ("unreference", "tau_c", (31.16, 30.49, 32.25, 37.61)),
        ("drop", "tau_b", (8.58, 10.04, 9.57, 15.67)),
    ],
)
def test_composite(shared_data, own, statistic, values):
    study_input = StudyInput("composite", shared_data / "umic_published", own=own)
    ratings, recipe = load_ratings(study_input, Reading())
    metrics = ("bleu(n=1)", "bleu(n=4)", "rouge", "cider")
    study = captious.correlate(ratings, list(metrics), recipe=recipe, resampling=Resampling(0), permutations=1)
    for key, value in zip(metrics, values, strict=True):
        assert 100 * study.estimates[key][statistic].value == pytest.approx(value, abs=0.00501)


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "folder", "values"),
    [
        # Pearson x 100 that stand beside the data, computed by an earlier version from files named by options.
        ("mlqe-et-en", "wmt", {"bleu(n=1)": 53.86, "bleu(n=4)": 48.14, "meteor": 54.84, "rouge": 52.85}),
        ("wmt21-zh-en", "wmt", {"bleu(n=1)": 21.99, "bleu(n=4)": 19.09, "rouge": 25.82, "cider": 29.06}),
        ("newsroom", "summarization", {"bleu(n=4)": 7.10, "meteor": 18.09, "rouge": 1.72}),
        ("summeval", "summarization", {"bleu(n=4)": 26.88, "rouge": 26.37}),
    ],
)
def test_text_to_text_tasks(shared_data, name, folder, values):
    recipe = RECIPES[name]
    ratings = open_recipe(recipe, shared_data / folder)
    study = captious.correlate(ratings, list(values), recipe=recipe, resampling=Resampling(0), permutations=1)
    assert study.statistic == "pearson" and study.rows == recipe.expected
    for key, value in values.items():
        assert 100 * study.estimates[key]["pearson"].value == pytest.approx(value, abs=0.00501)


def test_source_texts_are_read_and_nested_scores_are_columns(tmp_path):
    texts = {"source": "ein Hund", "caption": "a dog", "references": ["the dog"]}
    rows = [{"id": str(k), **texts, "rating_z": k / 2, "stored": {"mine": k, "name": "x"}} for k in range(4)]
    lines(tmp_path / "mlqe_et_en.jsonl.gz", rows)
    ratings = open_recipe(RECIPES["mlqe-et-en"], tmp_path)
    assert ratings.captions.columns["source"] == ("ein Hund",) * 4
    scores = {
        one.key: one.values.tolist()
        for one in read_scores(tmp_path / "mlqe_et_en.jsonl.gz", ratings, RECIPES["mlqe-et-en"])
    }
    assert scores == {"stored.mine": [0, 1, 2, 3]}


def test_rows_can_be_left_out_by_a_value(tmp_path):
    rows = [
        {
            "id": f"{document}#{part}#{name}",
            "document": document,
            "system": name,
            "caption": "x",
            "references": ["y"],
            "litepyramid_recall": 0.5 * document,
        }
        for document in range(2)
        for part, name in (("abs", "bart_out"), ("ext", "bart_out"), ("ext", "other"))
    ]
    lines(tmp_path / "realsumm.jsonl.gz", rows)
    ratings = open_recipe(RECIPES["realsumm"], tmp_path)
    assert ratings.ids == ("0#abs#bart_out", "0#ext#other", "1#abs#bart_out", "1#ext#other")


@pytest.mark.shared_data
def test_agreement_of_relic_s_age_annotators(shared_data):
    ratings = open_recipe(RECIPES["relic-age-annotators"], shared_data / "lic")
    alpha = rater_agreement(ratings, resampling=Resampling(0)).alpha
    assert alpha.measurement == "nominal"
    assert alpha.estimate.value == pytest.approx(0.6328, abs=6e-5)  # old and young only, beside the data


@pytest.mark.shared_data
def test_the_scores_of_umic_s_authors_give_the_published_tau_b(shared_data):
    recipe = RECIPES["capeval1k"]
    ratings = open_recipe(recipe, shared_data / "umic")
    scores = read_scores(shared_data / "umic_published" / "umic_capeval1k.csv", ratings, recipe)
    study = captious.correlate(ratings, scores, recipe=recipe, resampling=Resampling(0), permutations=1)
    assert study.statistic == "tau_b"
    assert study.estimates["umic"]["tau_b"].value == pytest.approx(0.3285, abs=5e-5)  # scipy's tau-b, beside the data


@pytest.mark.shared_data
@pytest.mark.parametrize(
    ("name", "folder", "rows", "values"),
    [
        # Values that stand beside the data, percent; of msvd-eval tau-b.
        ("reformulations", "reformulations", 4043, {"bleu(n=1)": 56.5, "bleu(n=4)": 48.7, "rouge": 53.2}),
        ("discoursefoil", "discosg", 200, {"bleu(n=1)": 79.0, "bleu(n=4)": 88.8, "rouge": 81.5, "cider": 65.8}),
        ("msvd-eval", "msvd_eval", 394, {"bleu(n=1)": 40.7, "bleu(n=4)": 34.0, "rouge": 39.8, "cider": 37.3}),
        ("iiw", "iiw_side_by_side", 790, {"distinct_n(n=1)": 35.94}),
    ],
)
def test_recipes_give_the_values_that_stand_beside_their_data(shared_data, name, folder, rows, values):
    recipe = RECIPES[name]
    pairs = open_recipe(recipe, shared_data / folder)
    study = captious.correlate(pairs, list(values), recipe=recipe, resampling=Resampling(0), permutations=1)
    assert study.rows == rows
    for key, value in values.items():
        assert 100 * study.estimates[key][study.statistic].value == pytest.approx(value, abs=0.0501)


@pytest.mark.shared_data
def test_iiw_prefers_the_longer_description(shared_data):
    """Of both sets of images: the share of pairs that stands beside the data, weighted by the pairs of each set."""
    recipe = RECIPES["iiw"]
    pairs = open_recipe(recipe, shared_data / "iiw_side_by_side")
    words = {key: len(item.candidate.split()) for key, item in zip(pairs.ids, pairs.captions, strict=True)}
    study = captious.correlate(pairs, {"words": words}, recipe=recipe, resampling=Resampling(0), permutations=1)
    both = {"Comprehensiveness": (93.2, 88, 75.8, 62), "Specificity": (95.8, 95, 94.6, 92)}
    for aspect, (first, of, second, others) in both.items():
        share = (first * of + second * others) / (of + others)
        assert 100 * study.estimates["words"][aspect].value == pytest.approx(share, abs=0.06)


@pytest.mark.shared_data
def test_tifa160_has_the_correlations_of_the_authors_notebook(shared_data):
    """Pearson and tau-b of the stored metrics, which the authors' notebook prints; the mean rating is no metric."""
    recipe, folder = RECIPES["tifa160"], shared_data / "tifa160"
    ratings = open_recipe(recipe, folder)
    scores = read_scores(folder / "items.jsonl.gz", ratings, recipe)
    study = captious.correlate(ratings, scores, recipe=recipe, resampling=Resampling(0), permutations=1)
    printed = {"meteor": (0.3397, 0.2741), "spice": (0.3281, 0.2318), "tifa_mplug-large": (0.5967, 0.4717)}
    for key, (pearson, tau) in printed.items():
        assert study.estimates[key]["pearson"].value == pytest.approx(pearson, abs=5e-5)
        assert study.estimates[key]["tau_b"].value == pytest.approx(tau, abs=5e-5)
    assert len(study.scores) == 10 and study.design.clusters == 160


def write_videos(folder, name="items.jsonl", **columns):
    """Six captions of three videos with three raters; the first rater agrees with the numbers 1 to 6."""
    rows = [
        {
            "id": f"c{number}",
            "video": f"v{number // 2}",
            "caption": "a dog runs",
            "references": ["a dog", "the dog", "dogs"],
            "ratings": [number, 6 - number, [0, 1, 0, 2, 3, 4][number]],
            **{key: values[number] for key, values in columns.items()},
        }
        for number in range(6)
    ]
    lines(folder / name, rows)


def test_vatex_eval_is_the_mean_over_raters(tmp_path):
    write_videos(tmp_path)
    scores = {"m": dict(zip([f"c{n}" for n in range(6)], [0.1, 0.2, 0.3, 0.4, 0.5, 0.6], strict=True))}
    recipe = RECIPES["vatex-eval"]
    study = captious.correlate(
        open_recipe(recipe, tmp_path), scores, recipe=recipe, resampling=Resampling(0), permutations=1
    )
    # tau-b is 1 and -1 with the first two raters. With 0 1 0 2 3 4, 13 pairs agree, 1 disagrees and 1 is tied.
    third = (13 - 1) / math.sqrt(15 * 14)
    assert study.statistic == "rater_tau_b"
    assert study.estimates["m"]["rater_tau_b"].value == pytest.approx((1 - 1 + third) / 3)
    from scipy.stats import spearmanr

    rho = spearmanr(range(6), [0, 1, 0, 2, 3, 4]).statistic
    assert study.estimates["m"]["rater_spearman"].value == pytest.approx(rho / 3)


def test_values_are_rounded_to_digits_and_the_signature_says_so(tmp_path):
    write_videos(tmp_path)
    values = [0.10001, 0.10002, 0.3, 0.4, 0.5, 0.6]
    scores = {"m": dict(zip([f"c{n}" for n in range(6)], values, strict=True))}
    recipe = replace(RECIPES["vatex-eval"], digits=4)
    study = captious.correlate(
        open_recipe(recipe, tmp_path), scores, recipe=recipe, resampling=Resampling(0), permutations=1
    )
    # The first two values are a tie now: 14 pairs agree with the first rater, and disagree with the second.
    third = (12 - 1) / math.sqrt(14 * 14)
    assert study.estimates["m"]["rater_tau_b"].value == pytest.approx(third / 3)
    assert "|digits:4|" in study.signature


def test_only_the_first_references_count(tmp_path, run):
    write_videos(tmp_path, caption=["a dog", "the dog", "dogs", "a dog runs", "the dog", "cats"])
    command = ("study", "run", "vatex-eval", "--data", tmp_path, "-m", "rouge", "--samples", 0, "--json")
    for options, number in (((), 3), (("--most-references", 1), 1)):
        code, out, err = run(*command, *options)
        assert code == 0, err
        assert any(f"|refs:{number}|" in signature for signature in json.loads(out)["signatures"])


def test_factvc_reads_letters_and_turns_mistakes(tmp_path):
    rows = [
        {"video": f"v{n // 2}", "system": f"s{n % 2}", "caption": f"A dog's {n} bones!", "references": ["Dogs."]}
        | {"paragraph": None if n == 5 else n, "wrong_sentences": 5 - n, "wrong_words": n}
        for n in range(6)
    ]
    lines(tmp_path / "activitynet.jsonl", rows)
    lines(tmp_path / "youcook2.jsonl", [{**row, "video": f"y{row['video']}"} for row in rows])
    ratings = open_recipe(RECIPES["factvc"], tmp_path)
    assert len(ratings.ids) == 10, "rows without a rating of the paragraph are left out"
    assert set(ratings.captions.candidates.values) == {"a dog s bones"}
    assert set(ratings.captions.references.values) == {"dogs"}
    turned = ratings.asked("wrong_sentences")
    assert turned.values[:3, 0].tolist() == [-5, -4, -3] and turned.read.startswith("ratings: `wrong_sentences`")
    scores = {"x": dict(zip(turned.ids, range(10), strict=True))}
    usual, other = (captious.correlate(one, scores, resampling=Resampling(0)).signature for one in (ratings, turned))
    assert "|rating:wrong_sentences|" in other and "rating" not in usual
    assert len(open_recipe(RECIPES["factvc-youcook2"], tmp_path).ids) == 5
    assert set(ratings.groups) == {"v0", "v1", "v2", "yv0", "yv1", "yv2"}


def test_a_study_finds_videos_by_their_column(tmp_path, run):
    Image = pytest.importorskip("PIL.Image")
    colors = ((255, 0, 0), (0, 255, 0), (0, 0, 255))
    for number, color in enumerate(colors):
        (tmp_path / f"clips/v{number}").mkdir(parents=True)
        Image.new("RGB", (20, 20), color).save(tmp_path / f"clips/v{number}/0.png")
    write_videos(tmp_path, caption=["a red cat", "a dog", "two blue birds", "a sea", "a house", "a tree"])
    command = ("study", "run", "vatex-eval", "--data", tmp_path, "--samples", 0, "--json", "--permutations", 9)
    code, out, err = run(
        *command, "-m", "emscore(captious-mini)", "--videos", tmp_path / "clips", "--frames", "middle:3"
    )
    assert code == 0, err
    (signature,) = [one for one in json.loads(out)["signatures"] if one.startswith("emscore")]
    assert "|frames:middle:3|" in signature and "unscored" not in signature
