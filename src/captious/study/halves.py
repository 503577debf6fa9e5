"""Kendall's tau of a half and of the other half, as a permutation of two metrics needs them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from captious.measurement import Floats
from captious.study.kendall import Kendall
from captious.study.workbench import joined, narrow


@dataclass(frozen=True, eq=False)
class Halves:
    """The taus under weights of 0 and 1, and those of the clusters that they leave out.

    C − D and the squares of tie groups are quadratic forms Q in the weights, so Q(1 − w) = Q(1) − w · ∇Q(1) + Q(w): the
    second half comes almost free.

    >>> tau = Kendall.of(np.array([1.0, 2.0, 4.0, 3.0]), np.array([1.0, 2.0, 3.0, 4.0]))
    >>> drawn, rest = Halves.of(tau)(np.array([[1.0], [1.0], [0.0], [0.0]]))
    >>> drawn["tau_b"].tolist(), rest["tau_b"].tolist()
    ([1.0], [-1.0])
    """

    tau: Kendall
    pull: Floats
    """∇Q(1) of C − D: for each cluster the signs of its rows' pairs with all rows, added up."""
    tied: Floats
    """∇Q(1) of the squares of tie groups."""

    @classmethod
    def of(cls, tau: Kendall) -> Halves:
        """Find both gradients."""
        shared = np.bincount(tau.x, tau.rows_per_item)[tau.x]
        clusters = int(tau.cluster.max()) + 1
        tied = np.bincount(tau.cluster, 2 * tau.rows_per_item * shared, clusters)
        pull = np.bincount(tau.where, _surplus_by_row(tau) * tau.count, clusters)
        return cls(tau, np.asarray(pull, dtype=np.float64), np.asarray(tied, dtype=np.float64))

    def __call__(self, weights: Floats) -> tuple[dict[str, Floats], dict[str, Floats]]:
        """Both halves under each column of weights."""
        drawn, rest = [], []
        for part in narrow(weights):
            surplus, squares = self.tau.surplus(part), self.tau.tie_squares(part)
            drawn.append(self.tau.taus(part, surplus, squares))
            left = surplus + (self.pull.sum() / 2 - self.pull @ part)
            rest.append(self.tau.taus(1 - part, left, squares + (self.tied.sum() / 2 - self.tied @ part)))
        return joined(drawn), joined(rest)


def _surplus_by_row(tau: Kendall) -> Floats:
    """Concordant less discordant pairs of each row with all rows."""
    top = 2 ** int(tau.level.max()).bit_length() - 1
    # Turned about, rows without a bit have it, so the second pass meets every pair from its other side.
    turned = replace(tau, x=int(tau.x.max()) - tau.x, level=top - tau.level)
    rows = np.zeros(len(tau.level))
    for side in (tau, turned):
        for bit in side.bits:
            running = np.append(0.0, np.cumsum(tau.count[bit.without]))
            sizes = np.diff(np.append(bit.blocks, len(bit.having)))
            ends = np.repeat(running[bit.first] + running[bit.last], sizes)
            rows[bit.having] += running[bit.below] + running[bit.upto] - ends
    return rows
