"""How a training runs, as one value that is written beside the model."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass, fields, replace
from functools import lru_cache
from typing import Any

import numpy as np

from captious._random import GAMMA, mix
from captious._typing import Floats, Ints
from captious.errors import InputError

PRECISIONS = ("auto", "fp32", "bf16", "fp16")


@dataclass(frozen=True)
class Settings:
    """All numbers of a training. Those of the named objectives are in :data:`DEFAULTS`."""

    epochs: int = 10
    batch: int = 256
    """Examples per process and forward pass; the contrast is among these."""
    accumulate: int = 1
    """Batches that one optimizer step sums."""
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
    """Optimizer steps between validations, besides those at the ends of epochs."""
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


Rows = Ints


@dataclass(frozen=True)
class Plan:
    """``examples`` in batches of ``batch`` per process; a step sums ``accumulate`` of them, fewer at an epoch's end.

    Each epoch is shuffled anew; the rest that fills no whole batch is left out of that epoch.

    >>> plan = Plan(examples=10, batch=2, accumulate=2, epochs=3)
    >>> plan.steps, plan.batches(2), plan.epoch(2)
    (9, [4], 0)
    """

    examples: int
    batch: int
    accumulate: int
    epochs: int
    seed: int = 0
    processes: int = 1

    @property
    def in_epoch(self) -> int:
        """Batches of an epoch."""
        return self.examples // (self.batch * self.processes)

    @property
    def steps_in_epoch(self) -> int:
        """Optimizer steps of an epoch."""
        return math.ceil(self.in_epoch / self.accumulate)

    @property
    def steps(self) -> int:
        """Optimizer steps of the whole training."""
        return self.steps_in_epoch * self.epochs

    def epoch(self, step: int) -> int:
        """The epoch a step belongs to."""
        return step // self.steps_in_epoch

    def batches(self, step: int) -> list[int]:
        """The batches, counted within the epoch, that a step sums."""
        first = step % self.steps_in_epoch * self.accumulate
        return list(range(first, min(first + self.accumulate, self.in_epoch)))

    def rows(self, epoch: int, number: int, process: int = 0) -> Rows:
        """The examples of one batch."""
        first = (number * self.processes + process) * self.batch
        return _shuffled(self.examples, self.seed, epoch)[first : first + self.batch]


@lru_cache(maxsize=2)
def _shuffled(examples: int, seed: int, epoch: int) -> Rows:
    return np.random.default_rng([seed, epoch]).permutation(examples)


def rate(step: int, steps: int, warmup: int) -> float:
    """What the learning rate is multiplied by: a straight rise over ``warmup`` steps, then a cosine down to 0.

    >>> [round(rate(step, 6, 2), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    """
    if step < warmup:
        return (step + 1) / warmup
    return 0.5 * (1 + math.cos(math.pi * (step - warmup) / max(1, steps - warmup)))


def draws(rows: Rows, *keys: int) -> Floats:
    """A number in [0, 1) for each row, from its index and the keys alone: not from its place in the batch.

    >>> draws(np.array([3, 5]), 1, 2)[1] == draws(np.array([5]), 1, 2)[0]
    np.True_
    """
    state = mix(rows.astype(np.uint64) + np.uint64(GAMMA))
    for key in keys:
        state = mix((state ^ np.uint64(key & 0xFFFFFFFFFFFFFFFF)) + np.uint64(GAMMA))
    scaled: Floats = (state >> np.uint64(11)).astype(np.float64) / 2**53
    return scaled
