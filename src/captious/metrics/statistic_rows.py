"""Rows of statistics, one for each item: the result of scoring, joining rows, and rows that many metrics share."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate, chain
from typing import Any

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.columns import EVENT_COLUMN, OBJECT_COLUMN

# Number of ids that a warning lists.
LISTED = 5


@dataclass(frozen=True, eq=False)
class TypeSets:
    """Rows of distinct things, such as a vocabulary: over items they unite instead of adding up."""

    types: tuple[frozenset[Any], ...]
    tokens: Ints

    @property
    def counts(self) -> Floats:
        """Distinct types and total tokens of each item."""
        sizes = np.fromiter(map(len, self.types), dtype=np.float64, count=len(self.types))
        return np.stack([sizes, self.tokens], axis=1)

    @classmethod
    def join(cls, parts: Sequence[TypeSets]) -> TypeSets:
        """Concatenate the rows of several sets."""
        types = tuple(chain.from_iterable(part.types for part in parts))
        return cls(types, np.concatenate([part.tokens for part in parts]))

    def total(self) -> Floats:
        """Return distinct types and total tokens of all items."""
        return np.array([len(frozenset().union(*self.types)), self.tokens.sum()], dtype=np.float64)


# One row of statistics per item. Rows of an array add up over items; NaN marks an item without a value.
Rows = Floats | TypeSets


def join_rows(parts: Sequence[Rows]) -> Rows:
    """Concatenate the rows of the parts of a set."""
    sets = [part for part in parts if isinstance(part, TypeSets)]
    if len(sets) == len(parts):
        return TypeSets.join(sets)
    if sets:
        raise InputError("cannot merge rows of numbers and rows of distinct things")
    return np.concatenate([part for part in parts if isinstance(part, np.ndarray)])


@dataclass(frozen=True, eq=False)
class Scored:
    """The result of scoring the items of a set."""

    rows: Rows
    reasons: Mapping[int, str] = field(default_factory=dict)
    """The reason why an item has no value, by its index."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """Counts for the signature, such as truncated captions. They add up over shards; the names never vary."""
    warnings: Sequence[str] = ()
    """Warnings about the set that a user should read before trusting the numbers."""
    notes: Sequence[str] = ()
    """Remarks on the computation, such as its cost."""

    @classmethod
    def join(cls, parts: Sequence[Scored], sizes: Sequence[int]) -> Scored:
        """Join the parts of one set, given their numbers of items, as if they had been scored together."""
        if len(parts) == 1:
            return parts[0]
        reasons: dict[int, str] = {}
        counts: dict[str, int] = {}
        for part, first in zip(parts, accumulate(sizes, initial=0), strict=False):
            reasons |= {first + index: reason for index, reason in part.reasons.items()}
            for name, number in part.counts.items():
                counts[name] = counts.get(name, 0) + number
        return cls(
            join_rows([part.rows for part in parts]),
            reasons,
            counts,
            list(dict.fromkeys(chain.from_iterable(part.warnings for part in parts))),
            list(chain.from_iterable(part.notes for part in parts)),
        )

    def fill_reasons(self, missing: Mapping[int, str], undefined: str) -> Scored:
        """Add a reason for every item without a value, and a row of NaN for every reason.

        ``missing`` has the reasons of items without the inputs that the metric needs. ``undefined`` is the reason of
        other NaN rows.
        """
        reasons, rows = {**missing, **self.reasons, **missing}, self.rows
        if isinstance(rows, np.ndarray):
            for index in find_nan_rows(rows).tolist():
                reasons.setdefault(index, undefined)
            if reasons:
                rows = rows.copy()
                rows[list(reasons)] = np.nan
        return replace(self, rows=rows, reasons=reasons)


def find_nan_rows(rows: Floats) -> Ints:
    """Return the indices of rows with a NaN."""
    # A single sum shows that there is no NaN, without an array of booleans.
    return np.flatnonzero(np.isnan(rows).any(axis=1)) if np.isnan(rows.sum()) else np.zeros(0, dtype=np.int64)


# The reason of items with a video and no image, for a metric that does not read videos.
ONLY_VIDEO = "no image; videos are not supported"


def find_missing_inputs(captions: CaptionSet, needs: Collection[str], videos: bool = False) -> dict[int, str]:
    """Return a reason for each item without the inputs that a metric needs, by index.

    ``videos`` says whether a video serves as the image.
    """
    missing = {"no candidate caption": captions.candidates.counts == 0}
    if "events" in needs:  # a video without predicted events has the value 0
        no_events = captions.settings.get("events") != "video" or EVENT_COLUMN not in captions.columns
        missing = {"no events": np.full(len(captions), no_events)}
    if "references" in needs:
        missing["no references"] = captions.references.counts == 0
    if "several candidates" in needs:
        missing["one candidate, needs several"] = captions.candidates.counts == 1
    if "objects" in needs:
        objects = captions.columns.get(OBJECT_COLUMN, (None,) * len(captions))
        missing["no objects"] = np.array([value is None for value in objects], dtype=np.bool_)
    if "image" in needs:
        without = np.array([image is None for image in captions.images], dtype=np.bool_)
        if captions.has_videos:
            has_video = np.array([clip is not None for clip in captions.clips], dtype=np.bool_)
            missing[ONLY_VIDEO] = without & has_video & (not videos)
            without &= ~has_video
        missing["no image"] = without
    reasons: dict[int, str] = {}
    for reason, mask in missing.items():
        for index in np.flatnonzero(mask).tolist():
            reasons.setdefault(index, reason)
    return reasons


def candidate_means(captions: CaptionSet, values: Floats, *others: Floats) -> Floats:
    """Return rows of a mean over captions: the sum of an item's values, their number, and the sums of ``others``.

    Values are in the order of the candidates; the row is NaN if one candidate of an item has no value.
    """
    columns = (values, np.ones(len(values)), *others)
    owners = captions.candidates.owners
    return np.stack([np.bincount(owners, weights=one, minlength=len(captions)) for one in columns], axis=1)


def item_means(values: Floats) -> Floats:
    """Return rows of a mean over items: the value and 1."""
    return np.stack([values, np.where(np.isnan(values), np.nan, 1.0)], axis=1)


def give_reason(mask: Bools, reason: str) -> dict[int, str]:
    """Return the reason for each item of a mask, by index."""
    return dict.fromkeys(np.flatnonzero(mask).tolist(), reason)


def find_blank_texts(captions: CaptionSet, references: bool = False, candidates: bool = True) -> dict[int, str]:
    """Return a reason for each item with a blank candidate or, if references are compared, only blank references.

    Without ``candidates`` a blank candidate is no reason: the metric scores it.
    """
    own, others = captions.candidates, captions.references
    reasons = dict.fromkeys(own.owners[own.blank].tolist(), "empty caption") if candidates else {}
    if references:
        number = np.bincount(others.owners[~others.blank], minlength=len(captions))
        reasons = {**give_reason((number == 0) & (others.counts > 0), "all references are empty"), **reasons}
    return reasons


def score_encoded_captions(
    label: str, captions: CaptionSet, values: Floats, reasons: Mapping[int, str], lengths: Ints, limit: int
) -> Scored:
    """Return rows of a mean over captions that an encoder read; count and warn of those longer than its limit."""
    truncated = captions.candidates.owners[lengths > limit].tolist()
    warnings = warn_truncated(label, captions, truncated, limit)
    return Scored(candidate_means(captions, values), reasons, {"truncated": len(truncated)}, warnings)


def warn_truncated(label: str, captions: CaptionSet, items: Sequence[int], limit: int) -> list[str]:
    """Return a warning about truncated captions, given the item of each; an empty list if there are none."""
    if not items:
        return []
    number, are, were = ("1 caption", "is", "was") if len(items) == 1 else (f"{len(items):,} captions", "are", "were")
    ids = format_ids(captions, items)
    return [f"{label}: {number} {are} longer than the encoder's {limit} tokens and {were} truncated (ids {ids})"]


def format_ids(captions: CaptionSet, items: Sequence[int]) -> str:
    """Format the first distinct ids of these items."""
    ids = list(dict.fromkeys(captions.ids[item] for item in items))
    return ", ".join(ids[:LISTED]) + (", …" if len(ids) > LISTED else "")
