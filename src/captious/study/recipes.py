"""A benchmark protocol as a value: where the data lies, what is dropped, how ratings become rows, which tau."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from captious._core.records import parse_toml, read_text, record, rule
from captious.errors import InputError, format_suggestion
from captious.render import Document, Result, Section, Table, Text
from captious.study._columns import label

Own = Literal["keep", "drop", "unreference", "humans"]
"""A candidate that is one of its image's references: kept; dropped; kept, and no reference for any candidate of the
image; or the last only for the captions that people wrote."""


PeopleTies = Literal["drop", "half", "match"]


@dataclass(frozen=True)
class Layout:
    """One form in which people have the data: files in the folder, and what their columns are called."""

    ratings: str = field(metadata=rule("the name of the file of ratings"))
    references: tuple[str, ...] = field(default=(), metadata=rule("a list of files"))
    """Files of references by image, the first that exists; none if the rows carry their own."""
    format: Literal["rows", "flickr8k", "crowdflower", "clipscore", "audio-eval", "caparena", "longcap"] = "rows"
    """``rows``: any file that ``captious.read`` takes, one rated caption or pair a row. ``flickr8k``, ``crowdflower``:
    the text files of the original release, three ratings a row, or the share of yes and the numbers of yes and no.
    ``clipscore``: ``{image: {ground_truth: […], human_judgement: [{caption, rating}]}}``. ``audio-eval``,
    ``caparena``, ``longcap``: the files of these benchmarks."""
    references_id: str | None = None
    """Column of the image in the file of references, where it has another name than usual."""
    images: str | None = None
    """Folder of the images, where it is there."""
    only: tuple[str, ...] = field(default=(), metadata=rule('a list such as ["fixed=true"]'))
    """Columns and the value that a row has in each, such as ``fixed=true`` or ``image=COCO_val2014_*``; other rows are
    not read."""
    id: str | None = None
    image: str | None = None
    caption: str | tuple[str, ...] | None = field(default=None, metadata=rule("a column, or a list of two of pairs"))
    """The column of the captions; of pairs a column of both captions, or the two columns that hold one each."""
    rating: str | tuple[str, ...] | None = field(default=None, metadata=rule("a column or a list of columns"))
    """One column, of numbers, lists or ``{rater: number}``; or several, one for each rater."""
    levels: tuple[str, ...] = field(default=(), metadata=rule('a list such as ["true=0", "false=1"]'))
    """The number of each rating that is a word; true and false are words too."""
    reference: str | None = None
    """Column of the references in the rows, where it has another name than usual."""
    entry: int | None = field(default=None, metadata=rule("a number, 0 for the first", low=0, high=100))
    """Which number of a rater's list is the rating, where each rater gave several."""
    aspects: tuple[str, ...] = field(default=(), metadata=rule("a list of columns"))
    """Columns of further ratings of the same caption, one for each aspect that raters judged."""
    system: str | None = None
    """Column of the system; of pairs, the column of both systems."""
    category: str | None = None
    rater: str | None = None
    preferred: str | int | None = field(default=None, metadata=rule("a column, or 0 or 1"))
    """Column of the preferred caption of a pair; or 0 or 1, where it is the same one of all pairs."""
    own: Own | None = None
    """The rule for candidates among the references, where these files need another than the recipe's."""
    language: str | None = None
    """The code of the language whose rows are read, where a column ``language`` names that of each."""

    @property
    def rating_columns(self) -> tuple[str, ...]:
        """The columns of ratings that are named."""
        return (self.rating,) if isinstance(self.rating, str) else self.rating or ()

    @property
    def caption_columns(self) -> tuple[str, ...]:
        """The columns of captions that are named."""
        return (self.caption,) if isinstance(self.caption, str) else self.caption or ()

    @property
    def question(self) -> str:
        """What the ratings are called: their column where one is named."""
        return self.rating_columns[0] if len(self.rating_columns) == 1 else "rating"


@dataclass(frozen=True)
class Recipe:
    """A protocol that can be repeated. Every field that can move a number is printed with the result."""

    name: str
    layouts: tuple[Layout, ...] = field(
        metadata=rule("a table for each form of the data, that is a line [[layouts]] before the file of ratings")
    )
    title: str = ""
    kind: Literal["ratings", "pairs"] = "ratings"
    own: Own = "keep"
    """The rule for candidates that are among the references of their image."""
    rows: Literal["each", "mean"] = "each"
    """Every rating is a row, or the mean of a caption's ratings is one."""
    statistic: Literal["tau_b", "tau_c", "pearson", "spearman", "sample_tau", "accuracy_eq", "system_tau", "pooled"] = (
        "tau_b"
    )
    """The headline of ratings; that of pairs is the mean accuracy over categories, or ``pooled`` over all pairs."""
    scale: tuple[float, float] | None = field(
        default=None, metadata=rule("the lowest and the highest rating, such as [1, 5]")
    )
    ties: Literal["half", "strict"] = "half"
    """How ties count in pairs: a metric that cannot tell two captions apart is half right, or wrong."""
    people_ties: PeopleTies = "drop"
    """Pairs in which people prefer neither caption: left out; half right whatever the metric says; or matched: as many
    pairs as people tied are ties of the metric, those with the smallest differences, and verdicts must be equal."""
    precision: Literal["double", "single"] = "double"
    """The precision to which the values of two captions are compared."""
    same: Literal["keep", "drop"] = "keep"
    """Pairs whose captions are equal except for case: kept, or dropped and counted."""
    expected: int | None = None
    """Rows that the full data gives; another number is a warning."""
    humans: str | None = None
    """The system whose captions people wrote: everything is printed with it and without it."""
    source: str = ""
    """Where to get the data."""
    tried: str = ""
    """Whether the recipe has read the authors' own files, and what came out."""
    citation: str = ""
    notes: tuple[str, ...] = field(default=(), metadata=rule("a list of lines"))

    @property
    def headline(self) -> str:
        """The statistic by which metrics are ranked."""
        return "mean" if self.kind == "pairs" and self.statistic != "pooled" else self.statistic

    def of_layout(self, layout: Layout) -> Recipe:
        """The recipe with the rules of one of its layouts."""
        return self if layout.own is None else replace(self, own=layout.own)

    def protocol(self, headline: str = "") -> list[str]:
        """What is printed with the result, which metrics are ranked by the headline."""
        lines = [self.title or self.name]
        if self.kind == "pairs":
            lines += self._pairs_protocol()
        else:
            lines.append(
                "rows: " + ("every rating is a row" if self.rows == "each" else "the mean of a caption's ratings")
            )
            headline = headline or self.statistic
            if headline in ("tau_b", "tau_c"):
                variant = headline[-1]
                lines.append(
                    f"headline: Kendall's tau-{variant}; the other variant and the tie rates are printed beside it"
                )
            else:
                lines.append(f"headline: {label(headline)}; both variants of Kendall's tau are printed beside it")
        if self.scale:
            lines.append(f"scale: {self.scale[0]:g} to {self.scale[1]:g}")
        own = {
            "keep": "candidates that are among the references are kept",
            "drop": "candidates that are among their image's references are dropped",
            "unreference": "a candidate among its image's references is no reference for any candidate of the image",
            "humans": "a caption that people wrote is no reference of its image; one of a model may be",
        }
        if any(layout.format == "audio-eval" for layout in self.layouts):
            lines.append("references: each caption of a pair has its own")
        else:
            lines.append(f"references: {own[self.own]}")
        if self.same == "drop":
            lines.append("pairs whose captions are equal except for case are dropped")
        if self.humans and self.kind == "pairs":
            lines.append(f"pairs with a caption that people wrote are left out (system {self.humans})")
        elif self.humans:
            lines.append(f"with and without the captions that people wrote (system {self.humans})")
        return [*lines, *self.notes, *([f"tried on the authors' files: {self.tried}"] if self.tried else [])]

    def _pairs_protocol(self) -> list[str]:
        if self.people_ties == "match":
            return [
                "pairs: verdicts of three kinds must be equal; as many pairs as people tied are a tie of the metric, "
                "those with the smallest differences"
            ]
        lines = [f"pairs: a tie of the metric counts {'½' if self.ties == 'half' else 'as wrong'}; both printed"]
        if self.people_ties == "half":
            lines.append("a tie of the people counts ½, whatever the metric says")
        if self.precision == "single":
            lines.append("values are rounded to single precision before they are compared")
        return lines


def from_toml(path: str | Path) -> Recipe:
    """A recipe from a TOML file: the fields of `Recipe`, and one ``[[layouts]]`` table per `Layout`."""
    path = Path(path)
    table = parse_toml(read_text(path, "recipe"), str(path), "recipe")
    return record(Recipe, {"name": path.stem, **table}, str(path))


def recipe_named(name: str) -> Recipe | None:
    """A built-in recipe, or one from a TOML file or from a folder with one; None if the name is that of a file."""
    if name.endswith(".toml"):
        return from_toml(name)
    if beside := recipe_in(Path(name)):
        return from_toml(beside)
    if name in RECIPES:
        return RECIPES[name]
    if not Path(name).exists() and "." not in name:
        raise InputError(f"{name}: no such file or recipe, recipes: {', '.join(RECIPES)}{format_suggestion(name, RECIPES)}")
    return None


def recipe_in(folder: Path) -> Path | None:
    """The one recipe in a folder, such as ``captious studio export`` writes beside the answers; None without one."""
    if not folder.is_dir():
        return None
    recipes = [path for path in sorted(folder.glob("*.toml")) if "[[layouts]]" in read_text(path, "recipe")]
    if len(recipes) > 1:
        raise InputError(f"{folder}: contains the recipes {', '.join(path.name for path in recipes)}; name one of them")
    return recipes[0] if recipes else None


def recipe_beside(source: str) -> str:
    """The recipe that lies beside a file of ratings under the same name; the file itself where there is none."""
    path = Path(source)
    recipe = path.with_suffix(".toml")
    if path == recipe or not path.is_file() or not recipe.is_file() or "[[layouts]]" not in read_text(recipe, "recipe"):
        return source
    return str(recipe) if any(layout.ratings == path.name for layout in from_toml(recipe).layouts) else source


def as_recipe(recipe: Any) -> Recipe:
    """A recipe, or the one that a name or the path of a TOML file stands for."""
    found = recipe_named(str(recipe)) if isinstance(recipe, (str, Path)) else recipe
    if not isinstance(found, Recipe):
        raise InputError(f"recipe={str(recipe)[:40]!r}, expected a Recipe, or the name of one: {', '.join(RECIPES)}")
    return found


def _built_in() -> dict[str, Recipe]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {name: record(Recipe, {"name": name, **table}, name) for name, table in parse_toml(text, "", "").items()}


RECIPES = _built_in()
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
                    label(recipe.headline),
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
