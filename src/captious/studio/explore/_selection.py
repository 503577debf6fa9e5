"""A selection of items as the input files of a rating study."""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from captious._core.files import whole_folder
from captious.errors import InputError
from captious.runs.folder import name_system_folders
from captious.studio.collect.new import new_plan
from captious.studio.explore._records import find_first, get_texts
from captious.studio.explore.table import ItemTable

REFERENCES, STUDY = "references.jsonl", "study.toml"
# File with the ids, one per line; it marks a folder of a selection.
MARKER = "ids.txt"
# Most items of a study.
MOST = 100_000


def write_selection(table: ItemTable, items: Sequence[int], name: str, parent: Path) -> dict[str, Any]:
    """Write the captions, references and study file of some items into a new folder; return the commands to run."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-")
    if not 0 < len(plain) <= 60:
        raise InputError("name: expected 1 to 60 letters, digits or hyphens")
    if not items:
        raise InputError("no item is selected")
    target, rows = parent / plain, list(zip(*table.read_rows(items), strict=True))
    ids = [find_first(own, "id") for own in rows]
    paths = [table.pictures.find_path(key, find_first(own, "image")) for key, own in zip(ids, rows, strict=True)]
    files = {system: f"captions/{stem}.jsonl" for system, stem in name_system_folders(table.systems).items()}
    images = _find_image_folder(paths)
    with whole_folder(target, False, MARKER) as folder:
        (folder / "captions").mkdir()
        (folder / MARKER).write_text("".join(f"{key}\n" for key in ids), encoding="utf-8", newline="\n")
        for system, file in enumerate(files.values()):
            texts = [get_texts(own[system], "candidates") for own in rows]
            entries = [
                {"id": key, "caption": own[0], **_get_image_field(path, images)}
                for key, own, path in zip(ids, texts, paths, strict=True)
                if own
            ]
            _write_jsonl(folder / file, entries)
        references = {key: find_first(own, "references") or [] for key, own in zip(ids, rows, strict=True)}
        if any(references.values()):
            _write_jsonl(folder / REFERENCES, [{"id": key, "references": texts} for key, texts in references.items()])
        (folder / STUDY).write_text(
            _format_study(target, files, images, any(references.values())), encoding="utf-8", newline="\n"
        )
    study = shlex.quote(str(target / STUDY))
    return {
        "folder": str(target),
        "items": len(ids),
        "check": f"captious studio check {study}",
        "serve": f"captious studio serve {study}",
    }


def _format_study(target: Path, files: Mapping[str, str], images: Path | None, referenced: bool) -> str:
    """Return the text of the study file; its paths are relative, so that the folder may move."""
    return new_plan(
        target / STUDY,
        "ratings",
        captions=[f"{system}={os.path.relpath(target / file)}" for system, file in files.items()],
        references=os.path.relpath(target / REFERENCES) if referenced else None,
        images=images,
    )


def _find_image_folder(paths: Sequence[Path | None]) -> Path | None:
    """Return the common parent folder of all images; None without images."""
    folders = [path.absolute().parent for path in paths if path]
    return Path(os.path.commonpath(folders)) if folders else None


def _get_image_field(path: Path | None, folder: Path | None) -> dict[str, str]:
    return {"image": path.absolute().relative_to(folder).as_posix()} if path and folder else {}


def _write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8", newline="\n")
