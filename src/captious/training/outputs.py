"""The folder of a training: whether it may be written, and models put into it file by file."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.files import refuse_occupied, with_default_modes
from captious.training import checkpoints, log, processes

MARKER = "captious-training.json"
LAST = ("config.json", "captious-encoder.json", "captious-umic.json")
"""Files that say what a folder is: they come when all others are there."""


def prepare(out: Path, resume: bool, overwrite: bool) -> None:
    """Refuse at once what cannot be, such as an occupied folder; clear what a new training replaces."""
    there = out.exists() and (not out.is_dir() or any(out.iterdir()))
    if there and not resume and not overwrite and (out / MARKER).exists():
        raise InputError(f"{out}: holds a training already; --resume goes on with it, --overwrite starts again")
    refuse_occupied(out, overwrite or resume, MARKER)
    if resume:
        checkpoints.refuse_absent(out / checkpoints.FOLDER)
    if overwrite and not resume and processes.rank() == 0:
        for name in (checkpoints.FOLDER, "best"):
            shutil.rmtree(out / name, ignore_errors=True)
        (out / log.FILE).unlink(missing_ok=True)


def put_model(model: Any, folder: Path) -> None:
    """Save a model into a folder that holds other things: each file whole, the one that says what it is last."""
    folder.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=".model.", suffix=".part", dir=folder) as draft:
        model.save(Path(draft))
        with_default_modes(Path(draft))
        for path in sorted(Path(draft).iterdir(), key=lambda path: path.name in LAST):
            target = folder / path.name
            if path.is_dir():
                shutil.rmtree(target, ignore_errors=True)
            path.replace(target)
