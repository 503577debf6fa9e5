"""Runs of shards against each other, shard by shard."""

import json
import shutil
from itertools import product

import numpy as np
import pytest
from tests.runs.shards.scored import scored, write_lines

from captious._compare import compare
from captious.errors import InputError
from captious.options import Resampling


def shards(good, number=8, items=4):
    """In each shard so many captions are right."""
    return {
        f"s{shard}": [
            {"id": f"{shard}-{item}", "caption": "a dog" if item < good[shard % len(good)] else "xx yy",
             "references": ["a dog"]}
            for item in range(items)
        ]
        for shard in range(number)
    }  # fmt: skip


@pytest.fixture
def folders(tmp_path):
    """ROUGE-L is the share of right captions: 1/4 or 2/4 in shards of a, 3/4 in those of b."""
    for name, good in {"a": [1, 2], "b": [3]}.items():
        scored(write_lines(tmp_path / name, shards(good)), tmp_path / f"scores_{name}")
    return {name: tmp_path / f"scores_{name}" for name in "ab"}


def test_shards_change_sides(folders):
    comparison = compare(folders, None, resampling=Resampling(200), permutations=4000)
    (row,) = comparison.differences
    assert (row.metric, row.baseline, row.system, row.items) == ("rouge", "a", "b", 32)
    assert row.difference == pytest.approx(0.75 - 0.375)
    # All 2⁸ ways to change sides of eight shards, whose differences are 2/4 and 1/4 in turn.
    gaps = np.array([0.5, 0.25] * 4)
    outcomes = [abs(np.mean(gaps * signs)) for signs in product([1, -1], repeat=8)]
    exact = np.mean(np.array(outcomes) >= gaps.mean() - 1e-12)
    assert row.p == pytest.approx(exact, abs=0.006)  # 2 / 256, from 4000 shuffles
    assert row.better == "b" and 0.25 <= row.low < row.difference < row.high <= 0.5
    assert comparison.test == "paired randomization(4000,seed=12345) of shards"
    assert any("the tests compare 8 shards; below 20 they are rough" in line for line in comparison.warnings)


def test_the_bootstrap_resamples_shards(folders):
    (row,) = compare(folders, None, resampling=Resampling(200), test="bootstrap").differences
    assert row.p < 0.05


def test_it_shows_and_saves_itself(folders, tmp_path):
    comparison = compare(folders)
    assert "2 systems, 32 items" in str(comparison) and "ROUGE-L" in str(comparison)
    comparison.save(tmp_path / "out")
    assert "#sort=" not in (tmp_path / "out" / "report.html").read_text()  # there are no items to sort
    assert {path.name for path in (tmp_path / "out").iterdir()} >= {"a", "b", "report.html", "captious-output.json"}
    data = json.loads((tmp_path / "out" / "captious-output.json").read_text())
    assert data["systems"]["b"]["items"] == 32
    assert (tmp_path / "out" / "b" / "shards.csv").read_text().startswith("shard,items,rouge")
    assert comparison.to_pandas("items")["system"].tolist() == ["a"] * 32 + ["b"] * 32


def test_the_order_of_the_shards_does_not_matter(folders, tmp_path):
    # The same run, whose marker lists the last shard first.
    path = tmp_path / "turned" / "captious-run.json"
    shutil.copytree(folders["b"], path.parent)
    marker = json.loads(path.read_text())
    marker["parts"] = dict(reversed(marker["parts"].items()))
    marker["shards"].reverse()
    path.write_text(json.dumps(marker))
    turned = compare({"a": folders["a"], "b": path.parent}).differences
    assert turned == compare(folders).differences


def test_missing_values_of_one_system_are_said(folders, tmp_path):
    scored(
        write_lines(tmp_path / "c", shards([3])), tmp_path / "scores_c", broken={"0-0": "no image", "1-3": "no image"}
    )
    comparison = compare({"a": folders["a"], "c": tmp_path / "scores_c"})
    assert "rouge: 2 items have a value of only one of a and c" in comparison.warnings


def test_what_does_not_compare_is_refused(folders, tmp_path):
    other = shards([1])
    other["s3"][2]["id"] = "other"
    scored(write_lines(tmp_path / "ids", other), tmp_path / "other_ids")
    fewer = shards([1], 7)
    scored(write_lines(tmp_path / "fewer", fewer), tmp_path / "fewer_shards")
    scored(write_lines(tmp_path / "bleu", shards([1])), tmp_path / "other_metric", "bleu")
    scored(write_lines(tmp_path / "tok", shards([1])), tmp_path / "plain", "rouge(tokenizer=plain),bleu")
    for folder, message in [
        ("other_ids", r"a and x differ in shard s3: only one of them has id '3-2', expected the same"),
        ("fewer_shards", r"a and x: x has no shard s7, expected the same shards"),
        ("other_metric", r"no metric is in all runs: a has rouge; x has bleu\(n=1\), bleu\(n=2\)"),
        ("plain", r"no metric is in all runs"),
        ("bleu/s0.jsonl", r"scores_a: has no statistics of its items, expected runs of the same shards; or score"),
    ]:
        with pytest.raises(InputError, match=message):
            compare({"a": folders["a"], "x": tmp_path / folder})
    with pytest.raises(InputError, match=r"a has no bleu\(n=4\), only rouge"):
        compare(folders, "rouge,bleu(n=4)")
    with pytest.raises(InputError, match="1 system given, expected at least two to compare"):
        compare({"a": folders["a"]})
    different = {name: [{**row, "references": ["a cat"]} for row in part] for name, part in shards([1]).items()}
    scored(write_lines(tmp_path / "refs", different), tmp_path / "other_refs")
    remarks = compare({"a": folders["a"], "x": tmp_path / "other_refs"}).warnings
    assert any("scored against different references" in line for line in remarks)
