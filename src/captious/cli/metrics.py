"""``captious metrics``: which there are, and the card of one."""

from __future__ import annotations

import json
from typing import Annotated

import typer

from captious.cli import options as o


def metrics(
    name: Annotated[str | None, typer.Argument(help="Print the card of this metric.")] = None,
    as_json: o.AsJson = False,
    markdown: Annotated[bool, typer.Option("--markdown", help="Print the card as Markdown source.")] = False,
) -> None:
    """List the metrics, or print one metric's card: formula, parameters, needs, citation."""
    from rich.markdown import Markdown
    from rich.table import Table

    from captious.metrics.registry import metric_class, names, parse
    from captious.report.card import card, facts, parameter_rows
    from captious.report.terminal import output

    if name is not None:
        found = metric_class(parse(name).name)
        if as_json:
            record = {"name": found.name, "facts": dict(facts(found)), "parameters": parameter_rows(found)}
            typer.echo(json.dumps(record, ensure_ascii=False, indent=2))
        elif markdown:
            typer.echo(card(found), nl=False)
        else:
            output().print(Markdown(card(found)))
        return
    classes = [metric_class(known) for known in names()]
    if as_json:
        typer.echo(json.dumps([{"name": c.name, **dict(facts(c))} for c in classes], ensure_ascii=False, indent=2))
        return
    table = Table(title="metrics (captious metrics NAME prints the card)", title_justify="left")
    for column in ("name", "what it is", "needs", "better"):
        table.add_column(column)
    for found in classes:
        headline = (found.__doc__ or "").partition("\n")[0]
        table.add_row(
            found.name, headline, ", ".join(found.needs) or "—", "higher" if found.higher_is_better else "lower"
        )
    output().print(table)
