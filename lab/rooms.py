"""The map of the house in CONTRIBUTING.md, from the layers in pyproject.toml and the first sentence of every room.

``python -m lab.rooms`` writes the table between its two marks; a test holds the page to it.
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
MARKS = ("<!-- rooms: written by python -m lab.rooms -->\n", "<!-- end of rooms -->")


def layers() -> list[list[str]]:
    """The rooms of each layer, the lowest first; a room imports only rooms of the rows above its own."""
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    contract = next(one for one in settings["tool"]["importlinter"]["contracts"] if one["type"] == "layers")
    return [[name.strip(" ()") for name in re.split(r"[|:]", layer)] for layer in reversed(contract["layers"])]


def sentence(room: str) -> str:
    """The first sentence of a room's docstring."""
    folder = ROOT / "src" / "captious" / room
    path = folder / "__init__.py" if folder.is_dir() else folder.with_suffix(".py")
    text = ast.get_docstring(ast.parse(path.read_text(encoding="utf-8"))) or ""
    return re.split(r"(?<=\.)\s", " ".join(text.split("\n\n")[0].split()))[0].replace("``", "`")


def table() -> str:
    """The map as a Markdown table, a row for each room and a number for its layer."""
    rows = ["| layer | room | what it is |", "|---|---|---|"]
    for number, rooms in enumerate(layers(), 1):
        for room in rooms:
            name = f"{room}/" if (ROOT / "src" / "captious" / room).is_dir() else f"{room}.py"
            rows.append(f"| {number} | `{name}` | {sentence(room)} |")
    return "\n".join(rows) + "\n"


def page(text: str) -> str:
    """The page with the map as it is now."""
    before, _, rest = text.partition(MARKS[0])
    _, _, after = rest.partition(MARKS[1])
    return f"{before}{MARKS[0]}\n{table()}\n{MARKS[1]}{after}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
