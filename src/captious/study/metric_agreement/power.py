"""The number of captions that must be rated to detect a difference between two metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from numbers import Integral, Real
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious.errors import InputError
from captious.options import Resampling
from captious.render import Column, Document, Result, Table
from captious.stats.kendall import Kendall
from captious.stats.tests import compute_power, count_needed, find_detectable, normal_point

# The lowest and the highest number of each argument of a simulation.
BOUNDS: Mapping[str, tuple[int, int]] = {
    "items": (10, 100_000), "raters": (1, 1000), "levels": (2, 1000), "alike": (0, 1), "noise": (0, 1000),
}  # fmt: skip
# Captions × ratings of one simulated study; of a larger one fewer captions are simulated, and the error is scaled.
CELLS = 20_000
# Captions on which a metric with a given tau is found.
CALIBRATION = 20_000


@dataclass(frozen=True, repr=False)
class Power(Result):
    """The power of a planned study."""

    items: int
    raters: int
    difference: float
    error: float
    """Standard error of the difference of two taus at this size."""
    power: float
    """Chance that a two-sided test at the level finds the difference."""
    detectable: float
    """The difference found four times in five at this size."""
    needed: int
    """Captions for power 0.8."""
    needed_90: int
    """Captions for power 0.9."""
    assumed: str

    def __repr__(self) -> str:
        return f"Power({self.difference:g} in tau-b, {self.items} captions: {self.power:.2f})"

    @property
    def ratings(self) -> int:
        """Ratings to collect for power 0.8."""
        return self.needed * self.raters

    def document(self) -> Document:
        """Build the document: what the planned study would show, and what it would take."""
        difference = f"difference of {self.difference:g} in tau-b ({100 * self.difference:g} of τ × 100)"
        planned = Table(
            "planned",
            "The planned study",
            [
                Column("captions"),
                Column("ratings"),
                Column("difference", decimals=None),
                Column("power", decimals=2, bold=True),
                Column("standard error"),
                Column("detectable", decimals=3),
            ],
            [[self.items, self.items * self.raters, self.difference, self.power, self.error, self.detectable]],
            "difference, detectable: in tau-b, 0.01 being one point of τ × 100; detectable: found with power 0.80",
        )
        sizes = ((0.8, self.needed), (0.9, self.needed_90))
        needed = Table(
            "needed",
            f"To find a {difference}",
            [Column("for power", decimals=2), Column("captions"), Column("ratings")],
            [[power, captions, captions * self.raters] for power, captions in sizes],
        )
        data = {**asdict(self), "ratings": self.ratings}
        return Document(
            f"A {difference}: power {self.power:.2f}",
            "How many captions and ratings a comparison of two metrics needs, by simulation.",
            (planned, needed),
            notes=(f"assumed: {self.assumed}",),
            data=data,
            name="power",
            answer=self._answer(),
        )

    def _answer(self) -> str:
        """Return the plain answer: the chance to find the difference, and how many captions would raise it to 0.8."""
        start = (
            f"With {self.items:,} captions and {self.items * self.raters:,} ratings, a difference of "
            f"{100 * self.difference:g} of τ × 100 between two metrics would be found with probability {self.power:.2f}"
        )
        if self.needed <= self.items:
            return f"{start}; {self.needed:,} captions would be enough for 0.80."
        return f"{start}. For 0.80 it takes {self.needed:,} captions and {self.ratings:,} ratings."


def simulate_power(
    difference: float,
    items: int,
    *,
    raters: int = 3,
    levels: int = 5,
    tau: float = 0.45,
    alike: float = 0.6,
    noise: float = 0.8,
    resampling: Resampling = Resampling(samples=400),
) -> Power:
    """Simulate the power of a comparison of two metrics whose tau-b with people differ by ``difference``.

    Simulated: captions have a quality; every rater sees it with noise (sd ``noise`` of quality's) and answers on
    ``levels`` equally likely points; two metrics correlate with the ratings at ``tau`` and ``tau + difference`` and
    their errors with each other at ``alike``. The standard error of the difference comes from ``resampling.samples``
    simulated studies, power and sizes from the normal distribution, the error shrinking as 1/√items. The test is
    two-sided at one minus ``resampling.level``. A difference or a tau of 1 or more is in points, as tables print tau:
    3 is 0.03.

    >>> planned = simulate_power(0.02, 500, resampling=Resampling(samples=100))
    >>> planned.needed > 500, 0.05 < planned.power < 0.8
    (True, True)
    """
    if not isinstance(resampling, Resampling):
        raise InputError(f"resampling: {type(resampling).__name__}, expected one such as Resampling(samples=400)")
    _check_numbers({"items": items, "raters": raters, "levels": levels}, Integral)
    _check_numbers({"difference": difference, "tau": tau, "alike": alike, "noise": noise}, Real)
    difference, tau = _as_tau("difference", difference), _as_tau("tau", tau)
    _check_taus(tau, difference)
    if resampling.samples < 2:
        raise InputError(f"{resampling.samples} simulated studies, expected at least 2")
    _check_bounds({"items": items, "raters": raters, "levels": levels, "alike": alike, "noise": noise})
    world = _World(raters, levels, noise, alike)
    error = _simulate_standard_error(world, items, (tau, tau + difference), resampling)
    chance = compute_power(difference, error, resampling.level)

    def count_captions(power: float) -> int:
        return count_needed(difference, error, items, resampling.level, power)

    assumed = f"tau {tau:g}, {raters} raters, {levels} levels, errors alike {alike:g}, noise {noise:g}, "
    assumed += f"seed {resampling.seed}"
    if (simulated := world.limit(items, CELLS)) < items:
        assumed += f", {simulated:,} captions simulated and the error scaled to {items:,}"
    detectable = find_detectable(error, resampling.level)
    return Power(
        items, raters, difference, error, chance, detectable, count_captions(0.8), count_captions(0.9), assumed
    )


def _check_numbers(arguments: Mapping[str, Any], kind: type) -> None:
    """Raise InputError for an argument that is no number of this kind."""
    for name, number in arguments.items():
        if not isinstance(number, kind):
            raise InputError(f"{name}: {number!r}, expected a {'whole ' * (kind is Integral)}number")


def _check_taus(tau: float, difference: float) -> None:
    """Raise InputError for two metrics that are equal, or one whose tau would be above 1."""
    if difference == 0:
        raise InputError("difference=0, expected the difference that should be found, such as 0.03 or 3 of tau × 100")
    if not -1 < tau + difference < 1:
        raise InputError(
            f"tau={tau:g} and difference={difference:g}: the better metric has {tau + difference:g}, above 1"
        )


def _check_bounds(arguments: Mapping[str, float]) -> None:
    """Raise InputError for numbers outside of `BOUNDS`."""
    for name, value in arguments.items():
        low, high = BOUNDS[name]
        if not low <= value <= high:
            raise InputError(f"{name}={value:g}, expected a number from {low} to {high}")


def _simulate_standard_error(world: _World, items: int, taus: tuple[float, float], resampling: Resampling) -> float:
    """Compute the standard error of the difference between two metrics' tau-b, over simulated studies."""
    loads = world.find_loads(taus, resampling.seed)
    generator = np.random.default_rng(resampling.seed)
    simulated = world.limit(items, CELLS)
    differences = []
    for _ in range(resampling.samples):
        captions = world.sample(simulated, len(taus), generator)
        weaker, stronger = (captions.tau(captions.metric(load, index)) for index, load in enumerate(loads))
        differences.append(stronger - weaker)
    return float(np.std(differences, ddof=1)) * math.sqrt(simulated / items)


def _as_tau(name: str, value: float) -> float:
    """Convert a tau that a person writes: 0.45, or 45 as tables print it.

    >>> _as_tau("tau", 45), _as_tau("tau", 0.45)
    (0.45, 0.45)
    """
    if not abs(value) < 100:
        raise InputError(f"{name}={value:g}, expected a tau such as 0.03, or 3 of tau × 100")
    return value / 100 if abs(value) >= 1 else value


@dataclass(frozen=True)
class _World:
    """Simulated captions with a quality, raters who see it with noise, and metrics whose errors are correlated."""

    raters: int
    levels: int
    noise: float
    alike: float

    def limit(self, items: int, cells: int) -> int:
        """Return how many captions are simulated, so that the table of their ratings has at most this number of cells.

        The table has a column per rater, or a column per level if there are fewer levels.
        """
        return min(items, cells // min(self.raters, self.levels))

    def sample(self, items: int, metrics: int, generator: np.random.Generator) -> _Captions:
        """Draw captions, the errors of this number of metrics, and the ratings."""
        quality, shared = generator.normal(size=items), generator.normal(size=items)
        errors = [
            math.sqrt(self.alike) * shared + math.sqrt(1 - self.alike) * generator.normal(size=items)
            for _ in range(metrics)
        ]
        return _Captions(quality, errors, self._draw_counts(quality, generator))

    def _draw_counts(self, quality: Floats, generator: np.random.Generator) -> Floats:
        """Draw how many raters give each caption each point of the scale, captions × levels."""
        edges = np.array([normal_point(cut / self.levels) for cut in range(1, self.levels)])
        # Perceived quality has the variance 1 + noise², and each level is equally likely.
        edges *= math.hypot(1, self.noise)
        if self.raters <= self.levels:
            perceived = quality[:, None] + self.noise * generator.normal(size=(len(quality), self.raters))
            cells = np.searchsorted(edges, perceived) + self.levels * np.arange(len(quality))[:, None]
            counts = np.bincount(cells.ravel(), minlength=len(quality) * self.levels)
            return counts.reshape(-1, self.levels).astype(np.float64)
        # Many raters on few levels: the numbers of ratings at each level are multinomial, so no rater is drawn.
        from scipy.special import ndtr

        gaps = edges - quality[:, None]
        below = ndtr(gaps / self.noise) if self.noise else (gaps >= 0) * 1.0  # without noise all raters agree
        chances = np.diff(below, axis=1, prepend=0.0, append=1.0)
        return generator.multinomial(self.raters, chances).astype(np.float64)

    def find_loads(self, taus: Sequence[float], seed: int) -> list[float]:
        """Find the correlation of a metric with quality that gives each tau, by bisection on one large sample."""
        captions = self.sample(self.limit(CALIBRATION, 10 * CELLS), 1, np.random.default_rng(seed))
        return [self._find_load(tau, captions) for tau in taus]

    def _find_load(self, tau: float, captions: _Captions) -> float:
        low, high = -1.0, 1.0
        for _ in range(14):
            middle = (low + high) / 2
            low, high = (middle, high) if captions.tau(captions.metric(middle)) < tau else (low, middle)
        if high > 0.9999:
            raise InputError(f"no metric can reach tau {tau:g} with ratings this noisy; lower noise or tau")
        return (low + high) / 2


@dataclass(frozen=True, eq=False)
class _Captions:
    """Simulated captions with their ratings."""

    quality: Floats
    errors: Sequence[Floats]
    """Of each metric, correlated with those of the others."""
    counts: Floats
    """The number of raters that gave each point of the scale, captions × levels."""

    def metric(self, load: float, index: int = 0) -> Floats:
        """Return the values of a metric that correlates with quality at ``load``."""
        return load * self.quality + math.sqrt(1 - load * load) * self.errors[index]

    def tau(self, values: Floats) -> float:
        """Return the tau-b of a metric with the ratings."""
        ranks = np.empty(len(values), np.int64)
        ranks[np.argsort(values)] = np.arange(len(values))
        item, level = np.nonzero(self.counts)
        tau = Kendall(ranks, np.zeros(len(values), np.int64), item, level, self.counts[item, level])
        return float(tau(np.ones((1, 1)))["tau_b"][0])
