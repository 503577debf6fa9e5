"""Image files to pixels, by the threads that ask or by processes of their own.

Large runs decode in processes, because Pillow holds Python's global lock during part of the decoding. Starting them
takes a moment, so a worker that encodes shard after shard keeps them between calls (`DECODERS`).
"""

from __future__ import annotations

import math
import mmap
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from captious.captions import ImageData, ImageSource
from captious.engines.child import GONE, Child, Pipes
from captious.io.images import UnreadableImage, decode_image, is_plain_jpeg, read_image
from captious.models.encoder import Encoder, Pixels
from captious.models.segments import key_of

if TYPE_CHECKING:
    from PIL.Image import Image

SHARED_BYTES = 4 << 20
"""Bytes of the memory that is shared with a decoding process; a larger array goes through the pipe."""
MANY_THREADS = 4
"""Where there are so many threads or more, each decodes through a process of its own."""
SENT = b""
"""Stands for the pixels of an image that are on their way to the encoder."""
Wanted = Callable[[bytes], bool]
"""Whether the content of a key must be decoded."""
Keep = Callable[[Pixels], Pixels]
"""Copies pixels to where they may stay."""


def always(key: bytes) -> bool:
    """Every image is wanted."""
    return True


class Preparation(Protocol):
    """What a decoding process needs to know of an encoder."""

    def prepare(self, picture: Image) -> Pixels:
        """The pixels of an opened image that are sent back."""


class DecodedImage(NamedTuple):
    """A file after reading: the key of its content, and its pixels unless they were not wanted or it has none."""

    key: bytes | None
    pixels: Pixels | bytes | tuple[int, ...] | None
    """Prepared pixels, those of a whole image that a GPU resizes, or the content of a file that a GPU decodes; the
    shape alone where the pixels are in memory that is shared with the process that decoded them.
    """
    fault: str | None
    """Why there are no pixels, though they were wanted."""


def decode(
    path: ImageSource, prepare: Callable[[Image], Pixels], wanted: Wanted, upright: bool, keep_jpeg: bool = False
) -> DecodedImage:
    """Read an image, and decode it if its content is wanted; ``keep_jpeg`` leaves plain JPEG files to a GPU."""
    key = None
    try:
        content = read_image(path)
        key = key_of(content)
        if not wanted(key):
            return DecodedImage(key, None, None)
        if keep_jpeg and is_plain_jpeg(content, upright):
            return DecodedImage(key, content, None)
        return DecodedImage(key, prepare(decode_image(content, path, upright)), None)
    except UnreadableImage as error:
        return DecodedImage(key, None, str(error))


class DecodingProcess:
    """A process that decodes files for one thread at a time.

    Whole images come back through memory that both processes see, because a pipe takes as long as the decoding.
    """

    def __init__(self, preparation: Any, upright: bool) -> None:
        self.setup = (preparation, upright)
        self.shared = SharedMemory()
        self.child = self._start()

    def __call__(self, path: ImageSource, wanted: Wanted, keep: Keep = np.copy) -> DecodedImage:
        """Decode as :func:`decode` does; an image that crashes the process costs that image alone.

        ``keep`` copies the pixels of a whole image out of the shared memory.
        """
        key, pipes = None, self.child.pipes
        try:
            pipes.send(path)
            answer: bytes | DecodedImage = pipes.receive()
            while isinstance(answer, bytes):
                key = answer
                pipes.send(wanted(key))
                answer = pipes.receive()
        except GONE:
            self.child.close()
            self.child = self._start()
            return DecodedImage(key, None, f"{path}: brought its decoder down")
        if isinstance(answer.pixels, tuple):
            return answer._replace(pixels=keep(self.shared.array(answer.pixels)))
        return answer

    def close(self) -> None:
        """End the process."""
        self.child.close()
        self.shared.close()

    def _start(self) -> Child:
        child = Child(serve, descriptors=self.shared.descriptors)
        child.pipes.send((*self.setup, self.shared.descriptors))
        return child


class SharedMemory:
    """Memory for one array that two processes see, where the system has such memory without a name in a file system."""

    def __init__(self, descriptors: Sequence[int] | None = None) -> None:
        if descriptors is None:
            descriptors = [os.memfd_create("captious")] if hasattr(os, "memfd_create") else []
            for descriptor in descriptors:
                os.ftruncate(descriptor, SHARED_BYTES)  # takes memory only where it is written
        self.descriptors = list(descriptors)
        self._views = [mmap.mmap(descriptor, SHARED_BYTES) for descriptor in self.descriptors]

    def array(self, shape: tuple[int, ...]) -> Pixels:
        """The bytes at the beginning, as an array of this shape."""
        return np.frombuffer(self._views[0], np.uint8, math.prod(shape)).reshape(shape)

    def holds(self, array: Pixels) -> bool:
        """Whether an array fits."""
        return bool(self._views) and array.nbytes <= SHARED_BYTES

    def close(self) -> None:
        """Give the memory back, once no array shows it any more."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors, self._views = [], []


def serve(parent: Pipes) -> None:
    """What the process does, until its parent closes the pipe."""

    def wanted(key: bytes) -> bool:
        parent.send(key)
        return bool(parent.receive())

    preparation, upright, descriptors = parent.receive()
    shared = SharedMemory(descriptors)
    while True:
        image = decode(parent.receive(), preparation.prepare, wanted, upright)
        if isinstance(image.pixels, np.ndarray) and shared.holds(image.pixels):
            shared.array(image.pixels.shape)[...] = image.pixels
            image = image._replace(pixels=image.pixels.shape)
        parent.send(image)


class DecoderPool:
    """Decoding processes that wait between calls, where they are kept; otherwise each call starts and ends its own."""

    def __init__(self) -> None:
        self.keeps = False
        self.idle: list[DecodingProcess] = []

    def keep(self) -> None:
        """Keep processes from call to call from now on."""
        self.keeps = True

    def take(self, number: int, preparation: Any, upright: bool) -> list[DecodingProcess]:
        """So many processes of this setup: idle ones first, the rest started; idle ones of another setup end."""
        idle, self.idle = self.idle, []
        fitting = [process for process in idle if process.setup == (preparation, upright)][:number]
        _close([process for process in idle if process not in fitting])
        return fitting + [DecodingProcess(preparation, upright) for _ in range(number - len(fitting))]

    def give_back(self, processes: list[DecodingProcess]) -> None:
        """Keep the processes of a call that is over, or end them."""
        if self.keeps:
            self.idle += processes
        else:
            _close(processes)

    def close(self) -> None:
        """End all idle processes, and keep none any more."""
        self.keeps = False
        idle, self.idle = self.idle, []
        _close(idle)


DECODERS = DecoderPool()
"""The pool of this process."""


def _close(processes: list[DecodingProcess]) -> None:
    for process in processes:
        process.close()


@contextmanager
def file_decoder(
    encoder: Encoder,
    upright: bool,
    threads: int,
    preparation: Preparation | None = None,
    keep_jpeg: bool = False,
    keep: Keep = np.copy,
) -> Iterator[Callable[[ImageSource, Wanted], DecodedImage]]:
    """How threads decode files: each through a process of its own where there are many of both, else by themselves.

    ``preparation`` replaces that of the encoder. ``keep`` copies pixels to where the encoder wants them.
    """
    preparation = preparation or getattr(encoder, "preparation", None)
    prepare = (preparation or encoder).prepare

    def here(path: ImageSource, wanted: Wanted) -> DecodedImage:
        image = decode(path, prepare, wanted, upright, keep_jpeg)
        return image._replace(pixels=keep(image.pixels)) if isinstance(image.pixels, np.ndarray) else image

    if threads < MANY_THREADS or preparation is None or keep_jpeg:
        yield here
        return
    processes = DECODERS.take(threads, preparation, upright)
    idle: SimpleQueue[DecodingProcess] = SimpleQueue()
    for process in processes:
        idle.put(process)

    def through(path: ImageSource, wanted: Wanted) -> DecodedImage:
        if isinstance(path, ImageData):
            content = path.value
            if not isinstance(content, bytes):  # decoded already, and large to send
                return here(path, wanted)
            key = key_of(content)
            if not wanted(key):
                return DecodedImage(key, None, None)
            path, wanted = ImageData(content, path.name), always
        process = idle.get()
        try:
            return process(path, wanted, keep)
        finally:
            idle.put(process)

    try:
        yield through
    except BaseException:
        _close(processes)
        raise
    DECODERS.give_back(processes)
