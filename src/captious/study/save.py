"""A study as a folder, written whole: JSON, CSV, LaTeX, HTML and the values item by item."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from captious._files import MARKER, whole_folder
from captious.render.tables import dumps, finite
from captious.study.delimited import to_csv
from captious.study.design import Rows
from captious.study.html import page
from captious.study.latex import study_table
from captious.study.study import Study
from captious.study.summary import summarize


def save(study: Study, folder: str | Path, overwrite: bool = False) -> None:
    """Write everything about a study."""
    with whole_folder(folder, overwrite) as draft:
        summary = summarize(study)
        (draft / "study.csv").write_text(to_csv(study), encoding="utf-8")
        (draft / "study.tex").write_text(study_table(study), encoding="utf-8")
        (draft / "study.txt").write_text(f"{study.table()}\n{study.signature}\n", encoding="utf-8")
        with (draft / "items.jsonl").open("w", encoding="utf-8") as lines:
            for place, key in enumerate(study.ids):
                record: dict[str, Any] = {
                    "id": key,
                    "scores": {score.key: finite(float(score.values[place])) for score in study.scores},
                }
                if isinstance(study.problem, Rows):
                    record["mean_rating"] = float(study.problem.mean[place])
                lines.write(json.dumps(record, ensure_ascii=False) + "\n")
        (draft / "study.html").write_text(page(study, summary), encoding="utf-8")
        (draft / MARKER).write_text(dumps(summary) + "\n", encoding="utf-8")
