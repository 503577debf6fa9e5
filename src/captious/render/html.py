"""The one page of every result: a file that works from disk, offline, in light and dark.

Python writes texts, tables, charts and galleries, with everything escaped. Only a document with items has scripts;
captions reach those as JSON and are written by them as text, never as markup.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Sequence
from dataclasses import replace
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby

from captious._version import __version__
from captious.render import _charts as charts
from captious.render import _graphs as graphs
from captious.render._cells import PrintedColumn, has_interval, layout, numeric
from captious.render._folders import without_folders
from captious.render.document import (
    Cell,
    Chart,
    Document,
    Entry,
    Gallery,
    Graph,
    Group,
    Items,
    Meter,
    Phrase,
    Picture,
    Section,
    Span,
    Table,
    Text,
    Value,
)
from captious.render.items import explorer, thumbnail
from captious.render.tables import dumps

SCRIPTS = ("base.js", "embedded.js", "state.js", "charts.js", "views.js", "explanations.js", "items.js", "main.js")
# Warnings that are shown at once; the others are folded.
WARNINGS = 5
# Sections that the head of the page leads to, besides charts and items.
LINKS = 6
# Pixels that a table has on a phone of 360 pixels, and on paper (A4, which is the narrower one).
PHONE, PAPER = 300, 690
# Pixels of a letter, and those around the letters of a cell.
ON_PHONE, ON_PAPER = (9, 20), (7, 12)
# Letters from which on a cell of a folded table has a line of its own.
PHRASE = 24


def page(document: Document) -> str:
    """The HTML text of a document."""
    document = without_folders(document)
    items = next((section for section in document.walk() if isinstance(section, Items)), None)
    code = bundle(SCRIPTS) if items else ""
    parts = {
        "policy": _policy(code),
        "title": escape(document.title),
        "style": asset("page.css"),
        "nav": _navigation(document),
        "about": f'<p id="about">{escape(document.about)}</p>' if document.about else "",
        "warnings": warning_boxes(document.warnings),
        "sections": "".join(_sections(_untitled(without_replaced(document.sections), document.title))),
        "notes": _bullets(document.notes) if document.notes else "",
        "footer": _footer(document),
        "scripts": _scripts(items, code) if items else "",
    }
    text = re.sub(r"<!-- (\w+) -->", lambda match: parts[match[1]], asset("page.html"))
    return text.encode("utf-8", "replace").decode()


def bundle(scripts: Sequence[str]) -> str:
    """Scripts as one, which leaves no name behind, without comments and indentation: every page carries them."""
    lines = (line.strip() for name in scripts for line in asset(name).splitlines())
    script = "\n".join(line for line in lines if line and not line.startswith("//"))
    return f'\n(() => {{\n"use strict";\n{script}\n}})();\n'


def _policy(code: str) -> str:
    """Nothing may be fetched; of scripts only the page's own may run, known by its hash."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    if code:
        policy += f"; script-src 'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'"
    return policy


def _navigation(document: Document) -> str:
    shown = without_replaced(document.sections)
    named = [section.title for section in shown if isinstance(section, (Text, Table, Gallery, Group))]
    titles = [title for title in dict.fromkeys(named) if title not in ("", document.title)][:LINKS]
    links = [f'<a href="#{_anchor(title)}">{escape(title)}</a>' for title in titles]
    if any(isinstance(section, Items) for section in document.sections):
        links += ['<a href="#charts">Charts</a>', '<a href="#items">Items</a>']
        links.append('<button type="button" id="worst-captions" class="primary">Worst captions</button>')
    return "".join(links)


def _anchor(title: str) -> str:
    return "s-" + re.sub(r"\W+", "-", title.lower()).strip("-")


def warning_boxes(warnings: Sequence[str]) -> str:
    """A box per warning, most of them folded where there are many."""
    boxes = [f'<p class="warning"><strong>Warning</strong>{escape(warning)}</p>' for warning in warnings]
    first, rest = (boxes, []) if len(boxes) <= WARNINGS else (boxes[: WARNINGS - 1], boxes[WARNINGS - 1 :])
    more = f'<details class="more"><summary>{len(rest)} more warnings</summary>{"".join(rest)}</details>'
    return "".join(first) + (more if rest else "")


def without_replaced(sections: Sequence[Section]) -> list[Section]:
    """The sections without the tables that a gallery shows with pictures, or a graph as a drawing."""
    replaced = {section.replaces for section in sections if isinstance(section, (Gallery, Graph))}
    return [section for section in sections if not (isinstance(section, Table) and section.key in replaced)]


def _untitled(sections: Sequence[Section], title: str) -> list[Section]:
    """The sections, without a title where it is that of the page."""
    return [
        replace(one, title="") if isinstance(one, (Text, Table, Gallery)) and one.title == title else one
        for one in sections
    ]


def _sections(sections: Sequence[Section]) -> list[str]:
    """Sections in their order; charts that follow each other share a grid."""
    parts = []
    for together, run in groupby(sections, lambda one: isinstance(one, Chart)):
        drawn = [draw(one) for one in run]
        parts.append(f'<section class="grid">{"".join(drawn)}</section>' if together else "".join(drawn))
    return parts


def draw(section: Section) -> str:
    """The markup of one section."""
    return _WRITERS[type(section)](section)


def _text(section: Text) -> str:
    if section.bullets:
        body = _bullets(section.paragraphs)
    else:
        body = "".join(f"<p>{_words(paragraph)}</p>" for paragraph in section.paragraphs)
    return _titled(section.title, body)


def _titled(title: str, body: str) -> str:
    heading = f'<h2 id="{_anchor(title)}">{escape(title)}</h2>' if title else ""
    return f"<section>{heading}{body}</section>"


def _bullets(lines: Sequence[str | Phrase]) -> str:
    return '<ul class="notes">' + "".join(f"<li>{_words(line)}</li>" for line in lines) + "</ul>"


def _group(section: Group) -> str:
    body = f'<div class="group">{"".join(_sections(section.sections))}</div>'
    summary = f"<summary>{escape(section.title)}</summary>"
    return f'<details id="{_anchor(section.title)}">{summary}{body}</details>'


def _chart(chart: Chart) -> str:
    caption = f"<figcaption><h3>{escape(chart.title)}</h3></figcaption>" if chart.title else ""
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    wide = ' class="wide"' if chart.kind in charts.ROWS else ""
    return f"<figure{wide}>{caption}{charts.svg(chart)}{charts.svg(chart, charts.NARROW)}{note}</figure>"


def _graph(graph: Graph) -> str:
    caption = f"<figcaption><h3>{escape(graph.title)}</h3></figcaption>" if graph.title else ""
    lines = "".join(
        f'<p class="tuples {mark}"><b>{mark} {len(tuples)}</b> {escape(" ".join(tuples))}</p>'
        for mark, tuples in graphs.lists(graph).items()
    )
    return f'<figure class="wide">{caption}<div class="scroll">{graphs.svg(graph)}</div>{lines}</figure>'


def _table(table: Table) -> str:
    """A table as HTML; bars stand beside their column, or beneath the number where its interval is in the same cell."""
    if table.turned:
        return _turned(table)
    shown = layout(table)
    bars = {index: _bars(table, index) for index, column in enumerate(table.heads) if column.bar}
    last = {one.index: one for one in shown}
    beside = [one for one in shown if one.index in bars and one.column.spread != "half" and last[one.index] is one]
    head = "".join(_heading(one) + ("<td></td>" if one in beside else "") for one in shown)
    folds = _folds(list(map(_letters, shown)), len(beside))
    rows = []
    for row, cells in enumerate(table.rows):
        parts = []
        for number, one in enumerate(shown):
            bar = bars[one.index][row] if one.index in bars else ""
            beneath = bar if one.column.spread == "half" else ""
            parts.append(_cell(one, row, cells[one.index], number == 0, beneath, bool(folds)))
            parts += [f'<td class="wide">{bar}</td>'] if one in beside else []
        rows.append(f"<tr{' class=open' if row in table.breaks else ''}>{''.join(parts)}</tr>")
    return _framed(table, head, rows, folds)


def _letters(one: PrintedColumn) -> int:
    """The letters that a printed column needs in a line: those of its longest number, or of its longest word."""
    cells = [f"{cell}{mark}" for cell, mark in zip(one.cells, one.marks, strict=True)]
    whole = cells if one.numeric else " ".join(cells).split()
    return max(map(len, [*whole, *one.heading.split(), "x"]))


def _folds(letters: Sequence[int], bars: int = 0) -> str:
    """Where a table is too wide for its columns to stand beside each other: on a phone, or on paper too.

    A folded table has its rows one under another, and each cell under the name of its column.
    """

    def pixels(letter: int, around: int) -> int:
        return sum(letter * count + around for count in letters) + bars * 7 * around

    return "".join([" folds" * (pixels(*ON_PHONE) > PHONE), " folds-on-paper" * (pixels(*ON_PAPER) > PAPER)])


def _turned(table: Table) -> str:
    names, *shown = layout(table)
    colors = [f"var(--s{row % charts.COLORS})" for row in range(len(table.rows))]
    heads = [
        f'<th scope="col"><span class="swatch" style="background:{color}"></span>{_words(name)}</th>'
        for color, name in zip(colors, names.cells, strict=True)
    ]
    longest = max((len(word) for one in shown for word in one.heading.split()), default=0)
    values = [max(len(f"{one.cells[row]}{one.marks[row]}") for one in shown) for row in range(len(table.rows))]
    folds = _folds([longest, *values])
    rows = []
    for one in shown:
        bars = _bars(table, one.index) if one.column.bar and not one.interval else [""] * len(table.rows)
        cells = []
        for row, (bar, color) in enumerate(zip(bars, colors, strict=True)):
            best = ' class="best"' if row in one.best else ""
            label = _label(names.cells[row]) if folds else ""
            cells.append(f'<td{best}{label} style="--bar:{color}">{_shown(one, row)}{bar}</td>')
        rows.append(f"<tr>{_heading(one, 'row')}{''.join(cells)}</tr>")
    return _framed(table, f"<td></td>{''.join(heads)}", rows, folds)


def _label(column: str | Phrase) -> str:
    """The name of a cell's column, which a folded table shows."""
    return f' data-label="{escape(str(column))}"' if str(column) else ""


def _framed(table: Table, head: str, rows: Sequence[str], folds: str) -> str:
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    drawn = f'<table class="shown{folds}"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    label = f' aria-label="{escape(table.title)}"' if table.title else ""
    return _titled(table.title, f'<div class="scroll" tabindex="0" role="group"{label}>{drawn}</div>{note}')


def _heading(one: PrintedColumn, scope: str = "col") -> str:
    arrow = {True: "↑ higher is better", False: "↓ lower is better", None: ""}[one.column.higher_is_better]
    mark = f' <span class="direction" title="{arrow[2:]}">{arrow[0]}</span>' if arrow and not one.interval else ""
    kind = " class=number" if one.numeric and scope == "col" else ""
    return f'<th scope="{scope}"{kind}>{escape(one.heading)}{mark}</th>'


def _cell(one: PrintedColumn, row: int, value: Value, first: bool, bar: str, folds: bool) -> str:
    strong = (one.column.bold and not one.interval) or row in one.best
    long = folds and not one.numeric and len(str(one.cells[row])) > PHRASE
    names = [name for name, wanted in (("number", one.numeric), ("best", strong), ("long", long)) if wanted]
    note = value.note if isinstance(value, Cell) and not one.interval else ""
    title = f' title="{escape(note)}"' if note else ""
    tag = "th" if first and not one.numeric else "td"
    direction = "" if one.numeric else ' dir="auto"'
    text = _shown(one, row)
    if isinstance(value, Cell) and not one.interval and _local(value.href):
        text = f'<a href="{escape(value.href)}">{text}</a>'
    label = _label(f"{one.column.name}, {one.heading}" if one.interval else one.heading) if folds else ""
    return f'<{tag} class="{" ".join(names)}"{label}{direction}{title}>{text}{bar}</{tag}>'


def _shown(one: PrintedColumn, row: int) -> str:
    mark = f'<span class="mark">{escape(one.marks[row])}</span>' if one.marks[row] else ""
    return _words(one.cells[row]) + mark


def _bars(table: Table, index: int) -> list[str]:
    """A bar per row of a column, on one scale unless cells bring their own."""
    cells = [row[index] for row in table.rows]
    ends = [0.0, *(end for cell in cells for end in _ends(cell))]
    scale = (min(ends), max(ends))
    drawn = []
    for cell in cells:
        low, high = cell.limits if isinstance(cell, Cell) and cell.limits else scale
        drawn.append(_bar(cell, low, high))
    return drawn


def _ends(cell: Value) -> list[float]:
    ends = [cell.value, cell.low, cell.high] if isinstance(cell, Cell) else [numeric(cell)]
    return [end for end in ends if math.isfinite(end)]


def _bar(cell: Value, low: float, high: float) -> str:
    def at(value: float) -> float:
        return round(100 * min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0), 2)

    value = numeric(cell)
    if math.isnan(value):
        return ""
    zero = f'<i class="zero" style="left:{at(0)}%"></i>' if low < 0 < high else ""
    if isinstance(cell, Cell) and has_interval(cell):
        band = f'<i class="band" style="left:{at(cell.low)}%;right:{round(100 - at(cell.high), 2)}%"></i>'
        return f'<span class="interval">{zero}{band}<i class="dot" style="left:{at(value)}%"></i></span>'
    start, end = sorted((at(0), at(value)))
    tone = "minus" if value < 0 else "plus"
    bar = f'<i class="{tone}" style="left:{start}%;right:{round(100 - end, 2)}%"></i>'
    return f'<span class="interval">{zero}{bar}</span>'


def _words(text: str | Phrase) -> str:
    return escape(text) if isinstance(text, str) else "".join(map(_span, text.spans))


def _span(span: Span) -> str:
    text = escape(span.text)
    if span.tone:
        share = round(100 * min(max(span.weight, 0.0), 1.0))
        style = f' style="--weight:{share}%"' if span.tone in ("good", "bad") else ""
        text = f'<span class="tone-{span.tone}"{style}>{text}</span>'
    return f'<a href="{escape(span.href)}">{text}</a>' if _local(span.href) else text


def _local(href: str) -> bool:
    """Whether a link stays in the page or its folder."""
    return bool(href) and (href.startswith("#") or re.fullmatch(r"(?!/)[^:\\?#]*", href) is not None)


def _gallery(gallery: Gallery) -> str:
    note = f'<p class="note">{escape(gallery.note)}</p>' if gallery.note else ""
    cards = "".join(map(_entry, gallery.entries))
    return _titled(gallery.title, f'{note}<div class="cards">{cards}</div>')


def _entry(entry: Entry) -> str:
    facts = "".join(f'<span class="field">{escape(fact)}</span>' for fact in entry.facts)
    lines = "".join(
        f'<div class="said"><div class="who quiet">{escape(line.label)}</div><div class="spoken">'
        f'<p class="candidate" dir="auto">{_words(line.text)}</p>'
        f'<div class="strip">{"".join(map(_picture, line.pictures))}</div></div></div>'
        for line in entry.lines
    )
    meters = f'<div class="meters">{"".join(map(_meter, entry.meters))}</div>' if entry.meters else ""
    references = "".join(f'<li dir="auto">{escape(text)}</li>' for text in entry.references)
    references = f'<ul class="references">{references}</ul>' if references else ""
    picture = _picture(entry.picture) if entry.picture else ""
    header = f"<header><code>{escape(entry.id)}</code>{facts}</header>"
    return f'<article class="card">{picture}<div class="body">{header}{lines}{meters}{references}</div></article>'


def _picture(picture: Picture) -> str:
    uri = None if picture.source is None else thumbnail(picture.source)
    title = escape(picture.title)
    if uri is None:
        return f'<span class="missing">{title or "no picture"}</span>'
    image = f'<img src="{uri}" alt="{title}" title="{title}">'
    return f'<a href="{escape(picture.href)}">{image}</a>' if _local(picture.href) else image


def _meter(meter: Meter) -> str:
    share = round(100 * min(max(meter.share, 0.0), 1.0))
    bar = f'<div class="meter"><i style="width:{share}%"></i></div>'
    return f"<span>{escape(meter.label)}</span>{bar}<span>{escape(meter.text)}</span>"


def _footer(document: Document) -> str:
    line = f"<p>Made by <strong>captious {__version__}</strong>. The files of the run contain every number in full.</p>"
    if not document.signatures:
        return line
    summary = "<summary>Signatures: everything that can change the numbers</summary>"
    opened = " open" if len(document.signatures) < 4 else ""
    return f"{line}<details{opened}>{summary}{signature_list(document)}</details>"


def signature_list(document: Document) -> str:
    """The signatures, one per line."""
    return f"<ul>{''.join(f'<li><code>{escape(line)}</code></li>' for line in document.signatures)}</ul>"


def _scripts(items: Items, code: str) -> str:
    data, images = explorer(items)
    blocks = "".join(
        f'<script type="application/json" id="{name}">{embedded(content)}</script>\n'
        for name, content in (("data", data), ("images", images))
    )
    return f"{blocks}<script>{code}</script>"


def embedded(data: object) -> str:
    """JSON that cannot end its script element, whatever captions hold."""
    return dumps(data, indent=None).replace("<", "\\u003c")


def asset(name: str) -> str:
    """A script, a style sheet or a template of the page."""
    return (files("captious.render") / "page" / name).read_text(encoding="utf-8")


_WRITERS: dict[type, Callable[..., str]] = {
    Text: _text,
    Table: _table,
    Chart: _chart,
    Graph: _graph,
    Items: lambda items: asset("items.html"),
    Gallery: _gallery,
    Group: _group,
}
