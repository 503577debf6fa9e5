"""``captious make negatives`` as a user types it."""

import json
from types import SimpleNamespace

import numpy as np
import pytest

CAPTIONS = {
    "1": ["A red dog runs on the beach.", "A dog with a ball runs."],
    "2": ["A small cat sleeps on a green sofa.", "The cat is sleeping."],
    "3": ["Two men ride horses on the beach.", "Men riding brown horses."],
    "4": ["A man holds a red ball.", "A man with a ball on the green grass."],
    "5": ["Dog", ""],
}


@pytest.fixture
def captious(run):
    """Run the command; gives exit code, standard output and standard error."""

    def command(*arguments):
        code, out, err = run("make", *arguments)
        return SimpleNamespace(returncode=code, stdout=out, stderr=err)

    return command


@pytest.fixture
def captions(tmp_path):
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(json.dumps({"id": key, "captions": texts}) + "\n" for key, texts in CAPTIONS.items()))
    return path


def test_all_kinds_into_a_file(captious, captions, tmp_path):
    out = tmp_path / "neg.jsonl"
    done = captious("negatives", captions, "--out", out)
    assert done.returncode == 0, done.stderr
    rows = [json.loads(line) for line in out.open()]
    assert len(rows) == 50 and {row["kind"] for row in rows} == {"hard", "random", "substitute", "shuffle", "repeat"}
    assert [row["id"] for row in rows[::10]] == list(CAPTIONS)
    assert all(row["negative"] not in CAPTIONS[row["id"]] for row in rows)
    assert "5 images, 10 captions" in done.stdout and "fell back to" in done.stdout and f"written: {out}" in done.stderr
    assert "hard negatives only by captions" in done.stderr and "hard negatives" not in done.stdout
    empty = [row for row in rows if row["caption"] == ""]
    assert [row.get("fallback") for row in empty] == [None, None, "random", "random", "random"]
    again = captious("negatives", captions, "--out", out)
    assert again.returncode == 2 and "already exists; pass --overwrite" in again.stderr
    before = out.read_bytes()
    assert captious("negatives", captions, "--out", out, "--overwrite").returncode == 0
    assert out.read_bytes() == before


def test_a_look_by_kind(captious, captions):
    done = captious("negatives", captions, "--kinds", "substitute,shuffle", "--look", 3)
    assert done.returncode == 0, done.stderr
    assert "substitute: 3 of 10" in done.stdout and "shuffle: 3 of 10" in done.stdout and "→" in done.stdout
    assert "hard" not in done.stdout + done.stderr


def test_json_counts_and_sample(captious, captions):
    done = captious("negatives", captions, "--json", "--look", 2, "--seed", 7)
    found = json.loads(done.stdout)
    assert (found["captions"], found["images"], found["seed"], found["per"]) == (10, 5, 7, 1)
    assert all(sum(tally.values()) == 10 for tally in found["counts"].values())
    assert found["counts"]["shuffle"]["random"] == 2  # a word and an empty caption
    assert [len(rows) for rows in found["look"].values()] == [2] * 5


def test_images_alike_by_vectors_in_a_file(captious, captions, tmp_path):
    np.savez(tmp_path / "v.npz", ids=list("1234"), features=np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]]))
    where = ("--out", tmp_path / "neg.jsonl", "--image-features", tmp_path / "v.npz")
    done = captious("negatives", captions, "--kinds", "hard", *where)
    assert done.returncode == 0, done.stderr
    assert "1 images without a vector are compared only by captions, such as 5 (not in v.npz)" in done.stderr
    rows = [json.loads(line) for line in (tmp_path / "neg.jsonl").open()]
    assert {row["done"].get("by") for row in rows} == {"image", "cider"}
    assert "image" not in {row["done"].get("by") for row in rows if row["id"] == "5"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--kinds", "hrad", "--look", 1], "unknown kind of negative 'hrad', expected one of hard, random"),
        (["--kinds", ",", "--look", 1], "--kinds ,: expected at least one value"),
        ([], "nothing to do with the negatives"),
        (["--look", 1, "--encoder", "captious-mini"], "--images and --encoder find images that look alike together"),
        (["--look", 1, "--images", "."], "--images and --encoder find images that look alike together"),
        (["--look", 1, "--image-features", "a.npz", "--images", "."], "expected one source"),
        (["--look", 1, "--image-features", "absent.npz"], "absent.npz: no such file"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_line(captious, captions, arguments, message):
    done = captious("negatives", captions, *arguments)
    assert done.returncode == 2 and message in done.stderr and done.stderr.count("\n") == 1


def test_an_unknown_tagger_is_refused(captious, captions):
    done = captious("negatives", captions, "--look", 1, "--tagger", "penn")
    assert done.returncode == 2 and "'penn' is not one of 'captious', 'spacy', 'nltk'" in done.stderr


def test_a_file_without_captions(captious, tmp_path):
    (tmp_path / "empty.jsonl").write_text("\n")
    done = captious("negatives", tmp_path / "empty.jsonl", "--look", 1)
    assert done.returncode == 2 and "is empty, expected captions" in done.stderr
    done = captious("negatives", tmp_path / "absent.jsonl", "--look", 1)
    assert done.returncode == 2 and "no such file" in done.stderr
