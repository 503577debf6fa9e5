"""Painters compared in one command (the paper's Table 4), as a user types it."""

import json

from lab.toy import make, write


def test_two_painters_added_to_one_metric_are_told_apart(run, pipeline, tmp_path):
    sample = write(make(items=4), tmp_path / "s", images=False)
    given = ("study", "combine", sample / "ratings.jsonl", "--references", sample / "references.json")
    names = [
        "imagine(kind=image,painter=lab.toy.painter:drawn,seeds=2,weights=captious-mini)",
        f"imagine(kind=image,painter={pipeline},seeds=2,weights=captious-mini,steps=2)",
    ]
    more = ("--metrics", "rouge", "--add", ",".join(names), "--samples", 20, "--folds", 2, "--device", "cpu")
    code, printed, _ = run(*given, *more, "--json")
    assert code == 0
    found = json.loads(printed)
    assert [row["other"] for row in found["rows"]] == names and [row["other"] for row in found["chosen"]] == names
    assert len({row["after"] for row in found["rows"]}) == 2 and len({row["before"] for row in found["rows"]}) == 1
    marks = [_painter(signature) for signature in found["signatures"] if "|painter:" in signature]
    assert len(marks) == 2
    assert marks[0].startswith("drawn#") and marks[1].startswith("tiny-diffusion#")

    code, printed, errors = run(*given, *more, "--signatures")
    lines = [line for line in printed.splitlines() if "|painter:" in line]
    assert code == 0 and [_painter(line) for line in lines] == marks
    for mark in marks:
        assert f"IE-image ({mark}): over 2 seeds" in errors


def _painter(signature):
    return signature.partition("|painter:")[2].partition("|")[0]
