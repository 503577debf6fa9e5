"""Scaling of metric values to rewards: clipped to bounds, then divided by a scale fixed before the training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious.captions import Ragged
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.registry import find_key
from captious.scorer import Scorer

# The value of `scale` for which the scale of a metric is its standard deviation over references.
REFERENCES = "references"
# Largest number of items for this standard deviation.
SPREAD_ITEMS = 500

Bounds = tuple[float | None, float | None]


@dataclass(frozen=True)
class Scaling:
    """The bounds of a metric's value, and the divisor.

    >>> Scaling(0.0, 2.0, 4.0)(np.array([-1.0, 1.0, 3.0])).tolist()
    [0.0, 0.25, 0.5]
    """

    low: float = -math.inf
    high: float = math.inf
    scale: float = 1.0

    def __call__(self, values: Floats) -> Floats:
        """Return the rewards of values; NaN stays NaN."""
        return np.clip(values, self.low, self.high) / self.scale

    def __str__(self) -> str:
        """Return the scaling as text for a list of rewards; empty if values are unchanged."""
        bounds = f" clipped to {self.low:g} … {self.high:g}" if self.low > -math.inf or self.high < math.inf else ""
        return bounds + (f" / {self.scale:g}" if self.scale != 1 else "")

    def to_record(self) -> list[float | None]:
        """Return bounds and scale as JSON values."""
        return [*(value if math.isfinite(value) else None for value in (self.low, self.high)), self.scale]

    @classmethod
    def of_record(cls, record: Sequence[Any]) -> Scaling:
        """Parse bounds and scale from JSON values."""
        low, high, scale = record
        return cls(-math.inf if low is None else float(low), math.inf if high is None else float(high), float(scale))


def make_scalings(metrics: Sequence[Metric], clip: Any, scale: Any, scorer: Scorer | None) -> dict[str, Scaling]:
    """Return the requested scaling of each metric; ``scorer`` has the references, if they are given by id."""
    bounds, scales = _parse_bounds(metrics, clip), _parse_scales(metrics, scale, scorer)
    return {str(one): Scaling(*bounds[str(one)], scales[str(one)]) for one in metrics}


def _parse_bounds(
    metrics: Sequence[Metric], clip: Bounds | Mapping[str, Bounds] | None
) -> dict[str, tuple[float, float]]:
    by_name = (
        clip if isinstance(clip, Mapping) else dict.fromkeys(map(str, metrics), (None, None) if clip is None else clip)
    )
    labels = {str(metric): metric.label for metric in metrics}
    bounds = dict.fromkeys(labels, (-math.inf, math.inf))
    for name, pair in by_name.items():
        if not isinstance(pair, Sequence) or len(pair) != 2 or not all(one is None or is_number(one) for one in pair):
            raise InputError(f"clip: {pair!r} for {name}, expected two bounds such as (0, 3), None for no bound")
        low, high = -math.inf if pair[0] is None else float(pair[0]), math.inf if pair[1] is None else float(pair[1])
        if low >= high:
            raise InputError(f"clip: {pair!r} for {name}, expected a lower bound below the upper one")
        bounds[find_key(name, labels, "clip")] = (low, high)
    return bounds


def _parse_scales(metrics: Sequence[Metric], scale: Any, scorer: Scorer | None) -> dict[str, float]:
    labels = {str(metric): metric.label for metric in metrics}
    if scale is None:
        return dict.fromkeys(labels, 1.0)
    if scale == REFERENCES:
        return _measure_spreads(metrics, scorer)
    if not isinstance(scale, Mapping):
        raise InputError(f"scale: {scale!r}, expected 'references', or numbers by the names of metrics")
    scales = dict.fromkeys(labels, 1.0)
    for name, value in scale.items():
        if not is_number(value) or value <= 0:
            raise InputError(f"scale: {value!r} for {name}, expected a number above 0")
        scales[find_key(name, labels, "scale")] = float(value)
    return scales


def _measure_spreads(metrics: Sequence[Metric], scorer: Scorer | None) -> dict[str, float]:
    """Return the standard deviation of each metric over first references, each scored against the others of its item.

    It is rounded to four digits, so that processes and machines agree on it.
    """
    numbers = "pass numbers, such as scale={" + ", ".join(f"{one.name!r}: 1.0" for one in metrics) + "}"
    if judge := next((metric for metric in metrics if "judge" in metric.needs), None):
        raise InputError(f"scale='references': {judge} would ask a chat model about references; {numbers}")
    if scorer is None:
        raise InputError(f"scale='references' needs references=... by id; {numbers}")
    items = scorer.take(scorer.ids)
    least = 2 if any("references" in metric.needs for metric in metrics) else 1
    usable = [index for index, texts in enumerate(items.references) if len(texts) >= least]
    items = items.take(usable[:: max(len(usable) // SPREAD_ITEMS, 1)][:SPREAD_ITEMS])
    first = [texts[0] for texts in items.references]
    others = replace(items, references=Ragged.of([texts[1:] for texts in items.references]))
    found = scorer.with_items(others).explain_values(items.ids, first, metrics)
    spreads = {}
    for metric in metrics:
        values = found[str(metric)].values
        values = values[np.isfinite(values)]
        spread = float(values.std()) if len(values) > 1 else 0.0
        if not spread:
            raise InputError(
                f"scale='references': {metric} does not vary over the {len(values)} first references that it can score "
                f"against others of the item; {numbers}"
            )
        spreads[str(metric)] = float(f"{spread:.4g}")
    return spreads


def is_number(value: Any) -> bool:
    """Return True if a value is a finite number."""
    return isinstance(value, Real) and math.isfinite(value)
