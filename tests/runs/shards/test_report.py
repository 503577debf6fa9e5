"""The report of shards: sums over shards, resampled shards, and everything that the page shows."""

import json

import numpy as np
import pytest
from tests.runs.shards.scored import scored, write_lines, write_tar

import captious
from captious.options import Resampling
from captious.runs.report import make_report, open_run

WORDS = ["a", "the", "red", "small", "dog", "cat", "man", "boat", "runs", "sits", "on", "near", "grass", "water"]


def rows(shards, items=6, seed=0):
    """Captions that share some words with their references, by shard."""
    rng = np.random.default_rng(seed)

    def sentence():
        return " ".join(rng.choice(WORDS, size=rng.integers(3, 9)))

    return {
        f"s{shard:02d}": [
            {"id": f"{shard}-{item}", "caption": sentence(), "references": [sentence(), sentence()]}
            for item in range(items)
        ]
        for shard in range(shards)
    }


def reported(run):
    """The report with intervals, as it was written."""
    return make_report(run, Resampling())


def test_values_are_those_of_the_whole_set(tmp_path):
    shards = rows(5)
    report = reported(scored(write_lines(tmp_path / "shards", shards), tmp_path / "scores", "bleu,rouge"))
    whole = captious.evaluate([row for part in shards.values() for row in part], "bleu,rouge", resampling=Resampling(0))
    assert list(report.measurements) == list(whole.measurements)
    for key, measurement in whole.measurements.items():
        assert report[key].corpus == pytest.approx(measurement.corpus, rel=1e-12)
    assert report.size == 30 and report["BLEU-4"].signature.items == 30
    table = report.to_arrow("items")
    assert table["id"].to_pylist() == list(whole.captions.ids)
    np.testing.assert_array_equal(table["rouge"].to_numpy(), whole["rouge"].values)
    assert [len(part) for part in report.items()] == [6] * 5


def test_shards_are_resampled_not_items(tmp_path):
    # Shards of one kind each: the mean of n resampled shards is a mean of n draws from their two values.
    parts = {
        f"s{shard:02d}": [
            {"id": f"{shard}-{item}", "caption": "a dog", "references": ["a dog" if shard % 2 else "two boats"]}
            for item in range(50)
        ]
        for shard in range(30)
    }
    report = reported(scored(write_lines(tmp_path / "shards", parts), tmp_path / "scores"))
    interval = report.intervals["rouge"]
    assert interval.value == 0.5
    # √(0.25 / 30) = 0.0913; items alone would give √(0.25 / 1500) = 0.0129.
    assert interval.error == pytest.approx(0.0913, rel=0.1)
    assert "ci:bootstrap(1000,shards,seed=12345,95%)" in report.signature("rouge")
    assert not report.warnings


def test_few_shards_are_warned_of_and_one_has_no_interval(tmp_path):
    four = reported(scored(write_lines(tmp_path / "four", rows(4)), tmp_path / "a"))
    assert any("resample 4 shards; below 20 they are rough" in line for line in four.warnings)
    one = reported(scored(write_lines(tmp_path / "one", rows(1)), tmp_path / "b"))
    assert one.intervals == {} and one.warnings == ()
    assert "ci:" not in one.signature("rouge")


def test_reasons_faults_and_repeated_ids_are_shown(tmp_path):
    shards = rows(3)
    shards["s02"].append(shards["s00"][0])
    shards["s02"].append({"id": "bad", "caption": None, "references": ["a dog"]})
    shards["s03"] = []
    broken = {"0-1": "image is broken", "0-2": "image is broken", "1-1": "no image"}
    report = reported(scored(write_lines(tmp_path / "shards", shards), tmp_path / "scores", broken=broken))
    assert {reason: (one.count, one.ids) for reason, one in report["rouge"].reason_counts.items()} == {
        "image is broken": (2, ("0-1", "0-2")),
        "no image": (1, ("1-1",)),
    }
    assert any(
        "1 id occurs more than once over the shards, such as '0-0' in s00 and s02" in one for one in report.warnings
    )
    assert any("1 of 4 shards contain no item, such as s03" in one for one in report.warnings)
    tables = report.document().tables
    assert [(row[1], row[2]) for row in tables["unscored"].rows] == [("image is broken", 2), ("no image", 1)]
    folder = tmp_path / "shards"
    assert [row[1:] for row in tables["faults"].rows] == [
        (1, 1, f"{folder}/s02.jsonl: row 8: caption is null (None), expected a string"),
        (1, 1, f"{folder}/s03.jsonl: contains no item"),
    ]
    frame = report.to_pandas()
    assert frame["rouge_unscored"].tolist() == [2, 1, 0, 0] and frame["items"].tolist() == [6, 6, 7, 0]
    assert np.isnan(frame["rouge"].astype(float).tolist()[3])


def test_the_worst_are_those_of_all_shards(tmp_path):
    parts = {
        f"s{shard}": [
            {"id": f"{shard}-{item}", "caption": "a dog", "references": ["a dog" + " x" * (10 * item + shard)]}
            for item in range(3)
        ]
        for shard in range(3)
    }
    report = reported(scored(write_lines(tmp_path / "shards", parts), tmp_path / "scores"))
    assert [item.id for item in report["rouge"].worst][:4] == ["2-2", "1-2", "0-2", "2-1"]


def test_it_is_written_into_the_folder(tmp_path):
    folder = scored(write_lines(tmp_path / "shards", rows(3, 40)), tmp_path / "scores", "bleu,rouge")
    reported(folder).write()
    written = {path.name for path in (tmp_path / "scores").iterdir() if path.is_file()}
    assert written == {
        "captious-run.json",
        "report.html",
        "report.json",
        "report.tex",
        "report.txt",
        "scores.csv",
        "shards.csv",
        "steps.csv",
    }
    data = json.loads((tmp_path / "scores" / "report.json").read_text())
    assert data["items"] == 120 and [one["metric"] for one in data["metrics"]][-1] == "rouge"
    assert sum(data["metrics"][0]["histogram"]["counts"]) == 120
    page = (tmp_path / "scores" / "report.html").read_text()
    assert "Worst by ROUGE-L" in page and page.count('class="chart"') == 5
    again = open_run(tmp_path / "scores")
    assert again["rouge"].corpus == data["metrics"][-1]["value"]


def test_tars_without_references(tmp_path):
    write_tar(tmp_path / "shards" / "0.tar", {"1.txt": b"a dog", "2.txt": b"a cat"})
    report = reported(scored(str(tmp_path / "shards" / "*.tar"), tmp_path / "scores", "div_n(n=1)"))
    assert report["div_n"].corpus == 1.0
    assert "first reference" not in str(report.document().tables["worst_div_n(n=1)"].columns)
