"""The demo scores pictures on the base install: without torch, transformers or tokenizers."""

from __future__ import annotations

import shlex
import subprocess
import sys
from pathlib import Path

import pyarrow.parquet as pq

from captious._demo import CONTENTS
from captious.data import DEMO

PROGRAM = """
import sys
for name in ("torch", "transformers", "tokenizers", "huggingface_hub"):
    sys.modules[name] = None  # importing it fails, as where it is not installed
sys.argv = ["captious", "demo", "--out", sys.argv[1]]
from captious.cli.app import main
main()
"""


def test_it_looks_at_the_pictures_without_torch(tmp_path):
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM, str(tmp_path / "demo")], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "CLIPScore" in done.stdout and "SPECS" in done.stdout
    page = (tmp_path / "demo" / "report.html").read_text(encoding="utf-8")
    assert "clipscore(weights=captious-mini)" in page and "specs(weights=captious-mini-specs)" in page


def test_both_put_the_captioners_in_their_order_and_keep_nothing(tmp_path, monkeypatch):
    from click.testing import CliRunner

    from captious.cli.app import build_app

    monkeypatch.setenv("CAPTIOUS_HOME", str(tmp_path / "home"))
    done = CliRunner().invoke(build_app(), ["demo", "--out", str(tmp_path / "demo")])
    assert done.exit_code == 0, done.output
    # The table of systems is a screen; the tests of all differences are in the files.
    assert "Systems" in done.stdout and "Differences" not in done.stdout
    assert "Differences" in (tmp_path / "demo" / "report.txt").read_text(encoding="utf-8")
    for metric in ("clipscore(weights=captious-mini)", "specs(weights=captious-mini-specs)"):
        means = []
        for captioner in ("parrot", "sloppy", "solid", "expert"):
            items = pq.read_table(tmp_path / "demo" / captioner / "items" / "captions.parquet").to_pylist()
            means.append(sum(item[metric] for item in items) / len(items))
        assert means == sorted(means)
    assert items[0]["image"] == f"images/{items[0]['id']}.png"  # from its own folder on, nothing of the machine
    assert not (tmp_path / "home").exists()


def test_the_files_are_copied_and_the_printed_commands_run_on_them(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    code, out, err = run("demo", "--files", "demo-files")
    assert code == 0, err
    copies = sorted(path.relative_to("demo-files") for path in Path("demo-files").rglob("*"))
    assert copies == sorted(path.relative_to(DEMO) for path in DEMO.rglob("*"))
    assert Path("demo-files/references.json").read_bytes() == (DEMO / "references.json").read_bytes()
    # Every file and folder of the set is described.
    assert {path.name for path in DEMO.iterdir()} == {name.strip("/") for name in CONTENTS}
    assert all(name in out for name in CONTENTS)
    commands = [line.split("captious ")[1] for line in out.splitlines() if "captious " in line]
    assert [command.split()[0] for command in commands] == ["score", "compare", "study"]
    for command in commands:
        code, _, err = run(*shlex.split(command))
        assert code == 0, err


def test_files_of_the_user_are_not_replaced(run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("mine.json").write_text("mine", encoding="utf-8")
    assert run("demo", "--files", ".")[0] == 0  # also into the current folder, which stays the current one
    assert Path("mine.json").read_text(encoding="utf-8") == "mine" and Path("images/1001.png").exists()
    Path("references.json").write_text("mine", encoding="utf-8")
    code, _, err = run("demo", "--files", ".")
    assert code == 2 and "already contains" in err and "--overwrite" in err
    assert Path("references.json").read_text(encoding="utf-8") == "mine"
    assert run("demo", "--files", ".", "--overwrite")[0] == 0
    assert Path("references.json").read_bytes() == (DEMO / "references.json").read_bytes()
    code, _, err = run("demo", "--files", "mine.json")
    assert code == 2 and "is a file" in err
    code, _, err = run("demo", "--files", "other", "--out", "report")
    assert code == 2 and "leave out --out" in err and not Path("other").exists()
