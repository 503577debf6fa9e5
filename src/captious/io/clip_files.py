"""Decoding of video files with PyAV: the times of frames, and the wanted frames as pixels.

The header of a file may be wrong or without numbers, so frames are counted and timed by the packets of the stream. A
`Timeline` has these times; `VideoFile.decode` seeks to a key frame if that skips frames, and converts only the wanted
ones. Frames are rotated as the file says, like in players.
"""

from __future__ import annotations

import io
import os
import struct
import zlib
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import numpy as np
import numpy.typing as npt

from captious._core.files import is_file
from captious._core.frame_rules import TOLERANCE, FrameRule
from captious._core.types import Bools, Floats, Ints
from captious.captions import VideoData, VideoSource
from captious.errors import MissingExtra, require
from captious.io.columns import NO_VIDEO
from captious.io.images import MAX_PIXELS
from captious.io.videos import UnreadableVideo

# Longest clip in seconds, and largest memory for its wanted frames in bytes.
LONGEST, MOST_BYTES = 3 * 3600, 2 << 30
# Demuxers of files that contain a video. Playlists, which name other files and addresses, are not among them.
DEMUXERS = (
    "mov,mp4,m4a,3gp,3g2,mj2,matroska,webm,avi,mpeg,mpegvideo,mpegts,ogg,gif,flv,live_flv,asf,wmv,h264,hevc,m4v,ivf,"
    "rm,dv,mxf,nut,y4m,yuv4mpegpipe,obu,apng,webp_anim"
)
# Files of these formats begin with an index of boxes: `ftyp`, `moov`, `mdat`, each with its size.
_BOXES = (b"ftyp", b"moov", b"mdat", b"free", b"skip", b"wide")
_HEAD = struct.Struct("<HhIIdd")
_VERSION = 1
Frame = npt.NDArray[np.uint8]


@dataclass(frozen=True, eq=False)
class Timeline:
    """The times of the frames of a file, in seconds from its beginning, in the order of presentation."""

    times: Floats
    keys: Bools
    """Whether each frame is a key frame."""
    end: float
    """The time at which the last frame leaves the screen."""
    rotation: int = 0
    """Degrees, counterclockwise, by which players rotate the frames; −90 for most upright clips of phones."""
    expected: int = 0
    """The number of frames in the index of a file that ends too early; 0 if it is complete, or has no index."""
    cut: bool = False
    """Whether the file ends too early."""

    def __len__(self) -> int:
        return len(self.times)

    def select(self, rule: FrameRule, start: float | None, end: float | None, most: int, name: str) -> tuple[Ints, int]:
        """Return the indices of the chosen frames, and the number of frames between ``start`` and ``end``.

        Raise UnreadableVideo if there is no frame, or more than ``most`` are chosen.
        """
        first = 0 if start is None else int(np.searchsorted(self.times, start - TOLERANCE))
        last = len(self) if end is None else int(np.searchsorted(self.times, end - TOLERANCE))
        announced = self.expected > len(self) and (end is None or end > self.end + TOLERANCE)
        if not len(self) and not self.expected:
            raise UnreadableVideo(f"{name}: has no frame that can be decoded")
        if announced or not len(self):
            raise UnreadableVideo(f"{name}: breaks off after {len(self)} of {self.expected} frames")
        if first >= last:
            where = f"from {start or 0:g} s on" if end is None else f"between {start or 0:g} and {end:g} s"
            raise UnreadableVideo(f"{name}: has no frame {where}; it lasts {self.end:.6g} s")
        stop = self.end if end is None else min(end, self.end)
        if stop - (start or 0.0) > LONGEST:
            hours = (stop - (start or 0.0)) / 3600
            raise UnreadableVideo(f"{name}: lasts {hours:.1f} hours, expected at most {LONGEST // 3600}")
        chosen = rule.choose(self.times[first:last], self.keys[first:last], start or 0.0, stop)
        if len(chosen) > most:
            raise UnreadableVideo(
                f"{name}: {rule} takes {len(chosen):,} frames, more than {most:,}; allow more with most_frames=..."
            )
        return first + chosen, last - first

    def to_bytes(self) -> bytes:
        """Return the timeline as bytes, small for a regular one.

        >>> line = Timeline(np.arange(3000) / 25, np.arange(3000) % 50 == 0, 120.0, rotation=90)
        >>> same = Timeline.from_bytes(line.to_bytes())
        >>> len(line.to_bytes()) < 6000, bool((same.times == line.times).all()), same.rotation, same.end
        (True, True, 90, 120.0)
        """
        head = _HEAD.pack(_VERSION, self.rotation, len(self), self.expected, self.end, float(self.cut))
        # Bytes of equal weight next to each other compress best.
        columns = self.times.astype("<f8").view(np.uint8).reshape(-1, 8).T.tobytes() if len(self) else b""
        return head + zlib.compress(columns + np.packbits(self.keys).tobytes(), 6)

    @classmethod
    def from_bytes(cls, content: bytes) -> Timeline | None:
        """Return the timeline that `to_bytes` wrote; None for bytes of another version."""
        version, rotation, number, expected, end, cut = _HEAD.unpack_from(content)
        if version != _VERSION:
            return None
        packed = zlib.decompress(content[_HEAD.size :])
        columns = np.frombuffer(packed[: 8 * number], np.uint8).reshape(8, number).T
        times = np.ascontiguousarray(columns).view("<f8").reshape(-1).astype(np.float64)
        keys = np.unpackbits(np.frombuffer(packed[8 * number :], np.uint8), count=number).astype(np.bool_)
        return cls(times, keys, end, rotation, expected, bool(cut))


def require_pyav() -> Any:
    """Import PyAV; raise MissingExtra, which says how to install it, if that fails."""
    try:
        return require("av", "video")
    except MissingExtra:
        raise MissingExtra(
            "videos need PyAV: pip install 'captious[video]'; a folder of frames works without it"
        ) from None


class VideoFile:
    """An open video file. Raises UnreadableVideo if it is not a video, with the reason."""

    def __init__(self, source: VideoSource) -> None:
        self.av = require_pyav()
        self.name, self.source = str(source), source
        self._by_number = False  # whether frames are found by counting, because packets have no usable times
        self._container, self._stream = self._open()
        try:
            self._offset = self._get_offset()
            self._points: list[int] = []
            self.timeline = self._scan()
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file."""
        self._container.close()

    def decode(self, indices: Sequence[int]) -> Iterator[tuple[int, Frame]]:
        """Yield the frames of increasing indices, each with its index, as height × width × 3 bytes, upright.

        Fewer frames are yielded if the file ends too early, or if packets contain no frame. `count_frames` finds out.
        """
        with suppress(self.av.FFmpegError):
            for index, frame in self._find_frames(list(map(int, indices))):
                if frame.width * frame.height >= MAX_PIXELS:
                    raise UnreadableVideo(_explain_size(self.name, frame.width, frame.height))
                yield index, _rotate(frame.to_ndarray(format="rgb24"), self.timeline.rotation)

    def count_frames(self) -> Timeline:
        """Decode the whole file, and return the timeline of its frames, if the packets did not tell it.

        From then on, frames are found by counting.
        """
        times, keys, durations, broken = list[float](), list[bool](), list[float](), self.timeline.cut
        self._rewind()
        try:
            for frame in self._container.decode(self._stream):
                time = frame.time
                if time is None:
                    rate = self._stream.guessed_rate or self._stream.average_rate or 25
                    time = len(times) / float(rate) + self._offset
                times.append(time - self._offset)
                keys.append(bool(frame.key_frame))
                durations.append(float((getattr(frame, "duration", None) or 0) * (frame.time_base or 0)))
        except self.av.FFmpegError:
            broken = True
        self._by_number = True
        announced = max(len(self.timeline), self.timeline.expected) if broken else 0
        self.timeline = _make_timeline(times, keys, durations, self.timeline.rotation, broken, announced)
        return self.timeline

    def _open(self) -> tuple[Any, Any]:
        """Open the file, and choose its video stream."""
        file: Any
        if isinstance(self.source, VideoData):
            file = io.BytesIO(self.source.value)
            head, empty = self.source.value[:12], not self.source.value
        else:
            path = Path(self.source)
            if not is_file(path):
                raise UnreadableVideo(f"{self.name}: {'is not a file' if os.path.exists(path) else NO_VIDEO}")  # noqa: PTH110
            with path.open("rb") as opened:
                head = opened.read(12)
            # With the protocol named, a path such as `concat:a|b` opens nothing else.
            file, empty = f"file:{path}", not head
        if empty:
            raise UnreadableVideo(f"{self.name}: is empty, expected a video")
        try:
            container = self.av.open(file, options={"format_whitelist": DEMUXERS}, metadata_errors="ignore")
        except (self.av.FFmpegError, ValueError, OSError):
            if head[4:8] in _BOXES:
                raise UnreadableVideo(f"{self.name}: breaks off before its index (moov)") from None
            raise UnreadableVideo(f"{self.name}: not a video that FFmpeg reads") from None
        streams = [stream for stream in container.streams.video if not _is_cover(stream)]
        if not streams:
            kind = "only sound" if container.streams.audio else "no stream of frames"
            container.close()
            raise UnreadableVideo(f"{self.name}: has no picture, {kind}")
        codec = streams[0].codec_context
        if codec is None:
            container.close()
            raise UnreadableVideo(f"{self.name}: has a codec that FFmpeg does not know")
        width, height = codec.width, codec.height
        if width * height >= MAX_PIXELS:
            container.close()
            raise UnreadableVideo(_explain_size(self.name, width, height))
        return container, streams[0]

    def _get_offset(self) -> float:
        """Return the time at which the file begins, from which players count."""
        start = self._container.start_time
        return 0.0 if start is None else start / 1e6

    def _scan(self) -> Timeline:
        """Return the timeline by the packets of the stream, and the rotation by its first frame."""
        points, broken = list[tuple[int | None, bool, int]](), False
        try:
            for packet in self._container.demux(self._stream):
                if packet.size and not packet.is_discard and not self._is_hidden(packet):
                    points.append((packet.pts, packet.is_keyframe, packet.duration or 0))
        except self.av.FFmpegError:
            broken = True
        rotation = self._find_rotation()
        cut = broken or self._breaks_off()
        announced = self._stream.frames if cut else 0
        self.timeline = _make_timeline([], [], [], rotation, cut, announced)
        present = [point[0] for point in points if point[0] is not None]
        if len(set(present)) < len(points):  # a packet has no time, or the same as another
            return self.count_frames()
        points.sort()
        self._points = [point[0] for point in points if point[0] is not None]
        base = self._stream.time_base
        times = np.array(self._points, dtype=np.float64) * base.numerator / base.denominator
        if len(times) and abs(times[0] - self._offset) < 2 * TOLERANCE:  # microseconds were rounded
            self._offset = float(times[0])
        durations = [float(point[2] * base) for point in points]
        return _make_timeline(times - self._offset, [point[1] for point in points], durations, rotation, cut, announced)

    def _is_hidden(self, packet: Any) -> bool:
        """Return True for a packet of VP8 that is decoded and never shown."""
        return self._stream.codec_context.name == "vp8" and not bytes(packet)[0] >> 4 & 1

    def _find_rotation(self) -> int:
        """Return the rotation of the first frame that decodes."""
        with suppress(self.av.FFmpegError):
            self._rewind()
            for frame in self._container.decode(self._stream):
                return 90 * round(int(frame.rotation) / 90)
        return 0

    def _breaks_off(self) -> bool:
        """Return True if the file is shorter than its outermost boxes say."""
        if isinstance(self.source, VideoData):
            return _is_cut_short(io.BytesIO(self.source.value))
        with Path(self.source).open("rb") as file:
            return _is_cut_short(file)

    def _rewind(self) -> None:
        """Go back to the beginning; if the file cannot seek, open it again."""
        try:
            self._container.seek(0)
        except self.av.FFmpegError:
            self._container.close()
            self._container, self._stream = self._open()

    def _find_frames(self, wanted: list[int]) -> Iterator[tuple[int, Any]]:
        """Yield the wanted frames as PyAV has them, with their indices."""
        if self._by_number:
            self._rewind()
            remaining = set(wanted)
            for index, frame in enumerate(self._container.decode(self._stream)):
                if index in remaining:
                    yield index, frame
                    remaining.remove(index)
                if not remaining:
                    return
            return
        keys = np.flatnonzero(self.timeline.keys)
        # `at` is the index of `frame`, which was decoded last. The scan left the file at its end.
        frames, frame, at = iter(()), None, len(self.timeline)
        for index in wanted:
            before = int(np.searchsorted(keys, index, side="right")) - 1
            key = int(keys[before]) if before >= 0 else 0
            # Seek to the last key frame before the index if the index is behind, or if that skips frames.
            if at > index or key > at + 1:
                frames, frame, at = self._start_at(key), None, -1
            frame, at = self._skip_to(frames, frame, at, index)
            if at != index and key:
                # The seek went too far, or found nothing. From now on decode from the beginning, without key frames.
                keys = keys[:0]
                frame, at = self._skip_to(frames := self._start_at(0), None, -1, index)
            if at == index:
                yield index, frame
            elif frame is None:
                return

    def _skip_to(self, frames: Iterator[Any], frame: Any, at: int, index: int) -> tuple[Any, int]:
        """Decode until the frame of an index, or one after it; return the last frame and its index, None at the end."""
        while at < index:
            frame = next(frames, None)
            at = len(self.timeline) if frame is None else self._find_index(frame)
        return frame, at

    def _start_at(self, key: int) -> Iterator[Any]:
        """Return an iterator over the frames that begins at a key frame."""
        if key:
            try:
                self._container.seek(self._points[key], stream=self._stream)
            except self.av.FFmpegError:
                self._rewind()
        else:
            self._rewind()
        frames: Iterator[Any] = self._container.decode(self._stream)
        return frames

    def _find_index(self, frame: Any) -> int:
        """Return the index of a decoded frame: that of the last packet whose time is not after it."""
        return -1 if frame.pts is None else int(np.searchsorted(self._points, frame.pts, side="right")) - 1


def _make_timeline(
    times: Sequence[float] | Floats,
    keys: Sequence[bool],
    durations: Sequence[float],
    rotation: int,
    cut: bool,
    announced: int,
) -> Timeline:
    """Make a timeline; the duration of the last frame is its own, or if it has none that of the frame before."""
    starts = np.asarray(times, dtype=np.float64)
    last_duration = durations[-1] if len(durations) else 0.0
    if not last_duration > 0 and len(starts) > 1:
        last_duration = float(starts[-1] - starts[-2])
    end = float(starts[-1]) + last_duration if len(starts) else 0.0
    expected = announced if announced > len(starts) else 0
    return Timeline(starts, np.asarray(keys, dtype=np.bool_), end, rotation, expected, cut)


def _is_cover(stream: Any) -> bool:
    """Return True for the still picture of a sound file."""
    disposition = getattr(stream, "disposition", 0)
    return bool(getattr(disposition, "value", disposition) & 0x400)  # an enumeration, of integers or not


def _is_cut_short(file: IO[bytes]) -> bool:
    """Return True if a file is shorter than its outermost boxes (MP4) or its segment (Matroska, AVI) says."""
    size = file.seek(0, io.SEEK_END)
    file.seek(0)
    head = file.read(64)
    if head[4:8] in _BOXES:
        position = 0
        while 0 <= position < size:
            file.seek(position)
            box = file.read(16)
            length = int.from_bytes(box[:4], "big")
            if length == 1:
                length = int.from_bytes(box[8:16], "big")
            # The length 0 means up to the end of the file, other small numbers are invalid; half a header is cut short.
            if length < 8 or len(box) < 8:
                return len(box) < 8
            position += length
        return position > size
    if head[:4] == b"RIFF":
        return int.from_bytes(head[4:8], "little") + 8 > size
    segment = head.find(b"\x18\x53\x80\x67")
    if head[:4] != b"\x1a\x45\xdf\xa3" or segment < 0:
        return False
    # Matroska's length of the segment: the first 1 bit of its first byte says how many bytes it has.
    width = 9 - head[segment + 4].bit_length()
    length = int.from_bytes(head[segment + 4 : segment + 4 + width], "big") & ~(1 << 7 * width)
    unknown = (1 << 7 * width) - 1
    return length != unknown and segment + 4 + width + length > size


def _rotate(pixels: Frame, rotation: int) -> Frame:
    """Rotate a frame as players do."""
    return np.ascontiguousarray(np.rot90(pixels, rotation // 90 % 4)) if rotation % 360 else pixels


def _explain_size(name: str, width: int, height: int) -> str:
    return f"{name}: has frames of {width} x {height} pixels, expected fewer than {MAX_PIXELS // 10**6} million"
