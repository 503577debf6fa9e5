"""The bias commands end to end, as a user types them."""

import json
import sys
from types import SimpleNamespace

import pytest
from lab.toy import make

from captious.cli.app import main


@pytest.fixture
def captious(monkeypatch, capsys):
    """Run a command; gives exit code, standard output and standard error."""

    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["captious", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return SimpleNamespace(returncode=exit.value.code or 0, stdout=captured.out, stderr=captured.err)

    return command


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    folder = tmp_path_factory.mktemp("planted")
    sample = make(500, bias=0.8, human_bias=0.1)
    rows = [row for scene in sample.scenes() if (row := sample.biased(scene))]
    people = [{"id": row["id"], "references": row["references"], "gender": row["label"]} for row in rows]
    for name, content in (("preds", [{"id": r["id"], "caption": r["caption"]} for r in rows]), ("humans", people)):
        (folder / f"{name}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in content))
    return folder


@pytest.fixture
def lic(captious, planted):
    files = (planted / "preds.jsonl", "--references", planted / "humans.jsonl")
    return lambda *more: captious("bias", "lic", *files, "--label", "gender", "--seeds", "2", *more)


def test_a_table_and_a_folder(lic, tmp_path):
    done = lic("--out", tmp_path / "audit")
    assert done.returncode == 0, done.stderr
    assert "LIC_M ± sd" in done.stdout and "chance level 25.0" in done.stdout and "preds" in done.stdout
    assert (tmp_path / "audit" / "report.html").exists()
    again = lic("--out", tmp_path / "audit")
    assert again.returncode == 2 and "is there already" in again.stderr


def test_json_only_on_standard_output(lic):
    found = json.loads(lic("--json").stdout)
    assert found["results"][0]["lic"] > 20 and found["protocol"]["mask"] == "gender"


def test_a_preset_changes_the_protocol(lic):
    found = json.loads(lic("--json", "--preset", "relic").stdout)
    assert found["protocol"]["preset"] == "relic-gender" and found["protocol"]["tokenizer"] == "treebank"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--label", "color"), "no column 'color' for the labels"),
        (("--mask", "agee"), "no such list or file"),
        (("--classifier", "lstn"), "did you mean 'lstm'"),
        (("--vocabulary", "absent.txt"), "no such file"),
        (("--preset", "hirotta"), "no preset"),
        (("--level", "2"), "confidence level"),
    ],
)
def test_bad_options_get_one_line_and_exit_code_2(lic, arguments, message):
    done = lic(*arguments)
    assert done.returncode == 2 and message in done.stderr and len(done.stderr.strip().splitlines()) == 1


def test_one_class_and_small_classes(captious, planted, tmp_path):
    rows = [json.loads(line) for line in (planted / "humans.jsonl").read_text().splitlines()]
    for changed, message in ((len(rows), "expected at least two classes"), (len(rows) - 4, "has 4 images")):
        people = [{**row, "gender": "a" if number < changed else "b"} for number, row in enumerate(rows)]
        (tmp_path / "humans.jsonl").write_text("".join(json.dumps(row) + "\n" for row in people))
        done = captious(*("bias", "lic", planted / "preds.jsonl", "-r", tmp_path / "humans.jsonl", "--label", "gender"))
        assert done.returncode == 2 and message in done.stderr


def test_a_mask_of_ones_own(lic, tmp_path):
    (tmp_path / "words.txt").write_text("two words\n")
    done = lic("--mask", tmp_path / "words.txt")
    assert done.returncode == 2 and "row 1: 'two words' is not a word" in done.stderr


def test_words_and_presets_are_printed(captious):
    words = captious("bias", "words", "gender").stdout.split()
    assert len(words) == 50 and "woman" in words
    shown = captious("bias", "preset", "relic-age").stdout
    assert "bert-pre: 5 epochs at 1e-05" in shown and "<unk> becomes three ordinary words" in shown
    assert set(json.loads(captious("bias", "preset", "--json").stdout)) >= {"hirota-gender", "relic-age-human"}
