"""A benchmark protocol as a value: where the data lies, what is dropped, how ratings become rows, which tau."""

from __future__ import annotations

import importlib
import math
import re
import sys
from dataclasses import dataclass
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from captious.errors import InputError, nearest
from captious.render import Document, Result, Section, Table, Text
from captious.study._columns import label


@dataclass(frozen=True)
class Layout:
    """One form in which people have the data: files in the folder, and what their columns are called."""

    ratings: str
    references: tuple[str, ...] = ()
    """Files of references by image, the first that exists; none where the rows carry their own."""
    format: Literal["rows", "flickr8k", "crowdflower", "clipscore"] = "rows"
    """``rows``: any file that ``captious.read`` takes, one rated caption or pair a row. ``flickr8k``, ``crowdflower``:
    the text files of the original release, three ratings a row, or the share of yes and the numbers of yes and no.
    ``clipscore``: ``{image: {ground_truth: […], human_judgement: [{caption, rating}]}}``."""
    references_id: str | None = None
    """Column of the image in the file of references, where it has another name than usual."""
    images: str | None = None
    """Folder of the images, where it is there."""
    id: str | None = None
    image: str | None = None
    caption: str | None = None
    rating: str | tuple[str, ...] | None = None
    """One column, of numbers, lists or ``{rater: number}``; or several, one for each rater."""
    system: str | None = None
    category: str | None = None
    rater: str | None = None
    preferred: str | None = None

    @property
    def rating_columns(self) -> tuple[str, ...]:
        """The columns of ratings that are named."""
        return (self.rating,) if isinstance(self.rating, str) else self.rating or ()


@dataclass(frozen=True)
class Recipe:
    """A protocol that can be repeated. Every field that can move a number is printed with the result."""

    name: str
    layouts: tuple[Layout, ...]
    title: str = ""
    kind: Literal["ratings", "pairs"] = "ratings"
    own: Literal["keep", "drop", "unreference"] = "keep"
    """A candidate that is one of its image's references: kept; dropped; or kept, and no reference for any candidate of
    the image."""
    rows: Literal["each", "mean"] = "each"
    """Every rating is a row, or the mean of a caption's ratings is one."""
    statistic: Literal["tau_b", "tau_c", "pearson", "spearman", "sample_tau", "accuracy_eq", "system_tau"] = "tau_b"
    """The headline of ratings; that of pairs is the mean accuracy."""
    scale: tuple[float, float] | None = None
    ties: Literal["half", "strict"] = "half"
    """Of pairs: a metric that cannot tell two captions apart is half right, or wrong."""
    expected: int | None = None
    """Rows that the full data gives; another number is a warning."""
    humans: str | None = None
    """The system whose captions people wrote: everything is printed with it and without it."""
    source: str = ""
    """Where to get the data."""
    tried: str = ""
    """Whether the recipe has read the authors' own files, and what came out."""
    citation: str = ""
    notes: tuple[str, ...] = ()

    def protocol(self, headline: str = "") -> list[str]:
        """What is printed with the result, which metrics are ranked by the headline."""
        lines = [self.title or self.name]
        if self.kind == "pairs":
            lines.append(
                f"pairs: a tie of the metric counts {'½' if self.ties == 'half' else 'as wrong'}; both printed"
            )
        else:
            lines.append(
                "rows: " + ("every rating is a row" if self.rows == "each" else "the mean of a caption's ratings")
            )
            headline = headline or self.statistic
            if headline in ("tau_b", "tau_c"):
                variant = headline[-1]
                lines.append(f"headline: Kendall's tau-{variant}; the other variant and the tie rates stand beside it")
            else:
                lines.append(f"headline: {label(headline)}; both variants of Kendall's tau stand beside it")
        if self.scale:
            lines.append(f"scale: {self.scale[0]:g} to {self.scale[1]:g}")
        own = {
            "keep": "candidates that are among the references are kept",
            "drop": "candidates that are among their image's references are dropped",
            "unreference": "a candidate among its image's references is no reference for any candidate of the image",
        }
        lines.append(f"references: {own[self.own]}")
        if self.humans:
            lines.append(f"with and without the captions that people wrote (system {self.humans})")
        return [*lines, *self.notes, *([f"tried on the authors' files: {self.tried}"] if self.tried else [])]


def from_toml(path: str | Path) -> Recipe:
    """A recipe from a TOML file: the fields of `Recipe`, and one ``[[layouts]]`` table per `Layout`."""
    path = Path(path)
    try:
        table = _parse(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such recipe") from None
    except (ValueError, OSError) as error:
        raise InputError(f"{path}: not a recipe in TOML ({str(error).splitlines()[0]})") from None
    return _recipe(path.stem, table, str(path))


def recipe_named(name: str) -> Recipe | None:
    """A built-in recipe, one from a TOML file, or None where the name is that of a file."""
    if name.endswith(".toml"):
        return from_toml(name)
    if name in RECIPES:
        return RECIPES[name]
    if not Path(name).exists() and "." not in name:
        raise InputError(f"{name}: no such file or recipe, recipes: {', '.join(RECIPES)}{nearest(name, RECIPES)}")
    return None


def as_recipe(recipe: Any) -> Recipe:
    """A recipe, or the one that a name or the path of a TOML file stands for."""
    found = recipe_named(str(recipe)) if isinstance(recipe, (str, Path)) else recipe
    if not isinstance(found, Recipe):
        raise InputError(f"recipe={str(recipe)[:40]!r}, expected a Recipe, or the name of one: {', '.join(RECIPES)}")
    return found


def _parse(path: Path) -> dict[str, Any]:
    parser = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    table: dict[str, Any] = parser.loads(path.read_text(encoding="utf-8"))
    return table


def _recipe(name: str, table: dict[str, Any], where: str) -> Recipe:
    layouts = table.pop("layouts", [])
    if not isinstance(layouts, list) or not layouts:
        raise InputError(f"{where}: no [[layouts]] table, expected at least one that names the file of ratings")
    parts = tuple(_build(Layout, layout, f"{where}: [[layouts]] {number}") for number, layout in enumerate(layouts, 1))
    recipe: Recipe = _build(Recipe, {"name": name, **table, "layouts": parts}, where)
    return recipe


def _build(kind: Any, table: dict[str, Any], where: str) -> Any:
    hints = get_type_hints(kind)
    for name, value in table.items():
        if name not in hints:
            raise InputError(f"{where}: unknown field {name!r}, known: {', '.join(hints)}{nearest(name, hints)}")
        if get_origin(hints[name]) is Literal and value not in (choices := get_args(hints[name])):
            raise InputError(f"{where}: {name} = {value!r}, expected one of {', '.join(choices)}")
        table[name] = tuple(value) if isinstance(value, list) else value
        if not _fits(table[name], hints[name]):
            raise InputError(f"{where}: {name} = {str(value)[:40]!r}, expected {_EXPECTED.get(name, 'a string')}")
    try:
        return kind(**table)
    except TypeError:
        raise InputError(f"{where}: no field 'ratings', expected the name of the file of ratings") from None


_EXPECTED = {
    "rating": "a column or a list of columns",
    "references": "a list of files",
    "notes": "a list of lines",
    "scale": "the lowest and the highest rating, such as [1, 5]",
    "expected": "a whole number",
}


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field declares; those of a `Layout` are checked when it is built."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        parts = get_args(hint)
        kinds = parts[:1] * len(value) if parts[-1] is Ellipsis and isinstance(value, tuple) else parts
        return isinstance(value, tuple) and len(value) == len(kinds) and all(map(_fits, value, kinds))
    if get_origin(hint) is Literal:
        return value in get_args(hint)
    if isinstance(value, bool):
        return False
    return isinstance(value, (int, float)) and math.isfinite(value) if hint is float else isinstance(value, hint)


RECIPES = {name: _recipe(name, table, name) for name, table in _parse(Path(__file__).with_suffix(".toml")).items()}
"""The built-in recipes by name, those of ``recipes.toml``."""


class Catalog(Result):
    """The benchmarks that have a recipe."""

    def __repr__(self) -> str:
        return f"Catalog({', '.join(RECIPES)})"

    def document(self) -> Document:
        """Each recipe's protocol, the files that are looked for, and where to get them."""
        overview = Table(
            "recipes",
            "Benchmarks that have a recipe",
            ["recipe", "people gave", "headline", "tried on the authors' files"],
            [
                [
                    recipe.name,
                    recipe.kind,
                    label("mean" if recipe.kind == "pairs" else recipe.statistic),
                    re.split(r"[;:,]", recipe.tried)[0],
                ]
                for recipe in RECIPES.values()
            ],
        )
        sections: list[Section] = [overview]
        for recipe in RECIPES.values():
            files = "; or ".join(" + ".join([layout.ratings, *layout.references[:1]]) for layout in recipe.layouts)
            lines = [*recipe.protocol(), f"files: {files}", f"source: {recipe.source}", recipe.citation]
            sections.append(Text(lines, recipe.name, bullets=True))
        return Document("Benchmarks that have a recipe", "", sections, data=RECIPES, name="recipes")
