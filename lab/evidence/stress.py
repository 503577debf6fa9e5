"""The verdicts of stress cards of the metrics that run here, on the captions of the demo set and on photographs.

A judge takes half an hour, so its card is made by `lab/reproductions/stress.py`, and its rows are read from there.
"""

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
DEMO, FLICKR, JUDGED = "the demo set", "500 photographs of Flickr8k", "50 captions of the demo set"


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
            names = {"metric": str(parse(written)), "signature": public_form(row["signature"])}
            rows.append(_stored_row({**row, **names}, dataset))
        print(f"  stress of {written} on {dataset}", flush=True)
    return rows


def card_rows(folder: Path, dataset: str) -> list[dict[str, object]]:
    """The verdicts of a card that ``captious probe stress --out`` wrote, of the edits that a caption allowed."""
    card = json.loads((folder / "captious-output.json").read_text(encoding="utf-8"))
    return [_stored_row(row, dataset) for row in card["rows"] if row["n"]]


def _stored_row(row: dict[str, object], dataset: str) -> dict[str, object]:
    numbers = {key: round(value, 5) if isinstance(value, float) else value for key, value in row.items()}
    return {**numbers, "dataset": dataset}


def write_stress(data: Path, only: str = "", out: Path = STRESS_FILE) -> None:
    """Write the verdicts into the package; only those of one set, or of the card in a folder, where ``only`` names it.

    The others stay.
    """
    written = {JUDGED} if Path(only).is_dir() and only else {only} if only else {DEMO, FLICKR}
    rows: list[dict[str, object]] = [asdict(row) for row in load_stress(out) if row.dataset not in written]
    if DEMO in written:
        rows += stress_rows(demo_captions(), DEMO, METRICS)
    if FLICKR in written:
        rows += stress_rows(photograph_captions(data), FLICKR, ON_PHOTOGRAPHS, 500)
    if JUDGED in written:
        rows += card_rows(Path(only), JUDGED)
    out.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    print(f"{out}: {len(rows)} rows")
