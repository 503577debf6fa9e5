"""The HTML page of a result: one file that works from disk, offline, in light and dark.

Python writes texts, tables, charts, galleries and cards, with everything escaped. Scripts sort tables, open cards and
draw items; they receive captions as JSON and insert them as text, never as markup.
"""

from __future__ import annotations

import math
import re
from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import sha256
from html import escape
from importlib.resources import files
from itertools import groupby

from captious._version import __version__
from captious.render._cells import PrintedColumn, format_columns, get_number, has_interval
from captious.render._hidden_folders import remove_folders
from captious.render.document import (
    Cell,
    Chart,
    Document,
    Entry,
    Evidence,
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
    is_local,
)
from captious.render.exports import dumps
from captious.render.items import build_explorer_data, make_thumbnail

# Scripts of every page that has something to sort or to open, and of a page with items.
LINKED = ("base.js", "evidence.js", "tables.js")
SCRIPTS = (*LINKED, "embedded.js", "state.js", "charts.js", "views.js", "explanations.js", "items.js", "main.js")
# Least rows of a table that can be sorted.
SORTED = 3
# Largest number of warnings that are shown unfolded.
WARNINGS = 5
# Largest number of sections linked at the top of the page, besides charts and items.
LINKS = 6
# Width of a table on a phone of 360 pixels, and on paper (A4 is narrower than Letter), in pixels.
PHONE, PAPER = 300, 690
# Width of a letter, and padding of a cell, in pixels.
ON_PHONE, ON_PAPER = (9, 20), (7, 12)
# Longest text, in letters, that shares a line with others in a folded table.
PHRASE = 24


def render_page(document: Document) -> str:
    """Return the HTML page of a document."""
    document = remove_folders(document)
    items = next((section for section in document.walk() if isinstance(section, Items)), None)
    evidence = [section for section in document.walk() if isinstance(section, Evidence)]
    scripts = SCRIPTS if items else LINKED if evidence or _has_sorted(document) else ()
    code = join_scripts(map(read_asset, scripts)) if scripts else ""
    page = document.page or document.title
    parts = {
        "policy": _make_policy(code),
        "page": escape(page),
        "kind": f'<p id="kind">{escape(page)}</p>' if page != document.title else "",
        "title": escape(document.title),
        "style": read_asset("page.css"),
        "nav": _render_navigation(document),
        "answer": f'<p id="answer">{escape(document.answer_text)}</p>' if document.answer else "",
        "about": f'<p id="about">{escape(document.about)}</p>' if document.about else "",
        "warnings": render_warnings(document.warnings),
        "sections": "".join(_render_sections(_remove_title(drop_replaced(document.sections), document.title))),
        "notes": _render_bullets(document.notes) if document.notes else "",
        "footer": _render_footer(document),
        "scripts": _render_scripts(items, evidence, code) if code else "",
    }
    text = re.sub(r"<!-- (\w+) -->", lambda match: parts[match[1]], read_asset("page.html"))
    return text.encode("utf-8", "replace").decode()


def join_scripts(scripts: Iterable[str]) -> str:
    """Join scripts into one that defines no globals, without comments and indentation: every page includes them."""
    lines = (line.strip() for script in scripts for line in script.splitlines())
    joined = "\n".join(line for line in lines if line and not line.startswith("//"))
    return f'\n(() => {{\n"use strict";\n{joined}\n}})();\n'


def _has_sorted(document: Document) -> bool:
    return any(isinstance(one, Table) and not one.turned and len(one.rows) >= SORTED for one in document.walk())


def _make_policy(code: str) -> str:
    """Return a content security policy that blocks all requests and allows only the page's own script, by its hash."""
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    if code:
        policy += f"; script-src 'sha256-{b64encode(sha256(code.encode()).digest()).decode()}'"
    return policy


def get_policy(page: str) -> str:
    """Return the content security policy of a page, for the header of a server that sends it."""
    match = re.search(r'http-equiv="Content-Security-Policy" content="([^"]*)"', page)
    return match[1] if match else "default-src 'none'"


def _render_navigation(document: Document) -> str:
    shown = drop_replaced(document.sections)
    headings = [section.title for section in shown if isinstance(section, (Text, Table, Gallery, Group))]
    titles = [title for title in dict.fromkeys(headings) if title not in ("", document.title)][:LINKS]
    links = [f'<a href="#{_make_anchor(title)}">{escape(title)}</a>' for title in titles]
    if any(isinstance(section, Items) for section in document.sections):
        links += ['<a href="#charts">Charts</a>', '<a href="#items">Items</a>']
        links.append('<button type="button" id="worst-captions" class="primary">Worst captions</button>')
    return "".join(links)


def _make_anchor(title: str) -> str:
    return "s-" + re.sub(r"\W+", "-", title.lower()).strip("-")


def render_warnings(warnings: Sequence[str]) -> str:
    """Return a box per warning; if there are many, most are folded."""
    boxes = [f'<p class="warning"><strong>Warning</strong>{escape(warning)}</p>' for warning in warnings]
    first, rest = (boxes, []) if len(boxes) <= WARNINGS else (boxes[: WARNINGS - 1], boxes[WARNINGS - 1 :])
    more = f'<details class="more"><summary>{len(rest)} more warnings</summary>{"".join(rest)}</details>'
    return "".join(first) + (more if rest else "")


def drop_replaced(sections: Sequence[Section]) -> list[Section]:
    """Return the sections without the tables that a gallery or graph replaces."""
    replaced = {section.replaces for section in sections if isinstance(section, (Gallery, Graph))}
    return [section for section in sections if not (isinstance(section, Table) and section.key in replaced)]


def _remove_title(sections: Sequence[Section], title: str) -> list[Section]:
    """Remove the titles of sections that repeat the page's title."""
    return [
        replace(one, title="") if isinstance(one, (Text, Table, Gallery)) and one.title == title else one
        for one in sections
    ]


def _render_sections(sections: Sequence[Section]) -> list[str]:
    """Render sections in their order; consecutive charts share a grid."""
    parts = []
    drawn = [one for one in sections if not isinstance(one, Evidence)]
    for are_charts, run in groupby(drawn, lambda one: isinstance(one, Chart)):
        markup = [render_section(one) for one in run]
        parts.append(f'<section class="grid">{"".join(markup)}</section>' if are_charts else "".join(markup))
    return parts


def render_section(section: Section) -> str:
    """Return the markup of one section."""
    return _WRITERS[type(section)](section)


def _render_text(section: Text) -> str:
    if section.bullets:
        body = _render_bullets(section.paragraphs)
    else:
        body = "".join(f"<p>{_render_phrase(paragraph)}</p>" for paragraph in section.paragraphs)
    return _wrap_section(section.title, body)


def _wrap_section(title: str, body: str) -> str:
    heading = f'<h2 id="{_make_anchor(title)}">{escape(title)}</h2>' if title else ""
    return f"<section>{heading}{body}</section>"


def _render_bullets(lines: Sequence[str | Phrase]) -> str:
    return '<ul class="notes">' + "".join(f"<li>{_render_phrase(line)}</li>" for line in lines) + "</ul>"


def _render_group(section: Group) -> str:
    body = f'<div class="group">{"".join(_render_sections(section.sections))}</div>'
    summary = f"<summary>{escape(section.title)}</summary>"
    return f'<details id="{_make_anchor(section.title)}">{summary}{body}</details>'


def _render_chart(chart: Chart) -> str:
    from captious.render._charts import NARROW, ROWS, describe_single, draw_chart

    caption = f"<figcaption><h3>{escape(chart.title)}</h3></figcaption>" if chart.title else ""
    single = describe_single(chart)
    note = f'<p class="note">{escape(chart.note)}</p>' if chart.note else ""
    if single and chart.kind in ("lines", "scatter"):
        return f"<figure>{caption}<p>{_render_phrase(single)}</p>{note}</figure>"
    note = f'<p class="note">{_render_phrase(single)}</p>{note}' if single else note
    wide = ' class="wide"' if chart.kind in ROWS else ""
    return f"<figure{wide}>{caption}{draw_chart(chart)}{draw_chart(chart, NARROW)}{note}</figure>"


def _render_graph(graph: Graph) -> str:
    from captious.render._graph_drawing import draw_graph, group_tuples

    caption = f"<figcaption><h3>{escape(graph.title)}</h3></figcaption>" if graph.title else ""
    lines = "".join(
        f'<p class="tuples {mark}"><b>{mark} {len(tuples)}</b> {escape(" ".join(tuples))}</p>'
        for mark, tuples in group_tuples(graph).items()
    )
    return f'<figure class="wide">{caption}<div class="scroll">{draw_graph(graph)}</div>{lines}</figure>'


def _render_table(table: Table) -> str:
    """Render a table; bars follow their column, or are below the number if its interval is in the same cell."""
    if table.turned:
        return _render_transposed(table)
    shown = format_columns(table)
    bars = {index: _render_bars(table, index) for index, column in enumerate(table.heads) if column.bar}
    last = {one.index: one for one in shown}
    beside = [one for one in shown if one.index in bars and one.column.spread != "half" and last[one.index] is one]
    head = "".join(_render_heading(one) + ("<td></td>" if one in beside else "") for one in shown)
    folds = _get_fold_classes(list(map(_count_letters, shown)), len(beside))
    rows = []
    for row, cells in enumerate(table.rows):
        parts = []
        for number, one in enumerate(shown):
            bar = bars[one.index][row] if one.index in bars else ""
            beneath = bar if one.column.spread == "half" else ""
            parts.append(_render_cell(one, row, cells[one.index], number == 0, beneath, bool(folds)))
            parts += [f'<td class="wide">{bar}</td>'] if one in beside else []
        rows.append(f"<tr{' class=open' if row in table.breaks else ''}>{''.join(parts)}</tr>")
    return _wrap_table(table, head, rows, folds)


def _count_letters(one: PrintedColumn) -> int:
    """Count the letters a printed column needs in a line: those of its longest number or word."""
    cells = [f"{cell}{mark}" for cell, mark in zip(one.cells, one.marks, strict=True)]
    unbroken = cells if one.numeric else " ".join(cells).split()
    return max(map(len, [*unbroken, *one.heading.split(), "x"]))


def _get_fold_classes(letters: Sequence[int], bars: int = 0) -> str:
    """Return the CSS classes of a table that is too wide for a phone, or for paper too.

    A folded table has its rows one under another, and each cell under the name of its column.
    """

    def pixels(letter: int, around: int) -> int:
        return sum(letter * count + around for count in letters) + bars * 7 * around

    return "".join([" folds" * (pixels(*ON_PHONE) > PHONE), " folds-on-paper" * (pixels(*ON_PAPER) > PAPER)])


def _render_transposed(table: Table) -> str:
    from captious.render._charts import COLORS

    names, *shown = format_columns(table)
    colors = [f"var(--s{row % COLORS})" for row in range(len(table.rows))]
    heads = [
        f'<th scope="col"><span class="swatch" style="background:{color}"></span>{_render_phrase(name)}</th>'
        for color, name in zip(colors, names.cells, strict=True)
    ]
    longest = max((len(word) for one in shown for word in one.heading.split()), default=0)
    values = [max(len(f"{one.cells[row]}{one.marks[row]}") for one in shown) for row in range(len(table.rows))]
    folds = _get_fold_classes([longest, *values])
    rows = []
    for one in shown:
        bars = _render_bars(table, one.index) if one.column.bar and not one.interval else [""] * len(table.rows)
        cells = []
        for row, (bar, color) in enumerate(zip(bars, colors, strict=True)):
            best = ' class="best"' if row in one.best else ""
            label = _format_label(names.cells[row]) if folds else ""
            cells.append(f'<td{best}{label} style="--bar:{color}">{_render_value(one, row)}{bar}</td>')
        rows.append(f"<tr>{_render_heading(one, 'row')}{''.join(cells)}</tr>")
    return _wrap_table(table, f"<td></td>{''.join(heads)}", rows, folds)


def _format_label(column: str | Phrase) -> str:
    """Return the attribute with a cell's column name, which a folded table shows."""
    return f' data-label="{escape(str(column))}"' if str(column) else ""


def _wrap_table(table: Table, head: str, rows: Sequence[str], folds: str) -> str:
    note = f'<p class="note">{escape(table.note)}</p>' if table.note else ""
    sorts = " sorts" if not table.turned and len(table.rows) >= SORTED else ""
    markup = f'<table class="shown{sorts}{folds}"><thead><tr>{head}</tr></thead><tbody>{"".join(rows)}</tbody></table>'
    label = f' aria-label="{escape(table.title)}"' if table.title else ""
    return _wrap_section(table.title, f'<div class="scroll" tabindex="0" role="group"{label}>{markup}</div>{note}')


def _render_heading(one: PrintedColumn, scope: str = "col") -> str:
    arrow = {True: "↑ higher is better", False: "↓ lower is better", None: ""}[one.column.higher_is_better]
    mark = f' <span class="direction" title="{arrow[2:]}">{arrow[0]}</span>' if arrow and not one.interval else ""
    kind = " class=number" if one.numeric and scope == "col" else ""
    text = escape(one.heading)
    if not one.interval and is_local(one.column.href):
        text = f'<a href="{escape(one.column.href)}">{text}</a>'
    return f'<th scope="{scope}"{kind}>{text}{mark}</th>'


def _render_cell(one: PrintedColumn, row: int, value: Value, first: bool, bar: str, folds: bool) -> str:
    strong = (one.column.bold and not one.interval) or row in one.best
    long = folds and not one.numeric and len(str(one.cells[row])) > PHRASE
    names = [name for name, wanted in (("number", one.numeric), ("best", strong), ("long", long)) if wanted]
    note = value.note if isinstance(value, Cell) and not one.interval else ""
    title = f' title="{escape(note)}"' if note else ""
    tag = "th" if first and not one.numeric else "td"
    direction = "" if one.numeric else ' dir="auto"'
    text = _render_value(one, row)
    if isinstance(value, Cell) and not one.interval and is_local(value.href):
        text = f'<a href="{escape(value.href)}">{text}</a>'
    label = _format_label(f"{one.column.name}, {one.heading}" if one.interval else one.heading) if folds else ""
    return f'<{tag} class="{" ".join(names)}"{label}{direction}{title}>{text}{bar}</{tag}>'


def _render_value(one: PrintedColumn, row: int) -> str:
    mark = f'<span class="mark">{escape(one.marks[row])}</span>' if one.marks[row] else ""
    return _render_phrase(one.cells[row]) + mark


def _render_bars(table: Table, index: int) -> list[str]:
    """Render a bar per row of a column, on one scale unless cells have their own limits."""
    cells = [row[index] for row in table.rows]
    ends = [0.0, *(end for cell in cells for end in _list_ends(cell))]
    # All bars of a column share one scale, which includes zero.
    scale = (min(ends), max(ends))
    bars = []
    for cell in cells:
        low, high = cell.limits if isinstance(cell, Cell) and cell.limits else scale
        bars.append(_render_bar(cell, low, high, table.heads[index].fault))
    return bars


def _list_ends(cell: Value) -> list[float]:
    ends = [cell.value, cell.low, cell.high] if isinstance(cell, Cell) else [get_number(cell)]
    return [end for end in ends if math.isfinite(end)]


def _render_bar(cell: Value, low: float, high: float, fault: bool = False) -> str:
    def at(value: float) -> float:
        return round(100 * min(max((value - low) / ((high - low) or 1.0), 0.0), 1.0), 2)

    value = get_number(cell)
    if math.isnan(value):
        return ""
    zero = f'<i class="zero" style="left:{at(0)}%"></i>' if low < 0 < high else ""
    if isinstance(cell, Cell) and has_interval(cell):
        band = f'<i class="band" style="left:{at(cell.low)}%;right:{round(100 - at(cell.high), 2)}%"></i>'
        wrong = " fault" if fault else ""
        return f'<span class="interval{wrong}">{zero}{band}<i class="dot" style="left:{at(value)}%"></i></span>'
    start, end = sorted((at(0), at(value)))
    # Only a scale with two sides has a good one; a plain amount is neither good nor bad.
    tone = "fault" if fault else "amount" if low >= 0 else "minus" if value < 0 else "plus"
    bar = f'<i class="{tone}" style="left:{start}%;right:{round(100 - end, 2)}%"></i>'
    return f'<span class="interval">{zero}{bar}</span>'


def _render_phrase(text: str | Phrase) -> str:
    return escape(text) if isinstance(text, str) else "".join(map(_render_span, text.spans))


def _render_span(span: Span) -> str:
    text = escape(span.text)
    if span.tone:
        share = round(100 * min(max(span.weight, 0.0), 1.0))
        style = f' style="--weight:{share}%"' if span.tone in ("good", "bad") else ""
        text = f'<span class="tone-{span.tone}"{style}>{text}</span>'
    return f'<a href="{escape(span.href)}">{text}</a>' if is_local(span.href) else text


def _render_gallery(gallery: Gallery) -> str:
    note = f'<p class="note">{escape(gallery.note)}</p>' if gallery.note else ""
    cards = "".join(map(_render_entry, gallery.entries))
    return _wrap_section(gallery.title, f'{note}<div class="cards">{cards}</div>')


def _render_entry(entry: Entry) -> str:
    facts = "".join(f'<span class="field">{escape(fact)}</span>' for fact in entry.facts)
    lines = "".join(
        f'<div class="said"><div class="who quiet">{escape(line.label)}</div><div class="spoken">'
        f'<p class="candidate" dir="auto">{_render_phrase(line.text)}</p>'
        f"{_render_strip(line.pictures)}</div></div>"
        for line in entry.lines
    )
    meters = f'<div class="meters">{"".join(map(_render_meter, entry.meters))}</div>' if entry.meters else ""
    references = "".join(f'<li dir="auto">{escape(text)}</li>' for text in entry.references)
    references = f'<ul class="references">{references}</ul>' if references else ""
    picture = _render_picture(entry.picture) if entry.picture else ""
    header = f"<header><code>{escape(entry.id)}</code>{facts}</header>"
    return f'<article class="card">{picture}<div class="body">{header}{lines}{meters}{references}</div></article>'


def _render_strip(pictures: Sequence[Picture]) -> str:
    return f'<div class="strip">{"".join(map(_render_picture, pictures))}</div>' if pictures else ""


def _render_picture(picture: Picture) -> str:
    uri = None if picture.source is None else make_thumbnail(picture.source)
    title = escape(picture.title)
    if uri is None:
        return f'<span class="missing">{title or "no picture"}</span>'
    image = f'<img src="{uri}" alt="{title}" title="{title}">'
    return f'<a href="{escape(picture.href)}">{image}</a>' if is_local(picture.href) else image


def _render_meter(meter: Meter) -> str:
    share = round(100 * min(max(meter.share, 0.0), 1.0))
    bar = f'<div class="meter"><i style="width:{share}%"></i></div>'
    return f"<span>{escape(meter.label)}</span>{bar}<span>{escape(meter.text)}</span>"


def _render_footer(document: Document) -> str:
    line = f"<p>Made by <strong>captious {__version__}</strong>. The files of the run contain every number in full.</p>"
    if not document.signatures:
        return line
    summary = "<summary>Signatures: everything that can change the numbers</summary>"
    opened = " open" if len(document.signatures) < 4 else ""
    return f"{line}<details{opened}>{summary}{render_signatures(document)}</details>"


def render_signatures(document: Document) -> str:
    """Return the signatures as a list, one per line."""
    return f"<ul>{''.join(f'<li><code>{escape(line)}</code></li>' for line in document.signatures)}</ul>"


def _render_scripts(items: Items | None, evidence: Sequence[Evidence], code: str) -> str:
    cards, panels = _render_evidence(evidence)
    contents: dict[str, object] = {"evidence": panels} if evidence else {}
    if items:
        contents["data"], contents["images"] = build_explorer_data(items)
    blocks = "".join(
        f'<script type="application/json" id="{name}">{encode_script_json(content)}</script>\n'
        for name, content in contents.items()
    )
    return f"{cards}{blocks}<script>{code}</script>"


def _render_evidence(evidence: Sequence[Evidence]) -> tuple[str, dict[str, object]]:
    """Return every card once as a template, which a browser does not draw, and what each panel shows, by its key."""
    numbers: dict[int, int] = {}
    cards: list[str] = []
    panels: dict[str, object] = {}
    for panel in evidence:
        for entry in panel.entries:
            if id(entry) not in numbers:
                numbers[id(entry)] = len(cards)
                cards.append(f'<template id="card-{len(cards)}">{_render_entry(entry)}</template>\n')
        own = [numbers[id(entry)] for entry in panel.entries]
        panels[panel.key] = {"title": panel.title, "note": panel.note, "cards": own}
    return "".join(cards), panels


def encode_script_json(data: object) -> str:
    """Encode data as JSON in which no caption can end the script element."""
    return dumps(data, indent=None).replace("<", "\\u003c")


def read_asset(name: str) -> str:
    """Read a script, a style sheet or a template of the page."""
    return (files("captious.render") / "page" / name).read_text(encoding="utf-8")


_WRITERS: dict[type, Callable[..., str]] = {
    Text: _render_text,
    Table: _render_table,
    Chart: _render_chart,
    Graph: _render_graph,
    Items: lambda items: read_asset("items.html"),
    Gallery: _render_gallery,
    Evidence: lambda evidence: "",
    Group: _render_group,
}
