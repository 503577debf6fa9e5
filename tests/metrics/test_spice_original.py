"""The original's own output, read beside captious's SPICE: joined by id, null is no value, wrong files get one line."""

import json

import numpy as np
import pytest

import captious
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse, parse_all
from captious.metrics.spice.original import SpiceOriginal
from captious.metrics.spice.spice import Spice

CAPTIONS = {"1": "a dog", "2": "a cat", "3": "a bird"}


def entry(key, f, **subsets):
    counts = {"pr": 0.5, "re": 0.5, "tp": 1, "fp": 1, "fn": 1}
    return {
        "image_id": key,
        "scores": {"All": {"f": f, **counts}, **{name: {"f": one} for name, one in subsets.items()}},
    }


@pytest.fixture
def output(tmp_path):
    """What the Java program writes, its images in another order than the captions."""
    path = tmp_path / "spice.json"
    path.write_text(json.dumps([entry(3, 0.3), entry(1, 0.1, Color=None), entry("2", 0.2, Color=0.5)]))
    return path


def test_values_are_joined_by_id(output):
    report = captious.evaluate(CAPTIONS, f"spice_original({output})", resampling=captious.Resampling(0))
    assert report["spice_original"].items == {"1": 0.1, "2": 0.2, "3": 0.3}
    assert report["spice_original"].corpus == pytest.approx(0.2)
    assert report.label(str(report["spice_original"].metric)) == "SPICE (original)"
    assert "|file:#" in str(report["spice_original"].signature)


def test_null_and_absent_ids_have_no_value(tmp_path):
    path = tmp_path / "spice.json"
    path.write_text(json.dumps([entry(1, 0.1, Color=None), entry(2, 0.2, Color=0.5)]))
    report = captious.evaluate(CAPTIONS, f"spice_original({path},subset=color)", resampling=captious.Resampling(0))
    assert report["spice_original"].items["2"] == 0.5
    assert report["spice_original"].reasons == {
        "1": "the original has no value",
        "3": "the original's output has no such id",
    }


def test_the_two_stand_side_by_side_with_their_correlation(output, monkeypatch):
    monkeypatch.setattr(Spice, "prepare", lambda self, captions: None)
    monkeypatch.setattr(Spice, "settings", lambda self, state: {})

    def measure(self, captions, state=None):
        from captious.metrics.measurement import Signature

        rows = np.array([[0.2, 1], [0.1, 1], [0.3, 1]])
        return Measurement(self, captions.ids, rows, Signature.of(self, captions, state, 0, {}))

    monkeypatch.setattr(Spice, "measure", measure)
    report = captious.evaluate(
        CAPTIONS, f"spice,spice_original({output})", resampling=captious.Resampling(0), references=CAPTIONS
    )
    # ours .2 .1 .3, the original's .1 .2 .3: both have mean .2; r = (0 + 0 + .01) / .02
    assert report.document().notes[1:] == [
        "SPICE (spaCy) beside SPICE (original), 3 items that both have: mean 0.2000 and 0.2000, "
        "Pearson correlation 0.5000."
    ]


def test_it_stands_beside_spice_of_the_same_subset_alone():
    original = SpiceOriginal("x.json", subset="color")
    assert original.compares_with(Spice(subset="color", synsets=False))
    assert not original.compares_with(Spice())
    assert not original.compares_with(Spice(subset="color", matching="soft"))
    assert not original.compares_with(parse("rouge"))


def test_all_leaves_it_out_as_it_needs_a_file():
    assert "spice_original" not in [metric.name for metric in parse_all("all")]


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("not json", "is not JSON, expected the output"),
        ("{}", "contains an object of nothing, expected the output"),
        ("[]", "contains a list of 0, expected the output"),
        ('[{"image_id": 1, "caption": "a dog"}]', "entry 1: an object of image_id, caption, expected the output"),
        ('[{"image_id": 1, "scores": {"Color": {}}}]', "entry 1: scores of Color, expected All"),
        ('[{"image_id": 1, "scores": {"All": {"f": "x"}}}]', "entry 1: f of All is 'x', expected a number from 0 to 1"),
        (json.dumps([entry(1, 0.1), entry("1", 0.1)]), "entry 2: image_id 1 occurs twice"),
        (json.dumps([entry(9, 0.1)]), "no such id"),
    ],
)
def test_wrong_files_get_one_line(tmp_path, content, message):
    path = tmp_path / "spice.json"
    path.write_text(content)
    with pytest.raises(captious.InputError) as error:
        captious.evaluate(CAPTIONS, f"spice_original({path})")
    assert message in str(error.value) and "spice.json" in str(error.value) and "\n" not in str(error.value)


def test_no_file_and_a_missing_one():
    with pytest.raises(captious.InputError, match="no file, expected spice_original"):
        captious.evaluate(CAPTIONS, "spice_original")
    with pytest.raises(captious.InputError, match=r"nowhere\.json: No such file"):
        captious.evaluate(CAPTIONS, "spice_original(nowhere.json)")
