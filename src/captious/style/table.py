"""Table 1 as a result: the OnlyStyle column, StyleCIDEr under one reading or many, and the ranks of true styles."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from rich.console import Group
from rich.table import Table
from rich.text import Text

from captious.style.check import Retrieval, StyleCheck
from captious.style.reading import Reading


@dataclass(frozen=True, eq=False)
class TableOne:
    """Both columns of Table 1 and the retrieval ranks."""

    name: str
    retrieval: Retrieval
    stylecider: dict[str, float]
    lonely: int
    """Captions without another caption of their style to compare with."""

    def summary(self) -> dict[str, Any]:
        """Everything as plain data."""
        ranks = self.retrieval.ranks
        return {
            "corpus": self.name,
            "captions": len(ranks),
            "styles": self.retrieval.styles,
            "onlystyle": self.retrieval.value,
            "stylecider": self.stylecider,
            "without_references": self.lonely,
            "rank": {
                "median": float(np.median(ranks)),
                "mean_reciprocal": float((1.0 / ranks).mean()),
                "first": float((ranks == 1).mean()),
                "top_tenth": self.retrieval.within(0.1),
            },
        }

    def view(self) -> Group:
        """For the terminal."""
        found = self.summary()
        title = Text(
            f"{self.name}: {found['captions']:,} captions, {found['styles']} styles; share that satisfies",
            overflow="fold",
        )
        table = Table()
        table.add_column("equation")
        table.add_column("reading")
        table.add_column("value", justify="right", style="bold")
        table.add_row("9: OnlyStyle", "default", f"{self.retrieval.value:.4f}")
        for reading, value in self.stylecider.items():
            table.add_row("10: StyleCIDEr", reading, f"{value:.4f}")
        ranks = Table(title="rank of the true style by OnlyStyle", title_justify="left")
        for column in ("median", "mean reciprocal", "first", "in the top tenth"):
            ranks.add_column(column, justify="right")
        rank = found["rank"]
        shown = (f"{rank[key]:.4f}" for key in ("mean_reciprocal", "first", "top_tenth"))
        ranks.add_row(f"{rank['median']:g}", *shown)
        note = [f"{self.lonely} captions are the only one of their style and count in equation 9 alone"]
        return Group(title, table, ranks, *(note if self.lonely else []))


def table_one(
    check: StyleCheck, readings: Sequence[Reading], seed: int = 0, step: Callable[[str], None] | None = None
) -> TableOne:
    """Table 1 of a corpus under some readings."""
    say = step or (lambda text: None)
    styles = len(check.placed.model.styles)
    retrieval = check.retrieval(progress=lambda done: say(f"OnlyStyle: {done} of {styles} styles"))
    values, lonely = {}, 0
    total = int(check.tested.sum())
    for reading in readings:
        name = str(reading)
        say(f"StyleCIDEr, {name}: {total:,} captions")
        wins = check.stylecider(reading, seed, partial(_tell, say, name, total))
        known = wins[~np.isnan(wins)]
        values[name] = float(known.mean()) if len(known) else float("nan")
        lonely = max(lonely, len(wins) - len(known))
    return TableOne(check.corpus.name, retrieval, values, lonely)


def _tell(say: Callable[[str], None], name: str, total: int, done: int) -> None:
    say(f"StyleCIDEr, {name}: {done:,} of {total:,} captions")
