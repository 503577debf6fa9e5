"""The web app of the explorer: JSON endpoints for items and charts, images and sounds, saved views, and new studies.

Requests that change something need the form token; the access rules of ``captious.studio.access`` guard the whole app.
"""

from __future__ import annotations

import json
import os
import re
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from itertools import chain
from pathlib import Path
from threading import Lock
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.files import load_json, whole_folder, write_atomically
from captious._core.numbers import parse_number
from captious.captions import VIDEO
from captious.errors import InputError, format_one_line, require
from captious.io.columns import AUDIO_COLUMN
from captious.io.storage import is_remote
from captious.models.clip_stills import can_decode
from captious.render import Document
from captious.render.html import get_policy
from captious.render.html import render_page as document_page
from captious.runs.folder import name_system_folders
from captious.studio._video_events import PART, Part, find_part
from captious.studio.access import App, Guard, Rules, TokenGate, is_same_token, make_form_token
from captious.studio.collect.new import new_plan
from captious.studio.explore import _chart_data as charts
from captious.studio.explore._item_json import Addresses, Records, Rows, find_first, get_texts
from captious.studio.explore._media import Media
from captious.studio.explore._page import REPORT, SERVED, join_explorer_scripts, join_styles, render_explorer_page
from captious.studio.explore._view_summary import Summaries
from captious.studio.explore._views import Explorer, Passing, View, parse_view
from captious.studio.explore.explorer_table import ItemTable

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

# Largest page size of a list.
PAGE = 200
COOKIE = "captious_explore"


def build_app(
    table: ItemTable, token: str, rules: Rules | None = None, report: Callable[[], Document] | None = None
) -> App:
    """Build the ASGI app for a table, with a page for a report if there is one; every request needs the token."""
    require("starlette", "studio")
    rules = rules or Rules()
    server = _Server(table, token, report)
    return Guard(TokenGate(server.make_starlette(), token, COOKIE, rules), rules)


class _Server:
    """The endpoints and their shared state."""

    def __init__(self, table: ItemTable, token: str, report: Callable[[], Document] | None = None) -> None:
        self.table, self.token, self.report = table, make_form_token(token), report
        self.explorer = Explorer(table)
        self.summaries = Summaries(self.explorer)
        self.records = Records(self.explorer, self._get_addresses)
        self.views = SavedViews(get_views_path(table.runs[0].root))

    def _get_addresses(self, item: int, rows: Rows) -> Addresses:
        key = find_first(rows, "id")
        image = self.table.pictures.find_path(key, find_first(rows, "image"))
        sound = self.table.sounds.find_path(key, find_first(rows, AUDIO_COLUMN))
        name = find_first(rows, VIDEO)
        video = self.table.videos.find_path(key, name)
        has_stills = video is not None and can_decode()
        return Addresses(
            None if image is None else f"thumbnail/{item}",
            None if image is None else f"image/{item}",
            None if sound is None else f"sound/{item}",
            f"video/{item}" if video is not None and self.table.videos.is_played(key, name) else None,
            f"poster/{item}" if has_stills else None,
            f"strip/{item}" if has_stills else None,
            video is not None,
        )

    def make_starlette(self) -> App:
        """Build the Starlette app. The endpoints are plain functions, which Starlette runs in threads, so that a slow
        query blocks no other.
        """
        from starlette.applications import Starlette
        from starlette.routing import Route

        reads: dict[str, Callable[[Request], Any]] = {
            "list": self.list_items,
            "place": self.find_place,
            "item": self.get_item,
            "captions": self.get_captions,
            "distribution": self.get_distribution,
            "points": self.get_points,
            "lengths": lambda request: charts.group_by_length(
                self.table, self._find_score(request), self._select_captions(request)
            ),
            "agreement": lambda request: self.explorer.compute_agreement(self._select_captions(request)),
            "summary": lambda request: self.summaries.summarize(self._parse_view(request.query_params)),
            "explain": self.explain,
            "meteor": lambda request: self.records.score_matches(self._find_item(request)),
            "times": self.get_times,
            "views": lambda request: self.views.read_all(),
        }
        routes = [
            Route("/", self.send_page),
            *([Route(f"/{REPORT}", self.send_report)] if self.report else []),
            Route("/explore.js", lambda request: _make_text_response(join_explorer_scripts(SERVED), "text/javascript")),
            Route("/explore.css", lambda request: _make_text_response(join_styles(), "text/css")),
            *(Route(f"/api/{name}", _make_get_route(read)) for name, read in reads.items()),
            Route("/api/views", self._make_post_route(self.save_view), methods=["POST"]),
            Route("/api/study", self._make_post_route(self.write_study), methods=["POST"]),
            Route("/favicon.ico", lambda request: _make_text_response("", "image/x-icon")),
            Route("/ids.txt", self.send_ids),
            Route("/thumbnail/{number:int}", self.send_thumbnail),
            Route("/image/{number:int}", self.send_image),
            Route("/sound/{number:int}", self.send_sound),
            Route("/video/{number:int}", self.send_video),
            Route("/poster/{number:int}", self.send_poster),
            Route("/strip/{number:int}", self.send_strip),
        ]
        return Starlette(routes=routes)

    def describe_table(self) -> dict[str, Any]:
        """Return the facts about the table that the page needs before its first request."""
        table = self.table
        systems = range(len(table.systems))
        return {
            "systems": [
                {"name": run.name, "signatures": [run.signatures.get(score.key, "") for score in table.scores]}
                for run in table.runs
            ],
            "metrics": [
                {**asdict(score), "bounds": charts.find_bounds(table, place), "short": score.short}
                for place, score in enumerate(table.scores)
            ],
            "total": len(table),
            "rated": bool(table.ratings),
            "dots": charts.DOTS,
            "pictures": "image" in table.fields or table.pictures.folder is not None,
            "unscored": {
                "all": self._count_unscored(None),
                "systems": [self._count_unscored(system) for system in systems],
            },
            "columns": table.columns,
            "token": self.token,
        }

    def _count_unscored(self, system: int | None) -> int:
        """Count the items without a value of some metric, for one system or for any."""
        return self.explorer.count(View(0, system=system, unscored=True))

    def send_page(self, request: Request) -> Response:
        """Send the HTML page."""
        return _make_text_response(
            render_explorer_page(self.table, {"about": self.describe_table()}, report=self.report is not None),
            "text/html",
        )

    def send_report(self, request: Request) -> Response:
        """Render the report again, since the run may have grown, and send it. It needs no script and no other file."""
        assert self.report is not None
        page = document_page(self.report())
        policy = f"{get_policy(page)}; base-uri 'none'; frame-ancestors 'none'"
        return _make_text_response(page, "text/html", {"content-security-policy": policy})

    def _parse_view(self, parameters: Mapping[str, str]) -> View:
        return parse_view(self.table, parameters)

    def _select_captions(self, request: Request) -> Passing:
        """Select the captions for a chart: those that pass the filters of the request, or all."""
        return self.explorer.select_captions(self._parse_view(request.query_params))

    def _find_item(self, request: Request) -> int:
        key = request.query_params.get("id", "")
        item = self.table.find_item(key)
        if item is None:
            raise InputError(f"no item with id {key[:80]!r}")
        return item

    def _find_score(self, request: Request, name: str = "score") -> int:
        return parse_view(self.table, {"sort": request.query_params.get(name, "")}).score

    def list_items(self, request: Request) -> dict[str, Any]:
        """Return one page of the items of a view."""
        view = self._parse_view(request.query_params)
        number = _parse_whole_number(request, "number", 50, PAGE, least=1)
        total = self.explorer.get_total(view)
        last = max(0, (total - 1) // number * number)
        first = min(_parse_whole_number(request, "first", 0, total), last)
        records = self.records.build_listed_cards(self.explorer.read_page(view, first, number))
        return {"total": total, "first": first, "records": records}

    def find_place(self, request: Request) -> dict[str, int]:
        """Return the position of an item in a view; −1 if it is not in it."""
        return {"place": self.explorer.find_place(self._parse_view(request.query_params), self._find_item(request))}

    def get_item(self, request: Request) -> dict[str, Any]:
        """Return all that is known of one item."""
        return self.records.build_full_record(self._find_item(request))

    def get_captions(self, request: Request) -> dict[str, Any]:
        """Return the captions of an item by all systems."""
        return {"captions": self.records.get_captions(self._find_item(request))}

    def get_times(self, request: Request) -> list[float] | None:
        """Return when each frame of an item's video is shown; None if nothing here decodes it."""
        rows = [row for (row,) in self.table.read_rows([self._find_item(request)])]
        return self.table.videos.read_times(find_first(rows, "id"), find_first(rows, VIDEO))

    def get_distribution(self, request: Request) -> Any:
        """Return the histogram of a score."""
        low, high = (_parse_finite_number(request, name) for name in ("low", "high"))
        if not low < high:
            raise InputError(f"low={low:g}, high={high:g}: expected low < high")
        bins = _parse_whole_number(request, "bins", 40, charts.BINS, least=1)
        return charts.count_bins(self.table, self._find_score(request), low, high, bins, self._select_captions(request))

    def get_points(self, request: Request) -> Any:
        """Return the scatter plot of two scores."""
        x, y = (self._find_score(request, axis) for axis in "xy")
        return charts.build_scatter(self.explorer, x, y, self._select_captions(request))

    def explain(self, request: Request) -> Any:
        """Explain the score of a caption."""
        view = parse_view(self.table, {"system": request.query_params.get("system", "")})
        if view.system is None:
            raise InputError(f"system: expected {', '.join(self.table.systems)}")
        return self.records.explain(view.system, self._find_score(request), self._find_item(request))

    def send_ids(self, request: Request) -> Response:
        """Send the ids of the items of a view as a text file, one per line."""
        from starlette.responses import StreamingResponse

        try:
            lists = self.explorer.iterate_ids(self._parse_view(request.query_params))
            first = next(lists, [])
        except _get_request_errors() as error:
            return _make_json_response({"error": _format_error(error)}, 400)
        content = ("".join(f"{key}\n" for key in keys).encode("utf-8", "replace") for keys in chain([first], lists))
        headers = {"content-disposition": 'attachment; filename="ids.txt"'}
        return StreamingResponse(content, media_type="text/plain; charset=utf-8", headers=headers)

    def save_view(self, body: Mapping[str, Any]) -> dict[str, str]:
        """Save an address under a name, or delete the name."""
        return self.views.save(str(body.get("name", "")), str(body.get("address", "")))

    def write_study(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Write the files of a rating study of these items; return the folder and the commands for the study."""
        ids = body.get("ids")
        if isinstance(ids, list) and ids:
            items = [item for key in map(str, ids) if (item := self.table.find_item(key)) is not None]
        else:
            given = body.get("view") or {}
            if not isinstance(given, dict):
                raise InputError("view: expected an object")
            view = self._parse_view({str(name): str(value) for name, value in given.items()})
            if (total := self.explorer.get_total(view)) > MOST:
                raise InputError(f"{total:,} items, expected at most {MOST:,} for a study; filter the list first")
            items = self.explorer.list_items(view)
        return write_selection(self.table, items, str(body.get("name", "")), get_sibling_path(self.table.runs[0].root))

    def _find_media_name(self, request: Request, column: str) -> tuple[str, str | None]:
        """Return the id of an item and the name of its image or sound in the run."""
        item = request.path_params["number"]
        rows = [row for (row,) in self.table.read_rows([item])] if 0 <= item < len(self.table) else []
        return find_first(rows, "id") or "", find_first(rows, column)

    def send_thumbnail(self, request: Request) -> Response:
        """Send the thumbnail of an item. Browsers may cache it, because the number of an item never changes."""
        from starlette.responses import Response

        small = self.table.pictures.make_thumbnail(*self._find_media_name(request, "image"))
        if small is None:
            return Response(status_code=404)
        return Response(small[0], media_type=small[1], headers={"cache-control": "private, max-age=3600"})

    def send_image(self, request: Request) -> Response:
        """Send the image file of an item."""
        return self._send_file(self.table.pictures, *self._find_media_name(request, "image"))

    def send_sound(self, request: Request) -> Response:
        """Send the sound file of an item, or the range of bytes that a player requests."""
        return self._send_file(self.table.sounds, *self._find_media_name(request, AUDIO_COLUMN))

    def send_video(self, request: Request) -> Response:
        """Send the video file of an item, or the range of bytes that a player requests."""
        return self._send_file(self.table.videos, *self._find_media_name(request, VIDEO))

    def send_poster(self, request: Request) -> Response:
        """Send the middle frame of the video of an item."""
        return self._send_still(request, self.table.videos.make_poster)

    def send_strip(self, request: Request) -> Response:
        """Send frames of the video of an item, side by side."""
        return self._send_still(request, self.table.videos.make_strip)

    def _send_still(self, request: Request, make: Callable[[str, str | None, Part | None], bytes | None]) -> Response:
        from starlette.responses import Response

        item = request.path_params["number"]
        rows = [row for (row,) in self.table.read_rows([item])] if 0 <= item < len(self.table) else []
        part = find_part({name: find_first(rows, name) for name in PART})
        content = make(find_first(rows, "id") or "", find_first(rows, VIDEO), part)
        if content is None:
            return Response(status_code=404)
        return Response(content, media_type="image/jpeg", headers={"cache-control": "private, max-age=3600"})

    def _send_file(self, media: Media, id: str, name: str | None) -> Response:
        from starlette.responses import FileResponse, Response

        try:
            path, kind = media.find_file(id, name)
        except InputError:
            return Response(status_code=404)
        return FileResponse(path, media_type=kind, headers={"cache-control": "private, max-age=3600"})

    def _make_post_route(self, change: Callable[[Mapping[str, Any]], Any]) -> Callable[[Request], Any]:
        """Make an endpoint that passes a JSON body to `change`, if the request has the form token of our page."""

        async def endpoint(request: Request) -> Response:
            from starlette.concurrency import run_in_threadpool

            if not is_same_token(request.headers.get("x-form-token", ""), self.token):
                return _make_json_response({"error": "The page is too old: reload it."}, 403)
            try:
                body = json.loads(await request.body())
            except (ValueError, RecursionError):
                return _make_json_response({"error": "expected JSON"}, 400)
            if not isinstance(body, dict):
                return _make_json_response({"error": "expected a JSON object"}, 400)
            return await run_in_threadpool(_call_handler, change, body)

        return endpoint


def _make_get_route(read: Callable[[Request], Any]) -> Callable[[Request], Response]:
    """Make an endpoint that returns JSON; an invalid address gives a one-line error with status 400."""

    def endpoint(request: Request) -> Response:
        return _call_handler(read, request)

    return endpoint


def _call_handler(function: Callable[[Any], Any], argument: Any) -> Response:
    try:
        return _make_json_response(function(argument))
    except _get_request_errors() as error:
        return _make_json_response({"error": _format_error(error)}, 400)
    except OSError as error:
        return _make_json_response({"error": f"cannot be read or written ({error.strerror or error})"}, 500)


def _get_request_errors() -> tuple[type[Exception], ...]:
    """Return the exceptions of invalid requests: invalid values, lone surrogates, and queries that DuckDB rejects."""
    import duckdb

    return InputError, UnicodeError, duckdb.Error


def _format_error(error: Exception) -> str:
    return str(error) if isinstance(error, InputError) else f"it cannot be computed ({format_one_line(error)})"


def _make_json_response(value: Any, status: int = 200) -> Response:
    from starlette.responses import Response

    content = json.dumps(value, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return Response(content.encode("utf-8", "replace"), status, media_type="application/json")


def _make_text_response(text: str, kind: str, headers: Mapping[str, str] | None = None) -> Response:
    from starlette.responses import Response

    return Response(text.encode("utf-8", "replace"), media_type=f"{kind}; charset=utf-8", headers=dict(headers or {}))


def _parse_whole_number(request: Request, name: str, default: int, most: int, least: int = 0) -> int:
    text = request.query_params.get(name, str(default))
    if not (text.isascii() and text.isdecimal()) or len(text) > 9 or int(text) < least:
        raise InputError(f"{name}={text[:40]!r}, expected a whole number" + f" from {least}" * bool(least))
    return min(int(text), most)


def _parse_finite_number(request: Request, name: str) -> float:
    text = request.query_params.get(name, "")
    try:
        value = parse_number(text)
    except ValueError:
        raise InputError(f"{name}={text[:40]!r}, expected a number") from None
    if not np.isfinite(value):
        raise InputError(f"{name}={text[:40]!r}, expected a finite number")
    return value


# Saved views: names for addresses, in one small JSON file next to the first run.
# Largest number of views of a file, and characters of a name and of an address.
MOST, NAME, ADDRESS = 200, 80, 8000


def get_sibling_path(run: str, name: str = "") -> Path:
    """Return the parent folder of a run, or a file of this name in it; the working folder for a remote run."""
    return (Path.cwd() if is_remote(run) else Path(run).resolve().parent) / name


def get_views_path(run: str) -> Path:
    """Return the file of a run's views: next to its folder, so that overwriting the run keeps them."""
    folder = run.rstrip("/").rpartition("/")[2] if is_remote(run) else Path(run).resolve().name
    return get_sibling_path(run, f"{folder}.views.json")


class SavedViews:
    """Addresses by name, in a JSON file."""

    def __init__(self, path: Path) -> None:
        self.path, self._lock = path, Lock()

    def read_all(self) -> dict[str, str]:
        """Return the views in the order they were saved."""
        try:
            views = load_json(self.path)
        except FileNotFoundError:
            return {}
        except (ValueError, OSError):
            raise InputError(f"{self.path}: is not a JSON file of saved views; move it away or fix it") from None
        if not isinstance(views, dict):
            raise InputError(f"{self.path}: expected names with addresses")
        return {str(name): str(address) for name, address in views.items()}

    def save(self, name: str, address: str) -> dict[str, str]:
        """Save an address under a name, replacing an earlier one; an empty address deletes the name."""
        name = " ".join(name.split())
        if not 0 < len(name) <= NAME or not name.isprintable():
            raise InputError(f"name: expected 1 to {NAME} letters")
        if len(address) > ADDRESS:
            raise InputError(f"address: {len(address)} letters, expected at most {ADDRESS}")
        with self._lock:
            views = self.read_all()
            views.pop(name, None)
            if address:
                views[name] = address
            if len(views) > MOST:
                raise InputError(f"{self.path}: has {MOST} views already; delete one first")
            with write_atomically(self.path) as draft:
                draft.write_text(json.dumps(views, ensure_ascii=False, indent=2) + "\n", encoding="utf-8", newline="\n")
        return views


# A selection of items as the input files of a rating study.
REFERENCES, STUDY = "references.jsonl", "study.toml"
# File with the ids, one per line; it marks a folder of a selection.
MARKER = "ids.txt"
# Largest number of items of a study.
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
    images = _find_common_folder(paths)
    clips = [table.videos.find_path(key, find_first(own, VIDEO)) for key, own in zip(ids, rows, strict=True)]
    videos = _find_common_folder(clips)
    with whole_folder(target, False, MARKER) as folder:
        (folder / "captions").mkdir()
        (folder / MARKER).write_text("".join(f"{key}\n" for key in ids), encoding="utf-8", newline="\n")
        for system, file in enumerate(files.values()):
            texts = [get_texts(own[system], "candidates") for own in rows]
            entries = [
                {"id": key, "caption": own[0], **_name_file("image", path, images), **_name_file(VIDEO, clip, videos)}
                for key, own, path, clip in zip(ids, texts, paths, clips, strict=True)
                if own
            ]
            _write_jsonl(folder / file, entries)
        references = {key: find_first(own, "references") or [] for key, own in zip(ids, rows, strict=True)}
        if any(references.values()):
            _write_jsonl(folder / REFERENCES, [{"id": key, "references": texts} for key, texts in references.items()])
        (folder / STUDY).write_text(
            _format_study(target, files, images, videos, any(references.values())), encoding="utf-8", newline="\n"
        )
    study = shlex.quote(str(target / STUDY))
    return {
        "folder": str(target),
        "items": len(ids),
        "check": f"captious studio check {study}",
        "serve": f"captious studio serve {study}",
    }


def _format_study(
    target: Path, files: Mapping[str, str], images: Path | None, videos: Path | None, referenced: bool
) -> str:
    """Return the text of the study file; its paths are relative, so that the folder may move."""
    return new_plan(
        target / STUDY,
        "ratings",
        captions=[f"{system}={os.path.relpath(target / file)}" for system, file in files.items()],
        references=os.path.relpath(target / REFERENCES) if referenced else None,
        images=images,
        videos=videos,
    )


def _find_common_folder(paths: Sequence[Path | None]) -> Path | None:
    """Return the common parent folder of some files; None without files."""
    folders = [path.absolute().parent for path in paths if path]
    return Path(os.path.commonpath(folders)) if folders else None


def _name_file(column: str, path: Path | None, folder: Path | None) -> dict[str, str]:
    return {column: path.absolute().relative_to(folder).as_posix()} if path and folder else {}


def _write_jsonl(path: Path, rows: Sequence[dict[str, Any]]) -> None:
    path.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8", newline="\n")
