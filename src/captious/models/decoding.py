"""Decoding of image files to pixels, in threads or in worker processes.

Large runs decode in processes, because Pillow keeps Python's global lock during part of the decoding. Starting them
takes a moment, so a worker that encodes shard after shard keeps them between calls (`DECODERS`).
"""

from __future__ import annotations

import mmap
import os
import select
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from functools import partial
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from captious.captions import ImageData, ImageSource
from captious.engines.child import GONE, Child, Pipes
from captious.engines.processes import THREADS
from captious.io.images import UnreadableImage, decode_image, is_plain_jpeg, read_image
from captious.models.encoder import Encoder, Pixels
from captious.models.segments import hash_content

if TYPE_CHECKING:
    from PIL.Image import Image

# Size of the memory shared with a decoding process; images that do not fit are sent through the pipe.
SHARED_BYTES = 32 << 20
# From this number of threads on, each decodes in its own process.
MANY_THREADS = 4
# Placeholder for pixels that were sent to the encoder already.
SENT = b""
# Returns True if the content of a key must be decoded.
Wanted = Callable[[bytes], bool]
# Copies pixels out of memory that is about to be reused.
Keep = Callable[[Pixels], Pixels]


def accept_all(key: bytes) -> bool:
    """Return True: every image is decoded."""
    return True


class Preparation(Protocol):
    """Interface of an image preparation that runs in a decoding process."""

    def prepare(self, picture: Image) -> Pixels | WholeImage:
        """Return what is sent back of an opened image."""


class WholeImage(NamedTuple):
    """A decoded image that a GPU resizes."""

    block: Pixels
    """Bytes that contain the pixels of this image; several images may share one block."""
    start: int
    """Offset of its height × width × 3 bytes in the block."""
    width: int
    height: int


class DecodedImage(NamedTuple):
    """A file after reading: the key of its content, and its pixels if they were wanted and could be decoded."""

    key: bytes | None
    pixels: Pixels | WholeImage | bytes | None
    """Prepared pixels, a whole image that a GPU resizes, or the content of a file that a GPU decodes."""
    fault: str | None
    """The reason why wanted pixels are missing."""


class ReadFile(NamedTuple):
    """Content of an image file and its key; if it cannot be read, both are missing and ``fault`` says why."""

    source: ImageSource
    content: bytes
    key: bytes | None
    fault: str | None = None

    @classmethod
    def of(cls, source: ImageSource) -> ReadFile:
        """Read a file."""
        try:
            content = read_image(source)
        except UnreadableImage as error:
            return cls(source, b"", None, str(error))
        return cls(source, content, hash_content(content))

    def decode_content(self, preparation: Preparation, upright: bool, keep_jpeg: bool = False) -> DecodedImage:
        """Decode the content; ``keep_jpeg`` leaves plain JPEG files to a GPU."""
        if self.fault is not None:
            return DecodedImage(self.key, None, self.fault)
        if keep_jpeg and is_plain_jpeg(self.content, upright):
            return DecodedImage(self.key, self.content, None)
        try:
            picture = decode_image(self.content, self.source, upright)
        except UnreadableImage as error:
            return DecodedImage(self.key, None, str(error))
        return DecodedImage(self.key, preparation.prepare(picture), None)


def decode(
    path: ImageSource, preparation: Preparation, wanted: Wanted, upright: bool, keep_jpeg: bool = False
) -> DecodedImage:
    """Read an image, and decode it if its content is wanted."""
    file = ReadFile.of(path)
    if file.key is not None and not wanted(file.key):
        return DecodedImage(file.key, None, None)
    return file.decode_content(preparation, upright, keep_jpeg)


class DecodingProcess:
    """A process that decodes files for one thread at a time.

    It gets a few files at a time, and sends whole images back through memory that both processes see: a pipe would take
    as long as the decoding.
    """

    def __init__(self, preparation: Any, upright: bool, keep_jpeg: bool = False) -> None:
        self.setup = (preparation, upright, keep_jpeg)
        self.shared = SharedMemory()
        self.crashed = self._greeted = False
        try:
            self.child = self._start_child()
        except BaseException:
            self.shared.close()
            raise

    def has_started(self) -> bool:
        """Return True if the process can decode at once; starting it takes a moment.

        After a crash this is always true, so that no file that may crash a process is decoded elsewhere meanwhile.
        """
        if self._greeted or self.crashed or not hasattr(select, "poll"):  # a system that cannot tell
            return True
        waiting = select.poll()  # select.select refuses the descriptors of a process with many open files
        waiting.register(self.child.pipes.incoming, select.POLLIN)
        return bool(waiting.poll(0))

    def __call__(self, paths: Sequence[ImageSource], wanted: Wanted, keep: Keep = np.copy) -> list[DecodedImage]:
        """Decode as :func:`decode` does; an image that crashes the process costs only that image.

        ``keep`` copies the pixels of whole images out of the shared memory.
        """
        pipes = self.child.pipes
        try:
            if not self._greeted:
                self._greeted = pipes.receive()
            pipes.send(list(paths))
            keys: list[bytes | None] = pipes.receive()
        except GONE:
            return self._decode_each(paths, [None] * len(paths), [wanted] * len(paths), keep)
        answers = [key is not None and wanted(key) for key in keys]
        try:
            pipes.send(answers)
            images: list[DecodedImage] = pipes.receive()
        except GONE:
            # `wanted` must be called once per file: a second call would count as a duplicate of another file.
            return self._decode_each(paths, keys, [partial(_return_answer, answer) for answer in answers], keep)
        return self.shared.copy_out(images, keep)

    def _decode_each(
        self, paths: Sequence[ImageSource], keys: Sequence[bytes | None], asks: Sequence[Wanted], keep: Keep
    ) -> list[DecodedImage]:
        """Continue after a crash with a new process: give a single image up, try several one by one."""
        self.child.close()
        self.child, self.crashed, self._greeted = self._start_child(), True, False
        if len(paths) == 1:
            return [DecodedImage(keys[0], None, f"{paths[0]}: crashed its decoder")]
        return [self([path], ask, keep)[0] for path, ask in zip(paths, asks, strict=True)]

    def close(self) -> None:
        """Stop the process and release the shared memory."""
        self.child.close()
        self.shared.close()

    def _start_child(self) -> Child:
        child = Child(serve, dict.fromkeys(THREADS, "1"), self.shared.descriptors)
        child.pipes.send((*self.setup, self.shared.descriptors))
        return child


def _return_answer(answer: bool, key: bytes) -> bool:
    return answer


# Placeholder for pixels in shared memory.
_ELSEWHERE = np.empty(0, np.uint8)


class SharedMemory:
    """Anonymous memory for pixels that two processes share, if the system supports it."""

    def __init__(self, descriptors: Sequence[int] | None = None) -> None:
        self.descriptors = list(_open_memory() if descriptors is None else descriptors)
        views = [mmap.mmap(descriptor, SHARED_BYTES) for descriptor in self.descriptors]
        self._bytes = np.frombuffer(views[0], np.uint8) if views else np.empty(0, np.uint8)

    def move_in(self, images: Sequence[DecodedImage]) -> list[DecodedImage]:
        """Move the pixels of whole images into this memory, as many as fit; return the images."""
        moved, used = list(images), 0
        for index, image in enumerate(images):
            if isinstance(image.pixels, WholeImage) and used + image.pixels.block.nbytes <= self._bytes.nbytes:
                start, used = used, used + image.pixels.block.nbytes
                self._bytes[start:used] = image.pixels.block
                moved[index] = image._replace(pixels=image.pixels._replace(block=_ELSEWHERE, start=start))
        return moved

    def copy_out(self, images: Sequence[DecodedImage], keep: Keep) -> list[DecodedImage]:
        """Copy the pixels of whole images out; those in this memory share one copy."""
        unprepared = [image.pixels for image in images if isinstance(image.pixels, WholeImage)]
        used = max((one.start + 3 * one.width * one.height for one in unprepared if one.block.size == 0), default=0)
        block = keep(self._bytes[:used]) if used else _ELSEWHERE

        def copy_pixels(one: WholeImage) -> WholeImage:
            return one._replace(block=keep(one.block) if one.block.size else block)

        return [
            image._replace(pixels=copy_pixels(image.pixels)) if isinstance(image.pixels, WholeImage) else image
            for image in images
        ]

    def close(self) -> None:
        """Release the memory."""
        for descriptor in self.descriptors:
            os.close(descriptor)
        self.descriptors, self._bytes = [], _ELSEWHERE


def _open_memory() -> list[int]:
    """Create sparse shared memory and return its descriptor; return an empty list if the system refuses."""
    with suppress(AttributeError, OSError):
        descriptor = os.memfd_create("captious")
        os.ftruncate(descriptor, SHARED_BYTES)
        return [descriptor]
    return []


def serve(parent: Pipes) -> None:
    """Decode files for the parent process until it closes the pipe."""
    preparation, upright, keep_jpeg, descriptors = parent.receive()
    memory = SharedMemory(descriptors)
    parent.send(True)
    while True:
        files = [ReadFile.of(path) for path in parent.receive()]
        parent.send([file.key for file in files])
        answers = parent.receive()
        images = [
            file.decode_content(preparation, upright, keep_jpeg)
            if answer or file.key is None
            else DecodedImage(file.key, None, None)
            for file, answer in zip(files, answers, strict=True)
        ]
        parent.send(memory.move_in(images))


class ReusableProcess(Protocol):
    """Interface of a process of a pool; those with the same ``setup`` can do the same work."""

    setup: tuple[Any, ...]

    def close(self) -> None:
        """Stop the process."""


P = TypeVar("P", bound=ReusableProcess)


class DecoderPool(Generic[P]):
    """Decoding processes that are reused between calls if `keep` was called; otherwise each call starts its own."""

    def __init__(self, start: Callable[..., P]) -> None:
        self.start = start
        self.keeps = False
        self.idle: list[P] = []

    def keep(self) -> None:
        """Keep processes between calls from now on."""
        self.keeps = True

    def take(self, number: int, *setup: Any) -> list[P]:
        """Return ``number`` processes of this setup, idle ones first; close idle ones of another setup."""
        idle, self.idle = self.idle, []
        fitting = [process for process in idle if process.setup == setup][:number]
        _close([process for process in idle if process not in fitting])
        return fitting + [self.start(*setup) for _ in range(number - len(fitting))]

    def give_back(self, processes: list[P]) -> None:
        """Keep the processes of a finished call, or close them."""
        if self.keeps:
            self.idle += processes
        else:
            _close(processes)

    def close(self) -> None:
        """Close all idle processes, and keep none any more."""
        self.keeps = False
        idle, self.idle = self.idle, []
        _close(idle)


# The pool of this process.
DECODERS = DecoderPool(DecodingProcess)


def _close(processes: Sequence[ReusableProcess]) -> None:
    for process in processes:
        process.close()


# Decodes a few files, and asks for each key whether its content is wanted.
Decoder = Callable[[Sequence[ImageSource], Wanted], list[DecodedImage]]


@contextmanager
def open_decoder(
    encoder: Encoder,
    upright: bool,
    threads: int,
    preparation: Preparation | None = None,
    keep_jpeg: bool = False,
    keep: Keep = np.copy,
) -> Iterator[Decoder]:
    """Open a decoder for threads: a process per thread for many files and threads, else in the thread itself.

    Until the processes have started, threads decode by themselves too; a file that crashes the decoder then ends the
    run. ``preparation`` replaces that of the encoder. ``keep`` copies the pixels of whole images to where the encoder
    wants them.
    """
    preparation = preparation or getattr(encoder, "preparation", None)

    def decode_here(path: ImageSource, wanted: Wanted) -> DecodedImage:
        image = decode(path, preparation or encoder, wanted, upright, keep_jpeg)
        if isinstance(image.pixels, WholeImage):
            return image._replace(pixels=image.pixels._replace(block=keep(image.pixels.block)))
        return image

    if threads < MANY_THREADS or preparation is None:
        yield lambda paths, wanted: [decode_here(path, wanted) for path in paths]
        return
    processes = DECODERS.take(threads, preparation, upright, keep_jpeg)
    idle: SimpleQueue[DecodingProcess] = SimpleQueue()
    for process in processes:
        idle.put(process)

    def decode_in_process(paths: Sequence[ImageSource], wanted: Wanted) -> list[DecodedImage]:
        images, sent, approved = {}, [], set()
        for index, path in enumerate(paths):
            if isinstance(path, ImageData):
                content = path.value
                if not isinstance(content, bytes):  # decoded already, and large to send
                    images[index] = decode_here(path, wanted)
                    continue
                key = hash_content(content)
                if not wanted(key):
                    images[index] = DecodedImage(key, None, None)
                    continue
                approved.add(key)
                path = ImageData(content, path.name)
            sent.append((index, path))

        def ask(key: bytes) -> bool:
            if key in approved:
                approved.discard(key)
                return True
            return wanted(key)

        process = idle.get()
        try:
            remote = process.has_started()
            decoded = process([path for _, path in sent], ask, keep) if remote and sent else []
        finally:
            idle.put(process)
        if not remote:
            decoded = [decode_here(path, ask) for _, path in sent]
        images |= {index: image for (index, _), image in zip(sent, decoded, strict=True)}
        return [images[index] for index in range(len(paths))]

    try:
        yield decode_in_process
    except BaseException:
        _close(processes)
        raise
    DECODERS.give_back(processes)
