"""Ratings and preferences of captions: the values, the records that files hold, and how records become values."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from captious._typing import Floats
from captious.captions import CaptionSet
from captious.errors import InputError, nearest
from captious.io.columns import (
    CANDIDATE_COLUMNS,
    GROUP_COLUMNS,
    ITEM_COLUMNS,
    RATER_COLUMNS,
    RATING_COLUMNS,
    REFERENCE_COLUMNS,
    SYSTEM_COLUMNS,
)
from captious.io.formats import name_of, rows_of
from captious.io.images import with_images
from captious.io.join import gather_references
from captious.study.recipes import Layout, Recipe


@dataclass(frozen=True, eq=False, repr=False)
class Ratings:
    """What people said of captions, and what of it is resampled together.

    >>> ratings = Ratings.of({"a": [4, 3], "b": [1, None], "c": [2, 2]}, groups=["x", "x", "y"])
    >>> ratings.values.tolist()
    [[4.0, 3.0], [1.0, nan], [2.0, 2.0]]
    """

    ids: tuple[str, ...]
    values: Floats
    """Items × raters, NaN where a rater did not rate."""
    groups: tuple[str, ...]
    """The image of each item: captions of one image are drawn together."""
    systems: tuple[str, ...] | None = None
    captions: CaptionSet | None = None
    scale: tuple[float, float] | None = None
    name: str = "ratings"
    raters: tuple[str, ...] = ()
    dropped: Mapping[str, int] = field(default_factory=dict)
    """How many items were left out at reading, by reason."""
    origins: tuple[str, ...] = ()
    """The row of the file that each item came from, for messages."""

    def __repr__(self) -> str:
        return f"<Ratings {PurePath(self.name).name}: {len(self.ids)} items, {self.values.shape[1]} raters>"

    def __post_init__(self) -> None:
        if len({*self.ids}) != len(self.ids):
            raise InputError(f"{self.name}: {len(self.ids) - len({*self.ids})} item ids occur more than once")
        if len(self.groups) != len(self.ids) or self.values.shape[:1] != (len(self.ids),):
            raise InputError(
                f"{self.name}: {len(self.ids)} ids, {len(self.values)} rows of ratings, {len(self.groups)} groups, "
                "expected as many of each"
            )
        if self.scale:
            low, high = self.scale
            outside = np.argwhere((self.values < low) | (self.values > high))
            if len(outside):
                item, rater = outside[0]
                where = self.origins[item] if self.origins else f"{self.name}: item {self.ids[item]!r}"
                raise InputError(
                    f"{where}: rating {self.values[item, rater]:g} is outside the scale {low:g} to {high:g}"
                    + (f" ({len(outside)} such ratings)" if len(outside) > 1 else "")
                )

    @classmethod
    def of(
        cls,
        ratings: Mapping[str, float | Sequence[float | None] | None],
        groups: Sequence[str] | None = None,
        systems: Sequence[str] | None = None,
        scale: tuple[float, float] | None = None,
        captions: CaptionSet | None = None,
        name: str = "ratings",
    ) -> Ratings:
        """From one rating or one list of ratings by item id; without groups every item is its own."""
        lists: list[list[Any]] = [
            list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value] for value in ratings.values()
        ]
        ids = tuple(str(key) for key in ratings)
        return cls(
            ids,
            matrix(lists),
            tuple(map(str, groups)) if groups is not None else ids,
            tuple(map(str, systems)) if systems is not None else None,
            captions,
            scale,
            name,
        )

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def mean(self) -> Floats:
        """The mean rating of each item; NaN where nobody rated it."""
        rated = ~np.isnan(self.values)
        number = rated.sum(axis=1)
        total = np.where(rated, self.values, 0.0).sum(axis=1)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)


@dataclass(frozen=True, eq=False, repr=False)
class Preferences:
    """Pairs of captions of one image, and which of the two people prefer."""

    ids: tuple[str, ...]
    """Of the captions, two to a pair: the first and the second of pair p stand at 2p and 2p + 1."""
    preferred: Floats
    """0 or 1 for each pair."""
    groups: tuple[str, ...]
    """The image of each pair."""
    categories: tuple[str, ...]
    captions: CaptionSet | None = None
    name: str = "pairs"
    dropped: Mapping[str, int] = field(default_factory=dict)

    def __repr__(self) -> str:
        return f"<Preferences {PurePath(self.name).name}: {len(self.preferred)} pairs>"


def matrix(lists: Sequence[Sequence[float | None]]) -> Floats:
    """Lists of ratings of any lengths as a matrix, NaN where there is none."""
    values = np.full((len(lists), max(map(len, lists), default=0)), np.nan)
    for row, ratings in enumerate(lists):
        values[row, : len(ratings)] = [np.nan if rating is None else rating for rating in ratings]
    return values


UNNAMED = ""
"""A single rating of nobody in particular."""


@dataclass(frozen=True)
class Record:
    """One rated caption, or one pair of captions, and where it stood."""

    where: str
    image: str
    captions: tuple[str, ...]
    ratings: Mapping[str, float | None] = field(default_factory=dict)
    """By rater; raters without a name are numbered."""
    references: tuple[str, ...] = ()
    id: str | None = None
    system: str | None = None
    category: str | None = None
    preferred: float | None = None


def locate(recipe: Recipe, folder: Path) -> tuple[Layout, Path | None]:
    """The layout that the folder has, and its file of references; without one the error says what to fetch."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of data for {recipe.name}; get it from: {recipe.source}")
    for layout in recipe.layouts:
        if (folder / layout.ratings).is_file():
            references = [folder / name for name in layout.references if (folder / name).is_file()]
            if references or not layout.references:
                return layout, references[0] if references else None
    wanted = "; or ".join(
        layout.ratings + (f" with {' or '.join(layout.references)}" if layout.references else "")
        for layout in recipe.layouts
    )
    raise InputError(f"{folder}: {recipe.name} looks for {wanted}; get it from: {recipe.source or 'your own files'}")


def records(layout: Layout, ratings: Any, references: Any, pairs: bool = False) -> list[Record]:
    """Everything in the files of a layout."""
    if layout.format == "flickr8k":
        return list(_flickr8k(Path(ratings), Path(str(references))))
    if layout.format == "clipscore":
        return list(_clipscore(Path(ratings)))
    by_image = gather_references(rows_of(references, role="references")).references if references is not None else {}
    rows = list(rows_of(ratings, role="ratings"))
    columns = dict.fromkeys(str(name) for row in rows for name in row.fields)
    for name in (layout.id, layout.image, layout.system, layout.category, layout.rater):
        if name is not None and rows and name not in columns:
            hint = nearest(name, columns)
            raise InputError(f"{ratings}: no column {name!r}, found columns {', '.join(columns)}{hint}")
    read = [_record(row.where, row.fields, layout, by_image, pairs) for row in rows]
    if layout.system is not None and (lacking := next((record for record in read if record.system is None), None)):
        raise InputError(f"{lacking.where}: no value in column {layout.system!r}, expected the name of a system")
    return read


def _record(
    where: str, row: Mapping[str, Any], layout: Layout, references: Mapping[str, list[str]], pairs: bool
) -> Record:
    captions = _captions(where, row, layout, pairs)
    key = _optional(row, layout.id, ITEM_COLUMNS)
    image = _optional(row, layout.image, GROUP_COLUMNS) or key
    if image is None:
        raise InputError(f"{where}: no image or id: found columns {', '.join(row)}; name it with group=...")
    own = _column(row, None, REFERENCE_COLUMNS)
    texts = references_of(references, image, key) if references else (own and row[own]) or ()
    common = Record(
        where,
        image,
        captions,
        references=(texts,) if isinstance(texts, str) else tuple(texts),
        id=key,
        system=_optional(row, layout.system, SYSTEM_COLUMNS),
        category=_optional(row, layout.category, ("category",)),
    )
    if pairs:
        chosen = row.get(layout.preferred or "preferred")
        if chosen not in (0, 1, "0", "1", None, ""):
            raise InputError(f"{where}: preferred is {chosen!r}, expected 0 or 1, or null for a tie")
        return replace(common, preferred=None if chosen in (None, "") else float(chosen))
    wanted = (layout.rating,) if isinstance(layout.rating, str) else layout.rating or ()
    if len(wanted) > 1:
        columns = [pick(row, name, RATING_COLUMNS, where, "rating") for name in wanted]
        return replace(common, ratings={name: number(row[name], where, name) for name in columns})
    column = pick(row, wanted[0] if wanted else None, RATING_COLUMNS, where, "rating")
    rater = _optional(row, layout.rater, RATER_COLUMNS)
    return replace(common, ratings=_ratings(row[column], rater, where, column))


def _captions(where: str, row: Mapping[str, Any], layout: Layout, pairs: bool) -> tuple[str, ...]:
    if not (layout.caption or pairs or any(name in row for name in CANDIDATE_COLUMNS)):
        return ()
    texts = row[pick(row, layout.caption, CANDIDATE_COLUMNS, where, "caption")]
    captions = tuple(texts) if isinstance(texts, list) else (texts,)
    if not all(isinstance(text, str) for text in captions) or len(captions) != (2 if pairs else 1):
        raise InputError(f"{where}: caption is {texts!r}, expected {'two strings' if pairs else 'a string'}")
    return captions


def _ratings(value: Any, rater: str | None, where: str, column: str) -> dict[str, float | None]:
    if isinstance(value, dict):
        return {str(name): number(rating, where, column) for name, rating in value.items()}
    if isinstance(value, list) and len(value) != 1:
        return {str(index): number(rating, where, column) for index, rating in enumerate(value, 1)}
    alone = value[0] if isinstance(value, list) else value
    return {rater if rater is not None else UNNAMED: number(alone, where, column)}


def number(value: Any, where: str, column: str) -> float | None:
    """A number from a cell; empty cells and nulls are missing."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        result = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {column} is {value!r}, expected a number") from None
    return None if math.isnan(result) else result


def references_of(references: Mapping[str, list[str]], image: str, key: str | None = None) -> list[str]:
    """References by the image's name, its stem, or the number at its end (COCO)."""
    for name in (image, Path(image).stem, re.sub(r"^.*?0*(\d+)(\.\w+)?$", r"\1", image), key):
        if name is not None and name in references:
            return references[name]
    return []


def pick(row: Mapping[str, Any], wanted: str | None, usual: tuple[str, ...], where: str, what: str) -> str:
    """The column to use: the one asked for, or the first usual one."""
    column = _column(row, wanted, usual)
    if column is None:
        expected = repr(wanted) if wanted else f"one of {', '.join(usual)}"
        hint = nearest(wanted, map(str, row)) if wanted else ""
        raise InputError(f"{where}: no {what}: found columns {', '.join(map(str, row))}, expected {expected}{hint}")
    return column


def _column(row: Mapping[str, Any], wanted: str | None, usual: tuple[str, ...]) -> str | None:
    return next((name for name in ((wanted,) if wanted else usual) if name in row), None)


def _optional(row: Mapping[str, Any], wanted: str | None, usual: tuple[str, ...]) -> str | None:
    column = _column(row, wanted, usual)
    value = row[column] if column is not None else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None or value == "" else str(value)


def _flickr8k(ratings: Path, tokens: Path) -> Iterator[Record]:
    """ExpertAnnotations.txt (three ratings) or CrowdFlowerAnnotations.txt (share, yes, no) and Flickr8k.token.txt."""
    captions = dict(line.split("\t", 1) for line in tokens.read_text(encoding="utf-8").splitlines() if "\t" in line)
    references: dict[str, list[str]] = {}
    for key, text in captions.items():
        references.setdefault(key.split("#")[0], []).append(text)
    for row, line in enumerate(ratings.read_text(encoding="utf-8").splitlines(), 1):
        where, cells = f"{ratings}: row {row}", line.split("\t")
        if len(cells) != 5:
            raise InputError(f"{where}: has {len(cells)} cells, expected image, caption id and three numbers")
        if cells[1] not in captions:
            raise InputError(f"{where}: caption {cells[1]} is not in {tokens}")
        numbers = cells[2:3] if "." in cells[2] or cells[2] == "0" else cells[2:]
        by_rater = {str(rater): number(value, where, "rating") for rater, value in enumerate(numbers, 1)}
        own = tuple(references.get(cells[0], ()))
        yield Record(where, cells[0], (captions[cells[1]],), by_rater, own, id=f"{cells[0]}/{cells[1]}")


def _clipscore(path: Path) -> Iterator[Record]:
    """The JSON of jmhessel/clipscore: one judgement per rating; those of one caption of one image are gathered."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except json.JSONDecodeError as error:
        raise InputError(f"{path}: not valid JSON ({error.msg})") from None
    for image, entry in data.items():
        gathered: dict[str, dict[str, float | None]] = {}
        for judgement in entry["human_judgement"]:
            ratings = gathered.setdefault(judgement["caption"], {})
            ratings[str(len(ratings) + 1)] = number(judgement["rating"], f"{path}: {image}", "rating")
        name = Path(str(entry.get("image_path", image))).name
        for caption, ratings in gathered.items():
            yield Record(f"{path}: {image}", name, (caption,), ratings, tuple(entry["ground_truth"]))


def open_recipe(recipe: Recipe, folder: str | Path, images: str | Path | None = None) -> Ratings | Preferences:
    """The data of a recipe from its folder."""
    folder = Path(folder)
    layout, references = locate(recipe, folder)
    read = records(layout, folder / layout.ratings, references, recipe.kind == "pairs")
    if images is None and layout.images and (folder / layout.images).is_dir():
        images = folder / layout.images
    return gather(recipe, read, recipe.name, images)


def open_ratings(
    source: Any,
    references: Any = None,
    *,
    columns: Layout | None = None,
    recipe: Recipe | None = None,
    images: Any = None,
) -> Ratings:
    """Rated captions of a file, a frame or a list of records: whatever ``captious.read`` reads."""
    name = name_of(source, "ratings")
    layout = columns or Layout(name)
    recipe = recipe or Recipe(name, (layout,))
    gathered = gather(recipe, records(layout, source, references), name, images)
    assert isinstance(gathered, Ratings)
    return gathered


def gather(
    recipe: Recipe, records: Sequence[Record], name: str, images: str | Path | None = None
) -> Ratings | Preferences:
    """Ratings or preferences from records."""
    if not records:
        raise InputError(f"{name}: holds no ratings")
    dropped: Counter[str] = Counter()
    used = [used for record in records if (used := _without_own(recipe, record, dropped)) is not None]
    if not used:
        reasons = ", ".join(f"{number} ({reason})" for reason, number in dropped.items())
        raise InputError(f"{name}: no item is left; dropped: {reasons}")
    if recipe.kind == "pairs":
        return _preferences(used, name, dropped, images)
    merged = _merged(used)
    raters = tuple(dict.fromkeys(rater for record in merged for rater in record.ratings))
    items = [
        (key, record)
        for key, record in zip(_ids(merged), merged, strict=True)
        if any(rating is not None for rating in record.ratings.values())
    ]
    if not items:
        raise InputError(f"{name}: no item has a rating")
    if unrated := len(merged) - len(items):
        dropped["nobody rated it"] = unrated
    ids, rated = zip(*items, strict=True)
    captions = None
    if all(record.captions for record in rated):
        captions = _caption_set([(key, record.captions[0], record) for key, record in items], name, images)
    return Ratings(
        ids,
        matrix([[record.ratings.get(rater) for rater in raters] for record in rated]),
        tuple(record.image for record in rated),
        tuple(str(record.system) for record in rated) if all(record.system is not None for record in rated) else None,
        captions,
        recipe.scale,
        name,
        tuple(rater or "rating 1" for rater in raters),
        dict(dropped),
        tuple(record.where for record in rated),
    )


def _without_own(recipe: Recipe, record: Record, dropped: Counter[str]) -> Record | None:
    """The record after the recipe's rule for candidates that are among their own references."""
    candidates = {*map(_clean, record.captions)}
    others = tuple(text for text in record.references if _clean(text) not in candidates)
    if recipe.own == "keep" or len(others) == len(record.references):
        return record
    if recipe.own == "drop":
        dropped["the caption is one of the image's references"] += 1
        return None
    return replace(record, references=others)


def _merged(records: Sequence[Record]) -> list[Record]:
    """Single ratings of one caption, row by row, become one record; a list of ratings is one already."""
    merged: dict[tuple[str | None, str, str | None, tuple[str, ...]], dict[str, float | None]] = {}
    result: list[Record] = []
    for record in records:
        key = (record.id, record.image, record.system, record.captions)
        before = merged.get(key)
        if before is None or len(record.ratings) != 1:
            merged[key] = dict(record.ratings)
            result.append(replace(record, ratings=merged[key]))
            continue
        ((rater, value),) = record.ratings.items()
        if rater == UNNAMED:
            rater = f"rating {len(before) + 1}"
        if rater in before:
            raise InputError(f"{record.where}: rater {rater!r} rates the same caption a second time")
        before[rater] = value
    return result


def _ids(records: Sequence[Record]) -> list[str]:
    """The rows' own ids where they tell items apart, else id or image with the system, else with a number."""
    plain = [record.id if record.id is not None else record.image for record in records]
    if len({*plain}) == len(plain) and all(record.id is not None for record in records):
        return plain
    with_system = [f"{key}/{record.system}" for key, record in zip(plain, records, strict=True)]
    if all(record.system is not None for record in records) and len({*with_system}) == len(with_system):
        return with_system
    count: Counter[str] = Counter()
    numbered = []
    for key in plain:
        numbered.append(f"{key}#{count[key]}")
        count[key] += 1
    return numbered


def _preferences(records: list[Record], name: str, dropped: Counter[str], images: str | Path | None) -> Preferences:
    dropped["people see no difference"] += sum(record.preferred is None for record in records)
    decided = [record for record in records if record.preferred is not None]
    keys = [record.id if record.id is not None else str(index) for index, record in enumerate(decided)]
    if len({*keys}) != len(keys):
        keys = [f"{key}#{index}" for index, key in enumerate(keys)]
    texts = [
        (f"{key}/{side}", record.captions[side], record)
        for key, record in zip(keys, decided, strict=True)
        for side in (0, 1)
    ]
    captions = _caption_set(texts, name, images)
    return Preferences(
        captions.ids,
        np.array([float(record.preferred or 0) for record in decided]),
        tuple(record.image for record in decided),
        tuple(record.category or "all" for record in decided),
        captions,
        name,
        {reason: number for reason, number in dropped.items() if number},
    )


def _clean(text: str) -> str:
    """The text with single spaces."""
    return " ".join(text.split())


def _caption_set(texts: Sequence[tuple[str, str, Record]], name: str, images: str | Path | None) -> CaptionSet:
    captions = CaptionSet.of(
        {key: _clean(text) for key, text, _ in texts},
        {key: [*map(_clean, record.references)] for key, _, record in texts},
        {"image": [record.image for _, _, record in texts]},
        name,
    )
    return captions if images is None else with_images(captions, images)
