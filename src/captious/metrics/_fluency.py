"""Fluency errors of captions: how likely each caption has one, and what that costs a score."""

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

COLUMN = "error_probability"
"""The column of probabilities, and the word that stands for it as a source."""
NAMES = (COLUMN, "fluency_error.error_prob")
"""What a file may call its probabilities; the second is the name in aac-metrics."""
ABSENT = "no error probability"
HINT = (
    f"; name a detector or a file with fluency=..., or give a column {COLUMN!r} with a number from 0 to 1, or a list "
    "of them, for the captions of each item"
)
THRESHOLD, PENALTY = 0.9, 0.9
"""A caption whose probability is above the one loses this share of its score."""


def error_probabilities(source: str, captions: CaptionSet) -> Floats:
    """The probability of a fluency error for each candidate; NaN where there is none.

    ``source`` is ``error_probability`` for the column of the set, the file of a table with that column, or a detector.
    """
    return captions.once(("fluency", identity(source)), lambda: _probabilities(source, captions))


def penalties(probabilities: Floats, threshold: float, penalty: float) -> Floats:
    """What a score is multiplied by: 1, or 1 − penalty where the probability is above the threshold; NaN without one.

    >>> penalties(np.array([0.9, 0.91]), 0.9, 0.9).round(6).tolist()
    [1.0, 0.1]
    """
    factors = 1 - penalty * (probabilities > threshold)
    return np.where(np.isnan(probabilities), np.nan, factors)


def absences(probabilities: Floats, captions: CaptionSet) -> dict[int, str]:
    """A reason for each item of which a caption has no probability."""
    return dict.fromkeys(captions.candidates.owners[np.isnan(probabilities)].tolist(), ABSENT)


def identity(source: str) -> str:
    """The source as signatures name it: the column, a file by its content, a detector by name and content."""
    if source == COLUMN:
        return "column"
    path = _table(source)
    return str(load_detector(source)) if path is None else f"{path.name}#{_digest(path)}"


def languages(source: str) -> tuple[str, ...]:
    """The languages that a source knows: a detector reads English, and of stored probabilities nothing is known."""
    return (ENGLISH,) if source and source != COLUMN and _table(source) is None else ()


def refuse_settings(metric: Any, threshold: float, penalty: float) -> None:
    """Refuse a threshold or a penalty that is no share."""
    if not (0 <= threshold <= 1 and 0 <= penalty <= 1):
        raise InputError(f"{metric}: expected a threshold and a penalty from 0 to 1")


def _table(source: str) -> Path | None:
    """The file of stored probabilities that a source names; None where it names a detector."""
    path = expand_home(source)
    return path if path.is_file() and path.suffix not in SUFFIXES else None


def _digest(path: Path) -> str:
    try:
        return digest(read_regular(path))
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None


def _probabilities(source: str, captions: CaptionSet) -> Floats:
    candidates = captions.candidates
    lists: list[Sequence[float]]
    if source == COLUMN:
        column = captions.columns.get(COLUMN, (None,) * len(captions))
        lists = [_numbers(cell, f"{captions.name}: id {key!r}") for key, cell in zip(captions.ids, column, strict=True)]
    elif (path := _table(source)) is not None:
        stored = _stored(str(path), _digest(path))
        lists = [stored.get(key, ()) for key in captions.ids]
    else:
        values, spoken = np.full(len(candidates.values), np.nan), np.flatnonzero(~candidates.blank)
        if len(spoken):
            values[spoken] = load_detector(source).probabilities([candidates.values[one] for one in spoken.tolist()])
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
def _stored(path: str, content: str) -> Mapping[str, Sequence[float]]:
    """The probabilities of each id in a file with this content."""
    stored: dict[str, Sequence[float]] = {}
    for row in read_rows(path, role="scores"):
        key = get_row_id(row, None, refuse)
        column = next((name for name in NAMES if name in row.fields), None)
        if column is None or key is None:
            raise InputError(f"{row.where}: found columns {', '.join(row.fields)}, expected an id and {COLUMN}")
        if key in stored:
            raise InputError(f"{row.where}: id {key!r} occurs twice, expected each once")
        stored[key] = _numbers(row.fields[column], row.where)
    return stored


def _numbers(cell: Any, where: str) -> list[float]:
    """The probabilities of a cell: a number, or a list with one for each caption; none where it is empty."""
    numbers = []
    for value in cell if isinstance(cell, (list, tuple, np.ndarray)) else () if cell in (None, "") else (cell,):
        try:
            number = parse_number(value) if isinstance(value, str) else math.nan if value is None else float(value)
        except (TypeError, ValueError):
            number = -1.0
        if isinstance(value, bool) or number < 0 or number > 1:
            raise InputError(f"{where}: {COLUMN} is {str(value)[:40]!r}, expected a number from 0 to 1")
        numbers.append(number)
    return numbers
