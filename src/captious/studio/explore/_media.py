"""Images, sounds and videos of items: cached thumbnails and posters, and the original files.

A run may come from somebody else, and its paths may point anywhere. So only files inside the folder of the run are
opened, or files in the one folder that the user has named.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from typing import ClassVar

from captious._core.files import digest, get_data_folder, write_atomically
from captious.errors import InputError
from captious.io.images import ImageFolder, SoundFolder
from captious.io.storage import is_remote
from captious.io.videos import VideoFolder
from captious.models.clip_stills import can_decode, make_poster, make_strip, read_times
from captious.render.items import make_small_image
from captious.studio._video_events import Part
from captious.studio.access import find_image_file, find_media_path, find_sound_file, find_video_file

# Longest side of a thumbnail in pixels.
SIDE = 320


class Media(ABC):
    """Files of items that may be shown, by the id of an item and the name in its row."""

    folders: ClassVar[type[ImageFolder]]
    what: ClassVar[str]

    def __init__(self, runs: Sequence[str], folder: str | Path | None = None) -> None:
        """Use only the files in ``folder``, or those in the folders of the runs if it is None."""
        self.folder = None if folder is None else self.folders(folder)
        self._roots = [Path(run).resolve() for run in runs if not is_remote(run)]

    def find_path(self, id: str, name: str | None) -> Path | None:
        """Return the path of an item's file; None if there is none that may be shown."""
        name = name if isinstance(name, str) else None  # a run from elsewhere may have any type in this column
        if self.folder is not None:
            if name and "/" in name and (path := _find_inside(self.folder.path.resolve(), name)):
                return path
            # An absolute path comes from another computer: only its file name is of use here.
            return self.folder.find(Path(name).name if name and Path(name).is_absolute() else name or "", id)
        return next(filter(None, (_find_inside(root, name) for root in self._roots)), None)

    def find_file(self, id: str, name: str | None) -> tuple[Path, str]:
        """Return the path of an item's file and its media type; raise InputError if there is none that may be shown."""
        return self._check_file(*self._find_root(id, name))

    def _find_root(self, id: str, name: str | None) -> tuple[Path, str]:
        """Return the folder in which an item's file must be, and the path of the file."""
        path = self.find_path(id, name)
        if path is None:
            raise InputError(f"item {id[:80]!r} has no {self.what} that may be shown")
        return (path.parent if self.folder is None else self.folder.path), str(path.absolute())

    @abstractmethod
    def _check_file(self, root: Path, name: str) -> tuple[Path, str]:
        """Return the path of a file inside the folder and its media type; raise InputError if it is not allowed."""


class Sounds(Media):
    """Sound files that may be played."""

    folders: ClassVar[type[ImageFolder]] = SoundFolder
    what: ClassVar[str] = "sound"

    def _check_file(self, root: Path, name: str) -> tuple[Path, str]:
        return find_sound_file(root, name)


class Videos(Media):
    """Video files that may be played, with stills of videos that PyAV decodes."""

    folders: ClassVar[type[ImageFolder]] = VideoFolder
    what: ClassVar[str] = "video"

    def __init__(self, runs: Sequence[str], folder: str | Path | None = None, kept: Path | None = None) -> None:
        """Cache stills in the folder ``kept``, or in the data folder of the user."""
        super().__init__(runs, folder)
        self._kept = kept

    def _check_file(self, root: Path, name: str) -> tuple[Path, str]:
        return find_video_file(root, name)

    def is_played(self, id: str, name: str | None) -> bool:
        """Return True if browsers play the kind of an item's video; its codec may be another that they do not."""
        try:
            self.find_file(id, name)
        except InputError:
            return False
        return True

    def make_poster(self, id: str, name: str | None, part: Part | None = None) -> bytes | None:
        """Return the middle frame of an item's video, or of a part of it, as a JPEG; None if there is none."""
        path = self._find_decodable(id, name)
        return None if path is None else make_poster(path, part, self._kept)

    def make_strip(self, id: str, name: str | None, part: Part | None = None) -> bytes | None:
        """Return frames of an item's video side by side as a JPEG; None if there are none."""
        path = self._find_decodable(id, name)
        return None if path is None else make_strip(path, part, self._kept)

    def read_times(self, id: str, name: str | None) -> list[float] | None:
        """Return when each frame of an item's video is shown, in seconds; None if nothing here decodes it."""
        path = self._find_decodable(id, name)
        return read_times(path) if path is not None and can_decode() else None

    def _find_decodable(self, id: str, name: str | None) -> Path | None:
        """Return the path of a video, also of one that browsers do not play."""
        try:
            return find_media_path(*self._find_root(id, name))
        except InputError:
            return None


class Pictures(Media):
    """Image files that may be shown, with thumbnails."""

    folders: ClassVar[type[ImageFolder]] = ImageFolder
    what: ClassVar[str] = "image"

    def __init__(self, runs: Sequence[str], folder: str | Path | None = None, kept: Path | None = None) -> None:
        """Cache thumbnails in the folder ``kept``, or in the data folder of the user."""
        super().__init__(runs, folder)
        self._kept = kept or get_data_folder() / "thumbnails"

    def _check_file(self, root: Path, name: str) -> tuple[Path, str]:
        return find_image_file(root, name)

    def make_thumbnail(self, id: str, name: str | None) -> tuple[bytes, str] | None:
        """Return the thumbnail of an item, cached if possible, and its media type; None if it cannot be read."""
        try:
            path, _ = self.find_file(id, name)
            facts = path.stat()
        except (InputError, OSError):
            return None
        key = digest(os.fsencode(path), *(str(fact).encode() for fact in (facts.st_mtime_ns, facts.st_size, SIDE)))
        for kind in ("webp", "jpeg"):
            stored = self._kept / key[:2] / f"{key}.{kind}"
            if stored.is_file():
                return stored.read_bytes(), f"image/{kind}"
        small = make_small_image(str(path), SIDE)
        if small is None:
            return None
        kind, content = small
        with write_atomically(self._kept / key[:2] / f"{key}.{kind}") as draft:
            draft.write_bytes(content)
        return content, f"image/{kind}"


def _find_inside(folder: Path, name: str | None) -> Path | None:
    """Return the path of a file in a folder; None if it is elsewhere, or a link that leads out of the folder."""
    if not name or is_remote(name):
        return None
    try:
        path = (folder / name).resolve()
        return path if path.is_relative_to(folder) and path.is_file() else None
    except (OSError, ValueError, RuntimeError):  # a null character, a loop of links
        return None
