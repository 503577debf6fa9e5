"""Sections of a document as plain data, for the page's scripts that explain a score."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from captious.render._cells import PrintedColumn, format_columns, get_number
from captious.render._graph_drawing import group_tuples, lay_out_graph
from captious.render.document import Graph, Phrase, Section, Table, Text

# Largest number of tuples of a graph that are listed, of each of matched, wrong and missed.
LISTED = 100


def convert_sections(sections: Sequence[Section], rows: int) -> list[dict[str, Any]]:
    """Convert texts, tables of at most ``rows`` rows, and graphs; a graph takes the place of the table it replaces."""
    graphs = {section.replaces for section in sections if isinstance(section, Graph)}
    result: list[dict[str, Any]] = []
    for section in sections:
        if isinstance(section, Text) and (section.title or section.paragraphs):
            result.append({"title": section.title, "paragraphs": [_convert_spans(text) for text in section.paragraphs]})
        elif isinstance(section, Graph):
            result.append({"title": section.title, "graph": convert_graph(section)})
        elif isinstance(section, Table) and section.key not in graphs:
            result.append(_convert_table(section, rows))
    return result


def convert_graph(graph: Graph) -> dict[str, Any]:
    """Return the shapes of a graph, and its tuples by whether they matched."""
    width, height, shapes = lay_out_graph(graph)
    tuples = group_tuples(graph)
    return {
        "width": width,
        "height": height,
        "shapes": shapes,
        "counts": {mark: len(texts) for mark, texts in tuples.items()},
        "lists": {mark: texts[:LISTED] for mark, texts in tuples.items()},
    }


def _convert_table(table: Table, most: int) -> dict[str, Any]:
    shown, number = format_columns(table), min(len(table.rows), most)
    columns = [{"name": one.heading, "number": one.numeric, "bars": _compute_bars(table, one, number)} for one in shown]
    rows = [[_convert_spans(one.cells[row]) for one in shown] for row in range(number)]
    left = len(table.rows) - number
    note = " ".join(filter(None, (table.note, f"{left} more rows." if left else "")))
    return {"title": table.title, "columns": columns, "rows": rows, "note": note}


def _compute_bars(table: Table, shown: PrintedColumn, number: int) -> list[float] | None:
    """Compute each bar as a share of the longest one, negative for negative numbers; None without bars."""
    values = [get_number(row[shown.index]) for row in table.rows[:number]]
    longest = max((abs(value) for value in values if math.isfinite(value)), default=0.0)
    if not shown.column.bar or not longest:
        return None
    return [round(value / longest, 3) if math.isfinite(value) else 0.0 for value in values]


def _convert_spans(text: str | Phrase) -> str | Sequence[tuple[str, str, float]]:
    """Convert a text into spans; a text without tones stays a string."""
    if isinstance(text, str) or not any(span.tone for span in text.spans):
        return str(text)
    return [(span.text, span.tone, round(span.weight, 3)) for span in text.spans]
