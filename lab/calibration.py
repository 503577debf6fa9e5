"""The error of calibrated metrics on published ratings: a ridge of several metrics against the best single one.

    python -m lab.calibration ../shared/data

Folds are dealt anew for each seed. Everything is out of fold, the single metric too.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

from captious.study import RECIPES, MetricScores, Ratings, calibrate, open_recipe
from captious.study.scores import measure, read_scores
from lab.evidence.datasets import _fleur

TEXT = "bleu(n=4),rouge,cider,meteor,spice"


def load(name: str, data: Path) -> tuple[Ratings, list[MetricScores]]:
    """Ratings and metrics of a data set."""
    folders = {"capeval1k": "umic", "tifa160": "tifa160", "flickr8k-expert": "flickr8k", "msvd-eval": "msvd_eval"}
    ratings = open_recipe(name, data / folders[name])
    assert isinstance(ratings, Ratings)
    if name == "tifa160":
        return ratings, read_scores(data / "tifa160" / "items.jsonl.gz", ratings, RECIPES[name])
    if name == "flickr8k-expert":
        stored = _fleur(data, ratings, RECIPES[name])[:1]
        return ratings, [*measure(ratings, "bleu(n=4),rouge,cider,meteor"), *stored]
    return ratings, measure(ratings, TEXT)


def main() -> None:
    """Print Pearson's r out of fold, the mean over seeds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("data", type=Path)
    parser.add_argument("--seeds", type=int, default=10)
    options = parser.parse_args()
    for name in ("capeval1k", "tifa160", "flickr8k-expert", "msvd-eval"):
        ratings, scores = load(name, options.data)
        reports = [calibrate(ratings, scores, seed=seed) for seed in (12345, *range(1, options.seeds))]
        ridge = np.array([report.calibration.errors.pearson for report in reports])
        single = np.array([max(one.errors.pearson for one in report.candidates[1:]) for report in reports])
        print(
            f"{name:16} ridge {ridge.mean():.4f} (seed 12345: {ridge[0]:.4f}), best single {single.mean():.4f} "
            f"({single[0]:.4f}), difference {np.mean(ridge - single):+.4f}, lowest {np.min(ridge - single):+.4f}"
        )


if __name__ == "__main__":
    main()
