"""Image files to pixels, by the threads that ask or by processes of their own.

Large runs decode in processes, because Pillow holds Python's global lock during part of the decoding. Starting them
takes a moment, so a worker that encodes shard after shard keeps them between calls (`DECODERS`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from captious.captions import ImageData, ImageSource
from captious.engines.child import GONE, Child, Pipes
from captious.io.images import UnreadableImage, decode_image, is_plain_jpeg, read_image
from captious.models.encoder import Encoder, Pixels
from captious.models.segments import key_of

if TYPE_CHECKING:
    from PIL.Image import Image

PIPE = 1 << 20
"""Bytes that wait in the pipe of a process: a whole image of ordinary size, sent in one piece."""
MANY_THREADS = 4
"""Where there are so many threads or more, each decodes through a process of its own."""
SENT = b""
"""Stands for the pixels of an image that are on their way to the encoder."""
Wanted = Callable[[bytes], bool]
"""Whether the content of a key must be decoded."""


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
    pixels: Pixels | bytes | None
    """Prepared pixels, those of a whole image that a GPU resizes, or the content of a file that a GPU decodes."""
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
    """A process that decodes files for one thread at a time."""

    def __init__(self, preparation: Any, upright: bool) -> None:
        self.setup = (preparation, upright)
        self.child = self._start()

    def __call__(self, path: ImageSource, wanted: Wanted) -> DecodedImage:
        """Decode as :func:`decode` does; an image that crashes the process costs that image alone."""
        key, pipes = None, self.child.pipes
        try:
            pipes.send(path)
            answer: bytes | DecodedImage = pipes.receive()
            while isinstance(answer, bytes):
                key = answer
                pipes.send(wanted(key))
                answer = pipes.receive()
            return answer
        except GONE:
            self.close()
            self.child = self._start()
            return DecodedImage(key, None, f"{path}: brought its decoder down")

    def close(self) -> None:
        """End the process."""
        self.child.close()

    def _start(self) -> Child:
        child = Child(serve)
        with suppress(ImportError, AttributeError, OSError):  # elsewhere pipes have a fixed size
            import fcntl

            fcntl.fcntl(child.pipes.incoming, fcntl.F_SETPIPE_SZ, PIPE)
        child.pipes.send(self.setup)
        return child


def serve(parent: Pipes) -> None:
    """What the process does, until its parent closes the pipe."""

    def wanted(key: bytes) -> bool:
        parent.send(key)
        return bool(parent.receive())

    preparation, upright = parent.receive()
    while True:
        parent.send(decode(parent.receive(), preparation.prepare, wanted, upright))


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
) -> Iterator[Callable[[ImageSource, Wanted], DecodedImage]]:
    """How threads decode files: each through a process of its own where there are many of both, else by themselves.

    ``preparation`` replaces that of the encoder.
    """
    preparation = preparation or getattr(encoder, "preparation", None)
    prepare = (preparation or encoder).prepare
    if threads < MANY_THREADS or preparation is None or keep_jpeg:
        yield lambda path, wanted: decode(path, prepare, wanted, upright, keep_jpeg)
        return
    processes = DECODERS.take(threads, preparation, upright)
    idle: SimpleQueue[DecodingProcess] = SimpleQueue()
    for process in processes:
        idle.put(process)

    def through(path: ImageSource, wanted: Wanted) -> DecodedImage:
        if isinstance(path, ImageData):
            content = path.value
            if not isinstance(content, bytes):  # decoded already, and large to send
                return decode(path, prepare, wanted, upright)
            key = key_of(content)
            if not wanted(key):
                return DecodedImage(key, None, None)
            path, wanted = ImageData(content, path.name), always
        process = idle.get()
        try:
            return process(path, wanted)
        finally:
            idle.put(process)

    try:
        yield through
    except BaseException:
        _close(processes)
        raise
    DECODERS.give_back(processes)
