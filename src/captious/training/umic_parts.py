"""What a training of UMIC is made of: the job, its objective and its validation."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from captious.errors import InputError
from captious.extras import require
from captious.training import processes
from captious.training.data import Example
from captious.training.negatives import prepared
from captious.training.outputs import MARKER
from captious.training.ranking import Accuracy, Patience, Ranking
from captious.training.settings import Settings
from captious.umic.backbone import Backbone
from captious.umic.negatives import KINDS

SETTINGS = Settings(epochs=10, batch=64, lr=5e-5, weight_decay=0.01, beta2=0.98, clip=2.0)
"""UNITER's own for matching; UMIC's number of epochs and batch are not known."""
ENCODER = "openai/clip-vit-base-patch32"
"""Under a fusion, where none is named: CLIPScore's."""
NEW_RATE = 5e-4
"""Of a fusion, which starts from nothing."""


@dataclass(frozen=True)
class Job:
    """What a user asked for."""

    data: str
    out: Path
    settings: Settings = SETTINGS
    images: Path | None = None
    backbone: str = "fusion"
    """fusion, vilt, blip, or a folder or hub id to start from."""
    encoder: str = ""
    """Of a fusion; for the others, says which images look alike."""
    regions: str | None = None
    kinds: tuple[str, ...] = KINDS
    margin: float = 0.2
    draws: int = 3
    """Sets of negatives, taken in turn by epochs; 0 for new ones in every epoch."""
    warmup: float = 0.1
    """Share of all steps."""
    sizes: dict[str, Any] = field(default_factory=dict)
    prefix: str = ""
    validate: str | None = None
    hold_out: float = 0.05
    early_stop: int = 0
    resume: bool = False
    overwrite: bool = False
    skip_missing: bool = False

    def __post_init__(self) -> None:
        if not 0 < self.margin <= 1:
            raise InputError(f"margin {self.margin:g}: expected more than 0 and at most 1, as scores are")
        if not 0 <= self.warmup <= 0.2:
            raise InputError(f"warm-up {self.warmup:g}: expected a share of all steps, at most 0.2")
        if not 0 <= self.hold_out < 1:
            raise InputError(f"hold-out {self.hold_out:g}: expected a share of the images below 1")


def assembled(
    job: Job, backbone: Backbone, examples: dict[str, Example], checks: dict[str, Example]
) -> tuple[Ranking, Accuracy | None, list[str]]:
    """The objective, the validation where there are examples for it, and what a user should know."""
    draws = job.draws or job.settings.epochs
    seen, notes = _usable(job, backbone, examples)
    notes += _known(job)
    made = prepared(seen, job.kinds, draws, job.settings.seed, _vectors(job, backbone, seen), job.data)
    texts = backbone.texts(made.texts, keep=False)
    pictures = backbone.pictures([str(path) for path in made.paths])
    goal = Ranking(backbone, pictures, texts, made.table, job.margin, Patience(job.early_stop))
    if job.backbone == "fusion":
        _calibrate(goal)
    if not checks:
        return goal, None, [*notes, *made.notes]
    kept, more = _usable(job, backbone, checks)
    held = prepared(kept, job.kinds, 1, job.settings.seed + 1, _vectors(job, backbone, kept), job.validate or job.data)
    judge = Accuracy(
        backbone,
        backbone.pictures([str(path) for path in held.paths]),
        backbone.texts(held.texts, keep=False),
        held.table,
    )
    return goal, judge, [*notes, *made.notes, *(f"validation: {note}" for note in (*more, *held.notes))]


def _known(job: Job) -> list[str]:
    """A word of caution where the encoder was trained on the very same file, as its own record says."""
    try:
        record = json.loads((Path(job.encoder) / MARKER).read_text(encoding="utf-8"))
        same = Path(record["data"]).resolve() == Path(job.data).resolve()
    except (OSError, ValueError, KeyError, TypeError):
        return []
    if not job.encoder or not same:
        return []
    return [
        f"{Path(job.encoder).name} was trained on {Path(job.data).name} too and knows its images well: "
        "other images, or few epochs, make a metric that holds for new ones"
    ]


def _usable(job: Job, backbone: Backbone, examples: dict[str, Example]) -> tuple[dict[str, Example], list[str]]:
    """The examples whose image (or regions) can be read; the rest is an error, or is left out and counted."""
    if processes.rank():  # the first process encodes, the others find what it wrote
        processes.wait()
    faults = backbone.pictures([str(example.image) for example in examples.values()]).faults
    if not processes.rank():
        processes.wait()
    if not faults:
        return examples, []
    first, more = next(iter(faults.values())), f" (and {len(faults) - 1} more)" if len(faults) > 1 else ""
    if not job.skip_missing or len(faults) == len(examples):
        raise InputError(f"{first}{more}; --missing skip leaves such images out")
    kept = {key: example for number, (key, example) in enumerate(examples.items()) if number not in faults}
    return kept, [f"{len(faults)} images left out: {first}{more}"]


def _vectors(job: Job, backbone: Backbone, examples: dict[str, Example]) -> Any:
    """What tells images that look alike: the fusion's encoder, or one that was named for it."""
    if "hard" not in job.kinds:
        return None
    from captious.encoders.features import image_features
    from captious.encoders.loading import load

    encoder: Any = getattr(backbone, "encoder", None) or (load(job.encoder) if job.encoder else None)
    if encoder is None:
        return None
    found = image_features(encoder, [example.image for example in examples.values()])
    rows = np.full((len(examples), found.rows.shape[1]), np.nan, np.float32)
    rows[found.index >= 0] = found.rows[found.index[found.index >= 0]]
    return rows


def _calibrate(goal: Ranking) -> None:
    """Set the line through the cosine from the first captions and their negatives."""
    rows = np.arange(min(len(goal), 2000))
    numbers, _ = goal.table.rows(rows, 0)
    backbone: Any = goal.backbone
    parts = []
    for start in range(0, len(rows), 256):
        some = rows[start : start + 256]
        image = goal.pictures.take(goal.table.image[some])[1]
        text = goal.texts.take(numbers[some])[2]
        parts.append((image[:, None] * text).sum(-1).flatten())
    backbone.module.calibrate(require("torch", "clip").cat(parts))
