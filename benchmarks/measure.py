"""Measure functions in fresh processes: wall-clock time of one call, and peak memory."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any


def timed(job: Callable[[], Any]) -> dict[str, float]:
    """Time of one call in this process, and its peak memory afterwards."""
    start = time.perf_counter()
    job()
    seconds = time.perf_counter() - start
    return {"seconds": seconds, "peak_gib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20}


def best_of(processes: int, script: str, *arguments: str) -> dict[str, Any]:
    """The quickest of several fresh processes, so that nothing is warm that a user's run would find cold."""
    return min((in_process(script, *arguments) for _ in range(processes)), key=lambda figures: figures["seconds"])


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
