"""``captious segment`` as a user types it."""

import json
import sys

import pytest

from captious.cli.app import main

CAPTION = "A cat is lying under a blanket with fringed edges."


@pytest.fixture
def run(monkeypatch, capsys):
    def command(*arguments):
        monkeypatch.setattr(sys, "argv", ["captious", "segment", *map(str, arguments)])
        with pytest.raises(SystemExit) as exit:
            main()
        captured = capsys.readouterr()
        return exit.value.code or 0, captured.out, captured.err

    return command


@pytest.fixture
def file(tmp_path):
    rows = [{"id": 7, "caption": CAPTION}, {"id": 8, "caption": ["A dog with a ball.", "A dog"], "split": "test"}]
    path = tmp_path / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return path


def test_a_caption_is_printed_with_bars_and_as_a_list(run):
    code, out, err = run(CAPTION)
    assert (code, err) == (0, "")
    assert out.splitlines() == [
        "A cat is | lying under a blanket | with fringed edges .",
        "  1  A cat is",
        "  2  lying under a blanket",
        "  3  with fringed edges .",
    ]


def test_the_papers_grammar_the_surface_and_legacy(run):
    assert run(CAPTION, "--grammar", "paper")[1].startswith("A cat is lying under a blanket | with fringed edges .\n")
    assert run(CAPTION, "--surface")[1].splitlines()[-1] == "  3  with fringed edges."
    assert run(CAPTION, "--auxiliaries")[1].startswith("A cat is lying under a blanket | with fringed edges .\n")
    assert run("A dog runs!", "--legacy")[1].splitlines()[0] == "A dog runs | !"


def test_tags_and_phrases_can_be_seen(run):
    out = run("A dog runs [fast].", "--tags")[1]
    assert out.splitlines()[0].startswith("A/DT dog/NN runs/VBZ [/")
    assert out.splitlines()[1].startswith("[CLAUSE [NP A dog] [VP runs]]")


def test_json_holds_units_and_options(run):
    content = json.loads(run(CAPTION, "--json", "--tags")[1])
    assert content["units"] == ["A cat is", "lying under a blanket", "with fringed edges ."]
    assert (content["grammar"], content["legacy"], content["text"], content["tagger"]) == (
        "code",
        False,
        "tokens",
        "captious",
    )
    assert content["tagged"][0]["tags"][:3] == ["DT", "NN", "VBZ"]


def test_a_file_keeps_its_rows_and_gains_units(run, file, tmp_path):
    out = tmp_path / "cut.jsonl"
    assert run("--file", file, "--out", out)[0] == 0
    first, second = map(json.loads, out.read_text().splitlines())
    assert first == {
        "id": 7,
        "caption": CAPTION,
        "units": ["A cat is", "lying under a blanket", "with fringed edges ."],
    }
    assert second["units"] == [["A dog", "with a ball ."], ["A dog"]]
    assert second["split"] == "test"
    assert [json.loads(line) for line in run("--file", file)[1].splitlines()] == [first, second]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ((), "expected either a caption or --file"),
        ((CAPTION, "--file", "x.jsonl"), "expected either a caption or --file"),
        ((CAPTION, "--out", "x.jsonl"), "--out is for --file"),
        ((CAPTION, "--legacy", "--surface"), "no surface"),
        (("--file", "missing.jsonl"), "missing.jsonl: no such file"),
    ],
)
def test_wishes_that_do_not_go_together(run, arguments, message):
    code, out, err = run(*arguments)
    assert (code, out) == (2, "")
    assert message in err and len(err.strip().splitlines()) == 1


def test_bad_rows_are_named(run, tmp_path):
    path = tmp_path / "bad.jsonl"
    path.write_text('{"id": 1, "sentence": "a dog"}\n')
    assert "bad.jsonl: row 1: no caption: found columns id, sentence, expected" in run("--file", path)[2]
    assert run("--file", path, "--caption-column", "sentence")[0] == 0
    path.write_text('{"id": 1, "caption": 3}\n')
    assert "row 1: caption is 3, expected a string" in run("--file", path)[2]


def test_an_output_is_not_replaced_unasked(run, file, tmp_path):
    out = tmp_path / "cut.jsonl"
    out.write_text("mine")
    code, _, err = run("--file", file, "--out", out)
    assert (code, out.read_text()) == (2, "mine")
    assert "--overwrite" in err
    assert run("--file", file, "--out", out, "--overwrite")[0] == 0
    assert len(out.read_text().splitlines()) == 2


def test_a_file_given_as_a_caption_is_not_cut_into_words(run, file):
    code, out, err = run(file)
    assert (code, out) == (2, "") and f"is a file, not a caption; give it as --file {file}" in err
    assert run("a very long caption " * 500)[0] == 0
