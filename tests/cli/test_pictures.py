"""Pictures of texts: ``captious make pictures``, and the probes of painters, as a user types them."""

import csv
import json

import pytest
from lab.toy import make, write

DRAWN = "imagine(painter=lab.toy.painter:drawn,weights=captious-mini,seeds={})"


@pytest.fixture(scope="module")
def sample(tmp_path_factory):
    return write(make(items=6), tmp_path_factory.mktemp("sample") / "s", images=False)


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "texts.jsonl"
    rows = [("1", "a red ball in the snow"), ("2", "two <b>dogs</b> & a tree"), ("3", "the economy grew")]
    path.write_text("".join(json.dumps({"id": key, "text": text}) + "\n" for key, text in rows))
    return path


def test_a_gallery_of_plain_texts(run, texts, tmp_path):
    out = tmp_path / "gallery"
    code, printed, errors = run("make", "pictures", texts, "--metric", DRAWN.format(2), "--out", out, "--json")
    assert code == 0 and f"written: {out}" in errors
    facts = json.loads(printed)
    assert facts["texts"] == 3 and facts["unpainted"] == 2
    page = (out / "index.html").read_text()
    assert page.count("data:image/webp") == 4 and "two &lt;b&gt;dogs&lt;/b&gt; &amp; a tree" in page
    assert page.count("says nothing that this painter can draw") == 2 and "img-src data:" in page
    listed = json.loads((out / "gallery.json").read_text())
    assert all((out / one["picture"]).is_file() for one in listed["pictures"]) and len(listed["pictures"]) == 4
    code, _, errors = run("make", "pictures", texts, "--metric", DRAWN.format(2), "--out", out)
    assert code == 2 and "already exists; pass --overwrite" in errors


def test_an_empty_text_is_left_out_of_a_gallery_and_counted(run, tmp_path):
    texts = tmp_path / "texts.jsonl"
    texts.write_text('{"id": "1", "text": "a red ball"}\n{"id": "2", "text": " "}\n')
    code, printed, _ = run("make", "pictures", texts, "--metric", DRAWN.format(1), "--out", tmp_path / "gallery")
    assert code == 0 and "\n1 texts, 1 empty ones left out, 0 pictures could not be painted\n" in printed


def test_a_gallery_of_rated_texts_starts_with_the_greatest_disagreement(run, sample, tmp_path):
    out = tmp_path / "gallery"
    arguments = (sample / "ratings.jsonl", "--references", sample / "references.json")
    code, _, _ = run("make", "pictures", *arguments, "--metric", DRAWN.format(2), "--out", out, "--most", 10)
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
    run("make", "pictures", texts, "--metric", DRAWN.format(1), "--out", gallery)
    code, printed, _ = run("probe", "entities", gallery, "--out", tasks)
    assert code == 0 and "2 pictures" in printed
    rows = [json.loads(line) for line in tasks.read_text().splitlines()]
    for row in rows:
        row["rater"], row["seen"] = "me", dict.fromkeys(row["seen"], row["seed"] == 0)
    answers.write_text("".join(json.dumps(row) + "\n" for row in rows))
    code, printed, _ = run("probe", "recall", answers, "--json")
    assert code == 0 and json.loads(printed)["recall"]["drawn"]["value"] == 1.0
    assert json.loads(printed)["agreement"] == {"drawn": None}
    second = tmp_path / "second.jsonl"
    second.write_text(
        "".join(
            json.dumps({**row, "rater": "you", "seen": dict.fromkeys(row["seen"], False)}) + "\n" for row in rows[1:]
        )
    )
    code, printed, _ = run("probe", "recall", answers, second, "--out", tmp_path / "recall")
    assert code == 0 and "alpha" in printed and "not defined" not in printed
    assert "alpha" in (tmp_path / "recall" / "report.html").read_text()
    code, _, errors = run("probe", "recall", tasks)
    assert code == 2 and "expected true or false" in errors
    code, _, errors = run("probe", "entities", tmp_path, "--out", tmp_path / "none.jsonl")
    assert code == 2 and "no gallery.json" in errors


def test_masking(run, texts, tmp_path):
    out = tmp_path / "masking"
    code, printed, _ = run(
        "probe", "masking", texts, "--metric", DRAWN.format(2), "--samples", 20, "--out", out, "--json"
    )
    assert code == 0
    decrease = {one["group"]: one["decrease"]["value"] for one in json.loads(printed)["influences"]}
    assert decrease["ADJ"] > 0 and decrease["NOUN"] > 0
    assert "<svg" in (out / "report.html").read_text()
    code, _, errors = run("probe", "masking", texts, "--metric", DRAWN.format(1))
    assert code == 2 and "expected at least 2" in errors


def test_only_a_metric_that_paints_can_be_asked(run, texts):
    code, _, errors = run("probe", "masking", texts, "--metric", "rouge")
    assert code == 2 and "paints no pictures, expected a metric such as imagine(seeds=5)" in errors


def test_several_painters_side_by_side(run, texts, tmp_path, monkeypatch):
    mixer, drawn, out = "tests.models.painters.painting:make_mixer", "lab.toy.painter:drawn", tmp_path / "gallery"
    monkeypatch.setenv("CAPTIOUS_PAINTERS", f"{mixer},{drawn}")
    metric = "imagine(seeds=2,weights=captious-mini)"
    arguments = ("make", "pictures", texts, "--metric", metric, "--painter", mixer, "--painter", drawn)
    code, printed, _ = run(*arguments, "--out", out, "--json")
    facts = json.loads(printed)
    # mixer knows the color of the first text only, drawn the first two texts; two seeds each.
    assert code == 0 and facts["painters"] == ["mixer", "drawn"] and facts["unpainted"] == [4, 2]
    with (out / "painters.csv").open(encoding="utf-8", newline="") as file:
        assert [row[-2:] for row in csv.reader(file)][1:] == [["2", "4"], ["4", "2"]]
    page = (out / "index.html").read_text()
    assert page.count("data:image/webp") == 6 and page.index("mixer") < page.index("drawn")
    for folder, number in (("painter-1", 2), ("painter-2", 4)):
        listed = json.loads((out / folder / "gallery.json").read_text())["pictures"]
        assert len(listed) == number and all((out / folder / one["picture"]).is_file() for one in listed)
    code, _, _ = run("probe", "entities", out / "painter-2", "--out", tmp_path / "tasks.jsonl")
    assert code == 0
    code, _, errors = run(*arguments[:-2], "--out", tmp_path / "one")
    assert code == 2 and "expected at least two different ones" in errors


def test_raw_cosines_and_rescaled_values_are_reported(run, sample, tmp_path):
    out = tmp_path / "gallery"
    arguments = (sample / "predictions" / "sloppy.json", "--references", sample / "references.json", "--most", 2)
    code, printed, errors = run("make", "pictures", *arguments, "--metric", DRAWN.format(2), "--out", out, "--json")
    assert code == 0, errors
    both = json.loads(printed)["similarities"]
    raw, rescaled = both["text&image"]["raw"], both["text&image"]["rescaled"]
    assert len(raw) > 2  # all texts, not only those shown
    # Equation 3 of ImaginE: [l, h] = [.1, .4].
    assert [(one - 0.1) / 0.3 for one in raw] == pytest.approx(rescaled)
    assert [(one - 0.1) / 0.9 for one in both["image"]["raw"]] == pytest.approx(both["image"]["rescaled"])
    assert "IE-image, raw cosine" in (out / "index.html").read_text()
