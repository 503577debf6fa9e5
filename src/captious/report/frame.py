"""The frame of small pages: one file, no scripts, nothing from elsewhere, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape

STYLE = """
:root{color-scheme:light dark;--ink:#1c1917;--soft:#57534e;--paper:#fff;--line:#e7e5e4;--model:#b45309;--human:#0f766e;
--band:#f5f5f4}
@media(prefers-color-scheme:dark){:root{--ink:#f5f5f4;--soft:#a8a29e;--paper:#1c1917;--line:#44403c;--model:#fb923c;
--human:#2dd4bf;--band:#292524}}
body{font:15px/1.5 system-ui,sans-serif;color:var(--ink);background:var(--paper);max-width:70rem;margin:2rem auto;
padding:0 1rem}h1{font-size:1.4rem;margin:0 0 .3rem}h2{font-size:1.1rem;margin:2.2rem 0 .4rem}
h3{font-size:.95rem;margin:1.1rem 0 .3rem}p,figcaption,footer,.s{color:var(--soft)}figure{margin:1rem 0}
table{border-collapse:collapse;width:100%}th{text-align:left;font-weight:600}
td,th{padding:.22rem .7rem .22rem 0;border-bottom:1px solid var(--line);vertical-align:top}
.v{text-align:right;font-variant-numeric:tabular-nums}.grid{display:grid;gap:0 2.5rem;
grid-template-columns:repeat(auto-fit,minmax(26rem,1fr))}details{margin:.8rem 0;border-top:1px solid var(--line);
padding-top:.6rem}summary{cursor:pointer;font-weight:600}svg{width:100%;height:auto;font:13px system-ui,sans-serif}
footer{font-size:.8rem;margin:2.5rem 0;overflow-wrap:anywhere}code{font-size:.9em}
"""


def frame(title: str, body: str, footer: str, style: str = STYLE) -> str:
    """A whole page; ``body`` is markup, ``title`` and ``footer`` are text."""
    return (
        '<!DOCTYPE html><html lang="en"><head><meta charset="utf-8"><meta name="viewport" '
        'content="width=device-width, initial-scale=1"><meta http-equiv="Content-Security-Policy" '
        "content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        f"<title>{escape(title)}</title><style>{style}</style></head><body>{body}"
        f"<footer>{escape(footer)}</footer></body></html>\n"
    )


def rows_of(columns: Sequence[str], rows: Sequence[Sequence[str]], text: int = 1) -> str:
    """A table whose first ``text`` columns are words and the others numbers; cells reach it escaped."""
    kinds = ["" if place < text else ' class="v"' for place in range(len(columns))]
    head = "".join(f"<th{kind}>{escape(name)}</th>" for kind, name in zip(kinds, columns, strict=True))
    lines = "".join(
        "<tr>" + "".join(f"<td{kind}>{escape(cell)}</td>" for kind, cell in zip(kinds, row, strict=True)) + "</tr>"
        for row in rows
    )
    return f"<table><tr>{head}</tr>{lines}</table>"
