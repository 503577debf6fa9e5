"""The scripts of the laboratory use names that exist; they are not run, for most need models, data or a GPU."""

import ast
import importlib
import importlib.util
from pathlib import Path

import pytest

LAB = Path(__file__).parents[2] / "lab"
SCRIPTS = sorted(path for path in LAB.rglob("*.py") if "toy" not in path.parts)


def imported(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] in ("captious", "lab"):
            yield from ((node.module, alias.name) for alias in node.names)


@pytest.mark.parametrize("path", SCRIPTS, ids=lambda path: str(path.relative_to(LAB)))
def test_what_a_script_imports_is_there(path):
    missing = []
    for module, name in imported(ast.parse(path.read_text(encoding="utf-8"))):
        if importlib.util.find_spec(module) is None or not (
            hasattr(importlib.import_module(module), name) or importlib.util.find_spec(f"{module}.{name}")
        ):
            missing.append(f"{module}.{name}")
    assert missing == []
