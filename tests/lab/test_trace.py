"""The way of the data: what a command imports and calls, and the table of it in CONTRIBUTING.md."""

import json
import re
import subprocess
import sys
from pathlib import Path

import pytest

import captious

ROOT = Path(__file__).parents[2]
DEMO = Path(captious.__file__).parent / "data" / "demo"
# What a plain file has no use for.
NEEDLESS = (
    "models|engines|study|studio|gating|probes|train|loops|compat|runs[.]shards|runs[.]filters|"
    "io[.](images|videos|clip_files|shards|tars)"
)
COMMANDS = {
    "`score` (file)": ["score", "expert.json", "--references", "references.json", "--out", "again"],
    "`score` (3 shards, one process)": ["score", "expert-*.jsonl", "--out", "shards"],
    "`compare` of two runs": ["compare", "expert", "solid"],
    "`keep`": ["keep", "expert", "words > 4", "--out", "kept.parquet"],
    "`view --out`": ["view", "expert", "--out", "site"],
}


def trace(folder, *arguments):
    command = [sys.executable, "-m", "lab.trace", *arguments]
    environment = {"PYTHONPATH": f"{ROOT}:{Path(captious.__file__).parents[1]}", "CAPTIOUS_DATA": str(folder / "data")}
    done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, check=False)
    assert "| modules imported |" in done.stderr, done.stderr
    return done.stderr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Two runs of the demo's 60 items, and the captions of one in three shards."""
    folder = tmp_path_factory.mktemp("trace")
    references = json.loads((DEMO / "references.json").read_text())
    (folder / "references.json").write_text(json.dumps(references))
    for system in ("expert", "solid"):
        rows = json.loads((DEMO / "predictions" / f"{system}.json").read_text())
        (folder / f"{system}.json").write_text(json.dumps(rows))
        captions = captious.read(folder / f"{system}.json", references=folder / "references.json")
        captious.evaluate(captions).save(folder / system)
    items = captious.read(folder / "expert.json", references=folder / "references.json")
    for shard in range(3):
        lines = [
            json.dumps({"id": id, "candidate": items.candidates[at][0], "references": list(items.references[at])})
            for at, id in enumerate(items.ids)
            if at // 20 == shard
        ]
        (folder / f"expert-{shard}.jsonl").write_text("\n".join(lines))
    return folder


def test_a_plain_file_imports_only_what_it_needs(folder):
    printed = trace(folder, "--imports", "score", "expert.json", "--references", "references.json", "--out", "run")
    modules = re.findall(r"^captious\.(\S+)$", printed, re.MULTILINE)
    assert "runs.report" in modules and "metrics.cider" in modules
    assert not [name for name in modules if re.match(rf"({NEEDLESS})(\.|$)", name)]
    assert not [line for line in printed.splitlines() if re.match("more than once: (Report._document|parse_all)", line)]


@pytest.mark.parametrize("name", COMMANDS)
def test_the_table_in_contributing_says_what_commands_touch(folder, name):
    """Modules and files may grow a little before the table must be written again; functions and calls are not held."""
    table = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    said = re.search(rf"^\| {re.escape(name)} \| (\d+) \| (\d+) \|", table, re.MULTILINE)
    printed = trace(folder, *COMMANDS[name])
    now = re.search(r"^\| (\d+) \| (\d+) \| \d+ \| \d+ \|$", printed, re.MULTILINE)
    for before, after in zip(said.groups(), now.groups(), strict=True):
        assert abs(int(before) - int(after)) <= 4, f"{name}: CONTRIBUTING says {said.groups()}, now {now.groups()}"
