"""The mean rating of systems over all their captions, of which people rated some: a regression estimator.

Every caption has numbers known before anybody rates it, the *auxiliary values* x (a metric, a judge, the length). They
are centered at their mean over all captions of a *cell*, a system and a stratum, and ratings are regressed on cells and
x: the intercept of a cell is then the mean rating of all its captions, rated or not. For one system this is
ȳ − b (x̄ of the rated − x̄ of all), which equals PPI++ (Angelopoulos et al. 2023) without its limits on the weight.

The variance is that of leaving out one image at a time and, if three or more raters are named, one rater at a time:
V = V_images + V_raters − V_images×raters, and never below V_images.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Literal, NamedTuple, TypeAlias

import numpy as np
import numpy.typing as npt

from captious._core.types import Bools, Floats, Ints
from captious.errors import InputError
from captious.options import LEVEL
from captious.stats.regression import Contrast, fit_clustered, sum_by_cluster
from captious.stats.tests import t_point

Target: TypeAlias = Literal["world", "items", "ratings"]
Slopes: TypeAlias = Literal["common", "own"]
# Fewest raters whose differences are counted: two say nothing about other raters.
ENOUGH_RATERS = 3
# Largest number of cells: memory and time of the jackknife grow with its square.
CELLS = 200
# Smallest ratio of the variance of auxiliary values among rated captions to that among all for which a slope is fitted.
SPREAD = 0.1


@dataclass(frozen=True, eq=False)
class Population:
    """All captions of all systems, as numbers."""

    system: Ints
    """The index of each caption's system."""
    image: Ints
    values: Floats
    """Captions × auxiliary metrics."""
    stratum: Ints | None = None
    """The stratum from which each caption was drawn; None if there is only one."""

    @property
    def systems(self) -> int:
        """The number of systems."""
        return int(self.system.max()) + 1

    @property
    def cell(self) -> Ints:
        """The cell of each caption: system × stratum, without gaps, systems together."""
        if self.stratum is None:
            return self.system
        keys = self.system * (int(self.stratum.max()) + 1) + self.stratum
        cell: Ints = np.unique(keys, return_inverse=True)[1].astype(np.int64)
        return cell

    def center(self) -> Floats:
        """Return the values less their mean over all captions of the cell."""
        return center_by(self.values, self.cell)


def center_by(values: Floats, group: Ints) -> Floats:
    """Return rows less the mean of their group.

    >>> center_by(np.array([[1.0], [3.0], [5.0]]), np.array([0, 0, 1])).ravel().tolist()
    [-1.0, 1.0, 0.0]
    """
    groups = int(group.max()) + 1
    means = sum_by_cluster(values, group, groups) / np.maximum(np.bincount(group, minlength=groups), 1)[:, None]
    result: Floats = values - means[group]
    return result


@dataclass(frozen=True, eq=False)
class Answers:
    """Ratings, one per row: the caption, the rater, and the probability with which the caption was drawn."""

    item: Ints
    """The caption of each rating, as an index of the population."""
    rating: Floats
    rater: Ints | None = None
    """The rater of each rating; None if nobody is named."""
    chance: Floats | None = None
    """The probability of each caption of the population to be rated; None if all have the same."""


class MeanContrast(NamedTuple):
    """A linear combination of systems' means, and the parts of its variance that come from images and from raters."""

    estimate: Contrast
    images: float
    raters: float
    """The part of the variance from raters; 0 if they are not counted."""
    fixed: float = 0.0
    """The part of ``images`` that depends on all captions, not on how many are rated; below 0 if it is subtracted."""


@dataclass(frozen=True, eq=False)
class SurveyMeans:
    """Means of systems over all their captions with the parts of their covariance."""

    means: Floats
    slopes: Floats
    """Slopes on the standardized auxiliary values; common ones, or one row per system."""
    images: Floats
    """Covariance by leaving out images."""
    raters: Floats
    """Covariance that raters add, V_raters − V_images×raters; zeros if fewer than three are named."""
    world: Floats
    """Covariance from the auxiliary values of all captions: in another set of images their means would differ."""
    item_variance: Floats
    """Variance of captions around the regression, by system; NaN if no caption has two ratings."""
    fraction: Floats
    """Rated captions over all captions, by system."""
    rated: Ints
    """Rated captions, by system."""
    rated_images: Ints
    """Rated images, by system."""
    number_raters: Ints
    """Raters, by system; 0 if they are not counted."""
    strata: Ints
    """Strata, by system."""
    target: Target = "world"
    deviations: Floats = field(default_factory=lambda: np.zeros((0, 0)))
    """Images × systems: scaled deviations of leaving out each image; their squares add up to ``images``."""

    def contrast(self, weights: npt.ArrayLike) -> MeanContrast:
        """Estimate Σ of weight · mean, such as [1, −1] for a difference, with degrees of freedom.

        A single mean has min(images − strata, raters − 1) degrees of freedom, a difference those of Satterthwaite.
        """
        w = np.asarray(weights, dtype=np.float64)
        systems = np.flatnonzero(w)
        images, raters = max(float(w @ self.images @ w), 0.0), max(float(w @ self.raters @ w), 0.0)
        from_rated = images
        if self.target == "ratings":
            # What these raters say of the rated captions is known: only the captions that are not rated vary.
            w_unrated = np.sqrt(1 - self.fraction) * w
            images = from_rated = float(w_unrated @ self.images @ w_unrated)
            raters = max(float(w_unrated @ self.raters @ w_unrated), 0.0)
        elif self.target == "world":
            images += float(w @ self.world @ w)
        elif len(systems) == 1:
            images = self._subtract_items(int(systems[0]), float(w[systems[0]]), images, raters)
        image_degrees = float((self.rated_images - self.strata)[systems].min())
        counted = self.number_raters[systems]
        counted = counted[counted > 0]
        # A system's only rater says nothing about other raters. t then has one degree of freedom, the smallest number.
        rater_degrees = max(float(counted.min()) - 1, 1.0) if len(counted) else 0.0
        if not rater_degrees:
            degrees = image_degrees
        elif len(systems) == 1:
            degrees = min(image_degrees, rater_degrees)
        elif images + raters > 0:  # Satterthwaite
            degrees = (images + raters) ** 2 / (images**2 / image_degrees + raters**2 / rater_degrees)
        else:
            degrees = image_degrees
        value = float(w @ self.means)
        estimate = Contrast(value, math.sqrt(max(images + raters, 0.0)), max(degrees, 1.0))
        return MeanContrast(estimate, images, raters, images - from_rated)

    def mean(self, system: int) -> MeanContrast:
        """Estimate the mean of one system."""
        return self.contrast(np.eye(len(self.means))[system])

    def _subtract_items(self, system: int, weight: float, images: float, raters: float) -> float:
        """Subtract the variance of the rated captions, which are fixed, not a sample, for the target ``items``.

        With one rating per caption nothing is subtracted: the noise of raters and captions cannot be separated.
        """
        item_variance, share = self.item_variance[system], self.fraction[system]
        if math.isnan(item_variance):
            return images
        reduced = images - weight**2 * share * max(item_variance, 0.0) / self.rated[system]
        # The finite-population correction limits the reduction: images + raters keeps at least the part 1 − share.
        return float(max(reduced, (1 - share) * (images + raters) - raters))


def estimate_means(
    population: Population,
    answers: Answers,
    *,
    target: Target = "world",
    slopes: Slopes = "common",
    predicted: Floats | None = None,
) -> SurveyMeans:
    """Estimate the mean rating of every system over all its captions, from the ratings of some.

    ``target`` is what the interval is for: ``world`` images like these, ``items`` exactly these captions and other
    raters, ``ratings`` what these raters would say of these captions. ``slopes`` are ``common`` to all systems, or each
    system's ``own``. ``predicted`` has a prediction of each caption's rating, made without the caption's own ratings
    (`auxiliary.cross_fit`). It is subtracted with the fixed slope 1, instead of a slope that is fitted.

    >>> x, image = np.array([[1.0], [2], [3], [4], [5], [9]]), np.arange(6)
    >>> means = estimate_means(
    ...     Population(np.zeros(6, int), image, x),
    ...     Answers(np.arange(4), np.array([2.0, 3, 3, 5])),
    ...     target="items",
    ... )
    >>> mean = means.mean(0).estimate
    >>> round(mean.value, 9), round(mean.error, 9)  # slope .9: 3.25 + .9 · (4 − 2.5)
    (4.6, 0.881634228)
    """
    cell, systems = population.cell, population.systems
    cells = int(cell.max()) + 1
    if cells > CELLS:
        raise InputError(f"{cells} systems × strata, expected at most {CELLS}; leave out the strata or some systems")
    weights = _weigh_answers(answers, cell)
    own = population.system[answers.item]
    x = _standardize_values(population, slopes)
    # One intercept per cell, then the slopes.
    dummies = np.zeros((len(answers.item), cells))
    dummies[np.arange(len(answers.item)), cell[answers.item]] = 1.0
    design = np.concatenate([dummies, x[answers.item]], axis=1)
    shares = _share_cells(population, design.shape[1])
    totals = np.bincount(population.system, minlength=systems)
    known_part = np.zeros(len(cell)) if predicted is None else center_by(predicted[:, None], cell)[:, 0]
    rating = answers.rating - known_part[answers.item]
    image = population.image[answers.item]
    row_cell = cell[answers.item]

    def jackknife(cluster: Ints) -> tuple[Floats, Floats, Floats]:
        """Return scaled deviations D, clusters × systems, with coefficients and residuals; DᵀD is a covariance."""
        fit = fit_clustered(rating, design, cluster, weights)
        scaled = (fit.deviations @ shares.T) * np.sqrt(_shrink_factors(cluster, row_cell, own, systems))
        return scaled, fit.coefficients, fit.residuals

    deviations, coefficients, residuals = jackknife(image)
    rater_covariance, raters = np.zeros((systems, systems)), np.zeros(systems, dtype=np.int64)
    if answers.rater is not None and len(np.unique(answers.rater)) >= ENOUGH_RATERS:
        by_rater, _, _ = jackknife(answers.rater)
        by_image_and_rater, _, _ = jackknife(image * (int(answers.rater.max()) + 1) + answers.rater)
        rater_covariance = by_rater.T @ by_rater - by_image_and_rater.T @ by_image_and_rater
        raters = _count_distinct(answers.rater, own, systems)
    # What each image adds to the mean prediction of each system: it would vary in another set of images. The sum over
    # images is 0, because predictions are centered in each cell.
    b = coefficients[cells:]
    fitted = (x @ b + known_part)[:, None] * (population.system[:, None] == np.arange(systems)) / totals
    _, image_of_all = np.unique(population.image, return_inverse=True)
    images = int(image_of_all.max()) + 1
    by_image = sum_by_cluster(fitted, image_of_all.astype(np.int64), images)
    rated = _count_distinct(answers.item, own, systems)
    return SurveyMeans(
        means=shares @ coefficients,
        slopes=b.reshape(systems, -1) if slopes == "own" else b,
        images=deviations.T @ deviations,
        raters=rater_covariance,
        world=images / (images - 1) * by_image.T @ by_image,
        item_variance=_estimate_item_variance(residuals, answers.item, own, systems),
        fraction=rated / totals,
        rated=rated,
        rated_images=_count_distinct(image, own, systems),
        number_raters=raters,
        strata=_count_distinct(row_cell, own, systems),
        target=target,
        deviations=deviations,
    )


def _standardize_values(population: Population, slopes: Slopes) -> Floats:
    """Return the auxiliary values with mean 0 in each cell and standard deviation 1, in the columns of their slopes."""
    centered = population.center()
    scale = np.sqrt((centered**2).mean(axis=0))
    centered = centered / np.where(scale > 0, scale, 1.0)
    return _spread_by_system(centered, population.system, population.systems) if slopes == "own" else centered


def _share_cells(population: Population, coefficients: int) -> Floats:
    """Return systems × coefficients: the weight of each coefficient in the mean of a system.

    The mean of a system is that of its cells' intercepts, weighted by their numbers of captions. Slopes have the weight
    0, because auxiliary values have mean 0 in each cell.
    """
    shares = np.zeros((population.systems, coefficients))
    counts = np.bincount(population.cell)
    first = np.unique(population.cell, return_index=True)[1]
    shares[population.system[first], np.arange(len(counts))] = counts
    result: Floats = shares / np.bincount(population.system, minlength=population.systems)[:, None]
    return result


def find_varied(population: Population, answers: Answers) -> Bools:
    """Return a mask of the auxiliary values that vary enough among the rated captions of a cell to fit a slope."""
    cell, rated = population.cell, np.unique(answers.item)
    variance = (population.center() ** 2).mean(axis=0)
    _, rated_cell = np.unique(cell[rated], return_inverse=True)
    rated_captions = Population(rated_cell.astype(np.int64), population.image[rated], population.values[rated])
    rated_variance = (rated_captions.center() ** 2).mean(axis=0)
    result: Bools = (variance > 0) & (rated_variance >= SPREAD * variance)
    return result


def wilson_interval(
    share: float, error: float, degrees: float, level: float = LEVEL, factor: float | None = None
) -> tuple[float, float]:
    """Return Wilson's interval of a share with any standard error: n = p (1 − p) / error², and t in place of z.

    ``factor`` replaces t, as in `Contrast.interval`.

    Near 0 and 1 its coverage is close to the level, unlike that of share ± t · error. If the error is 0, the interval
    is the share itself.

    >>> [round(end, 6) for end in wilson_interval(0.8, 0.05, 49)]
    [0.683129, 0.881258]
    """
    if not error > 0:
        return share, share
    # A regression can reach 0 or 1 although the answers differ; n is then that of a share one error away from there.
    share = min(max(share, 0.0), 1.0)
    inside = share if 0 < share < 1 else min(max(share, error), 1 - error)
    number = max(inside * (1 - inside) / error**2, 1.0)
    return _solve_wilson(share, number, t_point(level, degrees) if factor is None else factor)


def _solve_wilson(share: float, number: float, point: float) -> tuple[float, float]:
    """Return the shares that are just compatible with ``share`` of ``number`` trials."""
    square = point**2 / number
    center = (share + square / 2) / (1 + square)
    width = point / (1 + square) * math.sqrt(share * (1 - share) / number + point**2 / (4 * number**2))
    return max(center - width, 0.0), min(center + width, 1.0)


def constant_interval(
    value: float, number: int, scale: tuple[float, float], level: float = LEVEL
) -> tuple[float, float]:
    """Return the interval of a mean if all n ratings are equal: at most a share 1 − α^(1/n) of captions differs.

    The share is an upper bound at the level. The interval is where the mean can be if this share of the captions would
    be rated at either end of the scale.

    >>> [round(end, 6) for end in constant_interval(3, 8, (1, 5))]
    [2.375312, 3.624688]
    """
    share = 1 - (1 - level) ** (1 / number)
    return value - (value - scale[0]) * share, value + (scale[1] - value) * share


def _weigh_answers(answers: Answers, cell: Ints) -> Floats:
    """Return the weight of each rating: 1 / (chance of the caption · number of its ratings).

    In each cell the weights are scaled to add up to the number of rated captions.
    """
    item = answers.item
    weights: Floats = 1.0 / np.bincount(item)[item]
    if answers.chance is not None:
        weights = weights / answers.chance[item]
    row_cell = cell[item]
    cells = int(cell.max()) + 1
    sums = np.bincount(row_cell, weights, minlength=cells)
    if not sums.all():
        raise InputError(f"{int((sums == 0).sum())} systems or strata have no rating")
    result: Floats = weights * (_count_distinct(item, row_cell, cells) / sums)[row_cell]
    return result


def _count_distinct(things: Ints, group: Ints, groups: int) -> Ints:
    """Count the distinct things of each group."""
    pairs = np.unique(np.stack([group, things]), axis=1)
    return np.bincount(pairs[0], minlength=groups).astype(np.int64)


def _shrink_factors(cluster: Ints, cell: Ints, system: Ints, systems: int) -> Floats:
    """Return (n − 1) / n for each cluster and system, with n the number of clusters among which the cluster was drawn.

    A cluster in one cell of the system was drawn among the clusters of the cell. A cluster in several cells, such as a
    rater, was drawn among the clusters of the system, and one without a caption of the system among all clusters.
    """
    _, number = np.unique(cluster, return_inverse=True)
    clusters = int(number.max()) + 1
    counts = np.full((clusters, systems), float(clusters))
    c, in_cell, in_system = np.unique(np.stack([number, cell, system]), axis=1)
    cell_sizes, system_sizes = np.bincount(in_cell), _count_distinct(c, in_system, systems)
    cells = np.zeros((clusters, systems), dtype=np.int64)
    np.add.at(cells, (c, in_system), 1)
    counts[c, in_system] = np.where(cells[c, in_system] == 1, cell_sizes[in_cell], system_sizes[in_system])
    result: Floats = (counts - 1) / counts
    return result


def _spread_by_system(values: Floats, system: Ints, systems: int) -> Floats:
    """Return a column for each pair of a system and an auxiliary metric; it is 0 for captions of other systems."""
    own = system[:, None] == np.arange(systems)
    result: Floats = (own[:, :, None] * values[:, None, :]).reshape(len(values), -1)
    return result


def _estimate_item_variance(residuals: Floats, item: Ints, system: Ints, systems: int) -> Floats:
    """Estimate the variance of captions around the regression, from captions with two ratings or more.

    The mean product of two residuals of one caption has no noise of the raters in it: (Σr)² − Σr² are the products.
    """
    counts = np.bincount(item)
    sums, squares = np.bincount(item, residuals), np.bincount(item, residuals**2)
    several = np.flatnonzero(counts >= 2)
    products = (sums[several] ** 2 - squares[several]) / (counts[several] * (counts[several] - 1))
    owner = np.zeros(len(counts), dtype=np.int64)
    owner[item] = system
    with np.errstate(invalid="ignore", divide="ignore"):
        result: Floats = np.bincount(owner[several], products, minlength=systems) / np.bincount(
            owner[several], minlength=systems
        )
    return result
