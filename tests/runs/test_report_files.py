import json
import math

import numpy as np
import pyarrow.parquet as pq
import pytest
from lab.toy import make

from captious._compare import compare
from captious._core.files import OUTPUT, RUN
from captious._evaluate import evaluate
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.runs import open_run


@pytest.fixture(scope="module")
def report():
    captions = CaptionSet.of(
        {"1": ["a cat", "one cat"], "2": "a dog & 50% more"},
        {"1": ["a cat sits"], "2": ["a dog", "the dog"]},
        {"style": ["plain", "odd"], "boxes": [[1, 2], {"x": 1}]},
        name="run one",
    )
    return evaluate(captions, "bleu(n=1),lsa")


def test_a_run_is_written_whole(report, tmp_path):
    report.save(tmp_path / "run")
    assert {path.name for path in (tmp_path / "run").iterdir()} == {
        RUN, "items", "rows", "items.csv", "report.html", "report.json", "report.tex", "report.txt", "scores.csv",
    }  # fmt: skip
    assert {path.name for path in (tmp_path / "run").glob("*/*")} == {"captions.parquet"}
    summary = json.loads((tmp_path / "run" / RUN).read_text())
    assert [row["metric"] for row in summary["metrics"]] == ["bleu(n=1)", "lsa"]
    bleu = summary["metrics"][0]
    assert bleu["value"] == report["bleu(n=1)"].corpus
    assert bleu["low"] <= bleu["value"] <= bleu["high"]
    assert bleu["signature"] == report.signature("bleu(n=1)")


def test_items_are_written_with_every_value_and_every_reason(report, tmp_path):
    report.save(tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "items" / "captions.parquet").to_pydict()
    counts = ["words", "characters"]
    assert list(table) == ["id", "candidates", "references", *counts, "style", "boxes", "bleu(n=1)", "lsa", "unscored"]
    assert table["id"] == ["1", "2"] and json.loads(table["unscored"][1]) == {"lsa": "one candidate, needs several"}
    assert table["bleu(n=1)"] == report["bleu(n=1)"].values.tolist()
    assert table["lsa"][1] is None and table["candidates"][0] == ["a cat", "one cat"]
    assert table["style"] == ["plain", "odd"] and json.loads(table["boxes"][1]) == {"x": 1}


def test_a_large_set_is_written_in_parts_and_read_back_whole(report, tmp_path, monkeypatch):
    report.save(tmp_path / "whole")
    monkeypatch.setattr("captious.runs.source.BLOCK", 1)
    monkeypatch.setattr("captious.runs.source.PART", 1)
    report.save(tmp_path / "parts")
    assert [path.name for path in sorted((tmp_path / "parts" / "items").iterdir())] == [
        "captions-000.parquet",
        "captions-001.parquet",
    ]
    whole, parts = (open_run(tmp_path / name) for name in ("whole", "parts"))
    assert (tmp_path / "parts" / "items.csv").read_bytes() == (tmp_path / "whole" / "items.csv").read_bytes()
    assert list(parts.captions) == list(whole.captions)
    assert parts.captions.candidates.values == report.captions.candidates.values
    assert parts.captions.columns["style"] == report.captions.columns["style"]
    for key, one in report.measurements.items():
        for other in (whole[key], parts[key]):
            assert other.signature == one.signature and other.reasons == one.reasons and other.corpus == one.corpus
            np.testing.assert_array_equal(other.values, one.values)
            np.testing.assert_array_equal(other.rows, one.rows)
    assert str(parts) == str(whole) == str(report)
    assert [len(table) for table in report.items()] == [1, 1]


def test_a_run_that_is_there_is_not_touched_unless_told(report, tmp_path):
    report.save(tmp_path / "run")
    before = (tmp_path / "run" / RUN).read_bytes()
    with pytest.raises(InputError, match="already exists"):
        report.save(tmp_path / "run")
    assert (tmp_path / "run" / RUN).read_bytes() == before
    report.save(str(tmp_path / "run"), overwrite=True)
    assert (tmp_path / "run" / RUN).read_bytes() == before


def test_odd_columns_are_written_too(tmp_path):
    columns = {"meta": [{}, {"a": 1}], "huge": [2**80, 1], "nan": [float("nan"), 1.0], "mixed": ["a", 1]}
    captions = CaptionSet.of({"1": "a", "2": "b"}, {"1": ["a"], "2": ["b"]}, columns)
    evaluate(captions, "rouge").save(tmp_path / "run")
    table = pq.read_table(tmp_path / "run" / "items" / "captions.parquet").to_pydict()
    assert math.isnan(table["nan"][0]) and table["nan"][1] == 1.0
    assert json.loads(table["meta"][1]) == {"a": 1} and json.loads(table["huge"][0]) == 2**80


def test_metrics_that_share_a_label_are_told_apart(tmp_path):
    captions = CaptionSet.of({"1": "a b", "2": "b"}, {"1": ["a", "b"], "2": ["b"]})
    report = evaluate(captions, "rouge,rouge(best=f)")
    assert [report.label(key) for key in report.measurements] == ["rouge", "rouge(best=f)"]
    assert "rouge(best=f) & " in report.to_latex()


def test_the_latex_table(report):
    text = report.to_latex()
    assert "\n% bleu(n=1)|tok:ptb.1|" in text.partition(r"\begin{tabular}")[0]
    assert rf"BLEU-1 & {report['bleu(n=1)'].corpus:.4f} & [" in text
    assert r"LSA diversity & " in text and text.count(r"\\") == 3


@pytest.fixture(scope="module")
def comparison():
    sample = make(items=30)
    systems = {
        name: CaptionSet.of(
            {scene.id: sample.prediction_of(scene, name).text for scene in sample.scenes()}, sample.references()
        )
        for name in ("parrot", "expert")
    }
    return compare({"par_rot": systems["parrot"], "expert": systems["expert"]}, "rouge,cider", permutations=500)


def test_the_latex_comparison_marks_the_best_and_what_differs(comparison):
    text = comparison.to_latex()
    best, interval = comparison.reports["expert"]["cider"].corpus, comparison.reports["expert"].intervals["cider"]
    half = (interval.high - interval.low) / 2
    assert rf"\textbf{{{best:.4f} $\pm$ {half:.4f}}}$^\dagger$ \\" in text
    assert r"par\_rot & " in text


def test_a_system_named_by_a_path_stays_inside_the_folder(tmp_path):
    captions = CaptionSet.of({"1": "a", "2": "b"}, {"1": ["a"], "2": ["b"]})
    names = {"/etc/a": captions, "../../a": captions, "a": captions}
    compare(names, "rouge", permutations=10).save(tmp_path / "run")
    folders = {path.name for path in (tmp_path / "run").iterdir() if path.is_dir()}
    assert folders == {"etc-a", "a", "a-3"}
    assert [path.name for path in tmp_path.iterdir()] == ["run"]


def test_a_comparison_is_written_whole(comparison, tmp_path):
    comparison.save(tmp_path / "run")
    summary = json.loads((tmp_path / "run" / OUTPUT).read_text())
    assert set(summary["systems"]) == {"par_rot", "expert"}
    row = summary["differences"][0]
    assert row["metric"] == "rouge" and row["difference"] == comparison.differences[0].difference
    expert = open_run(tmp_path / "run" / "expert")
    assert expert["cider"].corpus == comparison.reports["expert"]["cider"].corpus
    assert not any(math.isnan(value) for value in row.values() if isinstance(value, float))


def test_the_frames_of_a_comparison_have_intervals(comparison, tmp_path):
    frame = comparison.to_pandas()
    assert list(frame.columns) == [
        "system", "rouge", "rouge_low", "rouge_high", "cider", "cider_low", "cider_high",
    ]  # fmt: skip
    assert frame.loc[1, "cider_low"] == comparison.reports["expert"].intervals["cider"].low
    tests = comparison.to_pandas("differences")
    assert tests.loc[0, "difference"] == comparison.differences[0].difference
    names = ["metric", "baseline", "system", "difference", "low", "high", "p", "p_holm", "items", "better"]
    assert list(tests.columns) == names and set(tests["baseline"]) == {"par_rot"} and set(tests["system"]) == {"expert"}
    comparison.save(tmp_path / "both")
    assert (tmp_path / "both" / "differences.csv").read_text().splitlines()[0] == ",".join(names)


def test_csv_holds_every_number_in_full(report, tmp_path):
    report.save(tmp_path / "run")
    head, *rows = (tmp_path / "run" / "items.csv").read_text().splitlines()
    assert head == "id,candidate,bleu(n=1),lsa"
    assert rows[0].startswith(f"1,a cat | one cat,{report['bleu(n=1)'].items['1']},")
    assert rows[1] == f"2,a dog & 50% more,{report['bleu(n=1)'].items['2']},"
    scores = (tmp_path / "run" / "scores.csv").read_text().splitlines()
    assert scores[0] == "metric,value,value_low,value_high,unscored"
    assert scores[1].startswith(f"BLEU-1,{report['bleu(n=1)'].corpus},{report.intervals['bleu(n=1)'].low},")
