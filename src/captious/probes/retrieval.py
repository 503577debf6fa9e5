"""Retrieval: whether the image of a caption, or a caption of an image, is among the nearest."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.options import Resampling
from captious.probes.probe import SENTENCES, Labeled, Probe, draw_forest, get_encoder_name, list_encoder_signatures
from captious.probes.vectors import (
    Embedded,
    Vectors,
    compute_own_cosines,
    encode_captions,
    iterate_cosines,
    load_encoders,
)
from captious.render import Answer, Cell, Column, Document, Figure, Table
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.shares import compute_shares

DEPTHS = (1, 5, 10)
# Cosines that differ by less are a tie: a product of blocks rounds differently from a product of pairs.
EQUAL = 1e-6


@dataclass(frozen=True)
class Recall:
    """The recall of one encoder in one direction."""

    encoder: str
    direction: str
    queries: int
    gallery: int
    recall: tuple[Estimate, ...]
    """Recall at 1, 5 and 10."""
    median_rank: float


@dataclass(frozen=True, repr=False)
class Retrieval(Probe):
    """Recall of encoders, from captions to images and from images to captions."""

    rows: Sequence[Recall]
    notes: Sequence[str] = ()

    def document(self) -> Document:
        """Build a row per encoder and direction."""
        rows: list[list[Value]] = []
        groups: dict[str, list[Labeled]] = defaultdict(list)
        for row in self.rows:
            name = get_encoder_name(row.encoder)
            rows.append([name, row.direction, *map(Cell.of, row.recall), row.median_rank, row.queries, row.gallery])
            groups[row.direction].append((f"{name} {row.direction}", row.recall[0]))
        recall = [self.percent(f"R@{depth}") for depth in DEPTHS]
        numbers = [Column("median rank", decimals=None), Column("queries"), Column("among")]
        table = Table("retrieval", "Recall in percent", ("encoder", "direction", *recall, *numbers), rows)
        return self.build(
            "Retrieval",
            "Recall at 1, 5 and 10 in percent: how often the right image, or one of the right captions, is that near.",
            (table, draw_forest("Recall at 1", groups, "Recall at 1 with its interval over images.")),
            "retrieval|ties:shared",
            list_encoder_signatures(row.encoder for row in self.rows),
            self.notes,
            answer=self._answer(),
            recall=self.rows,
        )

    def _answer(self) -> Answer:
        """Return the plain answer: how often each encoder finds the right image first, and the right caption."""
        parts: list[str | Figure] = []
        for name in list(dict.fromkeys(row.encoder for row in self.rows))[:SENTENCES]:
            own = [row for row in self.rows if row.encoder == name]
            parts.append(get_encoder_name(name))
            for index, row in enumerate(own):
                query, _, entry = row.direction.partition(" → ")
                verb = " finds" if not index else ", and"
                parts += [
                    f"{verb} the right {entry} first for ",
                    self.share(row.recall[0]),
                    f" of {row.queries:,} {query}s",
                ]
            parts.append(". ")
        return parts


def probe_retrieval(
    captions: CaptionSet,
    encoders: Sequence[str],
    resampling: Resampling = Resampling(),
    *,
    prefix: str = "",
    progress: Callable[[str], None] | None = None,
) -> Retrieval:
    """Compute the recall at 1, 5 and 10 of each encoder, both ways, with intervals over images.

    ``captions`` has one or more candidates per image. ``prefix`` is put before every caption.
    """
    spaces = [encode_captions(captions, encoder, prefix) for encoder in load_encoders(encoders, progress)]
    rows = [row for space in spaces for row in measure_recalls(space, resampling)]
    return Retrieval(captions.name, resampling, rows, [note for space in spaces for note in space.notes])


def measure_recalls(space: Embedded, resampling: Resampling) -> list[Recall]:
    """Compute the recall both ways, with intervals over images."""
    to_image, to_text = rank_both_ways(space.images, space.texts, space.owner)
    described = np.unique(space.owner)
    return [
        _measure_recall(space.encoder, "caption → image", to_image, space.owner, len(space.images), resampling),
        _measure_recall(space.encoder, "image → caption", to_text, described, len(space.texts), resampling),
    ]


@dataclass(frozen=True, eq=False)
class Ranks:
    """The ranks of queries.

    Each query has entries nearer than the right answer, entries as near, and right answers as near as the best.
    """

    nearer: Floats
    equal: Floats
    right: Floats

    def hits(self, depth: int) -> Floats:
        """Compute the probability that a right answer is among the nearest ``depth``, with ties in random order.

        >>> Ranks(np.array([0.0, 2.0, 1.0]), np.array([1.0, 0.0, 0.0]), np.ones(3)).hits(2).tolist()
        [1.0, 0.0, 1.0]
        """
        room = np.maximum(depth - self.nearer, 0.0)
        missed = np.ones(len(room))
        for answer in range(1, int(self.right.max(initial=0)) + 1):
            tied = self.right >= answer
            # Probability that all right answers miss the remaining places, which tied entries fill in random order.
            missed[tied] *= np.maximum(self.equal[tied] - room[tied] + answer, 0) / (self.equal[tied] + answer)
        probability: Floats = np.where(room > self.equal, 1.0, 1 - missed)
        return np.where(room > 0, probability, 0.0)

    @property
    def expected(self) -> Floats:
        """The expected rank of the first right answer."""
        return self.nearer + 1 + self.equal / (self.right + 1)


def rank_both_ways(images: Vectors, texts: Vectors, owner: Ints) -> tuple[Ranks, Ranks]:
    """Rank the image of each text, and the nearest text of each image that has one.

    ``owner`` is the image of each text. Ties are broken at random: with e others as near as the right one, every order
    among them is equally likely. So an encoder that gives the same vector to everything reaches chance, not 100.
    """
    own = compute_own_cosines(images, texts, owner).astype(np.float64)
    described, number = np.unique(owner, return_inverse=True)
    best = np.full(len(described), -np.inf)
    np.maximum.at(best, number, own)
    tied = np.bincount(number, weights=own >= best[number] - EQUAL).astype(np.float64)
    return (
        count_nearer(texts, images, own, owner, np.arange(len(images)), np.ones(len(own))),
        count_nearer(images.take(described), texts, best, np.arange(len(described)), number, tied),
    )


def count_nearer(queries: Vectors, gallery: Vectors, own: Floats, query: Ints, answer: Ints, right: Floats) -> Ranks:
    """Count the entries that are nearer to a query than its right answers.

    A gallery entry is a right answer of a query, and not counted, where ``query[q] == answer[g]``.
    """
    nearer, equal = np.zeros(len(queries)), np.zeros(len(queries))
    order = np.argsort(answer, kind="stable")
    ordered = answer[order]
    for start, first, cosines in iterate_cosines(queries, gallery):
        rows, columns = cosines.shape
        mine = query[start : start + rows]
        low, high = np.searchsorted(ordered, mine), np.searchsorted(ordered, mine, side="right")
        number = high - low
        row = np.repeat(np.arange(rows), number)
        # Columns of the right answers of each query, which are one run of `ordered`; -inf excludes them from the count.
        column = order[np.repeat(low - (np.cumsum(number) - number), number) + np.arange(int(number.sum()))] - first
        inside = (column >= 0) & (column < columns)
        cosines[row[inside], column[inside]] = -np.inf
        limit = own[start : start + rows, None]
        above = np.count_nonzero(cosines > (limit + EQUAL).astype(np.float32), axis=1)
        nearer[start : start + rows] += above
        equal[start : start + rows] += np.count_nonzero(cosines >= (limit - EQUAL).astype(np.float32), axis=1) - above
    return Ranks(nearer, equal, right)


def _measure_recall(
    encoder: str, direction: str, ranks: Ranks, image: Ints, gallery: int, resampling: Resampling
) -> Recall:
    hits = np.stack([ranks.hits(depth) for depth in DEPTHS], axis=1)
    estimates = tuple(compute_shares(hits, np.ones_like(hits), image, resampling).estimates())
    return Recall(encoder, direction, len(hits), gallery, estimates, float(np.median(ranks.expected)))
