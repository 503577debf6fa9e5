"""Decoding of video files against the stored clips of `tiny_clips`: times, frames, turning, and broken files.

Frame i of ``counter*`` shows i in binary: eight squares in the lower half, the least significant one on the left.
``golden.json`` was made with PyAV 18.1.0; the planes of a frame are defined by its codec, its RGB pixels are not.
"""

import hashlib
import json
import shutil

import numpy as np
import pytest
from PIL import Image

from captious._core.frame_rules import FrameRule
from captious.captions import VideoData
from captious.io.clip_files import Timeline, VideoFile
from captious.io.videos import UnreadableVideo

av = pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
pytestmark = pytest.mark.shared_data
CLIPS = ("scenes.mp4", "counter.mp4", "counter.webm", "counter_bframes.mp4", "counter_vfr.mp4", "counter_rotated.mp4")
COUNTERS = (*CLIPS[1:5], "cut.webm")


@pytest.fixture(scope="session")
def clips(shared_data):
    return shared_data / "tiny_clips"


@pytest.fixture(scope="session")
def golden(clips):
    return json.loads((clips / "golden.json").read_text())


@pytest.fixture
def opened():
    files = []

    def open_file(source):
        files.append(VideoFile(source if isinstance(source, VideoData) else str(source)))
        return files[-1]

    yield open_file
    for file in files:
        file.close()


def read_counter(pixels):
    height, width = pixels.shape[:2]
    squares = [pixels[height * 3 // 4, int((place + 0.5) * width / 8)].mean() > 128 for place in range(8)]
    return sum(light << place for place, light in enumerate(squares))


def hash_planes(frames):
    digest = hashlib.md5(usedforsecurity=False)
    for frame in frames:
        for plane in frame.planes:
            rows = np.frombuffer(plane, np.uint8).reshape(plane.height, plane.line_size)
            digest.update(np.ascontiguousarray(rows[:, : plane.width]).tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("name", [*CLIPS, "cut.webm"])
def test_times_and_planes_are_the_stored_ones(name, clips, golden, opened):
    file, expected = opened(clips / name), golden[name]
    assert len(file.timeline) == expected["frames_decoded"]
    times = expected["times"] or np.arange(60) / 25
    assert file.timeline.times.tolist() == pytest.approx(times, abs=1e-9)
    frames = (frame for _, frame in file._find_frames(list(range(len(file.timeline)))))
    assert hash_planes(frames) == expected["md5_of_yuv_planes"]


@pytest.mark.parametrize("threads", [1, 2, 4])
def test_the_number_of_threads_changes_no_frame(threads, clips, golden):
    with av.open(str(clips / "counter_bframes.mp4")) as container:
        container.streams.video[0].codec_context.thread_count = threads
        container.streams.video[0].thread_type = "AUTO"
        assert hash_planes(container.decode(video=0)) == golden["counter_bframes.mp4"]["md5_of_yuv_planes"]


@pytest.mark.parametrize("name", COUNTERS)
def test_any_frames_are_found_by_seeking(name, clips, opened):
    file, chance = opened(clips / name), np.random.default_rng(3)
    for _ in range(12):
        wanted = sorted(chance.choice(len(file.timeline), chance.integers(1, 6), replace=False).tolist())
        assert [(index, read_counter(pixels)) for index, pixels in file.decode(wanted)] == [(i, i) for i in wanted]


def test_only_frames_after_the_key_frame_are_decoded(clips, opened, monkeypatch):
    file, frames = opened(clips / "counter_bframes.mp4"), []
    find = VideoFile._find_index
    monkeypatch.setattr(VideoFile, "_find_index", lambda self, frame: frames.append(find(self, frame)) or frames[-1])
    assert [index for index, _ in file.decode([1, 58])] == [1, 58]
    # Key frames are 0, 12, 24, 32, 44 and 56.
    assert frames == [0, 1, 56, 57, 58]


@pytest.mark.parametrize("name", [*CLIPS, "cut.webm"])
def test_bytes_in_memory_are_the_file(name, clips, opened):
    disk, memory = opened(clips / name), opened(VideoData((clips / name).read_bytes(), name))
    wanted = list(range(len(disk.timeline)))
    for (one, pixels), (other, same) in zip(disk.decode(wanted), memory.decode(wanted), strict=True):
        assert one == other and (pixels == same).all()
    assert disk.timeline.times.tolist() == memory.timeline.times.tolist()


def test_frames_are_the_stored_images(clips, opened):
    frames = dict(opened(clips / "scenes.mp4").decode([0, 2, 4, 6, 8, 11]))
    images = sorted((clips / "frames" / "scenes").glob("*.png"))
    for pixels, image in zip(frames.values(), images, strict=True):
        assert np.abs(pixels.astype(int) - np.asarray(Image.open(image).convert("RGB"))).max() <= 2


def test_a_turned_clip_is_turned(clips, opened):
    plain, turned = opened(clips / "counter.mp4"), opened(clips / "counter_rotated.mp4")
    assert turned.timeline.rotation == -90 and plain.timeline.rotation == 0
    for (_, one), (_, other) in zip(plain.decode([0, 9]), turned.decode([0, 9]), strict=True):
        assert (np.rot90(one, 3) == other).all()


def choose(file, rule, start=None, end=None, most=3000):
    chosen, total = file.timeline.select(FrameRule.parse(rule), start, end, most, "clip")
    return chosen.tolist(), total


def test_rules_on_clips(clips, opened):
    counter, uneven, long = (opened(clips / f"counter{name}.mp4") for name in ("", "_vfr", "_bframes"))
    assert choose(counter, "fps:3") == ([0, 3, 6, 10, 13, 16], 20)
    assert choose(uneven, "fps:2") == ([0, 3, 4, 6, 7, 10, 11], 12)  # the header says that it ends at 2.661 s
    keys, _ = choose(long, "key")
    assert long.timeline.times[keys].tolist() == pytest.approx([0, 0.48, 0.96, 1.28, 1.76, 2.24])
    assert choose(opened(clips / "counter.webm"), "uniform:10")[0] == [0, 2, 4, 6, 8, 10, 12, 14, 16, 19]


def test_parts_of_a_clip(clips, opened):
    file = opened(clips / "counter.mp4")
    assert choose(file, "all", 0.5, 1.0) == ([5, 6, 7, 8, 9], 5)
    assert choose(file, "uniform:10", 1.85) == ([19], 1)
    assert choose(file, "fps:5", 0.5, 1.0) == ([5, 7, 9], 5)  # at .5, .7 and .9 s
    with pytest.raises(UnreadableVideo, match=r"clip: has no frame between 0.52 and 0.55 s; it lasts 2 s"):
        choose(file, "all", 0.52, 0.55)
    with pytest.raises(UnreadableVideo, match="has no frame from 3 s on"):
        choose(file, "all", 3.0)
    with pytest.raises(UnreadableVideo, match="all takes 20 frames, more than 19; allow more with most_frames"):
        choose(file, "all", most=19)


def test_a_clip_of_many_hours_is_refused():
    days = Timeline(np.arange(0, 11_000, 10.0), np.ones(1100, bool), 11_010.0)
    with pytest.raises(UnreadableVideo, match=r"lasts 3\.1 hours, expected at most 3"):
        days.select(FrameRule(), None, None, 3000, "clip")
    assert days.select(FrameRule(), 100.0, 200.0, 3000, "clip")[1] == 10


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("cut.mp4", r"breaks off before its index \(moov\)"),
        ("sound.mp4", "has no picture, only sound"),
        ("README.md", "not a video that FFmpeg reads"),
        ("frames", "is not a file"),
        ("nothing.mp4", "no such video"),
    ],
)
def test_files_that_are_no_videos(name, reason, clips):
    with pytest.raises(UnreadableVideo, match=f"{name}: {reason}"):
        VideoFile(str(clips / name))


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", "is empty, expected a video"),
        (b"#EXTM3U\n#EXTINF:1,\nfile:///etc/passwd\n", "not a video that FFmpeg reads"),
        (b"ffconcat version 1.0\nfile counter.mp4\n", "not a video that FFmpeg reads"),
    ],
)
def test_contents_that_are_no_videos(content, reason, tmp_path):
    (tmp_path / "x.mp4").write_bytes(content)
    for source in (VideoData(content, "x.mp4"), str(tmp_path / "x.mp4")):
        with pytest.raises(UnreadableVideo, match=f"x.mp4: {reason}"):
            VideoFile(source)


def test_a_playlist_opens_no_other_file(clips, tmp_path):
    shutil.copy(clips / "counter.mp4", tmp_path)
    (tmp_path / "list.mp4").write_text("ffconcat version 1.0\nfile counter.mp4\n")
    with pytest.raises(UnreadableVideo, match="not a video"):
        VideoFile(str(tmp_path / "list.mp4"))


def test_a_file_that_breaks_off_is_used_as_far_as_it_goes(clips, opened):
    file = opened(clips / "cut.webm")
    assert file.timeline.cut and choose(file, "uniform:10") == (list(range(9)), 9)
    assert not opened(clips / "counter.webm").timeline.cut


def move_index_first(content):
    """An MP4 with its index before its pictures: offsets of chunks grow by the size of the index."""
    boxes, position = {}, 0
    while position < len(content):
        size = int.from_bytes(content[position : position + 4], "big")
        boxes[content[position + 4 : position + 8]] = content[position : position + size]
        position += size
    index = bytearray(boxes[b"moov"])
    at = index.find(b"stco")
    for place in range(int.from_bytes(index[at + 8 : at + 12], "big")):
        start = at + 12 + 4 * place
        moved = int.from_bytes(index[start : start + 4], "big") + len(index)
        index[start : start + 4] = moved.to_bytes(4, "big")
    return boxes[b"ftyp"] + bytes(index) + b"".join(boxes[name] for name in boxes if name not in (b"ftyp", b"moov"))


def test_a_file_that_breaks_off_before_a_wanted_frame(clips, opened):
    whole = move_index_first((clips / "counter_bframes.mp4").read_bytes())
    assert len(opened(VideoData(whole, "clip.mp4")).timeline) == 60
    file = opened(VideoData(whole[: len(whole) * 2 // 3], "clip.mp4"))
    came = len(file.timeline)
    assert file.timeline.cut and file.timeline.expected == 60 and 0 < came < 60
    with pytest.raises(UnreadableVideo, match=f"clip: breaks off after {came} of 60 frames"):
        choose(file, "uniform:10")
    chosen, _ = choose(file, "uniform:3", end=0.4)  # frames that came
    assert [(index, read_counter(pixels)) for index, pixels in file.decode(chosen)] == [(0, 0), (4, 4), (9, 9)]


def test_frames_are_counted_if_packets_promise_others(clips, opened):
    file = opened(clips / "counter_bframes.mp4")
    timeline = file.count_frames()
    assert timeline.times.tolist() == pytest.approx(np.arange(60) / 25) and timeline.keys.sum() == 6
    assert [(index, read_counter(pixels)) for index, pixels in file.decode([3, 59])] == [(3, 3), (59, 59)]


def test_frames_that_are_too_large(clips, monkeypatch):
    monkeypatch.setattr("captious.io.clip_files.MAX_PIXELS", 64 * 48)
    with pytest.raises(UnreadableVideo, match="has frames of 64 x 48 pixels"):
        VideoFile(str(clips / "counter.mp4"))


def test_a_timeline_is_stored_whole():
    uneven = Timeline(np.array([0.0, 0.04, 2.5]), np.array([True, False, True]), 3.0, -90, 7, True)
    same = Timeline.from_bytes(uneven.to_bytes())
    assert (same.times == uneven.times).all() and (same.keys == uneven.keys).all()
    assert (same.end, same.rotation, same.expected, same.cut) == (3.0, -90, 7, True)
    assert len(Timeline.from_bytes(Timeline(np.array([]), np.array([], bool), 0.0).to_bytes())) == 0
