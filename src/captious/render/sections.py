"""Sections of a document as plain data, for the scripts of a page that draw why a score is so."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from captious.render._cells import PrintedColumn, layout, numeric
from captious.render._graphs import drawing, lists
from captious.render.document import Graph, Phrase, Section, Table, Text

# Tuples of a graph that are listed, of those matched, wrong and missed each.
LISTED = 100


def section_data(sections: Sequence[Section], rows: int) -> list[dict[str, Any]]:
    """Texts in spans, tables of spans with at most so many rows, graphs. A graph stands for the table it replaces."""
    graphs = {section.replaces for section in sections if isinstance(section, Graph)}
    result: list[dict[str, Any]] = []
    for section in sections:
        if isinstance(section, Text) and (section.title or section.paragraphs):
            result.append({"title": section.title, "paragraphs": [_spans(text) for text in section.paragraphs]})
        elif isinstance(section, Graph):
            result.append({"title": section.title, "graph": graph_data(section)})
        elif isinstance(section, Table) and section.key not in graphs:
            result.append(_table(section, rows))
    return result


def graph_data(graph: Graph) -> dict[str, Any]:
    """The shapes of a graph, and its tuples by what became of them."""
    width, height, shapes = drawing(graph)
    tuples = lists(graph)
    return {
        "width": width,
        "height": height,
        "shapes": shapes,
        "counts": {mark: len(texts) for mark, texts in tuples.items()},
        "lists": {mark: texts[:LISTED] for mark, texts in tuples.items()},
    }


def _table(table: Table, most: int) -> dict[str, Any]:
    shown, number = layout(table), min(len(table.rows), most)
    columns = [{"name": one.heading, "number": one.numeric, "bars": _bars(table, one, number)} for one in shown]
    rows = [[_spans(one.cells[row]) for one in shown] for row in range(number)]
    left = len(table.rows) - number
    note = " ".join(filter(None, (table.note, f"{left} more rows." if left else "")))
    return {"title": table.title, "columns": columns, "rows": rows, "note": note}


def _bars(table: Table, shown: PrintedColumn, number: int) -> list[float] | None:
    """The length of each row's bar as a share of the longest, negative where the number is; None without bars."""
    values = [numeric(row[shown.index]) for row in table.rows[:number]]
    longest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not shown.column.bar or not longest:
        return None
    return [round(value / longest, 3) if math.isfinite(value) else 0.0 for value in values]


def _spans(text: str | Phrase) -> str | Sequence[tuple[str, str, float]]:
    """A text without a tone is itself."""
    if isinstance(text, str) or not any(span.tone for span in text.spans):
        return str(text)
    return [(span.text, span.tone, round(span.weight, 3)) for span in text.spans]
