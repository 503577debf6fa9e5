"""How often the audit finds what a judge was made to prefer, and how often it accuses an honest one.

    python -m lab.planted_judges
    python -m lab.planted_judges --simulations 50 --images 60

A caption has a quality, by its system, its image and chance, and a number of words that has nothing to do with it.
Three people rate it on five points. A judge sees the quality with noise. One judge adds a bit for every word, one adds
a bit for its own system, one prefers the caption shown first, and an honest one adds nothing.
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from captious.stats.judging import position_bias
from captious.study import audit

SYSTEMS = ("a", "b", "c", "own")
QUALITY = (-0.2, 0.0, 0.2, 0.1)


@dataclass(frozen=True)
class Planted:
    """Preferences of judges on the scale of the captions' quality, whose standard deviation is 0.96."""

    word: float = 0.05
    own: float = 0.4
    first: float = 0.5
    noise: float = 0.7

    def rows(self, images: int, generator: np.random.Generator) -> list[dict[str, object]]:
        """Rated captions with the values of the honest judge, of the one that loves words, and of the loyal one."""
        rows: list[dict[str, object]] = []
        for image in range(images):
            scene = generator.normal(0, 0.5)
            for name, quality in zip(SYSTEMS, QUALITY, strict=True):
                true = quality + scene + generator.normal(0, 0.8)
                words = max(3, round(generator.normal(14, 5)))
                ratings = np.clip(np.round(3 + true + generator.normal(0, 0.6, 3)), 1, 5).tolist()
                honest, long, loyal = true + generator.normal(0, self.noise, 3)
                rows.append(
                    {
                        "id": f"{image}/{name}",
                        "image": str(image),
                        "system": name,
                        "rating": ratings,
                        "caption": " ".join(["word"] * words),
                        "honest": honest,
                        "long": long + self.word * words,
                        "loyal": loyal + self.own * (name == "own"),
                    }
                )
        return rows

    def verdicts(self, pairs: int, first: float, generator: np.random.Generator) -> tuple[np.ndarray, np.ndarray]:
        """Shares of a caption when it is shown first and when it is shown second, by a judge that adds ``first``."""
        gap = generator.normal(0, 1, pairs)
        shown_first = gap + first + generator.normal(0, self.noise, pairs)
        shown_second = gap - first + generator.normal(0, self.noise, pairs)
        return (shown_first > 0).astype(float), (shown_second > 0).astype(float)


def simulate(simulations: int, images: int, seed: int = 0, planted: Planted = Planted()) -> dict[str, float]:
    """The share of simulations in which each preference was found, of the planted judges and of the honest one."""
    found: dict[str, list[bool]] = {}
    for number in range(simulations):
        generator = np.random.default_rng([seed, number])
        rows = planted.rows(images, generator)
        ratings = [{key: row[key] for key in ("id", "image", "system", "rating", "caption")} for row in rows]
        values = [{key: row[key] for key in ("id", "image", "system", "honest", "long", "loyal")} for row in rows]
        result = audit(ratings, values, judges=["honest", "long", "loyal"], own={"loyal": "own", "honest": "own"})
        judges = {one.key: one for one in result.judges}
        for key in ("honest", "long"):
            length = judges[key].length
            found.setdefault(f"{key}: length", []).append(length is not None and length.p < 0.05 and length.value < 0)
        for one in result.preferences:
            if one.other == "long":  # the second judge: it has no system of its own
                certain = one.p_holm < 0.05 and one.difference.value > 0
                found.setdefault(f"{one.judge}: own system", []).append(certain)
        for key, first in (("honest", 0.0), ("first seat", planted.first)):
            bias = position_bias(*planted.verdicts(images, first, generator))
            found.setdefault(f"{key}: position", []).append(bias.p < 0.05 and bias.bias > 0)
    return {name: float(np.mean(hits)) for name, hits in found.items()}


def main() -> None:
    """Print the shares."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--simulations", type=int, default=200)
    parser.add_argument("--images", type=int, default=100)
    parser.add_argument("--own", type=float, default=Planted.own, help="What the loyal judge adds for its own system.")
    options = parser.parse_args()
    for name, share in simulate(options.simulations, options.images, planted=Planted(own=options.own)).items():
        print(f"{name:24} {100 * share:5.1f} %")


if __name__ == "__main__":
    main()
