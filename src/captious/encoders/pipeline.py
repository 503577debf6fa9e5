"""Files and texts to vectors, in batches: threads read, decode and prepare images while the device computes.

Texts are encoded longest first, with others of about their length, so that little is computed on padding.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from queue import SimpleQueue
from typing import NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from captious.encoders.decoding import Looked, Reader, Wanted, look
from captious.encoders.encoder import Encoder, Features, Pixels
from captious.encoders.pace import Fetch, Pace
from captious.encoders.pictures import Unreadable
from captious.encoders.runtime import Runtime, current
from captious.encoders.streams import IN_FLIGHT, image_start, on_gpu, text_start

In = TypeVar("In")
Out = TypeVar("Out")
AHEAD = 3
"""Batches of images that may be decoded and waiting."""
MANY_IMAGES, MANY_THREADS = 1000, 4
"""From here on images are decoded in processes of their own, which take a moment to start."""
MOST_TEXTS = 4
"""A batch of short texts may be this many times as large as one of long ones."""


class Picked(NamedTuple):
    """One image file after reading: its place, and what :class:`captious.encoders.decoding.Looked` says of it."""

    place: int
    key: bytes | None
    pixels: Pixels | None
    fault: str | None


class ImageBatch(NamedTuple):
    """What came of some files."""

    picked: list[Picked]
    features: Features
    """One row for each picked image that has pixels."""


class TextBatch(NamedTuple):
    """Vectors of the texts at some places, and how many tokens each has."""

    places: list[int]
    features: Features
    lengths: npt.NDArray[np.int64]


def image_batches(
    encoder: Encoder, paths: Sequence[str], wanted: Callable[[bytes], bool] = lambda key: True
) -> Iterator[ImageBatch]:
    """Read every file and encode those whose content is wanted; ``wanted`` is asked from several threads."""
    runtime = current()
    pace, begin, threads = Pace(runtime.log), image_start(encoder), workers(encoder, runtime)

    def started() -> Iterator[tuple[list[Picked], Fetch]]:
        with _looking(encoder, runtime.upright, threads if len(paths) >= MANY_IMAGES else 1) as look:
            window = max(AHEAD * runtime.batch, threads)
            reading = ahead(lambda item: Picked(item[0], *look(item[1], wanted)), enumerate(paths), threads, window)
            with closing(reading) as picks:
                for picked in _grouped(picks, lambda: min(runtime.batch, pace.most)):
                    pixels = [one.pixels for one in picked if one.pixels is not None]
                    yield picked, pace.start(begin, pixels) if pixels else lambda: _none(encoder)

    done = 0
    for picked, fetch in _behind(started(), IN_FLIGHT if on_gpu(encoder) else 0):
        yield ImageBatch(picked, fetch())
        done += len(picked)
        runtime.progress("images", done, len(paths))


def text_batches(encoder: Encoder, texts: Sequence[str]) -> Iterator[TextBatch]:
    """Encode every text, longest first."""
    runtime = current()
    pace, begin = Pace(runtime.log), text_start(encoder)
    groups = list(_by_length(texts, runtime.batch, encoder.limit))

    def started() -> Iterator[tuple[list[int], Fetch, npt.NDArray[np.int64]]]:
        tokenised = ahead(lambda places: encoder.tokenise([texts[place] for place in places]), groups, 1, 2)
        for places, tokens in zip(groups, tokenised, strict=True):
            yield places, pace.start(begin, tokens.ids), tokens.lengths

    done = 0
    for places, fetch, lengths in _behind(started(), IN_FLIGHT if on_gpu(encoder) else 0):
        yield TextBatch(places, fetch(), lengths)
        done += len(places)
        runtime.progress("texts", done, len(texts))


def encode_images(encoder: Encoder, paths: Sequence[str]) -> Features:
    """Vectors of image files as the model gives them, without cache; an image that does not open is an error."""
    rows = np.zeros((len(paths), encoder.dimension), np.float32)
    for batch in image_batches(encoder, paths):
        for one in batch.picked:
            if one.fault is not None:
                raise Unreadable(one.fault)
        rows[[one.place for one in batch.picked]] = batch.features
    return rows


def encode_texts(encoder: Encoder, texts: Sequence[str]) -> Features:
    """Vectors of texts as the model gives them, without cache."""
    rows = np.zeros((len(texts), encoder.dimension), np.float32)
    for batch in text_batches(encoder, texts):
        rows[batch.places] = batch.features
    return rows


def workers(encoder: Encoder, runtime: Runtime) -> int:
    """Threads that decode: every core where a GPU computes, half of them where the encoder needs the rest."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return runtime.workers or (cores if on_gpu(encoder) else max(1, cores // 2))


def ahead(work: Callable[[In], Out], items: Iterable[In], threads: int, window: int) -> Generator[Out, None, None]:
    """Results in order, computed by threads at most ``window`` items ahead.

    >>> list(ahead(abs, [-1, 2, -3], threads=2, window=2))
    [1, 2, 3]
    """
    waiting: deque[Future[Out]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) > window:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def _behind(items: Iterable[In], distance: int) -> Iterator[In]:
    """The same items, each only once ``distance`` more were taken."""
    waiting: deque[In] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > distance:
            yield waiting.popleft()
    yield from waiting


def _grouped(picks: Iterable[Picked], size: Callable[[], int]) -> Iterator[list[Picked]]:
    """Picks in groups with so many images to encode; groups without stay bounded too."""
    group: list[Picked] = []
    images = 0
    for one in picks:
        group.append(one)
        images += one.pixels is not None
        if images >= size() or len(group) >= 16 * size():
            yield group
            group, images = [], 0
    if group:
        yield group


@contextmanager
def _looking(encoder: Encoder, upright: bool, threads: int) -> Iterator[Callable[[str, Wanted], Looked]]:
    """How threads look at files: each through a process of its own where there are many of both, else by themselves."""
    preparation = getattr(encoder, "preparation", None)
    if threads < MANY_THREADS or preparation is None:
        yield lambda path, wanted: look(path, encoder.prepare, wanted, upright)
        return
    readers = [Reader(preparation, upright) for _ in range(threads)]
    idle: SimpleQueue[Reader] = SimpleQueue()
    for reader in readers:
        idle.put(reader)

    def through(path: str, wanted: Wanted) -> Looked:
        reader = idle.get()
        try:
            return reader(path, wanted)
        finally:
            idle.put(reader)

    try:
        yield through
    finally:
        for reader in readers:
            reader.close()


def _none(encoder: Encoder) -> Features:
    return np.zeros((0, encoder.dimension), np.float32)


def _by_length(texts: Sequence[str], batch: int, limit: int) -> Iterator[list[int]]:
    """Places of texts in batches, longest first; a batch of short texts holds more of them."""
    order = sorted(range(len(texts)), key=lambda place: -len(texts[place]))
    start = 0
    while start < len(order):
        tokens = len(texts[order[start]]) // 3 + 3
        size = batch * max(1, min(MOST_TEXTS, limit // tokens))
        yield order[start : start + size]
        start += size
