"""Kendall's tau under cluster bootstrap and PERM-BOTH against the same loops around ``scipy.stats.kendalltau``.

    python lab/benchmarks/study.py                 # 16,992 rows, 1,000 draws, 8 metrics; scipy on a part, scaled up
    python lab/benchmarks/study.py --whole         # scipy on everything: several minutes

Ratings have the shape of Flickr8k-Expert: 5,664 captions of 1,000 images, three ratings on four points. Both sides see
the same draws, and their answers are compared one by one.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from itertools import combinations
from typing import Any

import numpy as np
from measure import table
from scipy.stats import kendalltau

from captious._core.types import Floats
from captious.options import Resampling
from captious.stats.bootstrap import draw_bootstrap
from captious.stats.resampling import bootstrap_weights, swap_masks
from captious.study._design import RatingRows
from captious.study.metric_agreement._contests import permute_differences, standardize

IMAGES, CAPTIONS, RATERS, METRICS, DRAWS, SEED = 1000, 5664, 3, 8, 1000, 12345


def made() -> tuple[RatingRows, list[Floats]]:
    """Ratings and metrics of known quality, with ties in some metrics as in BLEU or ROUGE."""
    rng = np.random.default_rng(0)
    cluster = np.sort(np.concatenate([np.arange(IMAGES), rng.integers(0, IMAGES, CAPTIONS - IMAGES)]))
    quality = rng.gamma(1.2, 1.0, CAPTIONS) + rng.normal(0, 0.3, IMAGES)[cluster]
    ratings = np.clip(np.round(quality[:, None] + rng.normal(0, 0.4, (CAPTIONS, RATERS))), 1, 4)
    metrics = [quality + rng.normal(0, 1 + 0.3 * number, CAPTIONS) for number in range(METRICS)]
    metrics = [np.round(values, 2) if number % 2 else values for number, values in enumerate(metrics)]
    item = np.repeat(np.arange(CAPTIONS), RATERS)
    return RatingRows(ratings.ravel(), item, cluster, IMAGES, ratings.mean(axis=1)), metrics


def scipy_bootstrap(rows: RatingRows, metrics: list[Floats], draws: int, variant: str) -> Floats:
    """What one writes first: draw images, gather their rows, call kendalltau."""
    members = [np.flatnonzero(rows.cluster[rows.item] == image) for image in range(rows.clusters)]
    weights = np.concatenate(list(bootstrap_weights(rows.clusters, DRAWS, SEED)))[:draws].astype(int)
    found = np.empty((len(metrics), draws))
    for draw, weight in enumerate(weights):
        chosen = np.concatenate([np.repeat(members[image], weight[image]) for image in np.flatnonzero(weight)])
        for number, values in enumerate(metrics):
            found[number, draw] = kendalltau(values[rows.item[chosen]], rows.human[chosen], variant=variant).statistic
    return found


def scipy_permutation(rows: RatingRows, metrics: list[Floats], draws: int, variant: str) -> Floats:
    """Swap the standardized values of whole images between two metrics, call kendalltau for both."""
    masks = np.concatenate(list(swap_masks(rows.clusters, DRAWS, SEED)))[:draws] > 0
    scaled = [standardize(values) for values in metrics]
    found = []
    for one, other in combinations(scaled, 2):
        gaps = np.empty(draws)
        for draw, mask in enumerate(masks):
            swap = mask[rows.cluster]
            a, b = np.where(swap, other, one)[rows.item], np.where(swap, one, other)[rows.item]
            gaps[draw] = kendalltau(a, rows.human, variant=variant).statistic
            gaps[draw] -= kendalltau(b, rows.human, variant=variant).statistic
        found.append(gaps)
    return np.array(found)


def timed(job: Callable[..., Any], *given: Any) -> tuple[Any, float]:
    start = time.perf_counter()
    result = job(*given)
    return result, time.perf_counter() - start


def best(job: Callable[[], Any], times: int = 3) -> tuple[Any, float]:
    runs = [timed(job) for _ in range(times)]
    return min(runs, key=lambda run: run[1])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--whole", action="store_true", help="scipy on all draws, not a part")
    whole = parser.parse_args().whole
    rows, metrics = made()
    pairs = list(combinations(metrics, 2))
    lines = [["task", "variant", "scipy loop (s)", "captious (s)", "ratio", "largest difference"]]
    for variant in "bc":
        name = f"tau_{variant}"

        def bootstrapped(name: str = name) -> Floats:
            statistics = [rows.family("kendall", values) for values in metrics]
            return np.array([part[name] for part in draw_bootstrap(statistics, IMAGES, Resampling(DRAWS, SEED))])

        def permutations(name: str = name) -> Floats:
            return np.array([draws for _, draws in permute_differences(rows, pairs, name, DRAWS, SEED)])

        for task, ours, theirs, part in (
            ("bootstrap, 1,000 draws x 8 metrics", bootstrapped, scipy_bootstrap, 100),
            ("PERM-BOTH, 1,000 permutations x 28 pairs", permutations, scipy_permutation, 30),
        ):
            draws = DRAWS if whole else part
            mine, seconds = best(ours)
            other, peer = timed(theirs, rows, metrics, draws, variant)
            peer *= DRAWS / draws
            gap = np.abs(mine[:, :draws] - other).max()
            lines.append([task, variant, f"{peer:.1f}", f"{seconds:.2f}", f"{peer / seconds:.0f}", f"{gap:.1e}"])
            print(table([lines[0], lines[-1]]).splitlines()[-1], flush=True)
    print(f"\n{rows.human.size:,} rows, {CAPTIONS:,} captions, {IMAGES:,} images; captious gives b and c at once\n")
    print(table(lines))


if __name__ == "__main__":
    main()
