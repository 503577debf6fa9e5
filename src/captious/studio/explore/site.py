"""The explorer as a static site: a folder with the page, its scripts, the data and the images."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import OUTPUT, whole_folder
from captious._core.sizes import format_size, parse_size
from captious.captions import VIDEO
from captious.errors import InputError
from captious.io.columns import AUDIO_COLUMN
from captious.models.clip_stills import can_decode
from captious.render import Document
from captious.render.exports import dumps, get_provenance
from captious.render.html import render_page as document_page
from captious.render.items import DECIMALS, make_small_image
from captious.studio._video_events import PART, find_part
from captious.studio.explore._item_json import Addresses, Records, find_first, find_matches, score_matches
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

# Largest number of items of a static page.
MOST = 20_000
# Largest sum of the videos of a page.
MOST_SIZE = "500MB"
# Longest side of a large image in pixels.
LARGE = 1024


def export_site(
    table: ItemTable,
    out: str | Path,
    overwrite: bool = False,
    progress: Callable[[int, int], None] | None = None,
    report: Document | None = None,
    most_size: str = MOST_SIZE,
) -> int:
    """Write the explorer of a table, and a report, into a folder; return the number of unreadable images.

    ``most_size`` is the largest total size of the videos, such as 500MB: they are copied into the folder of the page.
    """
    if len(table) > MOST:
        raise InputError(f"{len(table):,} items, expected at most {MOST:,} on a page without a server")
    for run in table.runs:
        inner = Path(run.run.address).resolve()
        if Path(out).resolve() in (inner, *inner.parents):
            raise InputError(f"{out}: contains the run {run.root}, expected another folder for the page")
    videos = _find_videos(table, parse_size(most_size), most_size)
    with whole_folder(out, overwrite) as folder:
        (folder / "explore.js").write_text(join_explorer_scripts(STATIC), encoding="utf-8", newline="\n")
        (folder / "explore.css").write_text(join_styles(), encoding="utf-8", newline="\n")
        thumbnails, large, pictures, unreadable = _write_images(table, folder, progress)
        sounds = _write_sounds(table, folder)
        clips = _write_videos(table, videos, folder)
        data = {**build_data(table), "pictures": pictures, "large": large, "sounds": sounds, "unreadable": unreadable}
        data |= clips
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
            large_image = make_small_image(str(table.pictures.find_file(*one)[0]), LARGE) if small else None
            if small and large_image:
                number = len(thumbnails)
                kind = small[1].partition("/")[2]
                thumbnails.append(f"thumbnails/{number}.{kind}")
                large.append(f"images/{number}.{large_image[0]}")
                (folder / thumbnails[-1]).write_bytes(small[0])
                (folder / large[-1]).write_bytes(large_image[1])
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


def _find_videos(table: ItemTable, most: int, written: str) -> list[tuple[Path, bool] | None]:
    """Return the video of each item and whether browsers play it; raise InputError if all together are too large."""
    videos: list[tuple[Path, bool] | None] = []
    for own in zip(*table.read_rows(range(len(table))), strict=True):
        key, name = find_first(own, "id"), find_first(own, VIDEO)
        try:
            videos.append((table.videos.find_file(key, name)[0], True))
        except InputError:
            path = table.videos.find_path(key, name)
            videos.append(None if path is None else (path, False))
    total = sum(path.stat().st_size for path in {one[0] for one in videos if one is not None and one[1]})
    if total > most:
        raise InputError(
            f"the videos have {format_size(total)} together, expected at most {written}; pass most_size=... for a "
            "larger folder, or serve the run without out=..."
        )
    return videos


def _write_videos(table: ItemTable, videos: Sequence[tuple[Path, bool] | None], folder: Path) -> dict[str, Any]:
    """Copy the videos and write their posters; return the URLs of each item's, None if it has none.

    A video that browsers do not play is not copied: its strip of frames takes its place.
    """
    if not any(videos):
        return {}
    for name in ("videos", "posters"):
        (folder / name).mkdir()
    addresses: dict[Path, str] = {}
    columns: dict[str, list[str | None]] = {"videos": [], "posters": [], "strips": []}
    rows = zip(*table.read_rows(range(len(table))), strict=True)
    for item, (video, own) in enumerate(zip(videos, rows, strict=True)):
        stills: dict[str, bytes | None] = {}
        path, is_played = video or (None, False)
        if path is not None and can_decode():
            part = find_part({name: find_first(own, name) for name in PART})
            asked = find_first(own, "id"), find_first(own, VIDEO), part
            stills["posters"] = table.videos.make_poster(*asked)
            stills["strips"] = None if is_played else table.videos.make_strip(*asked)
        for name in ("posters", "strips"):
            content = stills.get(name)
            columns[name].append(None if content is None else f"posters/{item}{name[0]}.jpeg")
            if content is not None:
                (folder / f"posters/{item}{name[0]}.jpeg").write_bytes(content)
        if path is not None and is_played and path not in addresses:
            addresses[path] = f"videos/{len(addresses)}{path.suffix.lower()}"
            shutil.copyfile(path, folder / addresses[path])
        columns["videos"].append(addresses[path] if path is not None and is_played else None)
    return {**columns, "has_video": [video is not None for video in videos]}


def build_data(table: ItemTable) -> dict[str, Any]:
    """Build the data of the page, in the format of a report's page, with ratings and their gaps."""
    systems, items, scores = range(len(table.systems)), range(len(table)), range(len(table.scores))
    explorer = Explorer(table)
    records, summaries = Records(explorer, lambda item, rows: Addresses()), Summaries(explorer)
    cards = records.build_cards(items)
    gaps = [table.read_column(table.get_gap_sql(system)) for system in systems] if table.ratings else None
    return {
        "ids": [record["id"] for record in cards],
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
        "reasons": [_collect_reasons(table, cards, system) for system in systems],
        "shown": list(items),
        "candidates": [[record["systems"][system]["texts"] for record in cards] for system in systems],
        "references": [record["references"] for record in cards],
        **_collect_events(cards, systems),
        "fields": [record["fields"] for record in cards],
        "explanations": [],
        "gaps": gaps,
        "ratings": [
            {item: _drop_empty(said) for item in items if (said := records.list_ratings(system, item))}
            for system in systems
        ],
    }


def _collect_events(records: list[dict[str, Any]], systems: Sequence[int]) -> dict[str, Any]:
    """Collect the events of the references and of each system's captions, if any item has them."""
    events = [[record["systems"][system]["events"] for record in records] for system in systems]
    references = [record["events"] for record in records]
    matches = [[find_matches(record, system) for record in records] for system in systems]
    columns: dict[str, Any] = {name: [record[name] for record in records] for name in ("part", "duration")}
    if any(map(any, events)) or any(references):
        scores = score_matches(records)
        columns |= {"events": events, "reference_events": references, "matches": matches}
        columns["meteors"] = [[by_system[system] for by_system in scores] for system in systems]
    return {name: column for name, column in columns.items() if any(column)}


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
