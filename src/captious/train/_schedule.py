"""Order and learning rate of a training: pure functions of the step, so that a training can resume anywhere."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from captious._core.types import Ints

Rows = Ints
"""Indices of examples."""


@dataclass(frozen=True)
class EpochPlan:
    """``examples`` in batches of ``batch`` per process; a step sums ``accumulate`` of them, fewer at an epoch's end.

    Each epoch is shuffled anew; the rest that fills no whole batch is left out of that epoch.

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
