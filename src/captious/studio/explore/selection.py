"""From looking to asking: the items of a selection as the files that a rating study begins with."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from captious._files import whole_folder
from captious.comparison import system_folders
from captious.errors import InputError
from captious.studio.explore.table import Joined

MARKER = "ids.txt"
"""In every folder of a selection: the ids, one a line."""


def write_selection(table: Joined, ids: Sequence[str], name: str, parent: Path) -> dict[str, Any]:
    """Write captions, references and ids of some items into a new folder; gives it with the command for the study."""
    plain = re.sub(r"[^\w.-]+", "-", name).strip(".-")
    if not 0 < len(plain) <= 60:
        raise InputError("name: expected 1 to 60 letters, digits or hyphens")
    if not ids:
        raise InputError("no item is selected")
    items = [table.positions[key] for key in ids]
    target = parent / plain
    files = {system: f"captions/{stem}.jsonl" for system, stem in system_folders(table.systems).items()}
    with whole_folder(target, marker=MARKER) as folder:
        (folder / "captions").mkdir()
        (folder / MARKER).write_text("".join(f"{key}\n" for key in ids), encoding="utf-8")
        for system, file in enumerate(files.values()):
            rows = [
                {"id": key, "caption": text, **_image(table, item)}
                for key, item in zip(ids, items, strict=True)
                for text in table.texts_of(table.captions[system], item)[:1]
            ]
            _write(folder / file, rows)
        references = [
            {"id": key, "references": table.texts_of(table.references, item)}
            for key, item in zip(ids, items, strict=True)
        ]
        has_references = any(row["references"] for row in references)
        if has_references:
            _write(folder / "references.jsonl", references)
    words = ["captious", "studio", "new", "study.toml", "--kind", "ratings"]
    words += [word for file in files.values() for word in ("--captions", file)]
    words += ["--references", "references.jsonl"] if has_references else []
    folders = {str(Path(path).absolute().parent) for item in items if (path := table.images[item])}
    words += ["--images", folders.pop()] if len(folders) == 1 else []
    return {
        "folder": str(target),
        "items": len(ids),
        "command": f"cd {shlex.quote(str(target))} && {shlex.join(words)}",
    }


def _image(table: Joined, item: int) -> dict[str, str]:
    path = table.images[item]
    return {"image": Path(path).name} if path else {}


def _write(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
