"""Values that commands once took in silence, or broke on: one line that names the row or the option."""

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from PIL import Image
from tests.fuzz.cases import SLOTS

from captious.data import DEMO


def spoiled(slot, folder, **changes):
    """The right rows of a slot of the fuzzing test, the second with other values."""
    rows = [dict(row) for row in SLOTS[slot].rows]
    rows[1] |= changes
    path = folder / f"{slot}.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"rank": True}, "row 2: rank is True"),
        ({"rank": 10**400}, "row 2: rank is "),
        ({"rank": float("inf")}, "row 2: rank is inf, expected a number"),
        ({"caption": [None]}, "row 2: caption is [None], expected a text or a number"),
        ({"caption": " "}, "row 2: caption is empty, expected words to rank"),
    ],
)
def test_rankings_of_styles(run, tmp_path, changes, message):
    model = SLOTS["model"].right(tmp_path, "model")
    code, _, error = run("style", "correlate", model, spoiled("rankings", tmp_path, **changes))
    assert code == 2 and message in error and error.count("\n") == 1


def test_no_rankings_no_labels_no_captions(run, tmp_path):
    empty = tmp_path / "empty.json"
    empty.write_text("[]")
    model, images = SLOTS["model"].right(tmp_path, "model"), SLOTS["images"].right(tmp_path, "images")
    for command, message in (
        (("style", "correlate", model, empty), "contains no rankings"),
        (("probe", "classification", empty, "--images", images, "--encoder", "captious-mini"), "contains no labels"),
        (("make", "negatives", empty, "--kinds", "random", "--look", 1), "contains no captions"),
        (("cache", "fill", images, "--encoder", "captious-mini", "--captions", empty), "contains no captions"),
    ):
        code, _, error = run(*command)
        assert code == 2 and message in error


def test_empty_captions_of_a_style_are_said(run, tmp_path):
    corpus, model = spoiled("styled", tmp_path, caption=" "), SLOTS["model"].right(tmp_path, "model")
    code, _, error = run("style", "fit", corpus, "--out", tmp_path / "new.style")
    assert code == 0 and "warning: 1 empty captions" in error
    code, _, error = run("style", "check", model, corpus)
    assert code == 0 and "1 empty captions" in error
    code, _, error = run("style", "fit", spoiled("styled", tmp_path, caption=[]), "--out", tmp_path / "other.style")
    assert code == 2 and "row 2: caption is an empty list" in error


def test_answers_of_raters_are_named_by_texts(run, tmp_path):
    code, _, error = run("probe", "recall", spoiled("answers", tmp_path, rater=["me"]))
    assert code == 2 and "row 2: rater is ['me'], expected a text" in error


def test_a_contest_without_a_wrong_caption(run, tmp_path):
    metric = ("--metrics", "clipscore(weights=captious-mini)", "--images", SLOTS["images"].right(tmp_path, "images"))
    code, _, error = run("probe", "compositionality", spoiled("contests", tmp_path, negative=[]), *metric)
    assert code == 2 and "row 2: the list of negatives is empty" in error


def test_a_gallery_nested_too_deeply(run, tmp_path):
    (tmp_path / "gallery").mkdir()
    (tmp_path / "gallery" / "gallery.json").write_text("[" * 100_000)
    code, _, error = run("probe", "entities", tmp_path / "gallery", "--out", tmp_path / "tasks.jsonl")
    assert code == 2 and "has no gallery.json" in error and not (tmp_path / "tasks.jsonl").exists()


def test_a_model_nested_too_deeply(run, tmp_path):
    (tmp_path / "m.style").write_text("[" * 1000 + "]" * 1000)
    code, _, error = run("style", "words", tmp_path / "m.style")
    assert code == 2 and "is no style model" in error


def test_options_without_a_use_are_refused(run, tmp_path):
    references, labeled = (SLOTS[name].right(tmp_path, name) for name in ("references", "labeled"))
    code, _, error = run("make", "negatives", references, "--look", 1, "--kinds", "random", "--images", tmp_path)
    assert code == 2 and "are for hard negatives; add hard to --kinds" in error
    code, _, error = run("bias", "lic", labeled, "--label", "gender", "--work", tmp_path / "kept", "--no-cache")
    assert code == 2 and "leave one of them out" in error


@pytest.mark.parametrize("value", [[1], {"a": 1}, True, 1.5, ""])
def test_ids_to_train_on(run, tmp_path, value):
    pytest.importorskip("torch")
    data, images = spoiled("training", tmp_path, id=value), SLOTS["images"].right(tmp_path, "images")
    code, _, error = run(
        "train", "clip", data, "--images", images, "--base", "captious-mini", "--epochs", 1, "--out", tmp_path / "out"
    )
    assert code == 2 and "row 2: id is" in error.splitlines()[-1] and not (tmp_path / "out").exists()


def test_images_without_a_score_are_said_in_probes(run, tmp_path):
    images = tmp_path / "images"
    SLOTS["images"].right(tmp_path, "images")
    (images / "3.png").write_text("no image")
    metric = ("--metrics", "clipscore(weights=captious-mini)", "--samples", 0, "--images", images)
    code, out, _ = run("probe", "compositionality", SLOTS["contests"].right(tmp_path, "contests"), *metric)
    assert code == 0 and "left out: 1 of 8 captions" in " ".join(out.split())
    code, out, _ = run("probe", "specificity", SLOTS["pairs"].right(tmp_path, "pairs"), *metric)
    # Two units a caption: one step from the first to the second.
    assert code == 0 and "left out: 1 of 8 steps" in " ".join(out.split())


@pytest.mark.parametrize("place", ["file/below", "loop", "new\nline"])
def test_a_place_that_cannot_be_written_is_said_before_any_work(run, tmp_path, place):
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    predictions = SLOTS["predictions"].right(tmp_path, "predictions")
    code, out, error = run("score", predictions, "--metrics", "rep_diversity", "--out", tmp_path / place)
    assert code == 2 and not out and error.count("\n") == 1


@pytest.mark.parametrize("command", [("study", "leaderboard", "--dataset", "capeval1k"), ("reproduce",)])
@pytest.mark.parametrize("place", ["file/below", "loop", "new\nline", "a" * 300])
def test_a_place_that_cannot_be_written_is_said_before_a_listing_is_printed(run, tmp_path, place, command):
    (tmp_path / "file").write_text("x")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    code, out, error = run(*command, "--out", tmp_path / place)
    assert code == 2 and not out and error.count("\n") == 1


@pytest.mark.parametrize(
    ("caption", "warning"),
    [("", "1 empty candidate caption (id 3)"), ("a dog\ud800 runs", "were removed from 1 text")],
)
@pytest.mark.parametrize(
    "command",
    [
        ("probe", "stress", "--metrics", "bleu(n=1)", "--edits", "cut", "--samples", 20),
        ("study", "advise"),
        ("make", "edits", "--edits", "cut", "--look", 1),
    ],
    ids=lambda words: " ".join(words[:2]),
)
def test_odd_captions_are_reported_by_commands_without_a_report(run, tmp_path, command, caption, warning):
    rows = [{"id": row["id"], "caption": row["references"][0]} for row in SLOTS["references"].rows]
    rows[2]["caption"] = caption
    path = write_lines(tmp_path / "captions.jsonl", *map(json.dumps, rows))
    references = SLOTS["references"].right(tmp_path, "references")
    code, _, error = run(*command[:2], path, "--references", references, *command[2:])
    assert code == 0 and warning in " ".join(error.split())


def test_a_loop_of_links_in_a_run_is_one_line(run, tmp_path):
    predictions = SLOTS["predictions"].right(tmp_path, "predictions")
    assert run("score", predictions, "--metrics", "rep_diversity", "--out", tmp_path / "run")[0] == 0
    (file,) = (tmp_path / "run" / "items").iterdir()
    file.unlink()
    file.symlink_to(file)
    code, out, error = run("keep", tmp_path / "run", "words > 1", "--out", tmp_path / "kept.jsonl")
    assert code == 2 and not out and error.count("\n") == 1 and file.name in error


@pytest.mark.parametrize("suffix", ["csv", "tsv"])
def test_a_frame_that_pandas_wrote_scores_as_the_frame_itself(run, tmp_path, suffix):
    """``to_csv`` prints lists; the numbers must be those of the lists."""
    rows = [{**dict(row), "caption": f"{row['id']} {row['references'][0]}"} for row in SLOTS["references"].rows]
    (tmp_path / "rows.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    frame = pd.DataFrame(rows)
    frame.to_csv(tmp_path / f"frame.{suffix}", sep="\t" if suffix == "tsv" else ",", index=False)
    printed = [run("score", tmp_path / name, "--csv") for name in ("rows.jsonl", f"frame.{suffix}")]
    assert printed[0][0] == printed[1][0] == 0 and printed[0][1] == printed[1][1]
    frame["references"] = frame["references"].map(np.array)
    frame.to_csv(tmp_path / f"arrays.{suffix}", sep="\t" if suffix == "tsv" else ",", index=False)
    path = tmp_path / f"arrays.{suffix}"
    for command in (("score", path), ("compare", path, path), ("check", path)):
        code, out, error = run(*command)
        assert code == 2 and "row 2: reference is a printed list (['" in " ".join((out + error).split())


def write_lines(path, *lines):
    path.write_text("".join(f"{line}\n" for line in lines))
    return path


@pytest.fixture
def line_files(tmp_path):
    """hyp.txt, ref1.txt, ref2.txt: a caption on each line, as translation and nlg-eval have them."""
    return [
        write_lines(tmp_path / "hyp.txt", "a dog runs", "a cat, sitting", "", "two men"),
        write_lines(tmp_path / "ref1.txt", "the dog runs", "a cat", "a bird", "two men"),
        write_lines(tmp_path / "ref2.txt", "dogs run", "cats sit", "birds", "men"),
    ]


def test_files_with_a_caption_on_each_line_are_aligned(run, tmp_path, line_files):
    hypotheses, *references = line_files
    rows = [
        {"id": number, "caption": caption, "references": refs}
        for number, (caption, *refs) in enumerate(
            zip(*(path.read_text().splitlines() for path in line_files), strict=True)
        )
    ]
    (tmp_path / "rows.json").write_text(json.dumps(rows))
    expected = run("score", tmp_path / "rows.json", "--csv", "--samples", 0)[1]
    code, out, error = run("score", hypotheses, "-r", references[0], "-r", references[1], "--csv", "--samples", 0)
    assert code == 0, error
    assert out == expected
    short = write_lines(tmp_path / "short.txt", "a dog")
    code, _, error = run("score", hypotheses, "-r", references[0], "-r", short)
    assert code == 2 and error.endswith(f"{short}: has 1 lines, {references[0]} has 4, expected as many in each\n")
    code, _, error = run("score", hypotheses, "-r", short)
    assert code == 2 and "3 ids (1, 2, 3) without references in" in error


def test_lines_and_ids_are_not_joined(run, tmp_path, line_files):
    """The ids 0 and 1 of a JSON file are no numbers of lines."""
    (tmp_path / "preds.json").write_text(json.dumps({"0": "a dog", "1": "a cat"}))
    for files in ((tmp_path / "preds.json", line_files[1]), (line_files[0], tmp_path / "preds.json")):
        code, _, error = run("score", files[0], "-r", files[1], "--missing", "skip")
        assert code == 2 and "has a caption on each line and no ids" in error


def test_a_text_file_may_be_a_table(run, tmp_path):
    (tmp_path / "captions.txt").write_text("image,caption\n1.jpg,a dog\n2.jpg,a cat\n")
    (tmp_path / "refs.json").write_text(json.dumps({"1.jpg": ["dogs"], "2.jpg": ["a cat"]}))
    assert run("score", tmp_path / "captions.txt", "-r", tmp_path / "refs.json", "-m", "rouge")[0] == 0


def test_ids_that_never_match_show_both_sides(run, tmp_path):
    (tmp_path / "preds.json").write_text(json.dumps({str(number): "a dog" for number in range(1, 6)}))
    (tmp_path / "refs.json").write_text(json.dumps({f"COCO_{number}.jpg": ["dogs"] for number in range(1, 6)}))
    for options in ((), ("--missing", "skip")):
        code, _, error = run("score", tmp_path / "preds.json", "-r", tmp_path / "refs.json", *options)
        assert code == 2 and "skip" not in error
        assert "none of its 5 ids (1, 2, 3, …) is in" in error
        assert "which has 5 ids (COCO_1.jpg, COCO_2.jpg, COCO_3.jpg, …); --id-column and" in error


@pytest.mark.parametrize("key", ["results", "predictions", "captions"])
def test_records_in_an_object_are_found(run, tmp_path, key):
    records = [{"image_id": number, "caption": "a dog"} for number in range(1, 4)]
    (tmp_path / "wrapped.json").write_text(json.dumps({"model": "mine", key: records}))
    (tmp_path / "plain.json").write_text(json.dumps(records))
    (tmp_path / "refs.json").write_text(json.dumps({str(number): ["the dog"] for number in range(1, 4)}))
    options = ("-r", tmp_path / "refs.json", "-m", "rouge", "--csv")
    assert run("score", tmp_path / "wrapped.json", *options)[:2] == run("score", tmp_path / "plain.json", *options)[:2]


@pytest.mark.parametrize(
    ("written", "meant"),
    [
        ("bleu rouge", "bleu,rouge"),
        ("bleu; rouge ;cider", "bleu,rouge,cider"),
        ("cider(idf=coco train) rouge", "cider(idf=coco train),rouge"),
    ],
)
def test_metrics_without_commas(run, tmp_path, written, meant):
    (tmp_path / "p.json").write_text('{"1": "a"}')
    code, _, error = run("score", tmp_path / "p.json", "-m", written)
    assert code == 2 and error.endswith(f"commas stand between metrics: {meant}\n")


def test_folders_and_addresses_say_what_is_scored_there(run, tmp_path, monkeypatch):
    (tmp_path / "preds.json").write_text('{"1": "a dog"}')
    monkeypatch.chdir(tmp_path)
    code, _, error = run("score", ".")
    assert code == 2 and error.startswith(
        "captious: .: is a folder, whose files are scored as shards, into a folder: name"
    )
    code, _, error = run("score", "https://example.com/preds.json")
    assert code == 2 and "example.com/preds.json: what is at an address is scored as shards, into a folder" in error


def test_several_files_are_checked_at_once(run, tmp_path):
    """As pre-commit passes them."""
    (tmp_path / "good.json").write_text('{"1": "a dog"}')
    (tmp_path / "bad.json").write_text('{"1": 7}')
    code, out, _ = run("check", tmp_path / "good.json", tmp_path / "bad.json")
    assert code == 2 and "good.json" in out and "error" in out and "caption is a number (7)" in " ".join(out.split())
    assert run("check", tmp_path / "good.json", tmp_path / "good.json")[0] == 0
    code, out, _ = run("check", tmp_path / "good.json", tmp_path / "bad.json", "--json")
    levels = [[finding["level"] for finding in one["findings"]] for one in json.loads(out)["files"]]
    assert "error" not in levels[0] and levels[1][0] == "error"
    code, out, _ = run("check", tmp_path / "good.json", "-r", tmp_path / "bad.json")
    assert code == 2 and "Reading(" not in out


def test_an_empty_caption_is_described_alike_for_words_and_for_models(run, tmp_path):
    (tmp_path / "p.json").write_text(json.dumps({"1": "", "2": "a red dog"}))
    for name in ("1", "2"):
        Image.new("RGB", (64, 64), "red").save(tmp_path / f"{name}.png")
    options = ("--images", tmp_path, "-m", "clipscore(captious-mini)")
    code, _, error = run("score", tmp_path / "p.json", *options)
    assert code == 0 and "metrics with a model give it none" in error and "not dropped" not in error
    assert "items without a value: 1 × " in error


def test_the_demo_set_can_be_audited(run):
    code, out, error = run(
        "bias", "lic", DEMO / "bias.jsonl", "--label", "label", "--mask", "gender", "--seeds", 2, "--json"
    )
    assert code == 0, error
    assert json.loads(out)


def test_an_argument_of_thousands_of_characters_is_not_repeated_in_full(run):
    code, _, error = run("score", "a" * 5000)
    assert code == 2 and error == f"captious: {'a' * 160}…{'a' * 39}: cannot be read (File name too long)\n"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_behind_standard_output_is_one_line(tmp_path):
    (tmp_path / "a.json").write_text('{"1": "a dog", "2": "a cat"}')
    command = [sys.executable, "-m", "captious", "score", "a.json", "-m", "distinct_n"]
    with Path("/dev/full").open("wb") as full:
        done = subprocess.run(command, cwd=tmp_path, stdout=full, stderr=subprocess.PIPE, text=True)
    line = done.stderr.splitlines()[-1]
    assert done.returncode == 2 and line == "captious: standard output: cannot be written (No space left on device)"


@pytest.mark.parametrize("out", ["/proc/run", "/proc/scores.csv"])
@pytest.mark.skipif(not Path("/proc/self").exists(), reason="needs /proc, where nobody can make a file")
def test_an_output_that_cannot_be_written_is_refused_before_anything_is_scored(run, tmp_path, monkeypatch, out):
    (tmp_path / "a.json").write_text('{"1": "a dog", "2": "a cat"}')
    monkeypatch.setattr("captious._evaluate.evaluate", lambda *given, **options: pytest.fail("it was scored"))
    code, printed, error = run("score", tmp_path / "a.json", "-m", "distinct_n", "--out", out)
    assert code == 2 and not printed and error.startswith(f"captious: {out}: cannot be written (")
    assert error.count("\n") == 1


def test_the_caption_column_has_two_names(run, tmp_path):
    rows = [{"id": number, "caption": "a dog", "prediction": f"a cat {number}"} for number in range(3)]
    (tmp_path / "p.json").write_text(json.dumps(rows))
    code, _, error = run("score", tmp_path / "p.json", "-m", "distinct_n")
    assert code == 2 and "pass --candidate-column caption or --candidate-column prediction" in error
    code, shown, _ = run("score", tmp_path / "p.json", "-m", "distinct_n", "--caption-column", "prediction")
    assert code == 0 and "captions: `prediction`; references: none" in shown
    code, shown, _ = run("check", tmp_path / "p.json", "--caption-column", "prediction")
    assert code == 0 and "captions: `prediction`; references: none" in shown


def test_a_limit_names_its_flag(run, tmp_path):
    import gzip

    (tmp_path / "p.json.gz").write_bytes(gzip.compress(json.dumps({"1": "dog " * 1_000_000}).encode()))
    code, _, error = run("score", tmp_path / "p.json.gz", "-m", "distinct_n", "--unpack-limit", "1")
    assert code == 2 and "unpack to more than 1 MiB" in error and "--unpack-limit 4" in error
