"""CHAIR by hand arithmetic, against the stored counts of published caption files, and its errors."""

import gzip
import json
import math
from pathlib import Path

import numpy as np
import pytest

import captious
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.hallucination.chair import STATISTICS, Chair, find_finished_part, take_first_words
from captious.metrics.hallucination.truth import ObjectTable, build_table, open_table
from captious.metrics.registry import parse, parse_all
from captious.options import Reading, Resampling
from captious.syntax.objects import open_vocabulary

# Truth: a man and a dog. Mentions: man, dog, cup, cup: 2 of 4 wrong; objects person, dog, cup: 2 of 3 right, 2 of 2
# seen.
# Truth: a table and a chair. Mentions: table, table: none wrong; objects dining table: 1 of 1 right, 1 of 2 seen.
CAPTIONS = {"1": "A man, a dog, a cup and cups.", "2": "A table by a table"}
OBJECTS = [["person", "dog"], ["dining table", "chair"]]
WHOLE = CaptionSet.of(CAPTIONS, columns={"objects": OBJECTS})


@pytest.mark.parametrize(
    ("form", "corpus", "items"),
    [
        ("chair(value=s)", 1 / 2, [1, 0]),
        ("chair(value=i)", 2 / 6, [2 / 4, 0]),  # a ratio of sums, not the mean 1/4
        ("chair(value=recall)", 3 / 4, [1, 1 / 2]),
        ("chair(value=precision)", 3 / 4, [2 / 3, 1]),
        ("chair(value=f1)", 2 * 3 / (4 + 4), [4 / 5, 2 / 3]),
        ("chair(value=words)", 13 / 2, [8, 5]),
        ("chair(value=tokens)", 16 / 2, [11, 5]),  # two commas and a full stop more
        ("chair(value=i,count=distinct)", 1 / 4, [1 / 3, 0]),
        ("chair(value=i,max_words=4)", 0, [0, 0]),
        ("chair(value=words,max_words=4)", 4, [4, 4]),
    ],
)
def test_values_by_hand(form, corpus, items):
    measured = parse(form).measure(WHOLE)
    assert measured.corpus == pytest.approx(corpus, abs=1e-12)
    assert measured.values.tolist() == pytest.approx(items, abs=1e-12)


def test_chair_stands_for_five_values_and_says_which_way_is_better():
    metrics = parse_all("chair")
    assert [metric.label for metric in metrics] == ["CHAIR words", "CHAIR recall", "CHAIR F1", "CHAIR_S", "CHAIR_I"]
    assert [metric.higher_is_better for metric in metrics] == [True, True, True, False, False]
    assert str(parse("chair")) == "chair(value=s)"


def test_several_captions_of_an_image_count_separately():
    captions = CaptionSet.of({"1": ["a dog", "a cup", "a cup"]}, columns={"objects": [["dog"]]})
    assert Chair("s").measure(captions).corpus == pytest.approx(2 / 3)
    assert Chair("recall").measure(captions).corpus == pytest.approx(1 / 3)


def test_a_caption_without_a_mention_has_no_chair_i_and_adds_nothing():
    captions = CaptionSet.of({"1": "a dog and a cup", "2": "so nice"}, columns={"objects": [["dog"], ["dog"]]})
    measured = Chair("i").measure(captions)
    assert measured.corpus == 0.5 and math.isnan(measured.items["2"])
    assert measured.reasons == {"2": "the caption names no object of the vocabulary"}
    assert not np.isnan(np.asarray(measured.rows)).any()
    assert Chair("s").measure(captions).items["2"] == 0


def test_paired_tests_keep_an_item_in_which_one_system_names_nothing():
    """The difference is that of the ratios of sums, 1/2 − 1/4, not of those over the first item alone."""
    columns = [{"id": 1, "objects": ["dog"]}, {"id": 2, "objects": ["dog"]}]
    a = [{**columns[0], "caption": "a dog and a cup"}, {**columns[1], "caption": "so nice"}]
    b = [{**columns[0], "caption": "a dog, a cup"}, {**columns[1], "caption": "a dog, a dog"}]
    compared = captious.compare({"a": a, "b": b}, "chair(value=i)", resampling=Resampling(samples=10))
    (row,) = compared.differences
    assert row.difference == pytest.approx(1 / 4 - 1 / 2) and row.items == 2


def test_what_the_item_lacks():
    captions = CaptionSet.of({"1": "a dog", "2": "a dog", "3": "a dog"}, columns={"objects": [["dog"], None, []]})
    measured = Chair("s").measure(captions)
    assert measured.reasons == {"2": "no objects"}  # unknown, not wrong
    assert measured.items["3"] == 1  # nothing is in the image
    bare = CaptionSet.of({"1": "a dog"})
    with pytest.raises(InputError, match=r"no objects; give a column 'objects', or .*captious make objects instances_"):
        captious.evaluate(bare, "chair")


def test_objects_of_the_column_are_words_of_the_vocabulary():
    captions = CaptionSet.of({"1": "a dog"}, columns={"objects": ['["Sofa", "puppy"]']})
    assert Chair("recall").measure(captions).corpus == 0.5
    with pytest.raises(InputError, match=r"^7: 'zebrra' is not an object of the vocabulary coco.*did you mean 'zebra'"):
        Chair().measure(CaptionSet.of({"7": "a dog"}, columns={"objects": [["zebrra"]]}))
    with pytest.raises(InputError, match="7: objects are 'dog', expected a list of texts"):
        Chair().measure(CaptionSet.of({"7": "a dog"}, columns={"objects": ["dog"]}))


def test_references_add_to_the_truth():
    captions = CaptionSet.of(
        {"1": "a dog and a cup", "2": "a cat"}, {"1": ["a cup"], "2": ["cats"]}, {"objects": [["dog"], None]}
    )
    assert Chair("i").measure(captions).corpus == 0.5
    measured = Chair("i", references=True).measure(captions)
    assert measured.corpus == 0 and not measured.reasons


def table(tmp_path, **sources):
    columns = {"instances": [["dog"], ["cat"]], "captions_singularize": [["dog", "cup"], []], **sources}
    path = tmp_path / "objects.parquet"
    ObjectTable("objects", {"42": 0, "73": 1}, columns, str(open_vocabulary())).save(path)
    return str(path)


@pytest.mark.parametrize(
    "id", ["42", "COCO_val2014_000000000042.jpg", "000000000042", "val2014/000000000042.jpg", "42#1"]
)
def test_a_table_finds_an_image_however_it_is_called(tmp_path, id):
    captions = CaptionSet.of({id: "a dog and a cup"})
    assert Chair("i", objects=table(tmp_path)).measure(captions).corpus == 0
    assert Chair("i", objects=table(tmp_path), truth="instances").measure(captions).corpus == 0.5
    assert Chair("i", objects=table(tmp_path), truth="captions").measure(captions).corpus == 0


def test_an_image_of_the_column_is_looked_up_too(tmp_path):
    captions = CaptionSet.of({"a": "a cat"}, columns={"image": ["COCO_val2014_000000000073.jpg"]})
    assert Chair("s", objects=table(tmp_path)).measure(captions).corpus == 0


def test_an_unknown_image_is_named(tmp_path):
    captions = CaptionSet.of({"42": "a dog", "99": "a dog"})
    measured = Chair("s", objects=table(tmp_path)).measure(captions)
    assert measured.corpus == 0 and measured.reasons == {"99": "image 99 is not in objects.parquet"}
    with pytest.raises(
        InputError, match=r"image 99 is not in objects.parquet; make the table from the files of the split"
    ):
        captious.evaluate({"99": "a dog"}, f"chair(objects={table(tmp_path)})")


def test_a_table_that_lacks_what_is_asked_for_is_refused(tmp_path):
    path = table(tmp_path)
    with pytest.raises(InputError, match=r"has no objects of captions by wordnet, only .*or write truth=instances"):
        Chair(objects=path, lemmas="wordnet").prepare(WHOLE)
    assert Chair(objects=path, lemmas="wordnet", truth_lemmas="singularize").prepare(WHOLE)
    with pytest.raises(
        InputError, match=r"its captions were read with the vocabulary coco#.*--vocabulary coco-repaired"
    ):
        Chair(objects=path, vocabulary="coco-repaired").prepare(WHOLE)
    assert Chair(objects=path, vocabulary="coco-repaired", truth="instances").prepare(WHOLE)
    with pytest.raises(InputError, match=r"none.parquet: cannot be read .*captious make objects"):
        Chair(objects=str(tmp_path / "none.parquet")).prepare(WHOLE)
    (tmp_path / "cut.parquet").write_bytes((tmp_path / "objects.parquet").read_bytes()[:-20])
    with pytest.raises(InputError, match=r"cut.parquet: is damaged .*make it again with"):
        Chair(objects=str(tmp_path / "cut.parquet")).prepare(WHOLE)


def test_a_flipped_bit_of_a_table_changes_no_object(tmp_path):
    whole = Path(table(tmp_path)).read_bytes()
    right, refused = open_table(str(tmp_path / "objects.parquet")), 0
    for number, place in enumerate(range(4, len(whole) - 8, len(whole) // 40)):
        path = tmp_path / f"flipped{number}.parquet"
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 4]) + whole[place + 1 :])
        try:
            other = open_table(str(path))
        except InputError:
            refused += 1
        else:
            assert (other.rows, other.sources) == (right.rows, right.sources), place
    assert refused > 10


def test_rows_of_images_and_their_objects_are_a_table(tmp_path):
    path = tmp_path / "truth.jsonl"
    path.write_text(
        '{"image": "COCO_val2014_000000000042.jpg", "objects": ["dog", "cup"]}\n{"image": "x.jpg", "objects": []}\n'
    )
    captions = CaptionSet.of({"42": "a dog and a cat"})
    assert Chair("i", objects=str(path)).measure(captions).corpus == 0.5
    with pytest.raises(InputError, match="has one list of objects for each image"):
        Chair("i", objects=str(path), truth="instances").measure(captions)
    path.write_text('{"image": "x.jpg", "things": []}\n')
    with pytest.raises(InputError, match="found columns image, things, expected an image and its objects"):
        open_table(str(path))


def annotations(tmp_path):
    """Two images: a dog is marked in the first, twice, and a captioner names a cup; in the second nothing is marked."""
    instances = {
        "info": {"year": 2014},
        "images": [{"id": 42}, {"id": 73}],
        "annotations": [
            {"image_id": 42, "category_id": 18, "segmentation": [[1.5, 2]], "iscrowd": one} for one in (0, 1)
        ],
        "categories": [{"id": 18, "name": "dog"}, {"id": 1, "name": "person"}],
    }
    captions = {
        "annotations": [{"image_id": 42, "caption": "Puppies and a cup"}, {"image_id": 73, "caption": "Seated"}]
    }
    (tmp_path / "instances.json").write_text(json.dumps(instances))
    (tmp_path / "captions.json").write_text(json.dumps(captions))
    return [str(tmp_path / "instances.json"), str(tmp_path / "captions.json")]


def test_make_objects(tmp_path):
    from click.testing import CliRunner

    from captious.cli.app import build_app

    out = tmp_path / "objects.parquet"
    done = CliRunner().invoke(build_app(), ["make", "objects", *annotations(tmp_path), "--out", str(out)])
    assert done.exit_code == 0, done.output
    assert "2 images; objects of an image: instances 0.50, captions_singularize 1.00" in done.output
    made = open_table(str(out))
    assert made.rows == {"42": 0, "73": 1} and made.vocabulary == str(open_vocabulary())
    assert made.sources == {
        "instances": [["dog"], []],
        "captions_singularize": [["dog", "cup"], []],
        "captions_wordnet": [["dog", "cup"], ["chair"]],  # seated, a verb, is reduced to seat
    }
    captions = CaptionSet.of({"42": "a dog with a cup", "73": "a dog"})
    assert Chair("s", objects=str(out)).measure(captions).values.tolist() == [0, 1]


def test_make_objects_from_one_source_alone(tmp_path):
    instances, captions = annotations(tmp_path)
    assert list(build_table([instances]).sources) == ["instances"]
    assert list(build_table([captions], lemmas=["singularize"]).sources) == ["captions_singularize"]


@pytest.mark.parametrize("number", [float("inf"), float("nan"), None, "dog"])
def test_a_category_that_is_no_number(tmp_path, number):
    instances, _ = annotations(tmp_path)
    broken = json.loads(Path(instances).read_text(encoding="utf-8"))
    broken["annotations"][1]["category_id"] = number
    Path(instances).write_text(json.dumps(broken), encoding="utf-8")
    with pytest.raises(InputError, match=r"instances.json: is not a JSON file of annotations"):
        build_table([instances])


def test_annotations_that_are_none(tmp_path):
    (tmp_path / "broken.json").write_text('{"annotations": [{"image_id": 4')
    with pytest.raises(InputError, match=r"broken.json: is not a JSON file of annotations"):
        build_table([str(tmp_path / "broken.json")])
    (tmp_path / "dragons.json").write_text(
        '{"annotations": [{"image_id": 4, "category_id": 1}], "categories": [{"id": 1, "name": "dragon"}]}'
    )
    with pytest.raises(InputError, match=r"dragons.json: 'dragon' is not an object of the vocabulary coco"):
        build_table([str(tmp_path / "dragons.json")])
    (tmp_path / "nameless.json").write_text('{"annotations": [{"image_id": 4, "category_id": 1}], "categories": []}')
    with pytest.raises(InputError, match=r"nameless.json: an entry without 1"):
        build_table([str(tmp_path / "nameless.json")])


def test_the_last_sentence_that_breaks_off(tmp_path):
    captions = CaptionSet.of(
        {"1": "A dog sits. There is also a cup on", "2": "A dog. A cup.", "3": "a cup"},
        columns={"objects": [["dog"]] * 3},
    )
    kept, dropped = (Chair("i", last_sentence=rule).measure(captions) for rule in ("keep", "drop"))
    assert kept.values.tolist() == [0.5, 0.5, 1] and dropped.values.tolist() == [0, 0.5, 1]
    assert "|unfinished:1|" in str(kept.signature) and "|unfinished:1|" in str(dropped.signature)
    assert kept.warnings == (
        "CHAIR: 1 caption breaks off in the last sentence (ids 1); last_sentence=drop leaves such sentences out",
    )
    assert dropped.warnings == ()


@pytest.mark.parametrize(
    ("text", "finished"),
    [
        ("A dog. It runs to the", "A dog."),
        ("A dog. It runs!", "A dog. It runs!"),
        ('A dog. It says "woof."', 'A dog. It says "woof."'),
        ("a dog on grass", "a dog on grass"),
        ("", ""),
        ("A dog. It runs. ", "A dog. It runs. "),
    ],
)
def test_where_the_finished_part_ends(text, finished):
    assert text[: find_finished_part(text)] == finished


def test_the_first_words():
    assert [take_first_words(" a  dog\nruns ", number) for number in (1, 2, 9)] == [" a", " a  dog", " a  dog\nruns"]
    with pytest.raises(InputError, match=r"chair\(max_words=-1\): expected at least 1"):
        Chair(max_words=-1)


def test_more_absent_objects_make_it_worse_by_as_much_as_they_should():
    """The dose and the response: with k wrong objects added, CHAIR_I is (h + k) / (m + k)."""
    for k in range(5):
        captions = CaptionSet.of({"1": "a dog and a cup" + " and a zebra" * k}, columns={"objects": [["dog"]]})
        assert Chair("i").measure(captions).corpus == pytest.approx((1 + k) / (2 + k))


def test_the_explanation_marks_right_wrong_and_unknown_objects():
    captions = CaptionSet.of({"7": "A dog with a cup is on a rug."}, columns={"objects": [["dog"]]})
    explanation = Chair("i").explain(captions, "7")
    (text,) = explanation.breakdown.texts
    assert str(text.phrase) == "candidate: A [dog]✓ with a [cup]✗ is on a [rug]?."
    assert [(part.name, part.adds, part.details["verdict"]) for part in explanation.parts] == [
        ("dog", 0.0, "right"),
        ("cup", 0.5, "wrong"),
    ]
    assert "in the image: dog" in explanation.breakdown.notes
    tones = [(span.text, span.tone) for span in text.phrase.spans if span.tone in ("good", "bad", "unsure")]
    assert tones == [("[dog]✓", "good"), ("[cup]✗", "bad"), ("[rug]?", "unsure")]


def test_the_page_shows_the_marked_caption_and_what_only_captions_know(tmp_path):
    captions = CaptionSet.of({"42": "A dog with a cup and a cat.", "99": "A cat."})
    metric = Chair("s", objects=table(tmp_path))
    first, second = metric.page_explanations(captions, [0, 1], metric.prepare(captions))
    assert first.summary == "1 of 3 mentions wrong: cat"
    lines = [str(line) for line in first.sections[0].paragraphs]
    assert lines[1:] == ["in the image: cup, dog", "known only from captions: cup"]
    assert second.summary == "image 99 is not in objects.parquet"
    assert str(second.sections[0].paragraphs[0]) == "candidate: A [cat]?."


def test_explanations_of_all_values_show_the_caption_twice(tmp_path):
    report = captious.evaluate(WHOLE, "chair", resampling=Resampling(0))
    notes = report.explain("1").document().notes
    assert notes == [
        "CHAIR recall 1.0000: the same objects are in CHAIR F1",
        "CHAIR_S 1.0000: the same mentions are in CHAIR_I",
    ]


def test_named_lists_of_images(tmp_path):
    ids = ["569", "COCO_val2014_000000001374.jpg", "5"]
    source = [{"id": key, "caption": "a dog", "objects": ["dog"]} for key in ids]
    chosen = captious.read(source, reading=Reading(items="pope-2000", missing="skip"))
    assert chosen.ids == ("569", "COCO_val2014_000000001374.jpg") and chosen.skipped == 1998
    assert "|list:pope-2000|" in str(Chair().measure(chosen).signature)
    with pytest.raises(InputError, match=r"1,998 of the 2,000 items of pope-2000 have no captions"):
        captious.read(source, reading=Reading(items="pope-2000"))
    with pytest.raises(InputError, match=r"items 'opera': no such list or file, expected one of .*opera-500"):
        captious.read(source, reading=Reading(items="opera"))
    (tmp_path / "mine.txt").write_text("5\n")
    assert captious.read(source, reading=Reading(items=str(tmp_path / "mine.txt"))).ids == ("5",)


NAMES = {
    "captions": "captions", "hallucinated_captions": "wrong_captions", "mentions": "mentions",
    "hallucinated_mentions": "wrong_mentions", "recalled": "right_objects", "truth": "truth", "distinct": "objects",
}  # fmt: skip


@pytest.mark.shared_data
@pytest.mark.parametrize(
    "file", ["opera_llava-1.5_greedy", "opera_instructblip_ours", "eos_r3-opera", "pope_mplug_short"]
)
def test_counts_are_those_of_the_original_under_three_settings(shared_data, coco_objects, nltk_tagger, file):
    with gzip.open(shared_data / "chair" / f"{file}.jsonl.gz", "rt") as rows:
        captions = captious.read({row["id"]: row["caption"] for row in map(json.loads, rows)})
    expected = json.loads((shared_data / "chair" / "expected.json").read_text())[file]
    original = Chair(objects=str(coco_objects))
    settings = {
        "singularize": original,
        "wordnet, truth singularize": Chair(
            objects=original.objects, lemmas="wordnet", truth_lemmas="singularize", tagger="nltk"
        ),
        "wordnet": Chair(objects=original.objects, lemmas="wordnet", tagger="nltk"),
    }
    for setting, metric in settings.items():
        counts = metric.examine(captions, metric.prepare(captions))[0].sum(axis=0)
        ours = dict(zip(STATISTICS, counts.tolist(), strict=True))
        assert {name: ours[own] for name, own in NAMES.items()} == {name: expected[setting][name] for name in NAMES}
        assert ours["tokens"] == pytest.approx(expected[setting]["tokens"], rel=2e-4)  # NLTK's sentences end otherwise
