"""Files to records: the formats that rated captions come in."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from captious.errors import InputError, nearest
from captious.readers.columns import (
    CANDIDATE_COLUMNS,
    GROUP_COLUMNS,
    ITEM_COLUMNS,
    RATER_COLUMNS,
    RATING_COLUMNS,
    REFERENCE_COLUMNS,
    SYSTEM_COLUMNS,
)
from captious.readers.gather import Columns, gather_references
from captious.readers.rows import rows_of
from captious.study.recipe import Layout, Recipe

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
            found = [folder / name for name in layout.references if (folder / name).is_file()]
            if found or not layout.references:
                return layout, found[0] if found else None
    wanted = "; or ".join(
        layout.ratings + (f" with {' or '.join(layout.references)}" if layout.references else "")
        for layout in recipe.layouts
    )
    raise InputError(f"{folder}: {recipe.name} looks for {wanted}; get it from: {recipe.source or 'your own files'}")


def records(layout: Layout, ratings: Path | str, references: Path | str | None, pairs: bool = False) -> list[Record]:
    """Everything in the files of a layout."""
    if layout.format == "flickr8k":
        return list(_flickr8k(Path(ratings), Path(str(references))))
    if layout.format == "clipscore":
        return list(_clipscore(Path(ratings)))
    by_image = gather_references(rows_of(references), Columns()).references if references is not None else {}
    return [_record(row.where, row.fields, layout, by_image, pairs) for row in rows_of(ratings)]


def _record(
    where: str, row: Mapping[str, Any], layout: Layout, references: Mapping[str, list[str]], pairs: bool
) -> Record:
    captions = _captions(where, row, layout, pairs)
    key = _optional(row, layout.id, ITEM_COLUMNS)
    image = _optional(row, layout.image, GROUP_COLUMNS) or key
    if image is None:
        raise InputError(f"{where}: no image or id: found columns {', '.join(row)}; name one with --group")
    own = next((row[name] for name in REFERENCE_COLUMNS if name in row), None)
    found = references_of(references, image, key) if references else own or ()
    common = Record(
        where,
        image,
        captions,
        references=(found,) if isinstance(found, str) else tuple(found),
        id=key,
        system=_optional(row, layout.system, SYSTEM_COLUMNS),
        category=_optional(row, layout.category, ("category",)),
    )
    if pairs:
        chosen = row.get(layout.preferred or "preferred")
        if chosen not in (0, 1, "0", "1", None, ""):
            raise InputError(f"{where}: preferred is {chosen!r}, expected 0 or 1, or null for a tie")
        return replace(common, preferred=None if chosen in (None, "") else float(chosen))
    column = pick(row, layout.rating, RATING_COLUMNS, where, "rating")
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
        return {str(name): number(given, where, column) for name, given in value.items()}
    if isinstance(value, list) and len(value) != 1:
        return {str(place): number(given, where, column) for place, given in enumerate(value, 1)}
    alone = value[0] if isinstance(value, list) else value
    return {rater if rater is not None else UNNAMED: number(alone, where, column)}


def number(value: Any, where: str, column: str) -> float | None:
    """A number from a cell; empty cells and nulls are missing."""
    if value is None or value == "":
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        found = float(value)
    except (TypeError, ValueError):
        raise InputError(f"{where}: {column} is {value!r}, expected a number") from None
    return None if found != found else found


def references_of(references: Mapping[str, list[str]], image: str, key: str | None = None) -> list[str]:
    """References by the image's name, its stem, or the number at its end (COCO)."""
    for name in (image, Path(image).stem, re.sub(r"^.*?0*(\d+)(\.\w+)?$", r"\1", image), key):
        if name is not None and name in references:
            return references[name]
    return []


def pick(row: Mapping[str, Any], wanted: str | None, known: tuple[str, ...], where: str, what: str) -> str:
    """The column to use: the one asked for, or the first usual one."""
    found = wanted if wanted in row else None if wanted else next((name for name in known if name in row), None)
    if found is None:
        expected = repr(wanted) if wanted else f"one of {', '.join(known)}"
        hint = nearest(wanted, map(str, row)) if wanted else ""
        raise InputError(f"{where}: no {what}: found columns {', '.join(map(str, row))}, expected {expected}{hint}")
    return found


def _optional(row: Mapping[str, Any], wanted: str | None, known: tuple[str, ...]) -> str | None:
    name = wanted if wanted in row else next((name for name in known if name in row), None) if not wanted else None
    value = row[name] if name is not None else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    return None if value is None or value == "" else str(value)


def _flickr8k(ratings: Path, tokens: Path) -> Iterator[Record]:
    """ExpertAnnotations.txt (three ratings) or CrowdFlowerAnnotations.txt (share, yes, no) and Flickr8k.token.txt."""
    captions = dict(line.split("\t", 1) for line in tokens.read_text(encoding="utf-8").splitlines() if "\t" in line)
    references: dict[str, list[str]] = {}
    for key, text in captions.items():
        references.setdefault(key.split("#")[0], []).append(text)
    for place, line in enumerate(ratings.read_text(encoding="utf-8").splitlines(), 1):
        where, cells = f"{ratings}: row {place}", line.split("\t")
        if len(cells) != 5:
            raise InputError(f"{where}: has {len(cells)} cells, expected image, caption id and three numbers")
        if cells[1] not in captions:
            raise InputError(f"{where}: caption {cells[1]} is not in {tokens}")
        numbers = cells[2:3] if "." in cells[2] or cells[2] == "0" else cells[2:]
        given = {str(rater): number(value, where, "rating") for rater, value in enumerate(numbers, 1)}
        own = tuple(references.get(cells[0], ()))
        yield Record(where, cells[0], (captions[cells[1]],), given, own, id=f"{cells[0]}/{cells[1]}")


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
