"""Frames of clips, decoded ahead in worker processes with a time limit.

If a file crashes FFmpeg, or takes too long, only its item has no value.

A worker process opens a file and sends its timeline. This process replies which frames it needs, so that stored frames
are not decoded again. The worker sends these, prepared for the encoders::

    this process                         worker
    source ─────────────────────────▶    count and time the packets
    digest, timeline ◀───────────────
    choose frames ──────────────────▶    decode, rotate, prepare
    frames ◀─────────────────────────
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt

from captious._core.files import is_folder
from captious._core.frame_rules import FrameRule
from captious.captions import Clip, ImageSource, VideoData, VideoSource
from captious.engines.child import GONE, Child, Pipes
from captious.engines.processes import count_cores
from captious.errors import InputError, MissingExtra
from captious.io.clip_files import MOST_BYTES, Timeline, VideoFile, require_pyav
from captious.io.images import UnreadableImage, open_image
from captious.io.videos import UnreadableVideo, list_images, load_vectors
from captious.models.decoding import DECODERS, DecoderPool
from captious.models.pipeline import map_ahead
from captious.models.segments import hash_content
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    from PIL.Image import Image

T = TypeVar("T")
# Bytes of a file that are hashed at a time.
PIECE = 1 << 20
# Seconds that a worker process may take to start, on a slow disk.
START_SECONDS = 120


class OpenClip(NamedTuple):
    """A file that a worker opened."""

    digest: bytes
    """The key of the content of the file."""
    timeline: Timeline


class FrameList(NamedTuple):
    """Frames of a video that is a folder or a list of images."""

    images: list[ImageSource]
    numbers: list[int]
    total: int


# Frames by their index: for each preparation the prepared pixels, or None if they were not wanted.
Decoded = list[tuple[int, list[Any]]]


class ClipProcess:
    """A process that decodes one file at a time, within a time limit.

    ``preparations`` are those of encoders; None means that the pixels are not prepared.
    """

    def __init__(self, preparations: Sequence[Any], seconds: float) -> None:
        self.setup = (preparations, seconds)
        self._seconds, self._lock = seconds, threading.Lock()
        self._running = self._expired = self._ready = False
        self._start_child()

    @contextmanager
    def limit_time(self, source: VideoSource) -> Iterator[None]:
        """Kill the process if the block takes too long. Raise UnreadableVideo then, or if the process died."""
        try:
            if not self._ready:  # the time to start the process does not count
                with self._kill_after(START_SECONDS):
                    self._ready = self.child.pipes.receive()
            with self._kill_after(self._seconds):
                yield
        except GONE:
            why = f"took longer than {self._seconds:g} s, allow more with clip_seconds=..." if self._expired else ""
            if self._expired and not self._ready:
                why = f"its decoder did not start within {START_SECONDS} s"
            self.child.close()
            self._start_child()
            raise UnreadableVideo(f"{source}: {why or 'crashed its decoder'}") from None

    @contextmanager
    def _kill_after(self, seconds: float) -> Iterator[None]:
        """Kill the process if the block takes longer."""
        self._expired, self._running = False, True
        timer = threading.Timer(seconds, self._expire)
        timer.daemon = True
        timer.start()
        try:
            yield
        finally:
            timer.cancel()
            with self._lock:  # a timer that is running already must not kill the process later
                self._running = False

    def open(self, source: VideoSource) -> OpenClip:
        """Open a file. Raise UnreadableVideo if it cannot be used."""
        if isinstance(source, VideoData):
            source = VideoData(source.value, source.name)
        self.child.pipes.send(source)
        opened: OpenClip = self._receive()
        return opened

    def decode(self, wanted: Sequence[Sequence[int]]) -> Decoded | Timeline:
        """Decode frames of the open file; ``wanted`` are the indices of frames for each preparation.

        The number and times of packets are only an estimate of the frames. If the file turns out to have other frames,
        its true timeline is returned.
        """
        self.child.pipes.send([list(map(int, indices)) for indices in wanted])
        decoded: Decoded | Timeline = self._receive()
        return decoded

    def finish(self) -> None:
        """Close the open file."""
        with suppress(*GONE):
            self.child.pipes.send(None)

    def close(self) -> None:
        """Stop the process."""
        self.child.close()

    def _receive(self) -> Any:
        result = self.child.pipes.receive()
        if isinstance(result, str):
            raise UnreadableVideo(result)
        return result

    def _start_child(self) -> None:
        self.child, self._ready = Child(serve), False
        self.child.pipes.send(self.setup[0])

    def _expire(self) -> None:
        with self._lock:
            if self._running:
                self._expired = True
                self.child.kill()


def serve(parent: Pipes) -> None:
    """Decode files for the parent process until it closes the pipe."""
    preparations = parent.receive()
    with suppress(MissingExtra):  # the first import takes a while, and does not count for the first file
        require_pyav()
    parent.send(True)
    while True:
        source = parent.receive()
        if source is None:  # the end of a file that did not open
            continue
        try:
            file = VideoFile(source)
        except Exception as error:  # PyAV raises errors of any kind for a damaged file
            parent.send(_explain_failure(source, error))
            continue
        try:
            parent.send(OpenClip(_digest_source(source), file.timeline))
            while (wanted := parent.receive()) is not None:
                try:
                    parent.send(_decode_wanted(file, preparations, wanted))
                except Exception as error:
                    parent.send(_explain_failure(source, error))
        finally:
            file.close()


def _explain_failure(source: VideoSource, error: Exception) -> str:
    """Return the reason why a file cannot be used."""
    if isinstance(error, UnreadableVideo):
        return str(error)
    if isinstance(error, MemoryError):
        return f"{source}: needs more memory than there is"
    reason = error.strerror if isinstance(error, OSError) else ""
    return f"{source}: cannot be decoded ({reason or type(error).__name__})"


def _digest_source(source: VideoSource) -> bytes:
    """Return the key of the content of a file, read piece by piece."""
    if isinstance(source, VideoData):
        return hash_content(source.value)
    hash = hashlib.blake2b(digest_size=16)
    with Path(source).open("rb") as file:
        while piece := file.read(PIECE):
            hash.update(piece)
    return hash.digest()


def _decode_wanted(file: VideoFile, preparations: Sequence[Any], wanted: Sequence[Sequence[int]]) -> Decoded | Timeline:
    """Return the wanted frames, prepared; or the true timeline of the file if it does not have all of them."""
    from PIL import Image

    sets = [set(indices) for indices in wanted]
    union = sorted(set().union(*sets))
    frames: Decoded = []
    size = 0
    for index, pixels in file.decode(union):
        picture = Image.fromarray(pixels)
        prepared: list[Any] = [None] * len(sets)
        for number, (indices, preparation) in enumerate(zip(sets, preparations, strict=True)):
            if index in indices:
                prepared[number] = pixels if preparation is None else preparation.prepare(picture)
                size += prepared[number].nbytes
        if size > MOST_BYTES:
            raise UnreadableVideo(
                f"{file.name}: its {len(union):,} frames take more than {MOST_BYTES >> 30} GB; choose fewer with "
                "frames=..."
            )
        frames.append((index, prepared))
    return frames if len(frames) == len(union) else file.count_frames()


# The pool of this process.
CLIP_DECODERS = DecoderPool(ClipProcess)


def keep_decoders() -> None:
    """Keep the decoding processes of images and of videos between calls from now on."""
    DECODERS.keep()
    CLIP_DECODERS.keep()


def close_decoders() -> None:
    """Close the idle decoding processes of images and of videos, and keep none any more."""
    DECODERS.close()
    CLIP_DECODERS.close()


@contextmanager
def open_clip_decoders(preparations: Sequence[Any], number: int) -> Iterator[Callable[[], Any]]:
    """Start worker processes for a number of threads; yield a context manager that lends one of them."""
    require_pyav()
    processes = CLIP_DECODERS.take(number, tuple(preparations), get_runtime().clip_seconds)
    idle: SimpleQueue[ClipProcess] = SimpleQueue()
    for process in processes:
        idle.put(process)

    @contextmanager
    def lend() -> Iterator[ClipProcess]:
        process = idle.get()
        try:
            yield process
        finally:
            idle.put(process)

    try:
        yield lend
    except BaseException:
        for process in processes:
            process.close()
        raise
    CLIP_DECODERS.give_back(processes)


def count_clip_workers(runtime: Runtime, clips: int) -> int:
    """Return the number of worker processes: half of the cores, because the encoder needs the rest."""
    return max(1, min(runtime.workers or count_cores() // 2, clips))


def decode_ahead(work: Callable[[T], Any], items: Sequence[T], threads: int) -> Iterator[Any]:
    """Yield the results of ``work`` in order, computed by threads a few items ahead."""
    yield from map_ahead(work, items, threads, threads + 1)


def list_clip_images(clip: Clip, rule: FrameRule) -> FrameList | None:
    """Return the chosen frames of a folder or list of images, or of an array; None for other videos.

    Raise UnreadableVideo if the rule or the clip needs times.
    """
    images = list_images(clip.video)
    if not images:
        return None
    if rule.needs_times or clip.start is not None or clip.end is not None:
        what = str(rule) if rule.needs_times else "start and end"
        raise UnreadableVideo(f"{clip}: is given by its frames, which have no times, and {what} needs times")
    numbers = rule.choose(np.arange(len(images), dtype=np.float64)).tolist()
    limit = get_runtime().most_frames
    if len(numbers) > limit:
        raise UnreadableVideo(
            f"{clip}: {rule} takes {len(numbers):,} frames, more than {limit:,}; allow more with most_frames=..."
        )
    return FrameList([images[number] for number in numbers], numbers, len(images))


def select_frames(timeline: Timeline, clip: Clip, rule: FrameRule) -> tuple[npt.NDArray[np.int64], int]:
    """Return the indices of the chosen frames of a clip, and the number of frames that it has."""
    return timeline.select(rule, clip.start, clip.end, get_runtime().most_frames, str(clip))


@dataclass(frozen=True, eq=False)
class ClipFrames:
    """The chosen frames of a clip as images; none if there is a ``fault``."""

    images: list[Image] = field(default_factory=list)
    """RGB, upright."""
    times: list[float] = field(default_factory=list)
    """The time at which each frame is shown, in seconds; NaN for a folder or list of images."""
    numbers: list[int] = field(default_factory=list)
    """The number of each frame in its video, from 0."""
    total: int = 0
    """Frames of the clip from which these were chosen."""
    rotation: int = 0
    short: bool = False
    """Whether the clip has fewer frames than the rule wants."""
    cut: bool = False
    """Whether the file ends too early."""
    fault: str | None = None

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of a signature."""
        return {"short": int(self.short), "cut": int(self.cut), "rotated": int(self.rotation != 0)}


def read_frames(clips: Sequence[Clip], rule: FrameRule) -> Iterator[ClipFrames]:
    """Yield the chosen frames of each clip as images, in order, decoded ahead by worker processes.

    A clip that cannot be used has a fault. Raise MissingExtra if a video file needs PyAV, which is not installed.
    """
    runtime = get_runtime()
    are_files = [_is_file(clip.video) for clip in clips]
    threads = count_clip_workers(runtime, sum(are_files))
    if not any(are_files):
        yield from (_read_images(clip, rule) for clip in clips)
        return
    with open_clip_decoders([None], threads) as lend:

        def read(clip: Clip) -> ClipFrames:
            if not _is_file(clip.video):
                return _read_images(clip, rule)
            with lend() as process:
                return _read_file(process, clip, rule)

        yield from decode_ahead(read, clips, threads)


def _is_file(video: VideoSource) -> bool:
    """Return True if a video is a file to be decoded, or the bytes of one."""
    if isinstance(video, VideoData):
        return isinstance(video.value, bytes)
    return not video.lower().endswith((".npy", ".npz")) and not is_folder(video)


def _read_file(process: ClipProcess, clip: Clip, rule: FrameRule) -> ClipFrames:
    from PIL import Image

    try:
        with process.limit_time(clip.video):
            timeline = process.open(clip.video).timeline
            try:
                decoded: Decoded | Timeline = timeline
                for _ in range(2):  # the second time with the true timeline, if that of the packets was wrong
                    if isinstance(decoded, Timeline):
                        timeline = decoded
                        chosen, total = select_frames(timeline, clip, rule)
                        decoded = process.decode([chosen.tolist()])
            finally:
                process.finish()
    except UnreadableVideo as error:
        return ClipFrames(fault=str(error))
    if isinstance(decoded, Timeline):
        return ClipFrames(fault=f"{clip}: its frames cannot be decoded")
    return ClipFrames(
        [Image.fromarray(pixels) for _, (pixels,) in decoded],
        timeline.times[chosen].tolist(),
        chosen.tolist(),
        total,
        timeline.rotation,
        total < rule.wants,
        timeline.cut,
    )


def _read_images(clip: Clip, rule: FrameRule) -> ClipFrames:
    try:
        frames = list_clip_images(clip, rule)
        if frames is None and load_vectors(clip.video) is not None:
            raise UnreadableVideo(f"{clip}: is given by vectors of its frames, which have no pixels")
        assert frames is not None
        images = [open_image(image, get_runtime().upright).convert("RGB") for image in frames.images]
    except (UnreadableVideo, UnreadableImage) as error:
        return ClipFrames(fault=str(error))
    except InputError as error:
        return ClipFrames(fault=f"{clip}: {error}")
    times = [float("nan")] * len(images)
    return ClipFrames(images, times, frames.numbers, frames.total, short=frames.total < rule.wants)
