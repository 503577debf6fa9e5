"""Vectors of frames: the same for a clip, its images, its pixels and its features; stored so that no clip is opened."""

import shutil
import sys

import numpy as np
import pytest
from PIL import Image

from captious._core.frame_rules import FrameRule
from captious.captions import Clip, VideoData
from captious.errors import InputError
from captious.io.clip_files import Timeline
from captious.models import frame_features as module
from captious.models import loading
from captious.models.features import image_features
from captious.models.frame_features import TIMELINES, frame_features, read_timeline, write_timeline
from captious.models.store import close_stores, open_store
from captious.options import Runtime, using

UNIFORM = FrameRule()


@pytest.fixture
def clips(shared_data):
    pytest.importorskip("av", reason="PyAV is not installed: pip install 'captious[video]'")
    return shared_data / "tiny_clips"


@pytest.fixture
def mini():
    return loading.load("captious-mini")


@pytest.fixture
def opened(monkeypatch):
    """The videos that were opened."""
    names = []
    decode = module.FileReader._decode_file

    def decode_file(self, process, video, clips):
        names.append(str(video))
        return decode(self, process, video, clips)

    monkeypatch.setattr(module.FileReader, "_decode_file", decode_file)
    return names


def get(encoder, videos, rule="uniform:10", sharing=()):
    listed = [
        video if isinstance(video, Clip) else Clip(video if isinstance(video, VideoData) else str(video))
        for video in videos
    ]
    return frame_features(encoder, listed, FrameRule.parse(rule), sharing)


@pytest.mark.shared_data
def test_a_clip_is_its_images_its_pixels_and_its_features(clips, mini, tmp_path):
    clip = get(mini, [clips / "scenes.mp4"], "uniform:6")
    folder = get(mini, [clips / "frames" / "scenes"], "uniform:6")
    paths = sorted((clips / "frames" / "scenes").glob("*.png"))
    pixels = np.stack([np.asarray(Image.open(path).convert("RGB")) for path in paths])
    array = get(mini, [VideoData(pixels)], "uniform:6")
    listed = get(mini, [VideoData([str(path) for path in paths])], "uniform:6")
    np.save(tmp_path / "v.npy", 3 * folder.of(0))  # features need not have unit length
    features = get(mini, [tmp_path / "v.npy"])
    assert np.abs(clip.of(0) - folder.of(0)).max() < 1e-3
    for same in (array, listed, features):
        assert np.abs(same.of(0) - folder.of(0)).max() < 1e-6
    assert clip.numbers.tolist() == [0, 2, 4, 6, 8, 11] and folder.numbers.tolist() == list(range(6))
    assert clip.times_of(0).tolist() == [0, 0.5, 1.0, 1.5, 2.0, 2.75] and np.isnan(folder.times).all()


@pytest.mark.shared_data
def test_a_second_run_opens_no_video(clips, mini, monkeypatch):
    names = ("scenes.mp4", "counter.webm", "counter_rotated.mp4", "cut.webm")
    before = get(mini, [clips / name for name in names])
    monkeypatch.setitem(sys.modules, "av", None)
    for close in (lambda: None, close_stores):  # from memory, and from the disk as another process would
        close()
        again = get(mini, [clips / name for name in names])
        assert (again.rows[again.index] == before.rows[before.index]).all() and again.counts == before.counts
        assert again.times.tolist() == before.times.tolist()
    assert before.counts == {"short": 1, "cut": 1, "rotated": 1, "unread": 0}


@pytest.mark.shared_data
def test_another_rule_decodes_only_new_frames(clips, mini, monkeypatch):
    asked = []
    decode = module.FileReader._find_missing
    monkeypatch.setattr(
        module.FileReader, "_find_missing", lambda *arguments: asked.append(decode(*arguments)) or asked[-1]
    )
    get(mini, [clips / "counter.mp4"], "uniform:4")  # 0, 6, 12, 19
    asked.clear()
    get(mini, [clips / "counter.mp4"], "uniform:7")  # 0, 3, 6, 9, 12, 15, 19
    assert asked[-1] == [[3, 9, 15]]
    asked.clear()
    get(mini, [clips / "counter.mp4"], "uniform:2")
    assert asked == [[]]


@pytest.mark.shared_data
def test_a_copy_of_a_file_has_the_same_frames(clips, mini, tmp_path, opened):
    first = get(mini, [clips / "counter.mp4"])
    shutil.copy(clips / "counter.mp4", tmp_path / "copy.mp4")
    memory = VideoData((clips / "counter.mp4").read_bytes(), "memory")
    again = get(mini, [tmp_path / "copy.mp4", memory])
    assert (again.of(0) == first.of(0)).all() and (again.of(1) == first.of(0)).all()
    assert opened == [str(clips / "counter.mp4"), str(tmp_path / "copy.mp4")]  # it was read to know its content


@pytest.mark.shared_data
def test_encoders_share_one_decoding(clips, mini, opened):
    other = loading.load("captious-mini-specs")
    get(mini, [clips / "scenes.mp4", clips / "counter.mp4"], sharing=[mini, other])
    shared = get(other, [clips / "scenes.mp4", clips / "counter.mp4"])
    assert len(opened) == 2
    close_stores()
    with using(Runtime(cache=False)):
        alone = get(other, [clips / "scenes.mp4", clips / "counter.mp4"])
    assert np.abs(alone.rows[alone.index] - shared.rows[shared.index]).max() < 1e-6


@pytest.mark.shared_data
def test_parts_of_one_video_are_one_decoding(clips, mini, opened):
    path = str(clips / "counter.mp4")
    parts = get(mini, [Clip(path, 0.0, 0.5), Clip(path, 0.5, 1.0), Clip(path, 5.0)], "uniform:2")
    assert opened == [path]
    assert parts.numbers.tolist() == [0, 4, 5, 9] and np.diff(parts.offsets).tolist() == [2, 2, 0]
    assert parts.faults == {2: "has no frame from 5 s on; it lasts 2 s"}
    assert parts.owners.tolist() == [0, 0, 1, 1]


@pytest.mark.shared_data
def test_reasons_name_no_path(clips, mini):
    faults = get(mini, [clips / name for name in ("cut.mp4", "counter.mp4", "sound.mp4", "no.mp4")]).faults
    assert faults == {
        0: "breaks off before its index (moov)",
        2: "has no picture, only sound",
        3: "no such video",
    }


@pytest.mark.shared_data
def test_a_changed_file_is_read_again(clips, mini, tmp_path):
    path = tmp_path / "a.mp4"
    shutil.copy(clips / "counter.mp4", path)
    before = get(mini, [path]).of(0)
    shutil.copy(clips / "counter_rotated.mp4", path)
    after = get(mini, [path])
    assert after.counts["rotated"] == 1 and np.abs(before - after.of(0)).max() > 1e-3


def test_a_frame_that_is_no_image_is_left_out(mini, tmp_path):
    chance = np.random.default_rng(0)
    for number in range(3):
        Image.fromarray(chance.integers(0, 255, (8, 8, 3), dtype=np.uint8)).save(tmp_path / f"{number}.png")
    (tmp_path / "1.png").write_bytes(b"no image")
    vectors = get(mini, [tmp_path])
    assert vectors.numbers.tolist() == [0, 2] and vectors.counts["unread"] == 1 and not vectors.faults
    for number in (0, 2):
        (tmp_path / f"{number}.png").write_bytes(b"")
    assert get(mini, [tmp_path]).faults == {0: "none of its frames can be used"}


def test_one_frame_is_an_image(mini, tmp_path):
    Image.new("RGB", (8, 8), "red").save(tmp_path / "a.png")
    image = image_features(mini, [tmp_path / "a.png"])
    vectors = get(mini, [VideoData([str(tmp_path / "a.png")])])
    assert (vectors.of(0)[0] == image.rows[image.index[0]]).all()


def test_features_of_another_encoder(mini, tmp_path):
    with pytest.raises(InputError, match=f"v1 has 768 columns, the encoder captious-mini has {mini.dimension}"):
        get(mini, [VideoData(np.ones((6, 768)), "v1")])
    broken = get(mini, [VideoData(np.full((6, mini.dimension), np.nan), "v1")])
    assert broken.faults == {0: "its vectors are not finite"}
    part = get(mini, [Clip(VideoData(np.ones((6, mini.dimension)), "v1"), 1.0)])
    assert part.faults[0].endswith("start and end need times")


def test_a_long_timeline_takes_several_rows():
    chance = np.random.default_rng(1)
    times = np.cumsum(chance.random(3000))
    store = open_store(TIMELINES)
    write_timeline(store, b"d" * 16, Timeline(times, times > 5, 4000.0, 90, 0, True))
    store.settle()
    same = read_timeline(store, b"d" * 16)
    assert (same.times == times).all() and same.rotation == 90 and same.cut
    assert read_timeline(store, b"e" * 16) is None


def test_no_clips_are_no_vectors(mini):
    vectors = frame_features(mini, [], UNIFORM)
    assert len(vectors) == 0 and vectors.rows.shape == (0, mini.dimension)
