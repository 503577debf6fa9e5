"""``captious train`` as a user types it."""

import json

import pytest
from typer.testing import CliRunner

from captious.cli.train import app
from captious.errors import InputError


@pytest.fixture
def train(data, tmp_path):
    def command(objective, *more, out="out"):
        file = "short" if objective == "clip" else "train"
        common = ("--data", data / f"{file}.jsonl", "--images", data / "images", "--out", tmp_path / out)
        arguments = [objective, *common, "--epochs", 1, "--batch", 12, "--device", "cpu", *more]
        return CliRunner().invoke(app, list(map(str, arguments)), catch_exceptions=True)

    return command


def test_specs_prints_rates_before_and_after(train, base, data, tmp_path):
    done = train("specs", "--base", base, "--validate", data / "val.jsonl", "--margin", "paper", "--contrast", "both")
    assert done.exit_code == 0, done.output
    assert "sr_pos" in done.stdout and "->" in done.stdout and f"model: {tmp_path / 'out'}" in done.stdout
    assert json.loads((tmp_path / "out" / "captious-training.json").read_text())["choices"]["margin"] == "paper"


def test_json_on_standard_output(train, base):
    done = train("longclip", "--base", base, "--components", 4, "--json")
    assert done.exit_code == 0, done.output
    record = json.loads(done.stdout)
    assert record["finished"] and record["of"] == 2 and record["last"]["step"] == 2


def test_a_new_mini_needs_no_base(train, tmp_path):
    done = train("clip", "--new", "mini")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "out" / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("clip",), "give one of --base"),
        (("clip", "--new", "maxi"), "--new maxi: expected mini"),
        (("clip", "--base", "BASE", "--lock", "ears"), "--lock ears: expected image, text"),
        (("clip", "--base", "BASE", "--precision", "fp8"), "precision 'fp8', expected auto"),
        (("specs", "--base", "BASE", "--weights", "1,2"), "weights '1,2', expected three numbers"),
        (("specs", "--base", "BASE", "--negatives", "batches"), "did you mean 'batch'"),
        (("specs", "--base", "BASE", "--contrast", "none"), "contrast 'none', expected text-to-image or both"),
    ],
)
def test_bad_options_are_one_line_and_leave_nothing(train, base, tmp_path, arguments, said):
    done = train(*(base if part == "BASE" else part for part in arguments))
    assert isinstance(done.exception, InputError)
    assert said in str(done.exception) and "\n" not in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_nothing_to_resume_leaves_nothing(train, tmp_path):
    """Otherwise the folder would count as a training from then on, and a plain start would be refused."""
    done = train("clip", "--new", "mini", "--resume")
    assert "no checkpoint to resume from; leave --resume out to start" in str(done.exception)
    assert not (tmp_path / "out").exists()


def test_a_training_that_died_before_its_first_checkpoint(train, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "captious-training.json").write_text("{}")
    assert "--overwrite starts again" in str(train("clip", "--new", "mini").exception)
    assert "give --overwrite in place of --resume" in str(train("clip", "--new", "mini", "--resume").exception)


def test_a_refused_resume_leaves_the_record_as_it_was(train, tmp_path):
    assert train("clip", "--new", "mini").exit_code == 0
    record = (tmp_path / "out" / "captious-training.json").read_text()
    done = train("clip", "--new", "mini", "--resume", "--lr", 0.5)
    assert isinstance(done.exception, InputError) and "lr" in str(done.exception)
    assert (tmp_path / "out" / "captious-training.json").read_text() == record
