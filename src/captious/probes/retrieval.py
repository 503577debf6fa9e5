"""Retrieval: is the image of a caption, or a caption of an image, among the nearest of all?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass

import numpy as np

from captious._typing import Floats, Ints
from captious._version import __version__
from captious.options import Resampling
from captious.probes.finding import Figure, Finding, Grid, between, called, marks, per_cent, plain_name
from captious.probes.vectors import Pictured, Vectors, own_cosines, products
from captious.report.plot import Mark, intervals
from captious.stats.bootstrap import Estimate
from captious.stats.shares import shares

DEPTHS = (1, 5, 10)
EQUAL = 1e-6
"""Cosines that differ by less are a tie: a product of blocks rounds differently from a product of pairs."""


@dataclass(frozen=True)
class Recall:
    """One direction of one encoder."""

    encoder: str
    direction: str
    queries: int
    gallery: int
    recall: tuple[Estimate, ...]
    """At 1, 5 and 10."""
    median_rank: float


def retrieval(space: Pictured, how: Resampling) -> list[Recall]:
    """Recall both ways; an image is found when one of its captions is.

    Ties are shared out: with e others as near as the right one, the place among them is random. So an encoder that
    gives the same vector to everything reaches chance, not 100.
    """
    own = own_cosines(space).astype(np.float64)
    images = len(space.images)
    best = np.full(images, -np.inf)
    np.maximum.at(best, space.owner, own)
    described = np.flatnonzero(np.isfinite(best))
    alike = np.bincount(space.owner, weights=own >= best[space.owner] - EQUAL, minlength=images)
    every = np.arange(images)
    to_image = placed(space.texts, space.images, own, space.owner, every, np.ones(len(own)))
    number = np.full(images, -1, dtype=np.int64)
    number[described] = np.arange(len(described))
    to_text = placed(
        space.images.take(described),
        space.texts,
        best[described],
        np.arange(len(described)),
        number[space.owner],
        alike[described].astype(np.float64),
    )
    return [
        _recall(space.encoder, "caption → image", to_image, space.owner, images, how),
        _recall(space.encoder, "image → caption", to_text, described, len(space.texts), how),
    ]


@dataclass(frozen=True, eq=False)
class Placed:
    """For each query: what is nearer than the right answer, what is as near, and how many right answers are as near."""

    nearer: Floats
    equal: Floats
    right: Floats

    def found_within(self, depth: int) -> Floats:
        """The probability that a right answer is among the first so many, ties in random order.

        >>> Placed(np.array([0.0, 2.0, 1.0]), np.array([1.0, 0.0, 0.0]), np.ones(3)).found_within(2).tolist()
        [1.0, 0.0, 1.0]
        """
        room = np.maximum(depth - self.nearer, 0.0)
        missed = np.ones(len(room))
        for answer in range(1, int(self.right.max(initial=0)) + 1):
            there = self.right >= answer
            missed[there] *= np.maximum(self.equal[there] - room[there] + answer, 0) / (self.equal[there] + answer)
        result: Floats = np.where(room > self.equal, 1.0, 1 - missed)
        return np.where(room > 0, result, 0.0)

    @property
    def rank(self) -> Floats:
        """The expected rank of the first right answer."""
        return self.nearer + 1 + self.equal / (self.right + 1)


def placed(queries: Vectors, gallery: Vectors, own: Floats, query: Ints, answer: Ints, right: Floats) -> Placed:
    """Count what is nearer than the right answers.

    A gallery entry is a right answer of a query, and not counted, where ``query[q] == answer[g]``.
    """
    nearer, equal = np.zeros(len(queries)), np.zeros(len(queries))
    order = np.argsort(answer, kind="stable")
    ordered = answer[order]
    for start, first, cosines in products(queries, gallery):
        rows, columns = cosines.shape
        mine = query[start : start + rows]
        low, high = np.searchsorted(ordered, mine), np.searchsorted(ordered, mine, side="right")
        number = high - low
        row = np.repeat(np.arange(rows), number)
        column = order[np.repeat(low - (np.cumsum(number) - number), number) + np.arange(int(number.sum()))] - first
        inside = (column >= 0) & (column < columns)
        cosines[row[inside], column[inside]] = -np.inf
        limit = own[start : start + rows, None]
        above = np.count_nonzero(cosines > (limit + EQUAL).astype(np.float32), axis=1)
        nearer[start : start + rows] += above
        equal[start : start + rows] += np.count_nonzero(cosines >= (limit - EQUAL).astype(np.float32), axis=1) - above
    return Placed(nearer, equal, right)


def _recall(encoder: str, direction: str, found: Placed, image: Ints, gallery: int, how: Resampling) -> Recall:
    hits = np.stack([found.found_within(depth) for depth in DEPTHS], axis=1)
    estimates = tuple(shares(hits, np.ones_like(hits), image, how).estimates())
    return Recall(encoder, direction, len(hits), gallery, estimates, float(np.median(found.rank)))


def retrieval_finding(name: str, found: Sequence[Recall], notes: Sequence[str], how: Resampling) -> Finding:
    """One row per encoder and direction."""
    columns = ["encoder", "direction"]
    for depth in DEPTHS:
        columns += [f"R@{depth}", f"{how.level:.0%} interval"]
    rows = tuple(
        (
            called(one.encoder),
            one.direction,
            *(cell for estimate in one.recall for cell in (per_cent(estimate.value), between(estimate))),
            f"{one.median_rank:g}",
            f"{one.queries:,}",
            f"{one.gallery:,}",
        )
        for one in found
    )
    groups = {
        direction: [
            Mark(f"{called(one.encoder)} {direction}", *(100 * end for end in (e.value, e.low, e.high)))
            for one in found
            if one.direction == direction
            for e in one.recall[:1]
        ]
        for direction in dict.fromkeys(one.direction for one in found)
    }
    return Finding(
        f"Retrieval: {plain_name(name)}",
        "Recall at 1, 5 and 10 in per cent: how often the right image, or one of the right captions, is that near.",
        (Grid("Retrieval", (*columns, "median rank", "queries", "among"), rows, 2),),
        (Figure(intervals(groups, "Recall at 1"), "Recall at 1 with its interval over images."),),
        tuple(notes),
        (
            f"retrieval|ties:shared|ci:{how.signature('images')}|captious:{__version__}",
            *marks(one.encoder for one in found),
        ),
        {
            "captious": __version__,
            "name": name,
            "recall": [asdict(one) for one in found],
            "ci": how.signature("images"),
        },
    )
