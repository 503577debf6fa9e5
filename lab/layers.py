"""The map of the packages in CONTRIBUTING.md, from the layers in pyproject.toml and each package's first sentence.

``python -m lab.layers`` writes the table between its two marks; a test holds the page to it.
"""

from __future__ import annotations

import ast
import re
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).parents[1]
PAGE = ROOT / "CONTRIBUTING.md"
MARKS = ("<!-- packages: written by python -m lab.layers -->\n", "<!-- end of packages -->")


def layers() -> list[list[str]]:
    """The packages of each layer, the lowest first; a package imports only packages of the rows above its own."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [[name.strip(" ()") for name in re.split(r"[|:]", layer)] for layer in reversed(contract["layers"])]


def sentence(package: str) -> str:
    """The first sentence of a package's docstring."""
    folder = ROOT / "src" / "captious" / package
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()))[0].replace("``", "`")


def table() -> str:
    """The map as a Markdown table, a row for each package and a number for its layer."""
    rows = ["| layer | package | what it is |", "|---|---|---|"]
    for number, packages in enumerate(layers(), 1):
        for package in packages:
            name = f"{package}/" if (ROOT / "src" / "captious" / package).is_dir() else f"{package}.py"
            rows.append(f"| {number} | `{name}` | {sentence(package)} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """The page with the map as it is now."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
