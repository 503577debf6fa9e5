"""ImaginE in score and study, as a user types them."""

import json

import pytest
from lab.toy import make, write

TOY = "painter=lab.toy.painter:drawn,weights=captious-mini"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=6), tmp_path_factory.mktemp("sample") / "s", images=False)


def test_score_reports_both_kinds_unless_one_is_chosen(run, sample):
    given = (
        "score",
        sample / "predictions" / "expert.json",
        "-r",
        sample / "references.json",
        "--samples",
        0,
        "--json",
    )
    code, printed, errors = run(*given, "--metrics", f"imagine({TOY},seeds=2)")
    assert code == 0 and "IE-image (drawn#" in errors and "over 2 seeds" in errors
    assert "IE-image" in printed and "IE-text&image" in printed and "painter:drawn#" in printed
    code, printed, _ = run(*given, "--metrics", f"imagine(kind=text&image,{TOY},seeds=2)")
    assert code == 0 and "IE-image" not in printed
    code, _, errors = run(*given, "--metrics", "imagine(painter=nowhere at all)")
    assert code == 2 and "painter 'nowhere at all': no such folder" in errors and len(errors.strip().splitlines()) == 1


def test_study_combine_adds_it_to_other_metrics(run, sample):
    given = ("study", "combine", sample / "ratings.jsonl", "--references", sample / "references.json")
    added = (
        "--metrics",
        "rouge,cider",
        "--add",
        f"imagine(kind=image,{TOY})",
        "--seeds",
        3,
    )
    code, printed, _ = run(*given, *added, "--samples", 50, "--folds", 3, "--json")
    assert code == 0
    found = json.loads(printed)
    assert [row["metric"] for row in found["rows"]] == ["rouge", "cider"]
    assert all(row["seeds"] == 3 and row["spread"] > 0 and 0 < row["p"] <= 1 for row in found["rows"])
    assert all(len(row["factors"]) == 3 for row in found["chosen"])
    code, printed, _ = run(*given, *added, "--samples", 0, "--folds", 0)
    assert code == 0 and "±" in printed and "cross-validation" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "nothing to add: pass --add with metrics, or a file of values"),
        (("--add", "cider", "--seeds", "2"), "none of cider depends on a seed"),
        (("--add", __file__, "--seeds", "2"), "--seeds is for metrics"),
        (("--add", "cider", "--folds", "99"), "expected 2 to 6"),
    ],
)
def test_combinations_that_cannot_be(run, sample, arguments, message):
    given = ("study", "combine", sample / "ratings.jsonl", "--references", sample / "references.json")
    code, _, errors = run(*given, "--metrics", "rouge", *arguments)
    assert code == 2 and message in errors
