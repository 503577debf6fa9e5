"""The correlation of metrics with people by caption length, as a finding: the buckets of `captious.study.lengths`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from captious._version import __version__
from captious.study._finding import Figure, Finding, Grid, plain_name
from captious.study.lengths import Bucket, chart
from captious.study.printed import NAMES
from captious.study.show import lengths_table
from captious.study.study import Study


def length_finding(study: Study, buckets: Sequence[Bucket]) -> Finding:
    """One row per bucket and metric, and the regimes as lines."""
    labels = {score.key: score.label for score in study.scores}
    headline = study.options.statistic
    name = NAMES.get(headline, headline)
    table = lengths_table(buckets, labels, headline, study.options.level)
    title = f"{name} × 100 by caption length"
    return Finding(
        f"Caption length: {plain_name(study.ratings.name)}",
        f"How well metrics agree with people, {name} × 100, for captions of different lengths in {buckets[0].unit}.",
        (Grid(title, table.columns, table.rows, 2),),
        (Figure(chart(buckets, labels, title), "Whiskers are the intervals over images."),),
        (),
        (study.signature, *(score.signature for score in study.scores)),
        {
            "captious": __version__,
            "name": study.ratings.name,
            "statistic": headline,
            "buckets": [asdict(bucket) for bucket in buckets],
        },
    )
