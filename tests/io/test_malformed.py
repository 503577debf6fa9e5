"""Files that are none, or hold what nothing could write: one line that says where and what."""

import json
import os
import subprocess
import sys

import pytest

from captious.errors import InputError
from captious.io.check import check
from captious.io.read import read

RIGHT = {"1": "a dog", "2": "a cat"}


def refused(source, **options):
    with pytest.raises(InputError) as error:
        read(source, **options)
    assert "\n" not in str(error.value)
    return str(error.value)


def test_devices_and_named_pipes_are_no_files(tmp_path):
    """A pipe without a writer would wait for ever, /dev/zero never ends."""
    os.mkfifo(tmp_path / "pipe.json")
    assert "is a named pipe, expected a regular file" in refused(tmp_path / "pipe.json")
    (tmp_path / "zero.json").symlink_to("/dev/zero")
    assert "is a device, expected a regular file" in refused(tmp_path / "zero.json")
    assert "is a device" in refused("/dev/random")
    assert "is a device" in refused(RIGHT, references="/dev/urandom")


def test_the_pipes_of_a_shell_are_read(tmp_path):
    """``captious score <(zcat predictions.gz)`` gives a path such as /dev/fd/63."""
    (tmp_path / "p.json").write_text(json.dumps(RIGHT))
    code = "import sys; from captious.io.read import read; print(len(read(sys.argv[1])))"
    line = f'{sys.executable} -c "{code}" <(cat p.json); cat p.json | {sys.executable} -c "{code}" /dev/stdin'
    done = subprocess.run(["bash", "-c", line], cwd=tmp_path, capture_output=True, text=True)
    assert done.stdout.split() == ["2", "2"], done.stderr


@pytest.mark.parametrize("column", ["caption", "id"])
def test_a_column_that_is_there_twice_is_refused(tmp_path, column):
    path = tmp_path / "p.csv"
    path.write_text(f"id,caption,{column}\n1,a dog,x\n")
    assert refused(path) == f"{path}: row 1: column '{column}' occurs more than once, expected different names"


@pytest.mark.parametrize("suffix", ["json", "jsonl"])
def test_a_value_nested_too_deeply_is_refused_with_its_row(tmp_path, suffix):
    path, deep = tmp_path / f"p.{suffix}", "[" * 60 + "]" * 60
    row = f'{{"id": 1, "caption": "a dog", "boxes": {deep}}}'
    path.write_text(row if suffix == "jsonl" else f"[{row}]")
    assert "1: boxes is nested more than 50 deep" in refused(path)


def test_brackets_in_a_caption_are_no_nesting(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text(json.dumps({"id": 1, "caption": "[" * 100}) + "\n")
    assert read(path)["1"].candidates == ("[" * 100,)


def test_half_a_character_is_removed_from_any_column_and_a_whole_one_is_not(tmp_path):
    path = tmp_path / "p.jsonl"
    path.write_text('{"id": 1, "caption": "a \\ud83d\\ude00 face", "style": "calm"}\n')
    assert read(path)["1"].candidates == ("a 😀 face",)
    path.write_text('{"id": 1, "caption": "a face", "style": "calm\\ud83d"}\n')
    assert read(path).columns == {"style": ("calm",)} and read(path).origin.cleaned == 1


def test_a_spreadsheet_is_no_text(tmp_path):
    (tmp_path / "p.xlsx").write_bytes(b"PK\x03\x04" + bytes(40))
    assert "is an archive, an old spreadsheet or a part of one, expected text or a whole XLSX file" in refused(
        tmp_path / "p.xlsx"
    )


@pytest.mark.parametrize(
    ("name", "content"),
    [("r.json", b"{}"), ("r.json", b"[]"), ("r.csv", b"id,references\n"), ("r.xlsx", b"PK\x03\x04" + bytes(40))],
)
def test_references_that_reading_refuses_are_errors_of_the_check_too(tmp_path, name, content):
    path = tmp_path / name
    path.write_bytes(content)
    message = refused(RIGHT, references=path)
    assert [finding.message for finding in check(RIGHT, references=path).errors][:1] == [message]


def test_a_column_of_references_that_are_not_there_is_refused():
    from captious.options import Reading

    assert "reading=Reading(references_id_column=...) names a column of references" in refused(
        RIGHT, reading=Reading(references_id_column="key")
    )
    rows = [{"id": "1", "caption": "a dog"}]
    assert "no reference caption" in refused(rows, reading=Reading(references_column="nosuch"))
