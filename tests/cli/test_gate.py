"""``captious gate`` as CI calls it: exit codes, the files it writes, and what it refuses."""

import json
import os
import re
import subprocess
import sys
from xml.etree import ElementTree

import pytest

REFERENCES = {str(number): ["dog"] for number in range(120)}
QUICK = ("--samples", 200)


@pytest.fixture
def files(tmp_path, monkeypatch):
    """Captions of which 100, 90 or 40 of 120 hit their reference; the command runs in their folder."""
    monkeypatch.chdir(tmp_path)
    for name in ("GITHUB_STEP_SUMMARY", "GITHUB_ACTIONS", "GITHUB_SERVER_URL"):
        monkeypatch.delenv(name, raising=False)
    (tmp_path / "refs.json").write_text(json.dumps(REFERENCES))
    for name, hits in {"base": 100, "near": 90, "poor": 40}.items():
        texts = {key: "dog" if int(key) < hits else "::error::cat" for key in REFERENCES}
        (tmp_path / f"{name}.json").write_text(json.dumps(texts))
    return tmp_path


def gate(run, *arguments):
    return run("gate", *arguments, *QUICK, "-r", "refs.json", "-m", "rouge")


def test_exit_codes(run, files):
    assert gate(run, "base.json", "base.json", "--margin", 0)[0] == 0
    code, out, _ = gate(run, "base.json", "poor.json", "--margin", "1%")
    assert code == 1 and out.splitlines()[1].startswith("Worse: poor loses more than the margin in ROUGE-L")
    code, out, _ = gate(run, "base.json", "near.json", "--margin", 0.08)
    assert (
        code == 3 and out.splitlines()[1].startswith("Cannot tell") and re.search(r"about [\d,]+ items like these", out)
    )
    assert gate(run, "base.json", "near.json", "--margin", 0.08, "--undecided", "fail")[0] == 1
    code, _, err = gate(run, "base.json", "near.json", "--margin", 0.08, "--undecided", "warn")
    assert code == 0 and "the gate cannot tell, and --undecided warn lets it pass" in err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("base.json", "near.json"), "no margin, expected one such as --margin 1%; --plan shows which ones"),
        (("base.json", "--margin", "1%"), "no NEW, expected the captions to test; --plan plans a gate without them"),
        (("base.json", "none.json", "--margin", "1%"), "none.json: no such file"),
        (("base.json", "near.json", "--margin", "1%", "--summary"), "GITHUB_STEP_SUMMARY is not set"),
        (("base.json", "near.json", "--margin", "x.toml"), "x.toml: no such file of margins"),
        (("base.json", "near.json", "--plan", "--update"), "--plan as well as --update"),
        (("base.json", "near.json", "--plan", "--summary"), "--summary is for a verdict"),
        (("base.json", "near.json", "--update"), "base.json: is not a lock file"),
        (("base.json", "near.json", "--margin", "1%", "--values-only"), "--values-only is for a lock file"),
        (("base.json", "near.json", "--margin", "1%", "--junit", "refs.json"), "refs.json: already exists"),
    ],
)
def test_bad_input_is_one_line_and_exit_code_2(run, files, arguments, message):
    before = {path.name: path.read_bytes() for path in files.iterdir()}
    code, out, err = gate(run, *arguments)
    assert code == 2 and not out and err.count("\n") == 1 and message in err
    assert {path.name: path.read_bytes() for path in files.iterdir()} == before


def test_files_for_ci(run, files, monkeypatch):
    summary = files / "summary.md"
    summary.write_text("before\n")
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    for name, value in {"SERVER_URL": "https://example.test", "REPOSITORY": "a/b", "RUN_ID": "7"}.items():
        monkeypatch.setenv(f"GITHUB_{name}", value)
    options = ("--junit", "gate.xml", "--markdown", "gate.md", "--summary", "--json")
    code, out, _ = gate(run, "base.json", "poor.json", "--margin", "1%", *options)
    assert code == 1 and json.loads(out)["verdict"] == "worse" and len(json.loads(out)["lost"]) == 10
    text = (files / "gate.md").read_text()
    assert text.startswith("<!-- captious-gate -->\n### Gate: poor against base\n\nWorse: poor") and "::" not in text
    assert "[More](https://example.test/a/b/actions/runs/7)" in text
    assert summary.read_text() == f"before\n{text}\n"
    assert ElementTree.parse(files / "gate.xml").find(".//failure").get("message").startswith("ROUGE-L: base 0.83")
    first = [(files / name).read_bytes() for name in ("gate.md", "gate.xml")]
    assert gate(run, "base.json", "poor.json", "--margin", "1%", *options)[:2] == (1, out)
    assert [(files / name).read_bytes() for name in ("gate.md", "gate.xml")] == first


def test_an_input_that_cannot_be_used_is_an_error_in_the_files(run, files, monkeypatch):
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(files / "summary.md"))
    code, _, err = gate(run, "base.json", "none.json", "--margin", "1%", "--junit", "gate.xml", "--summary")
    assert code == 2 and "none.json" in err
    assert "none.json" in ElementTree.parse(files / "gate.xml").find(".//error").get("message")
    assert "no verdict" in (files / "summary.md").read_text()


def test_a_crash_is_no_verdict(run, files, monkeypatch):
    """Python's exit code for a crash is 1, that of *worse*."""
    monkeypatch.setattr("captious.gating.verdict.run_tests", lambda *given: 1 / 0)
    code, _, err = gate(run, "base.json", "near.json", "--margin", "1%", "--junit", "gate.xml")
    assert code == 2 and "Traceback" in err
    message = ElementTree.parse(files / "gate.xml").find(".//error").get("message")
    assert message == "captious failed: ZeroDivisionError: division by zero"


@pytest.mark.parametrize("closed", [(1,), (1, 2)], ids=["| head", "2>&1 | head"])
@pytest.mark.parametrize(("margin", "code"), [(0.5, 0), (0.01, 1), (0.08, 3)], ids=["pass", "worse", "undecided"])
def test_a_reader_that_goes_away_changes_no_exit_code(files, margin, code, closed):
    """The pipe of standard output, or of both, has no reader, as after ``| head -n 0``."""
    reading, writing = os.pipe()
    os.close(reading)
    arguments = ["gate", "base.json", "near.json", "--margin", str(margin), *map(str, QUICK), "-r", "refs.json"]
    command = [sys.executable, "-m", "captious", *arguments, "-m", "rouge"]
    streams = {"stdout": writing, "stderr": writing if 2 in closed else subprocess.PIPE}
    done = subprocess.run(command, cwd=files, **streams)
    os.close(writing)
    assert done.returncode == code, done.stderr
    assert not done.stderr or (b"Traceback" not in done.stderr and b"Exception ignored" not in done.stderr)


def test_a_full_summary_is_left_alone(run, files, monkeypatch):
    summary = files / "summary.md"
    summary.write_bytes(b"x" * (1024 * 1024 - 10))
    monkeypatch.setenv("GITHUB_STEP_SUMMARY", str(summary))
    code, _, err = gate(run, "base.json", "base.json", "--margin", 0, "--summary")
    assert code == 0 and summary.stat().st_size == 1024 * 1024 - 10 and "the summary is full" in err


def test_captions_are_no_commands_of_the_runner(run, files, monkeypatch):
    monkeypatch.setenv("GITHUB_ACTIONS", "true")
    _, out, _ = gate(run, "base.json", "poor.json", "--margin", "1%")
    begin = re.match(r"::stop-commands::([0-9a-f]{32})\n", out)
    assert begin and out.endswith(f"::{begin[1]}::\n") and "::error::cat" in out
    assert json.loads(gate(run, "base.json", "poor.json", "--margin", "1%", "--json")[1])["lost"]


def test_a_lock_file_is_written_and_held(run, files):
    code, out, err = gate(run, "gate.lock.json", "base.json", "--update")
    assert code == 0 and "ROUGE-L" in out and "written: gate.lock.json" in err
    assert run("gate", "gate.lock.json", "base.json", "-r", "refs.json", "--margin", 0)[0] == 0
    assert run("gate", "gate.lock.json", "poor.json", "-r", "refs.json", "--margin", "1%")[0] == 1
    assert gate(run, "gate.lock.json", "poor.json", "--update", "--values-only")[0] == 0
    code, _, err = run("gate", "gate.lock.json", "poor.json", "-r", "refs.json", "--margin", 0)
    assert code == 3 and "without the statistics of items" in err


def test_a_plan(run, files):
    code, out, _ = gate(run, "base.json", "--plan", "--changed", 0.1, "--margin", 0.05)
    assert code == 0 and "can confirm" in out and "items needed" in out and "10% of the captions changed" in out
