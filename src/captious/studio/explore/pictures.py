"""Images of items by number: thumbnails, made once and kept, and the files themselves where a browser shows them."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from captious._files import data_folder, digest, whole_file
from captious.errors import InputError
from captious.render.items import small_image
from captious.studio.access import image_file

SIDE = 320
"""Longest side of a thumbnail in pixels."""


class Pictures:
    """The images of a table by the number of their item; no path ever comes from a request."""

    def __init__(self, paths: Sequence[str | None], root: Path | None = None, kept: Path | None = None) -> None:
        """``root``: the only folder that images may lie in; ``kept``: where thumbnails are, else in the data folder."""
        self._paths, self._root = paths, root
        self._kept = kept or data_folder() / "thumbnails"

    def __contains__(self, number: int) -> bool:
        return 0 <= number < len(self._paths) and bool(self._paths[number])

    def file(self, number: int) -> tuple[Path, str]:
        """The image of an item and its media type; an `InputError` where there is none that may be shown."""
        path = self._paths[number] if number in self else None
        if path is None:
            raise InputError(f"item {number} has no image")
        image = Path(path).absolute()
        return image_file(self._root or image.parent, str(image))

    def thumbnail(self, number: int) -> tuple[bytes, str] | None:
        """The small image of an item and its media type; None where it cannot be read."""
        try:
            path, _ = self.file(number)
            facts = path.stat()
        except (InputError, OSError):
            return None
        key = digest(
            str(path).encode(), str(facts.st_mtime_ns).encode(), str(facts.st_size).encode(), str(SIDE).encode()
        )
        for kind in ("webp", "jpeg"):
            stored = self._kept / key[:2] / f"{key}.{kind}"
            if stored.is_file():
                return stored.read_bytes(), f"image/{kind}"
        small = small_image(str(path), SIDE)
        if small is None:
            return None
        kind, content = small
        with whole_file(self._kept / key[:2] / f"{key}.{kind}") as draft:
            draft.write_bytes(content)
        return content, f"image/{kind}"
