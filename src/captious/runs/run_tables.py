"""The Parquet tables of a run: items with captions, further columns and values, and rows of statistics.

Columns of the items, in this order: ``id``, ``candidates``, ``references`` (unless they are left out), ``words`` and
``characters`` (means over the candidates), ``image`` (if there is one), the further columns of the input, a number
for each metric under its written form, and ``unscored``.
"""

from __future__ import annotations

import json
import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.hashing import Hashes, hash_texts
from captious.captions import VIDEO, CaptionSet, ImageData, Origin, Ragged, VideoData
from captious.errors import InputError
from captious.metrics.measurement import Measurement
from captious.metrics.statistic_rows import Rows, TypeSets
from captious.render.exports import dumps, to_arrow
from captious.text.ngram_tables import count_words

if TYPE_CHECKING:
    import pyarrow as pa

IMAGE = "image"
# Means over the candidates of an item. They are stored because filters and sorting need them for all items at once.
COUNTS = ("words", "characters")
# Columns of the items that are neither values nor columns of the input.
TEXTS = ("id", "candidates", "references", *COUNTS, "unscored")
TAKEN = (*TEXTS, IMAGE)
# Deepest nesting of lists in a column; a deeper one is stored as JSON text.
DEEPEST = 20
# Prefix of an input column whose name is already used in the run.
INPUT = "input."


def make_items_table(
    captions: CaptionSet, measurements: Mapping[str, Measurement], metrics: Sequence[str], references: bool = True
) -> pa.Table:
    """Return the table of the items of a part, with the columns that are listed at the top of this module.

    A missing value is null; the column ``unscored`` then has the reason of each metric, as JSON. ``metrics`` are all
    metrics of the run: each has a column, even if ``measurements`` is without it because the part has no items.
    """
    import pyarrow as pa

    reasons: dict[str, dict[str, str]] = {}
    for key, one in measurements.items():
        for id, reason in one.reasons.items():
            reasons.setdefault(id, {})[key] = reason
    unscored = [dumps(reasons[id], None) if id in reasons else None for id in captions.ids]
    columns = {"id": pa.array(captions.ids, pa.string()), "candidates": _make_list_array(captions.candidates)}
    if references:
        columns["references"] = _make_list_array(captions.references)
    columns |= _average_lengths(captions)
    for key in metrics:
        values = measurements[key].values if key in measurements else np.full(len(captions), np.nan)
        columns[key] = pa.array(values, pa.float64(), mask=~np.isfinite(values))
    columns["unscored"] = pa.array(unscored, pa.string())
    input_columns = _collect_input_columns(captions, metrics)
    first = [name for name in ("id", "candidates", "references", *COUNTS) if name in columns]
    last = [name for name in columns if name not in first]
    return pa.table({name: {**columns, **input_columns}[name] for name in (*first, *input_columns, *last)})


def _average_lengths(captions: CaptionSet) -> dict[str, Any]:
    """Return the mean number of words and of characters over the candidates of each item; null without candidates."""
    import pyarrow as pa

    candidates = captions.candidates
    texts, number = candidates.values, candidates.counts
    lengths = {"words": count_words(texts, captions.language), "characters": map(len, texts)}
    means = {}
    for name in COUNTS:
        each = np.fromiter(lengths[name], dtype=np.float64, count=len(texts))
        # Sum over the candidates of each item: `owners` is the item of each candidate.
        total = np.bincount(candidates.owners, weights=each, minlength=len(number))
        means[name] = pa.array(total / np.maximum(number, 1), pa.float64(), mask=number == 0)
    return means


def add_metric_columns(before: pa.Table, now: pa.Table, metrics: Sequence[str]) -> pa.Table:
    """Return the items of a part (``before``) with the columns of these metrics added, or replaced, from ``now``.

    Of the other columns only ``unscored`` changes: it gets the new reasons of these metrics.
    """
    import pyarrow as pa

    if before["id"].to_pylist() != now["id"].to_pylist():
        raise InputError("the items of a part are in another order than when it was scored; pass overwrite=True")
    unscored = []
    for old, new in zip(before["unscored"].to_pylist(), now["unscored"].to_pylist(), strict=True):
        kept = {key: why for key, why in parse_reasons(old).items() if key not in metrics}
        reasons = {**kept, **parse_reasons(new)}
        unscored.append(dumps(reasons, None) if reasons else None)
    for key in metrics:
        # A metric that is scored again keeps its position; a new one is inserted before `unscored`.
        names = before.column_names
        index = names.index(key) if key in names else names.index("unscored")
        before = before.remove_column(index) if key in names else before
        before = before.add_column(index, key, now[key])
    index = before.column_names.index("unscored")
    return before.set_column(index, "unscored", pa.array(unscored, pa.string()))


def _make_list_array(texts: Ragged) -> Any:
    import pyarrow as pa

    return pa.ListArray.from_arrays(pa.array(texts.offsets, pa.int32()), pa.array(texts.values, pa.string()))


def _collect_input_columns(captions: CaptionSet, metrics: Collection[str]) -> dict[str, Any]:
    """Return the image paths and the other columns of the input as a run stores them, without pixels or other bytes."""
    import pyarrow as pa

    columns = {name: values for name, values in captions.columns.items() if not _has_bytes(values)}
    table = to_arrow(columns)
    arrays = {name: table[name] for name in columns}
    for name, array in arrays.items():
        if str(array.type).count("list<") > DEEPEST:  # pyarrow writes deeper lists, but cannot read them
            arrays[name] = pa.array([None if one is None else dumps(one, None) for one in columns[name]], pa.string())
    ordered = sorted(columns, key=lambda name: name != IMAGE)
    return {stored: arrays[name] for name, stored in name_stored_columns(ordered, metrics).items()}


def hide_folder(path: str) -> str:
    """Return a path as a run stores it for others to read: an absolute path is reduced to its last part.

    >>> hide_folder("/home/ann/data/preds.json"), hide_folder("data/preds.json"), hide_folder("s3://bucket/preds.json")
    ('preds.json', 'data/preds.json', 's3://bucket/preds.json')
    """
    return PurePath(path).name if PurePath(path).is_absolute() else path


def hide_machine_paths(captions: CaptionSet) -> CaptionSet:
    """Return the captions with absolute paths of images and videos made relative: a run reveals no folders.

    >>> images = {"image": ["/home/ann/photos/a/1.png", "/home/ann/photos/b/1.png"]}
    >>> hide_machine_paths(CaptionSet.of({"1": "a", "2": "b"}, columns=images)).columns["image"]
    ('photos/a/1.png', 'photos/b/1.png')
    """
    return _hide_media_paths(_hide_media_paths(captions, IMAGE), VIDEO)


def _hide_media_paths(captions: CaptionSet, column: str) -> CaptionSet:
    names = captions.columns.get(column, ())
    # Work on folders, not names: a Path object for each of a million names would take seconds.
    folders = {os.path.split(name)[0] for name in names if isinstance(name, str)}
    absolute = {folder for folder in folders if PurePath(folder).is_absolute()}
    if not absolute:
        return captions
    # Relative to the parent of their common folder, so that the name of that folder is kept.
    parent = PurePath(os.path.commonpath(absolute)).parent
    relative = {folder: os.path.relpath(folder, parent) for folder in absolute}

    def shorten(name: Any) -> Any:
        folder, last = os.path.split(name) if isinstance(name, str) else ("", "")
        return f"{relative[folder]}/{last}" if folder in relative else name

    return replace(captions, columns={**captions.columns, column: tuple(map(shorten, names))})


def _has_bytes(values: Iterable[Any]) -> bool:
    return any(isinstance(value, (ImageData, VideoData, bytes, bytearray, memoryview)) for value in values)


def name_stored_columns(names: Iterable[str], metrics: Collection[str]) -> dict[str, str]:
    """Return the column name in a run for each column of an input; a prefix avoids collisions.

    >>> name_stored_columns(["width", "candidates", "input.candidates"], ["rouge"])
    {'width': 'width', 'candidates': 'input.candidates', 'input.candidates': 'input.input.candidates'}
    """
    taken, stored = {*TEXTS, *metrics}, dict[str, str]()
    for name in names:
        unique = name
        while unique in taken:
            unique = f"{INPUT}{unique}"
        taken.add(unique)
        stored[name] = unique
    return stored


def restore_input_name(column: str, metrics: Collection[str]) -> str:
    """Return the name that a column of a run had in the input: the inverse of `name_stored_columns`.

    >>> [restore_input_name(column, []) for column in ("input.candidates", "width", "input.width")]
    ['candidates', 'width', 'input.width']
    """
    name = column
    while name.startswith(INPUT):
        name = name.removeprefix(INPUT)
    # A prefix was added only to names that collide: `input.width` had this name in the input already.
    return column.removeprefix(INPUT) if name in TEXTS or name in metrics else column


def make_captions(
    items: pa.Table, metrics: Collection[str], name: str = "captions", skipped: int = 0, cleaned: int = 0
) -> CaptionSet:
    """Rebuild the captions that were scored from the table of items, with all columns of the input.

    ``skipped`` and ``cleaned`` are counts from reading the input (see `CaptionSet`), which the table does not have.
    """
    columns = [column for column in items.column_names if column not in TEXTS and column not in metrics]
    ids = items["id"].to_pylist()
    return CaptionSet(
        ids=tuple(ids),
        candidates=_read_lists(items, "candidates", len(ids)),
        references=_read_lists(items, "references", len(ids)),
        columns={restore_input_name(column, metrics): tuple(items[column].to_pylist()) for column in columns},
        name=name,
        skipped=skipped,
        origin=Origin(cleaned=cleaned),
    )


def _read_lists(items: pa.Table, column: str, length: int) -> Ragged:
    lists = items[column].to_pylist() if column in items.column_names else [()] * length
    return Ragged.of([texts or () for texts in lists])


def parse_reasons(text: str | None) -> dict[str, str]:
    """Return the reasons for missing values of an item, by metric, from its cell of the column ``unscored``.

    >>> parse_reasons('{"cider": "no references"}'), parse_reasons(None)
    ({'cider': 'no references'}, {})
    """
    try:
        reasons = json.loads(text) if text else {}
    except (ValueError, RecursionError):
        return {}
    return {str(key): str(value) for key, value in reasons.items()} if isinstance(reasons, dict) else {}


def make_rows_table(measurements: Mapping[str, Measurement]) -> pa.Table:
    """Return the statistics of every item by metric: enough to aggregate, resample and compare them again.

    Statistics that add up over items are a list of numbers per item, all of one length. Of distinct types (`TypeSets`,
    such as a vocabulary) the hashes are stored, with the number of tokens.
    """
    import pyarrow as pa

    columns: dict[str, Any] = {}
    for key, one in measurements.items():
        if isinstance(one.rows, TypeSets):
            hashes = [np.sort(hash_type_set(types)) for types in one.rows.types]
            columns[key] = pa.StructArray.from_arrays(
                [pa.array(hashes, pa.list_(pa.uint64())), pa.array(one.rows.tokens, pa.int64())], ["types", "tokens"]
            )
        else:
            rows = np.ascontiguousarray(one.rows, dtype=np.float64)
            columns[key] = pa.FixedSizeListArray.from_arrays(pa.array(rows.ravel(), pa.float64()), rows.shape[1])
    return pa.table(columns)


def add_metric_rows(before: pa.Table, now: pa.Table) -> pa.Table:
    """Return the statistics of a part (``before``) with the metrics of ``now`` added or replaced."""
    for key in now.column_names:
        index = before.column_names.index(key) if key in before.column_names else None
        before = before.append_column(key, now[key]) if index is None else before.set_column(index, key, now[key])
    return before


def hash_types(measurements: Mapping[str, Measurement]) -> dict[str, Hashes]:
    """Return the sorted hashes of the distinct types of a part, united over its items, by metric with `TypeSets`."""
    return {
        key: np.unique(hash_type_set(frozenset().union(*one.rows.types)))
        for key, one in measurements.items()
        if isinstance(one.rows, TypeSets)
    }


def hash_type_set(types: Collection[Any]) -> Hashes:
    """Return the hashes of distinct types; those that were read from a run are hashes (integers) already."""
    if types and all(isinstance(one, int) for one in types):
        return np.fromiter(types, dtype=np.uint64, count=len(types))
    return hash_texts(map(str, types))


def parse_rows(table: pa.Table, metric: str, where: str) -> Rows:
    """Return the statistics of a metric from a table of `make_rows_table`; ``where`` names its file in an error."""
    import pyarrow as pa

    try:
        column = table[metric].combine_chunks()
        if isinstance(column, pa.ChunkedArray):  # it can still be chunked
            column = pa.concat_arrays(column.chunks) if column.chunks else pa.array([], column.type)
        if pa.types.is_struct(column.type):
            types = tuple(frozenset(one or ()) for one in column.field("types").to_pylist())
            return TypeSets(types, column.field("tokens").to_numpy(zero_copy_only=False).astype(np.int64))
        width = column.type.list_size
        values = column.flatten()
        # np.array(values) would import pandas if it is installed, which takes longer than comparing two small runs.
        array = values if values.null_count else np.from_dlpack(values)
        return np.array(array, dtype=np.float64).reshape(len(column), width)
    except (KeyError, ValueError, TypeError, AttributeError, pa.ArrowException):
        raise InputError(f"{where}: has no statistics of {metric}, expected a file that captious score wrote") from None
