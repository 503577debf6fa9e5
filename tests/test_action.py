"""The composite action and the hooks of pre-commit: their steps do what the guide says, and inputs are never code."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]


def step(name):
    return next(one for one in STEPS if one.get("name") == name)


def test_the_action_is_composite_and_no_input_is_in_a_script():
    assert ACTION["runs"]["using"] == "composite"
    for one in STEPS:
        if "run" in one:
            assert one["shell"] == "bash" and "${{" not in one["run"]
    used = set(re.findall(r"inputs\.([a-z-]+)", (ROOT / "action.yml").read_text(encoding="utf-8")))
    assert used == set(ACTION["inputs"])
    assert step("Keep the files")["if"] == "always()" and step("Comment")["continue-on-error"]


@pytest.fixture
def gate(tmp_path):
    """Run the script of the action's gate as GitHub does; gives exit code, outputs, summary and the folder of files."""
    (tmp_path / "bin").mkdir()
    script = tmp_path / "bin" / "captious"
    source = f"#!{sys.executable}\nimport sys\nsys.path[:0] = {sys.path!r}\nfrom captious.cli.app import main\nmain()\n"
    script.write_text(source)
    script.chmod(0o755)
    references = {str(number): ["dog"] for number in range(120)}
    (tmp_path / "refs.json").write_text(json.dumps(references))
    for name, word in {"base": "dog", "poor": "cat"}.items():
        (tmp_path / f"{name}.json").write_text(json.dumps(dict.fromkeys(references, word)))

    def run(**inputs):
        texts = {"NEW": "base.json", "REFERENCES": "refs.json", "METRICS": "rouge", "MARGIN": "1%", "ARGUMENTS": ""}
        files = {"GITHUB_OUTPUT": tmp_path / "output", "GITHUB_STEP_SUMMARY": tmp_path / "summary.md"}
        names = dict.fromkeys(step("Gate")["env"], "")
        environment = {**os.environ, **names, "BASE": "base.json", **texts, **inputs, **files, "RUNNER_TEMP": tmp_path}
        environment["PATH"] = f"{tmp_path / 'bin'}{os.pathsep}{os.environ['PATH']}"
        command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step("Gate")["run"]]
        texts = {key: str(value) for key, value in environment.items()}
        done = subprocess.run(command, cwd=tmp_path, env=texts, capture_output=True, text=True)
        outputs = dict(line.split("=", 1) for line in (tmp_path / "output").read_text().splitlines())
        return done, outputs, (tmp_path / "summary.md").read_text(), tmp_path / "captious-gate"

    return run


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_the_gate_of_the_action(gate):
    done, outputs, summary, folder = gate(ARGUMENTS="--samples\n200\n")
    assert done.returncode == 0 and outputs["verdict"] == "pass", done.stderr
    assert "### Pass: " in summary and (folder / "gate.md").exists() and (folder / "gate.xml").exists()
    done, outputs, summary, _ = gate(NEW="poor.json")
    assert done.returncode == 1 and outputs["verdict"] == "worse" and "### Worse: poor" in summary
    done, outputs, _, _ = gate(NEW="$(touch broken); `touch broken`")
    assert done.returncode == 2 and outputs["verdict"] == "error" and not (folder.parent / "broken").exists()


def test_the_hook_checks_several_files(run, tmp_path):
    (hook,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))
    assert hook["entry"] == "captious check" and hook["language"] == "python" and hook["types_or"] == ["json", "csv"]
    for name, text in {"a.json": '{"1": "a dog"}', "b.json": '{"1": "a cat"}', "c.json": "[{"}.items():
        (tmp_path / name).write_text(text)
    command = hook["entry"].split()[1:]
    assert run(*command, tmp_path / "a.json", tmp_path / "b.json")[0] == 0
    assert run(*command, tmp_path / "a.json", tmp_path / "c.json")[0] == 2
