"""Measure functions in fresh processes: the first call and the best, by the clock and by the processor; peak memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def timed(job: Callable[[], Any], repeats: int = 1) -> dict[str, float]:
    """Time of the first call in this process and of the best of several, and peak memory afterwards."""
    seconds, processor = [], []
    for _ in range(repeats):
        start, used = time.perf_counter(), processor_seconds()
        job()
        seconds.append(time.perf_counter() - start)
        processor.append(processor_seconds() - used)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    clock = {"first": seconds[0], "best": min(seconds)}
    return {**clock, "first_cpu": processor[0], "best_cpu": min(processor), "peak_gib": peak}


def processor_seconds() -> float:
    """Processor time of this process and of the programs that it has started and waited for, such as Java."""
    used = [resource.getrusage(whose) for whose in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def quickest(processes: int, script: str, *arguments: str) -> dict[str, Any]:
    """The figures of several fresh processes, with the quickest first call and the quickest call of all."""
    runs = [in_process(script, *arguments) for _ in range(processes)]
    times = [key for key in runs[0] if key.startswith(("first", "best"))]
    return {**runs[0], **{key: min(run[key] for run in runs) for key in times}}


def in_process(script: str, *arguments: str) -> dict[str, Any]:
    """Run a script of this folder in a fresh Python; its last line of output is JSON."""
    done = subprocess.run([sys.executable, script, *arguments], capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{script} {' '.join(arguments)} failed:\n{done.stderr[-2000:]}")
    result: dict[str, Any] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


def table(rows: list[list[str]]) -> str:
    """Rows as a Markdown table, the first row its head."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    lines = [
        "| " + " | ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)) + " |" for row in rows
    ]
    return "\n".join([lines[0], "|" + "|".join("-" * (width + 2) for width in widths) + "|", *lines[1:]])
