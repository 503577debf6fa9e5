"""Every script of ``examples/`` runs offline and prints what ``examples/README.md`` shows."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
from tests.test_examples import assert_shown, blocks

FOLDER = Path(__file__).resolve().parents[1] / "examples"
README = FOLDER / "README.md"
SCRIPTS = sorted(path for path in FOLDER.iterdir() if path.suffix in (".py", ".sh"))
INTERPRETERS = {".py": [sys.executable], ".sh": ["sh"]}


def shown():
    """What the page says that each script prints, by the name of the script."""
    scripts = [block for block in blocks(README) if block.language == "sh"]
    return {block.code.split()[1].removeprefix("examples/"): block.shown for block in scripts}


def needs(script):
    """The packages after ``Needs:`` in a script."""
    line = re.search(r"Needs: (.*)", script.read_text(encoding="utf-8"))
    return [name.strip(" .") for name in line[1].split(",")]


def test_the_page_shows_every_script():
    assert set(shown()) == {script.name for script in SCRIPTS}
    assert all(shown().values())


@pytest.mark.parametrize("script", SCRIPTS, ids=lambda script: script.name)
def test_a_script_runs(script, tmp_path):
    if script.suffix == ".sh" and os.name == "nt":
        pytest.skip("no sh on Windows")
    for package in needs(script):
        pytest.importorskip(package)
    environment = {
        **os.environ,
        "PATH": os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]]),
        "PYTHONPATH": os.pathsep.join(path for path in sys.path if path),
        "HF_HUB_OFFLINE": "1",
        "COLUMNS": "120",
    }
    command = [*INTERPRETERS[script.suffix], str(script)]
    done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert_shown(shown()[script.name], done.stdout)
