"""Ratings of captions, row by row: values by aspect, comments, seconds; as ``studio export`` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious.io.columns import (
    CANDIDATE_COLUMNS,
    GROUP_COLUMNS,
    IMAGE_COLUMNS,
    ITEM_COLUMNS,
    RATER_COLUMNS,
    RATING_COLUMNS,
    REFERENCE_COLUMNS,
    SYSTEM_COLUMNS,
)
from captious.io.formats import read_rows
from captious.study.records import number, pick

RATING = "rating"
"""What the first aspect is called, whatever its column."""
COMMENT, SECONDS = "comment", "seconds"
_NOT_ASPECTS = {
    *(CANDIDATE_COLUMNS + GROUP_COLUMNS + IMAGE_COLUMNS + ITEM_COLUMNS + RATER_COLUMNS),
    *(RATING_COLUMNS + REFERENCE_COLUMNS + SYSTEM_COLUMNS),
    *(COMMENT, SECONDS, "purpose", "place", "late"),
}


@dataclass(frozen=True)
class CaptionRating:
    """What one rater said of one caption."""

    where: str
    """The row it came from, for messages."""
    id: str
    image: str
    system: str
    caption: str
    rater: str
    values: Mapping[str, float]
    """The rating by aspect; one that was skipped is absent."""
    comment: str = ""
    seconds: float | None = None


def read_caption_ratings(source: str | Path) -> Iterator[CaptionRating]:
    """Every rating of a file; a row with a list of ratings holds those of several people."""
    for row in read_rows(source, role="ratings"):
        fields = {str(name): value for name, value in row.fields.items()}
        column = pick(fields, None, RATING_COLUMNS, row.where, "rating")
        named = {name: _first(fields, columns) for name, columns in _NAMES.items()}
        seconds, comment = number(fields.get(SECONDS), row.where, SECONDS), str(fields.get(COMMENT) or "")
        for rater, values in _by_rater(fields, column, named["rater"], row.where).items():
            who = {**named, "rater": rater}
            yield CaptionRating(row.where, **who, values=values, comment=comment, seconds=seconds)


_NAMES = {
    "id": (*ITEM_COLUMNS, *GROUP_COLUMNS),
    "image": GROUP_COLUMNS,
    "system": SYSTEM_COLUMNS,
    "caption": CANDIDATE_COLUMNS,
    "rater": RATER_COLUMNS,
}


def _first(fields: Mapping[str, Any], columns: Sequence[str]) -> str:
    value = next((fields[name] for name in columns if fields.get(name) not in (None, "")), "")
    return str(value[0]) if isinstance(value, list) and value else str(value)


def _by_rater(fields: Mapping[str, Any], column: str, rater: str, where: str) -> dict[str, dict[str, float]]:
    """Ratings by aspect of everyone who speaks in a row."""
    value = fields[column]
    if isinstance(value, list):
        value = {f"rating {place}": one for place, one in enumerate(value, 1)}
    if isinstance(value, Mapping):
        people = {str(name): {RATING: number(one, where, column)} for name, one in value.items()}
    else:
        named = [name for name in fields if name not in _NOT_ASPECTS and _is_number(fields[name])]
        aspects = {name: number(fields[name], where, name) for name in named}
        people = {rater or "rating 1": {RATING: number(value, where, column), **aspects}}
    return {
        name: {aspect: one for aspect, one in ratings.items() if one is not None} for name, ratings in people.items()
    }


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value == value


def mean_of(group: Sequence[CaptionRating], aspect: str) -> float:
    """The mean of what people said of an aspect; NaN where nobody did."""
    values = [one.values[aspect] for one in group if aspect in one.values]
    return sum(values) / len(values) if values else float("nan")


def gap_of(group: Sequence[CaptionRating], aspect: str) -> float:
    """The largest difference between two people; NaN where fewer than two speak."""
    values = [one.values[aspect] for one in group if aspect in one.values]
    return max(values) - min(values) if len(values) > 1 else float("nan")
