"""Rated captions as they are read: one record a caption, and one for each two that were compared."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.measurement import Floats


@dataclass(frozen=True, eq=False)
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
    places: tuple[str, ...] = ()
    """The row of the file that each item came from, for messages."""

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
                where = self.places[item] if self.places else f"{self.name}: item {self.ids[item]!r}"
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
        known = ~np.isnan(self.values)
        number = known.sum(axis=1)
        total = np.where(known, self.values, 0.0).sum(axis=1)
        return np.where(number > 0, total / np.maximum(number, 1), np.nan)


@dataclass(frozen=True, eq=False)
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


def matrix(lists: Sequence[Sequence[float | None]]) -> Floats:
    """Lists of ratings of any lengths as a matrix, NaN where there is none."""
    values = np.full((len(lists), max(map(len, lists), default=0)), np.nan)
    for row, ratings in enumerate(lists):
        values[row, : len(ratings)] = [np.nan if rating is None else rating for rating in ratings]
    return values
