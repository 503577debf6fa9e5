"""Commands of the studio on the base install: each names the extra in one line."""

import subprocess
import sys

import pytest

from captious.cli.app import build_app

# Packages of the extra `studio` that a base install does not have.
EXTRAS = ("jinja2", "markupsafe", "sqlalchemy", "starlette", "uvicorn", "python_multipart", "jwt", "duckdb")
PROGRAM = f"""
import sys
for name in {EXTRAS}:
    sys.modules[name] = None  # importing it fails, as if it were not installed
sys.argv = ["captious", *sys.argv[1:]]
from captious.cli.app import main
main()
"""
STUDY = """title = "Dogs"
kind = "ratings"
captions = ["a.jsonl"]
[[aspects]]
name = "overall"
question = "How good?"
"""
COMMANDS = {
    "check": [],
    "serve": [],
    "invite": ["--raters", "2"],
    "status": [],
    "amend": ["--why", "a typo"],
    "pause": [],
    "resume": [],
    "show": [],
    "exclude": ["--rater", "r1", "--reason", "spam"],
    "reinstate": ["--rater", "r1", "--reason", "a mistake"],
    "release": [],
    "simulate": [],
    "export": ["--out", "export"],
    "verify": [],
    "backup": ["--out", "copy.db"],
}


def run_without_extras(folder, *arguments):
    return subprocess.run(
        [sys.executable, "-c", PROGRAM, *arguments], capture_output=True, text=True, check=False, cwd=folder
    )


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.jsonl").write_text('{"id": "1", "caption": "a dog"}\n')
    (tmp_path / "study.toml").write_text(STUDY)
    (tmp_path / "study.db").touch()
    return tmp_path


def test_every_command_is_listed():
    assert set(COMMANDS) == set(build_app().commands["studio"].commands) - {"new", "demo"}


@pytest.mark.parametrize("command", COMMANDS)
def test_the_extra_is_named_in_one_line(command, folder):
    done = run_without_extras(folder, "studio", command, "study.toml", *COMMANDS[command])
    assert done.returncode == 2, done.stderr
    assert done.stderr.count("\n") == 1 and done.stderr.endswith("pip install 'captious[studio]'\n"), done.stderr


def test_a_study_file_is_written_without_the_extra(folder):
    done = run_without_extras(folder, "studio", "new", "other.toml", "--kind", "ratings", "--captions", "a.jsonl")
    assert done.returncode == 0, done.stderr
    assert "1 tasks" in done.stdout or "1 task" in done.stdout


def test_the_demo_names_the_extra(folder):
    done = run_without_extras(folder, "studio", "demo")
    assert done.returncode == 2 and done.stderr.count("\n") == 1 and "captious[studio]" in done.stderr, done.stderr
