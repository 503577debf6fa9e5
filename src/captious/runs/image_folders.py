"""The image folders with which this user scored runs, so that a run can be viewed without naming its folder again.

A run contains no path of this machine, because it may be given to others. The path of its images is kept in the data
folder of the user instead, one small file per run: a run that comes from somebody else has none, and opens no image
outside its own folder.
"""

from __future__ import annotations

import os
from pathlib import Path

from captious._core.files import digest, get_data_folder, write_atomically


def remember_images(run: str | Path, images: str | Path) -> None:
    """Store the folder of the images of a run; without a data folder that can be written, do nothing."""
    folder = Path(os.path.realpath(images))
    if not folder.is_dir():
        return
    try:
        with write_atomically(_get_note_path(run)) as draft:
            draft.write_text(str(folder), encoding="utf-8")
    except OSError:  # only a convenience: a read-only home must not fail the scoring
        return


def recall_images(run: str | Path) -> Path | None:
    """Return the folder of images with which this user wrote the run; None if it is unknown or does not exist."""
    try:
        folder = Path(_get_note_path(run).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return folder if folder.is_dir() else None


def _get_note_path(run: str | Path) -> Path:
    return get_data_folder() / "image-folders" / digest(os.fsencode(os.path.realpath(run)))
