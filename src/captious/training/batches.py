"""Batches laid out by threads before they are needed, and the losses of a batch as a module."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from itertools import islice
from typing import Any

import numpy as np

from captious.extras import require
from captious.training import processes
from captious.training.objectives import Batch, Objective
from captious.training.schedule import Plan

torch = require("torch", "clip")

AHEAD = 4
"""Batches that are laid out before they are needed."""


@contextmanager
def ahead(plan: Plan, objective: Objective, done: int, together: int = 1) -> Iterator[Iterator[Batch]]:
    """Batches from a step on, laid out by threads before they are needed, always in the same order."""
    with ThreadPoolExecutor(2, thread_name_prefix="batches") as pool:
        places = (
            (plan.epoch(step), group)
            for step in range(done, plan.steps)
            for group in grouped(plan.batches(step), together)
        )

        def make(place: tuple[int, list[int]]) -> Future[Batch]:
            epoch, group = place
            rows = np.concatenate([plan.rows(epoch, number, processes.rank()) for number in group])
            return pool.submit(objective.batch, rows, epoch, len(group))

        def batches() -> Iterator[Batch]:
            waiting = [make(place) for place in islice(places, AHEAD)]
            while waiting:
                yield waiting.pop(0).result()
                waiting.extend(make(place) for place in islice(places, 1))

        try:
            yield batches()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def grouped(numbers: list[int], together: int) -> list[list[int]]:
    """Neighbours, so many at a time.

    >>> grouped([4, 5, 6], 2)
    [[4, 5], [6]]
    """
    return [numbers[at : at + together] for at in range(0, len(numbers), together)]


def as_module(objective: Objective, encoder: Any) -> Any:
    """The losses of a batch as a module, so that several processes can share its gradients."""

    def forward(self: Any, batch: Batch) -> dict[str, Any]:
        return objective.parts(batch)

    step = type("Step", (torch.nn.Module,), {"forward": forward})()
    step.encoder = encoder.module
    if processes.world() == 1:
        return step
    # Some towers have weights that features do not use (a pooler); CLIP has none.
    unused = getattr(encoder.module.config, "model_type", "") != "clip"
    return torch.nn.parallel.DistributedDataParallel(step, find_unused_parameters=unused)
