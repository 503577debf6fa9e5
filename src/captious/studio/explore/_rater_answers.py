"""Ratings of captions by rater, with aspects, comments and seconds, as ``studio export`` writes them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from captious.io.formats import get_name, read_rows
from captious.study.rating_files import LeftOut, Record, find_aspects, read_rating_rows
from captious.study.recipes import Layout

# Name of the first aspect, whatever its column.
RATING = "rating"


@dataclass(frozen=True)
class CaptionRating:
    """The rating of one caption by one rater."""

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


def read_caption_ratings(source: str | Path) -> tuple[list[CaptionRating], list[str]]:
    """Read every rating of a file, and warnings about rows that cannot be read.

    A row with a list of ratings has those of several people.
    """
    rows = list(read_rows(source, role="ratings"))
    left_out = LeftOut()
    layout = Layout(str(source), aspects=find_aspects(rows))
    records = read_rating_rows(rows, layout, get_name(source), kind="ratings", missing="skip", left_out=left_out)
    return [rating for record in records for rating in _split_by_rater(record)], left_out.warnings


def _split_by_rater(record: Record) -> Iterator[CaptionRating]:
    """Yield one rating per rater of a row; raters without a name are numbered."""
    named = len(record.ratings) == 1 or not all(rater.isdecimal() for rater in record.ratings)
    for rater, value in record.ratings.items():
        aspects = {name: ratings.get(rater) for name, ratings in record.aspects.items()}
        yield CaptionRating(
            record.where,
            record.id or record.image,
            record.image,
            record.system or "",
            record.captions[0] if record.captions else "",
            (rater if named else f"rating {rater}") or "rating 1",
            {name: one for name, one in {RATING: value, **aspects}.items() if one is not None},
            record.comment,
            record.seconds,
        )


def compute_mean_rating(group: Sequence[CaptionRating], aspect: str) -> float:
    """Return the mean rating of an aspect; NaN without ratings."""
    values = [one.values[aspect] for one in group if aspect in one.values]
    return sum(values) / len(values) if values else float("nan")


def compute_rating_gap(group: Sequence[CaptionRating], aspect: str) -> float:
    """Return the largest difference between two raters; NaN with fewer than two ratings."""
    values = [one.values[aspect] for one in group if aspect in one.values]
    return max(values) - min(values) if len(values) > 1 else float("nan")
