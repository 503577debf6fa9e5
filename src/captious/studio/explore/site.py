"""The explorer as a folder that any web server can show: the page, its scripts, the data and the images."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from captious._files import MARKER, whole_folder
from captious.errors import InputError
from captious.render.html import bundle
from captious.render.items import DECIMALS, small_image
from captious.render.tables import dumps, provenance
from captious.studio.explore.page import POLICY, STATIC, explorer_page, style_of, title_of
from captious.studio.explore.pictures import Pictures
from captious.studio.explore.records import Records
from captious.studio.explore.table import Joined
from captious.studio.explore.views import Explorer

MOST = 20_000
"""Items of a page without a server."""
LARGE = 1024
"""Longest side in pixels of an image that is shown large."""


def export_site(
    table: Joined,
    out: str | Path,
    overwrite: bool = False,
    images: Path | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> int:
    """Write the explorer of a table into a folder; gives how many images could not be read.

    ``images`` is the only folder that images come from, where one is named.
    """
    if len(table) > MOST:
        raise InputError(f"{len(table):,} items, expected at most {MOST:,} on a page without a server")
    for run in table.runs:
        if Path(out).resolve() in (run.folder.resolve(), *run.folder.resolve().parents):
            raise InputError(f"{out}: holds the run {run.root}, expected another folder for the page")
    with whole_folder(out, overwrite) as folder:
        (folder / "explore.js").write_text(bundle(STATIC), encoding="utf-8", newline="\n")
        (folder / "explore.css").write_text(style_of(), encoding="utf-8", newline="\n")
        thumbnails, large, pictures, unreadable = _images(table, folder, Pictures(table.images, images), progress)
        data = {**data_of(table), "pictures": pictures, "large": large, "unreadable": unreadable}
        page = explorer_page(table, {"data": data, "images": thumbnails}, POLICY)
        (folder / "index.html").write_bytes(page.encode("utf-8", "replace"))
        (folder / MARKER).write_text(
            dumps({**provenance(), "title": title_of(table)}) + "\n", encoding="utf-8", newline="\n"
        )
    return unreadable


def _images(
    table: Joined, folder: Path, pictures: Pictures, progress: Callable[[int, int], None] | None
) -> tuple[list[str], list[str], list[int | None], int]:
    """Write thumbnails and images; gives their addresses, the number of each item's, and how many could not be read."""
    thumbnails: list[str] = []
    large: list[str] = []
    numbers: dict[str, int | None] = {}
    for name in ("thumbnails", "images"):
        (folder / name).mkdir()
    for item, path in enumerate(table.images):
        if path and path not in numbers:
            numbers[path] = None
            small = pictures.thumbnail(item)
            whole = small_image(str(pictures.file(item)[0]), LARGE) if small else None
            if small and whole:
                number = len(thumbnails)
                kind = small[1].partition("/")[2]
                thumbnails.append(f"thumbnails/{number}.{kind}")
                large.append(f"images/{number}.{whole[0]}")
                (folder / thumbnails[-1]).write_bytes(small[0])
                (folder / large[-1]).write_bytes(whole[1])
                numbers[path] = number
        if progress:
            progress(item + 1, len(table))
    unreadable = sum(number is None for number in numbers.values())
    return thumbnails, large, [numbers[path] if path else None for path in table.images], unreadable


def data_of(table: Joined) -> dict[str, Any]:
    """What the page's scripts read, in the form of a report's page, with ratings and their gaps."""
    systems, items = range(len(table.systems)), range(len(table))
    records = Records(Explorer(table), lambda item: (None, None))
    whole = [records.brief(item) for item in items]
    return {
        "ids": table.ids,
        "systems": [
            {"name": run.name, "signatures": [run.signatures.get(score.key, "") for score in table.scores]}
            for run in table.runs
        ],
        "metrics": [
            {"key": one.key, "label": one.label, "higher": one.higher, "range": one.range, "kind": one.kind}
            for one in table.scores
        ],
        "values": [[np.round(column, DECIMALS) for column in columns] for columns in table.values],
        "lengths": [np.round(words, 2) for words in table.words],
        "reasons": [_reasons(table, whole, system) for system in systems],
        "shown": list(items),
        "candidates": [[record["systems"][system]["texts"] for record in whole] for system in systems],
        "references": [record["references"] for record in whole],
        "fields": [record["fields"] for record in whole],
        "explanations": [],
        "gaps": list(table.gaps) or None,
        "opinions": [{item: said for item in items if (said := records.opinions(system, item))} for system in systems],
    }


def _reasons(table: Joined, records: list[dict[str, Any]], system: int) -> list[dict[str, str]]:
    """For each score why items have no value, by id."""
    reasons: list[dict[str, str]] = [{} for _ in table.scores]
    for record in records:
        for place, reason in enumerate(record["systems"][system]["reasons"]):
            if reason:
                reasons[place][record["id"]] = reason
    return reasons
