"""``captious probe`` of encoders and metrics, as a user types it."""

import json

import pytest
from lab.toy import make, write

pytestmark = pytest.mark.usefixtures("colors")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=12), tmp_path_factory.mktemp("sample") / "s", size=32)


def test_specificity(run, sample, tmp_path):
    arguments = (sample / "long.jsonl", "--images", sample / "images", "--metrics", "clipscore,specs", "--samples", 20)
    code, out, error = run("probe", "specificity", *arguments, "--out", tmp_path / "sr")
    assert code == 0 and "SR_pos" in out and "12 captions of 12 images" in out and "report.html" in error
    assert (tmp_path / "sr" / "report.html").read_text().count('<svg class="chart"') == 2
    summary = json.loads(run("probe", "specificity", *arguments, "--counting", "macro", "--json")[1])
    assert summary["counting"] == "macro" and [row["label"] for row in summary["metrics"]] == ["CLIPScore", "SPECS"]
    code, _, error = run("probe", "specificity", sample / "long.jsonl", "--metrics", "rouge")
    assert code == 2 and "no references; pass --references" in error
    code, out, _ = run(
        "probe", "specificity", *arguments[:3], "-r", sample / "references.json", "--metrics", "rouge", "--samples", 0
    )
    assert code == 0 and "ROUGE-L" in out


@pytest.mark.parametrize("name", ["retrieval", "hubness"])
def test_retrieval_and_hubness(run, sample, tmp_path, name):
    arguments = (sample / "references.json", "--images", sample / "images", "--encoder", "one, two", "--samples", 20)
    more = ("--k", 3) if name == "hubness" else ()
    code, out, error = run("probe", name, *arguments, *more, "--out", tmp_path / "a")
    assert code == 0, error
    assert "two" in out and "image → caption" in out and "encoder:two#" in out
    assert (
        len(json.loads(run("probe", name, *arguments, *more, "--json")[1])["recall" if name == "retrieval" else name])
        == 4
    )
    code, _, error = run("probe", name, *arguments, *more, "--out", tmp_path / "a")
    assert code == 2 and "--overwrite" in error


def test_classification(run, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "scenes.jsonl").read_text().splitlines()]
    path = tmp_path / "labels.csv"
    path.write_text("id,label\n" + "".join(f"{row['id']},{row['setting']}\n" for row in rows))
    code, out, error = run("probe", "classification", path, "--images", sample / "images", "--samples", 20)
    assert code == 0 and "accuracy at 1" in out, error


def test_compositionality(run, sample, tmp_path):
    arguments = ("--images", sample / "images", "--metrics", "clipscore", "--samples", 20)
    code, out, error = run("probe", "compositionality", sample / "predictions" / "solid.json", *arguments)
    assert code == 0 and "within-trigrams" in out, error
    code, out, _ = run(
        "probe", "compositionality", sample / "predictions" / "solid.json", *arguments, "--perturbations", "words"
    )
    assert code == 0 and "within-trigrams" not in out


def test_fitting_heeds_the_long_encoder_of_the_routed_score(run, sample, tmp_path):
    row = {"id": 1001, "units": ["a cat", "in a room", "by a red chair", "under a lamp"]}
    pairs = tmp_path / "pairs.jsonl"
    pairs.write_text(json.dumps({**row, "wrong_units": row["units"]}) + "\n")
    arguments = (
        pairs,
        "--images",
        sample / "images",
        "--metrics",
        "specs_routed(long=short)",
        "--json",
        "--samples",
        0,
    )
    assert [
        json.loads(run("probe", "specificity", *arguments, *more)[1])["metrics"][0]["steps"]
        for more in ((), ("--fitting",))
    ] == [
        3,
        1,  # "a cat in a room" has 7 tokens with its ends, of 8 that fit; the next unit has four more
    ]


def test_stress(run, sample, tmp_path):
    preds, refs = sample / "predictions" / "solid.json", sample / "references.json"
    arguments = (preds, "-r", refs, "--metrics", "bleu(n=1),rouge", "--samples", 20, "--edits", "shuffle,inject")
    code, out, error = run("probe", "stress", *arguments, "--out", tmp_path / "card")
    assert code == 0 and "Stress card" in out and "no overall score" in out and "report.html" in error
    rows = json.loads(run("probe", "stress", *arguments, "--items", 5, "--json")[1])["rows"]
    assert [(row["edit"], row["n"]) for row in rows[:2]] == [("shuffle", 5), ("inject(1)", 5)]
    code, out, _ = run("probe", "stress", "--list")
    assert code == 0 and "32 edits" in out and "thirty adjectives of praise" in out
    code, _, error = run("probe", "stress")
    assert code == 2 and "no captions, expected a file, or --list" in error
    code, _, error = run("probe", "stress", *arguments[:7], "--edits", "shufle")
    assert code == 2 and "unknown edit 'shufle'" in error


def test_stress_says_what_judges_would_be_asked(run, sample, tmp_path):
    arguments = (
        sample / "predictions" / "solid.json",
        "-r",
        sample / "references.json",
        "--edits",
        "cut",
        "--items",
        6,
    )
    judge = ("--metrics", "clair(model=nobody)", "--replies", tmp_path / "replies.db")
    code, out, _ = run("probe", "stress", *arguments, *judge, "--endpoint", "http://127.0.0.1:9/v1", "--dry-run")
    assert code == 0 and out.startswith("12 calls")
