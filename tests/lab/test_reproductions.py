"""The papers' experiments on data of a few rows: each command ends in one table, and says what it cannot run."""

import gzip
import json
import runpy
import sys
from pathlib import Path

import pytest
from lab.reproductions.beside import Beside, Row

LAB = Path(__file__).parents[2] / "lab"


@pytest.fixture
def reproduce(monkeypatch, tmp_path, capsys):
    """Runs a command as `python -m lab.reproductions` does; the rows of its JSON file, by what and name."""

    def run(name, *arguments):
        out = tmp_path / "out"
        monkeypatch.setattr(sys, "argv", ["lab.reproductions", name, *map(str, arguments), "--out", str(out)])
        monkeypatch.setattr(sys, "path", [*sys.path])
        runpy.run_path(str(LAB / "reproductions" / "__main__.py"), run_name="__main__")
        markdown = (out / f"{name}.md").read_text(encoding="utf-8")
        assert markdown in capsys.readouterr().out
        rows = json.loads((out / f"{name}.json").read_text(encoding="utf-8"))["rows"]
        assert all(row["ours"] is not None or row["note"].startswith("not run: ") for row in rows)
        return {(row["what"], row["name"]): row for row in rows}

    return run


def lines(path, rows):
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    path.write_bytes(gzip.compress(text) if path.suffix == ".gz" else text)


def test_a_table_has_ours_the_interval_and_the_published_value(tmp_path):
    rows = [Row("tau", "a", -1.04, -2.0, 0.5, 1.1), Row("tau", "b", note="not run: no weights")]
    Beside("Title", rows, ["A note."]).write(tmp_path, "paper")
    assert (tmp_path / "paper.md").read_text(encoding="utf-8").splitlines() == [
        "## Title",
        "",
        "| what | of | ours | 95 % interval | published | note                |",
        "|------|----|------|---------------|-----------|---------------------|",
        "| tau  | a  | −1.0 | −2.0 – 0.5    | 1.1       |                     |",
        "|      | b  | –    |               |           | not run: no weights |",
        "",
        "A note.",
    ]
    written = json.loads((tmp_path / "paper.json").read_text(encoding="utf-8"))
    assert written["rows"][0]["ours"] == -1.04 and written["rows"][1]["published"] is None


def test_umic_reads_the_recipes_and_says_what_is_not_there(reproduce, tmp_path):
    words = ("a dog", "a dog runs", "a dog runs on grass", "grass")
    human = (0.4, 0.8, 1.0, 0.1)
    rows = [
        {"id": f"{image}{number}", "image": image, "caption": caption, "human": rating}
        for image in ("1", "2", "3")
        for number, (caption, rating) in enumerate(zip(words, human, strict=True))
    ]
    lines(tmp_path / "umic" / "capeval1k.jsonl", rows)
    lines(
        tmp_path / "coco" / "karpathy_test.jsonl",
        [{"id": image, "references": ["a dog runs on grass", "a dog on grass"]} for image in ("1", "2", "3")],
    )
    found = reproduce("umic", "--quick", "--metrics", "BLEU-1,ROUGE-L", "--data", tmp_path)
    assert found["CapEval1k, τ-b × 100", "ROUGE-L"]["ours"] == pytest.approx(100)  # ROUGE-L orders them as people do
    assert found["CapEval1k, τ-b × 100", "CLIPScore"]["note"] == "not run: its photographs are not at hand"
    assert found["CapEval1k, τ-b × 100", "SPICE"]["note"] == "not run: left out by --metrics"
    assert "no such" in found["Flickr8k-CF, τ-b × 100", "all metrics"]["note"]


def test_relic_gives_lic_beside_the_published_lstm(reproduce, tmp_path):
    rows = [
        {"id": str(number), "label": ("old", "young")[number % 2]}
        | {"references": [f"somebody sits {index} here" for index in range(5)]}
        | dict.fromkeys(("sat", "oscar", "nic_plus", "nic_equalizer"), ("tall tree", "red kite")[number % 2])
        for number in range(60)
    ]
    lines(tmp_path / "lic" / "age.jsonl.gz", rows)
    found = reproduce("relic", "--quick", "--seeds", 1, "--tables", "4", "--data", tmp_path)
    model = found["Table 4 age, human words, linear: LIC_M", "sat"]
    people = found["Table 4 age, human words, linear: LIC_D", "sat"]
    assert model["published"] == 48.7 and people["published"] == 43.2
    assert model["ours"] > 60 > 40 > people["ours"]  # the model gives the label away, people say the same of everybody
    assert found["Table 4 age, human words, linear: LIC", "sat"]["published"] == pytest.approx(5.5)
    assert "a GPU" in found["Tables 4", "lstm"]["note"]


def test_specs_on_a_few_scenes(reproduce):
    found = reproduce("specs", "--quick", "--items", 14)
    assert found["Tables 1 and 5, average of both, %", "captious-mini"]["published"] == 67.83
    before, after = (
        found["One fact changed, SR_neg, %", name]["ours"] for name in ("captious-mini", "captious-mini-specs")
    )
    assert after > before  # what the training is for
    assert "no --models" in found["Tables 1 and 5, average of SR_pos and SR_neg, %", "specs 1:8:0.8"]["note"]


def test_imagine_goes_through_the_studio(reproduce, monkeypatch, tmp_path):
    pytest.importorskip("starlette")
    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    found = reproduce("imagine", "--quick", "--items", 6)
    assert found["Table 5, entity recall, %", "StableDiffusion"]["published"] == 94.1
    studied = found["Table 5, entity recall, %", "drawn, simulated raters in the studio"]
    assert 40 < studied["ours"] < 100 and "answers" in studied["note"]
    assert found["Table 1, BLEU-4, Pearson × 100", "+ IE-image"]["published"] == 9.15


def test_texts_of_imagine_have_one_reference_and_mark_the_toy_painter(reproduce, tmp_path):
    """The first reference decides: by the second one, every caption would be equally good."""
    words = ["a red ball in the snow", "two dogs on the beach", "a green car", "a blue kite at night"]
    rows = [
        {
            "id": number,
            "source": "x",
            "caption": text,
            "references": [text if number % 2 else "one black umbrella", text],
            "rating_z": float(number % 2),
        }
        for number, text in enumerate(words)
    ]
    lines(tmp_path / "data" / "wmt" / "mlqe_et_en.jsonl.gz", rows)
    painter = ("--painter", "lab.toy.painter:drawn", "--seeds", 2)
    found = reproduce("imagine-texts", "--quick", "--data", tmp_path / "data", *painter)
    translation = "Table 1 (WMT'19 de-en): MLQE-PE et-en"
    assert found[f"{translation}, 4 texts", "BLEU-1"]["ours"] > 95
    assert found[f"{translation}, 4 texts", "BLEU-1"]["published"] == 13.74
    marked = {name for what, name in found if what == f"{translation}, with pictures"}
    assert "METEOR + IE-text&image (toy painter)" in marked and len(marked) == 10
    assert found["Table 2 (DUC2004): Newsroom", "all metrics"]["note"] == "not run: no folder summarization"
