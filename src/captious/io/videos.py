"""Videos: matching files to items, and the forms that a video may have.

A video is a file that PyAV decodes (see `captious.io.clip_files`), a folder of images or a list of them, an array of
pixels, or vectors of its frames that an encoder made elsewhere.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any, ClassVar
from zipfile import ZipFile

import numpy as np
import numpy.typing as npt

from captious._core.files import digest, is_folder, read_regular
from captious.captions import VIDEO, CaptionSet, ImageSource, VideoData, VideoSource
from captious.errors import InputError
from captious.io.columns import NO_VIDEO, VECTOR_SUFFIXES, VIDEO_SUFFIXES
from captious.io.images import SUFFIXES, ImageFolder, index_by_id

# A zip file of vectors may unpack to this many bytes, or to this multiple of its size. Vectors hardly compress, so that
# a larger multiple is an attack.
MOST_UNPACKED, LARGEST_RATIO = 256 << 20, 50
_NUMBERS = re.compile(r"(\d+)")


class UnreadableVideo(InputError):
    """A video that cannot be used; the message names it and gives the reason."""


class VideoFolder(ImageFolder):
    """A folder of videos: files, folders of frames, or files of vectors.

    A video is searched by its file name, by the same name with another ending, by the item's id, and by the id with
    ``v_`` added or removed, as ActivityNet writes it.
    """

    suffixes: ClassVar[frozenset[str]] = frozenset({*VIDEO_SUFFIXES, *VECTOR_SUFFIXES})
    what: ClassVar[str] = "video"

    @cached_property
    def _folders(self) -> set[str]:
        """Names of the folders in this folder."""
        with os.scandir(self.path) as entries:
            return {entry.name for entry in entries if is_folder(entry)}

    def find(self, name: str, key: str) -> Path | None:
        """Return the video of an item with this id; ``name`` is the video in its row, which may be a relative path."""
        if (video := super().find(name, key)) is not None:
            return video
        for stem in dict.fromkeys(filter(None, (Path(name).name, Path(name).stem, key))):
            other = stem.removeprefix("v_") if stem.startswith("v_") else f"v_{stem}"
            for wanted in (stem, other):
                if wanted in self._folders:
                    return self.path / wanted
                if file := self._stems.get(wanted):
                    return self.path / file
        return None

    def without(self, wanted: str) -> str:
        """Return the message for a folder without any matching video: the names tried and the files found."""
        stem = Path(wanted).stem
        names = [*self._names, *sorted(self._folders)]
        found = f"{len(names):,} such as {names[0]}" if names else "none"
        return (
            f"{self.path}: contains no video of any item: looked for {stem}.mp4 (.webm, .mkv, .npy, …), v_{stem}.mp4 "
            f"and a folder {stem}/ of frames, found {found}"
        )


def get_video_names(columns: Mapping[str, Sequence[Any]], items: int) -> list[str]:
    """Return the video that each row names: in the column `video`, or in `video_id`, as in tables of events."""
    nothing = (None,) * items
    cells = zip(columns.get(VIDEO, nothing), columns.get("video_id", nothing), strict=True)
    return [video if isinstance(video, str) and video else "" if id is None else str(id) for video, id in cells]


def match_videos(
    videos: Any, ids: Sequence[str], names: Sequence[Any] | None = None, listed: Sequence[str] | None = None
) -> tuple[VideoSource | None, ...]:
    """Return the video of each item: from a folder, a file of vectors, a dictionary by id, or a list in order.

    ``names`` are the videos in the rows; ``listed`` are the ids that a list follows, if they differ from the items'.
    """
    if isinstance(videos, (str, os.PathLike)):
        path = Path(videos)
        if path.suffix.lower() == ".npz" and not is_folder(path):
            mark = digest(read_regular(path))
            videos = {key: VideoData(array, f"{path.name}: {key}", mark) for key, array in read_vectors(path).items()}
        else:
            return find_videos(path, ids, names)
    if isinstance(videos, Mapping):  # by the id of the item, or by the video that its row names
        videos = {
            **videos,
            **{key: videos[name] for key, name in zip(ids, names or (), strict=False) if name in videos},
        }
    by_id = index_by_id(videos, "videos", _list_videos, ids, listed)
    return tuple(_check_video(by_id.get(key), key) for key in ids)


def _list_videos(videos: Any) -> Sequence[Any]:
    if not isinstance(videos, (list, tuple)):
        raise InputError(
            f"videos: {type(videos).__name__}, expected a folder, a list in the order of the captions, or a dict by id"
        )
    return videos


def find_videos(folder: str | Path, ids: Sequence[str], names: Sequence[Any] | None = None) -> tuple[str, ...]:
    """Return the path of each item's video as `VideoFolder` finds it, or the expected path if there is none."""
    return VideoFolder(folder).find_all(ids, [name if isinstance(name, str) else "" for name in names or ()])


def _check_video(value: Any, key: str) -> VideoSource | None:
    if value is None or isinstance(value, (str, os.PathLike)):
        return None if value is None else os.fspath(value)
    video = VideoData.of(value, f"video of {key}")
    if video is None:
        raise InputError(
            f"videos: that of {key} is {type(value).__name__}, expected a path, a list of frames, or an array"
        )
    return video


def list_frames(folder: str | Path) -> list[str]:
    """Return the images of a folder of frames by the numbers in their names, ``2.jpg`` before ``10.jpg``, then by name.

    Raise UnreadableVideo if there is none.
    """
    try:
        with os.scandir(folder) as entries:
            names = [entry.name for entry in entries if Path(entry.name).suffix.lower() in SUFFIXES]
    except OSError as error:
        raise UnreadableVideo(f"{folder}: cannot be read ({error.strerror or error})") from None
    if not names:
        raise UnreadableVideo(f"{folder}: is a folder without an image, expected the frames of a video")
    return [str(Path(folder) / name) for name in sorted(names, key=_get_frame_key)]


def _get_frame_key(name: str) -> tuple[list[int], str]:
    return [int(digits) for digits in _NUMBERS.findall(Path(name).stem)], name


def list_images(video: VideoSource) -> list[ImageSource]:
    """Return the frames of a video that is a folder or a list of images, or an array; an empty list for others."""
    if isinstance(video, VideoData):
        return video.images()
    return list(list_frames(video)) if is_folder(video) else []


def load_vectors(video: VideoSource) -> npt.NDArray[np.float32] | None:
    """Return the vectors of the frames, frames × dimension, if the video is given by them; otherwise None."""
    if isinstance(video, VideoData):
        return video.vectors() if video.has_vectors else None
    if not video.lower().endswith(VECTOR_SUFFIXES):
        return None
    arrays = list(read_vectors(video).values())
    if len(arrays) != 1:
        raise UnreadableVideo(f"{video}: contains {len(arrays)} arrays, expected one, of the frames of one video")
    return arrays[0]


def read_vectors(path: str | Path) -> dict[str, npt.NDArray[np.float32]]:
    """Read the arrays of a ``.npy`` or ``.npz`` file, each frames × dimension, by name."""
    try:
        content = read_regular(path)
    except FileNotFoundError:
        raise UnreadableVideo(f"{path}: {NO_VIDEO}") from None
    except OSError as error:
        raise UnreadableVideo(f"{path}: cannot be read ({error.strerror or error})") from None
    except InputError as error:  # a device or a pipe
        raise UnreadableVideo(str(error)) from None
    return parse_vectors(content, str(path))


def _refuse_bomb(archive: ZipFile, size: int) -> None:
    """Raise ValueError for a zip file that would unpack to far more bytes than vectors can be compressed to."""
    unpacked = sum(entry.file_size for entry in archive.infolist())
    if unpacked > max(MOST_UNPACKED, LARGEST_RATIO * size):
        raise ValueError(f"{size:,} bytes that unpack to {unpacked:,}")


def parse_vectors(content: bytes, where: str) -> dict[str, npt.NDArray[np.float32]]:
    """Return the arrays of a ``.npy`` or ``.npz`` file by name; raise UnreadableVideo if they are not vectors."""
    try:
        loaded = np.load(io.BytesIO(content), allow_pickle=False)
        if hasattr(loaded, "files"):
            _refuse_bomb(loaded.zip, len(content))
            arrays = {name: loaded[name] for name in loaded.files}
        else:
            arrays = {"": loaded}
    except Exception as error:  # NumPy, zipfile and zlib raise a dozen kinds of errors for damaged bytes
        why = re.sub(r" at 0x\w+", "", " ".join(str(error).split()))[:80]
        why = "no array, or a pickled one, which is never opened" if "pickle" in why else why
        raise UnreadableVideo(f"{where}: expected vectors of frames in a .npy or .npz file ({why})") from None
    for name, array in arrays.items():
        if not isinstance(array, np.ndarray):  # a file of another kind in a .npz file
            raise UnreadableVideo(f"{where}: {name} is no array, expected frames × dimension")
        if array.ndim != 2 or 0 in array.shape or array.dtype.kind not in "fiu":
            shape = " × ".join(map(str, array.shape))
            raise UnreadableVideo(
                f"{where}: {name or 'the array'} is {array.dtype} of shape {shape}, expected frames × dimension"
            )
    with np.errstate(over="ignore"):  # what is too large becomes infinite, and is refused as such
        return {name: array.astype(np.float32) for name, array in arrays.items()}


def describe_frames(captions: CaptionSet) -> str:
    """Return how frames of a set's videos are chosen, for signatures: the rule, and a digest of vectors made elsewhere.

    >>> describe_frames(CaptionSet.of({"1": "a dog"}, columns={"video": ["a.mp4"]}))
    'uniform:10'
    """
    videos = [video for video in captions.columns.get(VIDEO, ()) if video]
    given = [video for video in videos if _has_vectors(video)]
    parts = [str(captions.frames)] if len(given) < len(videos) or not videos else []
    if given:
        marks = sorted({mark for video in given if (mark := _digest_vectors(video))})
        mark = marks[0] if len(marks) == 1 else digest("".join(marks).encode()) if marks else ""
        parts.append(f"features#{mark}" if mark else "features")
    return ",".join(parts)


def _has_vectors(video: Any) -> bool:
    if isinstance(video, VideoData):
        return video.has_vectors
    return isinstance(video, str) and video.lower().endswith(VECTOR_SUFFIXES)


def _digest_vectors(video: VideoSource) -> str:
    """Return a digest of vectors: of the file that they come from, or of the numbers."""
    try:
        if isinstance(video, VideoData):
            return digest(video.vectors().tobytes()) if video.digest is None else video.digest
        return digest(read_regular(video))
    except (OSError, InputError):  # the metric gives the reason
        return ""
