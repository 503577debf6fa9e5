"""How often the intervals of `study estimate` contain the true value: simulated studies of few rated captions.

    python -m lab.coverage_estimate
    python -m lab.coverage_estimate --studies 100 --only means,raters

Every table counts studies: the share whose interval contains the truth (nominal 95 %), or with a false alarm (nominal
5 %). Ratings are on 1 to 5; a metric correlates with them at rho. The truth is that of very many images and raters.
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Callable, Iterator
from functools import partial

import numpy as np

from captious._core.types import Floats
from captious.stats.auxiliary import cross_fit, shrink_prediction
from captious.stats.looks import anytime_factor, look_boundaries, look_factor
from captious.stats.regression import Contrast
from captious.stats.resampling import holm
from captious.stats.ridge import fit_tuned_ridge
from captious.stats.survey import Answers, Population, SurveyMeans, estimate_means, wilson_interval

MEAN, SPREAD = 3.2, 1.1
# Designs of the raters' table: raters, ratings per caption, images.
DESIGNS = [(12, 3, 20), (12, 3, 60), (20, 3, 100), (6, 3, 50), (30, 1, 100), (8, 5, 100), (4, 4, 40), (12, 2, 300)]


def rate(seen: Floats) -> Floats:
    """Return answers on five points."""
    return np.clip(np.round(seen), 1, 5)


def true_mean(spread: float = SPREAD, mean: float = MEAN) -> float:
    """Return the mean answer for seen quality that is normal with this spread."""
    from scipy.special import ndtr

    ends = ndtr((np.array([1.5, 2.5, 3.5, 4.5]) - mean) / spread)
    return float(5 - ends.sum())


def correlated(quality: Floats, rho: float, random: np.random.Generator) -> Floats:
    """Return a metric that correlates with a standard normal quality at rho."""
    return rho * quality + math.sqrt(1 - rho**2) * random.normal(size=quality.shape)


def covers(means: SurveyMeans, weights: Floats, truth: float) -> bool:
    """Return whether the interval of a contrast contains the truth."""
    low, high = means.contrast(weights).estimate.interval()
    return low <= truth <= high


def simulate_mean(rho: float, number: int, random: np.random.Generator) -> tuple[bool, bool, float, float]:
    """Return whether the interval without and with a metric contains the mean of 2,000 captions' world, and widths."""
    quality = random.normal(size=2000)
    answers = Answers(np.arange(number), rate(MEAN + SPREAD * quality[:number]))
    metric = correlated(quality, rho, random)[:, None]
    result = []
    for values in (metric[:, :0], metric):
        means = estimate_means(Population(np.zeros(2000, int), np.arange(2000), values), answers)
        low, high = means.mean(0).estimate.interval()
        result.append((low <= true_mean() <= high, high - low))
    return result[0][0], result[1][0], result[0][1], result[1][1]


def simulate_difference(rho: float, number: int, random: np.random.Generator) -> bool:
    """Return whether the interval of the difference of two equal systems, rated on the same images, contains 0."""
    images = 1000
    shared, own = random.normal(size=images), random.normal(size=(2, images))
    quality = math.sqrt(0.5) * shared + math.sqrt(0.5) * own
    item = np.concatenate([np.arange(number // 2), images + np.arange(number // 2)])
    values = correlated(quality, rho, random).reshape(-1, 1)
    population = Population(np.repeat([0, 1], images), np.tile(np.arange(images), 2), values)
    answers = Answers(item, rate(MEAN + SPREAD * quality.ravel())[item])
    return covers(estimate_means(population, answers), np.array([1.0, -1.0]), 0.0)


def simulate_different_images(rho: float, random: np.random.Generator) -> bool:
    """Return whether the interval of the difference of two equal systems contains 0, rated on 80 and 30 images."""
    images = 1000
    shared, own = random.normal(size=images), random.normal(size=(2, images))
    quality = (math.sqrt(0.5) * shared + math.sqrt(0.5) * own).ravel()
    item = np.concatenate([np.arange(80), images + 80 + np.arange(30)])
    population = Population(
        np.repeat([0, 1], images), np.tile(np.arange(images), 2), correlated(quality, rho, random)[:, None]
    )
    answers = Answers(item, rate(MEAN + SPREAD * quality)[item])
    return covers(estimate_means(population, answers), np.array([1.0, -1.0]), 0.0)


def simulate_raters(design: tuple[int, int, int], random: np.random.Generator) -> tuple[float, float, float, bool]:
    """Return shares of four equal systems' means and differences that are covered with a metric, and a false alarm."""
    raters, overlap, images = design
    severity = random.normal(0, 0.5, raters)
    total = 4 * images
    quality = 0.7 * random.normal(size=(1, total)) + 0.7 * random.normal(size=(4, total))
    quality /= math.sqrt(0.98)
    item, rater = [], []
    for image in range(images):
        chosen = random.permutation(raters)[:overlap]
        for system in range(4):
            item += [system * total + image] * overlap
            rater += chosen.tolist()
    items, people = np.array(item), np.array(rater)
    seen = MEAN + 0.8 * quality.ravel()[items] + severity[people] + random.normal(0, 0.6, len(items))
    answers = Answers(items, rate(seen), people)
    values = correlated(quality, 0.6, random).reshape(-1, 1)
    population = Population(np.repeat(np.arange(4), total), np.tile(np.arange(total), 4), values)
    truth = true_mean(math.sqrt(0.8**2 + 0.5**2 + 0.6**2))
    means = estimate_means(population, answers)
    plain = estimate_means(Population(population.system, population.image, values[:, :0]), answers)
    units = np.eye(4)
    tests = [means.contrast(units[a] - units[b]).estimate for a in range(4) for b in range(a)]
    differences = [low <= 0 <= high for low, high in (test.interval() for test in tests)]
    alarm = min(holm([test.p for test in tests])) < 0.05
    return (
        float(np.mean([covers(plain, unit, truth) for unit in units])),
        float(np.mean([covers(means, unit, truth) for unit in units])),
        float(np.mean(differences)),
        alarm,
    )


def simulate_ridge(rho: float, number: int, random: np.random.Generator) -> bool:
    """Return whether the interval with a cross-fitted ridge of ten metrics contains the mean."""
    quality = random.normal(size=2000)
    values = np.stack([correlated(quality, rho, random)] + [random.normal(size=2000) for _ in range(9)], axis=1)
    rating, image = rate(MEAN + SPREAD * quality[:number]), np.arange(2000)
    predicted = cross_fit(lambda x, y, c: fit_tuned_ridge(x, y, c).predict, values, image, np.arange(number), rating)
    factor = shrink_prediction(predicted[:number], rating, np.zeros(number, int))
    population = Population(np.zeros(2000, int), image, values[:, :0])
    means = estimate_means(population, Answers(np.arange(number), rating), predicted=factor * predicted)
    return covers(means, np.ones(1), true_mean())


def simulate_wins(rate_of_wins: float, number: int, random: np.random.Generator) -> bool:
    """Return whether Wilson's interval of a win rate, with a metric of rho .6, contains it."""
    from scipy.special import ndtri

    quality = random.normal(size=2000)
    wins = (quality < ndtri(rate_of_wins)).astype(np.float64)
    values = correlated(quality, 0.6, random)[:, None]
    population = Population(np.zeros(2000, int), np.arange(2000), values)
    one = estimate_means(population, Answers(np.arange(number), wins[:number])).mean(0).estimate
    low, high = wilson_interval(min(max(one.value, 0.0), 1.0), one.error, one.degrees)
    return low <= rate_of_wins <= high


def simulate_items(overlap: int, random: np.random.Generator) -> tuple[bool, bool]:
    """Return whether intervals for exactly 400 captions, 100 of them rated, contain the mean that they are for.

    The first is for the mean by all raters (``items``), the second for that of what the same raters would say of all
    400 (``ratings``).
    """
    quality = random.normal(size=400)
    ends = np.array([1.5, 2.5, 3.5, 4.5])
    from scipy.special import ndtr

    truth = float((5 - ndtr((ends[:, None] - MEAN - 0.9 * quality) / 0.6).sum(axis=0)).mean())
    item = np.repeat(np.arange(400), overlap)
    rating = rate(MEAN + 0.9 * quality[item] + random.normal(0, 0.6, len(item)))
    population = Population(np.zeros(400, int), np.arange(400), correlated(quality, 0.6, random)[:, None])
    answers = Answers(item[: 100 * overlap], rating[: 100 * overlap])
    items, ratings = (estimate_means(population, answers, target=target) for target in ("items", "ratings"))
    return covers(items, np.ones(1), truth), covers(ratings, np.ones(1), float(rating.mean()))


def simulate_looks(times: list[int], planned: int, kind: str, random: np.random.Generator) -> bool:
    """Return whether any of several looks at a growing study has an interval without the truth."""
    quality = random.normal(size=2000)
    values = correlated(quality, 0.6, random)[:, None]
    population = Population(np.zeros(2000, int), np.arange(2000), values)
    rating = rate(MEAN + SPREAD * quality)
    boundaries = look_boundaries([time / planned for time in times]) if kind == "planned" else [1.959964] * len(times)
    for time, boundary in zip(times, boundaries, strict=True):
        one: Contrast = estimate_means(population, Answers(np.arange(time), rating[:time])).mean(0).estimate
        factor = anytime_factor(time) if kind == "anytime" else look_factor(boundary, one.degrees)
        low, high = one.interval(factor=factor)
        if not low <= true_mean() <= high:
            return True
    return False


def simulate_winner(times: list[int], planned: int, tests: int, random: np.random.Generator) -> bool:
    """Return whether a difference of four equal systems is claimed at any of several looks.

    ``tests`` divides the error, as `study estimate` does at looks: by 6, the number of pairs, or by 1.
    """
    images = 2 * planned
    quality = 0.7 * random.normal(size=(1, images)) + 0.7 * random.normal(size=(4, images))
    rating, values = rate(MEAN + SPREAD * quality).ravel(), correlated(quality, 0.6, random).reshape(-1, 1)
    population = Population(np.repeat(np.arange(4), images), np.tile(np.arange(images), 4), values)
    boundaries = look_boundaries([time / planned for time in times], 1 - 0.05 / tests)
    units = np.eye(4)
    for time, boundary in zip(times, boundaries, strict=True):
        item = (np.arange(4)[:, None] * images + np.arange(time)).ravel()
        means = estimate_means(population, Answers(item, rating[item]))
        for one, other in itertools.combinations(units, 2):
            gap: Contrast = means.contrast(one - other).estimate
            low, high = gap.interval(factor=look_factor(boundary, gap.degrees))
            if not low <= 0 <= high:
                return True
    return False


def list_tables(studies: int) -> dict[str, Callable[[], Iterator[str]]]:
    """Return the tables: lines by name."""

    cells = itertools.count(1)

    def repeat(simulate: Callable[[np.random.Generator], object]) -> Floats:
        # Every cell of every table has its own studies: shared ones would be lucky or unlucky in all cells.
        cell = next(cells)
        results = [simulate(np.random.default_rng([cell, study])) for study in range(studies)]
        return np.array(results, dtype=np.float64)

    def means() -> Iterator[str]:
        yield "mean, one system of 2,000 captions: rho, rated | without a metric, with | widths"
        for rho in (0.0, 0.3, 0.6, 0.9):
            for number in (20, 50, 100, 300):
                one = repeat(partial(simulate_mean, rho, number)).mean(axis=0)
                yield f"{rho:4} {number:4} | {100 * one[0]:5.1f} {100 * one[1]:5.1f} | {one[2]:.2f} {one[3]:.2f}"

    def differences() -> Iterator[str]:
        yield "difference of two equal systems with a metric: rho, rated captions | covered"
        for rho in (0.0, 0.3, 0.6, 0.9):
            for number in (20, 50, 100, 300):
                yield f"{rho:4} {number:4} | {100 * repeat(partial(simulate_difference, rho, number)).mean():5.1f}"
        yield "the same, 80 images of one system and 30 others of the other: rho | covered"
        for rho in (0.0, 0.6, 0.9):
            yield f"{rho:4} | {100 * repeat(partial(simulate_different_images, rho)).mean():5.1f}"

    def raters() -> Iterator[str]:
        yield "raters, ratings per caption, images | means without, with a metric | differences | any Holm p < .05"
        for design in DESIGNS:
            one = 100 * repeat(partial(simulate_raters, design)).mean(axis=0)
            yield f"{design!s:14} | {one[0]:5.1f} {one[1]:5.1f} | {one[2]:5.1f} | {one[3]:4.1f}"

    def ridge() -> Iterator[str]:
        yield "cross-fitted ridge of ten metrics, nine of them noise: rho, rated | covered"
        for rho in (0.0, 0.3, 0.6):
            for number in (20, 50, 100):
                yield f"{rho:4} {number:4} | {100 * repeat(partial(simulate_ridge, rho, number)).mean():5.1f}"

    def wins() -> Iterator[str]:
        yield "win rate with a metric, Wilson: rate, rated | covered"
        for share in (0.6, 0.9):
            for number in (50, 100, 300):
                yield f"{share:4} {number:4} | {100 * repeat(partial(simulate_wins, share, number)).mean():5.1f}"

    def items() -> Iterator[str]:
        yield "exactly these 400 captions, 100 rated: ratings each | covered, for all raters and for the same ones"
        for overlap in (1, 2, 3):
            one = 100 * repeat(partial(simulate_items, overlap)).mean(axis=0)
            yield f"{overlap} | {one[0]:5.1f} {one[1]:5.1f}"

    def looks() -> Iterator[str]:
        yield "wrong at least once: looks | share of studies"
        five = [60, 120, 180, 240, 300]
        for kind in ("fixed", "planned", "anytime"):
            yield f"five, {kind:8} | {100 * repeat(partial(simulate_looks, five, 300, kind)).mean():5.1f}"
        many = list(range(20, 301, 10))
        for kind in ("fixed", "planned"):
            yield f"29, {kind:10} | {100 * repeat(partial(simulate_looks, many, 300, kind)).mean():5.1f}"
        yield "four equal systems, five planned looks: any difference claimed, the error divided by | share of studies"
        for tests in (1, 6):
            alarms = repeat(partial(simulate_winner, [20, 40, 60, 80, 100], 100, tests))
            yield f"{tests} | {100 * alarms.mean():5.1f}"

    return {
        "means": means, "differences": differences, "raters": raters, "ridge": ridge, "wins": wins, "items": items,
        "looks": looks,
    }  # fmt: skip


def main() -> None:
    """Print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=400)
    parser.add_argument("--only", help="names of tables, with commas")
    options = parser.parse_args()
    tables = list_tables(options.studies)
    for name in options.only.split(",") if options.only else tables:
        for line in tables[name]():
            print(line, flush=True)


if __name__ == "__main__":
    main()
