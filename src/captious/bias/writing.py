"""An audit as a folder, written whole: the summary, per-seed values, LaTeX, and the page."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captious._files import MARKER, whole_folder
from captious.bias.page import page
from captious.render.latex import escape
from captious.render.tables import dumps


def save(summary: Mapping[str, Any], folder: str | Path, overwrite: bool = False) -> None:
    """Write everything about an audit."""
    with whole_folder(folder, overwrite) as draft:
        _write_seeds(summary, draft / "seeds.csv")
        with (draft / "leaks.jsonl").open("w", encoding="utf-8") as file:
            for name, parts in summary["leaks"].items():
                for who, found in parts.items():
                    for leak in found:
                        file.write(json.dumps({"model": name, "captions_of": who, **leak}, ensure_ascii=False) + "\n")
        (draft / "report.tex").write_text(latex(summary), encoding="utf-8")
        (draft / "report.html").write_text(page(summary), encoding="utf-8", errors="replace")
        (draft / MARKER).write_text(dumps(summary) + "\n", encoding="utf-8", errors="replace")


def _write_seeds(summary: Mapping[str, Any], path: Path) -> None:
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        people = max(len(seed["human"]) for row in summary["results"] for seed in row["seeds"])
        names = [f"human_{index}" for index in range(people)]
        writer.writerow(["model", "classifier", "seed", "lic_m", "lic_d", "lic", *names])
        for row in summary["results"]:
            for seed in row["seeds"]:
                values = [seed["lic_m"], seed["lic_d"], seed["lic_m"] - seed["lic_d"], *seed["human"]]
                writer.writerow([row["model"], row["classifier"], seed["seed"], *values])


def latex(summary: Mapping[str, Any]) -> str:
    """A table for a paper."""
    rows = []
    for row in summary["results"]:
        star = "^{*}" if row["differs_from_0"] else ""
        spread = [
            f"{row[key]:.1f}" + ("" if row[f"{key}_sd"] is None else rf" \pm {row[f'{key}_sd']:.1f}")
            for key in ("lic_m", "lic_d")
        ]
        names = f"{escape(row['model'])} & {escape(row['classifier'])}"
        rows.append(rf"{names} & ${spread[0]}$ & ${spread[1]}$ & ${row['lic']:+.1f}{star}$ \\")
    return "\n".join(
        [
            r"\begin{tabular}{llrrr}",
            r"\toprule",
            r"Model & Classifier & $\mathrm{LIC}_M$ & $\mathrm{LIC}_D$ & LIC \\",
            r"\midrule",
            *rows,
            r"\bottomrule",
            r"\end{tabular}",
            "",
        ]
    )
