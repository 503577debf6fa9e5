"""``captious imagine``, and ImaginE in the other commands, as a user types them."""

import json
import sys

import pytest
from lab.toy import make, write

from captious.cli.app import main

TOY = "painter=lab.toy.painter:drawn,weights=captious-mini"
DRAWN = ("--painter", "lab.toy.painter:drawn", "--encoder", "captious-mini")


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=6), tmp_path_factory.mktemp("sample") / "s", images=False)


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["captious", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return command


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [("1", "a red ball in the snow"), ("2", "two <b>dogs</b> & a tree"), ("3", "the economy grew")]
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in rows))
    return path


def test_a_gallery_of_plain_texts(run, texts, tmp_path):
    out = tmp_path / "gallery"
    code, printed, errors = run("imagine", "paint", texts, *DRAWN, "--seeds", 2, "--out", out, "--json")
    assert code == 0 and f"written: {out}" in errors
    facts = json.loads(printed)
    assert facts["texts"] == 3 and facts["unpainted"] == 2
    page = (out / "index.html").read_text()
    assert page.count("data:image/webp") == 4 and "two &lt;b&gt;dogs&lt;/b&gt; &amp; a tree" in page
    assert page.count("says nothing that this painter can draw") == 2 and "img-src data:" in page
    listed = json.loads((out / "gallery.json").read_text())
    assert all((out / one["picture"]).is_file() for one in listed["pictures"]) and len(listed["pictures"]) == 4
    code, _, errors = run("imagine", "paint", texts, *DRAWN, "--out", out)
    assert code == 2 and "is there already; add --overwrite" in errors


def test_an_empty_text_is_left_out_of_a_gallery_and_counted(run, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"id": "1", "text": "a red ball"}\n{"id": "2", "text": " "}\n')
    code, printed, _ = run("imagine", "paint", texts, *DRAWN, "--seeds", 1, "--out", tmp_path / "gallery")
    assert code == 0 and printed.startswith("1 texts, 1 empty ones left out, 0 pictures could not be painted")


def test_a_gallery_of_rated_texts_starts_with_the_greatest_disagreement(run, sample, tmp_path):
    out = tmp_path / "gallery"
    given = (sample / "ratings.jsonl", "--references", sample / "references.json")
    code, _, _ = run("imagine", "paint", *given, *DRAWN, "--seeds", 2, "--out", out, "--most", 10)
    assert code == 0
    shown = json.loads((out / "gallery.json").read_text())["entries"]
    gaps = [abs(one["gap"]) for one in shown]
    assert len(shown) == 10 and gaps == sorted(gaps, reverse=True)
    assert all(one["reference"] and one["human"] for one in shown)
    references = json.loads((sample / "references.json").read_text())
    first = shown[0]
    assert first["reference"] in references[first["id"].split("/")[0]]


def test_tasks_for_raters_and_their_scoring(run, texts, tmp_path):
    gallery, tasks, answers = tmp_path / "gallery", tmp_path / "tasks.jsonl", tmp_path / "answers.jsonl"
    run("imagine", "paint", texts, *DRAWN, "--seeds", 1, "--out", gallery)
    code, printed, _ = run("imagine", "entities", gallery, "--out", tasks)
    assert code == 0 and "2 pictures" in printed
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    for row in rows:
        row["rater"], row["seen"] = "me", dict.fromkeys(row["seen"], row["seed"] == 0)
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, printed, _ = run("imagine", "recall", answers, "--json")
    assert code == 0 and json.loads(printed)["recall"]["drawn"]["value"] == 1.0
    assert json.loads(printed)["agreement"] == {"drawn": None}
    second = tmp_path / "second.jsonl"
    second.write_text(
        "".join(
            json.dumps({**row, "rater": "you", "seen": dict.fromkeys(row["seen"], False)}) + "\n" for row in rows[1:]
        )
    )
    code, printed, _ = run("imagine", "recall", answers, second, "--out", tmp_path / "recall")
    assert code == 0 and "alpha" in printed and "not defined" not in printed
    assert "alpha" in (tmp_path / "recall" / "report.html").read_text()
    code, _, errors = run("imagine", "recall", tasks)
    assert code == 2 and "expected true or false" in errors
    code, _, errors = run("imagine", "entities", tmp_path, "--out", tmp_path / "none.jsonl")
    assert code == 2 and "no gallery.json" in errors


def test_tags(run, texts, tmp_path):
    out = tmp_path / "tags"
    code, printed, _ = run("imagine", "tags", texts, *DRAWN, "--seeds", 2, "--samples", 20, "--out", out, "--json")
    assert code == 0
    found = {one["group"]: one["decrease"]["value"] for one in json.loads(printed)["influences"]}
    assert found["ADJ"] > 0 and found["NOUN"] > 0
    assert "<svg" in (out / "report.html").read_text()
    code, _, errors = run("imagine", "tags", texts, *DRAWN, "--seeds", 1)
    assert code == 2 and "expected at least 2" in errors


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
        "--base",
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
    assert all(len(row["weights"]) == 3 for row in found["chosen"])
    code, printed, _ = run(*given, *added, "--samples", 0, "--folds", 0)
    assert code == 0 and "±" in printed and "cross-validation" not in printed


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected --add METRICS, or --with FILE"),
        (("--add", "rouge", "--with", "x.csv"), "expected --add METRICS, or --with FILE"),
        (("--add", "cider", "--seeds", "2"), "none of cider depends on a seed"),
        (("--with", "x.csv", "--seeds", "2"), "--seeds is for --add"),
        (("--add", "cider", "--folds", "99"), "expected 2 to 6"),
    ],
)
def test_combinations_that_cannot_be(run, sample, arguments, message):
    given = ("study", "combine", sample / "ratings.jsonl", "--references", sample / "references.json")
    code, _, errors = run(*given, "--base", "rouge", *arguments)
    assert code == 2 and message in errors
