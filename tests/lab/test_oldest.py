"""The environment of lowest versions: every package of the base install has one lower bound, and it is tested."""

import re
from pathlib import Path

import pytest
from lab.oldest import ROOT, lower_bounds, print_lower_bounds


def test_a_bound_becomes_a_version():
    needs = ["rich>=13.8,<16", "tomli>=2; python_version < '3'", "pydantic[email]~=2.5"]
    project = {"dependencies": needs, "optional-dependencies": {"quick": ["pytest==8"]}}
    assert lower_bounds(project) == ["rich==13.8", "pydantic==2.5", "pytest==8"]
    with pytest.raises(SystemExit, match="rich<16 has 0 lower bounds, expected one"):
        lower_bounds({"dependencies": ["rich<16"], "optional-dependencies": {"quick": []}})


def test_every_package_of_the_project_is_lowered(capsys):
    print_lower_bounds()
    printed = capsys.readouterr().out.split()
    text = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    named = re.findall(
        r'^  "([\w-]+)>=[\w.]+"', text.partition("\ndependencies = [")[2].partition("]")[0], re.MULTILINE
    )
    assert len(named) > 5 and set(named) < {line.partition("==")[0] for line in printed}
    assert "pytest==8" in printed


def test_the_workflow_runs_it():
    """On the lowest Python that the project allows, and on the newest that it names."""
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    pythons = re.findall(r"Python :: (3\.\d+)", project)
    workflow = Path(ROOT / ".github" / "workflows" / "tests.yml").read_text(encoding="utf-8")
    jobs = dict(re.findall(r'- { python: "([\d.]+)", versions: (\w+) }', workflow))
    assert jobs == {pythons[0]: "oldest", pythons[-1]: "newest"}
    assert f'requires-python = ">={pythons[0]}"' in project
    assert f"python: [{', '.join(map(chr(34).__add__, (one + chr(34) for one in pythons)))}]" in workflow
