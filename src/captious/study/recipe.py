"""A benchmark protocol as a value: where the data lies, what is dropped, how ratings become rows, which tau."""

from __future__ import annotations

from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any, Literal

from captious.errors import InputError, nearest


@dataclass(frozen=True)
class Layout:
    """One form in which people have the data: files in the folder, and what their columns are called."""

    ratings: str
    references: tuple[str, ...] = ()
    """Files of references by image, the first that exists; none where the rows carry their own."""
    format: Literal["rows", "flickr8k", "clipscore"] = "rows"
    """``rows``: any file that ``captious.read`` takes, one rated caption or pair a row. ``flickr8k``: the text files of
    the original release. ``clipscore``: ``{image: {ground_truth: […], human_judgement: [{caption, rating}]}}``."""
    images: str | None = None
    """Folder of the images, where it is there."""
    id: str | None = None
    image: str | None = None
    caption: str | None = None
    rating: str | None = None
    system: str | None = None
    category: str | None = None
    rater: str | None = None
    preferred: str | None = None


@dataclass(frozen=True)
class Recipe:
    """A protocol that can be repeated. Every field that can move a number is printed with the result."""

    name: str
    layouts: tuple[Layout, ...]
    title: str = ""
    kind: Literal["ratings", "pairs"] = "ratings"
    own: Literal["keep", "drop", "unreference"] = "keep"
    """A candidate that is one of its image's references: kept; dropped; or kept and taken out of the references."""
    rows: Literal["each", "mean"] = "each"
    """Every rating is a row, or the mean of a caption's ratings is one."""
    tau: Literal["b", "c"] = "b"
    scale: tuple[float, float] | None = None
    ties: Literal["half", "strict"] = "half"
    """Of pairs: a metric that cannot tell two captions apart is half right, or wrong."""
    expected: int | None = None
    """Rows that the full data gives; another number is a warning."""
    source: str = ""
    """Where to get the data."""
    citation: str = ""
    notes: tuple[str, ...] = ()

    def protocol(self) -> list[str]:
        """What is printed with the result."""
        lines = [self.title or self.name]
        if self.kind == "pairs":
            lines.append(
                f"pairs: a tie of the metric counts {'½' if self.ties == 'half' else 'as wrong'}; both printed"
            )
        else:
            lines.append(
                "rows: " + ("every rating is a row" if self.rows == "each" else "the mean of a caption's ratings")
            )
            lines.append(f"headline: Kendall's tau-{self.tau}; the other variant and the tie rates stand beside it")
        if self.scale:
            lines.append(f"scale: {self.scale[0]:g} to {self.scale[1]:g}")
        own = {
            "keep": "candidates that are among the references are kept",
            "drop": "candidates that are among their image's references are dropped",
            "unreference": "a candidate among its image's references is taken out of them",
        }
        lines.append(f"references: {own[self.own]}")
        return [*lines, *self.notes]


def from_toml(path: str | Path) -> Recipe:
    """A recipe from a TOML file: the fields of `Recipe`, and one ``[[layouts]]`` table per `Layout`."""
    path = Path(path)
    try:
        table = _toml().loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{path}: no such recipe") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not a recipe in TOML ({str(error).splitlines()[0]})") from None
    layouts = table.pop("layouts", [])
    if not isinstance(layouts, list) or not layouts:
        raise InputError(f"{path}: no [[layouts]] table, expected at least one that names the file of ratings")
    made = tuple(_made(Layout, layout, f"{path}: [[layouts]] {number}") for number, layout in enumerate(layouts, 1))
    recipe: Recipe = _made(Recipe, {"name": path.stem, **table, "layouts": made}, str(path))
    return recipe


def _made(kind: Any, table: dict[str, Any], where: str) -> Any:
    import typing

    hints = typing.get_type_hints(kind)
    known = [field.name for field in fields(kind)]
    for name, value in table.items():
        if name not in known:
            raise InputError(f"{where}: unknown field {name!r}, known: {', '.join(known)}{nearest(name, known)}")
        if typing.get_origin(hints[name]) is Literal and value not in (choices := typing.get_args(hints[name])):
            raise InputError(f"{where}: {name} = {value!r}, expected one of {', '.join(choices)}")
        if isinstance(value, list):
            table[name] = tuple(value)
    try:
        return kind(**table)
    except TypeError:
        raise InputError(f"{where}: no field 'ratings', expected the name of the file of ratings") from None


def _toml() -> Any:
    import sys

    from captious.extras import require

    return require("tomllib" if sys.version_info >= (3, 11) else "tomli", "study")
