"""An audit on the terminal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from rich.console import Group
from rich.table import Table
from rich.text import Text

from captious.bias.audit import Report

LEAKS = 8


def audit_view(summary: Mapping[str, Any]) -> Group:
    """The table, the leak audit, and the protocol in one line."""
    return Group(lic_table(summary), *_leaks(summary), Text(signature(summary), style="dim"))


def lic_table(summary: Mapping[str, Any]) -> Table:
    """Captioner × classifier: LIC_M, LIC_D, LIC with its interval."""
    level = summary["results"][0]["level"]
    title = f"LIC in points: {', '.join(summary['classes'])}; chance level {summary['chance']:.1f}"
    table = Table(title=title, title_justify="left")
    table.add_column("model")
    table.add_column("classifier")
    for column in ("LIC_M ± sd", "LIC_D ± sd", "LIC", f"{level:.0%} interval", "p", "differs from 0"):
        table.add_column(column, justify="right", style="bold" if column == "LIC" else "")
    for row in summary["results"]:
        differs = "yes" if row["differs_from_0"] else "no"
        table.add_row(
            Text(row["model"]),
            Text(row["classifier"]),
            _spread(row["lic_m"], row["lic_m_sd"]),
            _spread(row["lic_d"], row["lic_d_sd"]),
            f"{row['lic']:+.1f}",
            "—" if row["low"] is None else f"{row['low']:+.1f} to {row['high']:+.1f}",
            "—" if row["p"] is None else f"{row['p']:.3f}",
            differs,
        )
    return table


def signature(summary: Mapping[str, Any]) -> str:
    """Everything that can move the numbers, in one line."""
    protocol = summary["protocol"]
    names = ", ".join(str(seed) for seed in protocol["seeds"])
    over = summary["results"][0]["interval_over"]
    return (
        f"preset:{protocol['preset']}|mask:{protocol['mask']}({len(protocol['masked_words'])} words)|"
        f"vocabulary:{protocol['vocabulary']}|tok:{protocol['tokenizer']}|splits:{protocol['splits']}|"
        f"seeds:{names}|interval over {over}|sd ddof {protocol['sd_ddof']}|captious:{summary['captious']}"
    )


def _leaks(summary: Mapping[str, Any]) -> Iterator[Text]:
    for name, parts in summary["leaks"].items():
        for who, found in parts.items():
            if not found:
                continue
            shown = ", ".join(f"{leak['word']} → {leak['label']} {leak['share']:.0%}" for leak in found[:LEAKS])
            more = f", and {len(found) - LEAKS} more" if len(found) > LEAKS else ""
            yield Text(f"{name}, {who} captions: words that still tell the label almost alone: {shown}{more}")


def _spread(value: float, sd: float | None) -> str:
    return f"{value:.1f}" if sd is None else f"{value:.1f} ± {sd:.1f}"


@contextmanager
def progress() -> Iterator[Report]:
    """Runs done and time left on standard error, where that is a terminal."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
    from rich.progress import TimeRemainingColumn as Left

    from captious.render.terminal import messages

    console = messages()
    parts = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), Left())
    with Progress(*parts, console=console, disable=not console.is_terminal, transient=True) as bar:
        tasks: dict[str, Any] = {}

        def report(what: str, done: float, total: float) -> None:
            if what not in tasks:
                # What was there before is left out, or the time left would be guessed far too short.
                tasks[what] = (bar.add_task(f"{what}: runs", total=round(total - done)), done)
            number, before = tasks[what]
            bar.update(number, completed=done - before + 1e-6)

        yield report
