"""``captious.study.choose``: which images people should rate next, drawn at random in strata of a metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np

from captious._core.files import refuse_existing, write_atomically
from captious._core.types import Floats, Ints
from captious._version import __version__
from captious.errors import InputError
from captious.options import SEED, Missing, Reading
from captious.render import Column, Document, Result, Table
from captious.render.document import Value
from captious.render.exports import write_jsonl
from captious.stats.correlation import mid_ranks
from captious.stats.drawing import STRATA, allocate, cut_strata, order_randomly, shrink_spreads
from captious.stats.shares import number_clusters
from captious.study.few_ratings._caption_table import CaptionTable, match_captions, read_caption_table
from captious.study.judgments import Ratings, as_ratings
from captious.study.load import load_ratings
from captious.study.rating_files import BATCH, PROBABILITY, STRATUM
from captious.study.recipes import find_recipe_for
from captious.study.study_options import StudyInput

Allocation: TypeAlias = Literal["proportional", "neyman"]


@dataclass(frozen=True)
class DrawnStratum:
    """The numbers of images of one stratum: in total, rated before, and drawn now."""

    name: str
    images: int
    rated: int
    drawn: int
    probability: float
    """The probability of an image of the stratum to be rated, now or before."""


@dataclass(frozen=True, repr=False)
class DrawnItems(Result):
    """Items to rate next, in a random order, each with the probability of its image to be drawn."""

    rows: tuple[dict[str, Any], ...]
    """``id``, ``probability``, ``stratum`` and ``batch`` of each item."""
    strata: tuple[DrawnStratum, ...]
    batch: int
    captions: int
    """Captions of these items, of all systems."""
    using: str
    signature: str
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<DrawnItems: {len(self.rows)} items of batch {self.batch}>"

    def write(self, path: str | Path, overwrite: bool = False) -> None:
        """Write the items as JSONL; a study file takes it as ``ids``."""
        refuse_existing(Path(path), overwrite)
        with write_atomically(path) as draft:
            write_jsonl(draft, self.rows)

    def document(self) -> Document:
        """Build the document: how many are drawn, and the strata."""
        drawn, images = sum(one.drawn for one in self.strata), sum(one.images for one in self.strata)
        how = f"in {len(self.strata)} strata of {self.using}" if len(self.strata) > 1 else "at random"
        answer = f"Rate {drawn:,} of {images:,} images next, drawn {how}: {self.captions:,} captions of all systems."
        columns: list[Column | str] = ["stratum", Column("images"), Column("rated before"), Column("drawn")]
        columns.append(Column("probability", decimals=4))
        rows: list[list[Value]] = [[one.name, one.images, one.rated, one.drawn, one.probability] for one in self.strata]
        table = Table("strata", f"Batch {self.batch}", columns, rows, "probability: to be rated now or before")
        data = {"batch": self.batch, "items": self.rows, "strata": self.strata, "signature": self.signature}
        return Document(
            "What to rate next",
            "",
            [table],
            self.warnings,
            self.remarks,
            (self.signature,),
            data,
            "choose",
            answer=answer,
        )


def choose(
    runs: Any,
    number: int,
    *,
    using: Sequence[str] | str | None = None,
    ratings: Any = None,
    allocation: Allocation = "proportional",
    strata: int = STRATA,
    seed: int = SEED,
    missing: Missing = "error",
) -> DrawnItems:
    """Draw the images that people should rate next, each with the captions of all systems.

    Images are divided into strata by the mean of the auxiliary metrics over their captions. From each stratum the same
    share of images is drawn, or more if its ratings vary more (``allocation="neyman"``, which needs ratings). Do not
    rate the most uncertain captions first instead: estimates of all captions would not be valid.

    Parameters
    ----------
    runs
        All captions, as `estimate` takes them.
    number
        How many images to draw.
    using
        Auxiliary metrics; by default all of the runs. Without any, images are drawn at random from one stratum.
    ratings
        Ratings so far. The images that follow the rated ones are drawn; the seed fixes the order of all.
    allocation
        ``proportional`` to the sizes of the strata, or ``neyman``.
    strata
        How many strata to make.
    seed
        Random seed of the order within strata.
    missing
        Ratings of captions that are not in the runs: ``error``, or ``skip``.

    >>> captions = [{"id": i, "system": s, "length": i} for i in range(20) for s in "ab"]
    >>> drawn = choose(captions, 5)
    >>> [one.drawn for one in drawn.strata], drawn.rows[0]["probability"], drawn.captions
    ([1, 1, 1, 1, 1], 0.25, 10)
    """
    if number < 1:
        raise InputError(f"next={number}, expected a number of images of at least 1")
    table = read_caption_table(runs)
    if table is None:
        raise InputError("no captions; name a run, or a file with a row per caption")
    rated: set[str] = set()
    batch, spreads = 1, None
    judged: Ratings | None = None
    if ratings is not None:
        judged = _read_earlier_ratings(ratings, missing)
        table, matches, _ = match_captions(table, judged, missing)
        rated = {table.images[row] for row, _ in matches}
        batch = 1 + max([1, *(int(cell) for cell in judged.drawn.get(BATCH, ()) if str(cell).isdigit())])
    elif allocation == "neyman":
        raise InputError("allocate=neyman needs ratings so far; pass ratings=...")
    names = table.names_of([using] if isinstance(using, str) else using)
    groups = _group_images(table, names, strata)
    if judged is not None and allocation == "neyman":
        spreads = _estimate_spreads(table, judged, matches, groups)
    before = [sum(name in rated for name in group) for group in groups]
    total = sum(map(len, groups))
    unrated = total - sum(before)
    if number > unrated:
        raise InputError(f"next={number}: expected at most the {unrated:,} images that are not rated yet")
    sizes = allocate_next([len(group) for group in groups], before, number, spreads)
    # The order of a stratum depends on the seed alone, so a later batch continues where this one ends.
    drawn = [
        [name for name in order_randomly(group, seed) if name not in rated][:size]
        for group, size in zip(groups, sizes, strict=True)
    ]
    drawn_strata = tuple(
        DrawnStratum(str(rank), len(group), old, len(new), (old + len(new)) / len(group))
        for rank, (group, old, new) in enumerate(zip(groups, before, drawn, strict=True), start=1)
    )
    labels = " + ".join(table.labels.get(name, name) for name in names)
    drawn_images = {image for images in drawn for image in images}
    is_assumed = judged is not None and PROBABILITY not in judged.drawn
    remarks = ("assumed: the images rated before were drawn at random",) if is_assumed else ()
    signature = f"choose:{len(drawn_images)}/{total}|using:{labels or 'none'}|strata:{len(groups)}|{allocation}"
    return DrawnItems(
        tuple(_list_items(table, drawn, drawn_strata, batch, seed)),
        drawn_strata,
        batch,
        sum(image in drawn_images for image in table.images),
        labels,
        f"{signature}|seed:{seed}|captious:{__version__}",
        table.remarks,
        remarks,
    )


def _read_earlier_ratings(ratings: Any, missing: Missing) -> Ratings:
    if isinstance(ratings, (str, Path)):
        ratings, _ = load_ratings(StudyInput(find_recipe_for(str(ratings))), Reading(missing=missing))
    judged = as_ratings(ratings, missing=missing)
    if not isinstance(judged, Ratings):
        raise InputError(f"{judged.name}: has pairs, expected ratings")
    return judged


def _group_images(table: CaptionTable, names: Sequence[str], strata: int) -> list[list[str]]:
    """Group the images into strata of the metrics' mean, the lowest first; into one stratum without metrics."""
    images = list(dict.fromkeys(table.images))
    # Sorted, so that equal values are divided in the same way whatever the order of the rows.
    images.sort(key=lambda name: (len(name), name))
    value = _average_by_image(table, images, names)
    stratum = cut_strata(value, min(strata, len(images))) if names else np.zeros(len(images), dtype=np.int64)
    groups: list[list[str]] = [[] for _ in range(int(stratum.max()) + 1)]
    for image, number in zip(images, stratum.tolist(), strict=True):
        groups[number].append(image)
    return groups


def _list_items(
    table: CaptionTable, drawn: Sequence[Sequence[str]], strata: Sequence[DrawnStratum], batch: int, seed: int
) -> list[dict[str, Any]]:
    """List the items of the drawn images, one list of images per stratum, in a random order."""
    by_image: dict[str, list[str]] = {}
    for id, image in zip(table.ids, table.images, strict=True):
        if id not in by_image.setdefault(image, []):
            by_image[image].append(id)
    rows: list[dict[str, Any]] = [
        {"id": id, PROBABILITY: stratum.probability, STRATUM: stratum.name, BATCH: batch}
        for stratum, images in zip(strata, drawn, strict=True)
        for image in images
        for id in by_image[image]
    ]
    position = {id: index for index, id in enumerate(order_randomly([row["id"] for row in rows], seed + batch))}
    return sorted(rows, key=lambda row: position[row["id"]])


def allocate_next(
    sizes: Sequence[int], before: Sequence[int], number: int, spreads: Sequence[float] | None = None
) -> list[int]:
    """Divide the next images among strata, so that those rated before and now together are close to their shares.

    >>> allocate_next([10, 10], [3, 0], 5)
    [1, 4]
    """
    if not any(before):
        return allocate(sizes, number, spreads)
    totals = np.array(allocate(sizes, number + sum(before), spreads))
    drawn, unrated = np.zeros(len(sizes), dtype=np.int64), np.array(sizes) - np.array(before)
    # One image at a time, from the stratum that is furthest below its share and has images left.
    for _ in range(number):
        shortfall = np.where(drawn < unrated, totals - np.array(before) - drawn, -np.inf)
        drawn[int(shortfall.argmax())] += 1
    return [int(size) for size in drawn]


def _average_by_image(table: CaptionTable, images: Sequence[str], names: Sequence[str]) -> Floats:
    """Return the mean of the metric over the captions of each image; of several metrics, the mean of their ranks.

    Ranks that fall as those of the first metric rise, such as those of a perplexity, are reversed: they would cancel.
    """
    if not names:
        return np.zeros(len(images))
    position = {name: index for index, name in enumerate(images)}
    owner: Ints = np.array([position[image] for image in table.images], dtype=np.int64)
    columns: list[Floats] = []
    for name in names:
        values = table.values[name]
        filled = np.where(np.isnan(values), np.nanmean(values), values)
        ranks = filled if len(names) == 1 else mid_ranks(filled)
        falls = bool(columns) and float((ranks - ranks.mean()) @ columns[0]) < 0
        columns.append(-ranks if falls else ranks)
    counts = np.bincount(owner, minlength=len(images))
    result: Floats = np.bincount(owner, np.mean(columns, axis=0), minlength=len(images)) / counts
    return result


def _estimate_spreads(
    table: CaptionTable, ratings: Ratings, matches: Sequence[tuple[int, int]], groups: Sequence[Sequence[str]]
) -> list[float]:
    """Return the standard deviation of the images' mean ratings in each stratum, shrunk because they are few."""
    rows = [row for row, _ in matches]
    values = np.array([ratings.mean[item] for _, item in matches])
    images = number_clusters([table.images[row] for row in rows])
    means = np.bincount(images, values) / np.bincount(images)
    first_match = np.unique(images, return_index=True)[1]  # of each image, to look up its name
    stratum_of = {name: number for number, group in enumerate(groups) for name in group}
    stratum = np.array([stratum_of[table.images[rows[match]]] for match in first_match])
    pooled = float(means.std(ddof=1)) if len(means) > 1 else 1.0
    means_by_stratum = [means[stratum == number] for number in range(len(groups))]
    spread = np.array([group.std(ddof=1) if len(group) > 1 else pooled for group in means_by_stratum])
    return [float(value) for value in shrink_spreads(spread)]
