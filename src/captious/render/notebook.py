"""Documents in notebooks: the page's tables, charts and galleries with inline styles.

JupyterLab, VS Code, Colab and GitHub drop scripts, and often style sheets. Text has the color of the notebook's theme;
all other colors are legible on white and on black.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from html import escape

from captious.render import html
from captious.render.document import Chart, Document, Gallery, Graph, Section, Table, Text

# Largest number of rows of a table that are shown.
ROWS = 200
COLORS = ("#3a86c8", "#d97a1a", "#1f9d74", "#bf5ba3", "#9a8a1c", "#3aa0c9", "#d0534b", "#7d8796")
LINE, SHADE = "rgba(128,128,128,.3)", "rgba(128,128,128,.16)"


def render_notebook(document: Document) -> str:
    """Return the HTML of a notebook cell: title, plain answer, warnings, sections, notes, and folded signatures."""
    parts = [f'<div class="title">{escape(document.title)}</div>']
    parts += [f'<div class="answer">{escape(document.answer_text)}</div>'] if document.answer else []
    parts += [f'<div class="about">{escape(document.about)}</div>'] if document.about else []
    parts.append(html.render_warnings(document.warnings))
    parts += map(html.render_section, _select_sections(document))
    parts += [f'<div class="note">{escape(note)}</div>' for note in document.notes]
    if document.signatures:
        summary = "<summary>signatures: everything that can change the numbers</summary>"
        parts.append(f"<details>{summary}{html.render_signatures(document)}</details>")
    body = _apply_styles("".join(parts))
    frame = "font-family:system-ui,-apple-system,'Segoe UI',Roboto,sans-serif;font-size:14px;line-height:1.45"
    return f'<div class="captious" style="{frame}">{body}</div>'.encode("utf-8", "replace").decode()


def _select_sections(document: Document) -> list[Section]:
    """Select the sections for a cell: no groups, details or scatter charts, and only galleries that replace a table."""
    shown: list[Section] = []
    for section in html.drop_replaced(document.sections):
        if isinstance(section, Table) and not section.detail:
            section = replace(section, title="") if section.title == document.title else section
            if len(section.rows) > ROWS:
                more = f"… and {len(section.rows) - ROWS:,} more rows. {section.note}"
                section = replace(section, rows=section.rows[:ROWS], note=more)
            shown.append(section)
        elif (
            (isinstance(section, Text) and not section.detail)
            or (isinstance(section, Chart) and section.kind != "scatter")
            or isinstance(section, Graph)
            or (isinstance(section, Gallery) and section.replaces)
        ):
            if isinstance(section, Gallery) and section.title == document.title:
                section = replace(section, title="")
            shown.append(section)
    return shown


def _apply_styles(markup: str) -> str:
    """Replace the classes of the page's markup by inline styles; remove ids and links, which have no target here.

    A page has two drawings of each chart, for screens and phones; without a style sheet, only the first is kept.
    """
    markup = re.sub(r'<svg class="chart phone".*?</svg>', "", markup, flags=re.DOTALL)
    markup = re.sub(r"</?a\b[^>]*>", "", markup)
    markup = re.sub(r"(</?)h[23]\b", r"\1div", re.sub(r"<h([23])", r'<h\1 class="heading"', markup))
    markup = re.sub(r"var\(--s(\d)\)", lambda match: COLORS[int(match[1])], markup)
    return re.sub(
        r"<([a-z]+)((?:\s[^<>]*?)?)(/?)>", lambda match: _apply_tag_style(match[1], match[2], match[3]), markup
    )


def _apply_tag_style(tag: str, attributes: str, end: str) -> str:
    # Order of precedence, lowest first: tag, class, tag.class, the element's own style.
    names: list[str] = []
    for match in re.finditer(r'\sclass=(?:"([^"]*)"|(\w+))', attributes):
        names += (match[1] or match[2] or "").split()
    own = re.findall(r'\sstyle="([^"]*)"', attributes)
    rest = re.sub(r'\s(?:class|style|id)=(?:"[^"]*"|\w+)', "", attributes)
    keys: Sequence[str] = [tag, *names, *(f"{tag}.{name}" for name in names)]
    style = ";".join([*(STYLES[key] for key in keys if key in STYLES), *own])
    return f"<{tag}{rest}{f' style={chr(34)}{style}{chr(34)}' if style else ''}{end}>"


_BAR = "position:absolute;display:block;height:auto;top:1px;bottom:1px;border-radius:3px;background:var(--bar,#3a86c8)"
_CELL = f"padding:5px 10px;border:0;border-top:1px solid {LINE};text-align:left;vertical-align:middle"

# Styles by tag, by class, and by both; a later one of an element wins.
STYLES = {
    "title": "font-size:16px;font-weight:600;margin:2px 0 4px",
    "answer": "margin:0 0 6px;max-width:110ch",
    "about": "opacity:.7;margin:0 0 6px",
    "heading": "font-size:14px;font-weight:600;margin:0 0 6px",
    "section": "display:block;margin:12px 0",
    "p": "margin:4px 0",
    "note": "opacity:.7;font-size:12.5px;margin:5px 0 0;max-width:110ch",
    "notes": "opacity:.8;font-size:13px;margin:4px 0;padding-left:18px",
    "warning": "background:rgba(226,185,59,.18);border-left:3px solid #e2b93b;border-radius:3px;padding:6px 12px",
    "strong": "margin-right:8px",
    "details": "margin:8px 0;font-size:12.5px",
    "summary": "cursor:pointer;opacity:.7",
    "code": "font-size:11.5px;background:none;padding:0;overflow-wrap:anywhere;white-space:normal",
    # Tables: notebooks bring their own zebra and alignment.
    "scroll": "overflow-x:auto",
    "table": "border-collapse:collapse;table-layout:auto;width:auto;margin:0;border:0;font-size:13px;"
    f"font-variant-numeric:tabular-nums;border-bottom:1px solid {LINE}",
    "tr": "background:transparent;border:0",
    "tr.open": "border-top:2px solid rgba(128,128,128,.6)",
    "th": f"{_CELL};font-weight:600;background:transparent",
    "td": f"{_CELL};background:transparent",
    "td.wide": "width:150px;min-width:110px",
    "number": "text-align:right;white-space:nowrap",
    "best": "font-weight:700",
    "mark": "opacity:.7;margin-left:2px",
    "direction": "opacity:.6;font-weight:400",
    "swatch": "display:inline-block;width:10px;height:10px;border-radius:3px;margin-right:6px",
    "interval": f"position:relative;display:block;height:10px;min-width:90px;margin:3px 0;border-radius:3px;"
    f"background:{SHADE}",
    "i.band": f"{_BAR};opacity:.5;min-width:2px",
    "i.dot": f"{_BAR};top:0;bottom:0;width:3px;margin-left:-1.5px;border-radius:2px",
    "i.zero": f"{_BAR};top:-2px;bottom:-2px;width:1px;background:rgba(128,128,128,.9)",
    "i.plus": f"{_BAR};background:{COLORS[2]}",
    "i.minus": f"{_BAR};background:{COLORS[1]}",
    "i.amount": _BAR,
    "i.fault": f"{_BAR};background:{COLORS[6]}",
    # Words.
    "tone-good": "background:rgba(31,157,116,.3);border-radius:3px;padding:0 2px",
    "tone-bad": "background:rgba(217,122,26,.3);border-radius:3px;padding:0 2px",
    "tone-unsure": "text-decoration:underline dotted",
    "tone-strong": "font-weight:600",
    "tone-struck": "text-decoration:line-through",
    "tone-quiet": "opacity:.65",
    # Galleries.
    "cards": "display:grid;grid-template-columns:repeat(auto-fill,minmax(min(100%,400px),1fr));gap:10px",
    "card": f"display:flex;gap:12px;border:1px solid {LINE};border-radius:6px;padding:10px 12px",
    "img": "flex:none;width:120px;max-width:120px;height:auto;align-self:flex-start;border-radius:4px;margin:0",
    "missing": "flex:none;width:100px;font-size:12px;opacity:.6",
    "body": "flex:1;min-width:0",
    "header": "display:flex;flex-wrap:wrap;align-items:baseline;gap:2px 10px;font-size:12.5px;margin-bottom:4px",
    "field": f"background:{SHADE};border-radius:4px;padding:0 6px",
    "who": "font-size:12.5px;opacity:.65",
    "candidate": "margin:0;font-size:15px;line-height:1.35;overflow-wrap:anywhere",
    "references": "margin:6px 0 0;padding:0 0 0 16px;opacity:.7;font-size:13px;line-height:1.35",
    "li": "margin:0",
    "meters": "display:grid;grid-template-columns:max-content minmax(30px,90px) 1fr;gap:0 8px;align-items:center;"
    "font-size:12px;opacity:.85;margin:3px 0",
    "meter": f"height:6px;border-radius:3px;background:{SHADE};overflow:hidden",
    "i": "display:block;height:100%;background:#3a86c8",
    # Charts.
    "figure": "margin:12px 0;padding:0",
    "svg": "display:block;width:100%;max-width:860px;height:auto;font:12.5px system-ui,sans-serif",
    "name": "fill:currentColor",
    "tick": "fill:currentColor;fill-opacity:.7",
    "rule": "stroke:currentColor;stroke-opacity:.15",
    "reference": "stroke:currentColor;stroke-opacity:.6;stroke-dasharray:4 3",
    # Scene graphs.
    "svg.scene": "width:auto;max-width:none",
    "rect.said": f"fill:{SHADE};stroke:rgba(128,128,128,.6)",
    "rect.matched": "fill:rgba(31,157,116,.2);stroke:#1f9d74;stroke-width:1.5",
    "rect.wrong": "fill:transparent;stroke:#d0534b;stroke-width:1.5;stroke-dasharray:2 3",
    "path.said": "fill:none;stroke:rgba(128,128,128,.8);stroke-width:1.5",
    "path.matched": "fill:none;stroke:#1f9d74;stroke-width:1.5",
    "path.wrong": "fill:none;stroke:#d0534b;stroke-width:1.5;stroke-dasharray:2 3",
    "polygon.said": "fill:rgba(128,128,128,.8)",
    "polygon.matched": "fill:#1f9d74",
    "polygon.wrong": "fill:#d0534b",
    "text.node": "font-size:14px;font-weight:600;fill:currentColor",
    "text.chip": "font-size:12px;fill:currentColor",
    "text.label": "font-size:12px;font-style:italic;fill:currentColor",
    "tuples": "font-size:12.5px;margin:3px 0",
    "p.missed": "opacity:.65",
    "rect.band": "fill:currentColor;fill-opacity:.06",
    "hollow": "fill:transparent;stroke-width:2",
}
