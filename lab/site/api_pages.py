"""Pages of the Python reference: one for each package with public names, from the docstrings."""

from __future__ import annotations

import ast
from collections.abc import Mapping
from pathlib import Path

FOLDER = "reference/api"
# What a reader looks for first.
FIRST = ("evaluate", "compare", "gate", "read", "check", "Scorer", "correlate", "audit")
SOURCE = Path(__file__).resolve().parents[2] / "src"
# Pages of the modules that are in no package: title and modules.
TOPICS = {
    "evaluate": ("Score captions", ("_evaluate", "_by_language", "scorer")),
    "compare": ("Compare systems", ("_compare", "_arena")),
    "captions": ("Captions", ("captions", "_demo")),
    "options": ("Options and errors", ("options", "errors")),
}


def api_pages() -> dict[str, str]:
    """Markdown by path: a list of the names of ``captious``, and a page for each package and topic.

    A package's public names are those of its stub; mkdocstrings fills in what they are. A name is documented once, on
    the page of the package that defines it.
    """
    stubs = sorted((SOURCE / "captious").rglob("__init__.pyi"), key=lambda stub: (len(stub.parts), stub))
    root, *packages = (stub for stub in stubs if not stub.parent.name.startswith("_"))
    exported = _public(root)
    pages: dict[str, str] = {}
    documented: dict[str, str] = {}
    for topic, (title, modules) in TOPICS.items():
        names = {name: origin for name, origin in exported.items() if origin.split(".")[1] in modules}
        pages[f"{FOLDER}/{topic}.md"] = _page(title, "", names, documented)
        documented |= dict.fromkeys(names.values(), f"{topic}.md")
    for stub in packages:
        package = ".".join(stub.parent.relative_to(SOURCE).parts)
        page = package.removeprefix("captious.")
        own = _public(stub) | {
            name: origin for name, origin in exported.items() if _is_nearest(origin, package, packages)
        }
        pages[f"{FOLDER}/{page}.md"] = _page(package, _summary(stub.with_suffix(".py")), own, documented)
        documented |= {origin: f"{page}.md" for origin in own.values() if origin not in documented}
    pages |= _compat_pages()
    pages[f"{FOLDER}/testing.md"] = _testing_page()
    pages[f"{FOLDER}/index.md"] = _index(exported, documented)
    return pages


def _is_nearest(origin: str, package: str, stubs: list[Path]) -> bool:
    """Whether a package is the innermost one with a page that contains the module of a name."""
    names = {".".join(stub.parent.relative_to(SOURCE).parts) for stub in stubs}
    parents = [origin.rsplit(".", count)[0] for count in range(1, origin.count(".") + 1)]
    return next((parent for parent in parents if parent in names), "") == package


def _index(exported: Mapping[str, str], documented: Mapping[str, str]) -> str:
    """The names of ``captious`` with a line on each, by page."""
    parts = ["# captious", _summary(SOURCE / "captious" / "__init__.py")]
    titles = {f"{topic}.md": title for topic, (title, _) in TOPICS.items()}
    groups: dict[str, list[str]] = {page: [] for page in titles}
    for name, origin in exported.items():
        page = documented[origin]
        groups.setdefault(page, []).append(f"| [`{name}`]({page}#{origin}) | {_first_line(origin)} |")
    for page, rows in groups.items():
        package = page.removesuffix(".md")
        title = titles.get(page, f"captious.{package}")
        parts.append(f"## [{title}]({page})\n\n| | |\n|---|---|\n" + "\n".join(rows))
    others = sorted({page for page in documented.values() if page not in groups})
    links = ", ".join(f"[`captious.{page.removesuffix('.md')}`]({page})" for page in [*others, "testing.md"])
    parts.append(
        f"## Packages\n\nOther public names are in {links}, and in the replacements of [other libraries](compat.md)."
    )
    return "\n\n".join(parts) + "\n"


def _first_line(origin: str) -> str:
    """The first line of the docstring of a function or class."""
    module, _, name = origin.rpartition(".")
    path = SOURCE.joinpath(*module.split("."))
    path = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    for node in ast.parse(path.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name == name:
            return (ast.get_docstring(node) or "").partition("\n")[0].replace("``", "`")
    return ""


def _compat_pages() -> dict[str, str]:
    """The modules that stand in for other libraries, a page each; their names are those of the library."""
    package = SOURCE / "captious" / "compat"
    pages, rows = {}, []
    for module in sorted(package.glob("[a-z]*.py")):
        name = f"captious.compat.{module.stem}"
        options = f"    options:\n      heading: {name}\n      toc_label: {module.stem}"
        pages[f"{FOLDER}/compat.{module.stem}.md"] = f"# {name}\n\n::: {name}\n{options}\n"
        rows.append(f"- [`{name}`](compat.{module.stem}.md)")
    listed = "\n".join(rows)
    pages[f"{FOLDER}/compat.md"] = f"# captious.compat\n\n{_summary(package / '__init__.py')}\n\n{listed}\n"
    return pages


def _testing_page() -> str:
    """The contract test of metrics, which is a module and no package."""
    parts = ["# captious.testing", _summary(SOURCE / "captious" / "testing.py")]
    for name in ("check_metric", "ContractError"):
        parts.append(f"::: captious.testing.{name}\n    options:\n      heading: {name}\n      toc_label: {name}")
    return "\n\n".join(parts) + "\n"


def _summary(module: Path) -> str:
    return ast.get_docstring(ast.parse(module.read_text(encoding="utf-8"))) or ""


def _page(title: str, summary: str, names: Mapping[str, str], documented: Mapping[str, str]) -> str:
    """A page with names that its package exports; what an earlier page has is linked."""
    parts = [f"# {title}", *([summary] if summary else [])]
    if links := [
        f"[`{name}`]({documented[origin]}#{origin})" for name, origin in names.items() if origin in documented
    ]:
        parts.append(f"Also exported here: {', '.join(links)}.")
    first = {origin: name for name, origin in reversed(names.items())}  # a name may have a second one
    for name, origin in names.items():
        if origin not in documented and first[origin] == name:
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
