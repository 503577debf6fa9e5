"""The composite action and the hooks of pre-commit: their steps do what the guide says, and inputs are never code."""

import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from captious.io.formats import FORMATS

yaml = pytest.importorskip("yaml")
ROOT = Path(__file__).resolve().parents[1]
ACTION = yaml.safe_load((ROOT / "action.yml").read_text(encoding="utf-8"))
STEPS = ACTION["runs"]["steps"]
(HOOK,) = yaml.safe_load((ROOT / ".pre-commit-hooks.yaml").read_text(encoding="utf-8"))


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
    for name, hits in {"base": 100, "near": 90, "poor": 0}.items():
        captions = {key: "dog" if int(key) < hits else "cat" for key in references}
        (tmp_path / f"{name}.json").write_text(json.dumps(captions))

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
    assert "\nPass: " in summary and (folder / "gate.md").exists() and (folder / "gate.xml").exists()
    done, outputs, summary, _ = gate(NEW="poor.json")
    assert done.returncode == 1 and outputs["verdict"] == "worse" and "\nWorse: poor" in summary
    done, outputs, _, _ = gate(NEW="$(touch broken); `touch broken`")
    assert done.returncode == 2 and outputs["verdict"] == "error" and not (folder.parent / "broken").exists()


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("undecided", "code"), [("", 3), ("warn", 0), ("fail", 1)])
def test_the_output_says_undecided_whatever_the_exit_code(gate, undecided, code):
    done, outputs, summary, _ = gate(NEW="near.json", MARGIN="0.08", UNDECIDED=undecided)
    assert done.returncode == code and outputs["verdict"] == "undecided" and "\nCannot tell" in summary


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
def test_a_gate_that_does_not_start_is_an_error_although_an_earlier_one_passed(gate, tmp_path):
    """The files of an earlier step of the job are in the same folder."""
    assert gate()[1]["verdict"] == "pass"
    (tmp_path / "bin" / "captious").write_text("#!/bin/sh\nexit 127\n")
    done, outputs, _, _ = gate()
    assert done.returncode == 127 and outputs["verdict"] == "error"


@pytest.mark.skipif(shutil.which("bash") is None, reason="needs bash")
@pytest.mark.parametrize(("version", "installed"), [("", "/action path"), ("./mine", "./mine")])
def test_the_action_installs_its_own_checkout(tmp_path, version, installed):
    """No name of a package index is installed unless the workflow names it: the checkout of the action is captious."""
    fake = tmp_path / "python"
    fake.write_text('#!/bin/sh\nprintf "%s\\n" "$@" > "$SEEN"\n')
    fake.chmod(0o755)
    environment = {"PATH": f"{tmp_path}{os.pathsep}{os.environ['PATH']}", "SEEN": str(tmp_path / "seen")}
    environment |= {"VERSION": version, "GITHUB_ACTION_PATH": "/action path"}
    command = ["bash", "--noprofile", "--norc", "-eo", "pipefail", "-c", step("Install captious")["run"]]
    subprocess.run(command, env=environment, check=True)
    assert (tmp_path / "seen").read_text().splitlines() == ["-m", "pip", "install", "--quiet", installed]


def test_pip_can_install_the_checkout_of_the_action():
    """The action is in the folder of a project that pip builds, and that project is captious."""
    tomllib = pytest.importorskip("tomllib")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert (ROOT / "action.yml").is_file() and project["project"]["name"] == "captious" and project["build-system"]


def hook_selects(name):
    """Whether pre-commit gives a file to the hook: no `types`, and the pattern of `exclude` must not be found."""
    return not re.search(HOOK["exclude"], name)


def test_the_hook_gets_every_file_that_captious_reads():
    assert not {"types", "types_or", "files"} & set(HOOK)  # those would be a second filter, or be replaced by the user
    for ending in FORMATS:
        assert hook_selects(f"predictions/a{ending}") and hook_selects(f"a.v2{ending.upper()}.gz"), ending
    for other in ("README.md", "caption.py", "a.json.bak", "data/json", "image.png", "a.gz", "csv.rst"):
        assert not hook_selects(other), other


def test_the_hook_checks_several_files(run, tmp_path):
    assert HOOK["entry"] == "captious check" and HOOK["language"] == "python"
    for name, text in {"a.json": '{"1": "a dog"}', "b.json": '{"1": "a cat"}', "c.json": "[{"}.items():
        (tmp_path / name).write_text(text)
    command = HOOK["entry"].split()[1:]
    assert run(*command, tmp_path / "a.json", tmp_path / "b.json")[0] == 0
    assert run(*command, tmp_path / "a.json", tmp_path / "c.json")[0] == 2
