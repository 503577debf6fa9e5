"""The Specificity Rates of some metrics as tables and pictures."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from captious._version import __version__
from captious.analyses.details import Details
from captious.analyses.finding import Figure, Finding, Grid, between, per_cent, plain_name
from captious.analyses.resampling import Resampling
from captious.analyses.specificity import Counting, Specificity
from captious.report.plot import Mark, intervals, lines

ABOUT = (
    "SR_pos: how often a right detail raises the score. SR_neg: how often a wrong one lowers it. A coin reaches 50; "
    "ties are misses. In per cent."
)
PLACES = 12
"""Steps that the second picture shows one by one."""


def specificity_finding(details: Details, found: Sequence[Specificity], counting: Counting, how: Resampling) -> Finding:
    """One row per metric; intervals over images; the rates by how much was already said."""
    level = f"{how.level:.0%} interval"
    columns = ("metric", "SR_pos", level, "SR_neg", level, "average", level, "steps", "ties", "cut")
    rows = tuple(
        (
            one.label,
            per_cent(one.positive.value),
            between(one.positive),
            per_cent(one.negative.value),
            between(one.negative),
            per_cent(one.average.value),
            between(one.average),
            f"{one.pairs:,}",
            f"{one.ties:,}",
            f"{one.cut:,}",
        )
        for one in found
    )
    images = len({chain.image for chain in details.chains})
    notes = [
        f"{len(details.chains):,} captions of {images:,} images; counted {counting}: "
        + {
            "pooled": "all steps together",
            "macro": "the mean of the captions' own rates",
            "legacy": "as the authors' code counts, see docs/specificity.md",
        }[counting]
    ]
    if details.drawn:
        notes.append(f"{details.drawn:,} wrong details come from other images")
    notes += [f"left out: {number:,} captions ({reason})" for reason, number in details.dropped.items()]
    notes += [
        f"{one.label}: {one.cut:,} texts are longer than its encoder reads; what is added behind the limit ties"
        for one in found
        if one.cut
    ]
    data = {
        "captious": __version__,
        "name": details.name,
        "counting": counting,
        "images": images,
        "captions": len(details.chains),
        "metrics": [asdict(one) for one in found],
        "ci": str(how),
    }
    settings = "|".join((f"specificity({counting})", *details.made, f"ci:{how}", f"captious:{__version__}"))
    return Finding(
        f"Specificity Rate: {plain_name(details.name)}",
        ABOUT,
        (Grid(f"Specificity Rate in per cent, {counting}", columns, rows),),
        _figures(found),
        tuple(notes),
        (settings, *(one.signature for one in found)),
        data,
    )


def _figures(found: Sequence[Specificity]) -> tuple[Figure, ...]:
    groups = {
        name: [
            Mark(f"{one.label} {name}", 100 * estimate.value, 100 * estimate.low, 100 * estimate.high)
            for one in found
            for estimate in (one.positive if name == "SR_pos" else one.negative,)
        ]
        for name in ("SR_pos", "SR_neg")
    }
    last = min(max(row[0] for one in found for row in one.by_place), PLACES)
    places = [str(units) for units in range(1, last + 1)]
    series = {}
    for one in found:
        by_place = {row[0]: row for row in one.by_place}
        for column, name in ((2, "SR_pos"), (3, "SR_neg")):
            series[f"{one.label} {name}"] = [
                100 * by_place[units][column] if units in by_place else float("nan") for units in range(1, last + 1)
            ]
    return (
        Figure(intervals(groups, "Specificity Rates and their intervals", 50.0), "Rates and intervals over images."),
        Figure(
            lines(series, places, "Specificity Rate by detail units already said", 50.0),
            "The rates by how many detail units the caption already had.",
        ),
    )
