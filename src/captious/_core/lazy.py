"""Public names of a package, imported on first use, so that ``import captious`` stays fast.

The stub ``__init__.pyi`` of the package says where each name is defined: ``from module import name as name``, or
``public = name`` under another name. Type checkers read it too, so a public name is written once. ``import module``
in a stub makes a module public to other packages; a module that no stub names is private to its package.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from importlib import import_module
from importlib.util import find_spec
from typing import Any


def make_exports(package: str) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """Return ``__getattr__`` and ``__dir__`` of a package, made from the imports in its stub; ``__all__`` is
    ``__dir__()``.

    A module of the package, such as ``captious.metrics``, is imported when it is first asked for.

    >>> attribute, names = make_exports("captious.syntax")
    >>> names()[:2], attribute("Sentence").__name__
    (['CutRules', 'Sentence'], 'Sentence')
    """

    @cache
    def origins() -> dict[str, tuple[str, str]]:
        import ast
        from pathlib import Path

        stub = Path(str(import_module(package).__file__)).with_suffix(".pyi").read_text(encoding="utf-8")
        names: dict[str, tuple[str, str]] = {}
        for node in ast.parse(stub).body:
            if isinstance(node, ast.ImportFrom):
                names |= {alias.name: (str(node.module), alias.name) for alias in node.names}
            elif isinstance(node, ast.Assign):
                names[ast.unparse(node.targets[0])] = names.pop(ast.unparse(node.value))
        return names

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        if name not in origins():
            if not name.startswith("_") and find_spec(f"{package}.{name}"):
                return import_module(f"{package}.{name}")
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        module, original = origins()[name]
        return getattr(import_module(module), original)

    def __dir__() -> list[str]:
        return sorted(origins())

    return __getattr__, __dir__
