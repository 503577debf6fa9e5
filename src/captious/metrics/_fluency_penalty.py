"""Fluency errors of captions: their probabilities, and the penalty factors of scores."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import digest, expand_home, read_regular
from captious._core.languages import ENGLISH
from captious._core.numbers import parse_number
from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.formats import read_rows
from captious.io.join import get_row_id, refuse
from captious.models.fluency import SUFFIXES, load_detector

# The column of probabilities; as a `source` it means this column of the set.
COLUMN = "error_probability"
# Names of the column in a file; the second is that of aac-metrics.
NAMES = (COLUMN, "fluency_error.error_prob")
ABSENT = "no error probability"
HINT = (
    f"; name a detector or a file with fluency=..., or give a column {COLUMN!r} with a number from 0 to 1, or a list "
    "of them, for the captions of each item"
)
# A caption whose error probability is above THRESHOLD loses the share PENALTY of its score.
THRESHOLD, PENALTY = 0.9, 0.9


def get_error_probabilities(source: str, captions: CaptionSet) -> Floats:
    """Return the probability of a fluency error for each candidate; NaN if there is none.

    ``source`` is ``error_probability`` for the column of the set, the file of a table with that column, or a detector.
    """
    return captions.once(("fluency", describe_source(source)), lambda: _collect_probabilities(source, captions))


def compute_penalty_factors(probabilities: Floats, threshold: float, penalty: float) -> Floats:
    """Return the factor of each score: 1, 1 − penalty if the probability is above the threshold, or NaN without one.

    >>> compute_penalty_factors(np.array([0.9, 0.91]), 0.9, 0.9).round(6).tolist()
    [1.0, 0.1]
    """
    factors = 1 - penalty * (probabilities > threshold)
    return np.where(np.isnan(probabilities), np.nan, factors)


def find_missing_probabilities(probabilities: Floats, captions: CaptionSet) -> dict[int, str]:
    """Return a reason for each item that has a caption without a probability, by the item's index."""
    return dict.fromkeys(captions.candidates.owners[np.isnan(probabilities)].tolist(), ABSENT)


def describe_source(source: str) -> str:
    """Return the source as signatures name it: the column, a file by its content, a detector by name and content."""
    if source == COLUMN:
        return "column"
    path = _find_table(source)
    return str(load_detector(source)) if path is None else f"{path.name}#{_hash_file(path)}"


def get_source_languages(source: str) -> tuple[str, ...]:
    """Return the languages of a source: English for a detector, nothing for stored probabilities."""
    return (ENGLISH,) if source and source != COLUMN and _find_table(source) is None else ()


def refuse_settings(metric: Any, threshold: float, penalty: float) -> None:
    """Raise InputError if the threshold or the penalty is not between 0 and 1."""
    if not (0 <= threshold <= 1 and 0 <= penalty <= 1):
        raise InputError(f"{metric}: expected a threshold and a penalty from 0 to 1")


def _find_table(source: str) -> Path | None:
    """Return the path of a table of stored probabilities, or None if the source names a detector."""
    path = expand_home(source)
    return path if path.is_file() and path.suffix not in SUFFIXES else None


def _hash_file(path: Path) -> str:
    try:
        return digest(read_regular(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def _collect_probabilities(source: str, captions: CaptionSet) -> Floats:
    """Collect the probability of each candidate from the column, a table of stored ones, or a detector."""
    candidates = captions.candidates
    lists: list[Sequence[float]]
    if source == COLUMN:
        column = captions.columns.get(COLUMN, (None,) * len(captions))
        lists = [
            _parse_numbers(cell, f"{captions.name}: id {key!r}") for key, cell in zip(captions.ids, column, strict=True)
        ]
    elif (path := _find_table(source)) is not None:
        stored = _read_probabilities(str(path), _hash_file(path))
        lists = [stored.get(key, ()) for key in captions.ids]
    else:
        values, filled = np.full(len(candidates.values), np.nan), np.flatnonzero(~candidates.blank)
        if len(filled):
            values[filled] = load_detector(source).probabilities([candidates.values[one] for one in filled.tolist()])
        return values
    parts: list[float] = []
    for key, number, numbers in zip(captions.ids, candidates.counts.tolist(), lists, strict=True):
        if numbers and len(numbers) != number:
            where = captions.name if source == COLUMN else source
            raise InputError(
                f"{where}: id {key!r} has {len(numbers)} values of {COLUMN} for {number} captions, expected one each"
            )
        parts.extend(numbers or [math.nan] * number)
    return np.array(parts, dtype=np.float64)


@lru_cache(maxsize=4)
def _read_probabilities(path: str, content: str) -> Mapping[str, Sequence[float]]:
    """Read the probabilities of each id. `content` is the file's digest, so a changed file is read again."""
    stored: dict[str, Sequence[float]] = {}
    for row in read_rows(path, role="scores"):
        key = get_row_id(row, None, refuse)
        column = next((name for name in NAMES if name in row.fields), None)
        if column is None or key is None:
            raise InputError(f"{row.where}: found columns {', '.join(row.fields)}, expected an id and {COLUMN}")
        if key in stored:
            raise InputError(f"{row.where}: id {key!r} occurs twice, expected each once")
        stored[key] = _parse_numbers(row.fields[column], row.where)
    return stored


def _parse_numbers(cell: Any, where: str) -> list[float]:
    """Parse the probabilities of a cell: a number, or a list with one per caption; an empty cell has none."""
    if isinstance(cell, (list, tuple, np.ndarray)):
        values: Sequence[Any] | np.ndarray[Any, Any] = cell
    else:
        values = () if cell in (None, "") else (cell,)
    numbers = []
    for value in values:
        try:
            number = parse_number(value) if isinstance(value, str) else math.nan if value is None else float(value)
        except (TypeError, ValueError):
            number = -1.0  # refused below
        if isinstance(value, bool) or number < 0 or number > 1:
            raise InputError(f"{where}: {COLUMN} is {str(value)[:40]!r}, expected a number from 0 to 1")
        numbers.append(number)
    return numbers
