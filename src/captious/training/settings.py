"""How a training runs, as one value that is written beside the model."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from captious.errors import InputError

PRECISIONS = ("auto", "fp32", "bf16", "fp16")


@dataclass(frozen=True)
class Settings:
    """All numbers of a training. Those of the named objectives are in :data:`DEFAULTS`."""

    epochs: int = 10
    batch: int = 256
    """Examples per process and forward pass; the contrast is among these."""
    accumulate: int = 1
    """Batches that one optimiser step sums."""
    together: int = 0
    """Batches of a step that are encoded at once, for speed: losses stay those of single batches. 0: all, on a GPU."""
    lr: float = 1e-5
    head_lr: float = 0.0
    """Of what is no tower: projection heads and the logit scale; 0 for the same."""
    augment: float = 0.0
    """Share of an image's area that a training view of it may lose; 0 shows every image as it is."""
    warmup: int = 100
    weight_decay: float = 1e-2
    beta2: float = 0.999
    clip: float = 0.0
    """Longest gradient; 0 lets any length pass."""
    precision: str = "auto"
    device: str = "auto"
    seed: int = 0
    workers: int = 0
    save_every: int = 200
    validate_every: int = 0
    """Optimiser steps between validations, besides those at the ends of epochs."""
    lock: tuple[str, ...] = ()
    gather: bool = True
    frozen_positions: int = 0
    """Rows of the text tower's position table, from the first, that do not learn."""

    def __post_init__(self) -> None:
        if self.precision not in PRECISIONS:
            raise InputError(f"precision {self.precision!r}, expected {', '.join(PRECISIONS)}")
        for name in ("epochs", "batch", "accumulate", "save_every"):
            if getattr(self, name) < 1:
                raise InputError(f"{name} {getattr(self, name)}, expected 1 or more")
        if self.lr <= 0:
            raise InputError(f"learning rate {self.lr:g}, expected more than 0")
        if not 0 <= self.augment < 1:
            raise InputError(f"--augment {self.augment:g}: expected 0 or more and less than 1")
        if self.augment and any(side.startswith("image") for side in self.lock):
            raise InputError("--augment shows a new view of each image each epoch; a locked image tower looks once")


DEFAULTS = {
    # A fine-tuning in CLIP's manner; a new model takes NEW besides.
    "clip": Settings(warmup=100, weight_decay=0.1, beta2=0.98, clip=1.0),
    # As published for LongCLIP* (the base of SPECS).
    "longclip": Settings(epochs=6, batch=200, accumulate=2, lr=1e-6, warmup=200, frozen_positions=20),
    # As published for SPECS; the paper trained 3 epochs, the script 6.
    "specs": Settings(epochs=3, batch=100, accumulate=4, lr=1e-5, warmup=40, gather=False, frozen_positions=20),
}
NEW = {"lr": 1e-3, "epochs": 20}
"""What a model that starts from nothing needs instead."""
DUAL = {"lr": 1e-4, "head_lr": 1e-3, "epochs": 20, "batch": 512, "augment": 0.5}
"""What new heads on two pretrained towers need."""
LOCKED = {"lr": 1e-3, "epochs": 30, "batch": 512}
"""The same where the image tower is locked, so that one view of each image is seen."""

FREE = frozenset({"device", "workers", "save_every", "precision", "together"})
"""What may differ when a training resumes: it does not move the data or the schedule."""


def chosen(objective: str, fresh: bool = False, towers: bool = False, **given: Any) -> Settings:
    """The defaults of an objective with what the user gave; None stands for the default.

    ``fresh`` starts from nothing, ``towers`` from two pretrained models with new heads.
    """
    known = {field.name for field in fields(Settings)}
    wanted = {key: value for key, value in given.items() if value is not None and key in known}
    usual: dict[str, Any] = NEW if fresh else {}
    if towers:
        usual = LOCKED if any(side.startswith("image") for side in wanted.get("lock", ())) else DUAL
    return replace(DEFAULTS[objective], **{**usual, **wanted})


def as_record(settings: Settings) -> dict[str, Any]:
    """Plain values, to be written as JSON."""
    return {**asdict(settings), "lock": list(settings.lock)}
