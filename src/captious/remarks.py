"""Warnings to print beside numbers that will mislead."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from captious.captions import CaptionSet
from captious.measurement import Measurement
from captious.readers.checks import findings_that_mislead

REASONS = 5
"""Different reasons that a warning names."""


def misleading(captions: CaptionSet, measurements: Sequence[Measurement]) -> list[str]:
    """What a person should know before trusting these numbers."""
    warnings = [finding.message for finding in findings_that_mislead(captions)]
    warnings += [remark for measurement in measurements for remark in measurement.metric.remarks(captions)]
    labels: dict[tuple[tuple[str, int], ...], list[str]] = {}
    for measurement in measurements:
        if measurement.reasons:
            counts = tuple(Counter(measurement.reasons.values()).most_common())
            labels.setdefault(counts, []).append(measurement.metric.label)
    for counts, metrics in labels.items():
        why = ", ".join(f"{number} × {reason}" for reason, number in counts[:REASONS])
        if rest := sum(number for _, number in counts[REASONS:]):
            why += f", {rest} × other reasons"
        warnings.append(f"{', '.join(metrics)}: items without a value: {why}")
    return list(dict.fromkeys(warnings))
