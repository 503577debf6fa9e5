"""Differences of LIC between captioners, classifiers or attributes, paired by seed."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from itertools import combinations
from typing import NamedTuple

from captious.bias.lic import Lic
from captious.errors import InputError
from captious.stats.resampling import holm


class LicDifference(NamedTuple):
    """One LIC less another, with the interval and the tests of a LIC, and its p-value among all that were compared."""

    first: str
    second: str
    lic: Lic
    """The difference: its ``lic``, ``interval`` and ``p_value``."""
    p_holm: float


def subtract(first: Lic, second: Lic) -> Lic:
    """Return the difference of two LICs as an estimate of its own, paired by seed.

    Captioners of the same images are trained and tested on the same splits of a seed, so what a split adds to both
    cancels. Between two attributes, whose images differ, nothing cancels, and the test is that of unpaired seeds.

    >>> import numpy as np
    >>> gaps = [Lic(np.array(m), np.array([[40.0], [42.0]]), ratio=1 / 9) for m in ([48.0, 49.0], [44.0, 47.0])]
    >>> subtract(*gaps).by_seed.tolist(), subtract(*gaps).lic
    ([4.0, 2.0], 3.0)
    """
    if len(first.model) != len(second.model):
        raise InputError(f"LIC of {len(first.model)} and of {len(second.model)} seeds, expected the same seeds")
    ratio = max(first.ratio, second.ratio)
    # With one seed there is no error: that over tested images is of one LIC only.
    return replace(first, model=first.by_seed, human=second.by_seed[:, None], ratio=ratio, item_error=math.nan)


def compare_lics(lics: Mapping[str, Lic], others: Mapping[str, Lic] | None = None) -> list[LicDifference]:
    """Compare every two LICs, or with ``others`` each with the one of the same name there; Holm over all of them.

    All must be of the same seeds, in the same order. With one seed there is no test, and p is NaN.
    """
    if others is None:
        pairs = [(first, second, subtract(lics[first], lics[second])) for first, second in combinations(lics, 2)]
    else:
        pairs = [(name, name, subtract(lic, others[name])) for name, lic in lics.items() if name in others]
    adjusted = holm([difference.p_value for *_, difference in pairs])
    return [LicDifference(*pair, p) for pair, p in zip(pairs, adjusted, strict=True)]


def adjust_increases(lics: Mapping[str, Lic]) -> dict[str, float]:
    """Return the one-sided p-value that each LIC is above 0, adjusted by Holm over all of them."""
    return dict(zip(lics, holm([lic.p_above for lic in lics.values()]), strict=True))
