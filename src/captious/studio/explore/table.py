"""The joined table: items of several runs by id, every system's captions and scores, and what people said of them.

Numbers are NumPy arrays with one value per item, texts stay in Arrow. An item that a system lacks has NaN and null
there. Ratings of people become scores like those of metrics, so that every order, filter and chart takes them too.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path, PurePath
from typing import TYPE_CHECKING

import numpy as np

from captious._typing import Bools, Floats, Ints
from captious.errors import InputError
from captious.io.images import find_images
from captious.runs.tables import TEXTS
from captious.studio.explore.opinions import RATING, Opinion, gap_of, mean_of, read_opinions
from captious.studio.explore.runs import Run, Score, open_runs

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, eq=False)
class Joined:
    """Items by id with the captions and scores of every system."""

    ids: tuple[str, ...]
    systems: tuple[str, ...]
    scores: tuple[Score, ...]
    values: tuple[tuple[Floats, ...], ...]
    """System × score: a value per item."""
    captions: tuple[pa.ListArray, ...]
    """Of each system: the candidates of every item, null where it has none."""
    references: pa.ListArray
    fields: Mapping[str, pa.Array]
    """Further columns of the runs, a value per item."""
    unscored: tuple[pa.Array, ...]
    """Of each system: why items have no value, as JSON."""
    runs: tuple[Run, ...]
    images: tuple[str | None, ...]
    opinions: Mapping[tuple[int, int], Sequence[Opinion]] = field(default_factory=dict)
    """What people said, by item and system."""
    gaps: tuple[Floats, ...] = ()
    """Of each system: the largest difference between two raters of an item."""
    warnings: tuple[str, ...] = ()

    def __len__(self) -> int:
        return len(self.ids)

    @cached_property
    def positions(self) -> dict[str, int]:
        """The item of each id."""
        return {key: item for item, key in enumerate(self.ids)}

    @cached_property
    def by_image(self) -> dict[str, int]:
        """The item of each image's file name and stem, for ratings that name images."""
        names = [(PurePath(path), item) for item, path in enumerate(self.images) if path]
        return {path.stem: item for path, item in names} | {path.name: item for path, item in names}

    @cached_property
    def words(self) -> tuple[Floats, ...]:
        """Of each system: the mean number of words of an item's candidates."""
        return tuple(map(_words, self.captions))

    def values_of(self, score: int, systems: Sequence[int]) -> Floats:
        """The mean of a score over systems, a value per item; NaN where none has one."""
        return mean_over([self.values[system][score] for system in systems])

    def texts_of(self, column: pa.ListArray, item: int) -> list[str]:
        """The texts of an item."""
        return [text or "" for text in column[item].as_py() or ()]


def mean_over(columns: Sequence[Floats]) -> Floats:
    """The mean of several columns where they have a value.

    >>> mean_over([np.array([1.0, np.nan, np.nan]), np.array([3.0, 4.0, np.nan])]).tolist()
    [2.0, 4.0, nan]
    """
    if len(columns) == 1:
        return columns[0]
    stacked = np.stack(columns)
    present = ~np.isnan(stacked)
    number = present.sum(axis=0)
    total = np.where(present, stacked, 0.0).sum(axis=0)
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


@dataclass(frozen=True, eq=False)
class _Part:
    """A run with its items, and the row of each item of the joined table, −1 where the run has none."""

    run: Run
    items: pa.Table
    rows: Ints


def join(
    runs: Sequence[str | Path] | Mapping[str, str | Path],
    ratings: str | Path | None = None,
    images: str | Path | None = None,
) -> Joined:
    """The runs of these folders joined by item id, with ratings from a file and images from a folder."""
    opened = open_runs(runs)
    tables = [run.items() for run in opened]
    ids, rows = _ids([items["id"].to_pylist() for items in tables], opened)
    parts = [_Part(*part) for part in zip(opened, tables, rows, strict=True)]
    scores = tuple({score.key: score for run in opened for score in reversed(run.scores)}.values())
    scores = tuple(sorted(scores, key=lambda score: _place(score, opened)))
    table = Joined(
        ids=tuple(ids),
        systems=tuple(run.name for run in opened),
        scores=scores,
        values=tuple(tuple(_numbers(part, score.key) for score in scores) for part in parts),
        captions=tuple(_aligned(part, "candidates") for part in parts),
        references=_first([_aligned(part, "references") for part in parts]),
        fields=_fields(parts),
        unscored=tuple(_unscored(part) for part in parts),
        runs=tuple(opened),
        images=_images(parts, ids, images),
        warnings=tuple(dict.fromkeys(warning for run in opened for warning in run.warnings)),
    )
    return table if ratings is None else with_opinions(table, ratings)


def _place(score: Score, runs: Sequence[Run]) -> tuple[int, int]:
    """Where a score stands: in the order of the first run that has it."""
    for number, run in enumerate(runs):
        keys = [one.key for one in run.scores]
        if score.key in keys:
            return number, keys.index(score.key)
    return len(runs), 0


def _ids(lists: Sequence[list[str | None]], runs: Sequence[Run]) -> tuple[list[str], list[Ints]]:
    """All ids in the order of their first run, and for each run the row of every item, −1 where it has none."""
    positions: dict[str, int] = {}
    for keys, run in zip(lists, runs, strict=True):
        if None in keys or len(set(keys)) != len(keys):
            raise InputError(f"{run.folder}: an id is missing or occurs twice, expected one row an item")
        for key in keys:
            positions.setdefault(str(key), len(positions))
    rows = []
    for keys in lists:
        row = np.full(len(positions), -1, dtype=np.int64)
        row[[positions[str(key)] for key in keys]] = np.arange(len(keys))
        rows.append(row)
    if len(lists) > 1 and sum(len(keys) for keys in lists) == len(positions):
        first, second = runs[0], runs[1]
        raise InputError(
            f"{first.folder} and {second.folder}: no id is in both, such as {lists[0][0]!r} and {lists[1][0]!r}; "
            "expected runs on the same items"
        )
    return list(positions), rows


def _aligned(part: _Part, name: str) -> pa.Array:
    """A column with a value per item, null where the run has none."""
    import pyarrow as pa

    whole, rows = part.items[name].combine_chunks(), part.rows
    whole = whole.combine_chunks() if isinstance(whole, pa.ChunkedArray) else whole
    if len(whole) == len(rows) and bool((rows == np.arange(len(rows))).all()):
        return whole
    return whole.take(pa.array(rows, mask=rows < 0))


def _numbers(part: _Part, key: str) -> Floats:
    if key not in part.run.signatures:
        return np.full(len(part.rows), np.nan)
    column = np.asarray(part.items[key].to_numpy(), dtype=np.float64)
    return np.where(part.rows >= 0, column[part.rows], np.nan)


def _unscored(part: _Part) -> pa.Array:
    import pyarrow as pa

    if "unscored" not in part.items.column_names:
        return pa.nulls(len(part.rows), pa.string())
    return _aligned(part, "unscored").cast(pa.string())


def _first(columns: Sequence[pa.Array]) -> pa.Array:
    """For every item the value of the first column that has one."""
    import pyarrow.compute as pc

    result = columns[0]
    for column in columns[1:]:
        result = pc.if_else(pc.is_valid(result), result, column) if result.null_count else result
    return result


def _fields(parts: Sequence[_Part]) -> dict[str, pa.Array]:
    """Further columns of numbers and texts, each from the first run that has it."""
    import pyarrow as pa

    fields: dict[str, pa.Array] = {}
    for part in parts:
        for name in part.items.column_names:
            if name in (*TEXTS, "image", *part.run.signatures) or name in fields:
                continue
            column = _aligned(part, name)
            if pa.types.is_string(column.type) or _is_number(column.type):
                fields[name] = column
            elif not pa.types.is_null(column.type):
                fields[name] = pa.array([None if one is None else str(one) for one in column.to_pylist()], pa.string())
    return fields


def _is_number(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _images(parts: Sequence[_Part], ids: Sequence[str], folder: str | Path | None) -> tuple[str | None, ...]:
    """The path of each item's image: in the folder where there is one, otherwise as the first run that has it says."""
    named: list[str | None] = [None] * len(ids)
    for part in parts:
        if "image" in part.items.column_names and None in named:
            names = _aligned(part, "image").to_pylist()
            named = [before or (str(name) if name else None) for before, name in zip(named, names, strict=True)]
    if folder is None:
        return tuple(named)
    below = [Path(name).name if name and Path(name).is_absolute() else name for name in named]
    return tuple(find_images(folder, ids, below))


def _words(captions: pa.ListArray) -> Floats:
    import pyarrow.compute as pc

    counts = pc.count_substring_regex(captions.flatten(), r"\S+").to_numpy(zero_copy_only=False)
    parents = pc.list_parent_indices(captions).to_numpy()
    number = np.bincount(parents, minlength=len(captions))
    total = np.bincount(parents, weights=np.nan_to_num(counts), minlength=len(captions))
    return np.where(number > 0, total / np.maximum(number, 1), np.nan)


def any_of(column: pa.ListArray, matches: Bools) -> Bools:
    """For each list whether any of its texts matches.

    >>> import pyarrow as pa
    >>> any_of(pa.array([["a", "b"], [], None, ["c"]]), np.array([False, True, False])).tolist()
    [True, False, False, False]
    """
    import pyarrow.compute as pc

    result = np.zeros(len(column), dtype=np.bool_)
    result[pc.list_parent_indices(column).to_numpy()[matches]] = True
    return result


def with_opinions(table: Joined, source: str | Path) -> Joined:
    """The table with what people said: a score for every aspect, and each rating and comment by item and system."""
    from dataclasses import replace

    opinions: dict[tuple[int, int], list[Opinion]] = {}
    lost, example = 0, ""
    for opinion in read_opinions(source):
        place = _caption_of(table, opinion)
        if place is None:
            lost, example = lost + 1, example or opinion.where
        else:
            opinions.setdefault(place, []).append(opinion)
    if not opinions:
        raise InputError(
            f"{source}: no rating belongs to a caption of the runs ({example or 'it holds none'}), expected the id of "
            "an item with the name of a system, or with the caption itself"
        )
    scores = tuple(_aspect(name, opinions) for name in _aspects(table, opinions))
    shape = (len(table.systems), len(table))
    columns = {score.key: np.full(shape, np.nan) for score in scores}
    gaps = np.full(shape, np.nan)
    for (item, system), group in opinions.items():
        for score in scores:
            columns[score.key][system, item] = mean_of(group, score.key)
        gaps[system, item] = gap_of(group, RATING)
    warnings = list(table.warnings)
    if lost:
        warnings.append(f"{source}: {lost:,} ratings belong to no caption of these runs, such as {example}")
    return replace(
        table,
        scores=table.scores + scores,
        values=tuple(
            values + tuple(columns[score.key][system] for score in scores) for system, values in enumerate(table.values)
        ),
        opinions=opinions,
        gaps=tuple(gaps),
        warnings=tuple(warnings),
    )


def _aspects(table: Joined, opinions: Mapping[tuple[int, int], Sequence[Opinion]]) -> list[str]:
    """What people rated, less what repeats the rating and what a metric is called."""
    everything = [one.ratings for group in opinions.values() for one in group]
    names = dict.fromkeys(name for ratings in everything for name in ratings)
    taken = {score.key for score in table.scores}
    repeated = {
        name
        for name in names
        if name != RATING and all(ratings.get(name) == ratings.get(RATING) for ratings in everything)
    }
    return [name for name in names if name not in taken | repeated]


def _aspect(name: str, opinions: Mapping[tuple[int, int], Sequence[Opinion]]) -> Score:
    values = [one.ratings[name] for group in opinions.values() for one in group if name in one.ratings]
    label = "Human rating" if name == "rating" else f"Human {name}"
    return Score(name, label, True, (min(values), max(values)), "rating")


def _caption_of(table: Joined, opinion: Opinion) -> tuple[int, int] | None:
    """The item and system that an opinion is about: by id or image, and by the system's name or the caption."""
    keys = [opinion.id, opinion.id.rpartition("/")[0]]
    if opinion.system and opinion.id.endswith(f"/{opinion.system}"):
        keys.insert(0, opinion.id.removesuffix(f"/{opinion.system}"))
    items = [table.positions[key] for key in keys if key in table.positions]
    if not items:
        names = (opinion.image, PurePath(opinion.image).name)
        items = [table.by_image[name] for name in names if name in table.by_image]
    for item in items:
        if opinion.system in table.systems:
            return item, table.systems.index(opinion.system)
        for system, captions in enumerate(table.captions):
            texts = [" ".join(text.split()) for text in table.texts_of(captions, item)]
            if opinion.caption and " ".join(opinion.caption.split()) in texts:
                return item, system
        if len(table.systems) == 1 and not opinion.caption:
            return item, 0
    return None
