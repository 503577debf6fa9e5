"""The explorer as a static site: a folder with the page, its scripts, the data and the images."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import OUTPUT, whole_folder
from captious.errors import InputError
from captious.io.columns import AUDIO_COLUMN
from captious.render import Document
from captious.render.exports import dumps, get_provenance
from captious.render.html import render_page as document_page
from captious.render.items import DECIMALS, make_small_image
from captious.studio.explore._item_json import Addresses, Records, find_first
from captious.studio.explore._page import (
    POLICY,
    REPORT,
    STATIC,
    format_title,
    join_explorer_scripts,
    join_styles,
    render_explorer_page,
)
from captious.studio.explore._view_summary import Summaries
from captious.studio.explore._views import Explorer
from captious.studio.explore.explorer_table import ItemTable

# Most items of a static page.
MOST = 20_000
# Longest side of a large image in pixels.
LARGE = 1024


def export_site(
    table: ItemTable,
    out: str | Path,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    report: Document | None = None,
) -> int:
    """Write the explorer of a table, and a report, into a folder; return the number of unreadable images."""
    if len(table) > MOST:
        raise InputError(f"{len(table):,} items, expected at most {MOST:,} on a page without a server")
    for run in table.runs:
        inner = Path(run.run.address).resolve()
        if Path(out).resolve() in (inner, *inner.parents):
            raise InputError(f"{out}: contains the run {run.root}, expected another folder for the page")
    with whole_folder(out, overwrite) as folder:
        (folder / "explore.js").write_text(join_explorer_scripts(STATIC), encoding="utf-8", newline="\n")
        (folder / "explore.css").write_text(join_styles(), encoding="utf-8", newline="\n")
        thumbnails, large, pictures, unreadable = _write_images(table, folder, progress)
        sounds = _write_sounds(table, folder)
        data = {**build_data(table), "pictures": pictures, "large": large, "sounds": sounds, "unreadable": unreadable}
        page = render_explorer_page(table, {"data": data, "images": thumbnails}, POLICY, report is not None)
        if report is not None:
            (folder / REPORT).write_text(document_page(report), encoding="utf-8", errors="replace", newline="\n")
        (folder / "index.html").write_bytes(page.encode("utf-8", "replace"))
        (folder / OUTPUT).write_text(
            dumps({**get_provenance(), "title": format_title(table)}) + "\n", encoding="utf-8", newline="\n"
        )
    return unreadable


def _write_images(
    table: ItemTable, folder: Path, progress: Callable[[int, int], None] | None
) -> tuple[list[str], list[str], list[int | None], int]:
    """Write thumbnails and images; return their URLs, the index of each item's, and how many could not be read."""
    thumbnails: list[str] = []
    large: list[str] = []
    numbers: dict[Path, int | None] = {}
    for name in ("thumbnails", "images"):
        (folder / name).mkdir()
    named = [
        (find_first(own, "id"), find_first(own, "image"))
        for own in zip(*table.read_rows(range(len(table))), strict=True)
    ]
    paths = [table.pictures.find_path(*one) for one in named]
    for item, (one, path) in enumerate(zip(named, paths, strict=True), start=1):
        if path and path not in numbers:
            numbers[path] = None
            small = table.pictures.make_thumbnail(*one)
            whole = make_small_image(str(table.pictures.find_file(*one)[0]), LARGE) if small else None
            if small and whole:
                number = len(thumbnails)
                kind = small[1].partition("/")[2]
                thumbnails.append(f"thumbnails/{number}.{kind}")
                large.append(f"images/{number}.{whole[0]}")
                (folder / thumbnails[-1]).write_bytes(small[0])
                (folder / large[-1]).write_bytes(whole[1])
                numbers[path] = number
        if progress:
            progress(item, len(table))
    unreadable = sum(number is None for number in numbers.values())
    return thumbnails, large, [numbers[path] if path else None for path in paths], unreadable


def _write_sounds(table: ItemTable, folder: Path) -> list[str | None]:
    """Copy the sounds; return the URL of each item's, None if it has none that may be played."""
    (folder / "sounds").mkdir()
    addresses: dict[Path, str] = {}
    sounds: list[str | None] = []
    for own in zip(*table.read_rows(range(len(table))), strict=True):
        try:
            path, _ = table.sounds.find_file(find_first(own, "id"), find_first(own, AUDIO_COLUMN))
        except InputError:
            sounds.append(None)
            continue
        if path not in addresses:
            addresses[path] = f"sounds/{len(addresses)}{path.suffix.lower()}"
            shutil.copyfile(path, folder / addresses[path])
        sounds.append(addresses[path])
    return sounds


def build_data(table: ItemTable) -> dict[str, Any]:
    """Build the data of the page, in the format of a report's page, with ratings and their gaps."""
    systems, items, scores = range(len(table.systems)), range(len(table)), range(len(table.scores))
    explorer = Explorer(table)
    records, summaries = Records(explorer, lambda item, rows: Addresses()), Summaries(explorer)
    whole = records.build_cards(items)
    gaps = [table.read_column(table.get_gap_sql(system)) for system in systems] if table.ratings else None
    return {
        "ids": [record["id"] for record in whole],
        "systems": [
            {"name": run.name, "signatures": [run.signatures.get(score.key, "") for score in table.scores]}
            for run in table.runs
        ],
        "metrics": [
            {
                "key": one.key,
                "label": one.label,
                "higher": one.higher,
                "range": one.range,
                "kind": one.kind,
                "decimals": one.decimals,
            }
            for one in table.scores
        ],
        "whole": [summaries.summarize_all(score) for score in scores],
        "level": summaries.get_level(systems),
        "values": [[np.round(table.read_values(system, score), DECIMALS) for score in scores] for system in systems],
        "lengths": [np.round(table.read_column(table.get_words_sql(system)), 2) for system in systems],
        "reasons": [_collect_reasons(table, whole, system) for system in systems],
        "shown": list(items),
        "candidates": [[record["systems"][system]["texts"] for record in whole] for system in systems],
        "references": [record["references"] for record in whole],
        "fields": [record["fields"] for record in whole],
        "explanations": [],
        "gaps": gaps,
        "ratings": [
            {item: _drop_empty(said) for item in items if (said := records.list_ratings(system, item))}
            for system in systems
        ],
    }


def _drop_empty(ratings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Drop missing comments and times, because the page contains thousands of ratings."""
    return [{name: value for name, value in one.items() if value not in (None, "")} for one in ratings]


def _collect_reasons(table: ItemTable, records: list[dict[str, Any]], system: int) -> list[dict[str, str]]:
    """Return the reasons why items have no value, by id, for each score."""
    reasons: list[dict[str, str]] = [{} for _ in table.scores]
    for record in records:
        for place, reason in enumerate(record["systems"][system]["reasons"]):
            if reason:
                reasons[place][record["id"]] = reason
    return reasons
