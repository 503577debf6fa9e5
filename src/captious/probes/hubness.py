"""Hubness: vectors that are among the nearest neighbors of far too many others."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from captious._core.types import Floats, Floats32, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.options import Resampling
from captious.probes.probe import Probe, get_encoder_name, list_encoder_signatures
from captious.probes.vectors import Embedded, Vectors, encode_captions, iterate_cosines, load_encoders
from captious.render import Answer, Cell, Chart, Column, Document, Figure, Series, Table
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.resampling import bootstrap_weights

# Worst hubs listed per encoder and direction.
LISTED = 5
EDGES = (0, 1, 2, 3, 6, 11, 21, 51, 101, 1 << 62)


@dataclass(frozen=True)
class Hubs:
    """N_k, the number of queries that have a gallery entry among their k nearest, and the skewness of N_k."""

    encoder: str
    direction: str
    k: int
    queries: int
    gallery: int
    skewness: Estimate
    most: int
    never: float
    """Share of entries that are near to no query at all."""
    top: tuple[tuple[str, int], ...]
    """The worst hubs and their N_k."""
    spread: tuple[float, ...]
    """Share of entries by N_k, in the bins of `EDGES`."""


@dataclass(frozen=True, repr=False)
class Hubness(Probe):
    """Skewness of the k-occurrences of encoders, both ways, and the worst hubs."""

    rows: Sequence[Hubs]
    notes: Sequence[str] = ()

    def document(self) -> Document:
        """Build a row per encoder and direction, the worst hubs, and the distribution of N_k."""
        k = self.rows[0].k
        skewness = Column(f"skewness of N_{k}", decimals=2, level=self.resampling.level, key="skewness")
        never = Column("never, %", decimals=2, scale=100, key="never")
        bins = [
            str(low) if high - low == 1 else f"{low}–{high - 1}" if high < EDGES[-1] else f">{low - 1}"
            for low, high in pairwise(EDGES)
        ]
        rows: list[list[Value]] = []
        worst: list[tuple[str, str, str, int]] = []
        series: dict[str, list[Series]] = defaultdict(list)
        for row in self.rows:
            name, mean = get_encoder_name(row.encoder), row.k * row.queries / row.gallery
            rows.append([name, row.direction, Cell.of(row.skewness), row.most, mean, row.never])
            worst += [(name, row.direction, entry, times) for entry, times in row.top]
            series[row.direction].append(Series(name, bins, [100 * share for share in row.spread]))
        columns = ("encoder", "direction", skewness, Column("most"), Column("mean", decimals=1), never)
        sections = [
            Table("hubness", "Skewness", columns, rows),
            Table("hubs", "The worst hubs", ("encoder", "direction", "entry", Column(f"N_{k}")), worst),
        ]
        note = f"Share of entries, in percent, by N_{k}."
        charts = [Chart("lines", lines, f"Entries by N_{k}, {name}", note) for name, lines in series.items()]
        return self.build(
            "Hubness",
            f"N_{k} is how often an entry is among the {k} nearest of a query. A skewness far above 0 means that a few "
            "entries, the hubs, are near to almost everything, which spoils retrieval.",
            (*sections, *charts),
            f"hubness(k={k})",
            list_encoder_signatures(row.encoder for row in self.rows),
            self.notes,
            answer=self._answer(skewness),
            hubness=self.rows,
        )

    def _answer(self, column: Column) -> Answer:
        """Return the plain answer: whether a few entries are near to almost everything, by the worst row."""
        row = max(self.rows, key=lambda one: -math.inf if math.isnan(one.skewness.value) else one.skewness.value)
        skewness = Figure(row.skewness, column)
        where = f"{get_encoder_name(row.encoder)}, {row.direction}"
        if not row.skewness.low > 0:
            return [f"No hubs are shown: the largest skewness ({where}) is ", skewness, "."]
        entries = row.direction.partition(" → ")[2]
        return [
            f"There are hubs ({where}): one {entries} is among the {row.k} nearest of {row.most:,} of {row.queries:,} "
            f"queries, where {row.k * row.queries / row.gallery:.1f} would be the mean. The skewness is ",
            skewness,
            ".",
        ]


def probe_hubness(
    captions: CaptionSet,
    encoders: Sequence[str],
    resampling: Resampling = Resampling(),
    *,
    k: int = 10,
    prefix: str = "",
    progress: Callable[[str], None] | None = None,
) -> Hubness:
    """Measure the skewness of k-occurrences of each encoder, both ways, with intervals over images."""
    spaces = [encode_captions(captions, encoder, prefix) for encoder in load_encoders(encoders, progress)]
    rows = [row for space in spaces for row in measure_hubs(space, k, resampling)]
    return Hubness(captions.name, resampling, rows, [note for space in spaces for note in space.notes])


def measure_hubs(space: Embedded, k: int, resampling: Resampling) -> list[Hubs]:
    """Compute k-occurrences both ways; their skewness is 0 if everything is near equally often.

    The bootstrap resamples the entries of the gallery by image; the nearest-neighbor lists are not recomputed.
    """
    to_image = count_occurrences(space.texts, space.images, k)
    to_text = count_occurrences(space.images, space.texts, k)
    images = np.arange(len(space.images))
    rows = []
    for direction, queries, counts, names, cluster in (
        ("caption → image", space.texts, to_image, space.ids, images),
        ("image → caption", space.images, to_text, space.captions, space.owner),
    ):
        worst = np.argsort(-counts, kind="stable")[:LISTED].tolist()
        rows.append(
            Hubs(
                space.encoder,
                direction,
                k,
                len(queries),
                len(counts),
                estimate_skewness(counts, cluster, resampling),
                int(counts.max()),
                float((counts == 0).mean()),
                tuple((names[entry], int(counts[entry])) for entry in worst),
                tuple(float(((counts >= low) & (counts < high)).mean()) for low, high in pairwise(EDGES)),
            )
        )
    return rows


def count_occurrences(queries: Vectors, gallery: Vectors, k: int) -> Ints:
    """Count N_k of every entry of the gallery."""
    if k >= len(gallery):
        raise InputError(
            f"hubness with the {k} nearest of {len(gallery)}: expected fewer than there are; pass a smaller k=..."
        )
    counts = np.zeros(len(gallery), dtype=np.int64)
    values, indices, current = np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int64), -1
    for start, first, cosines in iterate_cosines(queries, gallery):
        if start != current:
            counts += np.bincount(indices.ravel(), minlength=len(gallery))
            values, indices = np.empty((len(cosines), 0), np.float32), np.empty((len(cosines), 0), np.int64)
            current = start
        # Keep the k nearest of all blocks so far: candidates of this block join them, and the best k remain.
        nearest = _find_nearest(cosines, k)
        values = np.concatenate([values, np.take_along_axis(cosines, nearest, 1)], axis=1)
        indices = np.concatenate([indices, nearest + first], axis=1)
        best = _find_nearest(values, k)
        values, indices = np.take_along_axis(values, best, 1), np.take_along_axis(indices, best, 1)
    return counts + np.bincount(indices.ravel(), minlength=len(gallery))


def _find_nearest(cosines: Floats32, k: int) -> Ints:
    """Return the columns of the k largest values of every row, or all columns if there are no more."""
    if cosines.shape[1] <= k:
        return np.broadcast_to(np.arange(cosines.shape[1]), cosines.shape)
    return np.argpartition(cosines, cosines.shape[1] - k, axis=1)[:, -k:]


def estimate_skewness(counts: Ints, cluster: Ints, resampling: Resampling) -> Estimate:
    """Estimate the third standardized moment of the counts.

    >>> round(estimate_skewness(np.array([0, 0, 0, 4]), np.arange(4), Resampling(samples=0)).value, 4)  # 6 / 3^1.5
    1.1547
    """
    powers = np.stack([counts.astype(np.float64) ** power for power in range(4)], axis=1)
    clusters = int(cluster.max()) + 1
    sums = np.stack([np.bincount(cluster, weights=column, minlength=clusters) for column in powers.T], axis=1)
    value = _skewness(sums.sum(axis=0)[None, :])[0]
    draws = [np.zeros(0)]
    if resampling.samples:
        weights = bootstrap_weights(clusters, resampling.samples, resampling.seed)
        draws += [_skewness(block @ sums) for block in weights]
    return Estimate.under(float(value), np.concatenate(draws), resampling, clusters)


def _skewness(sums: Floats) -> Floats:
    mean, second, third = (sums[:, power] / sums[:, 0] for power in (1, 2, 3))
    variance = np.maximum(second - mean**2, 0.0)
    moment = third - 3 * mean * second + 2 * mean**3
    result: Floats = np.divide(moment, variance**1.5, out=np.full_like(mean, np.nan), where=variance > 1e-12)
    return result
