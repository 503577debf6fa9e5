"""Greedy matching of token states: precision, recall and F1 of many pairs of texts, each distinct text encoded once."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.encoders.contextual import Contextual, Ids
from captious.encoders.pace import Pace
from captious.encoders.runtime import current
from captious.extras import require

Floats = npt.NDArray[np.float64]
Weigh = Callable[[Sequence[int]], Floats]
"""How much each token of a text counts."""
PAIRS = 256
"""Pairs matched at a time."""


def matched(model: Contextual, candidates: Sequence[Ids], references: Sequence[Ids], weigh: Weigh) -> Floats:
    """Precision, recall and F1, one row per pair of texts given as token ids; NaN where no token counts."""
    torch = require("torch", "clip")
    texts = list(dict.fromkeys(map(tuple, (*candidates, *references))))
    place = {ids: number for number, ids in enumerate(texts)}
    states = _encoded(model, [list(ids) for ids in texts])
    weights = [torch.from_numpy(weigh(ids)).to(states[0]) for ids in texts]
    left, right = ([place[tuple(ids)] for ids in side] for side in (candidates, references))
    found = np.empty((len(left), 3))
    order = sorted(range(len(left)), key=lambda pair: (len(references[pair]), len(candidates[pair])))
    for start in range(0, len(order), PAIRS):
        some = order[start : start + PAIRS]
        sides = [[side[pair] for pair in some] for side in (left, right)]
        found[some] = _block(*([held[number] for number in side] for held in (states, weights) for side in sides))
    return found


def _encoded(model: Contextual, texts: list[Ids]) -> list[Any]:
    """The states of each text, encoded in batches of like length."""
    runtime = current()
    pace, found = Pace(runtime.log), {}

    def begin(numbers: Any) -> Any:
        states, _ = model.states([texts[number] for number in numbers])
        for number, one in zip(numbers, states, strict=True):
            found[number] = one[: len(texts[number])].clone()
        return lambda: np.zeros(len(numbers))

    order = sorted(range(len(texts)), key=lambda number: len(texts[number]))
    for start in range(0, len(order), runtime.batch):
        pace.start(begin, order[start : start + runtime.batch])()
    return [found[number] for number in range(len(texts))]


def _block(candidates: list[Any], references: list[Any], weights: list[Any], others: list[Any]) -> Floats:
    """Of pairs of states with their tokens' weights."""
    torch = require("torch", "clip")

    def padded(rows: list[Any]) -> Any:
        return torch.nn.utils.rnn.pad_sequence(rows, batch_first=True)

    cosines = padded(candidates) @ padded(references).transpose(1, 2)
    there = [padded([torch.ones_like(one, dtype=torch.bool) for one in side]) for side in (weights, others)]
    cosines = cosines.masked_fill(~(there[0][:, :, None] & there[1][:, None, :]), float("-inf"))
    parts = []
    for axis, inside, heavy in ((2, there[0], padded(weights)), (1, there[1], padded(others))):
        nearest = cosines.amax(axis).masked_fill(~inside, 0.0)
        parts.append(((nearest * heavy).sum(1) / heavy.sum(1)).double().cpu().numpy())
    precision, recall = parts
    both = precision + recall
    joined = np.divide(2 * precision * recall, both, out=np.where(np.isnan(both), np.nan, 0.0), where=both != 0)
    return np.stack([precision, recall, joined], axis=1)
