"""Pages of the Python reference: one for each package with public names, from the docstrings."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

FOLDER = "reference/api"
FIRST = ("evaluate", "compare", "gate", "read", "check", "Scorer", "correlate", "audit")
"""What a reader looks for first, on the page of ``captious``."""
SOURCE = Path(__file__).resolve().parents[2] / "src"


def api_pages() -> dict[str, str]:
    """Markdown by path. A package's public names are those of its stub; mkdocstrings fills in what they are."""
    stubs = sorted((SOURCE / "captious").rglob("__init__.pyi"), key=lambda stub: len(stub.parts))
    pages: dict[str, str] = {}
    documented: dict[str, str] = {}
    for stub in stubs:
        package = ".".join(stub.parent.relative_to(SOURCE).parts)
        page = package.removeprefix("captious").removeprefix(".") or "index"
        pages[f"{FOLDER}/{page}.md"] = _page(package, stub, documented)
        documented |= {origin: f"{page}.md" for origin in _public(stub).values() if origin not in documented}
    pages[f"{FOLDER}/compat.md"] = _compat_page()
    pages[f"{FOLDER}/testing.md"] = _testing_page()
    return pages


def _compat_page() -> str:
    """The modules that stand in for other libraries; their names are those of the library."""
    package = SOURCE / "captious" / "compat"
    parts = ["# captious.compat", _summary(package / "__init__.py")]
    for module in sorted(package.glob("[a-z]*.py")):
        name = f"captious.compat.{module.stem}"
        parts.append(f"::: {name}\n    options:\n      heading: {name}\n      toc_label: {module.stem}")
    return "\n\n".join(parts) + "\n"


def _testing_page() -> str:
    """The contract test of metrics, which is a module and no package."""
    parts = ["# captious.testing", _summary(SOURCE / "captious" / "testing.py")]
    for name in ("check_metric", "ContractError"):
        parts.append(f"::: captious.testing.{name}\n    options:\n      heading: {name}\n      toc_label: {name}")
    return "\n\n".join(parts) + "\n"


def _summary(module: Path) -> str:
    return ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""


def _page(package: str, stub: Path, documented: Mapping[str, str]) -> str:
    """A page with what its package exports; what an earlier page has is linked."""
    public = _public(stub)
    parts = [f"# {package}", _summary(stub.with_suffix(".py"))]
    if links := [
        f"[`{name}`]({documented[origin]}#{origin})" for name, origin in public.items() if origin in documented
    ]:
        parts.append(f"Also exported here: {', '.join(links)}.")
    for name, origin in public.items():
        if origin not in documented:
            parts.append(f"::: {origin}\n    options:\n      heading: {name}\n      toc_label: {name}")
    return "\n\n".join(parts) + "\n"


def _public(stub: Path) -> dict[str, str]:
    """Where each public name is defined: everyday ones first, then functions, classes and constants, each by name."""
    names = {}
    for node in ast.parse(stub.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ImportFrom):
            names |= {alias.name: f"{node.module}.{alias.name}" for alias in node.names}
        elif isinstance(node, ast.Assign):
            names[ast.unparse(node.targets[0])] = names.pop(ast.unparse(node.value))
    names.pop("__version__", None)
    return dict(sorted(names.items(), key=lambda pair: _rank(pair[0])))


def _rank(name: str) -> tuple[int, int, str]:
    everyday = FIRST.index(name) if name in FIRST else len(FIRST)
    return everyday, 2 if name.isupper() else 1 if name[0].isupper() else 0, name.lower()
