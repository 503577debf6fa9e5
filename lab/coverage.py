"""How often the interval of a system's mean holds the true one: simulated studies with raters of different severity.

    python -m lab.coverage
    python -m lab.coverage --studies 50 --images 40 --raters 6

A caption has the quality of its system and of its image; a rater is severe or mild, likes one system more than others
do, and answers on five points with noise. The true mean is that over very many images and raters. A study counts for a
system if its interval holds the system's true mean; for a test, if two equal systems are told apart (an error).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass

import numpy as np

from captious.options import Resampling
from captious.study import Ratings, systems

# The systems; the last two are equal.
QUALITY = {"good": 3.6, "fair": 3.2, "same": 3.2}


@dataclass(frozen=True)
class People:
    """How images, systems and raters move a rating: standard deviations on the scale of five points."""

    severity: float = 0.5
    image: float = 0.7
    caption: float = 0.4
    taste: float = 0.2
    noise: float = 0.8

    def ratings(self, images: int, raters: int, overlap: int, generator: np.random.Generator) -> Ratings:
        """A study: every image is rated by so many of the raters, all of whom have about as much to do."""
        number = len(QUALITY)
        severity, taste = generator.normal(0, self.severity, raters), generator.normal(0, self.taste, (raters, number))
        image, caption = generator.normal(0, self.image, images), generator.normal(0, self.caption, (images, number))
        values = np.full((images, number, raters), np.nan)
        load = np.zeros(raters)
        for index in range(images):
            chosen = np.lexsort((generator.random(raters), load))[:overlap]
            load[chosen] += 1
            seen = np.array([*QUALITY.values()])[:, None] + image[index] + caption[index][:, None]
            seen = seen + severity[chosen] + taste[chosen].T + generator.normal(0, self.noise, (number, overlap))
            values[index][:, chosen] = np.clip(np.round(seen), 1, 5)
        ids = tuple(f"{index}/{name}" for index in range(images) for name in QUALITY)
        groups = tuple(str(index) for index in range(images) for _ in QUALITY)
        names = tuple(f"r{index + 1}" for index in range(raters))
        return Ratings(ids, values.reshape(-1, raters), groups, tuple(QUALITY) * images, scale=(1, 5), raters=names)

    def truth(self) -> dict[str, float]:
        """The mean of each system over very many images, each with raters of its own."""
        generator = np.random.default_rng(0)
        sds = (self.severity, self.image, self.caption, self.taste, self.noise)
        moved = sum(generator.normal(0, sd, 2_000_000) for sd in sds)
        return {name: float(np.clip(np.round(quality + moved), 1, 5).mean()) for name, quality in QUALITY.items()}


def coverage(people: People, images: int, raters: int, overlap: int, studies: int, samples: int) -> dict[str, float]:
    """Shares of studies: interval of a mean holds the true one, that of a difference, and a false alarm."""
    truth = people.truth()
    means, alone, differences, alarms = [], [], [], []
    for study in range(studies):
        ratings = people.ratings(images, raters, overlap, np.random.default_rng(study))
        for over, held in (("images+raters", means), ("images", alone)):
            ranking = systems(ratings, over=over, resampling=Resampling(samples, seed=study), permutations=200)
            (standing,) = ranking.standings
            held += [one.mean.low <= truth[one.system] <= one.mean.high for one in standing.systems]
            if over == "images":
                continue
            for contest in standing.contests:
                gap, true = contest.difference, truth[contest.first] - truth[contest.second]
                differences.append(gap.low <= true <= gap.high)
                if {contest.first, contest.second} == {"fair", "same"}:
                    alarms.append(contest.p < 0.05)
    return {
        "mean": float(np.mean(means)),
        "difference": float(np.mean(differences)),
        "equal systems told apart": float(np.mean(alarms)),
        "mean, images alone drawn": float(np.mean(alone)),
    }


def main() -> None:
    """Print the coverage of several designs."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=200)
    parser.add_argument("--samples", type=int, default=500)
    parser.add_argument("--images", type=int)
    parser.add_argument("--raters", type=int, default=12)
    parser.add_argument("--overlap", type=int, default=3)
    options = parser.parse_args()
    designs = [(60, 12, 3), (100, 20, 3), (200, 8, 5), (50, 6, 3), (40, 4, 4), (100, 30, 1)]
    if options.images:
        designs = [(options.images, options.raters, options.overlap)]
    print(f"{options.studies} studies of each design, 3 systems, nominal level 95 %")
    print("images  raters  overlap | mean    difference  equal told apart (p < .05) | mean, images alone drawn")
    for images, raters, overlap in designs:
        shares = coverage(People(), images, raters, overlap, options.studies, options.samples)
        mean, difference, alarm, alone = (f"{100 * share:.1f} %" for share in shares.values())
        print(
            f"{images:6}  {raters:6}  {overlap:7} | {mean:7} {difference:11} {alarm:26} | {alone}",
            flush=True,
        )


if __name__ == "__main__":
    main()
