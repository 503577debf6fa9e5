"""A metric's card: what it is, what it needs, its parameters, whom to cite. The pages in ``docs/metrics`` are these."""

from __future__ import annotations

import inspect
import math
import types
from dataclasses import fields
from typing import Any, Literal, Union, get_args, get_origin, get_type_hints

from captious.metrics.contract import Metric
from captious.metrics.registry import FAMILIES


def card(metric: type[Metric]) -> str:
    """The card as Markdown."""
    text = inspect.getdoc(metric) or ""
    headline, _, body = text.partition("\n")
    lines = [f"# {metric.name}", "", headline, *_body(body), "", "| | |", "|---|---|"]
    lines += [f"| {name} | {value} |" for name, value in facts(metric)]
    parameters = parameter_rows(metric)
    if parameters:
        lines += ["", "| parameter | default | values |", "|---|---|---|"]
        lines += [f"| `{name}` | `{default}` | {values} |" for name, default, values in parameters]
    return "\n".join(lines) + "\n"


def facts(metric: type[Metric]) -> list[tuple[str, str]]:
    """Needs, range, direction, cost, family, citation."""
    low, high = metric.range
    rows = [
        ("needs", ", ".join(metric.needs) or "candidates only"),
        ("range", f"{low:g} to {'no limit' if math.isinf(high) else f'{high:g}'}"),
        ("better", "higher" if metric.higher_is_better else "lower"),
    ]
    if metric.cost is not None:
        size, arithmetic = metric.cost.parameters, metric.cost.flops / 1e12
        rows.append(("cost with the default weights", f"{size / 1e9:.2f} billion parameters, {arithmetic:.2e} TFLOPs"))
    if metric.name in FAMILIES:
        rows.append(("the bare name stands for", ", ".join(f"`{member}`" for member in FAMILIES[metric.name])))
    if metric.citation:
        rows.append(("cite", metric.citation))
    return rows


def parameter_rows(metric: type[Metric]) -> list[tuple[str, str, str]]:
    """Name, default and legal values of each parameter."""
    hints = get_type_hints(metric)
    return [(field.name, _shown(field.default), _values(hints[field.name])) for field in fields(metric)]


def _shown(default: Any) -> str:
    if isinstance(default, bool):
        return "yes" if default else "no"
    return f'"{default}"' if default == "" or str(default) != str(default).strip() else str(default)


def _values(hint: Any) -> str:
    if get_origin(hint) in (Union, types.UnionType):
        hint = next(option for option in get_args(hint) if option is not type(None))
    if get_origin(hint) is Literal:
        return ", ".join(f"`{choice}`" for choice in get_args(hint))
    return {int: "a whole number", float: "a number", bool: "`yes`, `no`"}.get(hint, "a name or a path")


def _body(text: str) -> list[str]:
    """The docstring's text, its doctest as a code block."""
    lines: list[str] = []
    fenced = False
    for line in text.split("\n"):
        if line.startswith(">>>") and not fenced:
            lines.append("```python")
            fenced = True
        if fenced and not line.strip():
            lines.append("```")
            fenced = False
        lines.append(line.replace("::", ":") if line.endswith("::") else line)
    return [*lines, "```"] if fenced else lines
