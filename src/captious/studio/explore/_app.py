"""The web app of the explorer: JSON endpoints for items and charts, images and sounds, saved views, and new studies.

Requests that change something need the form token; the access rules of ``captious.studio.access`` guard the whole app.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.numbers import parse_number
from captious.errors import InputError, format_one_line, require
from captious.io.columns import AUDIO_COLUMN
from captious.render import Document
from captious.render.html import join_scripts
from captious.render.html import render_page as document_page
from captious.studio.access import App, Guard, Rules, TokenGate, is_same_token, make_form_token
from captious.studio.explore import _charts as charts
from captious.studio.explore._page import REPORT, SERVED, join_styles, render_explorer_page
from captious.studio.explore._pictures import Media
from captious.studio.explore._records import Addresses, Records, Rows, find_first
from captious.studio.explore._saved import SavedViews, get_sibling_path, get_views_path
from captious.studio.explore._selection import MOST, write_selection
from captious.studio.explore._summary import Summaries
from captious.studio.explore._views import Explorer, Passing, View, parse_view
from captious.studio.explore.table import ItemTable

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
        return Addresses(
            None if image is None else f"thumbnail/{item}",
            None if image is None else f"image/{item}",
            None if sound is None else f"sound/{item}",
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
            "views": lambda request: self.views.read_all(),
        }
        routes = [
            Route("/", self.send_page),
            *([Route(f"/{REPORT}", self.send_report)] if self.report else []),
            Route("/explore.js", lambda request: _make_text_response(join_scripts(SERVED), "text/javascript")),
            Route("/explore.css", lambda request: _make_text_response(join_styles(), "text/css")),
            *(Route(f"/api/{name}", _make_get_route(read)) for name, read in reads.items()),
            Route("/api/views", self._make_post_route(self.save_view), methods=["POST"]),
            Route("/api/study", self._make_post_route(self.write_study), methods=["POST"]),
            Route("/favicon.ico", lambda request: _make_text_response("", "image/x-icon")),
            Route("/ids.txt", self.send_ids),
            Route("/thumbnail/{number:int}", self.send_thumbnail),
            Route("/image/{number:int}", self.send_image),
            Route("/sound/{number:int}", self.send_sound),
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
        policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; frame-ancestors 'none'"
        return _make_text_response(document_page(self.report()), "text/html", {"content-security-policy": policy})

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
