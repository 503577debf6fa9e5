"""The captions that the benchmarks score: COCO from the shared evaluation data, or generated ones."""

from __future__ import annotations

import gzip
import json
import os
from pathlib import Path

SHARED = Path(os.environ.get("CAPTIOUS_SHARED_DATA", Path(__file__).resolve().parents[3] / "shared" / "data"))

Captions = tuple[dict[str, str], dict[str, list[str]]]


def captions(name: str) -> Captions:
    """Candidates and references: ``karpathy`` or ``val2014`` (first caption against the rest), or a number of items."""
    if name.isdigit():
        return generated(int(name))
    path = SHARED / "coco" / {"karpathy": "karpathy_test.jsonl", "val2014": "val2014.jsonl.gz"}[name]
    with gzip.open(path, "rt") if path.suffix == ".gz" else path.open() as lines:
        rows = [json.loads(line) for line in lines]
    return (
        {str(row["id"]): row["references"][0] for row in rows},
        {str(row["id"]): row["references"][1:] for row in rows},
    )


def generated(items: int) -> Captions:
    """Captions of the sample generator, five references each."""
    from lab.toy import make

    sample = make(items=items)
    candidates, references = {}, {}
    for scene in sample.scenes():
        candidates[str(scene.id)] = sample.prediction_of(scene, "sloppy").text
        references[str(scene.id)] = sample.references_of(scene)
    return candidates, references
