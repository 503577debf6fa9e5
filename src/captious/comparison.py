"""``captious.compare``: paired tests between systems that captioned the same items."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from itertools import combinations
from typing import Literal, NamedTuple

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.evaluation import Report, Specs, evaluate
from captious.metrics.contract import Measurement, Sums
from captious.metrics.registry import DEFAULT
from captious.options import LEVEL, PERMUTATIONS, SAMPLES, SEED, Runtime
from captious.stats.resampling import (
    Convention,
    bootstrap_weights,
    holm,
    paired_bootstrap,
    paired_randomization,
    swap_masks,
)

Test = Literal["randomization", "bootstrap"]


@dataclass(frozen=True)
class Difference:
    """One metric between two systems: the difference, its interval, and whether it may be chance."""

    metric: str
    baseline: str
    system: str
    difference: float
    """Value of the system minus value of the baseline."""
    low: float
    high: float
    p: float
    items: int
    """Those that both systems have a value for."""
    p_holm: float
    """Adjusted over all systems compared on this metric."""
    better: str | None
    """The system whose adjusted p lies below 1 − level, if one does: at a level of 95 %, below 0.05."""


class Outcome(NamedTuple):
    """What one test found."""

    difference: float
    low: float
    high: float
    p: float
    items: int


@dataclass(frozen=True, eq=False)
class Comparison:
    """Reports of several systems on the same items, and the paired tests between them."""

    reports: Mapping[str, Report]
    differences: tuple[Difference, ...]
    test: str
    """The test with its number of shuffles or resamples, and the seed."""
    warnings: tuple[str, ...] = ()
    level: float = LEVEL
    """Confidence level of the intervals and of ``better``."""


def compare(
    systems: Mapping[str, CaptionSet],
    metrics: Specs = DEFAULT,
    *,
    test: Test = "randomization",
    every_pair: bool = False,
    samples: int = SAMPLES,
    shuffles: int = PERMUTATIONS,
    seed: int = SEED,
    level: float = LEVEL,
    convention: Convention = "two-sided",
    missing: Literal["error", "skip"] = "error",
    progress: Callable[[str], None] | None = None,
    runtime: Runtime | None = None,
) -> Comparison:
    """Test every system against the first, or every pair, on every metric, with Holm's correction per metric."""
    if len(systems) < 2:
        raise InputError(f"{len(systems)} system given, expected at least two to compare")
    systems = align(systems, missing)
    reports = {
        name: evaluate(
            captions,
            metrics,
            samples=samples,
            seed=seed,
            level=level,
            progress=partial(_prefixed, progress, name) if progress else None,
            runtime=runtime,
        )
        for name, captions in systems.items()
    }
    names = list(systems)
    contests = list(combinations(names, 2)) if every_pair else [(names[0], other) for other in names[1:]]
    tested = [key for key, measurement in reports[names[0]].measurements.items() if measurement.statistics.additive]
    differences: list[Difference] = []
    by_metric: dict[str, list[tuple[str, str, Outcome]]] = {key: [] for key in tested}
    for baseline, system in contests if tested else []:
        if progress:
            progress(f"{baseline} and {system}")
        pairs = [_shared(reports[baseline].measurements[key], reports[system].measurements[key]) for key in tested]
        items = len(systems[baseline])
        bootstrapped = paired_bootstrap(pairs, bootstrap_weights(items, samples, seed), level, convention)
        p_values = [p for p, _, _ in bootstrapped]
        if test == "randomization":
            p_values = paired_randomization(pairs, swap_masks(items, shuffles, seed))
        for key, (ours, theirs), p, (_, low, high) in zip(tested, pairs, p_values, bootstrapped, strict=True):
            shared = items - len(ours.reasons)
            by_metric[key].append((baseline, system, Outcome(theirs.corpus - ours.corpus, low, high, p, shared)))
    for key, rows in by_metric.items():
        metric = reports[names[0]].measurements[key].metric
        for (baseline, system, found), adjusted in zip(rows, holm([row[2].p for row in rows]), strict=True):
            winner = system if (found.difference > 0) == metric.higher_is_better else baseline
            better = winner if adjusted < 1 - level else None
            differences.append(Difference(key, baseline, system, *found, p_holm=adjusted, better=better))
    number = shuffles if test == "randomization" else samples
    described = f"paired {test}({number},seed={seed})" + (",sacrebleu" if convention == "sacrebleu" else "")
    return Comparison(reports, tuple(differences), described, _remarks(systems, differences), level)


def _shared(baseline: Measurement, system: Measurement) -> tuple[Measurement, Measurement]:
    """Both on the items that both have a value for, so that the test stays paired."""
    reasons = {**baseline.reasons, **system.reasons}
    if not reasons:
        return baseline, system
    without = np.array([key in reasons for key in baseline.ids])[:, None]
    ours, theirs = (
        replace(side, statistics=Sums(np.where(without, np.nan, side.statistics.rows)), reasons=reasons)
        for side in (baseline, system)
    )
    return ours, theirs


def _remarks(systems: Mapping[str, CaptionSet], differences: list[Difference]) -> tuple[str, ...]:
    """What a reader of the tests should know."""
    remarks = []
    if len({captions.fingerprint for captions in systems.values()}) > 1:
        remarks.append("the systems are scored against different references: their values do not compare")
    items = len(next(iter(systems.values())))
    for row in differences:
        if row.items < items:
            remarks.append(
                f"{row.metric}: {row.baseline} and {row.system} are tested on the {row.items} items both have"
            )
    return tuple(dict.fromkeys(remarks))


def _prefixed(progress: Callable[[str], None], name: str, step: str) -> None:
    progress(f"{name}: {step}")


def align(systems: Mapping[str, CaptionSet], missing: Literal["error", "skip"] = "error") -> dict[str, CaptionSet]:
    """The systems on the items all of them have, in the order of the first."""
    shared = set.intersection(*(set(captions.ids) for captions in systems.values()))
    if missing == "error":
        _same_items(systems)
    order = [key for key in next(iter(systems.values())).ids if key in shared]
    if not order:
        raise InputError(f"{', '.join(systems)} have no item id in common")
    aligned = {}
    for name, captions in systems.items():
        left_out = len(captions) - len(order)
        aligned[name] = replace(captions.take(captions.positions(order)), skipped=captions.skipped + left_out)
    return aligned


def _same_items(systems: Mapping[str, CaptionSet]) -> None:
    (first, captions), *others = systems.items()
    for name, other in others:
        lacking = [key for key in captions.ids if key not in other] + [key for key in other.ids if key not in captions]
        if lacking:
            raise InputError(
                f"{first} and {name} differ in {len(lacking)} ids ({', '.join(lacking[:5])}), expected the same items; "
                "use --missing skip to compare on those they share"
            )
