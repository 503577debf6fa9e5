"""``captious train`` as a user types it."""

import json
import sys

import pytest

from captious.cli.app import main


@pytest.fixture
def train(data, tmp_path, monkeypatch, capsys):
    """Run a training; gives exit code, standard output and standard error."""

    def command(objective, *more, out="out"):
        file = "short" if objective == "clip" else "train"
        common = (data / f"{file}.jsonl", "--images", data / "images", "--out", tmp_path / out)
        arguments = ["train", objective, *common, "--epochs", 1, "--batch-size", 12, "--device", "cpu", *more]
        monkeypatch.setattr(sys, "argv", ["captious", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return command


def test_specs_prints_rates_before_and_after(train, base, data, tmp_path):
    code, out, err = train(
        "specs", "--base", base, "--validate", data / "val.jsonl", "--margin", "paper", "--contrast", "both"
    )
    assert code == 0, err
    assert (
        "sr_pos" in out and "before" in out and "after" in out and f"model: {tmp_path / 'out'}" in " ".join(out.split())
    )
    assert json.loads((tmp_path / "out" / "captious-training.json").read_text())["options"]["margin"] == "paper"


def test_json_on_standard_output(train, base):
    code, out, err = train("longclip", "--base", base, "--components", 4, "--json")
    assert code == 0, err
    record = json.loads(out)
    assert record["finished"] and record["of"] == 2 and record["last"]["step"] == 2


def test_a_new_mini_needs_no_base(train, tmp_path):
    code, _, err = train("clip", "--new", "mini")
    assert code == 0, err
    assert (tmp_path / "out" / "tokenizer.json").is_file()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("clip",), "pass one of --base"),
        (("clip", "--base", "BASE", "--lock", "ears"), "--lock ears: expected image, text"),
        (("specs", "--base", "BASE", "--loss-weights", "1,2"), "--loss-weights 1,2: expected 3 values"),
        (("specs", "--base", "BASE", "--margin", "wide"), "margin 'wide', expected code, paper, or a number"),
        (("specs", "--base", "BASE", "--lr", 0), "learning rate --lr 0, expected more than 0"),
        (("clip", "--base", "BASE", "--lr", "nan"), "--lr nan, expected a finite number"),
    ],
)
def test_bad_options_are_one_line_and_leave_nothing(train, base, tmp_path, arguments, said):
    code, _, err = train(*(base if part == "BASE" else part for part in arguments))
    assert code == 2 and said in err.splitlines()[-1]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("clip", "--new", "maxi"), "mini"),
        (("clip", "--base", "x", "--precision", "fp8"), "fp16"),
        (("specs", "--base", "x", "--negatives", "batches"), "batch"),
        (("specs", "--base", "x", "--contrast", "none"), "text-to-image"),
    ],
)
def test_choices_are_named(train, tmp_path, arguments, said):
    code, _, err = train(*arguments)
    assert code == 2 and said in err and not (tmp_path / "out").exists()


def test_nothing_to_resume_leaves_nothing(train, tmp_path):
    """Otherwise the folder would count as a training from then on, and a plain start would be refused."""
    _, _, err = train("clip", "--new", "mini", "--resume")
    assert "no checkpoint to resume from; leave --resume out to start" in err
    assert not (tmp_path / "out").exists()


def test_a_training_that_died_before_its_first_checkpoint(train, tmp_path):
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "captious-training.json").write_text("{}")
    assert "--overwrite starts again" in train("clip", "--new", "mini")[2]
    assert "pass --overwrite in place of --resume" in train("clip", "--new", "mini", "--resume")[2]


def test_a_refused_resume_leaves_the_record_as_it_was(train, tmp_path):
    assert train("clip", "--new", "mini")[0] == 0
    record = (tmp_path / "out" / "captious-training.json").read_text()
    code, _, err = train("clip", "--new", "mini", "--resume", "--lr", 0.5)
    assert code == 2 and "lr" in err
    assert (tmp_path / "out" / "captious-training.json").read_text() == record


def test_a_finished_training_is_lengthened_by_its_folder_alone(train, base, run, tmp_path):
    assert train("clip", "--base", base)[0] == 0
    code, _, err = run("train", "clip", "--resume", "--out", tmp_path / "out", "--epochs", 2, "--device", "cpu")
    assert code == 0, err
    assert "lengthened from" in err and (tmp_path / "out" / "config.json").is_file()
    assert json.loads((tmp_path / "out" / "captious-training.json").read_text())["asked"]["epochs"] == 2
    code, _, err = run("train", "clip", "--resume", "--out", tmp_path / "out", "--lr", 0.5, "--device", "cpu")
    assert code == 2 and "takes every option but --epochs from the folder" in err


def test_a_folder_as_data_names_a_file_in_it(run, data, tmp_path):
    code, _, err = run("train", "clip", data, "--images", data / "images", "--new", "mini", "--out", tmp_path / "o")
    assert code == 2 and f"{data}: is a folder, expected a file of captions, such as {data}/short-val.jsonl" in err
