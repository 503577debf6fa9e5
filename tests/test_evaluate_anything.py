"""``captious.evaluate(anything)``: every form of the data gives the same numbers, and a wrong one one line."""

import json
import subprocess
import sys
from typing import get_type_hints

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from PIL import Image

import captious
from captious import CaptionSet, InputError, Item, Measurement, Reading, Resampling
from captious.metrics.measurement import ItemValues

IDS = ["391895", "7"]
CAPTIONS = ["a cat", "a dog runs"]
REFERENCES = [["a cat"], ["the dog runs", "dogs"]]
BY_ID, REFERENCES_BY_ID = dict(zip(IDS, CAPTIONS, strict=True)), dict(zip(IDS, REFERENCES, strict=True))
RECORDS = [{"image_id": int(key), "caption": text} for key, text in BY_ID.items()]
COMPLETE = [{**record, "references": texts} for record, texts in zip(RECORDS, REFERENCES, strict=True)]
ITEMS = [Item(key, (BY_ID[key],), tuple(REFERENCES_BY_ID[key])) for key in IDS]
COCO = {
    "images": [{"id": int(key), "file_name": f"{key}.jpg"} for key in IDS],
    "annotations": [{"image_id": int(k), "caption": text} for k, texts in REFERENCES_BY_ID.items() for text in texts],
}
QUICK = {"metrics": "rouge", "resampling": Resampling(samples=0)}
# By hand: equal; of three words "dog runs" in order, so precision = recall = F = 2/3.
ROUGE = [1.0, 2 / 3]

SOURCES = {
    "a dict": lambda: BY_ID,
    "a dict with numbers as ids": lambda: {int(key): text for key, text in BY_ID.items()},
    "a dict of lists": lambda: {key: [text] for key, text in BY_ID.items()},
    "records": lambda: RECORDS,
    "a tuple of records": lambda: tuple(RECORDS),
    "a generator of records": lambda: (record for record in RECORDS),
    "a frame": lambda: pd.DataFrame(RECORDS),
    "a frame with the id as index": lambda: pd.DataFrame({"caption": CAPTIONS}, index=IDS),
    "a frame with a named index": lambda: pd.DataFrame(RECORDS).set_index("image_id"),
    "a series": lambda: pd.Series(BY_ID),
    "an Arrow table": lambda: pa.Table.from_pylist(RECORDS),
    "an Arrow batch": lambda: pa.RecordBatch.from_pylist(RECORDS),
    "a reader of Arrow batches": lambda: pa.Table.from_pylist(RECORDS).to_reader(),
    "items": lambda: [Item(key, (text,)) for key, text in BY_ID.items()],
    "a generator of items": lambda: iter(CaptionSet.of(BY_ID)),
    "a set": lambda: CaptionSet.of(BY_ID),
}
OTHER_REFERENCES = {
    "a dict": lambda: REFERENCES_BY_ID,
    "lists in the order of the captions": lambda: REFERENCES,
    "tuples": lambda: tuple(map(tuple, REFERENCES)),
    "a generator of lists": lambda: (texts for texts in REFERENCES),
    "arrays": lambda: [np.array(texts) for texts in REFERENCES],
    "records": lambda: [{"id": key, "references": texts} for key, texts in REFERENCES_BY_ID.items()],
    "COCO annotations": lambda: COCO,
    "a frame": lambda: pd.DataFrame({"id": IDS, "references": REFERENCES}),
    "a frame with the id as index": lambda: pd.DataFrame({"references": REFERENCES}, index=IDS),
    "a series": lambda: pd.Series(REFERENCES, index=IDS),
    "an Arrow table": lambda: pa.table({"id": IDS, "references": REFERENCES}),
    "items": lambda: ITEMS,
    "a set": lambda: CaptionSet.of(BY_ID, REFERENCES_BY_ID),
    "a set of people's captions": lambda: CaptionSet.of(REFERENCES_BY_ID),
}
WITH_REFERENCES = {
    "records": lambda: COMPLETE,
    "a frame": lambda: pd.DataFrame(COMPLETE),
    "a frame without ids": lambda: pd.DataFrame({"caption": CAPTIONS, "references": REFERENCES}, index=IDS),
    "an Arrow table": lambda: pa.Table.from_pylist(COMPLETE),
    "items": lambda: ITEMS,
    "a set": lambda: CaptionSet.of(BY_ID, REFERENCES_BY_ID),
}


@pytest.mark.parametrize("form", SOURCES)
def test_captions_of_every_form_give_the_same_numbers(form):
    report = captious.evaluate(SOURCES[form](), references=REFERENCES_BY_ID, **QUICK)
    assert report["rouge"].values == pytest.approx(ROUGE) and list(report.captions.ids) == IDS


@pytest.mark.parametrize("form", OTHER_REFERENCES)
def test_references_of_every_form_give_the_same_numbers(form):
    report = captious.evaluate(BY_ID, references=OTHER_REFERENCES[form](), **QUICK)
    assert report["rouge"].values == pytest.approx(ROUGE)
    assert captious.check(BY_ID, references=OTHER_REFERENCES[form]()).errors == ()


@pytest.mark.parametrize("form", WITH_REFERENCES)
def test_one_object_may_hold_captions_and_references(form):
    assert captious.evaluate(WITH_REFERENCES[form](), **QUICK)["rouge"].values == pytest.approx(ROUGE)


@pytest.mark.parametrize(
    "source", [CAPTIONS, tuple(CAPTIONS), iter(CAPTIONS), np.array(CAPTIONS), [[t] for t in CAPTIONS]]
)
def test_a_list_of_captions_has_its_positions_as_ids(source):
    report = captious.evaluate(source, references=REFERENCES, **QUICK)
    assert report["rouge"].values == pytest.approx(ROUGE) and report.captions.ids == ("0", "1")


def test_a_list_of_references_may_hold_one_reference_each():
    assert captious.evaluate(CAPTIONS, references=["a cat", "the dog runs"], **QUICK)["rouge"].values == pytest.approx(
        ROUGE
    )


def test_a_polars_frame_gives_the_same_numbers():
    polars = pytest.importorskip("polars")
    report = captious.evaluate(polars.DataFrame(COMPLETE), **QUICK)
    assert report["rouge"].values == pytest.approx(ROUGE)


def test_a_set_gets_its_references_once():
    report = captious.evaluate(
        CaptionSet.of(BY_ID, columns={"style": ["plain", "odd"]}), references=REFERENCES, **QUICK
    )
    assert report.captions["7"].references == ("the dog runs", "dogs") and report.captions["7"].fields == {
        "style": "odd"
    }
    with pytest.raises(InputError, match="has its references already"):
        captious.read(CaptionSet.of(BY_ID, REFERENCES_BY_ID), references=REFERENCES)


EXPECTED = (
    r"expected a path, \{id: caption\}, a list of captions or of records, a data frame, an Arrow table or a CaptionSet"
)
NAMED = r"pass references by name, references=\.\.\."
WRONG = {
    "None": (lambda: captious.evaluate(None), f"captions: None, {EXPECTED}"),
    "a number": (lambda: captious.evaluate(391895), rf"captions: int \(391895\), {EXPECTED}"),
    "bytes": (lambda: captious.evaluate(b"{}"), "captions: bytes"),
    "a set of texts": (lambda: captious.evaluate({"a cat"}), r"captions: set \(\{'a cat'\}\)"),
    "a class": (lambda: captious.evaluate(CaptionSet), "captions: type"),
    "a function": (lambda: captious.evaluate(len), "captions: builtin_function_or_method"),
    "numbers": (
        lambda: captious.evaluate(i for i in range(3)),
        r"captions: entry 1: is int \(0\), expected a caption, a list",
    ),
    "a dict of numbers": (
        lambda: captious.evaluate({"a": 1}),
        r"captions: id 'a': caption is a number \(1\), expected a str",
    ),
    "a list of None": (lambda: captious.evaluate([None]), "captions: entry 1: is None, expected a caption"),
    "a hole in a list": (lambda: captious.evaluate(["a cat", None]), r"captions: entry 2: caption is null"),
    "nothing": (lambda: captious.evaluate([]), "captions: contains no captions"),
    "a caption": (lambda: captious.evaluate("a cat sits"), f"a cat sits: no such file, {EXPECTED}"),
    "an item among others": (
        lambda: captious.evaluate([ITEMS[0], "a"]),
        "captions: entry 2: is str .*expected an Item",
    ),
    "a frame without captions": (
        lambda: captious.evaluate(pd.DataFrame({"x": [1]})),
        "row 1: no candidate caption: found",
    ),
    "a reference as text": (
        lambda: captious.evaluate(BY_ID, references="a cat sits"),
        "a cat sits: no such file, expected",
    ),
    "references of numbers": (
        lambda: captious.evaluate(CAPTIONS, references=[1, 2]),
        r"references: entry 1: is int \(1\)",
    ),
    "a number of references": (
        lambda: captious.evaluate(BY_ID, references=5),
        r"references: int \(5\), expected a path",
    ),
    "too few references": (
        lambda: captious.evaluate(CAPTIONS, references=REFERENCES[:1]),
        "references: 1 for 2 captions, expected one each, in their order$",
    ),
    "references by number, then by caption": (
        lambda: captious.evaluate(["a", "b", "c"], references=[["a", "b", "c"], ["d", "e", "f"]]),
        r"references: 2 for 3 captions, .*pass list\(zip\(\*references\)\)",
    ),
    "metrics as a number": (
        lambda: captious.evaluate(BY_ID, 123),
        "metrics: int, expected written metrics such as 'bleu,",
    ),
    "no metrics": (lambda: captious.evaluate(BY_ID, None), "metrics: NoneType, expected written metrics"),
    "metrics of numbers": (lambda: captious.evaluate(BY_ID, [1]), "metrics: contains int, expected written metrics"),
    "references second, a dict": (lambda: captious.evaluate(BY_ID, REFERENCES_BY_ID), f"metrics: dict, .*{NAMED}"),
    "references second, lists": (lambda: captious.evaluate(CAPTIONS, REFERENCES), f"metrics: contains list, .*{NAMED}"),
    "references second, texts": (
        lambda: captious.evaluate(CAPTIONS, ["a cat", "the dog"]),
        f"the metric 'a cat'.*{NAMED}",
    ),
    "references second, a file": (lambda: captious.evaluate("p.json", "refs.json"), f"the metric 'refs.json'.*{NAMED}"),
    "references second, a frame": (
        lambda: captious.evaluate(BY_ID, pd.DataFrame(COMPLETE)),
        f"metrics: DataFrame, .*{NAMED}",
    ),
    "references second, a set": (
        lambda: captious.evaluate(BY_ID, CaptionSet.of(BY_ID)),
        f"metrics: CaptionSet, .*{NAMED}",
    ),
    "a misspelt metric": (lambda: captious.evaluate(BY_ID, "cidr"), "^unknown metric 'cidr'; did you mean 'cider'\\? "),
    "resamples as a number": (
        lambda: captious.evaluate(BY_ID, "rouge", resampling=1000),
        r"resampling: int, .*Resampling\(samples=1000\)",
    ),
    "a device as runtime": (
        lambda: captious.evaluate(BY_ID, runtime="cpu"),
        r"runtime: str, .*Runtime\(device='cpu'\)",
    ),
    "progress=True": (lambda: captious.evaluate(BY_ID, progress=True), "progress: bool, expected a function"),
    "systems as text": (lambda: captious.compare("a.json"), r"systems: str, expected \{name: captions\} or a list"),
    "two files, not in a list": (
        lambda: captious.compare("a.json", "b.json"),
        r"systems: str, expected \{name: captions\} or a list",
    ),
    "captions and references swapped": (
        lambda: captious.evaluate([{"image_id": 1, "caption": "a"}] * 2, references={"1": "a"}),
        r"occurs more than once .*; swap the two files if this one contains the references, "
        r"pass reading=Reading\(several=True\)",
    ),
    "a metric as the number of the worst": (
        lambda: captious.evaluate(CAPTIONS, "rouge", references=REFERENCES).worst("rouge"),
        "worst: number is 'rouge', expected a whole number; pass a metric as metric=...",
    ),
    "less than none of the worst": (
        lambda: captious.evaluate(CAPTIONS, "rouge", references=REFERENCES).worst(-1),
        "worst: number is -1, expected a whole number",
    ),
    "a spreadsheet to save": (
        lambda: captious.evaluate(CAPTIONS, "rouge", references=REFERENCES).save("scores.xlsx"),
        "scores.xlsx: expected a folder, or a file that ends in .csv, .json",
    ),
    "an unknown test": (
        lambda: captious.compare([CAPTIONS, CAPTIONS], "rouge", references=REFERENCES, test="bootstrp"),
        "test='bootstrp', expected randomization or bootstrap; did you mean 'bootstrap'",
    ),
    "an unknown convention": (
        lambda: captious.compare([CAPTIONS, CAPTIONS], "rouge", references=REFERENCES, convention="one-sided"),
        "convention='one-sided', expected two-sided or sacrebleu",
    ),
    "no permutations": (
        lambda: captious.compare([CAPTIONS, CAPTIONS], "rouge", references=REFERENCES, permutations=0),
        "permutations 0, expected a whole number of at least 1",
    ),
    "systems as numbers": (lambda: captious.compare([1, 2]), r"captions: int \(1\), expected a path"),
    "no systems": (lambda: captious.compare(None), "systems: NoneType"),
    "a second system as metrics": (lambda: captious.compare(BY_ID, BY_ID), f"metrics: dict, .*{NAMED}"),
    "one system": (lambda: captious.compare([BY_ID], "rouge"), "1 system given, expected at least two"),
    "images as a number": (
        lambda: captious.evaluate(BY_ID, images=3),
        "images: int, expected a folder, a list in the order",
    ),
    "images of numbers": (
        lambda: captious.evaluate(BY_ID, images=[1, 2]),
        "images: that of 391895 is int, expected a path, a PIL",
    ),
    "too few images": (lambda: captious.evaluate(BY_ID, images=["a.jpg"]), "images: 1 for 2 captions, expected one"),
    "no such folder": (lambda: captious.evaluate(BY_ID, images="nowhere"), "nowhere: no such folder of images"),
    "images of other ids": (
        lambda: captious.evaluate(BY_ID, images={"x": "y.jpg"}),
        "images: no id is also one of the cap",
    ),
    "one image": (lambda: captious.evaluate(BY_ID, images=np.zeros((8, 8, 3))), "images: one image, expected a folder"),
    "images of no such shape": (
        lambda: captious.evaluate(BY_ID, images=np.zeros((2, 8, 8, 7))),
        "image of 391895: an array of shape 8 × 8 × 7, expected height × width × 3, or 3 × height × width",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_a_wrong_argument_gets_one_line_that_says_what_was_expected(case):
    call, line = WRONG[case]
    with pytest.raises(InputError, match=line) as caught:
        call()
    assert "\n" not in str(caught.value) and caught.value.__cause__ is None


def test_what_a_message_of_lacking_ids_says_works():
    captions, references = {"1": "a cat", "2": "a dog"}, {"1": "a cat"}
    with pytest.raises(InputError, match=r"pass reading=Reading\(missing='skip'\)"):
        captious.evaluate(captions, "rouge", references=references)
    skipping = Reading(missing="skip")
    for options in ({"missing": "skip"}, {"reading": skipping}):
        report = captious.evaluate(captions, "rouge", references=references, **options)
        assert report.captions.ids == ("1",) and "skipped:1" in report.signatures[0]
    assert captious.read(captions, references=references, reading=skipping).ids == ("1",)
    systems = {"a": captions, "b": captions}
    assert captious.compare(systems, "rouge", references=references, reading=skipping).differences[0].items == 1


def test_the_options_of_reading_are_an_argument_where_captions_are_read():
    rows = [{"photo": number, "mine": text, "gold": "a dog"} for number in "12" for text in ("a dog", "a cat")]
    reading = Reading(id_column="photo", candidate_column="mine", references_column="gold", several=True)
    report = captious.evaluate(rows, "rouge", reading=reading)
    assert report.captions["1"].candidates == ("a dog", "a cat")
    result = captious.compare({"a": rows, "b": rows}, "rouge", reading=reading)
    assert result.reports["b"].captions["2"].references == ("a dog",)  # both rows of the item say it
    for call in (captious.evaluate, lambda captions, **options: captious.compare([captions, captions], **options)):
        with pytest.raises(InputError, match=r"reading: dict, expected one such as Reading\(id_column='photo'\)"):
            call({"1": "a"}, references={"1": "a"}, reading={"several": True})


def test_modules_are_attributes_without_an_import_of_their_own():
    code = "import captious; print(captious.metrics.__name__, captious.probes.__name__, captious.options.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.split() == ["captious.metrics", "captious.probes", "captious.options"]
    with pytest.raises(AttributeError, match="module 'captious' has no attribute 'metrcis'"):
        captious.metrcis  # noqa: B018


def test_an_id_that_is_a_number_passes_type_checkers():
    """As the guide writes it: report["rouge"].items[1]. What mypy reads are these two annotations."""
    kind = get_type_hints(Measurement.items.func)["return"]
    assert kind is ItemValues and get_type_hints(kind.__getitem__) == {"key": object, "return": float}


def test_an_interval_is_found_as_its_metric_is():
    report = captious.evaluate(CAPTIONS, "bleu(n=4), rouge", references=REFERENCES)
    assert report.intervals["bleu"] is report.intervals["BLEU-4"] is report.intervals["bleu(n=4)"]
    with pytest.raises(KeyError, match="no metric 'cider'; there are bleu"):
        report.intervals["cider"]


def test_check_collects_what_read_refuses():
    for source in (None, 3, [None], {"a": 1}):
        assert captious.check(source).errors


def test_systems_in_a_list_are_called_by_their_files_and_sets_else_by_number(tmp_path):
    for folder in ("x", "y"):
        (tmp_path / folder).mkdir()
        (tmp_path / folder / "preds.json").write_text(json.dumps(BY_ID))
    one, other = tmp_path / "x" / "preds.json", tmp_path / "y" / "preds.json"
    (tmp_path / "last.json").write_text(json.dumps(BY_ID))

    def names(*systems):
        return list(captious.compare(systems, "rouge", references=REFERENCES_BY_ID, permutations=10).reports)

    assert names(one, tmp_path / "last.json") == ["preds", "last"]
    assert names(one, other) == [str(one), str(other)]
    assert names(BY_ID, CaptionSet.of(BY_ID, name="runs/best.json")) == ["system-1", "best"]
    assert names(BY_ID, BY_ID) == ["system-1", "system-2"]


def test_systems_may_be_lists_of_captions_and_reports():
    better = ["a cat", "the dog runs"]
    result = captious.compare({"a": CAPTIONS, "b": better}, "rouge", references=REFERENCES, permutations=10)
    assert result.reports["b"]["rouge"].corpus == 1.0
    reports = {
        name: captious.evaluate(texts, "rouge", references=REFERENCES)
        for name, texts in (("a", CAPTIONS), ("b", better))
    }
    assert captious.compare(reports, "rouge", permutations=10).differences == result.differences


def test_an_id_may_be_asked_for_as_text_or_number():
    report = captious.evaluate(BY_ID, references=REFERENCES_BY_ID, **QUICK)
    items = report["rouge"].items
    assert items[391895] == items["391895"] == items.get(391895) == 1.0 and 391895 in items and 5 not in items
    assert items.get("5") is None and report.captions[391895].candidate == "a cat"
    for ask in (items.__getitem__, report.captions.__getitem__):
        with pytest.raises(InputError, match="no item with id '5'; ids are such as '391895'"):
            ask(5)
        with pytest.raises(KeyError):
            ask("5")
    with pytest.raises(InputError, match=r"no item with id '0'; .*item\(0\) is the item at that position"):
        report.captions[0]
    with pytest.raises(InputError, match="no metric 'spam'; there are rouge"):
        report["spam"]


# One of six pairs is discordant: tau-b = (5 − 1) / 6.
PEOPLE, VALUES = {"a": 1, "b": 2, "c": 3, "d": 4}, {"a": 0.1, "b": 0.3, "c": 0.2, "d": 0.9}
RATED = [
    {"id": key, "image": f"{key}.jpg", "caption": text, "references": [other], "rating": rating}
    for key, text, other, rating in (
        ("1", "a cat", "a cat", 4), ("2", "a dog", "the dog runs", 2), ("3", "birds", "a bird", 1),
        ("4", "two men", "two men walk", 3),
    )
]  # fmt: skip
NO_INTERVALS = Resampling(samples=0)


@pytest.mark.parametrize(
    ("ratings", "measurements"),
    [
        (PEOPLE, {"m": VALUES}),
        (pd.Series(PEOPLE), {"m": pd.Series(VALUES)}),
        (pd.DataFrame({"id": list(PEOPLE), "rating": list(PEOPLE.values())}), {"m": VALUES}),
        ([{"id": key, "rating": rating} for key, rating in PEOPLE.items()], pd.DataFrame({"m": VALUES})),
    ],
)
def test_ratings_and_scores_of_every_form_give_the_same_correlation(ratings, measurements):
    study = captious.correlate(ratings, measurements, resampling=NO_INTERVALS)
    assert study.estimates["m"]["tau_b"].value == pytest.approx(4 / 6)


def test_rated_captions_may_be_records_a_frame_or_an_arrow_table_with_references_of_any_form():
    bare = [{key: value for key, value in row.items() if key != "references"} for row in RATED]
    references = {row["image"]: row["references"] for row in RATED}
    studies = [
        captious.correlate(RATED, "rouge", resampling=NO_INTERVALS),
        captious.correlate(pd.DataFrame(RATED), ["rouge"], resampling=NO_INTERVALS),
        captious.correlate(pa.Table.from_pylist(RATED), captious.metric("rouge"), resampling=NO_INTERVALS),
        captious.correlate(bare, "rouge", references=references, resampling=NO_INTERVALS),
    ]
    with pytest.raises(InputError, match=r"references=\.\.\. and images=\.\.\. are for ratings in a file"):
        captious.correlate(PEOPLE, {"m": VALUES}, references={})
    # ROUGE-L falls as the ratings do: 1, two of three words, one of three, none.
    assert [study.estimates["rouge"]["tau_b"].value for study in studies] == pytest.approx([1.0] * 4)


def labels():
    """Captions that tell the label where people's do not."""
    people = ["a person runs", "someone sits", "a person", "one", "two"]
    texts = ("a quick runner", "a calm reader")
    return [
        {"id": number, "caption": texts[number % 2], "gender": ("male", "female")[number % 2], "references": people}
        for number in range(40)
    ]


def test_an_audit_takes_captions_by_name_in_a_list_or_alone():
    from captious.bias import protocol_for, read_subjects

    labeled = labels()
    protocol = protocol_for("gender", seeds=1)
    values = [
        captious.audit(subjects, protocol, label="gender").rows[0].lic.lic
        for subjects in ({"x": labeled}, [pd.DataFrame(labeled)], pa.Table.from_pylist(labeled))
    ]
    values.append(captious.audit(read_subjects({"x": labeled}, "gender"), protocol).rows[0].lic.lic)
    assert values == [values[0]] * 4 and values[0] > 10
    two = captious.audit({"x": labeled, "y": labeled}, protocol, label="gender")
    assert [row.corpus.subject.name for row in two.rows] == ["x", "y"]


WRONG_AUDITS = {
    "an audit without a label": (
        lambda: captious.audit({"x": RATED}),
        "label: None, expected the column of the labels",
    ),
    "an audit of nothing": (lambda: captious.audit(None, label="gender"), "captions: None, expected a path"),
    "no subjects": (lambda: captious.audit([]), "no captions to audit"),
    "a label as protocol": (
        lambda: captious.audit({"x": labels()}, "gender", label="gender"),
        r"protocol: str, expected one such as protocol_for\('gender'\)",
    ),
    "a classifier by name": (
        lambda: captious.audit({"x": labels()}, classifiers="linear", label="gender"),
        r"classifiers: expected a list of them, such as \[Linear\(\)\]",
    ),
    "a misspelt label": (
        lambda: captious.audit({"x": labels()}, label="gendr"),
        "no column 'gendr'.*did you mean 'gender'",
    ),
}


@pytest.mark.parametrize("case", WRONG_AUDITS)
def test_a_wrong_argument_of_an_audit_gets_one_line(case):
    call, line = WRONG_AUDITS[case]
    with pytest.raises(InputError, match=line) as caught:
        call()
    assert "\n" not in str(caught.value)


MINI = "clipscore(captious-mini)"


@pytest.fixture
def pictures():
    rng = np.random.default_rng(1)
    return [rng.integers(0, 256, (40 + number, 60, 3), dtype=np.uint8) for number in range(2)]


@pytest.fixture
def folder(pictures, tmp_path):
    photos = tmp_path / "photos"
    photos.mkdir()
    for key, pixels in zip(IDS, pictures, strict=True):
        Image.fromarray(pixels).save(photos / f"{key}.png")
    return photos


def scores(images, captions=BY_ID):
    return captious.evaluate(captions, MINI, resampling=Resampling(samples=0), images=images)


IMAGES = {
    "paths": lambda arrays, folder: [folder / f"{key}.png" for key in IDS],
    "paths by id": lambda arrays, folder: {int(key): str(folder / f"{key}.png") for key in IDS},
    "PIL images": lambda arrays, folder: [Image.fromarray(array) for array in arrays],
    "PIL images not yet read": lambda arrays, folder: [Image.open(folder / f"{key}.png") for key in IDS],
    "arrays": lambda arrays, folder: arrays,
    "arrays by id": lambda arrays, folder: dict(zip(IDS, arrays, strict=True)),
    "a generator": lambda arrays, folder: iter(arrays),
    "floats": lambda arrays, folder: [array / 255 for array in arrays],
    "half floats": lambda arrays, folder: [(array / 255).astype(np.float16) for array in arrays],
    "whole numbers": lambda arrays, folder: [array.astype(np.int64) for array in arrays],
    "channels first": lambda arrays, folder: [array.transpose(2, 0, 1) for array in arrays],
    "bytes of files": lambda arrays, folder: [(folder / f"{key}.png").read_bytes() for key in IDS],
    "as data sets hold them": lambda arrays, folder: [{"bytes": (folder / f"{k}.png").read_bytes()} for k in IDS],
}


@pytest.mark.parametrize("form", IMAGES)
def test_images_of_every_form_give_the_same_numbers(pictures, folder, form):
    expected = scores(folder)[MINI].values
    assert scores(IMAGES[form](pictures, folder))[MINI].values == pytest.approx(expected, abs=1e-6)
    assert np.ptp(expected) > 0.001


def test_tensors_give_the_same_numbers(pictures, folder):
    torch = pytest.importorskip("torch")
    tensors = [torch.from_numpy(array).permute(2, 0, 1) for array in pictures]
    expected = scores(folder)[MINI].values
    for images in (tensors, [one / 255 for one in tensors], [(one / 255).requires_grad_() for one in tensors]):
        assert scores(images)[MINI].values == pytest.approx(expected, abs=1e-6)
    square = torch.stack([one[:, :40, :40] for one in tensors])
    assert scores(square)[MINI].values == pytest.approx(scores(square.permute(0, 2, 3, 1).numpy())[MINI].values)


@pytest.mark.parametrize("source", ["records", "frame", "set"])
def test_a_column_may_hold_images_in_memory(pictures, folder, source):
    shown = [Image.fromarray(array) for array in pictures]
    captions = {
        "records": [{**record, "image": one} for record, one in zip(RECORDS, shown, strict=True)],
        "frame": pd.DataFrame({"caption": CAPTIONS, "image": shown}, index=IDS),
        "set": CaptionSet.of(BY_ID, columns={"image": shown}),
    }[source]
    report = scores(None, captions)
    assert report[MINI].items == pytest.approx(scores(folder)[MINI].items, abs=1e-6)
    assert list(report.captions.ids) == IDS


def test_images_follow_the_captions_when_items_are_left_out(pictures, folder):
    reading = captious.Reading(missing="skip")
    captions = captious.read(BY_ID, references={"7": ["a dog"]}, images=pictures, reading=reading)
    assert captions.ids == ("7",) and captions.images[0].picture().size == (60, 41)
    assert captions.take([0]).images == captions.images


def test_pixels_out_of_range_are_refused_and_cost_their_item_alone(pictures):
    normalized = (pictures[0] / 255 - 0.5) / 0.25
    with pytest.raises(
        InputError,
        match="cannot score captions: image: has floats from -2 to 2, expected floats from 0 to 1; is it norm",
    ):
        scores([normalized, normalized])
    report = scores([pictures[0], pictures[1].astype(np.int32) + 100])
    assert report[MINI].reasons == {
        "7": "image: has whole numbers from 100 to 355, expected whole numbers from 0 to 255"
    }


def test_an_image_in_memory_is_encoded_once_and_cached_by_content(pictures, monkeypatch):
    from captious.models import load

    encoded = []
    kind = type(load("captious-mini"))
    compute = kind.image_features
    monkeypatch.setattr(
        kind, "image_features", lambda self, pixels: encoded.append(len(pixels)) or compute(self, pixels)
    )
    captions = {str(number): f"caption {number}" for number in range(6)}
    scores([pictures[number % 2] for number in range(6)], captions)
    assert sum(encoded) == 2
    scores([Image.fromarray(pictures[number % 2].copy()) for number in range(6)], captions)
    assert sum(encoded) == 2


def test_images_in_memory_are_shown_on_the_page_and_written_nowhere_else(pictures, tmp_path):
    report = scores([Image.fromarray(array) for array in pictures])
    report.save(tmp_path / "run")
    assert (tmp_path / "run" / "report.html").read_text().count("data:image/") == 2
    for name in ("report.json", "items.csv", "captious-run.json"):
        assert "image of" not in (tmp_path / "run" / name).read_text()
    assert "image" not in pa.parquet.read_table(tmp_path / "run" / "items" / "captions.parquet").column_names
    assert {path.suffix for path in (tmp_path / "run").rglob("*") if path.is_file()} <= {
        ".json",
        ".jsonl",
        ".csv",
        ".parquet",
        ".html",
        ".tex",
        ".txt",
    }
    assert captious.check(BY_ID, images=pictures).errors == ()
