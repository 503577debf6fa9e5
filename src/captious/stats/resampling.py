"""Intervals and paired tests from stored statistics: no caption is read or tokenized again.

Items are resampled, never captions or tokens. All metrics of a run share the same draws, so one run's numbers and their
differences belong together. Draws belong to item ids, not to positions: the order of a file changes no interval.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np

from captious._typing import Floats
from captious.errors import InputError
from captious.metrics.contract import Measurement, Sums
from captious.options import LEVEL, SAMPLES, SEED

BLOCK = 1 << 22
"""Draws held in memory at a time, counted in items."""


@dataclass(frozen=True)
class Interval:
    """A percentile interval of a corpus value, and the standard error of the value."""

    low: float
    high: float
    error: float
    level: float = LEVEL
    samples: int = SAMPLES
    seed: int = SEED

    def __str__(self) -> str:
        return f"bootstrap({self.samples},seed={self.seed},{100 * self.level:g}%)"


def bootstrap_weights(items: int, samples: int = SAMPLES, seed: int = SEED) -> Iterator[Floats]:
    """How often each item is drawn in each resample, block of resamples by block."""
    generator = np.random.default_rng(seed)
    rows = max(1, BLOCK // max(items, 1))
    for first in range(0, samples, rows):
        size = min(rows, samples - first)
        draws = generator.integers(0, items, size=(size, items), dtype=np.int32 if items * size < 2**31 else np.int64)
        draws += np.arange(size, dtype=draws.dtype)[:, None] * items
        yield np.bincount(draws.ravel(), minlength=size * items).reshape(size, items).astype(np.float64)


def swap_masks(items: int, samples: int = SAMPLES, seed: int = SEED) -> Iterator[Floats]:
    """Which items change sides in each shuffle of approximate randomization, each with probability one half."""
    generator = np.random.default_rng(seed)
    rows = max(1, BLOCK // max(items, 1))
    for first in range(0, samples, rows):
        size = min(rows, samples - first)
        words = generator.integers(0, 2**64, size=(size, (items + 63) // 64), dtype=np.uint64)
        yield np.unpackbits(words.view(np.uint8), axis=1, count=items).astype(np.float64)


def id_order(ids: Sequence[str]) -> list[int]:
    """Indices that sort ids, shorter ones first: the same items get the same draws however they are ordered.

    >>> id_order(["10", "9", "1"])
    [2, 1, 0]
    """
    return sorted(range(len(ids)), key=lambda index: (len(ids[index]), ids[index]))


def bootstrap(
    measurements: Mapping[str, Measurement], samples: int = SAMPLES, seed: int = SEED, level: float = LEVEL
) -> dict[str, Interval]:
    """A percentile interval for the corpus value of each measurement; those that cannot be resampled are left out.

    All measurements must be of the same items. Values are those of the metric on resampled items, from their summed
    statistics.
    """
    if not 0 < level < 1:
        raise InputError(f"confidence level {level}, expected a number between 0 and 1")
    if seed < 0:
        raise InputError(f"seed {seed}, expected a whole number of at least 0")
    kept = {key: measurement for key, measurement in measurements.items() if measurement.statistics.additive}
    if not kept or samples < 1:
        return {}
    draws = resampled(list(kept.values()), bootstrap_weights(len(next(iter(kept.values())).ids), samples, seed))
    tail = 100 * (1 - level) / 2
    intervals = {}
    for key, values in zip(kept, draws, strict=True):
        known = values[~np.isnan(values)]
        low, high = np.percentile(known, [tail, 100 - tail]) if len(known) else (np.nan, np.nan)
        error = float(known.std(ddof=1)) if len(known) > 1 else float("nan")
        intervals[key] = Interval(float(low), float(high), error, level, samples, seed)
    return intervals


def resampled(measurements: Sequence[Measurement], weights: Iterator[Floats]) -> list[Floats]:
    """The corpus value of each measurement under each row of weights, one matrix product per block.

    A column of the weights belongs to one item; items stand in the order of their ids (see ``id_order``).
    """
    rows = [_additive(measurement).known for measurement in measurements]
    edges = np.cumsum([0, *(part.shape[1] for part in rows)])
    together = np.hstack(rows)[id_order(measurements[0].ids)]
    blocks: list[list[Floats]] = [[] for _ in measurements]
    for block in weights:
        sums = block @ together
        for index, measurement in enumerate(measurements):
            blocks[index].append(measurement.metric.score(sums[:, edges[index] : edges[index + 1]]))
    return [np.concatenate(parts) for parts in blocks]


Convention = Literal["two-sided", "sacrebleu"]


def paired_bootstrap(
    pairs: Sequence[tuple[Measurement, Measurement]],
    weights: Iterator[Floats],
    level: float = LEVEL,
    convention: Convention = "two-sided",
) -> list[tuple[float, float, float]]:
    """p-value, and interval of the difference, of each (baseline, system) pair; all pairs share the resamples.

    With d the differences of the resamples and D the observed one, p = (1 + #{|d − mean d| ≥ |D|}) / (1 + resamples).
    ``sacrebleu`` counts |d| − mean |d| > |D| instead, as the Moses script it follows: for a clear difference that is
    one side only, so at p < 0.05 it errs about one time in ten.
    """
    draws = resampled([measurement for pair in pairs for measurement in pair], weights)
    results = []
    for (baseline, system), base, other in zip(pairs, draws[::2], draws[1::2], strict=True):
        observed, differences = abs(system.corpus - baseline.corpus), other - base
        differences = differences[~np.isnan(differences)]  # a resample may hold no item with a value
        if np.isnan(observed) or not len(differences):
            results.append((float("nan"),) * 3)
            continue
        if convention == "two-sided":
            extreme = np.abs(differences - differences.mean()) >= observed
        else:
            extreme = np.abs(differences) - np.abs(differences).mean() > observed
        low, high = np.percentile(differences, [50 * (1 - level), 50 * (1 + level)])
        results.append((float((1 + extreme.sum()) / (1 + len(differences))), float(low), float(high)))
    return results


def paired_randomization(pairs: Sequence[tuple[Measurement, Measurement]], masks: Iterator[Floats]) -> list[float]:
    """p-value of approximate randomization of each (baseline, system) pair; all pairs share the shuffles.

    In a shuffle every item swaps sides between the two systems with probability one half;
    p = (1 + #{shuffles with a difference at least as large as the observed one}) / (1 + shuffles). Counting equal
    differences makes p = 1 for two equal systems.
    """
    base = [_additive(baseline).known for baseline, _ in pairs]
    gap = np.hstack([_additive(system).known - rows for (_, system), rows in zip(pairs, base, strict=True)])
    gap = gap[id_order(pairs[0][0].ids)]
    edges = np.cumsum([0, *(rows.shape[1] for rows in base)])
    larger, shuffles = np.zeros(len(pairs), dtype=np.int64), 0
    for block in masks:
        moved = block @ gap
        shuffles += len(block)
        for index, (baseline, system) in enumerate(pairs):
            part = moved[:, edges[index] : edges[index + 1]]
            shuffled = system.metric.score(system.statistics.total() - part) - baseline.metric.score(
                baseline.statistics.total() + part
            )
            # Shuffled sums are rounded differently from the observed ones; equal must still count as equal.
            observed = abs(system.corpus - baseline.corpus) * (1 - 1e-12)
            larger[index] += int(np.sum(np.abs(shuffled) >= observed))
    p_values = (1 + larger) / (1 + shuffles)
    p_values[np.isnan([system.corpus - baseline.corpus for baseline, system in pairs])] = np.nan
    result: list[float] = p_values.tolist()
    return result


def holm(p_values: Sequence[float]) -> list[float]:
    """Holm's step-down adjustment over a family of tests; one without a p-value is no member of it.

    >>> [round(p, 3) for p in holm([0.01, 0.04, 0.03])]  # 3 · .01; 2 · .03; then 1 · .04, raised to .06
    [0.03, 0.06, 0.06]
    """
    p = np.asarray(p_values, dtype=np.float64)
    known = np.flatnonzero(~np.isnan(p))
    order = known[np.argsort(p[known], kind="stable")]
    stepped = np.maximum.accumulate(p[order] * np.arange(len(order), 0, -1))
    adjusted = np.full(len(p), np.nan)
    adjusted[order] = np.minimum(stepped, 1.0)
    result: list[float] = adjusted.tolist()
    return result


def _additive(measurement: Measurement) -> Sums:
    if not isinstance(measurement.statistics, Sums):
        raise InputError(f"{measurement.metric} counts distinct things over the whole set and cannot be resampled")
    return measurement.statistics
