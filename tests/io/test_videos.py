"""Videos of items: names of columns, folders, forms, parts, and vectors of frames."""

import io
import os
import pickle
import zipfile

import numpy as np
import pytest
from PIL import Image

import captious
from captious.captions import CaptionSet, Clip, VideoData
from captious.errors import InputError
from captious.io.videos import UnreadableVideo, describe_frames, list_frames, load_vectors, match_videos
from captious.options import Reading


def read(*rows, **options):
    return captious.read([{"caption": "a dog", **row} for row in rows], reading=Reading(**options))


@pytest.mark.parametrize("column", ["video", "video_path", "clip", "file_name", "filename", "path"])
def test_a_column_that_names_a_video(column):
    captions = read({"id": 1, column: "a.MP4"})
    assert captions.columns == {"video": ("a.MP4",)} and captions.clips == [Clip("a.MP4")] and captions.has_videos


def test_columns_that_name_no_video():
    captions = read({"id": 1, "file_name": "a.jpg", "clip": 0.31})
    assert captions.columns == {"image": ("a.jpg",), "clip": (0.31,)} and not captions.has_videos
    assert read({"id": 1, "image": "a.gif"}).images == ["a.gif"]  # the first frame, as ever
    assert read({"id": 1, "file_name": "a.gif"}).clips == [Clip("a.gif")]


def test_a_column_of_numbers_is_no_video():
    captions = read({"id": 1, "video": [1, 2]}, {"id": 2, "video": 7})
    assert captions.columns == {"video": ([1, 2], 7)} and not captions.has_videos and captions.clips == [None, None]


def test_an_image_and_a_video_of_one_item():
    captions = read({"id": 1, "image": "a.jpg", "video": "a.mp4"}, {"id": 2, "image": "b.jpg", "video": None})
    assert captions.images == ["a.jpg", "b.jpg"] and captions.clips == [Clip("a.mp4"), None]


def test_the_id_of_a_video_is_an_id():
    assert read({"video_id": "v_1", "video": "a.mp4"}).ids == ("v_1",)
    assert read({"video": "a.mp4"}).ids == ("a.mp4",)


def test_parts_of_videos():
    captions = read({"id": 1, "video": "a.mp4", "start": 1, "end": "2.5"}, {"id": 2, "video": "a.mp4", "end": None})
    assert captions.clips == [Clip("a.mp4", 1.0, 2.5), Clip("a.mp4")]
    for part, line in [
        ({"start": 9, "end": 4.1}, r"id '1': ends \(4.1\) before it starts \(9\)"),
        ({"start": -1}, "id '1': start is '-1', expected seconds from 0"),
        ({"end": "soon"}, "id '1': end is 'soon', expected seconds from 0"),
        ({"end": float("nan")}, "id '1': end is 'nan', expected seconds"),
        ({"end": "1_0"}, "id '1': end is '1_0', expected seconds"),  # 10.0 for Python
        ({"end": 10**400}, "id '1': end is '10000"),
    ]:
        with pytest.raises(InputError, match=line):
            read({"id": 1, "video": "a.mp4", **part}, frames="all")
        captions = read({"id": 1, "video": "a.mp4", **part})  # metrics of texts may ignore it
        with pytest.raises(InputError, match=line):
            _ = captions.clips
        with pytest.raises(InputError, match="to leave it out"):
            read({"id": 1, "video": "a.mp4", **part}, frames="all")
    rows = [{"id": 1, "video": "a.mp4", "start": 9, "end": 4}, {"id": 2, "video": "a.mp4"}]
    captions = read(*rows, frames="all", missing="skip")
    assert captions.ids == ("2",) and captions.skipped == 1
    assert captions.origin.remarks[0].endswith("1 left out: ends before it starts (id '1')")
    assert read({"id": 1, "start": "early"}).columns == {"start": ("early",)}  # without a video it means nothing


@pytest.fixture
def folder(tmp_path):
    for name in ("a.mp4", "v_abc.webm", "x-7.mkv", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    (tmp_path / "scene").mkdir()
    return tmp_path


def test_a_folder_of_videos(folder):
    ids = ("1", "abc", "v_x-7", "scene", "nothing")
    videos = match_videos(folder, ids, ("deep/a.avi", None, None, None, None))
    assert videos == tuple(str(folder / name) for name in ("a.mp4", "v_abc.webm", "x-7.mkv", "scene", "nothing"))


def test_a_folder_without_any_of_the_videos(folder):
    with pytest.raises(InputError, match=r"no video of any item: looked for 9.mp4 .* v_9.mp4 .* found 4 such as a.mp4"):
        match_videos(folder, ("9",))
    with pytest.raises(InputError, match="no such folder of videos"):
        match_videos(folder / "no", ("9",))


def test_frames_of_a_folder_are_sorted_by_numbers(tmp_path):
    for name in ("10.jpg", "2.jpg", "1b.png", "1a.png", "notes.txt"):
        (tmp_path / name).write_bytes(b"")
    assert [path.rpartition("/")[2] for path in list_frames(tmp_path)] == ["1a.png", "1b.png", "2.jpg", "10.jpg"]


def test_forms_of_videos_in_memory():
    pixels = np.zeros((3, 4, 5, 3), np.uint8)
    pixels[1] = 255
    assert [one.picture().getpixel((0, 0))[0] for one in VideoData(pixels).images()] == [0, 255, 0]
    first = VideoData(np.moveaxis(pixels, -1, 1) / 255.0).images()
    assert [one.picture().size for one in first] == [(5, 4)] * 3 and first[1].picture().getpixel((0, 0))[0] == 255
    listed = VideoData(["1.png", Image.new("RGB", (2, 2))]).images()
    assert listed[0] == "1.png" and listed[1].picture().size == (2, 2)
    vectors = VideoData(np.ones((6, 64)))
    assert vectors.has_vectors and vectors.images() == [] and load_vectors(vectors).shape == (6, 64)
    for value, line in [
        (np.zeros((2, 3, 4)), r"shape 2 × 3 × 4, expected frames × height × width × 3"),
        (np.zeros((0, 64)), "shape 0 × 64"),
        ([], "is list"),
        ([3], "frame 0: is int"),
        (7, "is int"),
    ]:
        with pytest.raises(InputError, match=line):
            VideoData(value)


def test_videos_in_a_list_or_by_id():
    pixels = np.zeros((3, 4, 5, 3), np.uint8)
    captions = captious.read(["a dog", "a cat"], reading=Reading(videos=[pixels, "b.mp4"]))
    assert isinstance(captions.clips[0].video, VideoData) and captions.clips[1] == Clip("b.mp4")
    assert captions.origin_line.endswith("videos: in memory; frames: uniform:10")
    with pytest.raises(InputError, match="videos: 1 for 2 captions"):
        captious.read(["a dog", "a cat"], reading=Reading(videos=[pixels]))
    with pytest.raises(InputError, match="videos: no id is also one of the captions'"):
        captious.read({"1": "a dog"}, reading=Reading(videos={"2": pixels}))
    held = CaptionSet.of({"1": "a dog"})
    assert captious.read(held, reading=Reading(videos={1: "b.mp4"}, frames="fps:1")).clips == [Clip("b.mp4")]


def test_vectors_of_frames_in_files(tmp_path):
    vectors = np.arange(12, dtype=np.float32).reshape(3, 4)
    np.save(tmp_path / "a.npy", vectors)
    np.savez(tmp_path / "features.npz", a=vectors, b=vectors[:2])
    assert (load_vectors(str(tmp_path / "a.npy")) == vectors).all()
    captions = captious.read({"a": "a dog", "b": "a cat"}, reading=Reading(videos=tmp_path / "features.npz"))
    assert [len(clip.video.vectors()) for clip in captions.clips] == [3, 2]
    assert captions.origin_line.endswith("videos: file features.npz")
    with pytest.raises(UnreadableVideo, match="contains 2 arrays, expected one"):
        load_vectors(str(tmp_path / "features.npz"))
    (tmp_path / "bad.npy").write_bytes(b"nothing")
    with pytest.raises(UnreadableVideo, match="expected vectors of frames"):
        load_vectors(str(tmp_path / "bad.npy"))
    np.save(tmp_path / "flat.npy", np.ones(3))
    with pytest.raises(UnreadableVideo, match=r"the array is float64 of shape 3, expected frames × dimension"):
        load_vectors(str(tmp_path / "flat.npy"))


def test_signatures_name_the_rule_or_the_vectors(tmp_path):
    np.savez(tmp_path / "features.npz", a=np.ones((2, 4)), b=np.ones((2, 4)))
    both = captious.read({"a": "a dog", "b": "a cat"}, reading=Reading(videos=tmp_path / "features.npz"))
    named = describe_frames(both)
    assert named.startswith("features#") and describe_frames(both.take([1])) == named
    np.savez(tmp_path / "features.npz", a=np.ones((2, 4)), b=np.zeros((2, 4)))
    again = captious.read({"a": "a dog", "b": "a cat"}, reading=Reading(videos=tmp_path / "features.npz"))
    assert describe_frames(again) != named
    files = read({"id": 1, "video": "a.mp4"}, frames="fps:1")
    assert describe_frames(files) == "fps:1"


def test_events_of_one_video(folder, tmp_path):
    """Each event is an item with its own id: the video is found by `video_id`."""
    rows = [{"id": f"abc#{number}", "video_id": "abc", "start": number, "end": number + 1} for number in (1, 2)]
    captions = read(*rows, videos=folder)
    assert captions.clips == [Clip(str(folder / "v_abc.webm"), number, number + 1) for number in (1.0, 2.0)]
    np.savez(tmp_path / "f.npz", abc=np.ones((2, 4)))
    assert all(clip.video.has_vectors for clip in read(*rows, videos=tmp_path / "f.npz").clips)


def test_odd_entries_of_a_folder_cost_no_other_item(tmp_path):
    (tmp_path / "a.mp4").write_bytes(b"x")
    (tmp_path / "loop.mp4").symlink_to(tmp_path / "loop.mp4")
    names = ["a.mp4", "loop.mp4", "x" * 5000 + "/b.mp4"]
    found = match_videos(tmp_path, ["1", "2", "3"], names)
    assert found == (str(tmp_path / "a.mp4"), str(tmp_path / "loop.mp4"), str(tmp_path / "b.mp4"))


def pack(**members):
    """Return the bytes of a .npz file with these members."""
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in members.items():
            archive.writestr(f"{name}.npy", content)
    return file.getvalue()


def write_header(shape):
    """Return a .npy file that promises an array of float32, without its numbers."""
    head = f"{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}".ljust(117) + "\n"
    return b"\x93NUMPY\x01\x00" + len(head).to_bytes(2, "little") + head.encode()


class Evil:
    def __reduce__(self):
        return pytest.fail, ("a pickle was opened",)


def save(array):
    file = io.BytesIO()
    np.save(file, array, allow_pickle=True)
    return file.getvalue()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (save(np.array([Evil()], dtype=object)), "a pickled one, which is never opened"),
        (pickle.dumps(Evil()), "a pickled one, which is never opened"),
        (b"", "No data left"),
        (write_header((10**14, 128)), "Unable to allocate"),
        (write_header((5, 128)), "EOF: reading array data, expected 2560 bytes got 0"),  # 5 · 128 · 4 bytes
        (pack(a=b"no array"), "a is no array, expected frames × dimension"),
        (
            pack(a=save(np.ones((2, 3)))).replace(b"\x14\x03\x14\x00\x00", b"\x14\x03\x14\x00\x01"),
            "encrypted",
        ),  # a flag
        (
            pack(a=write_header((300 << 11, 128)) + bytes(300 << 20)),
            "bytes that unpack to 314,572,",
        ),
    ],
)
def test_files_that_are_no_vectors(content, reason, tmp_path):
    path = tmp_path / ("a.npz" if content.startswith(b"PK") else "a.npy")
    path.write_bytes(content)
    with pytest.raises(UnreadableVideo, match=reason):
        load_vectors(str(path))


def test_vectors_from_a_pipe_have_a_reason(tmp_path):
    os.mkfifo(tmp_path / "a.npy")
    with pytest.raises(UnreadableVideo, match="is a named pipe, expected a regular file"):
        load_vectors(str(tmp_path / "a.npy"))


def test_a_result_says_where_videos_are_from_and_which_frames_count(folder):
    captions = read({"id": "a"}, videos=folder, frames="middle:4")
    assert captions.origin_line.endswith(f"; videos: folder {folder.name}/; frames: middle:4")
