"""Reading, decoding and preparing one image, here or in a process of its own.

Decoders in one process wait for each other's Python, so beyond a few threads little is gained. A :class:`Reader` is a
process that does nothing else; its pixels come back through a pipe. It ends with its parent, whatever ends that, and an
image that brings a decoder down costs that image alone.
"""

from __future__ import annotations

import io
import os
import pickle
import signal
import struct
import subprocess
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from captious.encoders.encoder import Pixels
from captious.encoders.pictures import Unreadable, decode_picture, read_picture
from captious.encoders.segments import key_of

if TYPE_CHECKING:
    from PIL.Image import Image

Wanted = Callable[[bytes], bool]
START = "import sys; sys.path[:] = {path!r}; from captious.encoders.decoding import serve; serve()"


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
