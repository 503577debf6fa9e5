"""Flags: what an owner should know of a rater, each with its reason in words. No flag rejects anybody."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Literal, NamedTuple

import numpy as np

from captious._typing import Floats
from captious.studio.plan import Checks

FlagName = Literal["checks", "speed", "same answer", "repeats", "agreement"]
LEAST = 5
"""Pages that a rater must have answered before speed, sameness and agreement say anything."""
SAME, COMMON = 0.95, 0.6
"""Share of a rater's pages with one answer that is flagged, unless so many pages of the others have it too."""
FAR = 0.5
"""A rater is far below where even the upper end of the agreement is under this share of what the best quarter reach."""
NAN = float("nan")


class Flag(NamedTuple):
    """One thing that is odd."""

    name: FlagName
    reason: str


@dataclass(frozen=True)
class Part:
    """One rater's part in Krippendorff's alpha: 1 for full agreement with the others, about 0 for random answers."""

    alpha: float = NAN
    error: float = NAN
    """Standard error over tasks."""
    tasks: int = 0
    """Tasks that others answered too."""

    @property
    def upper(self) -> float:
        """Upper end of the 95 % interval."""
        return self.alpha + 1.96 * self.error

    @classmethod
    def of(cls, distances: Floats, tasks: Sequence[str]) -> Part:
        """From the disagreement of each rating with the others (``stats.agreement``), and the task of each."""
        paired = np.flatnonzero(~np.isnan(distances))
        names = {tasks[index] for index in paired}
        if not len(paired):
            return cls()
        mean = float(distances[paired].mean())
        residuals: dict[str, float] = dict.fromkeys(names, 0.0)
        for index in paired.tolist():
            residuals[tasks[index]] += float(distances[index]) - mean
        if len(names) < 2:
            return cls(1 - mean, NAN, len(names))
        correction = math.sqrt(len(names) / (len(names) - 1))
        error = math.sqrt(sum(one * one for one in residuals.values())) / len(paired) * correction
        return cls(1 - mean, error, len(names))


def pattern(form: Mapping[str, str]) -> str:
    """What was clicked on a page, whatever the captions were: one value where all are equal, else all of them.

    >>> pattern({"rating:0:overall": "3", "rating:1:overall": "3"}), pattern({"rank:0": "1", "rank:1": "2"})
    ('3', '1 2')
    """
    values = list(form.values())
    return values[0] if len({*values}) == 1 else " ".join(values)


def reference_agreement(parts: Sequence[Part]) -> float:
    """What the best quarter of raters reach; NaN without three raters to compare."""
    alphas = [part.alpha for part in parts if part.tasks >= LEAST and not math.isnan(part.alpha)]
    return float(np.percentile(alphas, 75)) if len(alphas) >= 3 else NAN


def flags_of(
    checks: Checks,
    failed: int,
    golds: int,
    seconds: Sequence[float],
    patterns: Sequence[str],
    others: Counter[str],
    repeats: Part,
    part: Part,
    reference: float,
) -> tuple[Flag, ...]:
    """All flags of one rater.

    Parameters
    ----------
    failed, golds
        Gold tasks that the rater failed, and answered.
    seconds, patterns
        Of every page.
    others
        How often the pages of the other raters have each pattern.
    repeats
        Agreement of the rater with the rater's own first answers.
    part, reference
        Agreement with the others, and that of the best quarter of raters.
    """
    flags = []
    if failed and failed >= checks.flag_failed:
        flags.append(Flag("checks", f"failed {failed} of {golds} checks"))
    if len(seconds) >= LEAST and (middle := median(seconds)) < checks.flag_seconds:
        flags.append(Flag("speed", f"median {middle:.1f} s a task, below {checks.flag_seconds:g} s"))
    if len(patterns) >= LEAST:
        answer, number = Counter(patterns).most_common(1)[0]
        usual = others[answer] / max(others.total(), 1)
        if number >= SAME * len(patterns) and usual < COMMON:
            flags.append(Flag("same answer", f"the same answer on {number} of {len(patterns)} pages"))
    if repeats.tasks >= 2 and repeats.alpha <= 0:
        flags.append(Flag("repeats", f"answered {repeats.tasks} repeated tasks no more alike than by chance"))
    if part.tasks >= LEAST and reference > 0 and part.upper < FAR * reference:
        flags.append(
            Flag("agreement", f"agreement with the others {part.alpha:.2f}, the best quarter reach {reference:.2f}")
        )
    return tuple(flags)
