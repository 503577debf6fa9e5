"""The pipeline from files and texts to features: decoding ahead, batches that fit into memory, a busy GPU.

Threads decode images and tokenize texts while the encoder computes (`captious.models.decoding` reads the files). A GPU
also resizes the images and has two batches in flight (`captious.models._gpu` explains it).
If memory runs out, the batch is halved and stays so::

    paths ── threads decode ahead ──▶ groups of pixels ── begin ──▶ in flight ── fetch ──▶ ImageBatch
    texts ── tokenized, longest first ──▶ token ids ───── begin ──▶ in flight ── fetch ──▶ TextBatch
"""

from __future__ import annotations

import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from captious._core.types import Ints
from captious.captions import ImageSource
from captious.engines.processes import count_cores
from captious.errors import InputError, format_one_line, require
from captious.models._gpu.preparation import GpuPreparation, is_on_gpu, make_gpu_preparation
from captious.models._gpu.transfers import launch, send
from captious.models.decoding import SENT, DecodedImage, Wanted, accept_all, open_decoder
from captious.models.encoder import Encoder, Features, TextEncoder
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    import torch


# Waits for a batch and returns its vectors.
Fetch = Callable[[], Features]
# Starts a batch; on a GPU it returns before the batch is done.
Start = Callable[[Any], Fetch]


@dataclass
class OomBackoff:
    """Largest batch that fits into memory; unlimited at first, halved when memory runs out."""

    log: Callable[[str], None]
    largest: int = sys.maxsize

    def start(self, begin: Start, items: Sequence[Any] | npt.NDArray[Any]) -> Fetch:
        """Start a batch, in parts if memory runs out."""
        if len(items) <= self.largest:
            try:
                return begin(items)
            except (RuntimeError, MemoryError) as error:
                if not is_out_of_memory(error):
                    raise
                if len(items) == 1:
                    line = format_one_line(error, 120)
                    raise InputError(f"even a batch of 1 does not fit into memory ({line})") from None
            # Outside the handler: the error's traceback keeps the batch's memory alive.
            self.largest = len(items) // 2
            self.log(f"out of memory with a batch of {len(items)}: going on with {self.largest}")
            _free_gpu_memory()
        step = self.largest  # a part may lower it further
        parts = [self.start(begin, items[at : at + step]) for at in range(0, len(items), step)]
        return lambda: np.concatenate([fetch() for fetch in parts])


def is_out_of_memory(error: BaseException) -> bool:
    """Return True if an error means that memory ran out, on any device.

    >>> is_out_of_memory(RuntimeError("CUDA error: out of memory")), is_out_of_memory(RuntimeError("shape mismatch"))
    (True, False)
    """
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text


def _free_gpu_memory() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


# Batches in flight on a GPU.
IN_FLIGHT = 2


def make_image_start(encoder: Encoder, preparation: GpuPreparation | None = None) -> Start:
    """Return a function that starts a batch of images, a list of arrays; with ``preparation`` of any size."""
    if not is_on_gpu(encoder):
        return lambda pixels: _wrap_features(encoder.image_features(np.stack(pixels)))
    torch_encoder: Any = encoder
    device = require("torch", "clip").device(torch_encoder.device)

    def encode(images: Sequence[Any]) -> torch.Tensor:
        squares, broken = preparation.make_squares(images) if preparation else (send(images, device), [])
        features: torch.Tensor = torch_encoder.image_tensor(torch_encoder.pixels_to_tensor(squares))
        if broken:
            features[broken] = np.nan
        return features

    return lambda images: launch(lambda: encode(images))


def make_text_start(encoder: TextEncoder) -> Start:
    """Return a function that starts a batch of token ids."""
    if is_on_gpu(encoder):
        torch_encoder: Any = encoder
        device = require("torch", "clip").device(torch_encoder.device)
        return lambda ids: launch(lambda: torch_encoder.text_tensor(send(ids, device)))
    return lambda ids: _wrap_features(encoder.text_features(ids))


def _wrap_features(features: Features) -> Fetch:
    return lambda: features


In = TypeVar("In")
Out = TypeVar("Out")
# Batches of images that are decoded ahead.
AHEAD = 3
# The same if a GPU resizes them: whole images take six times as much memory.
AHEAD_FOR_GPU = 1
# Images per task of a thread, in large runs.
RUN = 8
# From this number of images on, processes decode them, which take a moment to start.
MANY_IMAGES = 1000
# Threads or processes that read files for a GPU that decodes them.
READERS = 4
# Largest ratio of a batch of short texts to one of long texts.
MOST_TEXTS = 4


class ImageBatch(NamedTuple):
    """Features of a batch of image files."""

    indices: list[int]
    """Indices of the files."""
    images: list[DecodedImage]
    features: Features
    """One row for each image that has pixels."""


class TextBatch(NamedTuple):
    """Vectors of a batch of texts, and their token counts."""

    indices: list[int]
    """Indices of the texts."""
    features: Features
    lengths: Ints


def encode_image_batches(
    encoder: Encoder, paths: Sequence[ImageSource], wanted: Wanted = accept_all
) -> Iterator[ImageBatch]:
    """Read every image and encode those whose content is wanted; ``wanted`` is called from several threads."""
    runtime = get_runtime()
    backoff, on_device = OomBackoff(runtime.log), make_gpu_preparation(encoder, runtime.decode)
    begin = make_image_start(encoder, on_device)

    def decode_groups() -> Generator[tuple[list[DecodedImage], list[Any]], None, None]:
        """Yield images and the pixels to encode."""
        with closing(_decode_ahead(encoder, paths, wanted, on_device)) as images:
            for group in _group_images(images, lambda: min(runtime.batch, backoff.largest)):
                pixels = [image.pixels for image in group if image.pixels is not None]
                yield [image if image.pixels is None else image._replace(pixels=SENT) for image in group], pixels

    def begin_batches() -> Iterator[tuple[list[DecodedImage], Fetch]]:
        with closing(decode_groups()) as read:
            decode = on_device.decode_group if on_device and runtime.decode == "fast" else None
            for images, pixels in map_ahead(decode, read, 1, 1) if decode else read:
                yield images, backoff.start(begin, pixels) if pixels else lambda: _make_empty(encoder)

    done = 0
    for images, fetch in _delay_items(begin_batches(), IN_FLIGHT if is_on_gpu(encoder) else 0):
        yield ImageBatch(list(range(done, done + len(images))), images, fetch())
        done += len(images)
        runtime.progress("images", done, len(paths))


def _decode_ahead(
    encoder: Encoder, paths: Sequence[ImageSource], wanted: Wanted, on_device: GpuPreparation | None
) -> Generator[DecodedImage, None, None]:
    """Yield images in the order of their paths, decoded ahead by threads or processes."""
    runtime = get_runtime()
    threads, many = count_workers(encoder, runtime), len(paths) >= MANY_IMAGES
    run = RUN if many else 1
    window = max((AHEAD_FOR_GPU if on_device else AHEAD) * runtime.batch // run, threads)
    decoder = (
        open_decoder(
            encoder,
            runtime.upright,
            threads if many else 1,
            on_device.decode_only,
            keep_jpeg=runtime.decode == "fast",
            keep=on_device.keep,
        )
        if on_device
        else open_decoder(encoder, runtime.upright, threads if many else 1)
    )
    with decoder as decode_files:

        def read(start: int) -> list[DecodedImage]:
            return decode_files(paths[start : start + run], wanted)

        with closing(map_ahead(read, range(0, len(paths), run), threads, window)) as runs:
            for images in runs:
                yield from images


def encode_text_batches(encoder: TextEncoder, texts: Sequence[str]) -> Iterator[TextBatch]:
    """Encode every text, longest first."""
    runtime = get_runtime()
    backoff, begin = OomBackoff(runtime.log), make_text_start(encoder)
    groups = list(_group_by_length(texts, runtime.batch, encoder.limit))

    def begin_batches() -> Iterator[tuple[list[int], Fetch, Ints]]:
        tokenized = map_ahead(lambda indices: encoder.tokenize([texts[index] for index in indices]), groups, 1, 2)
        for indices, tokens in zip(groups, tokenized, strict=True):
            yield indices, backoff.start(begin, tokens.ids), tokens.lengths

    done = 0
    for indices, fetch, lengths in _delay_items(begin_batches(), IN_FLIGHT if is_on_gpu(encoder) else 0):
        yield TextBatch(indices, fetch(), lengths)
        done += len(indices)
        runtime.progress("texts", done, len(texts))


def count_workers(encoder: Encoder, runtime: Runtime) -> int:
    """Return the number of threads that decode.

    With a GPU, one per core; a few if the GPU decodes too, because more would compete for Python's global lock with the
    thread that feeds it. On a CPU half of the cores, because the encoder needs the rest.
    """
    if runtime.workers:
        return runtime.workers
    if runtime.decode == "fast":
        return min(READERS, count_cores())
    return count_cores() if is_on_gpu(encoder) else max(1, count_cores() // 2)


def map_ahead(work: Callable[[In], Out], items: Iterable[In], threads: int, window: int) -> Generator[Out, None, None]:
    """Yield results in order, computed by threads at most ``window`` items ahead.

    >>> list(map_ahead(abs, [-1, 2, -3], threads=2, window=2))
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


def _delay_items(items: Iterable[In], distance: int) -> Iterator[In]:
    """Yield the same items, each after ``distance`` more were taken."""
    waiting: deque[In] = deque()
    for item in items:
        waiting.append(item)
        if len(waiting) > distance:
            yield waiting.popleft()
    yield from waiting


def _group_images(images: Iterable[DecodedImage], size: Callable[[], int]) -> Iterator[list[DecodedImage]]:
    """Yield groups with ``size()`` images to encode; groups with few images to encode are bounded too."""
    group: list[DecodedImage] = []
    count = 0
    for image in images:
        group.append(image)
        count += image.pixels is not None
        if count >= size() or len(group) >= 16 * size():
            yield group
            group, count = [], 0
    if group:
        yield group


def _make_empty(encoder: Encoder) -> Features:
    return np.zeros((0, encoder.dimension), np.float32)


def _group_by_length(texts: Sequence[str], batch: int, limit: int) -> Iterator[list[int]]:
    """Yield indices of texts in batches, longest first; a batch of short texts is larger."""
    order = sorted(range(len(texts)), key=lambda index: -len(texts[index]))
    start = 0
    while start < len(order):
        # About three characters per token; the batch grows as its longest text shrinks.
        tokens = len(texts[order[start]]) // 3 + 3
        size = batch * max(1, min(MOST_TEXTS, limit // tokens))
        yield order[start : start + size]
        start += size
