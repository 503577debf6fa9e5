"""Within an image: tau of its captions, and how often two of them are put in the order that people put them in."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from captious.measurement import Floats
from captious.study.bits import Ints

THRESHOLDS = 1024


@dataclass(frozen=True, eq=False)
class Within:
    """Statistics of pairs of captions of the same image, each caption with its mean rating.

    ``sample_tau``: tau-b within each image, averaged over images; images where people or the metric see no difference
    are left out and counted (``skipped``). ``accuracy``: the share of pairs in the same order for both, a tie of both
    being agreement too (τ₂₃ of the WMT studies is twice this less one). ``accuracy_eq``: the same after |Δ| ≤ ε of the
    metric is made a tie, with the ε that makes it highest (Deutsch et al. 2023). ε is sought again in every draw, among
    at most 1,024 sizes of difference.

    >>> Within.of(np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.zeros(3, int), 1)(np.ones((1, 1)))
    {'sample_tau': array([0.33333333]), 'accuracy': array([0.66666667]), 'accuracy_eq': array([0.66666667])}
    """

    gap: Floats
    """Difference of the metric for each pair of captions, in order of size."""
    human: Floats
    cluster: Ints
    clusters: int

    @classmethod
    def of(cls, values: Floats, mean: Floats, cluster: Ints, clusters: int) -> Within:
        """From one value and one mean rating per caption."""
        order = np.argsort(cluster, kind="stable")
        sizes = np.bincount(cluster, minlength=clusters)
        firsts = np.cumsum(sizes) - sizes
        one, other = [], []
        for size in np.unique(sizes[sizes > 1]).tolist():
            starts = firsts[sizes == size]
            left, right = np.triu_indices(size, 1)
            one.append(order[(starts[:, None] + left).ravel()])
            other.append(order[(starts[:, None] + right).ravel()])
        a, b = np.concatenate(one), np.concatenate(other)
        gap = values[a] - values[b]
        by_size = np.argsort(np.abs(gap), kind="stable")
        a, b = a[by_size], b[by_size]
        # Means of equal ratings may differ in their last digit.
        return cls(gap[by_size], np.round(mean[a] - mean[b], 9), cluster[a], clusters)

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Under each column of weights."""
        pairs = np.bincount(self.cluster, minlength=self.clusters) @ weights
        right = np.bincount(self.cluster, np.sign(self.gap) == np.sign(self.human), minlength=self.clusters) @ weights
        with np.errstate(invalid="ignore", divide="ignore"):
            defined = ~np.isnan(self.taus)
            tau = np.where(defined, self.taus, 0.0) @ weights / (defined @ weights)
            untied, gained = self._gains
            best = untied @ weights + np.maximum(0.0, (gained @ weights).max(axis=0))
            return {"sample_tau": tau, "accuracy": right / pairs, "accuracy_eq": best / pairs}

    @cached_property
    def _gains(self) -> tuple[Floats, Floats]:
        """By image: agreement with no tie made, and what each threshold adds to it (thresholds × images)."""
        beyond = (np.sign(self.gap) == np.sign(self.human)) & (self.gap != 0)
        gain = (self.human == 0).astype(np.float64) - beyond
        steps = self._steps
        if len(steps) > THRESHOLDS:
            # The best on the data as they are stays among those tried.
            spread = steps[np.linspace(0, len(steps) - 1, THRESHOLDS).astype(np.int64)]
            steps = np.union1d(spread, steps[np.argmax(np.cumsum(gain)[steps])])
        place = np.searchsorted(steps, np.arange(len(gain)))
        flat = np.bincount(place * self.clusters + self.cluster, gain, len(steps) * self.clusters)
        untied = np.bincount(self.cluster, beyond, minlength=self.clusters)
        return untied.astype(np.float64), np.cumsum(flat.reshape(len(steps), self.clusters), axis=0)

    def epsilon(self) -> float:
        """The threshold of ``accuracy_eq`` on the data as they are."""
        beyond = (np.sign(self.gap) == np.sign(self.human)) & (self.gap != 0)
        gained = np.cumsum((self.human == 0).astype(np.float64) - beyond)[self._steps]
        best = int(np.argmax(gained)) if len(gained) else 0
        return float(abs(self.gap[self._steps[best]])) if len(gained) and gained[best] > 0 else 0.0

    @cached_property
    def _steps(self) -> Ints:
        """The last pair of every size of difference: a threshold takes all of a size or none."""
        sizes = np.abs(self.gap)
        return np.flatnonzero(np.append(sizes[1:] != sizes[:-1], True)) if len(sizes) else np.zeros(0, np.int64)

    @cached_property
    def taus(self) -> Floats:
        """Tau-b of every image; NaN where it is undefined."""
        a, b = np.sign(self.gap), np.sign(self.human)
        surplus, x, y = (np.bincount(self.cluster, part, minlength=self.clusters) for part in (a * b, a * a, b * b))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where((x > 0) & (y > 0), surplus / np.sqrt(x * y), np.nan)

    @property
    def skipped(self) -> int:
        """Images without a tau."""
        return int(np.isnan(self.taus).sum())
