"""Hubness: do a few vectors stand among the nearest of far too many others?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import pairwise

import numpy as np

from captious._typing import Floats, Floats32, Ints
from captious._version import __version__
from captious.errors import InputError
from captious.options import Resampling
from captious.probes.finding import Figure, Finding, Grid, called, marks, per_cent, plain_name
from captious.probes.vectors import Pictured, Vectors, products
from captious.report.plot import lines
from captious.stats.bootstrap import Estimate
from captious.stats.resampling import bootstrap_weights

SHOWN, WIDTH = 5, 90
EDGES = (0, 1, 2, 3, 6, 11, 21, 51, 101, 1 << 62)


@dataclass(frozen=True)
class Hubs:
    """How often each entry of a gallery is among the k nearest of a query, N_k, and how uneven that is."""

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


def hubness(space: Pictured, k: int, how: Resampling) -> list[Hubs]:
    """k-occurrences both ways; their skewness is 0 where everything is near equally often.

    Intervals resample the entries of the gallery by image; who is near whom stays.
    """
    images = np.arange(len(space.images))
    to_image = occurrences(space.texts, space.images, k)
    to_text = occurrences(space.images, space.texts, k)
    return [
        _hubs(space, "caption → image", k, len(space.texts), to_image, space.ids, images, how),
        _hubs(space, "image → caption", k, len(space.images), to_text, space.captions, space.owner, how),
    ]


def occurrences(queries: Vectors, gallery: Vectors, k: int) -> Ints:
    """N_k of every entry of the gallery."""
    if k >= len(gallery):
        raise InputError(f"hubness with the {k} nearest of {len(gallery)}: expected fewer than there are; lower --k")
    counts = np.zeros(len(gallery), dtype=np.int64)
    values, places, at = np.zeros((0, 0), np.float32), np.zeros((0, 0), np.int64), -1
    for start, first, cosines in products(queries, gallery):
        if start != at:
            counts += np.bincount(places.ravel(), minlength=len(gallery))
            values, places = np.empty((len(cosines), 0), np.float32), np.empty((len(cosines), 0), np.int64)
            at = start
        here = _nearest(cosines, k)
        values = np.concatenate([values, np.take_along_axis(cosines, here, 1)], axis=1)
        places = np.concatenate([places, here + first], axis=1)
        best = _nearest(values, k)
        values, places = np.take_along_axis(values, best, 1), np.take_along_axis(places, best, 1)
    return counts + np.bincount(places.ravel(), minlength=len(gallery))


def _nearest(cosines: Floats32, k: int) -> Ints:
    """The columns of the k largest of every row, or all of them where there are no more."""
    if cosines.shape[1] <= k:
        return np.broadcast_to(np.arange(cosines.shape[1]), cosines.shape)
    return np.argpartition(cosines, cosines.shape[1] - k, axis=1)[:, -k:]


def skewness(counts: Ints, cluster: Ints, how: Resampling) -> Estimate:
    """The third standardized moment of the counts.

    >>> round(skewness(np.array([0, 0, 0, 4]), np.arange(4), Resampling(samples=0)).value, 4)  # 6 / 3^1.5
    1.1547
    """
    powers = np.stack([counts.astype(np.float64) ** power for power in range(4)], axis=1)
    clusters = int(cluster.max()) + 1
    sums = np.stack([np.bincount(cluster, weights=column, minlength=clusters) for column in powers.T], axis=1)
    value = _skewness(sums.sum(axis=0)[None, :])[0]
    draws = [np.zeros(0)]
    if how.samples:
        draws += [_skewness(block @ sums) for block in bootstrap_weights(clusters, how.samples, how.seed)]
    return Estimate.of(float(value), np.concatenate(draws), how.level)


def _skewness(sums: Floats) -> Floats:
    mean, second, third = (sums[:, power] / sums[:, 0] for power in (1, 2, 3))
    spread = np.maximum(second - mean**2, 0.0)
    moment = third - 3 * mean * second + 2 * mean**3
    result: Floats = np.divide(moment, spread**1.5, out=np.full_like(mean, np.nan), where=spread > 1e-12)
    return result


def _hubs(
    space: Pictured,
    direction: str,
    k: int,
    queries: int,
    counts: Ints,
    names: Sequence[str],
    cluster: Ints,
    how: Resampling,
) -> Hubs:
    order = np.argsort(-counts, kind="stable")[:SHOWN]
    return Hubs(
        space.encoder,
        direction,
        k,
        queries,
        len(counts),
        skewness(counts, cluster, how),
        int(counts.max()),
        float((counts == 0).mean()),
        tuple((names[place], int(counts[place])) for place in order.tolist()),
        tuple(float(((counts >= low) & (counts < high)).mean()) for low, high in pairwise(EDGES)),
    )


def hubness_finding(name: str, found: Sequence[Hubs], notes: Sequence[str], how: Resampling) -> Finding:
    """One row per encoder and direction, and the worst hubs."""
    rows = tuple(
        (
            called(one.encoder),
            one.direction,
            f"{one.skewness.value:.2f}",
            "—" if one.skewness.low != one.skewness.low else f"{one.skewness.low:.2f} – {one.skewness.high:.2f}",
            f"{one.most:,}",
            f"{one.k * one.queries / one.gallery:.1f}",
            per_cent(one.never),
        )
        for one in found
    )
    worst = tuple(
        (called(one.encoder), one.direction, text if len(text) <= WIDTH else text[: WIDTH - 1] + "…", f"{times:,}")
        for one in found
        for text, times in one.top
    )
    k = found[0].k
    bins = [
        str(low) if high - low == 1 else f"{low}–{high - 1}" if high < EDGES[-1] else f">{low - 1}"
        for low, high in pairwise(EDGES)
    ]
    series = {f"{called(one.encoder)}, {one.direction}": [100 * share for share in one.spread] for one in found}
    columns = ("encoder", "direction", f"skewness of N_{k}", f"{how.level:.0%} interval", "most", "mean", "never, %")
    return Finding(
        f"Hubness: {plain_name(name)}",
        f"N_{k} is how often an entry is among the {k} nearest of a query. A skewness far above 0 means that a few "
        "entries, the hubs, are near to almost everything, which spoils retrieval.",
        (
            Grid("Hubness", columns, rows, 2),
            Grid("The worst hubs", ("encoder", "direction", "entry", f"N_{k}"), worst, 3),
        ),
        (Figure(lines(series, bins, f"Entries by N_{k}"), f"Share of entries, in per cent, by N_{k}."),),
        tuple(notes),
        (f"hubness(k={k})|ci:{how.signature('images')}|captious:{__version__}", *marks(one.encoder for one in found)),
        {
            "captious": __version__,
            "name": name,
            "hubness": [asdict(one) for one in found],
            "ci": how.signature("images"),
        },
    )
