"""From looking to asking: the items of a selection as the files that a rating study begins with."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from captious._files import whole_folder
from captious.errors import InputError
from captious.runs.folder import system_folders
from captious.studio.collect.new import new_plan
from captious.studio.explore.table import Joined

REFERENCES, STUDY = "references.jsonl", "study.toml"
MARKER = "ids.txt"
"""In every folder of a selection: the ids, one a line."""


def write_selection(table: Joined, ids: Sequence[str], name: str, parent: Path) -> dict[str, Any]:
    """Write the captions and references of some items, and a study of them, into a new folder; gives what to run."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-")
    if not 0 < len(plain) <= 60:
        raise InputError("name: expected 1 to 60 letters, digits or hyphens")
    if not ids:
        raise InputError("no item is selected")
    target, items = parent / plain, [table.positions[key] for key in ids]
    files = {system: f"captions/{stem}.jsonl" for system, stem in system_folders(table.systems).items()}
    images = _image_folder(table, items)
    with whole_folder(target, marker=MARKER) as folder:
        (folder / "captions").mkdir()
        (folder / MARKER).write_text("".join(f"{key}\n" for key in ids), encoding="utf-8", newline="\n")
        for captions, file in zip(table.captions, files.values(), strict=True):
            texts = [(key, item, table.texts_of(captions, item)) for key, item in zip(ids, items, strict=True)]
            rows = [
                {"id": key, "caption": own[0], **_image(table.images[item], images)} for key, item, own in texts if own
            ]
            _write(folder / file, rows)
        references = {key: table.texts_of(table.references, item) for key, item in zip(ids, items, strict=True)}
        if any(references.values()):
            _write(folder / REFERENCES, [{"id": key, "references": texts} for key, texts in references.items()])
        (folder / STUDY).write_text(
            _study(target, files, images, any(references.values())), encoding="utf-8", newline="\n"
        )
    study = shlex.quote(str(target / STUDY))
    return {
        "folder": str(target),
        "items": len(ids),
        "check": f"captious studio check {study}",
        "serve": f"captious studio serve {study}",
    }


def _study(target: Path, files: Mapping[str, str], images: Path | None, referenced: bool) -> str:
    """The text of the study; the files of its folder are named relative to it, so that the folder may move."""
    return new_plan(
        target / STUDY,
        "ratings",
        captions=[f"{system}={os.path.relpath(target / file)}" for system, file in files.items()],
        references=os.path.relpath(target / REFERENCES) if referenced else None,
        images=images,
    )


def _image_folder(table: Joined, items: Sequence[int]) -> Path | None:
    """The folder below which the images of all items lie."""
    folders = [Path(path).absolute().parent for item in items if (path := table.images[item])]
    return Path(os.path.commonpath(folders)) if folders else None


def _image(path: str | None, folder: Path | None) -> dict[str, str]:
    return {"image": Path(path).absolute().relative_to(folder).as_posix()} if path and folder else {}


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8", newline="\n")
