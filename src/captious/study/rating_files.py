"""Rated captions as their files contain them: rows, the text files of Flickr8k, the JSON of CLIPScore's code."""

from __future__ import annotations

import json
import math
import re
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from fnmatch import fnmatchcase
from pathlib import Path
from types import MappingProxyType
from typing import Any, Literal

from captious._core.languages import LANGUAGE_COLUMN, parse_language_code
from captious._core.numbers import parse_number
from captious.errors import InputError, format_suggestion
from captious.io.columns import (
    CANDIDATE_COLUMNS,
    GROUP_COLUMNS,
    IMAGE_COLUMNS,
    ITEM_COLUMNS,
    PAIR_SYSTEM_COLUMNS,
    RATER_COLUMNS,
    RATING_COLUMNS,
    REFERENCE_COLUMNS,
    SYSTEM_COLUMNS,
    VIDEO_COLUMNS,
)
from captious.io.formats import get_name, read_rows, read_text
from captious.io.join import check_text, describe_value, gather_references, refuse
from captious.io.rows import Row
from captious.options import Missing, Reading
from captious.study._annotation_tools import convert_tool_rows
from captious.study.recipes import Layout, Part, Recipe

# The rater of a single rating without a name.
UNNAMED = ""
# Lists of references.
References = tuple[tuple[str, ...], ...]
# Columns that `captious studio export` writes beside the ratings.
COMMENT, SECONDS = "comment", "seconds"
# Column of the text that was translated or summarized.
SOURCE = "source"
# Columns that say how a caption was drawn.
PROBABILITY, STRATUM, BATCH = "probability", "stratum", "batch"
_NOT_ASPECTS = {
    *(CANDIDATE_COLUMNS + GROUP_COLUMNS + IMAGE_COLUMNS + ITEM_COLUMNS + RATER_COLUMNS),
    *(RATING_COLUMNS + REFERENCE_COLUMNS + SYSTEM_COLUMNS),
    *(COMMENT, SECONDS, "purpose", "place", "late", PROBABILITY, STRATUM, BATCH),
}
# The largest rating or value: the statistics square and add them.
LARGEST = 1e100


@dataclass(frozen=True)
class Record:
    """One rated caption, or one pair of captions, and where it stood."""

    where: str
    image: str
    captions: tuple[str, ...]
    ratings: Mapping[str, float | None] = field(default_factory=dict)
    """Ratings by rater; raters without a name are numbered."""
    references: tuple[str, ...] = ()
    id: str | None = None
    system: str | None = None
    category: str | None = None
    preferred: float | None = None
    """The preferred caption of a pair: 0 or 1, None for a tie."""
    rater: str | None = None
    """The rater of a pair."""
    systems: tuple[str, str] | None = None
    """The systems of the two captions of a pair."""
    aspects: Mapping[str, Mapping[str, float | None]] = field(default_factory=dict)
    """Further ratings by aspect and rater."""
    compared_with: tuple[References, References] | None = None
    """The lists of references that each caption of a pair is compared with, if they are its own: the mean of the
    values under each list counts."""
    corpus: str = ""
    """Which captions are scored together, the first and the second of pairs apart; nothing if all are."""
    language: str = ""
    """The code of the language, if a column names it."""
    comment: str = ""
    """The comment of the rater."""
    seconds: float | None = None
    """The time that the rater took."""
    source: str = ""
    """The text that was translated or summarized."""
    video: str | None = None
    drawn: Mapping[str, Any] = field(default_factory=dict)
    """The chance, stratum and batch of its drawing, as the cells have them; without those that the rows do not have."""


def find_layout(recipe: Recipe, folder: Path) -> tuple[Layout, Path | None]:
    """Find the layout that the folder has, and its file of references; without one the error says what to fetch."""
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of data for {recipe.name}; get it from: {recipe.source}")
    for layout in recipe.layouts:
        parts = layout.list_files()
        if all((folder / one.ratings).is_file() for one in parts):
            found = [find_reference_file(one, folder) for one in parts]
            if all(path or not one.references for path, one in zip(found, parts, strict=True)):
                return layout, found[0]
    wanted = "; or ".join(
        " and ".join(
            one.ratings + (f" with {' or '.join(one.references)}" if one.references else "")
            for one in layout.list_files()
        )
        for layout in recipe.layouts
    )
    raise InputError(f"{folder}: {recipe.name} looks for {wanted}; get it from: {recipe.source or 'your own files'}")


def find_reference_file(part: Layout | Part, folder: Path) -> Path | None:
    """Return the first file of references that exists in the folder; None without one."""
    return next((folder / name for name in part.references if (folder / name).is_file()), None)


@dataclass
class LeftOut:
    """Rows that were left out of a file at reading: their number by reason, and remarks about them."""

    numbers: Counter[str] = field(default_factory=Counter)
    warnings: list[str] = field(default_factory=list)
    read: str = ""
    """The columns and files that were read, in a line."""


def read_records(
    layout: Layout,
    ratings: Any,
    references: Any,
    kind: Literal["ratings", "pairs"] | None,
    missing: Missing = "error",
    left_out: LeftOut | None = None,
) -> list[Record]:
    """Read everything in the files of a layout; without a kind, the rows tell whether they are pairs.

    A row that cannot be read is an error, or with ``missing="skip"`` it is counted in ``left_out``.
    """
    if layout.format in ("flickr8k", "crowdflower"):
        return list(_read_flickr8k(ratings, str(references), share=layout.format == "crowdflower"))
    if layout.format == "clipscore":
        return list(_read_clipscore(ratings))
    by_image = {}
    if references is not None:
        reading = Reading(references_id_column=layout.references_id)
        by_image = gather_references(read_rows(references, role="references"), reading).references
    rows = convert_tool_rows(list(read_rows(ratings, role="ratings")))
    left_out = LeftOut() if left_out is None else left_out
    records = read_rating_rows(rows, layout, get_name(ratings), by_image, kind, missing, left_out)
    left_out.read = left_out.read or _describe_columns(rows, layout, references, kind)
    return records


def _describe_columns(rows: Sequence[Row], layout: Layout, references: Any, kind: str | None) -> str:
    """Return which column was read as what; the first row tells, as it does for reading."""
    if not rows:
        return ""
    row = rows[0].fields
    pairs = kind == "pairs" or (kind is None and _is_pair(row, layout))
    judged = str(_get_preferred_columns(layout)) if pairs else ""
    columns = {
        "preferred captions" if pairs else "ratings": (judged, *layout.rating_columns)
        if pairs
        else layout.rating_columns or (_get_cell(row, None, RATING_COLUMNS),),
        "captions": layout.caption_columns or (_get_cell(row, None, CANDIDATE_COLUMNS),),
        "images": (_get_cell(row, layout.image, GROUP_COLUMNS) or _get_cell(row, layout.id, ITEM_COLUMNS),),
        "systems": (_get_cell(row, layout.system, PAIR_SYSTEM_COLUMNS if pairs else SYSTEM_COLUMNS),),
        "raters": (_get_cell(row, layout.rater, RATER_COLUMNS),),
        "references": (_get_cell(row, layout.reference, REFERENCE_COLUMNS),) if references is None else (),
    }
    parts = {what: ", ".join(f"`{name}`" for name in names if name) for what, names in columns.items()}
    if references is not None:
        parts["references"] = Path(get_name(references)).name
    return "; ".join(f"{what}: {names}" for what, names in parts.items() if names)


def read_rating_rows(
    rows: Sequence[Row],
    layout: Layout,
    name: str,
    references: Mapping[str, list[str]] = MappingProxyType({}),
    kind: Literal["ratings", "pairs"] | None = None,
    missing: Missing = "error",
    left_out: LeftOut | None = None,
) -> list[Record]:
    """Read the rows of a file of ratings or pairs, which messages call by its ``name``."""
    pairs = kind == "pairs" or (kind is None and bool(rows) and _is_pair(rows[0].fields, layout))
    _require_columns(layout if not pairs else replace(layout, preferred=_get_preferred_columns(layout)), name, rows)
    wanted = [row for row in rows if _is_wanted(row.fields, layout)]
    return _read_each(
        wanted,
        lambda row: _record(row.where, row.fields, layout, references, pairs),
        missing,
        LeftOut() if left_out is None else left_out,
    )


def _read_each(rows: Sequence[Row], read: Callable[[Row], Record], missing: Missing, left_out: LeftOut) -> list[Record]:
    """Read every row. Of rows that cannot be read the first is named, unless all of them are skipped and counted."""
    found, faults = [], []
    for row in rows:
        try:
            found.append(read(row))
        except InputError as error:
            faults.append(str(error))
        if missing == "error" and faults and found:
            break
    if not faults:
        return found
    if not found:  # a column is missing or has another name: to skip would leave nothing
        raise InputError(faults[0])
    if missing == "error":
        raise InputError(f"{faults[0]}; pass missing='skip' to leave out such rows")
    left_out.numbers["the row cannot be read"] += len(faults)
    several = "s" if len(faults) > 1 else ""
    left_out.warnings.append(f"{len(faults):,} row{several} left out that cannot be read: {faults[0]}")
    return found


def find_aspects(rows: Sequence[Row]) -> tuple[str, ...]:
    """Return the columns of numbers that are neither the rating nor what names a caption or rater."""
    columns = dict.fromkeys(str(name) for row in rows for name in row.fields if name not in _NOT_ASPECTS)
    cells = {name: [row.fields[name] for row in rows if row.fields.get(name) is not None] for name in columns}
    return tuple(name for name, values in cells.items() if values and all(map(_is_plain_number, values)))


def _is_plain_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)


def _is_pair(row: Mapping[str, Any], layout: Layout) -> bool:
    """Return whether a row names the preferred one of its captions, and has no rating."""
    if layout.rating_columns or _get_preferred_columns(layout) not in row:
        return False
    caption = _get_cell(row, layout.caption_columns, CANDIDATE_COLUMNS)
    return isinstance(row[caption] if caption else None, list) or _get_cell(row, None, RATING_COLUMNS) is None


def _get_preferred_columns(layout: Layout) -> str | int:
    return "preferred" if layout.preferred is None else layout.preferred


def _is_wanted(row: Mapping[str, Any], layout: Layout) -> bool:
    """Return whether a row has the values that the layout asks for, and is in its language."""
    if layout.language and parse_language_code(row.get(LANGUAGE_COLUMN)) not in ("", layout.language):
        return False
    return all(
        fnmatchcase(str(row.get(column.removesuffix("!"))), value) != column.endswith("!")
        for column, _, value in (pair.partition("=") for pair in layout.only)
    )


def _require_columns(layout: Layout, source: str, rows: Sequence[Row]) -> None:
    """Raise InputError if a named column does not exist."""
    columns = dict.fromkeys(str(name) for row in rows for name in row.fields)
    named = (
        layout.image,
        layout.video,
        layout.reference,
        layout.system,
        layout.category,
        layout.rater,
        layout.preferred,
    )
    drawing = (layout.probability, layout.stratum)
    several = (*layout.caption_columns, *layout.rating_columns, *layout.aspects)
    conditions = (pair.partition("=")[0].removesuffix("!") for pair in layout.only)
    for name in (*find_id_columns(layout.id, columns), *named, *drawing, *several, *conditions):
        if isinstance(name, str) and rows and name not in columns:
            raise InputError(
                f"{source}: no column {name!r}, found columns {', '.join(columns)}{format_suggestion(name, columns)}"
            )


def find_id_columns(wanted: str | None, columns: Iterable[str]) -> list[str]:
    """List the columns that make an id: one, or several named with commas; none if none is requested.

    >>> find_id_columns("id,style", ["id", "style"]), find_id_columns("a,b", ["a,b"])
    (['id', 'style'], ['a,b'])
    """
    if wanted is None or wanted in columns:
        return [] if wanted is None else [wanted]
    return [name.strip() for name in wanted.split(",")]


def _record(
    where: str, row: Mapping[str, Any], layout: Layout, references: Mapping[str, list[str]], pairs: bool
) -> Record:
    captions = _read_captions(where, row, layout, pairs)
    keys = [_read_name(where, row, column, (), "item") for column in find_id_columns(layout.id, row)]
    key = ":".join(map(str, keys)) if keys else _read_name(where, row, None, ITEM_COLUMNS, "item")
    image = _read_name(where, row, layout.image, GROUP_COLUMNS, "image") or key
    if image is None:
        raise InputError(f"{where}: no image or id: found columns {', '.join(row)}; name it with group=...")
    own = _get_cell(row, layout.reference, REFERENCE_COLUMNS)
    common = Record(
        where,
        image,
        captions,
        references=(
            tuple(find_references(references, image, key)) if references else _read_texts(where, own and row[own])
        )[: layout.most_references],
        id=key,
        system=None if pairs else _read_name(where, row, layout.system, SYSTEM_COLUMNS, "system"),
        category=_read_name(where, row, layout.category, ("category",), "category"),
        language=parse_language_code(row.get(LANGUAGE_COLUMN)),
        comment=str(row.get(COMMENT) or ""),
        seconds=_read_seconds(row.get(SECONDS)),
        source=str(row.get(SOURCE) or ""),
        video=_read_name(where, row, layout.video, VIDEO_COLUMNS[:2], "video"),
        drawn=_read_drawing(row, layout),
    )
    rater = _read_name(where, row, layout.rater, RATER_COLUMNS, "rater")
    if pairs:
        preferred = _read_choice(where, row, _get_preferred_columns(layout))
        return replace(common, preferred=preferred, rater=rater, systems=_pair_systems(where, row, layout.system))
    aspects = {name: _read_ratings(row.get(name), rater, where, name) for name in layout.aspects}
    for name in layout.turned:
        aspects[name] = {rated_by: -value if value else value for rated_by, value in aspects.get(name, {}).items()}
    common = replace(common, aspects=aspects)
    wanted = layout.rating_columns
    if len(wanted) > 1:
        columns = [pick_column(row, name, RATING_COLUMNS, where, "rating") for name in wanted]
        cells = (
            {name: _convert_level(row[name], layout.levels, where, name) for name in columns} if layout.levels else row
        )
        return replace(common, ratings={name: read_number(cells[name], where, name) for name in columns})
    column = pick_column(row, wanted[0] if wanted else None, RATING_COLUMNS, where, "rating")
    value = row[column] if layout.entry is None else _get_entries(row[column], layout.entry, where, column)
    value = _convert_level(value, layout.levels, where, column) if layout.levels else value
    return replace(common, ratings=_read_ratings(value, rater, where, column))


def _read_choice(where: str, row: Mapping[str, Any], preferred: str | int) -> float | None:
    """Return the preferred caption of a pair, None for a tie; a row without an answer is no tie."""
    if isinstance(preferred, str) and preferred not in row:
        raise InputError(f"{where}: no {preferred!r}, found columns {', '.join(row)}, expected 0, 1, or null for a tie")
    chosen = row[preferred] if isinstance(preferred, str) else preferred
    if isinstance(chosen, bool) or chosen not in (0, 1, "0", "1", None, "tie"):
        raise InputError(
            f"{where}: preferred is {_format_value(chosen)}, expected 0 or 1, or null for a tie (in CSV: tie)"
        )
    return None if chosen in (None, "tie") else float(chosen)


def _get_entries(lists: Any, entry: int, where: str, column: str) -> list[Any]:
    """Get one number of each rater's list."""
    several = isinstance(lists, list) and all(isinstance(one, list) and len(one) > entry for one in lists)
    if not several:
        raise InputError(
            f"{where}: {column} is {_format_value(lists)}, expected a list of {entry + 1} or more for each rater"
        )
    return [one[entry] for one in lists]


def _read_seconds(value: Any) -> float | None:
    """Return how long a rater took; no statistic rests on it, so what is no number is none."""
    try:
        return read_number(value, "", SECONDS)
    except InputError:
        return None


def _read_drawing(row: Mapping[str, Any], layout: Layout) -> dict[str, Any]:
    """Get how a caption was drawn; `captious.study.estimate` checks it, and nothing else uses it."""
    columns = {PROBABILITY: layout.probability or PROBABILITY, STRATUM: layout.stratum or STRATUM, BATCH: BATCH}
    return {name: row[column] for name, column in columns.items() if column in row}


def _pair_systems(where: str, row: Mapping[str, Any], wanted: str | None) -> tuple[str, str] | None:
    """Get who wrote the two captions of a pair; None if the row does not say it."""
    column = _get_cell(row, wanted, PAIR_SYSTEM_COLUMNS)
    names = None if column is None else row[column]
    named = isinstance(names, list) and len(names) == 2 and all(one not in (None, "") for one in names)
    if not named and wanted is None:
        return None
    if not named:
        raise InputError(f"{where}: {column or wanted} is {_format_value(names)}, expected the names of two systems")
    first, second = (str(read_name(one, where, str(column))) for one in names or ())
    return first, second


def _read_captions(where: str, row: Mapping[str, Any], layout: Layout, pairs: bool) -> tuple[str, ...]:
    columns = layout.caption_columns
    if not (columns or pairs or any(name in row for name in CANDIDATE_COLUMNS)):
        return ()
    if len(columns) > 1:
        texts: Any = [row.get(column) for column in columns]
    else:
        texts = row[pick_column(row, columns[0] if columns else None, CANDIDATE_COLUMNS, where, "caption")]
    captions = tuple(texts) if isinstance(texts, list) else (texts,)
    if not all(isinstance(text, str) for text in captions) or len(captions) != (2 if pairs else 1):
        expected = "two strings" if pairs else "a string"
        if not pairs and len(captions) == 2:
            name = str(_get_preferred_columns(layout))
            expected += f", or a column {name!r} beside two captions{format_suggestion(name, row)}"
        raise InputError(f"{where}: caption is {_format_value(texts)}, expected {expected}")
    return tuple(_check_valid(text, where, "caption") for text in captions)


def _read_texts(where: str, value: Any) -> tuple[str, ...]:
    """Get the references of a row: one text or a list of them; an empty cell or null is none."""
    if value is None or value == "":
        return ()
    texts = value if isinstance(value, (list, tuple)) else (value,)
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{where}: reference is {_format_value(text)}, expected a string")
    return tuple(_check_valid(text, where, "reference") for text in texts)


def _convert_level(value: Any, levels: Sequence[str], where: str, column: str) -> str | None:
    """Convert a rating that is written as a word to its number; a word without a number is a missing rating.

    >>> _convert_level(True, ["true=0", "false=1"], "a.jsonl: row 1", "wrong")
    '0'
    """
    numbers = dict(pair.split("=", 1) for pair in levels)
    if value is None or value == "":
        return None
    if str(value).lower() not in numbers:
        raise InputError(f"{where}: {column} is {_format_value(value)}, expected {' or '.join(numbers)}")
    return numbers[str(value).lower()] or None


def _read_ratings(value: Any, rater: str | None, where: str, column: str) -> dict[str, float | None]:
    if rater is not None and (isinstance(value, dict) or (isinstance(value, list) and len(value) != 1)):
        raise InputError(
            f"{where}: {column} is {_format_value(value)}, expected a number: the row names its rater, {rater!r}, "
            "and has "
            "one rating"
        )
    if isinstance(value, dict):
        return {
            _check_valid(str(name), where, "rater"): read_number(rating, where, column)
            for name, rating in value.items()
        }
    if isinstance(value, list) and len(value) != 1:
        return {str(index): read_number(rating, where, column) for index, rating in enumerate(value, 1)}
    alone = value[0] if isinstance(value, list) else value
    return {rater if rater is not None else UNNAMED: read_number(alone, where, column)}


def read_number(value: Any, where: str, column: str) -> float | None:
    """Convert a cell to a number; empty cells, nulls and NaN are missing, and what no statistic can take is refused."""
    if value is None or (isinstance(value, str) and not value.strip()):
        return None
    try:
        if isinstance(value, bool):
            raise ValueError
        result = parse_number(value) if isinstance(value, str) else float(value)
    except OverflowError:
        result = math.inf
    except (TypeError, ValueError):
        raise InputError(f"{where}: {column} is {_format_value(value)}, expected a number") from None
    if abs(result) > LARGEST:
        size = "infinite or too large" if math.isinf(result) else f"{result:g}"
        raise InputError(f"{where}: {column} is {size}, expected a number of at most {LARGEST:g}")
    return None if math.isnan(result) else result


def find_references(references: Mapping[str, list[str]], image: str, key: str | None = None) -> list[str]:
    """Find references by the image's name, its stem, or the number at its end (COCO)."""
    for name in (image, Path(image).stem, re.sub(r"^.*?0*(\d+)(\.\w+)?$", r"\1", image), key):
        if name is not None and name in references:
            return references[name]
    return []


def pick_column(row: Mapping[str, Any], wanted: str | None, usual: tuple[str, ...], where: str, what: str) -> str:
    """Choose the column to use: the requested one, or the first usual one."""
    column = _get_cell(row, wanted, usual)
    if column is None:
        expected = repr(wanted) if wanted else f"one of {', '.join(usual)}"
        hint = format_suggestion(wanted, map(str, row)) if wanted else ""
        raise InputError(f"{where}: no {what}: found columns {', '.join(map(str, row))}, expected {expected}{hint}")
    return column


def _get_cell(row: Mapping[str, Any], wanted: str | tuple[str, ...] | None, usual: tuple[str, ...]) -> str | None:
    named = (wanted,) if isinstance(wanted, str) else wanted
    return next((name for name in named or usual if name in row), None)


def _read_name(where: str, row: Mapping[str, Any], wanted: str | None, usual: tuple[str, ...], what: str) -> str | None:
    """Get an id or another name; None if the row has none, which is an error in a requested column."""
    column = _get_cell(row, wanted, usual)
    name = None if column is None else read_name(row[column], where, column)
    if name is None and wanted is not None:
        raise InputError(f"{where}: no value in column {wanted!r}, expected the name of the {what}")
    return name


def read_name(value: Any, where: str, column: str) -> str | None:
    """Convert a cell, a string or a number, to a name; None if it is empty."""
    if value is None or value == "" or (isinstance(value, float) and math.isnan(value)):
        return None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    named = isinstance(value, (str, int, float)) and not isinstance(value, bool)
    if not named or value in (math.inf, -math.inf):
        raise InputError(f"{where}: {column} is {_format_value(value)}, expected a string or a number")
    return _check_valid(str(value), where, column)


def _check_valid(text: str, where: str, what: str) -> str:
    return check_text(text, where, what, refuse) or ""


def _format_value(value: Any) -> str:
    """Format a value for messages, cut short."""
    return repr(value[:40]) if isinstance(value, str) else describe_value(value)


def _read_flickr8k(ratings: Path | str, tokens: str, share: bool) -> Iterator[Record]:
    """Read annotations and Flickr8k.token.txt: three ratings a row, or the share of yes before the two numbers of
    votes.
    """
    captions = dict(line.split("\t", 1) for line in read_text(tokens).splitlines() if "\t" in line)
    references: dict[str, list[str]] = {}
    for key, text in captions.items():
        references.setdefault(key.split("#")[0], []).append(text)
    for row, line in enumerate(read_text(ratings).splitlines(), 1):
        where, cells = f"{ratings}: row {row}", line.split("\t")
        if len(cells) != 5:
            raise InputError(f"{where}: has {len(cells)} cells, expected image, caption id and three numbers")
        if cells[1] not in captions:
            raise InputError(f"{where}: caption {cells[1]} is not in {tokens}")
        numbers = cells[2:3] if share else cells[2:]
        by_rater = {str(rater): read_number(value, where, "rating") for rater, value in enumerate(numbers, 1)}
        own = tuple(references.get(cells[0], ()))
        yield Record(where, cells[0], (captions[cells[1]],), by_rater, own, id=f"{cells[0]}/{cells[1]}")


def _read_clipscore(path: Path | str) -> Iterator[Record]:
    """Read the JSON of jmhessel/clipscore: one judgement per rating; those of one caption of one image are gathered."""
    expected = "{image: {ground_truth: […], human_judgement: [{caption, rating}]}}"
    try:
        data = json.loads(read_text(path))
    except (ValueError, RecursionError) as error:
        raise InputError(f"{path}: not JSON that can be read ({str(error)[:80]})") from None
    if not isinstance(data, dict):
        raise InputError(f"{path}: contains a JSON {type(data).__name__}, expected {expected}")
    for image, entry in data.items():
        where = f"{path}: {image}"
        judgements = entry.get("human_judgement") if isinstance(entry, dict) else None
        if not isinstance(judgements, list):
            raise InputError(f"{where}: has no list human_judgement, expected {expected}")
        gathered: dict[str, dict[str, float | None]] = {}
        for judgement in judgements:
            if not isinstance(judgement, dict) or not isinstance(judgement.get("caption"), str):
                raise InputError(
                    f"{where}: a judgement is {_format_value(judgement)}, expected a caption and its rating"
                )
            ratings = gathered.setdefault(_check_valid(judgement["caption"], where, "caption"), {})
            ratings[str(len(ratings) + 1)] = read_number(judgement.get("rating"), where, "rating")
        name = Path(_check_valid(str(entry.get("image_path", image)), where, "image")).name
        references = _read_texts(where, entry.get("ground_truth"))
        for caption, ratings in gathered.items():
            yield Record(where, name, (caption,), ratings, references)
