"""Readers of dense captions: layouts, items, missing videos, errors and warnings."""

import csv
import gzip
import io
import json

import pytest

import captious
from captious import Resampling
from captious.errors import InputError
from captious.io.formats import FileList
from captious.options import Reading

EVENTS = {"v_a": [(0, 4, "A dog runs."), (5, 9, "It sleeps.")], "v_b": [(1, 2.5, "A cat.")]}
PREDICTIONS = {key: [{"sentence": text, "timestamp": [a, b]} for a, b, text in own] for key, own in EVENTS.items()}
REFERENCES = {
    key: {"duration": 10, "timestamps": [[a, b] for a, b, _ in own], "sentences": [text for *_, text in own]}
    for key, own in EVENTS.items()
}
YOUCOOK2 = {
    "database": {
        key: {
            "duration": 10,
            "subset": "validation",
            "annotations": [{"id": 0, "segment": [a, b], "sentence": text} for a, b, text in own],
        }
        for key, own in EVENTS.items()
    }
}
ROWS = [{"video_id": key, "start": a, "end": b, "caption": text} for key, own in EVENTS.items() for a, b, text in own]


def to_csv(rows):
    text = io.StringIO()
    writer = csv.DictWriter(text, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return text.getvalue()


LAYOUTS = {
    "plain.json": json.dumps(PREDICTIONS),
    "results.json": json.dumps({"version": "1", "results": PREDICTIONS, "external_data": {}}),
    "references.json": json.dumps(REFERENCES),
    "youcook2.json": json.dumps(YOUCOOK2),
    "rows.jsonl": "".join(json.dumps(row) + "\n" for row in ROWS),
    "rows.csv": to_csv(ROWS),
    "rows.json": json.dumps(ROWS),
    "captions.json": json.dumps(
        {
            key: [{"caption": text, "start": a, "end": b, "score": 0.5} for a, b, text in own]
            for key, own in EVENTS.items()
        }
    ),
    "timestamps.jsonl": "".join(
        json.dumps({"video_id": row["video_id"], "timestamp": [row["start"], row["end"]], "sentence": row["caption"]})
        + "\n"
        for row in ROWS
    ),
    "odd.jsonl": "".join(json.dumps(dict(sorted(row.items(), reverse=bool(n)))) + "\n" for n, row in enumerate(ROWS)),
}


OWN_DURATIONS = ("references.json", "youcook2.json")


@pytest.mark.parametrize("name", LAYOUTS)
@pytest.mark.parametrize("packed", [False, True])
def test_every_layout_is_read_without_an_option(name, packed, tmp_path):
    path = tmp_path / (f"{name}.gz" if packed else name)
    path.write_bytes(gzip.compress(LAYOUTS[name].encode()) if packed else LAYOUTS[name].encode())
    for captions in (captious.read(path, references=REFERENCES), captious.read(PREDICTIONS, references=path)):
        assert captions.ids == ("v_a", "v_b") and captions.settings["events"] == "video"
        item = captions["v_a"]
        assert item.candidates == item.references == ("A dog runs.", "It sleeps.")
        assert item.fields["events"] == item.fields["reference_events"] == [[0, 4], [5, 9]]
    # predictions do not say how long their video is
    durations = [captious.read(path).columns.get("duration"), (10, 10) if name in OWN_DURATIONS else None]
    assert durations[0] == durations[1]


def test_a_table_with_further_columns_is_no_table_of_events(tmp_path):
    rows = [{**row, "id": number, "references": ["x"]} for number, row in enumerate(ROWS)]
    captions = captious.read(rows)
    assert captions.ids == ("0", "1", "2") and not captions.settings


def test_a_table_with_further_columns_is_one_of_events_if_the_user_says_so(tmp_path):
    rows = [{**row, "score": 0.5, "text": "x"} for row in ROWS]
    captions = captious.read(rows, references=REFERENCES, reading=Reading(events="video"))
    assert captions["v_a"].candidates == ("A dog runs.", "It sleeps.") and captions.settings["events"] == "video"
    (tmp_path / "one.csv").write_text(to_csv(rows[:2]))
    (tmp_path / "two.csv").write_text(to_csv(rows))
    files = FileList(str(tmp_path / f"{name}.csv") for name in ("one", "two"))
    captions = captious.read(PREDICTIONS, references=files, reading=Reading(events="video"))
    assert captions["v_a"].fields["reference_files"] == [0, 0, 1, 1]
    with pytest.raises(InputError, match=r"reading=Reading\(events='video'\) where each row is an event of a video"):
        captious.read([{**row, "score": 0.5} for row in ROWS], references=REFERENCES)


@pytest.mark.parametrize(
    ("document", "message"),
    [
        (
            {"results": {"v_a": [{"text": "a dog", "timestamp": [0, 1]}]}},
            "id 'v_a': an event has text, timestamp, expected",
        ),
        (
            {"v_a": [], "v_b": [{"sentence": "a dog", "times": [0, 1]}]},
            "id 'v_b': an event has sentence, times, expected",
        ),
        ({"results": {"v_a": [{}]}}, "an event has nothing, expected sentence and timestamp"),
        ({"results": {}}, "contains no videos, expected sentences with their times for each"),
    ],
)
def test_events_under_other_names_are_reported_with_the_usual_ones(document, message):
    with pytest.raises(InputError, match=message):
        captious.read(document)


def test_captions_of_images_may_have_a_time():
    captions = captious.read(
        {"7": [{"caption": "a dog", "time": 3}]}, references={"7": [{"caption": "a dog", "time": 1}]}
    )
    assert captions["7"].candidates == ("a dog",) and not captions.settings


def test_files_of_annotators_stay_apart(tmp_path):
    second = {"v_a": {"duration": 10, "timestamps": [[0, 10]], "sentences": ["A dog."]}}
    for name, content in (("val_1", REFERENCES), ("val_2", second)):
        (tmp_path / f"{name}.json").write_text(json.dumps(content))
    captions = captious.read(PREDICTIONS, references=FileList(str(tmp_path / f"val_{n}.json") for n in (1, 2)))
    assert captions.settings["files"] == "val_1.json+val_2.json"
    paths = [tmp_path / f"val_{n}.json" for n in (1, 2)]
    assert captious.read(PREDICTIONS, references=paths).settings == captions.settings
    assert captions["v_a"].fields["reference_files"] == [0, 0, 1]
    assert captions["v_a"].references == ("A dog runs.", "It sleeps.", "A dog.")
    assert "references: val_1.json and val_2.json, 1–3 per item" in captions.origin_line
    with pytest.raises(InputError, match=r"val_1.json: is given twice, expected different files of references"):
        captious.read(PREDICTIONS, references=FileList([str(tmp_path / "val_1.json"), f"{tmp_path}/./val_1.json"]))
    paragraphs = captious.read(
        PREDICTIONS,
        references=FileList(str(tmp_path / f"val_{n}.json") for n in (1, 2)),
        reading=Reading(events="paragraph"),
    )
    assert paragraphs["v_a"].references == ("A dog runs. It sleeps.", "A dog.")


@pytest.mark.parametrize("side", ["predictions", "references"])
def test_a_prefix_on_one_side_is_removed_and_reported(side):
    files = {"predictions": PREDICTIONS, "references": REFERENCES}
    files[side] = {key.removeprefix("v_"): value for key, value in files[side].items()}
    captions = captious.read(files["predictions"], references=files["references"])
    assert captions.ids == ("a", "b") and captions["b"].references == ("A cat.",)
    assert any("'v_' was removed from its 2 ids" in remark for remark in captions.origin.remarks)
    assert captious.read(PREDICTIONS, references=REFERENCES).origin.remarks == ()


def test_missing_videos_are_an_error_0_or_left_out():
    one = {"v_a": PREDICTIONS["v_a"], "v_other": PREDICTIONS["v_b"]}
    message = r"captions: 1 ids \(v_b\) of references without predictions: pass .*missing='zero'.*missing='skip'"
    with pytest.raises(InputError, match=message):
        captious.read(one, references=REFERENCES)
    zero = captious.read(one, references=REFERENCES, missing="zero")
    assert zero.ids == ("v_a", "v_b") and zero["v_b"].candidates == () and zero["v_b"].fields["events"] == []
    assert zero["v_b"].fields["without_prediction"] and zero.skipped == 1
    assert captious.read(one, references=REFERENCES, missing="skip").ids == ("v_a",)
    text = captious.read(one, references=REFERENCES, reading=Reading(missing="zero", events="paragraph"))
    assert text["v_b"].candidates == ("",)
    with pytest.raises(InputError, match=r"missing='zero'\) is for dense captions"):
        captious.read({"1": "a"}, references={"1": "a"}, missing="zero")
    with pytest.raises(InputError, match="has no segment that could count 0"):
        captious.read(one, references=REFERENCES, reading=Reading(missing="zero", events="segment"))


def test_paragraphs():
    reading = Reading(events="paragraph")
    captions = captious.read(PREDICTIONS, references={"v_a": "A dog.", "v_b": "A cat."}, reading=reading)
    assert captions["v_a"].candidates == ("A dog runs. It sleeps.",) and captions["v_a"].references == ("A dog.",)
    assert captions.tokenizer == "letters" and captions["v_a"].fields["candidate_sentences"] == [
        "A dog runs.",
        "It sleeps.",
    ]
    written = captious.read(
        PREDICTIONS, references=REFERENCES, reading=Reading(events="paragraph", paragraph_text="written")
    )
    assert written.tokenizer == ""
    plain = captious.read({"v_a": "A dog runs.", "v_b": "x"}, references=REFERENCES, reading=reading)
    assert plain["v_a"].candidates == ("A dog runs.",) and plain["v_a"].references == ("A dog runs. It sleeps.",)
    report = captious.evaluate(captions, "bleu(n=1),cider", resampling=Resampling(0))
    assert "|tok:letters.1|" in str(report["cider"].signature) and "|events:paragraph|" in str(
        report["cider"].signature
    )
    assert "|tok:ptb.1|" in str(captious.evaluate(written, "cider", resampling=Resampling(0))["cider"].signature)
    # c = 5 words of "a dog runs it sleeps", of which 2 are in "a dog"; v_b: 2 of 2. No brevity penalty: 4 of 7.
    assert report["bleu"].corpus == pytest.approx(4 / 7)


def test_a_run_of_paragraphs_keeps_its_tokenizer(tmp_path):
    captions = captious.read(PREDICTIONS, references=REFERENCES, reading=Reading(events="paragraph"))
    report = captious.evaluate(captions, "rouge,repetition(n=1)", resampling=Resampling(0))
    report.save(tmp_path / "run")
    stored = captious.open_run(tmp_path / "run")
    assert stored.captions.tokenizer == "letters"
    assert stored.explain("v_a")["rouge"].value == pytest.approx(1)


def test_segments_have_the_references_of_their_times():
    second = {"v_a": {"timestamps": [[5, 9], [5.004, 9.001], [0, 3]], "sentences": ["Asleep.", "Tired.", "No."]}}
    predictions = {"v_a": PREDICTIONS["v_a"]}
    with pytest.raises(InputError, match=r"1 id \(v_a#1\) without references"):
        captious.read(predictions, references=second, reading=Reading(events="segment"))
    captions = captious.read(predictions, references=second, reading=Reading(events="segment", missing="skip"))
    assert captions.ids == ("v_a#2",) and captions["v_a#2"].references == ("Asleep.", "Tired.")
    fields = captions["v_a#2"].fields
    assert (fields["video_id"], fields["start"], fields["end"]) == ("v_a", 5, 9)
    assert any("without a predicted segment of the same times: 1 of 3" in one for one in captions.origin.remarks)
    with pytest.raises(InputError, match="no event has the times of a segment"):
        captious.read(
            {"v_a": [{"sentence": "x", "timestamp": [1, 2]}]}, references=second, reading=Reading(events="segment")
        )


@pytest.mark.parametrize(
    ("time", "message"),
    [
        ([9.0, 4.1], r"id 'v_a': event 2 ends \(4.1\) before it starts \(9\)"),
        ([-1, 4], r"event 2 starts at -1, expected seconds from 0"),
        ([1], r"event 2 has the times \[1\], expected two numbers of seconds"),
        (["1", "2"], r"event 2 has the times"),
        ([1, float("nan")], r"event 2 has the times \[1, nan\], expected two numbers"),
        (None, r"event 2 has the times None, expected two numbers"),
        ([1, 10**400], r"event 2 has the times \[1, 1000"),
        ([1, 1e308], r"event 2 has the times \[1, 1e\+308\], expected two numbers"),
    ],
)
def test_times_that_are_none(time, message):
    broken = {"v_a": [PREDICTIONS["v_a"][0], {"sentence": "x", "timestamp": time}], "v_b": PREDICTIONS["v_b"]}
    with pytest.raises(InputError, match=message):
        captious.read(broken, references=REFERENCES)
    left = captious.read(broken, references=REFERENCES, missing="skip")
    assert left.ids == ("v_b",) and left.skipped == 1
    check = captious.check(broken, references=REFERENCES)
    assert any("event 2" in finding.message for finding in check.errors)


def test_lists_of_different_lengths_and_sentences_that_are_none():
    broken = {**REFERENCES, "v_b": {"timestamps": [[0, 1], [2, 3]], "sentences": ["x"]}}
    with pytest.raises(InputError, match=r"'v_b': 2 times and 1 sentences: event 2 has no sentence"):
        captious.read(PREDICTIONS, references=broken)
    with pytest.raises(InputError, match=r"event 1 has a number \(3\) as its sentence, expected a string"):
        captious.read({"v_a": [{"sentence": 3, "timestamp": [0, 1]}]}, references=REFERENCES)


@pytest.mark.parametrize(
    "other", ["text", None, 3, PREDICTIONS["v_b"][0], {"0": PREDICTIONS["v_b"][0]}, {"duration": 3}]
)
@pytest.mark.parametrize("first", [True, False])
def test_a_video_without_a_list_of_events_is_an_error_not_0(other, first, tmp_path):
    broken = {"v_b": other, "v_a": PREDICTIONS["v_a"]} if first else {"v_a": PREDICTIONS["v_a"], "v_b": other}
    (tmp_path / "p.json").write_text(json.dumps({"results": broken}))
    with pytest.raises(InputError, match=r"id 'v_b': no list of sentences with their times, expected one"):
        captious.read(tmp_path / "p.json", references=REFERENCES)


def test_results_of_empty_lists_are_predictions_of_nothing():
    captions = captious.read({"results": {"v_a": [], "v_b": []}}, references=REFERENCES)
    assert captions.ids == ("v_a", "v_b") and not captions.candidates.values


def test_times_of_a_table_are_plain_digits(tmp_path):
    (tmp_path / "p.csv").write_text("video_id,start,end,caption\nv_a,0,1_0,x\nv_b,0,1,x\n")  # 1_0 is 10 for Python
    with pytest.raises(InputError, match=r"event 1 has the times \[0.0, '1_0'\], expected two numbers"):
        captious.read(tmp_path / "p.csv", references=REFERENCES)


@pytest.mark.parametrize("duration", [10**400, float("nan"), -3, True])
def test_an_absurd_duration_is_ignored_and_reported(duration):
    odd = {key: {**own, "duration": duration} for key, own in REFERENCES.items()}
    captions = captious.read(PREDICTIONS, references=odd)
    (warning,) = captions.origin.remarks
    assert warning.startswith(f"durations that are no seconds are ignored: {len(odd)} (") and "'v_a'" in warning
    assert "duration" not in captions.columns


@pytest.mark.parametrize("key", [None, ["v_a"], 1.5])
def test_a_table_needs_the_id_of_each_video(key):
    with pytest.raises(InputError, match=r"captions: .*id is .*expected a string or a whole number"):
        captious.read([ROWS[0], {**ROWS[1], "video_id": key}], references=REFERENCES)


def test_texts_without_times_need_an_option():
    with pytest.raises(InputError, match=r"references: has texts without times.*events='paragraph'"):
        captious.read(PREDICTIONS, references={"v_a": "A dog.", "v_b": "A cat."})
    with pytest.raises(InputError, match=r"captions: has texts without times"):
        captious.read({"v_a": "A dog."}, references=REFERENCES, missing="skip")


def test_odd_events_are_reported():
    late = {"v_a": [{"sentence": "x", "timestamp": [3, 3]}, {"sentence": "x", "timestamp": [9, 11]}], "v_b": []}
    remarks = captious.read(late, references=REFERENCES).origin.remarks
    assert any("more than 0.5 s after their video: 1 (v_a)" in one for one in remarks)
    assert any("with the same start and end, which overlap with nothing: 1 (v_a)" in one for one in remarks)
    same = {key: [{"sentence": "x", "timestamp": [0, 1]}] for key in REFERENCES}
    remarks = captious.read(same, references=REFERENCES).origin.remarks
    assert any("all 2 events have the same start and end" in one for one in remarks)
    many = {"v_a": [{"sentence": "x", "timestamp": [n, n + 1]} for n in range(1001)], "v_b": PREDICTIONS["v_b"]}
    remarks = captious.read(many, references=REFERENCES).origin.remarks
    assert any("more than 1,000 events, of which densecap takes the first 1,000: 1 (v_a)" in one for one in remarks)


def test_the_command_line(tmp_path, run):
    (tmp_path / "refs.json").write_text(json.dumps(REFERENCES))
    (tmp_path / "more.json").write_text(json.dumps({"v_a": REFERENCES["v_a"]}))
    (tmp_path / "preds.json").write_text(json.dumps({"results": {"v_a": PREDICTIONS["v_a"]}}))
    files, metric = (tmp_path / "preds.json", "-r", tmp_path / "refs.json"), ("-m", "densecap(rouge)")
    code, _, err = run("score", *files, *metric)
    assert code == 2 and "pass --missing zero (as densevid_eval) or --missing skip" in err
    code, _, err = run("score", *files, "--missing", "zero")
    assert code == 2 and "pass --events paragraph or --events segment, or use densecap, soda" in err
    zero = (*metric, "--missing", "zero", "--by-file")
    code, out, err = run("score", *files, "-r", tmp_path / "more.json", *zero, "--json")
    assert code == 0, err
    # file 1: v_a is right and v_b counts 0; file 2 has v_a only
    assert [row["value"] for row in json.loads(out)["metrics"]] == pytest.approx([0.5, 1.0, 0.75])
    code, out, _ = run("check", *files)
    assert code == 2 and "pass --missing zero" in " ".join(out.split())
    code, out, _ = run("check", *files, "--missing", "zero", "--events", "video")
    assert code == 0 and "videos without predictions, which count 0: 1" in " ".join(out.split())
    code, _, err = run("score", *files, *zero)
    assert code == 2 and "--by-file is for dense captions with several files of references" in err
    (tmp_path / "shards").mkdir()
    (tmp_path / "shards/one.json").write_text(json.dumps(PREDICTIONS))
    code, _, err = run("score", tmp_path / "shards", *files[1:], *metric, "-o", tmp_path / "out")
    assert code == 2 and "dense captions are read from a single file, not from shards" in err


@pytest.mark.shared_data
def test_paragraphs_of_youcook2(shared_data, meteor_home, compiled_meteor):
    folder = shared_data / "youcook2_paragraphs"
    golden = json.loads((folder / "golden.json").read_text())
    forms = {
        "bleu1": "bleu(n=1)",
        "bleu4": "bleu(n=4)",
        "meteor": "meteor",
        "rouge": "rouge",
        "cider": "cider",
        **{f"re{n}": f"repetition(n={n})" for n in range(1, 5)},
        **{f"div{n}": f"diversity(n={n})" for n in (1, 2)},
    }
    for name in ("mart", "vtrans"):
        captions = captious.read(
            folder / f"{name}.json.gz", references=folder / "references.json.gz", reading=Reading(events="paragraph")
        )
        assert len(captions) == golden[f"yc2_{name}"]["videos"]
        report = captious.evaluate(captions, ",".join(forms.values()), resampling=Resampling(0))
        for key, form in forms.items():
            assert 100 * report[form].corpus == pytest.approx(golden[f"yc2_{name}"][key], abs=2e-4), (name, key)


def test_videos_of_several_sentences_are_no_swapped_files():
    texts = {"v_a": "A dog runs. It sleeps.", "v_b": "A cat. It sits."}
    two = {key: [*own, {"sentence": "Then it sits.", "timestamp": [9, 10]}] for key, own in PREDICTIONS.items()}
    (found,) = captious.check(two, references=texts).errors
    assert "pass reading=Reading(events='paragraph') if each text describes a whole video" in found.message
    reading = Reading(events="paragraph")
    assert not captious.check(two, references=texts, reading=reading).errors
