"""Pearson, Spearman and coefficients of determination under weights, over rows, within images or between systems."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from itertools import combinations

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.errors import InputError
from captious.options import SEED
from captious.stats.kendall import Kendall, split_draws


def mid_ranks(values: Floats) -> Floats:
    """Return the ranks of values from 1 on; equal values share the mean of theirs, as in ``scipy.stats.rankdata``.

    >>> mid_ranks(np.array([3.0, 1.0, 3.0, 2.0])).tolist()
    [3.5, 1.0, 3.5, 2.0]
    """
    order = np.argsort(values, kind="stable")
    ordered = values[order]
    starts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1])) if len(values) else np.zeros(0, np.int64)
    sizes = np.diff(np.append(starts, len(values)))
    ranks = np.empty(len(values))
    ranks[order] = np.repeat(starts + (sizes + 1) / 2, sizes)
    return ranks


def pearson(x: Floats, y: Floats) -> float:
    """Return Pearson's correlation; NaN if a side is constant or there are fewer than two pairs.

    >>> pearson(np.array([1.0, 2.0, 4.0]), np.array([1.0, 2.0, 4.0])), pearson(np.ones(3), np.arange(3.0))
    (1.0, nan)
    """
    if len(x) < 2 or np.ptp(x) == 0 or np.ptp(y) == 0:
        return float("nan")
    return float(np.corrcoef(x, y)[0, 1])


def spearman(x: Floats, y: Floats) -> float:
    """Return Spearman's correlation of the pairs without NaN; NaN if a side is constant or there are fewer than two.

    >>> rho = spearman(np.array([1.0, 2.0, 3.0, 4.0, np.nan]), np.array([1.0, 3.0, 2.0, 4.0, 5.0]))
    >>> round(rho, 12)  # 1 − 6 · 2 / (4 · 15)
    0.8
    """
    both = ~(np.isnan(x) | np.isnan(y))
    return pearson(mid_ranks(x[both]), mid_ranks(y[both]))


@dataclass(frozen=True, eq=False)
class Moments:
    """Everything that first and second moments give, from seven sums per image.

    With m the metric and h the ratings, brought to 0..1 by their scale (by the lowest and highest where none is
    declared):

        pearson                       r2 = 1 − Σ(h − m)² / Σ(h − h̄)²
        one_minus_r2 = Σ(m − h)² / Σ(m − m̄)²      r2_fitted = pearson², the r2 after the best straight line

    ``one_minus_r2`` is what the SPECS table prints: only a total sum of squares of the *metric* gives its values.

    >>> two = Moments.of(np.array([0.0, 1.0, 1.0]), np.array([0.0, 0.0, 1.0]), np.arange(3), 3)(np.ones((3, 1)))
    >>> round(float(two["pearson"][0]), 6), round(float(two["one_minus_r2"][0]), 6)  # Σ(m−h)² = 1, Σ(m−m̄)² = 2/3
    (0.5, 1.5)
    """

    sums: Floats
    """Seven rows over images: number, x, y, xx, xy, yy about the means, and the squared difference m − h."""

    @classmethod
    def of(
        cls, values: Floats, human: Floats, cluster: Ints, clusters: int, scale: tuple[float, float] | None = None
    ) -> Moments:
        """Make the moments of one value and one rating per row."""
        low, high = scale or (float(human.min()), float(human.max()))
        unit = (human - low) / ((high - low) or 1.0)
        x, y = values - values.mean(), unit - unit.mean()
        parts = [np.ones(len(x)), x, y, x * x, x * y, y * y, (values - unit) ** 2]
        return cls(np.stack([np.bincount(cluster, part, minlength=clusters) for part in parts]))

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Compute all four under each column of weights; NaN if a side is constant."""
        n, x, y, xx, xy, yy, gap = self.sums @ weights
        with np.errstate(invalid="ignore", divide="ignore"):
            # What is left of a constant vector is rounding: a share of the sum of squares far below any real spread.
            spread_x, spread_y = xx - x * x / n, yy - y * y / n
            spread_x = np.where(spread_x > 1e-12 * (xx + 1e-300), spread_x, np.nan)
            spread_y = np.where(spread_y > 1e-12 * (yy + 1e-300), spread_y, np.nan)
            r = (xy - x * y / n) / np.sqrt(spread_x * spread_y)
            return {"pearson": r, "r2": 1 - gap / spread_y, "one_minus_r2": gap / spread_x, "r2_fitted": r * r}


@dataclass(frozen=True, eq=False)
class Spearman:
    """Pearson's correlation of ranks, equal values sharing the mean of theirs; ranks are those within each draw.

    >>> tau = Kendall.of(np.array([1.0, 2.0, 3.0, 4.0]), np.array([1.0, 3.0, 2.0, 4.0]))
    >>> Spearman(tau)(np.ones((4, 1)))["spearman"].tolist()  # 1 − 6 · 2 / (4 · 15)
    [0.8]
    """

    rows: Kendall

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Compute the correlations under each column of weights; NaN if a side is constant."""
        return {"spearman": np.concatenate([self._chunk(part) for part in split_draws(weights)])}

    def _chunk(self, weights: Floats) -> Floats:
        rows = self.rows
        drawn = weights[rows.cluster[rows.item]] * rows.count[:, None]
        n = drawn.sum(axis=0)
        order, starts, group = self._by_value
        x, x_squares = _rank_groups(np.add.reduceat(drawn[order], starts, axis=0), n)
        order, starts, level = self._by_level
        y, y_squares = _rank_groups(np.add.reduceat(drawn[order], starts, axis=0), n)
        with np.errstate(invalid="ignore", divide="ignore"):
            products = np.einsum("rd,rd,rd->d", drawn, x[group], y[level])
            rho = products / np.sqrt(x_squares * y_squares)
        return np.where((x_squares > 0) & (y_squares > 0), rho, np.nan)

    @cached_property
    def _by_value(self) -> tuple[Ints, Ints, Ints]:
        return _group_by_key(self.rows.x[self.rows.item])

    @cached_property
    def _by_level(self) -> tuple[Ints, Ints, Ints]:
        return _group_by_key(self.rows.level)


def _group_by_key(keys: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the order by key, where each key begins in it, and the index of every row's key among the keys."""
    order = np.argsort(keys, kind="stable")
    index = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    return order, np.flatnonzero(np.diff(keys[order], prepend=-1)), index


def _rank_groups(sizes: Floats, n: Floats) -> tuple[Floats, Floats]:
    """Return mid-ranks of groups about their mean, and their sum of squares over rows."""
    ranks = np.cumsum(sizes, axis=0) - (sizes - 1) / 2 - (n + 1) / 2
    return ranks, np.einsum("gd,gd,gd->d", sizes, ranks, ranks)


@dataclass(frozen=True, eq=False)
class SystemMeans:
    """The correlation of systems' mean metric values and mean ratings (`system_tau` is tau-b)."""

    values: Floats
    human: Floats
    cluster: Ints
    clusters: int
    system: Ints

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Compute the correlations under each column of weights; NaN if all systems tie or one was not drawn."""
        key, number = self.system * self.clusters + self.cluster, int(self.system.max()) + 1
        n, x, y = (
            np.bincount(key, part, minlength=number * self.clusters).reshape(number, -1) @ weights
            for part in (np.ones(len(key)), self.values, self.human)
        )
        with np.errstate(invalid="ignore", divide="ignore"):
            x, y = x / n, y / n
            one, other = np.triu_indices(number, 1)
            signs = np.sign(np.round(x[one] - x[other], 12)), np.sign(np.round(y[one] - y[other], 12))
            both = np.sqrt((signs[0] ** 2).sum(axis=0) * (signs[1] ** 2).sum(axis=0))
            tau = (signs[0] * signs[1]).sum(axis=0) / both
            x, y = x - x.mean(axis=0), y - y.mean(axis=0)
            pearson = (x * y).sum(axis=0) / np.sqrt((x * x).sum(axis=0) * (y * y).sum(axis=0))
        return {"system_tau": tau, "system_pearson": pearson}


@dataclass(frozen=True, eq=False)
class WithinCorrelation:
    """Pearson's and Spearman's correlation within each image, averaged over images: summary level in other fields.

    Images where people or the metric see no difference are left out.

    >>> values, mean, image = np.array([1.0, 3.0, 2.0, 5.0]), np.array([1.0, 2.0, 3.0, 1.0]), np.array([0, 0, 0, 1])
    >>> WithinCorrelation.of(values, mean, image, 2)(np.ones((2, 1)))
    {'sample_pearson': array([0.5]), 'sample_spearman': array([0.5])}
    """

    pearson: Floats
    """The correlation of each image, NaN if it is undefined."""
    spearman: Floats

    @classmethod
    def of(cls, values: Floats, mean: Floats, cluster: Ints, clusters: int) -> WithinCorrelation:
        """Correlate one value and one mean rating per caption within each image."""
        human = np.round(mean, 9)  # means of equal ratings may differ in their last digit
        first, second = (_rank_within(one, cluster) for one in (values, human))
        return cls(
            _correlate_within(values, human, cluster, clusters), _correlate_within(first, second, cluster, clusters)
        )

    def __call__(self, weights: Floats) -> dict[str, Floats]:
        """Compute the means under each column of weights."""
        means = {}
        for name, own in (("sample_pearson", self.pearson), ("sample_spearman", self.spearman)):
            defined = ~np.isnan(own)
            with np.errstate(invalid="ignore", divide="ignore"):
                means[name] = np.where(defined, own, 0.0) @ weights / (defined @ weights)
        return means


def _rank_within(values: Floats, cluster: Ints) -> Floats:
    """Return the ranks of values among those of their own image; equal ones share the mean of theirs."""
    order = np.lexsort((values, cluster))
    sorted_values, sorted_cluster = values[order], cluster[order]
    new = np.append(True, (np.diff(sorted_values) != 0) | (np.diff(sorted_cluster) != 0))
    tie = np.cumsum(new) - 1
    sizes = np.bincount(tie)
    # Ranks run on through all images; within an image they differ from its own by a constant.
    means = np.cumsum(sizes) - (sizes - 1) / 2
    ranks = np.empty(len(values))
    ranks[order] = means[tie]
    return ranks


def _correlate_within(x: Floats, y: Floats, cluster: Ints, clusters: int) -> Floats:
    number = np.maximum(np.bincount(cluster, minlength=clusters), 1)
    sides = [one - (np.bincount(cluster, one, minlength=clusters) / number)[cluster] for one in (x, y)]
    products = [
        np.bincount(cluster, first * second, minlength=clusters)
        for first, second in ((sides[0], sides[1]), (sides[0], sides[0]), (sides[1], sides[1]))
    ]
    # A constant side has a sum of squares of rounding errors.
    floors = [1e-18 * np.bincount(cluster, one * one, minlength=clusters) for one in (x, y)]
    defined = (products[1] > floors[0]) & (products[2] > floors[1])
    scale = np.sqrt(np.where(defined, products[1] * products[2], 1.0))
    return np.where(defined, products[0] / scale, np.nan)


THRESHOLDS = 1024


@dataclass(frozen=True, eq=False)
class WithinImage:
    """Statistics of pairs of captions of the same image, each caption with its mean rating.

    ``sample_tau``: tau-b within each image, averaged over images; images where people or the metric see no difference
    are left out and counted (``skipped``). ``accuracy``: the share of pairs in the same order for both, a tie of both
    being agreement too (τ₂₃ of the WMT studies is twice this less one). ``accuracy_eq``: the same after |Δ| ≤ ε of the
    metric is made a tie, with the ε that makes it highest (Deutsch et al. 2023). ε is sought again in every draw, among
    at most 1,024 sizes of difference.

    >>> WithinImage.of(np.array([1.0, 3.0, 2.0]), np.array([1.0, 2.0, 3.0]), np.zeros(3, int), 1)(np.ones((1, 1)))
    {'sample_tau': array([0.33333333]), 'accuracy': array([0.66666667]), 'accuracy_eq': array([0.66666667])}
    """

    gap: Floats
    """Difference of the metric for each pair of captions, in order of size."""
    human: Floats
    cluster: Ints
    clusters: int

    @classmethod
    def of(cls, values: Floats, mean: Floats, cluster: Ints, clusters: int) -> WithinImage:
        """Make the pairs of captions from one value and one mean rating per caption."""
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
        """Compute the accuracies under each column of weights."""
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
        """The agreement of each image without ties, and what each threshold adds to it (thresholds × images)."""
        beyond, gain = self._agreement
        steps = self._steps
        if len(steps) > THRESHOLDS:
            # The best on the data as they are stays among those tried.
            spread = steps[np.linspace(0, len(steps) - 1, THRESHOLDS).astype(np.int64)]
            steps = np.union1d(spread, steps[np.argmax(np.cumsum(gain)[steps])])
        step = np.searchsorted(steps, np.arange(len(gain)))
        flat = np.bincount(step * self.clusters + self.cluster, gain, len(steps) * self.clusters)
        untied = np.bincount(self.cluster, beyond, minlength=self.clusters)
        return untied.astype(np.float64), np.cumsum(flat.reshape(len(steps), self.clusters), axis=0)

    @cached_property
    def _agreement(self) -> tuple[Bools, Floats]:
        """Whether both sides order each pair alike, and what tying the metric would add to the agreement."""
        beyond = (np.sign(self.gap) == np.sign(self.human)) & (self.gap != 0)
        return beyond, (self.human == 0).astype(np.float64) - beyond

    def epsilon(self) -> float:
        """Find the threshold of ``accuracy_eq`` on the data as they are."""
        gained = np.cumsum(self._agreement[1])[self._steps]
        best = int(np.argmax(gained)) if len(gained) else 0
        return float(abs(self.gap[self._steps[best]])) if len(gained) and gained[best] > 0 else 0.0

    @cached_property
    def _steps(self) -> Ints:
        """The last pair of every size of difference: a threshold takes all of a size or none."""
        sizes = np.abs(self.gap)
        return np.flatnonzero(np.append(sizes[1:] != sizes[:-1], True)) if len(sizes) else np.zeros(0, np.int64)

    @cached_property
    def taus(self) -> Floats:
        """Tau-b of every image; NaN if it is undefined."""
        a, b = np.sign(self.gap), np.sign(self.human)
        surplus, x, y = (np.bincount(self.cluster, part, minlength=self.clusters) for part in (a * b, a * a, b * b))
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.where((x > 0) & (y > 0), surplus / np.sqrt(x * y), np.nan)

    @property
    def skipped(self) -> int:
        """Images without a tau."""
        return int(np.isnan(self.taus).sum())


def soft_pairwise_accuracy(
    values: Floats, human: Floats, cluster: Ints, system: Ints, permutations: int = 1000, seed: int = SEED
) -> float:
    """Compute 1 − mean |p_human − p_metric| over pairs of systems (Thompson et al. 2024).

    p is that of a one-sided sign-flip test: over the images both systems captioned, the share of random flips of the
    differences whose sum is at least the observed one. People and metric share the flips.

    >>> rng = np.random.default_rng(0)
    >>> x, group, system = rng.normal(size=60), np.repeat(np.arange(20), 3), np.tile(np.arange(3), 20)
    >>> soft_pairwise_accuracy(x, x, group, system)
    1.0
    """
    number, images = int(system.max()) + 1, int(cluster.max()) + 1
    if number < 2:
        raise InputError("soft pairwise accuracy needs at least two systems")
    key = system * images + cluster
    counts = np.bincount(key, minlength=number * images).reshape(number, images)
    with np.errstate(invalid="ignore", divide="ignore"):
        tables = [
            np.bincount(key, part, minlength=number * images).reshape(number, images) / counts
            for part in (human, values)
        ]
    generator = np.random.default_rng(seed)
    gaps = []
    for one, other in combinations(range(number), 2):
        both = (counts[one] > 0) & (counts[other] > 0)
        if not both.any():
            raise InputError(f"systems {one + 1} and {other + 1} captioned no image in common")
        signs = generator.integers(0, 2, size=(permutations, int(both.sum()))) * 2.0 - 1.0
        p = []
        for table in tables:
            gap = (table[one] - table[other])[both]
            p.append(float((signs @ gap >= gap.sum() - 1e-9).mean()))
        gaps.append(abs(p[0] - p[1]))
    return 1.0 - float(np.mean(gaps))


def rank_shares(values: Floats) -> Floats:
    """Return the share of items below each item; ties count half.

    >>> rank_shares(np.array([3.0, 1.0, 3.0, 2.0])).tolist()
    [0.75, 0.125, 0.75, 0.375]
    """
    return (mid_ranks(values) - 0.5) / len(values)
