"""The verdicts of stress cards of the metrics that run here, on the captions of the demo set and on photographs."""

from __future__ import annotations

import json
import tempfile
from dataclasses import asdict
from pathlib import Path

import captious
from captious.captions import CaptionSet
from captious.metrics.registry import parse
from captious.options import Resampling
from captious.probes import stress
from captious.study.evidence import STRESS_FILE, load_stress
from lab.evidence.datasets import ENCODED, MEANING, NGRAMS, PICTURES, local_form, public_form
from lab.reproductions.stress import write_captions

METRICS = (*NGRAMS, "rouge_n(n=2)", *MEANING, *PICTURES)
ON_PHOTOGRAPHS = (*NGRAMS, *MEANING, *ENCODED)
DEMO, FLICKR = "the demo set", "500 photographs of Flickr8k"


def demo_captions() -> CaptionSet:
    """The rated captions of the demo set."""
    captions = captious.demo().ratings.captions
    assert captions is not None
    return captions


def photograph_captions(data: Path) -> CaptionSet:
    """The first caption of each photograph in the test split, with the four others as references."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "flickr8k.jsonl"
        write_captions(data / "flickr8k", path)
        return captious.read(path, images=data / "flickr8k/images")


def stress_rows(
    captions: CaptionSet, dataset: str, metrics: tuple[str, ...], items: int = 200
) -> list[dict[str, object]]:
    """The verdicts of metrics, each on the same captions and edits."""
    rows = []
    for written in metrics:
        for row in stress(captions, local_form(written), Resampling(), items=items).records():
            numbers = {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()}
            names = {"metric": str(parse(written)), "signature": public_form(row["signature"]), "dataset": dataset}
            rows.append({**numbers, **names})
        print(f"  stress of {written} on {dataset}", flush=True)
    return rows


def write_stress(data: Path, only: str = "", out: Path = STRESS_FILE) -> None:
    """Write the verdicts into the package; those of one set alone where ``only`` names it, the others stay."""
    rows: list[dict[str, object]] = [asdict(row) for row in load_stress(out) if only and row.dataset != only]
    if only in ("", DEMO):
        rows += stress_rows(demo_captions(), DEMO, METRICS)
    if only in ("", FLICKR):
        rows += stress_rows(photograph_captions(data), FLICKR, ON_PHOTOGRAPHS, 500)
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{out}: {len(rows)} rows")
