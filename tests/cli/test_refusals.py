"""Values that commands once took in silence, or broke on: one line that names the row or the option."""

import json

import numpy as np
import pandas as pd
import pytest
from tests.fuzz.cases import SLOTS


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
        (("style", "correlate", model, empty), "holds no rankings"),
        (("probe", "classification", empty, "--images", images, "--encoder", "captious-mini"), "holds no labels"),
        (("make", "negatives", empty, "--kinds", "random", "--look", 1), "holds no captions"),
        (("cache", "fill", images, "--encoder", "captious-mini", "--captions", empty), "holds no captions"),
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
        assert code == 2 and "row 2: reference is a printed list (['" in out + error
