"""What is public is named by the door of its room, and a private module is its room's own."""

import ast
from pathlib import Path

import pytest

from lab import house


@pytest.fixture(scope="module")
def modules():
    """The modules of captious, parsed."""
    return house.read_modules(Path(__file__).parents[1] / "src")


def test_a_module_is_named_by_a_door_or_starts_with_an_underscore(modules):
    assert house.unmarked(modules) == []


def test_a_private_module_is_imported_by_its_own_room_alone(modules):
    assert house.intrusions(modules) == {}


def test_a_door_names_modules_that_exist(modules):
    nodes = [node for module in modules.values() for node in module.door.body]
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert sorted(named - modules.keys()) == []


def test_the_rule_finds_a_module_without_a_door_and_an_import_past_one(tmp_path):
    """Room ``a`` names ``one``, not ``two``; room ``b`` imports ``two`` and the private ``_three`` of ``a``."""
    files = {
        "__init__.py": "",
        "a/__init__.py": "",
        "a/__init__.pyi": "from captious.a.one import name as name\nimport captious.a.four\n",
        "a/one.py": "name = 1\n",
        "a/two.py": "name = 2\n",
        "a/_three.py": "name = 3\n",
        "a/four.py": "from captious.a._three import name\n",
        "b/__init__.py": "",
        "b/user.py": "from captious.a import two\nfrom captious.a._three import name\n",
    }
    for name, text in files.items():
        path = tmp_path / "captious" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    modules = house.read_modules(tmp_path)
    assert house.unmarked(modules) == ["captious.a.two"]
    assert house.intrusions(modules) == {"captious.a._three": ["captious.b.user"]}
    assert list(house.entered(modules)) == ["captious.a._three", "captious.a.two"]
