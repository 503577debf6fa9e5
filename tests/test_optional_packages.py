"""The studio, training and the drop-in replacements are optional: everything else works in a copy without them."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import captious

PACKAGE = Path(captious.__file__).parent
OPTIONAL = ("studio", "train", "compat")


@pytest.fixture(scope="module")
def trimmed(tmp_path_factory):
    """A folder with a copy of captious that has none of the optional packages."""
    folder = tmp_path_factory.mktemp("trimmed")
    ignore = shutil.ignore_patterns("__pycache__", "data")
    shutil.copytree(PACKAGE, folder / "captious", ignore=lambda path, names: [
        *ignore(path, names), *(OPTIONAL if Path(path) == PACKAGE else ())
    ])  # fmt: skip
    return folder


@pytest.fixture(scope="module")
def run(trimmed):
    """Run a command of the trimmed captious in its folder, and return what it printed."""
    environment = {**os.environ, "PYTHONPATH": str(trimmed)}

    def run_command(*arguments):
        done = subprocess.run(
            [sys.executable, "-m", "captious", *map(str, arguments)],
            cwd=trimmed, env=environment, capture_output=True, text=True, check=False,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        return done.stdout

    return run_command


def test_the_copy_is_what_runs(trimmed, run):
    where = subprocess.run(
        [sys.executable, "-c", "import captious; print(captious.__file__)"],
        env={**os.environ, "PYTHONPATH": str(trimmed)}, capture_output=True, text=True, check=True,
    )  # fmt: skip
    assert where.stdout.strip() == str(trimmed / "captious" / "__init__.py")
    assert not any((trimmed / "captious" / name).exists() for name in OPTIONAL)


def test_score_keep_compare_and_study_work(trimmed, run):
    demo = PACKAGE / "data" / "demo"
    expert, sloppy = (demo / "predictions" / f"{name}.json" for name in ("expert", "sloppy"))
    references = demo / "references.json"
    scored = run("score", expert, "--references", references, "-m", "cider, bleu", "--out", "run")
    assert "CIDEr-D" in scored
    run("keep", "run", "top(cider, 0.5)", "--out", "kept.jsonl")
    assert len((trimmed / "kept.jsonl").read_text().splitlines()) == 30
    assert "sloppy" in run("compare", sloppy, expert, "--references", references, "-m", "cider")
    assert "CIDEr-D" in run("study", "run", demo / "ratings.jsonl", "--references", references, "-m", "cider, rouge")
