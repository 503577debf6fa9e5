"""Ours beside published: the one table in which every reproduction ends, printed and written by one function."""

from __future__ import annotations

import argparse
import json
import os
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from lab.benchmarks.measure import table

from captious.render.document import HasInterval

SHARED = Path(os.environ.get("CAPTIOUS_SHARED_DATA", "../shared/data"))


@dataclass(frozen=True)
class Row:
    """One number of a paper, and ours. A row without ours says in its note why it cannot be run."""

    what: str
    """The paper's table, the data, the statistic and its unit."""
    name: str
    """The metric, captioner or model."""
    ours: float | None = None
    low: float | None = None
    high: float | None = None
    published: float | None = None
    note: str = ""
    more: Mapping[str, Any] = field(default_factory=dict)
    """Further numbers, which only the JSON file holds."""

    @classmethod
    def of(
        cls,
        what: str,
        name: str,
        estimate: HasInterval,
        published: float | None = None,
        note: str = "",
        scale: float = 100.0,
        more: Mapping[str, Any] | None = None,
    ) -> Row:
        """A row from an estimate, which is multiplied by ``scale``."""
        numbers = [scale * each for each in (estimate.value, estimate.low, estimate.high)]
        return cls(what, name, *numbers, published, note, more or {})


@dataclass(frozen=True)
class Beside:
    """The table of one paper."""

    title: str
    rows: Sequence[Row]
    notes: Sequence[str] = ()
    decimals: int = 1

    def markdown(self) -> str:
        """Title, table and notes. What repeats in the first column is left out; published numbers keep their decimals.

        >>> print(Beside("T", [Row("tau", "a", 1.0, 0.5, 1.5, 1.1), Row("tau", "b", note="no weights")]).markdown())
        ## T
        <BLANKLINE>
        | what | of | ours | 95 % interval | published | note       |
        |------|----|------|---------------|-----------|------------|
        | tau  | a  | 1.0  | 0.5 – 1.5     | 1.1       |            |
        |      | b  | –    |               |           | no weights |
        <BLANKLINE>
        """
        cells = [["what", "of", "ours", "95 % interval", "published", "note"]]
        last = ""
        for row in self.rows:
            cells.append(
                [
                    "" if row.what == last else row.what,
                    row.name,
                    self._number(row.ours) or "–",
                    " – ".join(filter(None, (self._number(row.low), self._number(row.high)))),
                    "" if row.published is None else str(round(row.published, 3)).replace("-", "−"),
                    row.note,
                ]
            )
            last = row.what
        return "\n\n".join([f"## {self.title}", table(cells), *self.notes]) + "\n"

    def _number(self, value: float | None) -> str:
        if value is None or value != value:
            return ""
        return f"{round(value, self.decimals) + 0.0:.{self.decimals}f}".replace("-", "−")

    def write(self, folder: Path, name: str) -> None:
        """Write ``name.md`` and ``name.json`` into a folder."""
        folder.mkdir(parents=True, exist_ok=True)
        (folder / f"{name}.md").write_text(self.markdown(), encoding="utf-8")
        content = {"title": self.title, "rows": [asdict(row) for row in self.rows], "notes": list(self.notes)}
        text = json.dumps(content, indent=1, ensure_ascii=False, default=float)
        (folder / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def arguments(name: str, description: str | None, quick: str) -> argparse.ArgumentParser:
    """The options that every reproduction has; ``quick`` says what its quick form leaves out."""
    parser = argparse.ArgumentParser(
        prog=f"python -m lab.reproductions {name}",
        description=description,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--quick", action="store_true", help=quick)
    parser.add_argument("--data", type=Path, default=SHARED, help="folder of the evaluation data")
    parser.add_argument("--out", type=Path, help=f"folder for {name}.md and {name}.json")
    return parser


def show(result: Beside, name: str, out: Path | None, started: float) -> None:
    """Print the table, write it where a folder is named, and say how long it took."""
    print(result.markdown())
    where = ""
    if out is not None:
        result.write(out, name)
        where = f"; {out / name}.md, {out / name}.json"
    print(f"{time.perf_counter() - started:.0f} s{where}", flush=True)
