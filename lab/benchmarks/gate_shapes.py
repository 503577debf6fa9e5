"""How often a gate passes a loss of exactly the margin, for several shapes of losses and several ways to make bounds.

    PYTHONPATH=. python lab/benchmarks/gate_shapes.py [--pairs 4000] [--rows]

A gain of 0 stands for an unchanged caption. A changed one has a gain of one of the shapes below, so the true loss is
known: it is the margin. A pass is then an error, and should happen in 5 % of the pairs. For the power the sign of each
gain is drawn, so that both systems are equally good; the margin is 2.49 standard errors of the mean, with which 80 %
would pass if the gains were normal. All pairs of a size share their resamples, as in captious, so that everything is a
matrix product: the whole takes less than a minute on one core. ``tests/gating/test_gate.py`` compares the bounds of one
pair with those of ``captious.gate``.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import ndtr, ndtri, stdtrit

from captious._core.types import Floats

LEVEL, SAMPLES = 0.95, 1000
# Standard errors between an equal system and the margin, with which it passes in 80 %.
SPAN = 2.4865


class Shape(NamedTuple):
    """Gains of changed captions: a sampler, and the mean and mean square that it has."""

    draw: Callable[[np.random.Generator, tuple[int, int]], Floats]
    mean: float
    square: float


def _rare(rng: np.random.Generator, size: tuple[int, int]) -> Floats:
    heavy = rng.random(size) < 0.2
    return np.where(heavy, -0.5 - rng.exponential(1, size), rng.normal(0.05, 0.1, size))


SHAPES = {
    "normal, mean -1/2": Shape(lambda rng, size: rng.normal(-0.5, 1, size), -0.5, 1.25),
    "-1 twice as often as +1": Shape(lambda rng, size: np.where(rng.random(size) < 2 / 3, -1.0, 1.0), -1 / 3, 1),
    "all lose 1": Shape(lambda rng, size: np.full(size, -1.0), -1, 1),
    "exponential losses": Shape(lambda rng, size: -rng.exponential(1, size), -1, 2),
    "lognormal losses": Shape(lambda rng, size: -rng.lognormal(0, 1, size), -np.exp(0.5), np.exp(2)),
    # E = .2 · (−1.5) + .8 · .05; E of squares = .2 · (1 + 2.25) + .8 · (.01 + .0025)
    "a fifth loses much": Shape(_rare, -0.26, 0.66),
}
# Items, and the share of captions that change.
SIZES = ((50, 0.15), (100, 0.15), (200, 0.15), (500, 0.15), (200, 0.05), (500, 0.05), (50, 1.0), (200, 1.0))


def lower_bounds(gains: Floats, weights: Floats) -> dict[str, Floats]:
    """Return the lower bound of each pair (a column of gains) by each method."""
    items = len(gains)
    mean, error = gains.mean(axis=0), gains.std(axis=0, ddof=1) / np.sqrt(items)
    changed = (gains != 0).sum(axis=0)
    drawn = weights @ gains / items
    errors = np.sqrt(np.maximum(weights @ gains**2 / items - drawn**2, 0) / (items - 1))
    place = int(np.ceil(LEVEL * (SAMPLES + 1))) - 1
    with np.errstate(divide="ignore", invalid="ignore"):
        ratios = np.where(np.abs(drawn - mean) < 1e-12, 0.0, (drawn - mean) / errors)
        skew = ((gains - mean) ** 3).mean(axis=0) / (error**2 * items) ** 1.5 / np.sqrt(items)
    studentized = np.sort(ratios, axis=0)[place]
    of_items, of_changed = stdtrit(items - 1, LEVEL), stdtrit(np.maximum(changed - 1, 1), LEVEL)
    skew = np.where(np.abs(skew) < 1e-9, 1e-9, skew)
    hall = 3 / skew * (np.cbrt(1 + skew * (of_items - skew / 6)) - 1)
    ordered, shift = np.sort(drawn, axis=0), ndtri(np.clip((drawn < mean).mean(axis=0), 1e-3, 1 - 1e-3))
    z = shift + ndtri(1 - LEVEL)
    share = np.nan_to_num(ndtr(shift + z / (1 - skew / 6 * z)))  # not a number where all gains are equal
    bca = np.clip((share * SAMPLES).astype(int), 0, SAMPLES - 1)
    bounds = {
        "percentile": np.percentile(drawn, 100 * (1 - LEVEL), axis=0),
        "BCa": np.take_along_axis(ordered, bca[None], axis=0)[0],
        "t": mean - of_items * error,
        "t (changed)": mean - of_changed * error,
        "Hall": mean - hall * error,
        "bootstrap-t": mean - studentized * error,
        "studentized": mean - np.maximum(studentized, of_changed) * error,
    }
    return {name: np.where(error > 0, bound, mean) for name, bound in bounds.items()}


def rates(shape: Shape, items: int, share: float, pairs: int, equal: bool, seed: int = 0) -> dict[str, float]:
    """Return the share of pairs that pass by each method, with a loss of the margin or of an equal system."""
    rng = np.random.default_rng(seed)
    weights = rng.multinomial(items, np.full(items, 1 / items), size=SAMPLES).astype(np.float64)
    gains = np.where(rng.random((items, pairs)) < share, shape.draw(rng, (items, pairs)), 0.0)
    limit = share * shape.mean
    if equal:
        gains *= rng.choice([-1.0, 1.0], size=gains.shape)
        limit = -SPAN * np.sqrt(share * shape.square / items)
    bounds = lower_bounds(gains, weights)
    # At the margin itself, rounding decides nothing: a pass needs a bound that is clearly above.
    return {name: float((bound > limit + 1e-9).mean()) for name, bound in bounds.items()}


def table(title: str, pairs: int, equal: bool, rows: bool) -> None:
    """Print the rates of every size: of each shape, or the range over the shapes."""
    print(f"\n{title}, {pairs:,} pairs each, {SAMPLES:,} resamples, level {LEVEL:.0%}")
    names = list(lower_bounds(np.eye(3), np.ones((SAMPLES, 3))))
    print(f"| items | changed | losses | {' | '.join(names)} |\n|{'---|' * (3 + len(names))}")
    for items, share in SIZES:
        found = {name: rates(shape, items, share, pairs, equal) for name, shape in SHAPES.items()}
        for name, one in found.items() if rows else ():
            print(f"| {items} | {share:.0%} | {name} | {' | '.join(f'{one[key]:.1%}' for key in names)} |")
        if not rows:
            whole = [name for name in found if (share, name) != (1.0, "all lose 1")]  # without spread, all pass
            ends = [(min(found[one][key] for one in whole), max(found[one][key] for one in whole)) for key in names]
            print(f"| {items} | {share:.0%} | all shapes | {' | '.join(f'{a:.1%} – {b:.1%}' for a, b in ends)} |")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=4000)
    parser.add_argument("--rows", action="store_true", help="a row for each shape, not only the range")
    options = parser.parse_args()
    table("Passes with a loss of exactly the margin (should be 5%)", options.pairs, False, options.rows)
    table("Passes of equal systems (should be 80%)", options.pairs, True, options.rows)
