"""A run or a comparison as a folder, written whole: JSON, per-item JSONL and Parquet, LaTeX, HTML."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from captious._files import MARKER, whole_folder
from captious.comparison import Comparison
from captious.evaluation import Report
from captious.report.html import page
from captious.report.latex import comparison_table, run_table
from captious.report.summary import item_records, summarize, summarize_comparison


def save(report: Report, folder: str | Path, overwrite: bool = False) -> None:
    """Write everything about one run."""
    with whole_folder(folder, overwrite) as draft:
        write_items(report, draft)
        (draft / "report.tex").write_text(run_table(report), encoding="utf-8")
        (draft / "report.html").write_text(page({report.captions.name: report}), encoding="utf-8")
        (draft / MARKER).write_text(dumped(summarize(report)), encoding="utf-8")


def save_comparison(comparison: Comparison, folder: str | Path, overwrite: bool = False) -> None:
    """Write everything about several systems, the items of each in a folder of its own."""
    with whole_folder(folder, overwrite) as draft:
        write_comparison(comparison, draft)


def write_comparison(comparison: Comparison, draft: Path) -> None:
    """Fill a folder with the files of a comparison."""
    for number, (name, report) in enumerate(comparison.reports.items(), start=1):
        folder = draft / _folder_name(name)
        folder = folder if not folder.exists() else draft / f"{folder.name}-{number}"
        folder.mkdir()
        write_items(report, folder, draft)
    (draft / "report.tex").write_text(comparison_table(comparison), encoding="utf-8")
    (draft / "report.html").write_text(page(comparison.reports, comparison), encoding="utf-8")
    (draft / MARKER).write_text(dumped(summarize_comparison(comparison)), encoding="utf-8")


def _folder_name(name: str) -> str:
    """A system's name as one plain folder name, whatever path it was made from."""
    return re.sub(r"[^\w.-]+", "-", name).strip(".-") or "system"


def write_items(report: Report, folder: Path, draft: Path | None = None) -> None:
    """Per-item values as ``items.jsonl`` and ``items.parquet``.

    Images inside the folder that is being written are named from the file's own place, since the draft will move.
    """
    records = [_placed(record, folder, draft or folder) for record in item_records(report)]
    with (folder / "items.jsonl").open("w", encoding="utf-8") as file:
        for record in records:
            file.write(json.dumps(_finite(record), ensure_ascii=False, default=str, allow_nan=False) + "\n")
    _write_parquet(records, list(report.measurements), folder / "items.parquet")


def _placed(record: dict[str, Any], folder: Path, draft: Path) -> dict[str, Any]:
    fields = record.get("fields", {})
    image = fields.get("image")
    if not isinstance(image, str) or not Path(image).is_relative_to(draft):
        return record
    return {**record, "fields": {**fields, "image": os.path.relpath(image, folder)}}


def _write_parquet(records: Sequence[Mapping[str, Any]], metrics: list[str], path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    columns: dict[str, Any] = {
        "id": pa.array([record["id"] for record in records], pa.string()),
        "candidates": pa.array([record["candidates"] for record in records], pa.list_(pa.string())),
        "references": pa.array([record["references"] for record in records], pa.list_(pa.string())),
    }
    for metric in metrics:
        columns[metric] = pa.array([record["scores"][metric] for record in records], pa.float64())
    columns["unscored"] = pa.array(
        [json.dumps(record["unscored"]) if "unscored" in record else None for record in records], pa.string()
    )
    for name in dict.fromkeys(key for record in records for key in record.get("fields", ())):
        values = [record.get("fields", {}).get(name) for record in records]
        columns.setdefault(name, _column(values))
    pq.write_table(pa.table(columns), path)


def _column(values: list[Any]) -> Any:
    """Values as Arrow has them, or as JSON text where it has no one type for them."""
    import pyarrow as pa

    try:
        if not any(isinstance(value, Mapping) for value in values):
            return pa.array(values)
    except (pa.ArrowException, OverflowError):
        pass
    return pa.array([json.dumps(value, default=str) for value in values], pa.string())


def _finite(value: Any) -> Any:
    """The value with null for what JSON cannot say: NaN and infinities."""
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    if isinstance(value, Mapping):
        return {key: _finite(entry) for key, entry in value.items()}
    return [_finite(entry) for entry in value] if isinstance(value, (list, tuple)) else value


def dumped(summary: Mapping[str, Any]) -> str:
    """JSON for people and programs."""
    return json.dumps(summary, indent=2, ensure_ascii=False, allow_nan=False) + "\n"
