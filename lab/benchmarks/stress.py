"""How often the intervals of stress cards hold the truth, over simulated scores.

    PYTHONPATH=. python lab/benchmarks/stress.py [--runs 1000] [--samples 400]

Images have one caption or two. Scores are normal with deviation 1, of which half the variance is the image's where it
has two captions; an edit changes them by a normal of a known mean and deviation 1, or leaves a share of them as they
are. So the sides, the size and the slope over doses are known.
"""

from __future__ import annotations

import argparse
from math import erf, sqrt

import numpy as np

from captious._core.types import Floats, Ints
from captious.options import Interval, Resampling
from captious.probes._effects import Scores, find_doses, find_effects

# The mean change of an edit, and the share of captions that it leaves as they are.
CASES = {"small": (-0.1, 0.0), "medium": (-0.5, 0.0), "large": (-2.0, 0.0), "half of them unmoved": (-0.5, 0.5)}
DOSES = (1, 2, 3, 5)


def simulate(
    random: np.random.Generator, images: int, each: int, mean: float, unmoved: float
) -> tuple[Floats, Floats, Ints]:
    """Scores before and after, and the image of each caption."""
    image = np.repeat(np.arange(images), each)
    shared = random.normal(size=(images, 2))[image] * sqrt(0.5 if each > 1 else 0.0)
    own = random.normal(size=(len(image), 2)) * sqrt(0.5 if each > 1 else 1.0)
    base, noise = (shared + own).T
    change = (mean + noise)[:, None]
    change[random.random(len(image)) < unmoved] = 0.0
    return base, base[:, None] + change, image


def truth(mean: float, unmoved: float) -> tuple[float, float]:
    """The sides and the size."""
    falls = 0.5 * (1 + erf(-mean / sqrt(2)))
    return (1 - unmoved) * falls + unmoved / 2, (1 - unmoved) * mean


def coverage(images: int, each: int, case: str, interval: Interval, runs: int, samples: int) -> list[float]:
    """The share of runs whose intervals hold the sides, the size and the slope."""
    random, held = np.random.default_rng(images * 10 + each), np.zeros(3)
    mean, unmoved = CASES[case]
    sides, size = truth(mean, unmoved)
    for run in range(runs):
        resampling = Resampling(samples=samples, seed=run, interval=interval)
        base, edited, image = simulate(random, images, each, mean, unmoved)
        (effect,) = find_effects(Scores.of(base, edited, image), [("edit", "harm")], resampling)
        noise = random.normal(size=(len(base), len(DOSES)))
        dosed = Scores.of(base, base[:, None] + mean * np.array(DOSES) + noise, image)
        names = [(f"edit({dose})", "harm") for dose in DOSES]
        columns = {dose: column for column, dose in enumerate(DOSES)}
        effects = find_effects(dosed, names, Resampling(samples=0))  # type: ignore[arg-type]
        doses = find_doses(dosed, "edit", columns, effects, resampling)
        pairs = ((effect.sides, sides), (effect.size, size), (doses.slope, mean))
        held += [one.low <= value <= one.high for one, value in pairs]
    return [float(share) for share in held / runs]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--samples", type=int, default=400)
    arguments = parser.parse_args()
    print("| images | captions each | change | interval | sides | size | slope |\n|---|---|---|---|---|---|---|")
    for images, each in ((20, 1), (50, 1), (200, 1), (100, 2)):
        for case in CASES:
            kinds: tuple[Interval, ...] = ("percentile", "t") if images < 50 else ("percentile",)
            for interval in kinds:
                shares = coverage(images, each, case, interval, arguments.runs, arguments.samples)
                cells = " | ".join(f"{100 * share:.1f}" for share in shares)
                print(f"| {images} | {each} | {case} | {interval} | {cells} |", flush=True)


if __name__ == "__main__":
    main()
