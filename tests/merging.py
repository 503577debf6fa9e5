"""A set that is measured in parts: each is prepared and scored by itself, and what they give is merged."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from typing import Any

from captious.captions import CaptionSet
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse
from captious.text.corpus_states import State


def measure_parts(parts: Sequence[CaptionSet], spec: str | Metric) -> Measurement:
    """Return the measurement of all parts together."""
    metric = parse(spec) if isinstance(spec, str) else spec
    states: list[Any] = [metric.prepared(part) for part in parts]
    if isinstance(states[0], State):
        for state in states:
            state.release()
    state = reduce(lambda one, other: one.merge(other), states) if hasattr(states[0], "merge") else states[0]
    return reduce(Measurement.merge, [metric.measure(part, state) for part in parts])
