"""densecap: the values of densevid_eval."""

import gzip
import json
import random

import numpy as np
import pytest
from tests.metrics.dense.conftest import PREDICTIONS, REFERENCES

import captious
from captious import Resampling
from captious.errors import InputError
from captious.io.formats import FileList
from captious.metrics.registry import parse
from captious.options import Reading

THRESHOLDS = ("0.3", "0.5", "0.7", "0.9")


def percent(form, captions):
    return 100 * parse(form).measure(captions).corpus


# v1 has the pairs (cuts, slices) of iou .9 − 1e-10, (eats it, eats the tomato) of 8/9, and "the end" without a
# reference; at .9 nothing is paired. v2 counts 0, so a value is half of that of v1.
# BLEU-1: 3 + 2 of 10 words match, and no brevity penalty: 5 + 3 + 2 words against 5 + 4 + 1: 6/10 / 2.
# METEOR and CIDEr-D: computed for the specification by the program of MDVC's authors with Java METEOR.
SMALL = {
    "meteor": (19.6900, 19.6900, 19.6900, 0, 14.7675),
    "meteor,rules=2018": (14.5578, 14.5578, 14.5578, 0, 10.9184),
    "bleu-1": (30, 30, 30, 0, 22.5),
    "rouge": (22.6180, 22.6180, 22.6180, 0, 16.9635),
    "rouge,rules=2018": (22.6180, 22.6180, 22.6180, 0, 16.9635),
    "cider": (99.2786, 99.2786, 99.2786, 0, 74.4589),
    "cider,rules=2018": (99.2786, 99.2786, 99.2786, 0, 74.4589),
    "precision": (100 / 3, 100 / 3, 100 / 3, 0, 25),
    "recall": (50, 50, 50, 0, 37.5),
    # F of the means: 2 · 1/3 · 1/2 / (1/3 + 1/2) = .4
    "f": (40, 40, 40, 0, 30),
}


@pytest.mark.parametrize("form", SMALL)
def test_the_small_example(form, small, request):
    if form.startswith("meteor"):
        request.getfixturevalue("meteor_home")
        request.getfixturevalue("compiled_meteor")
    *at, mean = SMALL[form]
    values = [percent(f"densecap({form},tiou={threshold})", small) for threshold in THRESHOLDS]
    assert values == pytest.approx(at, abs=1e-4)
    assert percent(f"densecap({form})", small) == pytest.approx(mean, abs=1e-4)


def one_video(predicted, referenced, **options):
    """Read a video with (start, end, sentence) of each event."""
    predictions = {"v": [{"sentence": text, "timestamp": [start, end]} for start, end, text in predicted]}
    references = {
        "v": {
            "timestamps": [[start, end] for start, end, _ in referenced],
            "sentences": [text for *_, text in referenced],
        }
    }
    return captious.read(predictions, references=references, reading=Reading(**options))


def test_an_overlap_of_nine_tenths_does_not_reach_nine_tenths():
    captions = one_video([(0, 9, "a dog")], [(0, 10, "a dog")])
    # 9 / (10 + 1e-8) is below .9
    assert percent("densecap(rouge,tiou=0.9)", captions) == 0
    assert percent("densecap(rouge,tiou=0.89)", captions) == pytest.approx(100)


def test_pairing_reaches_the_threshold_and_precision_exceeds_it():
    # iou of [0, 1] and [0, 2] is 1 / (2 + 1e-8), the double just below .5; of equal events 1 / (1 + 1e-8)
    captions = one_video([(0, 1, "a dog"), (5, 6, "a cat")], [(0, 2, "a dog"), (5, 6, "a cat")])
    exact = 1 / (2 + 1e-8)
    assert percent(f"densecap(rouge,tiou={exact!r})", captions) == pytest.approx(100)
    assert percent(f"densecap(precision,tiou={exact!r})", captions) == pytest.approx(50)


def test_a_prediction_is_paired_with_every_reference_that_it_overlaps():
    captions = one_video([(0, 10, "a dog")], [(0, 9, "a dog"), (0, 10, "a cat")])
    # ROUGE-L of "a dog" and "a cat" is 1/2; at .5 both references count, at .95 only the second
    assert percent("densecap(rouge,tiou=0.5)", captions) == pytest.approx(75)
    assert percent("densecap(rouge,tiou=0.95)", captions) == pytest.approx(50)


def test_an_empty_list_is_a_prediction_of_nothing():
    references = {
        "v": {"timestamps": [[0, 9]], "sentences": ["a dog"]},
        "w": {"timestamps": [[0, 9]], "sentences": ["x"]},
    }
    predictions = {"v": [{"sentence": "a dog", "timestamp": [0, 9]}], "w": []}
    captions = captious.read(predictions, references=references)
    measured = parse("densecap(rouge)").measure(captions)
    assert measured.items["w"] == 0 and measured.corpus == pytest.approx(0.5)
    assert "missing" not in str(measured.signature)


def test_a_set_without_usable_items_has_one_line(tmp_path):
    empty = {"v": {"timestamps": [], "sentences": []}}
    captions = captious.read(empty, references={"v": {"timestamps": [[0, 9]], "sentences": ["a dog"]}})
    assert parse("densecap(f)").measure(captions).corpus == 0
    assert len(parse("densecap(f)").measure(captions.take([])).values) == 0


def test_most_takes_the_first_predictions_of_the_file():
    captions = one_video([(5, 9, "a cat"), (0, 4, "a dog")], [(0, 4, "a dog")])
    assert percent("densecap(precision,most=1)", captions) == 0
    assert percent("densecap(precision)", captions) == pytest.approx(50)


def test_the_order_of_the_file_changes_nothing(small):
    references = {key: dict(value) for key, value in reversed(REFERENCES.items())}
    predictions = {"v1": list(reversed(PREDICTIONS["v1"]))}
    shuffled = captious.read(predictions, references=references, missing="zero")
    for form in ("rouge", "cider", "bleu-2", "f"):
        assert percent(f"densecap({form})", shuffled) == pytest.approx(percent(f"densecap({form})", small), abs=1e-12)


@pytest.fixture
def two_files(tmp_path):
    """Files of two annotators; the second one has one event of one of the two videos."""
    first = {
        "v": {"timestamps": [[0, 9]], "sentences": ["a dog"]},
        "w": {"timestamps": [[0, 9]], "sentences": ["a cat"]},
    }
    second = {"v": {"timestamps": [[0, 4]], "sentences": ["two cats"]}}
    for name, content in (("one", first), ("two", second)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    predictions = {"v": [{"sentence": "a dog", "timestamp": [0, 9]}], "w": [{"sentence": "a dog", "timestamp": [0, 9]}]}
    return captious.read(predictions, references=FileList(str(tmp_path / f"{name}.json") for name in ("one", "two")))


def test_two_files_jointly_or_each_by_itself(two_files):
    # v: 1 with the first file, 0 with the second (iou .44); w: "a dog" and "a cat" share half, in the first file only
    assert percent("densecap(rouge,tiou=0.4)", two_files) == pytest.approx(100 * (1 / 2 + 1 / 2) / 2)
    assert percent("densecap(rouge,tiou=0.4,files=1)", two_files) == pytest.approx(75)
    assert percent("densecap(rouge,tiou=0.4,files=2)", two_files) == 0
    assert percent("densecap(rouge,tiou=0.4,files=each)", two_files) == pytest.approx(37.5)
    reasons = parse("densecap(rouge,files=2)").measure(two_files).reasons
    assert reasons == {"w": "no references in this file"}
    # the better file counts for precision and for recall
    assert percent("densecap(precision)", two_files) == pytest.approx(100)
    signature = str(parse("densecap(rouge,files=each)").measure(two_files).signature)
    assert "|files:one.json+two.json|" in signature and "|mode:each|" in signature
    with pytest.raises(InputError, match=r"files=3.*there are 2 file"):
        percent("densecap(rouge,files=3)", two_files)


def test_document_frequencies_over_all_videos_are_an_option(two_files):
    one = captious.read(
        {key: [{"sentence": "a dog", "timestamp": [0, 9]}] for key in "vw"},
        references={
            key: {"timestamps": [[0, 9]], "sentences": [text]} for key, text in zip("vw", ("a dog", "x"), strict=True)
        },
    )
    assert percent("densecap(cider)", one) == 0, "a video with one pair has log 1 = 0 everywhere"
    # two pairs, "a", "dog" and "a dog" in one of their references: v has cosine 1 at orders 1 and 2 of 4: 10 / 2
    assert percent("densecap(cider,idf=all)", one) == pytest.approx(100 * 5 / 2)
    assert parse("densecap(cider,idf=all)").label == "dense CIDEr-D (idf of all videos)"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ("densecap(rouge,idf=all)", "only value=cider has document frequencies"),
        ("densecap(tiou=2)", "expected thresholds from 0 to 1"),
        ("densecap(tiou=half)", "expected thresholds from 0 to 1"),
        ("densecap(rules=2020)", "expected 2019 or 2018"),
        ("densecap(files=both)", "expected joint, each, or the number of a file"),
        ("densecap(most=0)", "expected a number of events from 1"),
    ],
)
def test_parameters_that_make_no_sense(form, message):
    with pytest.raises(InputError, match=message):
        parse(form)


def test_metrics_of_texts_are_refused_with_ways_out_and_events_are_needed(small):
    with pytest.raises(InputError, match=r"dense captions of 2 videos; bleu needs one text per item: pass .*paragraph"):
        captious.evaluate(small, "bleu")
    with pytest.raises(InputError, match=r"no events; it scores dense captions"):
        captious.evaluate({"1": "a dog"}, "densecap(rouge)", references={"1": "a dog"})
    assert captious.evaluate(small, "densecap(rouge),div_n", resampling=Resampling(0))


@pytest.mark.parametrize("value", ["rouge", "bleu-2", "cider", "precision", "recall", "f"])
@pytest.mark.parametrize("files", ["joint", "each"])
def test_the_parts_of_an_explanation_add_up(value, files, two_files, predicted):
    for captions, key in ((two_files, "v"), (predicted, "v1")):
        metric = parse(f"densecap({value},files={files})")
        explanation = metric.explain(captions, key)
        assert sum(part.adds for part in explanation.parts) == pytest.approx(explanation.value, abs=1e-12)
        assert explanation.value == pytest.approx(metric.measure(captions).items[key], abs=1e-12)


def test_an_explanation_names_the_events(predicted):
    explanation = parse("densecap(rouge)").explain(predicted, "v1")
    assert [part.name for part in explanation.parts] == ["1. a man cuts a tomato", "2. he eats it", "3. the end"]
    first, _, last = explanation.parts
    assert (first.details["start"], first.details["end"], first.details["pairs"]) == ("0:00", "0:09", 1)
    assert last.adds == 0 and last.details["pairs"] == 0


def test_intervals_and_paired_tests_resample_videos(small):
    report = captious.evaluate(small, "densecap(rouge)", resampling=Resampling(200))
    interval = report.intervals["densecap(value=rouge)"]
    # one video has .339, the other 0, and a resample takes two of them
    assert interval.low == 0 and interval.high == pytest.approx(2 * report["densecap(rouge)"].corpus)


def test_a_run_keeps_events_and_settings(small, tmp_path):
    report = captious.evaluate(small, "densecap(rouge),soda(score=iou)", resampling=Resampling(0))
    report.save(tmp_path / "run")
    stored = captious.open_run(tmp_path / "run")
    item = stored.captions["v1"]
    assert item.fields["events"] == [[0, 9], [11, 20], [30, 40]] and item.fields["duration"] == 40
    assert item.fields["reference_events"] == [[0, 10], [12, 20]] and item.fields["reference_files"] == [0, 0]
    assert stored.captions.settings == {"events": "video", "files": "references"}
    assert "|missing:zero:1|" in str(stored["soda"].signature)
    parts = stored.explain("v1")["soda(score=iou)"].parts
    assert sum(part.adds for part in parts) == pytest.approx(report["soda"].items["v1"])


# Golden values of MDVC: see the README of the data. Names of golden.json, of this metric, and of captious.
NAMES = {"bleu1": "bleu-1", "bleu2": "bleu-2", "bleu3": "bleu-3", "bleu4": "bleu-4", "cider_video_idf": "cider"}
SETS = {
    "mdvc_1|refs_1": (1, (1,)),
    "mdvc_2|refs_2": (2, (2,)),
    "mdvc_1|refs_1+refs_2": (1, (1, 2)),
    "mdvc_1|refs_2": (1, (2,)),
}


def list_threshold_means(metric, captions):
    """Return the mean over videos at each threshold, × 100, and that of the metric."""
    ((file, corpus),) = metric._list_corpora(captions)
    by_video = metric._compute_values(corpus, None, file)
    has_references = corpus.pairs.has_references
    return [*(100 * by_video[:, has_references].mean(axis=1)), 100 * metric.measure(captions).corpus]


@pytest.fixture(scope="module")
def golden(shared_data):
    return json.loads((shared_data / "mdvc_dense" / "golden.json").read_text())


@pytest.mark.shared_data
@pytest.mark.parametrize("name", SETS)
def test_mdvc(name, golden, mdvc, meteor_home, compiled_meteor):
    captions = mdvc(*SETS[name])
    expected = golden["dense"][name]
    assert len(captions) == expected["videos"]
    assert int((captions.candidates.counts > 0).sum()) == expected["with_predictions"]
    for key in ("meteor", "bleu1", "bleu2", "bleu3", "bleu4", "rouge", "cider_video_idf", "precision", "recall"):
        metric = parse(f"densecap({NAMES.get(key, key)})")
        assert list_threshold_means(metric, captions) == pytest.approx(expected[key], abs=2e-4), key
    assert f"|missing:zero:{expected['videos'] - expected['with_predictions']}|" in str(
        parse("densecap(rouge)").measure(captions).signature
    )
    captions.forget()


@pytest.mark.shared_data
def test_the_rules_of_2018_change_meteor_only(golden, mdvc, meteor_home, compiled_meteor):
    captions, name = mdvc(1, (2,)), "mdvc_1|refs_2|2018"
    for key in ("meteor", "bleu4", "rouge", "cider_video_idf"):
        metric = parse(f"densecap({NAMES.get(key, key)},rules=2018)")
        assert list_threshold_means(metric, captions) == pytest.approx(golden["dense"][name][key], abs=2e-4), key
    captions.forget()


@pytest.mark.shared_data
def test_videos_without_predictions_left_out(mdvc, meteor_home, compiled_meteor):
    # BMT (Iashin, Rahtu, BMVC 2020) prints the means of both files: METEOR 11.07, BLEU-3 4.52, BLEU-4 1.98
    expected = {1: (10.9031, 4.6526, 2.1704), 2: (11.2420, 4.3900, 1.7917)}
    for number, values in expected.items():
        captions = mdvc(number, (number,), "skip")
        found = [percent(f"densecap({value})", captions) for value in ("meteor", "bleu-3", "bleu-4")]
        assert found == pytest.approx(values, abs=2e-4)
        captions.forget()


@pytest.mark.shared_data
def test_the_references_as_predictions(shared_data, meteor_home, compiled_meteor, tmp_path):
    """Events that overlap are paired with each other's sentences, so that not even the references have 100."""
    with gzip.open(shared_data / "mdvc_dense" / "refs_val_1.json.gz", "rt") as file:
        videos = json.load(file)
    chosen = {key: videos[key] for key in sorted(videos)[:500]}
    predictions = {
        key: [
            {"sentence": sentence, "timestamp": time}
            for sentence, time in zip(video["sentences"], video["timestamps"], strict=True)
        ]
        for key, video in chosen.items()
    }
    captions = captious.read(predictions, references=chosen)
    expected = [89.0547, 93.2821, 95.5975, 98.1015, 94.0090]
    assert list_threshold_means(parse("densecap"), captions) == pytest.approx(expected, abs=2e-4)
    assert percent("soda", captions) == pytest.approx(100, abs=2e-4)
    order = list(chosen)
    random.Random(1).shuffle(order)
    again = captious.read({key: predictions[key] for key in order}, references=chosen)
    assert percent("densecap(cider)", again) == pytest.approx(percent("densecap(cider)", captions), abs=1e-9)
    assert np.isfinite(percent("densecap(f)", again))
