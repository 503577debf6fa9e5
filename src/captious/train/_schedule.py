"""Order of examples and learning rate as pure functions of the step, so that a training can resume at any step."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Literal

import numpy as np

from captious._core.types import Ints

# Indices of examples.
Rows = Ints


@dataclass(frozen=True)
class EpochPlan:
    """The batches of a training: ``batch`` examples per process; a step sums ``accumulate`` of them, or fewer at the
    end.

    Each epoch is shuffled anew; a remainder smaller than a batch is left out of that epoch.

    >>> plan = EpochPlan(examples=10, batch=2, accumulate=2, epochs=3)
    >>> plan.steps, plan.batches(2), plan.epoch(2)
    (9, [4], 0)
    """

    examples: int
    batch: int
    accumulate: int
    epochs: int
    seed: int = 0
    processes: int = 1
    total: int | None = None
    """Steps of the whole training, if they are given instead of epochs."""

    @property
    def in_epoch(self) -> int:
        """The number of batches per epoch."""
        return self.examples // (self.batch * self.processes)

    @property
    def steps_in_epoch(self) -> int:
        """The number of optimizer steps per epoch."""
        return math.ceil(self.in_epoch / self.accumulate)

    @property
    def steps(self) -> int:
        """The number of optimizer steps of the whole training."""
        return self.steps_in_epoch * self.epochs if self.total is None else self.total

    def epoch(self, step: int) -> int:
        """Return the epoch of a step."""
        return step // self.steps_in_epoch

    def batches(self, step: int) -> list[int]:
        """Return the numbers, within the epoch, of the batches that a step sums."""
        first = step % self.steps_in_epoch * self.accumulate
        return list(range(first, min(first + self.accumulate, self.in_epoch)))

    def rows(self, epoch: int, number: int, process: int = 0) -> Rows:
        """Return the examples of one batch."""
        first = (number * self.processes + process) * self.batch
        return _shuffle_rows(self.examples, self.seed, epoch)[first : first + self.batch]


@lru_cache(maxsize=2)
def _shuffle_rows(examples: int, seed: int, epoch: int) -> Rows:
    return np.random.default_rng([seed, epoch]).permutation(examples)


def compute_rate(step: int, steps: int, warmup: int, decay: Literal["cosine", "linear"] = "cosine") -> float:
    """Return the factor of the learning rate: linear warm-up over ``warmup`` steps, then decay to 0.

    >>> [round(compute_rate(step, 6, 2), 3) for step in range(6)]
    [0.5, 1.0, 1.0, 0.854, 0.5, 0.146]
    >>> [compute_rate(step, 6, 2, "linear") for step in range(6)]
    [0.5, 1.0, 1.0, 0.75, 0.5, 0.25]
    """
    if step < warmup:
        return (step + 1) / warmup
    done = (step - warmup) / max(1, steps - warmup)
    return 1 - done if decay == "linear" else 0.5 * (1 + math.cos(math.pi * done))
