"""The demo scores pictures on the base install: without torch, transformers or tokenizers."""

from __future__ import annotations

import subprocess
import sys

import pyarrow.parquet as pq

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
    for metric in ("clipscore(weights=captious-mini)", "specs(weights=captious-mini-specs)"):
        means = []
        for captioner in ("parrot", "sloppy", "solid", "expert"):
            items = pq.read_table(tmp_path / "demo" / captioner / "items" / "captions.parquet").to_pylist()
            means.append(sum(item[metric] for item in items) / len(items))
        assert means == sorted(means)
    assert items[0]["image"] == f"images/{items[0]['id']}.png"  # from its own folder on, nothing of the machine
    assert not (tmp_path / "home").exists()
