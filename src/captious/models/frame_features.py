"""Vectors of the frames of clips: from the cache, otherwise decoded once and encoded by all encoders that need them.

A frame is stored under the content of its file, its number and its rotation, not under its pixels, so that a second run
opens no video. Frames that are image files are stored as images are. Vectors have unit length.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.frame_rules import FrameRule
from captious._core.types import Floats, Ints
from captious.captions import Clip, VideoData, VideoSource
from captious.errors import InputError
from captious.io.clip_files import Timeline
from captious.io.videos import UnreadableVideo, load_vectors
from captious.models._gpu.preparation import is_on_gpu
from captious.models.clip_frames import (
    Decoded,
    count_clip_workers,
    decode_ahead,
    list_clip_images,
    open_clip_decoders,
    select_frames,
)
from captious.models.encoder import Encoder, Features, note_model
from captious.models.features import NOT_FINITE, gather, get_vector_space, image_features, normalize_rows, put_vectors
from captious.models.pipeline import Fetch, OomBackoff, Start, make_image_start
from captious.models.segments import FeatureSpace, as_keys, hash_content
from captious.models.store import Store, get_file_state, lookup, open_file_index, open_store, record
from captious.options import get_runtime

# Bytes of a row of the index of timelines; a longer timeline takes several rows.
ROW = 1024
TIMELINES = FeatureSpace("", "timelines", "clips", (ROW,), "uint8")


@dataclass(frozen=True, eq=False)
class FrameVectors:
    """Vectors of the chosen frames of n clips. Frame j of clip i is at ``offsets[i] + j`` of the flat arrays."""

    rows: Features
    """u × d, of unit length."""
    index: Ints
    """The row of each frame."""
    offsets: Ints
    """n + 1 numbers; a clip without frames has a fault."""
    times: Floats
    """The time at which each frame is shown, in seconds; NaN if it is unknown."""
    numbers: Ints
    """The number of each frame in its video, from 0."""
    faults: dict[int, str] = field(default_factory=dict)
    """The reason why a clip has no frames, by its index, without its name."""
    counts: Mapping[str, int] = field(default_factory=dict)
    """The number of clips with fewer frames than the rule wants (``short``), that end too early (``cut``), or that are
    stored rotated (``rotated``), and of frames that could not be used (``unread``)."""

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def of(self, clip: int) -> Features:
        """Return the vectors of the frames of a clip, k × d."""
        return self.rows[self.index[self.offsets[clip] : self.offsets[clip + 1]]]

    def times_of(self, clip: int) -> Floats:
        """Return the times of the frames of a clip."""
        return self.times[self.offsets[clip] : self.offsets[clip + 1]]

    @property
    def owners(self) -> Ints:
        """The clip of each frame."""
        return np.repeat(np.arange(len(self)), np.diff(self.offsets))


def frame_features(
    encoder: Encoder, clips: Sequence[Clip], rule: FrameRule, sharing: Sequence[Encoder] = ()
) -> FrameVectors:
    """Return the vectors of the chosen frames of clips.

    ``sharing`` are encoders that will need the same clips: a file that has to be decoded is encoded by them too. Raise
    InputError for vectors of another dimension than the encoder's.
    """
    note_model(encoder)
    distinct = list(dict.fromkeys(clips))
    plans = {clip: _plan_clip(encoder, clip, rule) for clip in distinct}
    files = [clip for clip, plan in plans.items() if plan is None]
    if files:
        others = [one for one in sharing if one.fingerprint != encoder.fingerprint]
        plans |= FileReader([encoder, *others], rule).read(files)
    # All rows in one array: first those of frames that are image files, then the vectors of each other clip.
    pictures = [image for plan in plans.values() if isinstance(plan, _Plan) for image in plan.images]
    encoded = image_features(encoder, pictures) if pictures else None
    rows, index = [np.zeros((0, encoder.dimension), np.float32)], dict[Clip, Ints]()
    next_row = next_image = 0
    if encoded is not None:
        rows.append(encoded.rows)
        next_row = len(encoded.rows)
    for clip, plan in plans.items():
        if not isinstance(plan, _Plan):
            continue
        if plan.images and encoded is not None:
            index[clip] = encoded.index[next_image : next_image + len(plan.images)]
            next_image += len(plan.images)
        else:
            index[clip] = next_row + np.arange(len(plan.vectors))
            rows.append(plan.vectors)
            next_row += len(plan.vectors)
    return _assemble(clips, plans, index, np.concatenate(rows), rule)


@dataclass(frozen=True, eq=False)
class _Plan:
    """The chosen frames of a clip, as images that will be encoded, or with their vectors."""

    numbers: Sequence[int] | Ints
    times: Sequence[float] | Floats
    total: int
    images: Sequence[Any] = ()
    vectors: Features = field(default_factory=lambda: np.zeros((0, 0), np.float32))
    cut: bool = False
    rotated: bool = False
    own_rule: bool = False
    """Whether the rule does not apply: a video that is given by vectors always has all its frames."""


def _plan_clip(encoder: Encoder, clip: Clip, rule: FrameRule) -> _Plan | str | None:
    """Return the frames of a clip that is not a file to decode, or the reason why it has none; None for a file."""
    try:
        vectors = load_vectors(clip.video)
        if vectors is not None:
            return _plan_vectors(encoder, clip, vectors)
        frames = list_clip_images(clip, rule)
    except UnreadableVideo as error:
        return str(error)
    if frames is None:
        return None
    return _Plan(frames.numbers, np.full(len(frames.numbers), np.nan), frames.total, frames.images)


def _plan_vectors(encoder: Encoder, clip: Clip, vectors: Features) -> _Plan | str:
    """Return the frames of a clip that is given by their vectors."""
    if vectors.shape[1] != encoder.dimension:
        raise InputError(f"{clip} has {vectors.shape[1]} columns, the encoder {encoder.name} has {encoder.dimension}")
    if clip.start is not None or clip.end is not None:
        return f"{clip}: is given by vectors of its frames, which have no times, and start and end need times"
    largest = np.abs(vectors).max(axis=1, keepdims=True)
    if (largest == 0).any():
        return f"{clip}: the vector of frame {int((largest == 0).argmax())} is all 0, which has no direction"
    # Very large or small vectors are scaled first, because the squares of such numbers do not fit into a float32.
    scales = np.where((largest > 1e15) | (largest < 1e-15) & (largest > 0), largest, np.float32(1))
    with np.errstate(invalid="ignore"):
        unit, finite = normalize_rows(vectors / scales)
    if not finite.all():
        return f"{clip}: its vectors are not finite"
    number = len(unit)
    return _Plan(range(number), np.full(number, np.nan), number, vectors=unit, own_rule=True)


def _assemble(
    clips: Sequence[Clip],
    plans: Mapping[Clip, _Plan | str | None],
    row_of: Mapping[Clip, Ints],
    rows: Features,
    rule: FrameRule,
) -> FrameVectors:
    """Return the frames of all clips; frames without a vector, whose row is −1, are left out."""
    index, times, numbers, sizes = list[Ints](), list[Floats](), list[Ints](), list[int]()
    faults: dict[int, str] = {}
    counts = {"short": 0, "cut": 0, "rotated": 0, "unread": 0}
    for number, clip in enumerate(clips):
        plan = plans[clip]
        if not isinstance(plan, _Plan):
            faults[number] = str(plan).removeprefix(f"{clip}: ")
            sizes.append(0)
            continue
        has_row = row_of[clip] >= 0
        sizes.append(int(has_row.sum()))
        if not sizes[-1]:
            faults[number] = "none of its frames can be used"
            continue
        index.append(row_of[clip][has_row])
        times.append(np.asarray(plan.times, np.float64)[has_row])
        numbers.append(np.asarray(plan.numbers, np.int64)[has_row])
        counts["short"] += plan.total < rule.wants and not plan.own_rule
        counts["cut"] += plan.cut
        counts["rotated"] += plan.rotated
        counts["unread"] += int((~has_row).sum())
    empty = np.zeros(0, np.int64)
    return FrameVectors(
        rows,
        np.concatenate([empty, *index]),
        np.concatenate(([0], np.cumsum(sizes))).astype(np.int64),
        np.concatenate([np.zeros(0), *times]),
        np.concatenate([empty, *numbers]),
        faults,
        {name: int(number) for name, number in counts.items()},
    )


class _FileFacts(NamedTuple):
    """The digest of a file's content, and its timeline."""

    digest: bytes
    timeline: Timeline


def make_frame_key(digest: bytes, number: int, rotation: int) -> bytes:
    """Return the key of a frame in the cache."""
    return hash_content(digest + b"frame" + number.to_bytes(4, "big") + (rotation % 360).to_bytes(2, "big"))


class FileReader:
    """Reads frames of video files for several encoders: what is not stored is decoded once, and encoded by each."""

    def __init__(self, encoders: Sequence[Encoder], rule: FrameRule) -> None:
        self.encoders, self.rule = encoders, rule
        self.stores = [open_store(get_vector_space(encoder, "frames")) for encoder in encoders]
        self.files, self.timelines = open_file_index(), open_store(TIMELINES)
        self._faults: dict[Clip, str] = {}

    def read(self, clips: Sequence[Clip]) -> dict[Clip, _Plan | str | None]:
        """Return the frames of each clip with the vectors of the first encoder, or why it has none."""
        by_video: dict[VideoSource, list[Clip]] = {}
        for clip in clips:
            by_video.setdefault(clip.video, []).append(clip)
        videos = list(by_video)
        states = [get_video_state(video) for video in videos]
        contents = lookup(self.files, states)
        facts: dict[VideoSource, _FileFacts] = {}
        for video, content in zip(videos, contents, strict=True):
            if content is None and isinstance(video, VideoData):
                content = hash_content(video.value)
            if content is not None and (timeline := read_timeline(self.timelines, content)) is not None:
                facts[video] = _FileFacts(content, timeline)
        missing = [video for video in videos if video not in facts or self._find_missing(facts[video], by_video[video])]
        try:
            if missing:
                self._decode(missing, by_video, facts, dict(zip(videos, states, strict=True)))
        finally:
            for store in (*self.stores, self.files, self.timelines):
                store.settle()
        return {clip: self._plan(clip, facts.get(clip.video)) for clip in clips}

    def _plan(self, clip: Clip, facts: _FileFacts | None) -> _Plan | str:
        """Return the stored frames of a clip, or the reason why it has none; no facts mean that decoding failed."""
        if facts is None:
            return self._faults[clip]
        try:
            chosen, total = select_frames(facts.timeline, clip, self.rule)
        except UnreadableVideo as error:
            return str(error)
        if clip in self._faults:
            return self._faults[clip]
        keys = [make_frame_key(facts.digest, number, facts.timeline.rotation) for number in chosen.tolist()]
        rows, _, index = gather(self.stores[0], keys)
        if (index < 0).any():
            return f"{clip}: {NOT_FINITE}"
        return _Plan(
            chosen,
            facts.timeline.times[chosen],
            total,
            vectors=rows[index],
            cut=facts.timeline.cut,
            rotated=facts.timeline.rotation % 360 != 0,
        )

    def _choose_frames(self, facts: _FileFacts, clips: Sequence[Clip]) -> list[int]:
        """Return the frames that any of the clips of a file needs."""
        chosen: set[int] = set()
        for clip in clips:
            try:
                chosen.update(select_frames(facts.timeline, clip, self.rule)[0].tolist())
            except UnreadableVideo:  # `_plan` says why
                continue
        return sorted(chosen)

    def _find_missing(self, facts: _FileFacts, clips: Sequence[Clip]) -> list[list[int]]:
        """Return the frames that are not stored, for each encoder; an empty list if the first has all.

        Only the first encoder needs the frames now. A file is not decoded for the others alone.
        """
        chosen = self._choose_frames(facts, clips)
        keys = [make_frame_key(facts.digest, number, facts.timeline.rotation) for number in chosen]
        missing = [
            [number for number, key in zip(chosen, keys, strict=True) if not store.has_intact_row(key)]
            for store in self.stores
        ]
        return missing if missing[0] else []

    def _decode(
        self,
        videos: Sequence[VideoSource],
        by_video: Mapping[VideoSource, Sequence[Clip]],
        facts: dict[VideoSource, _FileFacts],
        states: Mapping[VideoSource, bytes | None],
    ) -> None:
        """Decode and encode the missing frames of files; add their timelines to ``facts``, or reasons to the faults."""
        runtime = get_runtime()
        preparations = [getattr(encoder, "preparation", None) for encoder in self.encoders]
        threads = count_clip_workers(runtime, len(videos))
        batches = [_FrameBatches(one, store) for one, store in zip(self.encoders, self.stores, strict=True)]
        with open_clip_decoders(preparations, threads) as lend:

            def work(video: VideoSource) -> tuple[_FileFacts | None, Decoded, str]:
                try:
                    with lend() as process, process.limit_time(video):
                        try:
                            return self._decode_file(process, video, by_video[video])
                        finally:
                            process.finish()
                except UnreadableVideo as error:
                    return None, [], str(error)

            for done, (video, (file, decoded, fault)) in enumerate(
                zip(videos, decode_ahead(work, videos, threads), strict=True), 1
            ):
                if fault or file is None:
                    self._faults |= dict.fromkeys(by_video[video], fault)
                    facts.pop(video, None)
                else:
                    facts[video] = file
                    write_timeline(self.timelines, file.digest, file.timeline)
                    record(self.files, [states[video]], [file.digest])
                    for number, pixels in decoded:
                        key = make_frame_key(file.digest, number, file.timeline.rotation)
                        for batch, own in zip(batches, pixels, strict=True):
                            batch.add(key, own)
                runtime.progress("videos", done, len(videos))
            for batch in batches:
                batch.finish()

    def _decode_file(self, process: Any, video: VideoSource, clips: Sequence[Clip]) -> tuple[_FileFacts, Decoded, str]:
        """Decode the missing frames of a file; return its facts, the frames, and an empty text: there is no fault."""
        opened = process.open(video)
        facts = _FileFacts(opened.digest, opened.timeline)
        for _ in range(2):
            missing = self._find_missing(facts, clips)
            decoded = process.decode(missing) if missing else []
            if not isinstance(decoded, Timeline):
                return facts, decoded, ""
            # The file has other frames than its packets promised: choose again by its true timeline.
            facts = facts._replace(timeline=decoded)
        raise UnreadableVideo(f"{video}: its frames cannot be decoded")


class _FrameBatches:
    """Frames that wait until a batch of one encoder is complete."""

    def __init__(self, encoder: Encoder, store: Store) -> None:
        self.encoder, self.store, self.runtime = encoder, store, get_runtime()
        self.backoff = OomBackoff(self.runtime.log)
        self.begin: Start = make_image_start(encoder)
        # On a GPU one batch is computed while the next one is filled.
        self.delay = int(is_on_gpu(encoder))
        self._keys: list[bytes] = []
        self._pixels: list[Any] = []
        self._running: deque[tuple[list[bytes], Fetch]] = deque()

    def add(self, key: bytes, pixels: npt.NDArray[np.uint8] | None) -> None:
        """Add a frame; None is ignored, because this encoder does not need the frame.

        Workers have prepared the pixels if the encoder has a ``preparation``. Otherwise they are prepared here.
        """
        if pixels is None:
            return
        if getattr(self.encoder, "preparation", None) is None:
            from PIL import Image

            pixels = self.encoder.prepare(Image.fromarray(pixels))
        self._keys.append(key)
        self._pixels.append(pixels)
        if len(self._keys) >= min(self.runtime.batch, self.backoff.largest):
            self._start_batch()

    def finish(self) -> None:
        """Encode what is left, and store it."""
        if self._keys:
            self._start_batch()
        while self._running:
            self._store_batch()
        self.store.flush()

    def _start_batch(self) -> None:
        self._running.append((self._keys, self.backoff.start(self.begin, self._pixels)))
        self._keys, self._pixels = [], []
        while len(self._running) > self.delay:
            self._store_batch()

    def _store_batch(self) -> None:
        keys, fetch = self._running.popleft()
        put_vectors(self.store, as_keys(keys), fetch())


def get_video_state(video: VideoSource) -> bytes | None:
    """Return the hash of path, size and times of a video file; None for one in memory."""
    return None if isinstance(video, VideoData) else get_file_state(video)


def write_timeline(store: Store, digest: bytes, timeline: Timeline) -> None:
    """Store the timeline of a file, in as many rows as it takes; the length of the first is that of all."""
    content = timeline.to_bytes()
    parts = [content[start : start + ROW] for start in range(0, len(content), ROW)]
    rows = np.zeros((len(parts), ROW), np.uint8)
    for row, part in zip(rows, parts, strict=True):
        row[: len(part)] = np.frombuffer(part, np.uint8)
    keys = as_keys(_make_row_key(digest, number) for number in range(len(parts)))
    store.put(keys, rows, np.full(len(parts), len(content), np.int32))


def read_timeline(store: Store, digest: bytes) -> Timeline | None:
    """Return the stored timeline of a file; None if there is none."""
    rows, lengths, stored = store.gather(as_keys([_make_row_key(digest, 0)]))
    if not stored.all():
        return None
    size = int(lengths[0])
    further = range(1, -(-size // ROW))
    if further:
        others, _, stored = store.gather(as_keys(_make_row_key(digest, number) for number in further))
        if not stored.all():
            return None
        rows = np.concatenate([rows, others])
    return Timeline.from_bytes(rows.tobytes()[:size])


def _make_row_key(digest: bytes, number: int) -> bytes:
    return hash_content(digest + b"timeline" + number.to_bytes(4, "big"))
