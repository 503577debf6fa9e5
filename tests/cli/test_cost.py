"""``captious cost``, as a user types it."""

import json

import pytest


def test_known_judges_and_a_shape_of_ones_own(run):
    code, printed, _ = run("cost", "judge", "--json")
    by_name = {one["judge"]: one for one in json.loads(printed)["judges"]}
    assert code == 0 and by_name["llama-2-7b"]["tflops"] == pytest.approx(3.964, abs=5e-4)
    assert by_name["llava-1.5-13b"]["published"] == 7.74
    shape = "layers=32,width=4096,inner=11008,kv_width=4096,vocabulary=32000"
    code, printed, _ = run("cost", "judge", shape, "--tokens", 600, "--json")
    (mine,) = json.loads(printed)["judges"]
    assert code == 0 and mine["tflops"] == pytest.approx(2 * by_name["llama-2-7b"]["tflops"])
    assert mine["published"] is None
    for text in ("layers=32,width=4096", shape.replace("4096", "wide", 1)):
        code, _, errors = run("cost", "judge", text)
        assert code == 2 and "expected whole numbers, all five of layers=" in errors


@pytest.fixture
def study(tmp_path):
    values = {"a": 0.4, "b": 0.6, "c": 0.5, "d": 0.7}
    path = tmp_path / "study.json"
    content = {
        "name": "ratings",
        "headline": "tau_b",
        "options": {"level": 0.95},
        "metrics": [
            {"metric": f"metric_{name}", "label": name, "statistics": {"tau_b": {"value": one, "low": None, "high": 1}}}
            for name, one in values.items()
        ],
    }
    path.write_text(json.dumps(content))
    return path


def test_cost_against_agreement(run, study, tmp_path):
    """c costs more than b and agrees less: it is not the best at its cost. The cost of d is not known."""
    costs = ("--cost", "a=0.01", "--cost", "b=0.1", "--cost", "metric_c=llama-2-7b")
    code, printed, errors = run("cost", "agreement", study, *costs, "--out", tmp_path / "page", "--json")
    assert code == 0, errors
    found = json.loads(printed)
    assert found["frontier"] == ["metric_a", "metric_b"]
    assert {one["label"]: one["tflops"] for one in found["metrics"]} == {
        "a": 0.01,
        "b": 0.1,
        "c": pytest.approx(3.964, abs=5e-4),
        "d": None,
    }
    assert found["answer"] == "b agrees best with people for 10 times the operations; a is the cheapest."
    page = (tmp_path / "page" / "cost.html").read_text()
    assert "power of ten" in page and "their cost is not known: d" in page


def test_costs_that_cannot_be_read(run, study, tmp_path):
    for text, message in (
        ("a", "expected NAME=TFLOPs"),
        ("z=1", "the study has no such metric"),
        ("a=-1", "expected TFLOPs of 0 or more"),
        ("a=no-model-at-all", "no-model-at-all"),
    ):
        code, _, errors = run("cost", "agreement", study, "--cost", text)
        assert code == 2 and message in errors
    (tmp_path / "other.json").write_text("{}")
    code, _, errors = run("cost", "agreement", tmp_path / "other.json", "--cost", "a=1")
    assert code == 2 and "is not a study" in errors
