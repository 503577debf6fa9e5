"""The log: one JSON object per optimiser step and per validation, which any plotting tool reads."""

from __future__ import annotations

import json
import math
import time
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.extras import require
from captious.files import whole_file

torch = require("torch", "clip")

FILE = "log.jsonl"
PENDING = 20
"""Steps whose numbers wait on the device before they are fetched together, so that no step waits for the next."""


class Log:
    """Appends to ``log.jsonl``; a training that resumes cuts off what came after its checkpoint."""

    def __init__(self, folder: Path, step: int, writes: bool = True) -> None:
        self.path = folder / FILE
        self._pending: list[tuple[dict[str, Any], dict[str, Any]]] = []
        self._writes = writes
        self._since, self._samples = time.perf_counter(), 0
        self.last: dict[str, Any] = {}
        if writes:
            kept = [row for row in read(folder) if row["step"] <= step] if step else []
            with whole_file(self.path) as draft:
                draft.write_text("".join(_line(row) for row in kept), encoding="utf-8")

    def step(self, record: dict[str, Any], parts: dict[str, Any], samples: int) -> None:
        """Note a step; the parts may still be on the device."""
        self._pending.append((record, parts))
        self._samples += samples
        if len(self._pending) >= PENDING:
            self.flush()

    def validation(self, step: int, epoch: int, found: dict[str, float]) -> None:
        """Note a validation."""
        self.flush()
        self._append([{"step": step, "epoch": epoch, "validation": found}])

    def flush(self) -> None:
        """Fetch what is pending and write it; stops the training where a loss is not a number."""
        if not self._pending:
            return
        values = [{key: float(value) for key, value in parts.items()} for _, parts in self._pending]
        now = time.perf_counter()
        speed = round(self._samples / max(now - self._since, 1e-9), 1)
        rows = [
            {**record, **_rounded(parts), "samples_per_second": speed}
            for (record, _), parts in zip(self._pending, values, strict=True)
        ]
        self._pending, self._samples, self._since = [], 0, now
        self.last = rows[-1]
        self._append(rows)
        broken = next((row for row in rows if not math.isfinite(row["loss"])), None)
        if broken is not None:
            raise InputError(
                f"step {broken['step']}: the loss is {broken['loss']}; try a smaller --lr, or --precision fp32"
            )

    def pause(self) -> None:
        """Start the clock anew, after something that is not training."""
        self._since = time.perf_counter()

    def _append(self, rows: list[dict[str, Any]]) -> None:
        if self._writes:
            with self.path.open("a", encoding="utf-8") as file:
                file.writelines(_line(row) for row in rows)


def read(folder: Path) -> list[dict[str, Any]]:
    """The rows of a log; a last line that a kill cut short is left out."""
    path = folder / FILE
    rows = []
    for line in path.read_text(encoding="utf-8").splitlines() if path.is_file() else []:
        try:
            rows.append(json.loads(line))
        except ValueError:
            continue
    return rows


def _line(row: dict[str, Any]) -> str:
    return json.dumps(row, ensure_ascii=False) + "\n"


def _rounded(parts: dict[str, float]) -> dict[str, float]:
    return {key: float(f"{value:.6g}") for key, value in parts.items()}
