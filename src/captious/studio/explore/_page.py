"""The HTML page of the explorer: the scripts of the report with another data source, and those of the explorer."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from html import escape
from pathlib import Path
from typing import Any

from captious._version import __version__
from captious.render import name_several
from captious.render.answers import join_names
from captious.render.html import encode_script_json, join_scripts, read_asset, render_warnings
from captious.studio.explore.explorer_table import ItemTable

# Script that rating pages also use.
CLIP = "clip.js"
# The explorer's own files; the other scripts and the style sheet are those of the report.
FOLDER = Path(__file__).parents[1] / "pages" / "explorer"
_PARTS = (
    *("state.js", "charts.js", "views.js", "explanations.js", "items.js", "selection.js"),
    *(CLIP, "player.js", "explore.js", "main.js"),
)
# File name of the report's page.
REPORT = "report.html"
# Scripts of a page that a server of ours serves.
SERVED = ("base.js", "server.js", *_PARTS)
# Scripts of a static page.
STATIC = ("base.js", "embedded.js", "means.js", *_PARTS)
# Content security policy of a static page; our server sends its own as a header.
POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; media-src 'self'; base-uri 'none'; "
    "form-action 'none'"
)


def join_styles() -> str:
    """Return the style sheet of the report followed by that of the explorer."""
    return read_asset("page.css") + _read_file("explore.css")


def join_explorer_scripts(names: Sequence[str]) -> str:
    """Join scripts of the report and of the explorer into one."""
    return join_scripts(
        _read_file(name) if name == CLIP or (FOLDER / name).exists() else read_asset(name) for name in names
    )


def _read_file(name: str) -> str:
    return ((FOLDER.parent if name == CLIP else FOLDER) / name).read_text(encoding="utf-8")


def render_explorer_page(table: ItemTable, data: Mapping[str, Any], policy: str = "", report: bool = False) -> str:
    """Render the HTML page; ``data`` has the JSON for its scripts by the id of the script element.

    ``report`` adds a link to the page of the report, in the same folder.
    """
    blocks = "".join(
        f'<script type="application/json" id="{name}">{encode_script_json(content)}</script>\n'
        for name, content in data.items()
    )
    parts = {
        "policy": f'<meta http-equiv="Content-Security-Policy" content="{policy}">' if policy else "",
        "tab": escape(format_tab_title(table)),
        "title": escape(format_title(table)),
        "about": escape(format_about(table)) + (f' <a href="{REPORT}">Report over the steps</a>' if report else ""),
        "missing": render_warnings(table.missing_media),
        "warnings": render_warnings([one for one in table.warnings if one not in table.missing_media]),
        "data": blocks,
        "version": escape(__version__),
        "signatures": "".join(f"<li><code>{escape(line)}</code></li>" for line in _list_signatures(table)),
    }
    return re.sub(r"<!-- (\w+) -->", lambda match: parts[match[1]], _read_file("explore.html"))


def format_title(table: ItemTable) -> str:
    """Return the title of the page: the name of a single system, or the number of systems, and the number of items."""
    number = f"{len(table):,} item{'' if len(table) == 1 else 's'}"
    return f"{table.systems[0]}: {number}" if len(table.systems) == 1 else f"{len(table.systems)} systems, {number}"


def format_tab_title(table: ItemTable) -> str:
    """Return the title of the browser's tab: the metrics and the systems."""
    metrics = name_several([score.label for score in table.scores])
    return f"Explore {metrics} of {join_names(table.systems)}"


def format_about(table: ItemTable) -> str:
    """Return the line below the title: the systems, and the number of ratings."""
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
