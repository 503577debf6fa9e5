r"""From METEOR's counts to its score.

With content words weighted :math:`\delta` and function words :math:`1-\delta`, and each match weighted by its module,

    P = weighted matches in the candidate / weighted length of the candidate, R alike on the reference,
    F = 1 / ((1 - α)/P + α/R),    frag = chunks / mean matched words,    score = F · (1 - γ · frag^β).

The score of a corpus is the score of the summed counts. A pair matched whole in one chunk has no fragmentation: it is
given 0 chunks, which makes its own frag 0 and, as in the original, adds nothing to the chunks of the corpus. Where
nothing matches (0/0) the score is 0.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, nearest

MODULES = ("exact", "stem", "synonym", "paraphrase")

COLUMNS = (
    "candidate_length", "reference_length", "candidate_function", "reference_function",
    *(f"{module}_{side}_{kind}"
      for module in MODULES for kind in ("content", "function") for side in ("candidate", "reference")),
    "chunks", "candidate_matches", "reference_matches",
)  # fmt: skip
"""The counts of one pair, in the order in which the original prints them."""


@dataclass(frozen=True)
class Parameters:
    """One tuning of METEOR 1.5."""

    alpha: float
    beta: float
    gamma: float
    delta: float
    weights: tuple[float, float, float, float]
    """Of the modules, in the order of :data:`MODULES`."""


TASKS = {
    "rank": Parameters(0.85, 0.20, 0.60, 0.75, (1.0, 0.6, 0.8, 0.6)),
    "adq": Parameters(0.75, 1.40, 0.45, 0.70, (1.0, 1.0, 0.6, 0.8)),
    "hter": Parameters(0.40, 1.50, 0.35, 0.55, (1.0, 0.2, 0.6, 0.8)),
    "li": Parameters(0.75, 1.40, 0.70, 0.50, (1.0, 0.5, 0.5, 0.5)),
}
"""English tunings: to rank systems (the default, and what caption evaluation reports), to predict adequacy, to predict
edits, and the one that does not depend on the language."""


def parameters(task: str) -> Parameters:
    """The tuning of a task."""
    if task not in TASKS:
        raise InputError(f"meteor: no task {task!r}; known: {', '.join(TASKS)}{nearest(task, TASKS)}")
    return TASKS[task]


def score(counts: npt.ArrayLike, tuning: Parameters) -> npt.NDArray[np.float64]:
    """The score of each row of (summed) counts; the last axis runs over :data:`COLUMNS`.

    Two words, both matched exactly but apart: P = R = 1, frag = 2/2, so 1 - 0.6.

    >>> counts = np.zeros(23); counts[[0, 1, 4, 5, 20, 21, 22]] = 2
    >>> float(score(counts, TASKS["rank"]).round(9))
    0.4
    """
    table = np.asarray(counts, dtype=np.float64)
    delta = tuning.delta
    matched = table[..., 4:20].reshape(*table.shape[:-1], len(MODULES), 2, 2)
    weighted = np.einsum("...mks,m,k->...s", matched, np.array(tuning.weights), np.array([delta, 1 - delta]))
    length = delta * (table[..., 0:2] - table[..., 2:4]) + (1 - delta) * table[..., 2:4]
    chunks, words = table[..., 20], (table[..., 21] + table[..., 22]) / 2
    with np.errstate(divide="ignore", invalid="ignore"):
        precision, recall = np.moveaxis(weighted / length, -1, 0)
        mean = 1 / ((1 - tuning.alpha) / precision + tuning.alpha / recall)
        value = mean * (1 - tuning.gamma * (chunks / words) ** tuning.beta)
    return np.asarray(np.maximum(np.nan_to_num(value, nan=0.0), 0.0))


def pair_score(row: Sequence[int], tuning: Parameters) -> float:
    """:func:`score` of one row of whole counts, term by term in the original's order: it decides between references."""
    (one, two, three, four), delta = tuning.weights, tuning.delta
    rest = 1 - delta
    sides = []
    for side in (0, 1):
        content, function = row[4 + side : 20 : 4], row[6 + side : 20 : 4]
        weighted = (
            content[0] * one * delta + content[1] * two * delta + content[2] * three * delta + content[3] * four * delta
            + function[0] * one * rest + function[1] * two * rest + function[2] * three * rest
            + function[3] * four * rest
        )  # fmt: skip
        if not weighted:
            return 0.0
        sides.append(weighted / (delta * (row[side] - row[side + 2]) + rest * row[side + 2]))
    return value(sides[0], sides[1], row[20] / ((row[21] + row[22]) / 2), tuning)


def value(precision: float, recall: float, fragmentation: float, tuning: Parameters) -> float:
    """The score from its three parts, none of the first two 0."""
    mean = 1 / ((1 - tuning.alpha) / precision + tuning.alpha / recall)
    penalty: float = tuning.gamma * fragmentation**tuning.beta
    return max(0.0, mean * (1 - penalty))
