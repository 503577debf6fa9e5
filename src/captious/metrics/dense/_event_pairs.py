"""Events of videos as arrays, their overlap in time, and the distinct pairs of sentences that metrics compare."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain
from typing import Any, ClassVar

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.io.columns import EVENT_COLUMN, REFERENCE_EVENT_COLUMN, REFERENCE_FILE_COLUMN
from captious.metrics.contract import Metric
from captious.stats import compute_iou
from captious.text.ngram_tables import run_indices

_NOT_ASCII = re.compile(r"[^\x00-\x7f]")


class EventMetric(Metric):
    """A metric of dense captions; an item is a video with its predicted and its reference events."""

    languages: ClassVar[tuple[str, ...]] = ("en",)
    undefined_reason: ClassVar[str] = "no references in this file"
    undefined_by_caption: ClassVar[bool] = False

    def _choose_files(self, captions: CaptionSet, files: str, joint: Sequence[str]) -> list[int | None]:
        """Return the files of references whose values are averaged; None is one value for all files together.

        ``joint`` are the words of the parameter ``files`` that put all files together.
        """
        number = count_files(captions)
        if files in joint:
            return [None]
        if files == "each":
            return list(range(number))
        if int(files) > number:
            raise InputError(f"{self}: there {'is' if number == 1 else 'are'} {number} file(s) of references")
        return [int(files) - 1]


def check_files(name: str, files: str, words: Sequence[str]) -> None:
    """Raise InputError if ``files`` is neither one of these words nor the number of a file."""
    if files not in words and not re.fullmatch(r"[1-9]\d{0,3}", files):
        raise InputError(f"{name}(files={files}): expected {', '.join(words)}, or the number of a file from 1")


def count_files(captions: CaptionSet) -> int:
    """Return the number of files of references, whose names the settings join with +."""
    return captions.settings.get("files", "").count("+") + 1


def format_time(seconds: float) -> str:
    """Format a time of a video.

    >>> format_time(75.25), format_time(9)
    ('1:15.2', '0:09')
    """
    minutes, rest = divmod(round(seconds, 1), 60)
    return f"{int(minutes)}:{rest:04.1f}".removesuffix(".0")


@dataclass(frozen=True, eq=False)
class Events:
    """Events of one side: their times, their sentences, and the video of each."""

    times: Floats
    """Start and end of each event."""
    texts: Sequence[str]
    owners: Ints
    items: int

    @cached_property
    def counts(self) -> Ints:
        """The number of events of each video."""
        return np.bincount(self.owners, minlength=self.items)

    @cached_property
    def first(self) -> Ints:
        """The first event of each video."""
        return np.cumsum(self.counts) - self.counts

    @classmethod
    def of(cls, captions: CaptionSet, texts: Ragged, column: str) -> Events:
        """Read the times of all sentences of a side."""
        cells = captions.columns.get(column, ())
        lengths = [len(times or ()) for times in cells]
        if lengths != texts.counts.tolist():
            raise InputError(f"{captions.name}: column {column!r} does not have a start and an end for each sentence")
        times = np.array(list(chain.from_iterable(chain.from_iterable(one or () for one in cells))), dtype=np.float64)
        return cls(times.reshape(-1, 2), texts.values, texts.owners, len(captions))

    def take(self, indices: Ints) -> Events:
        """Return the events at these indices, in this order."""
        texts = [self.texts[index] for index in indices.tolist()]
        return Events(self.times[indices], texts, self.owners[indices], self.items)

    def take_first(self, most: int) -> Events:
        """Return the first events of each video in the order of its file."""
        if not len(self.counts) or self.counts.max() <= most:
            return self
        return self.take(np.flatnonzero(np.arange(len(self.owners)) - self.first[self.owners] < most))

    def sort(self) -> Events:
        """Return the events of each video in the order of their start; equal starts keep the order of the file."""
        return self.take(np.lexsort((self.times[:, 0], self.owners)))


@dataclass(frozen=True, eq=False)
class EventPairs:
    """Predicted and reference events, and all pairs of both within a video.

    With two predicted events p0 and p1 of a video and three reference events r0, r1, r2::

        left    p0 p0 p0 p1 p1 p1        pairs of the next video follow
        right   r0 r1 r2 r0 r1 r2
    """

    predicted: Events
    references: Events
    files: Ints
    """The file of each reference event."""

    @classmethod
    def of(cls, captions: CaptionSet, file: int | None = None, most: int = 0, sort: bool = False) -> EventPairs:
        """Pair the events of all videos.

        ``file`` restricts the references to one file, ``most`` the predictions to the first ones of each video, and
        ``sort`` sorts both by their start.
        """
        predicted = Events.of(captions, captions.candidates, EVENT_COLUMN)
        references = Events.of(captions, captions.references, REFERENCE_EVENT_COLUMN)
        files = np.fromiter(
            chain.from_iterable(one or () for one in captions.columns.get(REFERENCE_FILE_COLUMN, ())), np.int64
        )
        if len(files) != len(references.texts):  # no such column: there is one file
            files = np.zeros(len(references.texts), dtype=np.int64)
        if file is not None:
            kept = np.flatnonzero(files == file)
            references, files = references.take(kept), files[kept]
        if most:
            predicted = predicted.take_first(most)
        if sort:
            order = np.lexsort((references.times[:, 0], references.owners))
            predicted, references, files = predicted.sort(), references.take(order), files[order]
        return cls(predicted, references, files)

    @cached_property
    def left(self) -> Ints:
        """The predicted event of each pair."""
        return np.repeat(np.arange(len(self.predicted.owners)), self.references.counts[self.predicted.owners])

    @cached_property
    def right(self) -> Ints:
        """The reference event of each pair."""
        owners = self.predicted.owners
        return run_indices(self.references.first[owners], self.references.counts[owners])

    @cached_property
    def iou(self) -> Floats:
        """The overlap of each pair in time."""
        predicted, reference = self.predicted.times[self.left], self.references.times[self.right]
        return compute_iou(predicted[:, 0], predicted[:, 1], reference[:, 0], reference[:, 1])

    @property
    def has_references(self) -> Bools:
        """Whether each video has a reference event."""
        return self.references.counts > 0


def clean_sentence(text: str) -> str:
    """Return a sentence with a space for each character that is not ASCII, as densevid_eval does."""
    return text if text.isascii() else _NOT_ASCII.sub(" ", text)


@dataclass(frozen=True, eq=False)
class TextPairs:
    """Distinct pairs of sentences as a set of captions, one item for each."""

    captions: CaptionSet
    numbers: Ints
    """The item of each pair that was passed to `of`."""

    @classmethod
    def of(cls, candidates: Sequence[str], references: Sequence[str], left: Ints, right: Ints) -> TextPairs:
        """Collect the distinct pairs, given indices into the sentences of both sides."""
        index: dict[str, int] = {}
        candidate = np.array(
            [index.setdefault(clean_sentence(text), len(index)) for text in candidates], dtype=np.int64
        )
        reference = np.array(
            [index.setdefault(clean_sentence(text), len(index)) for text in references], dtype=np.int64
        )
        # A pair is one number, candidate · size + reference, because np.unique is fast on numbers.
        size = max(len(index), 1)
        keys, numbers = np.unique(candidate[left] * size + reference[right], return_inverse=True)
        texts = list(index)
        pairs = make_pairs(
            [texts[number] for number in (keys // size).tolist()], [texts[number] for number in (keys % size).tolist()]
        )
        return cls(pairs, numbers)

    def exchange(self) -> TextPairs:
        """Return the pairs with candidate and reference exchanged."""
        captions = self.captions
        return replace(self, captions=make_pairs(captions.references.values, captions.candidates.values))


def make_pairs(candidates: Sequence[str], references: Sequence[str]) -> CaptionSet:
    """Return a set of captions with one candidate and one reference for each item."""
    number = len(candidates)
    offsets = np.arange(number + 1)
    ids = tuple(map(str, range(number)))
    return CaptionSet(ids, Ragged(tuple(candidates), offsets), Ragged(tuple(references), offsets), name="pairs")


def sum_by(owners: Ints, rows: Floats, items: int) -> Floats:
    """Sum the rows of each owner."""
    return np.stack([np.bincount(owners, weights=column, minlength=items) for column in rows.T], axis=1)


def average_files(rows: Floats, files: int) -> tuple[Floats, Floats]:
    """Return the means of the columns of each file, and its number of videos; the means of no video are NaN.

    ``rows`` have the same number of columns for each file: sums over videos, and in the last column their number.
    """
    parts = rows.reshape(*rows.shape[:-1], files, rows.shape[-1] // files)
    with np.errstate(invalid="ignore", divide="ignore"):
        means: Floats = parts[..., :-1] / parts[..., -1:]
    return means, parts[..., -1]


def mean_of_files(values: Floats) -> Floats:
    """Return the mean over files, the last axis, without those that are NaN because they have no video."""
    present = ~np.isnan(values)
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = np.where(present, values, 0.0).sum(axis=-1) / present.sum(axis=-1)
    return result


def merge_settings(settings: Mapping[str, str], *others: Mapping[str, Any]) -> dict[str, str]:
    """Return settings with those of inner metrics added; the first one with a name wins."""
    merged = dict(settings)
    for other in others:
        for name, value in other.items():
            merged.setdefault(name, str(value))
    return merged
