"""``captious study`` as a user types it."""

import json
from functools import partial

import pytest
from lab.toy import make, write


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=20), tmp_path_factory.mktemp("sample") / "s", images=False)


@pytest.fixture
def study(run):
    return partial(run, "study")


@pytest.fixture
def arguments(sample):
    return sample / "ratings.jsonl", "--references", sample / "references.json", "--metrics", "rouge,cider"


def test_run_prints_protocol_table_and_signatures(study, arguments):
    code, out, _ = study("run", *arguments, "--samples", 50)
    assert code == 0
    for part in ("every rating is a row", "CIDEr-D", "τ-b", "95% interval", "400 rows of 80 captions", "seed=12345"):
        assert part in out


def test_run_as_json_latex_and_folder(study, arguments, tmp_path):
    summary = json.loads(study("run", *arguments, "--samples", 20, "--statistic", "tau_c", "--json")[1])
    assert summary["headline"] == "tau_c" and {row["metric"] for row in summary["metrics"]} == {"rouge", "cider"}
    assert r"\toprule" in study("run", *arguments, "--samples", 20, "--latex")[1]
    code, _, error = study("run", *arguments, "--samples", 20, "--out", tmp_path / "study")
    assert code == 0 and "study.html" in error
    assert (tmp_path / "study" / "study.html").exists()
    code, _, error = study("run", *arguments, "--out", tmp_path / "study")
    assert code == 2 and "--overwrite" in error


def test_scores_computed_elsewhere(study, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "ratings.jsonl").read_text().splitlines()]
    lines = [f"{row['id']},{row['captioner']},{row['quality']}" for row in rows]
    path = tmp_path / "mine.csv"
    path.write_text("id,system,mine\n" + "\n".join(lines) + "\n")
    summary = json.loads(study("run", sample / "ratings.jsonl", "--scores", path, "--samples", 20, "--json")[1])
    assert [row["metric"] for row in summary["metrics"]] == ["mine"]
    assert summary["metrics"][0]["statistics"]["tau_b"]["value"] > 0.5
    path.write_text("id,system,mine\n" + "\n".join(lines[:10]) + "\n9,x,1\n")
    code, _, error = study("run", sample / "ratings.jsonl", "--scores", path)
    assert code == 2 and "70 of 80 rated items" in error and "1 of 11 values" in error
    assert study("run", sample / "ratings.jsonl", "--scores", path, "--missing", "skip", "--samples", 20)[0] == 0


def test_a_recipe_without_its_data_says_where_to_get_it(study, tmp_path):
    code, _, error = study("run", "flickr8k-expert")
    assert code == 2 and "--data" in error and "Flickr8k_text.zip" in error
    code, _, error = study("run", "flickr8k-expert", "--data", tmp_path)
    assert code == 2 and "ExpertAnnotations.txt" in error
    code, out, _ = study("recipes")
    assert code == 0 and "pascal50s" in out and "source:" in out


def test_agreement(study, sample):
    code, out, _ = study("agreement", sample / "ratings.jsonl", "--measurement", "interval", "--samples", 50)
    assert code == 0 and "Krippendorff's alpha (interval)" in out and "The human ceiling" in out
    summary = json.loads(study("agreement", sample / "ratings.jsonl", "--samples", 20, "--json")[1])
    assert len(summary["raters"]) == 5 and 0 < summary["alpha"]["estimate"]["value"] < 1


@pytest.mark.parametrize(
    ("rows", "options", "message"),
    [
        ([{"id": 1, "rating": 2}, {"id": 2, "rating": 3}], (), "one rater only"),
        ([{"id": 1, "ratings": [2, 2]}, {"id": 2, "ratings": [2, 2]}], (), "all ratings are 2: alpha is undefined"),
        ([{"id": 1, "ratings": [2, 9]}], ("--scale", "1,5"), "row 1: rating 9 is outside the scale 1 to 5"),
    ],
)
def test_agreement_that_cannot_be_computed(study, tmp_path, rows, options, message):
    path = tmp_path / "r.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, out, error = study("agreement", path, *options)
    assert code == 2 and message in error and error.count("\n") == 1 and out == ""


def test_power(study):
    code, out, _ = study("power", "--difference", 0.05, "--items", 200)
    assert code == 0 and "0.80" in out and "for power" in out and "assumed:" in out
    assert json.loads(study("power", "--difference", 0.05, "--items", 200, "--json")[1])["needed"] > 100


def test_combine(study, arguments, sample, tmp_path):
    rows = [json.loads(line) for line in (sample / "ratings.jsonl").read_text().splitlines()]
    lines = [f"{row['id']},{row['captioner']},{row['quality']},{row['share_right']}" for row in rows]
    path = tmp_path / "ie.csv"
    path.write_text("id,system,ie@1,ie@2\n" + "\n".join(lines) + "\n")
    code, out, _ = study("combine", *arguments, "--add", path, "--factors", "0.5,1", "--samples", 20)
    assert code == 0 and "rouge + ie" in out and "±" in out
    rows = json.loads(study("combine", *arguments, "--add", path, "--samples", 20, "--json")[1])["rows"]
    assert [row["seeds"] for row in rows] == [2, 2] and rows[0]["after"] > rows[0]["before"]


def test_lengths(study, arguments, tmp_path):
    code, out, _ = study("lengths", *arguments, "--edges", "6,9", "--samples", 20, "--out", tmp_path / "l")
    assert code == 0 and "6–8" in out and "<svg" in (tmp_path / "l" / "lengths.html").read_text()
    buckets = json.loads(study("lengths", *arguments, "--samples", 20, "--json")[1])["buckets"]
    assert sum(bucket["items"] for bucket in buckets) == 80


def test_length_in_tokens(study, sample, tmp_path, colors):
    arguments = (
        sample / "ratings.jsonl",
        "--references",
        sample / "references.json",
        "--metrics",
        "rouge",
        "--samples",
        20,
    )
    code, out, error = study("lengths", *arguments, "--tokens", "colors", "--out", tmp_path / "l")
    assert code == 0 and "tokens" in out, error
    tokens = json.loads(study("lengths", *arguments, "--tokens", "colors", "--json")[1])["buckets"]
    words = json.loads(study("lengths", *arguments, "--json")[1])["buckets"]
    assert [bucket["low"] - 2 for bucket in tokens] == [bucket["low"] for bucket in words]  # start and end
    assert tokens[0]["unit"] == "tokens" and "<svg" in (tmp_path / "l" / "lengths.html").read_text()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--statistic", "tau"), "no such statistic"),
        (("--rating", "stars"), "no column 'stars', found columns id, captioner"),
        (("--scale", "5"), "--scale 5"),
        (("--scale", "5,1"), "--scale 5,1"),
        (("--system", "nosuch"), "no column 'nosuch'"),
        (("--rater", "annotatr"), "no column 'annotatr'"),
        (("--level", "2"), "confidence level"),
    ],
)
def test_bad_options_are_one_line(study, arguments, options, message):
    code, out, error = study("run", *arguments, *options)
    assert code == 2 and message in error and error.count("\n") == 1 and out == ""


def test_a_sheet_with_one_column_per_rater(study, tmp_path):
    path = tmp_path / "sheet.csv"
    path.write_text("id,ann,bob\n1,1,2\n2,3,3\n3,5,4\n4,2,\n")
    summary = json.loads(study("agreement", path, "--rating", "ann,bob", "--samples", 0, "--json")[1])
    assert [rater["name"] for rater in summary["raters"]] == ["ann", "bob"]
    assert [rater["ratings"] for rater in summary["raters"]] == [4, 3]
    code, _, error = study("agreement", path, "--rating", "ann", "--rating", "carl")
    assert code == 2 and "no column 'carl', found columns id, ann, bob" in error


def test_systems_change_what_is_printed(study, arguments):
    code, out, _ = study("run", *arguments, "--samples", 20)
    assert code == 0 and "Between the 4 systems" in out and "system τ" in out and "soft acc." in out


def test_a_recipe_refuses_columns(study, tmp_path):
    code, _, error = study("run", "flickr8k-expert", "--data", tmp_path, "--group", "picture")
    assert code == 2 and "leave out --group" in error
