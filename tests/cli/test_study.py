"""``captious study`` as a user types it."""

import json
import sys

import pytest
from lab.toy import make, write

from captious.cli.app import main


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=20), tmp_path_factory.mktemp("sample") / "s", images=False)


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["captious", "study", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return command


@pytest.fixture
def given(sample):
    return sample / "ratings.jsonl", "--references", sample / "references.json", "--metrics", "rouge,cider"


def test_run_prints_protocol_table_and_signatures(run, given):
    code, out, _ = run("run", *given, "--samples", 50)
    assert code == 0
    for part in ("every rating is a row", "CIDEr-D", "τ-b", "95% interval", "400 rows of 80 captions", "seed=12345"):
        assert part in out


def test_run_as_json_latex_and_folder(run, given, tmp_path):
    summary = json.loads(run("run", *given, "--samples", 20, "--tau", "c", "--json")[1])
    assert summary["headline"] == "tau_c" and {row["metric"] for row in summary["metrics"]} == {"rouge", "cider"}
    assert r"\toprule" in run("run", *given, "--samples", 20, "--latex")[1]
    code, _, error = run("run", *given, "--samples", 20, "--out", tmp_path / "study")
    assert code == 0 and "study.html" in error
    assert (tmp_path / "study" / "study.html").exists()
    code, _, error = run("run", *given, "--out", tmp_path / "study")
    assert code == 2 and "--overwrite" in error


def test_scores_computed_elsewhere(run, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "ratings.jsonl").read_text().splitlines()]
    lines = [f"{row['id']},{row['captioner']},{row['quality']}" for row in rows]
    path = tmp_path / "mine.csv"
    path.write_text("id,system,mine\n" + "\n".join(lines) + "\n")
    summary = json.loads(run("run", sample / "ratings.jsonl", "--scores", path, "--samples", 20, "--json")[1])
    assert [row["metric"] for row in summary["metrics"]] == ["mine"]
    assert summary["metrics"][0]["statistics"]["tau_b"]["value"] > 0.5
    path.write_text("id,system,mine\n" + "\n".join(lines[:10]) + "\n9,x,1\n")
    code, _, error = run("run", sample / "ratings.jsonl", "--scores", path)
    assert code == 2 and "70 of 80 rated items" in error and "1 of 11 values" in error
    assert run("run", sample / "ratings.jsonl", "--scores", path, "--missing", "skip", "--samples", 20)[0] == 0


def test_a_recipe_without_its_data_says_where_to_get_it(run, tmp_path):
    code, _, error = run("run", "flickr8k-expert")
    assert code == 2 and "--data" in error and "Flickr8k_text.zip" in error
    code, _, error = run("run", "flickr8k-expert", "--data", tmp_path)
    assert code == 2 and "ExpertAnnotations.txt" in error
    code, out, _ = run("recipes")
    assert code == 0 and "pascal50s" in out and "source:" in out


def test_agreement(run, sample):
    code, out, _ = run("agreement", sample / "ratings.jsonl", "--level", "interval", "--samples", 50)
    assert code == 0 and "Krippendorff's alpha (interval)" in out and "human ceiling" in out
    summary = json.loads(run("agreement", sample / "ratings.jsonl", "--samples", 20, "--json")[1])
    assert len(summary["raters"]) == 5 and 0 < summary["alpha"]["estimate"]["value"] < 1


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"id": 1, "rating": 2}, {"id": 2, "rating": 3}], (), "one rater only"),
        ([{"id": 1, "ratings": [2, 2]}, {"id": 2, "ratings": [2, 2]}], (), "all ratings are 2: alpha is undefined"),
        ([{"id": 1, "ratings": [2, 9]}], ("--scale", "1,5"), "row 1: rating 9 is outside the scale 1 to 5"),
    ],
)
def test_agreement_that_cannot_be_computed(run, tmp_path, rows, options, message):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, error = run("agreement", path, *options)
    assert code == 2 and message in error and error.count("\n") == 1 and out == ""


def test_power(run):
    code, out, _ = run("power", "--tau", 0.05, "--items", 200)
    assert code == 0 and "for power 0.80:" in out and "assumed:" in out
    assert json.loads(run("power", "--tau", 0.05, "--items", 200, "--json")[1])["needed"] > 100


def test_combine(run, given, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "ratings.jsonl").read_text().splitlines()]
    lines = [f"{row['id']},{row['captioner']},{row['quality']},{row['share_right']}" for row in rows]
    path = tmp_path / "ie.csv"
    path.write_text("id,system,ie@1,ie@2\n" + "\n".join(lines) + "\n")
    code, out, _ = run("combine", *given, "--with", path, "--weights", "0.5,1", "--samples", 20)
    assert code == 0 and "rouge + ie" in out and "±" in out
    found = json.loads(run("combine", *given, "--with", path, "--samples", 20, "--json")[1])["rows"]
    assert [row["seeds"] for row in found] == [2, 2] and found[0]["after"] > found[0]["before"]


def test_lengths(run, given, tmp_path):
    code, out, _ = run("lengths", *given, "--edges", "6,9", "--samples", 20, "--plot", tmp_path / "plot.svg")
    assert code == 0 and "6–8" in out and (tmp_path / "plot.svg").read_text().startswith("<svg")
    code, _, error = run("lengths", *given, "--plot", tmp_path / "plot.png")
    assert code == 2 and "plot.png: the plot is written as SVG, expected" in error
    assert not (tmp_path / "plot.png").exists()
    buckets = json.loads(run("lengths", *given, "--samples", 20, "--json")[1])["buckets"]
    assert sum(bucket["items"] for bucket in buckets) == 80


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--statistic", "tau"), "no such statistic"),
        (("--rating", "stars"), "expected 'stars'"),
        (("--scale", "5"), "--scale 5"),
        (("--level", "2"), "confidence level"),
    ],
)
def test_bad_options_are_one_line(run, given, options, message):
    code, out, error = run("run", *given, *options)
    assert code == 2 and message in error and error.count("\n") == 1 and out == ""
