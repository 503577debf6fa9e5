"""Batches that fit: where memory runs out, the batch is halved and stays so."""

from __future__ import annotations

import io
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from captious._typing import Ints
from captious.errors import InputError, require
from captious.io.images import Unreadable, decode_picture, read_picture
from captious.models._segments import key_of
from captious.models.encoder import Encoder, Features, Pixels
from captious.options import Runtime, current

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


Fetch = Callable[[], Features]
"""Waits for a batch and gives its vectors."""
Start = Callable[[Any], Fetch]
"""Begins to compute a batch."""


@dataclass
class Pace:
    """How large a batch may be, found out by trying."""

    log: Callable[[str], None]
    most: int = sys.maxsize

    def start(self, begin: Start, items: Sequence[Any] | npt.NDArray[Any]) -> Fetch:
        """Begin a batch, in parts where memory runs out."""
        if len(items) <= self.most:
            try:
                return begin(items)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if len(items) == 1:
                    line = " ".join(str(error).split())[:120]
                    raise InputError(f"even a batch of 1 does not fit into memory ({line})") from None
            # Outside the handler: the error's traceback holds what the batch had taken.
            self.most = len(items) // 2
            self.log(f"out of memory with a batch of {len(items)}: going on with {self.most}")
            _free()
        step = self.most  # a part may lower it further
        parts = [self.start(begin, items[at : at + step]) for at in range(0, len(items), step)]
        return lambda: np.concatenate([fetch() for fetch in parts])


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whichever device.

    >>> out_of_memory(RuntimeError("CUDA error: out of memory")), out_of_memory(RuntimeError("shape mismatch"))
    (True, False)
    """
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text


def _free() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()


IN_FLIGHT = 2
"""Batches a GPU may have before it."""


def on_gpu(encoder: Encoder) -> bool:
    """Whether an encoder computes on a GPU, through torch."""
    device = str(getattr(encoder, "device", "cpu"))
    return device.startswith("cuda") and hasattr(encoder, "image_tensor") and hasattr(encoder, "text_tensor")


def image_start(encoder: Encoder) -> Start:
    """Begins batches of prepared images, given as a list."""
    if on_gpu(encoder):
        torch_encoder: Any = encoder
        return lambda pixels: _launch(
            lambda: torch_encoder.image_tensor(torch_encoder.pixels_to_tensor(_sent(pixels, torch_encoder.device)))
        )
    return lambda pixels: _done(encoder.image_features(np.stack(pixels)))


def text_start(encoder: Encoder) -> Start:
    """Begins batches of token ids."""
    if on_gpu(encoder):
        torch_encoder: Any = encoder
        return lambda ids: _launch(lambda: torch_encoder.text_tensor(_sent(ids, torch_encoder.device)))
    return lambda ids: _done(encoder.text_features(ids))


def _done(features: Features) -> Fetch:
    return lambda: features


def _pinned(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> torch.Tensor:
    """Rows in memory that the GPU reads by itself; torch hands such memory out again once it was read."""
    torch = require("torch", "clip")
    kind = torch.from_numpy(np.empty(0, rows[0].dtype)).dtype
    held = torch.empty((len(rows), *rows[0].shape), dtype=kind, pin_memory=True)
    if isinstance(rows, np.ndarray):
        held.numpy()[...] = rows
    else:
        np.stack(rows, out=held.numpy())
    return held  # type: ignore[no-any-return]


def _sent(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """Rows on the device; they travel while the device computes the batch before."""
    torch = require("torch", "clip")
    held, lane, main = _pinned(rows), _lane(device), torch.cuda.current_stream(device)
    with torch.cuda.stream(lane):
        there = held.to(device, non_blocking=True)
    main.wait_stream(lane)
    there.record_stream(main)
    return there


@cache
def _lane(device: torch.device) -> Any:
    return require("torch", "clip").cuda.Stream(device)


def _launch(compute: Callable[[], torch.Tensor]) -> Fetch:
    torch = require("torch", "clip")
    with torch.inference_mode():
        features = compute().float()
        back = torch.empty(features.shape, dtype=torch.float32, pin_memory=True)
        back.copy_(features, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()

    def fetch() -> Features:
        arrived.synchronize()
        return back.numpy().copy()  # type: ignore[no-any-return]

    return fetch


Wanted = Callable[[bytes], bool]
START = "import sys; sys.path[:] = {path!r}; from captious.models.pipeline import serve; serve()"


class Looked(NamedTuple):
    """What came of a file: the key of its content, and its pixels unless they were not wanted or not to be had."""

    key: bytes | None
    pixels: Pixels | None
    fault: str | None


def look(path: str, prepare: Callable[[Image], Pixels], wanted: Wanted, upright: bool) -> Looked:
    """Read a file, and decode it if its content is wanted."""
    key = None
    try:
        content = read_picture(path)
        key = key_of(content)
        if not wanted(key):
            return Looked(key, None, None)
        return Looked(key, prepare(decode_picture(content, path, upright)), None)
    except Unreadable as error:
        return Looked(key, None, str(error))


class Reader:
    """A process that looks at files; for one thread at a time."""

    def __init__(self, preparation: Any, upright: bool) -> None:
        self.setup = pickle.dumps((preparation, upright))
        self.process = self._started()
        self.key: bytes | None = None

    def __call__(self, path: str, wanted: Wanted) -> Looked:
        """As :func:`look`."""
        try:
            return self._ask(path, wanted)
        except (OSError, EOFError):
            self.close()
            self.process = self._started()
            return Looked(self.key, None, f"{path}: brought its decoder down")

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.wait()
        for pipe in (self.process.stdin, self.process.stdout):
            if pipe is not None:
                pipe.close()

    def _started(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-c", START.format(path=sys.path)]
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=0)
        _send(process.stdin, self.setup)
        return process

    def _ask(self, path: str, wanted: Wanted) -> Looked:
        into, back = self.process.stdin, self.process.stdout
        self.key = None
        _send(into, os.fsencode(path))
        key = self.key = bytes(_receive(back)) or None
        if key is not None:
            _send(into, b"yes" if wanted(key) else b"")
        fault = bytes(_receive(back)).decode()
        if fault:
            return Looked(key, None, fault)
        shape = np.frombuffer(_receive(back), np.int64)
        if not len(shape):
            return Looked(key, None, None)
        return Looked(key, np.frombuffer(_receive(back), np.uint8).reshape(shape), None)


def serve() -> None:
    """What the process does, until its parent closes the pipe."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent decides
    into, back = io.FileIO(0), io.FileIO(os.dup(1), "w")
    os.dup2(2, 1)  # what a decoder prints must not get between the answers
    preparation, upright = pickle.loads(_receive(into))

    def asked(key: bytes) -> bool:
        _send(back, key)
        return bool(_receive(into))

    while True:
        try:
            path = os.fsdecode(bytes(_receive(into)))
            found = look(path, preparation.prepare, asked, upright)
            if found.key is None:
                _send(back, b"")
            _send(back, (found.fault or "").encode("utf-8", "replace"))
            if found.fault is None:
                pixels = found.pixels
                _send(back, b"" if pixels is None else np.array(pixels.shape, np.int64).tobytes())
                if pixels is not None:
                    _send(back, np.ascontiguousarray(pixels).data.cast("B"))
        except (EOFError, BrokenPipeError):
            return


def _send(pipe: Any, content: bytes | memoryview) -> None:
    left = memoryview(struct.pack("<q", len(content)) + content if len(content) < 4096 else content)
    if len(content) >= 4096:
        pipe.write(struct.pack("<q", len(content)))
    while left:
        left = left[pipe.write(left) :]


def _receive(pipe: Any) -> bytearray:
    return _exactly(pipe, struct.unpack("<q", _exactly(pipe, 8))[0])


def _exactly(pipe: Any, size: int) -> bytearray:
    content = bytearray(size)
    left = memoryview(content)
    while left:
        got = pipe.readinto(left)
        if not got:
            raise EOFError
        left = left[got:]
    return content


In = TypeVar("In")
Out = TypeVar("Out")
AHEAD = 3
"""Batches of images that may be decoded and waiting."""
MANY_IMAGES, MANY_THREADS = 1000, 4
"""From here on images are decoded in processes of their own, which take a moment to start."""
MOST_TEXTS = 4
"""A batch of short texts may be this many times as large as one of long ones."""


class Picked(NamedTuple):
    """One image file after reading: its place, and what :class:`captious.models.pipeline.Looked` says of it."""

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
    lengths: Ints


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

    def started() -> Iterator[tuple[list[int], Fetch, Ints]]:
        tokenized = ahead(lambda places: encoder.tokenize([texts[place] for place in places]), groups, 1, 2)
        for places, tokens in zip(groups, tokenized, strict=True):
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
