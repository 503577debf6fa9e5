"""What is public is named by the stub of its package, and a private module is its package's own."""

import ast
from pathlib import Path

import pytest

from lab import structure


@pytest.fixture(scope="module")
def modules():
    """The modules of captious, parsed."""
    return structure.read_modules(Path(__file__).parents[1] / "src")


def test_a_module_is_named_by_a_stub_or_starts_with_an_underscore(modules):
    assert structure.unmarked(modules) == []


def test_a_private_module_is_imported_by_its_own_packages_alone(modules):
    assert structure.intrusions(modules) == {}


def test_a_stub_names_modules_that_exist(modules):
    nodes = [node for module in modules.values() for node in module.stub.body]
    named = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names}
    named |= {node.module for node in nodes if isinstance(node, ast.ImportFrom)}
    assert sorted(named - modules.keys()) == []


def test_no_module_has_the_name_of_a_public_function_of_its_package(modules):
    """An import of such a module would replace the function: ``captious.stats.name`` would be the module."""
    taken = [
        f"{name}.{alias.asname}"
        for name, module in modules.items()
        for node in module.stub.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
        if f"{name}.{alias.asname}" in modules
    ]
    assert taken == []


def test_the_rule_finds_a_module_without_a_stub_and_an_import_past_one(tmp_path):
    """Package ``a`` names ``one``, not ``two``; package ``b`` imports ``two`` and the private ``_three`` of ``a``."""
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
    modules = structure.read_modules(tmp_path)
    assert structure.unmarked(modules) == ["captious.a.two"]
    assert structure.intrusions(modules) == {"captious.a._three": ["captious.b.user"]}
    assert list(structure.entered(modules)) == ["captious.a._three", "captious.a.two"]
