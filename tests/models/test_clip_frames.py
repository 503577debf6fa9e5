"""Frames of clips decoded by worker processes: in order, within a time limit, and with a reason for what fails."""

import os
import shutil
import time

import numpy as np
import pytest
from PIL import Image

from captious._core.frame_rules import FrameRule
from captious.captions import Clip, VideoData
from captious.errors import MissingExtra
from captious.models import clip_frames
from captious.models.clip_frames import CLIP_DECODERS, read_frames
from captious.options import Runtime, using


@pytest.fixture
def clips(shared_data):
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
    return shared_data / "tiny_clips"


def read(clips, rule="uniform:10", **options):
    with using(Runtime(**options)):
        return list(read_frames(clips, FrameRule.parse(rule)))


@pytest.mark.shared_data
def test_clips_of_all_kinds_in_order(clips):
    names = ("counter.mp4", "cut.webm", "cut.mp4", "sound.mp4", "counter_rotated.mp4", "frames/counter", "no.mp4")
    whole, cut, broken, sound, turned, folder, missing = read([Clip(str(clips / name)) for name in names])
    assert whole.numbers == [0, 2, 4, 6, 8, 10, 12, 14, 16, 19] and whole.times[-1] == pytest.approx(1.9)
    assert whole.images[0].size == (64, 48) and whole.images[0].mode == "RGB" and whole.total == 20
    assert whole.counts == {"short": 0, "cut": 0, "rotated": 0}
    assert cut.numbers == list(range(9)) and cut.counts == {"short": 1, "cut": 1, "rotated": 0}
    assert turned.images[0].size == (48, 64) and turned.counts["rotated"] == 1
    assert folder.numbers == [0, 1, 2, 3] and np.isnan(folder.times).all() and folder.counts["short"] == 1
    assert [one.fault.rpartition(": ")[2] for one in (broken, sound, missing)] == [
        "breaks off before its index (moov)",
        "has no picture, only sound",
        "no such video",
    ]
    assert not broken.images


@pytest.mark.shared_data
def test_several_workers_give_the_same(clips):
    listed = [Clip(str(clips / "counter.mp4"), start / 10) for start in range(12)]
    one, three = (read(listed, "uniform:2", workers=number) for number in (1, 3))
    for a, b in zip(one, three, strict=True):
        assert a.numbers == b.numbers and all(
            (np.array(x) == np.array(y)).all() for x, y in zip(a.images, b.images, strict=True)
        )


@pytest.mark.shared_data
def test_bytes_in_memory(clips):
    (frames,) = read([Clip(VideoData((clips / "counter.webm").read_bytes(), "x.webm"), 1.0)], "fps:2")
    assert frames.numbers == [10, 15] and frames.times == pytest.approx([1.0, 1.5])


def test_frames_that_have_no_times(tmp_path):
    Image.new("RGB", (4, 4)).save(tmp_path / "1.png")
    by_time, part, vectors = read(
        [Clip(str(tmp_path)), Clip(str(tmp_path), 1.0), Clip(VideoData(np.ones((2, 3)), "v1"))], "fps:1"
    )
    assert by_time.fault.endswith("is given by its frames, which have no times, and fps:1 needs times")
    assert vectors.fault == "v1: is given by vectors of its frames, which have no pixels"
    assert part.fault is not None
    (part,) = read([Clip(str(tmp_path), 1.0)])
    assert part.fault.endswith("and start and end needs times")


class Bomb(VideoData):
    """A video that ends or stops the process to which it is sent."""

    def __init__(self, what, *arguments):
        super().__init__(b"nothing", "bomb")
        self.what, self.arguments = what, arguments


@pytest.fixture
def explode(monkeypatch):
    """Bombs go off in the worker: they are sent as they are."""

    def open_bomb(self, source):
        self.child.pipes.send(_Trigger(source.what, source.arguments) if isinstance(source, Bomb) else source)
        return self._receive()

    monkeypatch.setattr(clip_frames.ClipProcess, "open", open_bomb)


class _Trigger:
    def __init__(self, what, arguments):
        self.what, self.arguments = what, arguments

    def __reduce__(self):
        return self.what, self.arguments


@pytest.mark.shared_data
def test_a_worker_that_dies_costs_one_clip(clips, explode):
    good = Clip(str(clips / "counter.mp4"))
    first, dead, last = read([good, Clip(Bomb(os._exit, 3)), good])
    assert dead.fault == "bomb: crashed its decoder" and len(first.images) == len(last.images) == 10


@pytest.mark.shared_data
def test_a_worker_that_hangs_costs_one_clip(clips, explode):
    good = Clip(str(clips / "counter.mp4"))
    hangs, last = read([Clip(Bomb(time.sleep, 600)), good], clip_seconds=2)
    assert hangs.fault == "bomb: took longer than 2 s, allow more with clip_seconds=..." and len(last.images) == 10


@pytest.mark.shared_data
def test_more_frames_than_memory_is_given(clips, monkeypatch):
    monkeypatch.setattr(clip_frames, "MOST_BYTES", 3 * 64 * 48 * 3)
    file = clip_frames.VideoFile(str(clips / "counter.mp4"))
    with pytest.raises(clip_frames.UnreadableVideo, match="its 20 frames take more than"):
        clip_frames._decode_wanted(file, [None], [list(range(20))])
    file.close()


@pytest.mark.shared_data
def test_workers_are_kept_between_calls_of_shards(clips):
    listed = [Clip(str(clips / "counter.mp4"))]
    try:
        CLIP_DECODERS.keep()
        read(listed)
        before = [process.child.process.pid for process in CLIP_DECODERS.idle]
        read(listed)
        assert before and [process.child.process.pid for process in CLIP_DECODERS.idle] == before
    finally:
        CLIP_DECODERS.close()
    assert not CLIP_DECODERS.idle


def test_without_pyav(monkeypatch, tmp_path):
    monkeypatch.setitem(__import__("sys").modules, "av", None)
    Image.new("RGB", (4, 4)).save(tmp_path / "1.png")
    assert len(read([Clip(str(tmp_path))])[0].images) == 1
    shutil.copy(tmp_path / "1.png", tmp_path / "a.mp4")
    with pytest.raises(
        MissingExtra, match=r"videos need PyAV: pip install 'captious\[video\]'; a folder of frames works"
    ):
        read([Clip(str(tmp_path / "a.mp4"))])


def test_a_worker_that_does_not_start_has_a_reason(monkeypatch):
    monkeypatch.setattr(clip_frames, "START_SECONDS", 0.001)
    process = clip_frames.ClipProcess([None], 60)
    try:
        with (
            pytest.raises(clip_frames.UnreadableVideo, match=r"a.mp4: its decoder did not start within 0.001 s"),
            process.limit_time("a.mp4"),
        ):
            pytest.fail("the process has started")
    finally:
        process.close()


@pytest.mark.parametrize(
    ("error", "reason"),
    [
        (PermissionError(13, "Permission denied"), "a.mp4: cannot be decoded (Permission denied)"),
        (AttributeError("no width"), "a.mp4: cannot be decoded (AttributeError)"),
        (MemoryError(), "a.mp4: needs more memory than there is"),
    ],
)
def test_any_error_of_a_decoder_is_a_reason(monkeypatch, error, reason):
    class Parent:
        def __init__(self):
            self.messages, self.sent = [["preparation"], "a.mp4"], []

        def receive(self):
            if not self.messages:
                raise EOFError
            return self.messages.pop(0)

        def send(self, message):
            self.sent.append(message)

    def fail(source):
        raise error

    monkeypatch.setattr(clip_frames, "VideoFile", fail)
    parent = Parent()
    with pytest.raises(EOFError):
        clip_frames.serve(parent)
    assert parent.sent == [True, reason]
