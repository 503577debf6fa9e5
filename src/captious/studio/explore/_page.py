"""The explorer's page: the report's own scripts with another source of data, and what only an explorer has."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from captious._version import __version__
from captious.render.html import asset, embedded, warning_boxes
from captious.studio.explore.table import ItemTable

_PARTS = ("state.js", "charts.js", "views.js", "explanations.js", "items.js", "selection.js", "explore.js", "main.js")
REPORT = "report.html"
"""The page of a report beside the explorer."""
SERVED = ("base.js", "server.js", *_PARTS)
"""Scripts of a page with a server behind it."""
STATIC = ("base.js", "embedded.js", "means.js", *_PARTS)
"""Scripts of a page that any web server shows."""
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)
"""The content policy of a page in a folder; a server sends its own."""


def join_styles() -> str:
    """The style sheet: the report's, and the explorer's after it."""
    return asset("page.css") + asset("explore.css")


def render_explorer_page(table: ItemTable, data: Mapping[str, Any], policy: str = "", report: bool = False) -> str:
    """The HTML of the page; ``data`` are the blocks of JSON that its scripts read, by the id of their element.

    ``report`` links to the page of a report, which is beside it.
    """
    blocks = "".join(
        f'<script type="application/json" id="{name}">{embedded(content)}</script>\n' for name, content in data.items()
    )
    parts = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else "",
        "title": escape(format_title(table)),
        "about": escape(format_about(table)) + (f' <a href="{REPORT}">Report over the steps</a>' if report else ""),
        "warnings": warning_boxes(table.warnings),
        "data": blocks,
        "version": escape(__version__),
        "signatures": "".join(f"<li><code>{escape(line)}</code></li>" for line in _list_signatures(table)),
    }
    return re.sub(r"<!-- (\w+) -->", lambda match: parts[match[1]], asset("explore.html"))


def format_title(table: ItemTable) -> str:
    """What the page is about: one system by its name, several by their number."""
    number = f"{len(table):,} item{'' if len(table) == 1 else 's'}"
    return f"{table.systems[0]}: {number}" if len(table.systems) == 1 else f"{len(table.systems)} systems, {number}"


def format_about(table: ItemTable) -> str:
    """The systems, and what people said."""
    number = sum(map(len, table.ratings.values()))
    people = f"{number:,} ratings of {len(table.ratings):,} captions" if number else ""
    return "; ".join(filter(None, (", ".join(table.systems), people)))


def _list_signatures(table: ItemTable) -> list[str]:
    lines: dict[str, list[str]] = {}
    for run in table.runs:
        for signature in run.signatures.values():
            lines.setdefault(signature, []).append(run.name)
    everyone = len(table.runs)
    return [line if len(names) == everyone else f"{', '.join(names)}: {line}" for line, names in lines.items() if line]
