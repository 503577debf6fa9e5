"""A finding on the terminal."""

from __future__ import annotations

from captious.analyses.finding import Finding

WIDTH = 150


def print_finding(finding: Finding) -> None:
    """Its tables, then notes and signatures."""
    from rich.table import Table
    from rich.text import Text

    from captious.report.terminal import output

    console = output()
    if not console.is_terminal:
        console.width = WIDTH
    for grid in finding.grids:
        table = Table(title=Text(grid.title), title_justify="left")
        for place, column in enumerate(grid.columns):
            table.add_column(Text(column), justify="left" if place < grid.words else "right", overflow="fold")
        for row in grid.rows:
            table.add_row(*map(Text, row))
        console.print(table)
    for note in finding.notes:
        console.print(Text(note), soft_wrap=True)
    for line in finding.signatures:
        console.print(Text(line, style="dim"), soft_wrap=True)
