"""A benchmark protocol as a value: where the data lies, what is dropped, how ratings become rows, which tau."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

from captious._core.records import parse_record, parse_toml, read_text, rule
from captious.errors import InputError, format_choices, format_suggestion
from captious.render import Document, Result, Table, Text
from captious.stats.rater_agreement import Measurement
from captious.study._statistic_columns import get_label

# A candidate that is one of its image's references: kept; dropped; kept, and no reference for any candidate of the
# image; or the last only for the captions that people wrote.
Own = Literal["keep", "drop", "unreference", "humans"]


PeopleTies = Literal["drop", "half", "match"]


@dataclass(frozen=True)
class Part:
    """A further file of ratings of the same data set, with references of its own."""

    ratings: str = field(metadata=rule("the name of the file of ratings"))
    references: tuple[str, ...] = field(default=(), metadata=rule("a list of files"))


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
    parts: tuple[Part, ...] = field(default=(), metadata=rule("tables of ratings and references, [[layouts.parts]]"))
    """Further files of ratings, all of which are read; ids then start with the name of their file."""
    most_references: int | None = field(default=None, metadata=rule("a number of references", low=1, high=1000))
    """References that count, the first ones, where files have more."""
    references_id: str | None = None
    """Column of the image in the file of references, if it has another name than usual."""
    images: str | None = None
    """Folder of the images, if it is there."""
    only: tuple[str, ...] = field(default=(), metadata=rule('a list such as ["fixed=true"]'))
    """Columns and the value that a row has in each, such as ``fixed=true`` or ``image=COCO_val2014_*``, or that it has
    not, ``system!=human``; other rows are not read."""
    id: str | None = None
    image: str | None = None
    video: str | None = None
    """Column of the video, if it has another name than usual."""
    caption: str | tuple[str, ...] | None = field(default=None, metadata=rule("a column, or a list of two of pairs"))
    """The column of the captions; of pairs a column of both captions, or the two columns with one each."""
    rating: str | tuple[str, ...] | None = field(default=None, metadata=rule("a column or a list of columns"))
    """One column, of numbers, lists or ``{rater: number}``; or several, one for each rater."""
    levels: tuple[str, ...] = field(default=(), metadata=rule('a list such as ["true=0", "false=1"]'))
    """The number of each rating that is a word; true and false are words too."""
    reference: str | None = None
    """Column of the references in the rows, if it has another name than usual."""
    entry: int | None = field(default=None, metadata=rule("a number, 0 for the first", low=0, high=100))
    """Which number of a rater's list is the rating, where each rater gave several."""
    aspects: tuple[str, ...] = field(default=(), metadata=rule("a list of columns"))
    """Columns of further ratings of the same caption, one for each aspect that raters judged."""
    turned: tuple[str, ...] = field(default=(), metadata=rule("a list of aspects"))
    """Aspects of which more is worse, such as a number of mistakes; their sign is reversed."""
    system: str | None = None
    """Column of the system; of pairs, the column of both systems."""
    category: str | None = None
    rater: str | None = None
    preferred: str | int | None = field(default=None, metadata=rule("a column, or 0 or 1"))
    """Column of the preferred caption of a pair; or 0 or 1, if it is the same one of all pairs."""
    own: Own | None = None
    """The rule for candidates among the references, where these files need another than the recipe's."""
    language: str | None = None
    """The code of the language whose rows are read, if a column ``language`` names that of each."""
    probability: str | None = None
    """Column of the chance with which a caption was drawn, if it is not called ``probability``."""
    stratum: str | None = None
    """Column of the stratum in which it was drawn, if it is not called ``stratum``."""

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
        """The name of the ratings: their column, if one is named."""
        return self.rating_columns[0] if len(self.rating_columns) == 1 else "rating"

    def list_files(self) -> tuple[Layout | Part, ...]:
        """Return every file of ratings with its references: the layout itself, then its parts."""
        return (self, *self.parts)


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
    equality: Literal["spaces", "letters"] = "spaces"
    """When a candidate is one of the references: if they differ only in white space, or in anything that is neither
    letter nor digit, such as the spaces and capitals of a tokenizer."""
    rows: Literal["each", "mean"] = "each"
    """Every rating is a row, or the mean of a caption's ratings is one."""
    statistic: Literal[
        "tau_b",
        "tau_c",
        "pearson",
        "spearman",
        "sample_tau",
        "sample_pearson",
        "sample_spearman",
        "accuracy_eq",
        "system_tau",
        "rater_tau_b",
        "rater_spearman",
        "pooled",
    ] = "tau_b"
    """The headline of ratings; that of pairs is the mean accuracy over categories, or ``pooled`` over all pairs."""
    scale: tuple[float, float] | None = field(
        default=None, metadata=rule("the lowest and the highest rating, such as [1, 5]")
    )
    measurement: Measurement | None = None
    """Level of measurement of the ratings, for agreement between raters; interval where it is None."""
    ties: Literal["half", "strict"] = "half"
    """The value of ties in pairs: a metric that gives two captions the same value is half right, or wrong."""
    people_ties: PeopleTies = "drop"
    """Pairs in which people prefer neither caption: left out; half right whatever the metric says; or matched: as many
    pairs as people tied are ties of the metric, those with the smallest differences, and verdicts must be equal."""
    text: Literal["as written", "letters"] = "as written"
    """Captions and references as they are, or only their letters, in lower case, with a space for anything else."""
    digits: int | None = field(default=None, metadata=rule("a number of decimals", low=0, high=15))
    """Decimals to which the values of metrics are rounded before anything is computed; none if they are not."""
    precision: Literal["double", "single"] = "double"
    """The precision to which the values of two captions are compared."""
    same: Literal["keep", "drop"] = "keep"
    """Pairs whose captions are equal except for case: kept, or dropped and counted."""
    expected: int | None = None
    """Rows that the full data gives; another number is a warning."""
    humans: str | None = None
    """The system whose captions people wrote: everything is printed with it and without it."""
    source: str = ""
    """The source of the data."""
    tried: str = ""
    """Whether the recipe has read the authors' own files, and what came out."""
    citation: str = ""
    notes: tuple[str, ...] = field(default=(), metadata=rule("a list of lines"))

    @property
    def headline(self) -> str:
        """The statistic by which metrics are ranked."""
        return "mean" if self.kind == "pairs" and self.statistic != "pooled" else self.statistic

    def of_layout(self, layout: Layout) -> Recipe:
        """Return the recipe with the rules of one of its layouts."""
        return self if layout.own is None else replace(self, own=layout.own)

    def protocol(self, headline: str = "") -> list[str]:
        """Describe the protocol that is printed with the result; the headline ranks the metrics."""
        lines = [self.title or self.name]
        if self.kind == "pairs":
            lines += self._describe_pairs()
        else:
            lines.append(
                "rows: " + ("every rating is a row" if self.rows == "each" else "the mean of a caption's ratings")
            )
            headline = headline or self.statistic
            if headline in ("tau_b", "tau_c"):
                variant = headline[-1]
                lines.append(f"headline: Kendall's tau-{variant}; the other variant and the tie rates are printed too")
            else:
                lines.append(f"headline: {get_label(headline)}; both variants of Kendall's tau are printed too")
        if self.text == "letters":
            lines.append("captions and references: only their letters, in lower case")
        if self.digits is not None:
            lines.append(f"values of metrics are rounded to {self.digits} decimals, which makes ties")
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

    def _describe_pairs(self) -> list[str]:
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
    """Read a recipe from a TOML file: the fields of `Recipe`, and one ``[[layouts]]`` table per `Layout`."""
    path = Path(path)
    table = parse_toml(read_text(path, "recipe"), str(path), "recipe")
    return parse_record(Recipe, {"name": path.stem, **table}, str(path))


def find_recipe(name: str) -> Recipe | None:
    """Find a built-in recipe, or one from a TOML file or from a folder with one; None if the name is that of a file."""
    if name.endswith(".toml"):
        return from_toml(name)
    if beside := find_recipe_in(Path(name)):
        return from_toml(beside)
    if name in RECIPES:
        return RECIPES[name]
    if not Path(name).exists() and "." not in name:
        raise InputError(
            f"{name}: no such file or recipe, recipes: {', '.join(RECIPES)}{format_suggestion(name, RECIPES)}"
        )
    return None


def find_recipe_in(folder: Path) -> Path | None:
    """Find the one recipe in a folder, such as ``captious studio export`` writes with the answers; None without one."""
    if not folder.is_dir():
        return None
    recipes = [path for path in sorted(folder.glob("*.toml")) if "[[layouts]]" in read_text(path, "recipe")]
    if len(recipes) > 1:
        raise InputError(f"{folder}: contains the recipes {', '.join(path.name for path in recipes)}; name one of them")
    return recipes[0] if recipes else None


def find_recipe_for(source: str) -> str:
    """Find the recipe with the same name as a file of ratings next to it; return the file itself without one."""
    path = Path(source)
    recipe = path.with_suffix(".toml")
    if path == recipe or not path.is_file() or not recipe.is_file() or "[[layouts]]" not in read_text(recipe, "recipe"):
        return source
    return str(recipe) if any(layout.ratings == path.name for layout in from_toml(recipe).layouts) else source


def as_recipe(recipe: Any) -> Recipe:
    """Convert a recipe, a name or the path of a TOML file to a recipe."""
    found = find_recipe(str(recipe)) if isinstance(recipe, (str, Path)) else recipe
    if not isinstance(found, Recipe):
        raise InputError(f"recipe={str(recipe)[:40]!r}, expected a Recipe, or the name of one: {', '.join(RECIPES)}")
    return found


def _read_built_in() -> dict[str, Recipe]:
    text = Path(__file__).with_suffix(".toml").read_text(encoding="utf-8")
    return {
        name: parse_record(Recipe, {"name": name, **table}, name) for name, table in parse_toml(text, "", "").items()
    }


# The built-in recipes by name, those of `recipes.toml`.
RECIPES = _read_built_in()


@dataclass(frozen=True, repr=False)
class Catalog(Result):
    """The benchmarks that have a recipe."""

    recipes: Mapping[str, Recipe] = field(default_factory=lambda: RECIPES)

    def __repr__(self) -> str:
        return f"Catalog({', '.join(self.recipes)})"

    def search(self, word: str) -> Catalog:
        """Return the recipe of this name, or all whose name contains the word; if none does, those whose text does."""
        wanted, texts = (
            word.lower(),
            {name: " ".join(_list_recipe_lines(one)).lower() for name, one in self.recipes.items()},
        )
        for matches in (
            [name for name in self.recipes if wanted == name],
            [name for name in self.recipes if wanted in name],
            [name for name, text in texts.items() if wanted in text],
        ):
            if matches:
                return Catalog({name: self.recipes[name] for name in matches})
        raise InputError(f"no recipe contains {word[:60]!r}{format_choices(word, self.recipes)}")

    def document(self) -> Document:
        """Build the list of recipes: protocol, the files that are looked for, and where to get them."""
        overview = Table(
            "recipes",
            "Benchmarks that have a recipe",
            ["recipe", "people gave", "headline", "tried on the authors' files"],
            [
                [
                    recipe.name,
                    recipe.kind,
                    get_label(recipe.headline),
                    re.split(r"[;:,]", recipe.tried)[0],
                ]
                for recipe in self.recipes.values()
            ],
        )
        details = [Text(_list_recipe_lines(recipe), name, bullets=True) for name, recipe in self.recipes.items()]
        return Document(overview.title, "", [overview, *details], data=self.recipes, name="recipes")


def _list_recipe_lines(recipe: Recipe) -> list[str]:
    files = "; or ".join(
        " + ".join(name for one in layout.list_files() for name in (one.ratings, *one.references[:1]))
        for layout in recipe.layouts
    )
    return [*recipe.protocol(), f"files: {files}", f"source: {recipe.source}", recipe.citation]
