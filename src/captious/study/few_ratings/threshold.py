"""``captious.study.find_threshold``: above which value of a metric captions are good, by people's ratings."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious._version import __version__
from captious.errors import InputError
from captious.options import LEVEL, Missing, Reading
from captious.render import Cell, Chart, Column, Document, Result, Series, Table
from captious.render.document import Value
from captious.stats.bootstrap import Estimate
from captious.stats.shares import estimate_shares, number_clusters
from captious.study._statistic_columns import list_left_out
from captious.study.few_ratings._caption_table import (
    choose_direction,
    find_direction,
    match_captions,
    read_caption_table,
    refuse_shared_ratings,
)
from captious.study.judgments import Ratings, as_ratings
from captious.study.load import load_ratings
from captious.study.recipes import find_recipe_for
from captious.study.study_options import StudyInput

# Number of thresholds in the table; they are quantiles of the metric.
STEPS = 20


@dataclass(frozen=True)
class ThresholdRow:
    """One threshold with its precision and recall: good captions among the kept ones, kept among the good ones."""

    threshold: float
    precision: Estimate
    recall: Estimate
    kept: float
    """Share of all captions of the runs, rated or not, that pass."""


@dataclass(frozen=True, eq=False, repr=False)
class ThresholdCurve(Result):
    """Precision and recall over thresholds of a metric, and the threshold that is recommended."""

    name: str
    metric: str
    label: str
    higher_is_better: bool
    good: float
    """The mean rating from which a caption counts as good."""
    wanted: float
    """The precision that the recommended threshold must have."""
    rows: tuple[ThresholdRow, ...]
    best: ThresholdRow | None
    """The recommended threshold, with the largest recall among those whose precision is at least ``wanted``. The lower
    end of the precision's interval decides. None if no threshold has it."""
    base: Estimate
    """Share of good captions without a threshold."""
    level: float
    signature: str
    warnings: tuple[str, ...] = ()
    remarks: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return f"<ThresholdCurve of {self.metric}: {self.expression or 'none'}>"

    @property
    def expression(self) -> str:
        """The filter to pass to ``captious keep``; nothing if no threshold is good enough."""
        if self.best is None:
            return ""
        return f"{self.metric} {'>=' if self.higher_is_better else '<='} {self.best.threshold:.6g}"

    def document(self) -> Document:
        """Build the document: the recommended threshold, and the table of all."""
        good = f"rated {self.good:g} or more"
        if self.best is None:
            lines = [
                f"No threshold of {self.label} keeps captions of which at least {100 * self.wanted:.0f} % are {good} "
                "(lower end of the interval)."
            ]
        else:
            precision, recall = self.best.precision, self.best.recall
            lines = [
                f"Keep '{self.expression}': {100 * precision.value:.0f} % of what it keeps is {good} "
                f"({100 * precision.low:.0f}–{100 * precision.high:.0f} %), and it keeps "
                f"{100 * recall.value:.0f} % of such captions.",
            ]
        column = {"decimals": 1, "scale": 100.0, "unit": "%", "level": self.level}
        columns: list[Column | str] = [Column(self.label, decimals=4, key="threshold")]
        columns += [Column("precision", **column), Column("recall", **column)]  # type: ignore[arg-type]
        columns += [Column("kept", decimals=1, scale=100.0, unit="%"), Column("", "text", key="recommended")]
        rows: list[list[Value]] = [
            [
                *(row.threshold, Cell.of(row.precision), Cell.of(row.recall), row.kept),
                "recommended" if row is self.best else "",
            ]
            for row in self.rows
        ]
        note = (
            f"precision: share of kept captions that are {good}; recall: share of such captions that are kept; kept: "
            f"share of all captions. Without a threshold {100 * self.base.value:.1f} % are {good}."
        )
        table = Table("thresholds", f"Thresholds of {self.label}", columns, rows, note)
        x = [row.threshold for row in self.rows]
        series = [
            Series(
                name,
                x,
                [100 * getattr(row, name).value for row in self.rows],
                [100 * getattr(row, name).low for row in self.rows],
                [100 * getattr(row, name).high for row in self.rows],
            )
            for name in ("precision", "recall")
        ]
        chart = Chart("lines", series, "Precision and recall", x=self.label, y="%")
        title = f"{PurePath(self.name).name}: which captions to keep by {self.label}"
        data = {
            "expression": self.expression, "metric": self.metric, "good": self.good, "wanted": self.wanted,
            "thresholds": self.rows, "best": self.best, "base": self.base, "signature": self.signature,
        }  # fmt: skip
        return Document(
            title,
            "",
            [chart, table],
            self.warnings,
            self.remarks,
            (self.signature,),
            data,
            "threshold",
            answer=lines[0],
        )


def find_threshold(
    ratings: Any,
    runs: Any,
    *,
    metric: str,
    good: float,
    at_least: float = 0.9,
    level: float = LEVEL,
    missing: Missing = "error",
) -> ThresholdCurve:
    """Find above which value of a metric captions are good: their mean rating is ``good`` or more.

    The precision of a threshold is the share of good captions among those that it keeps. The recommended threshold is
    the one that keeps most good captions while its precision is ``at_least`` this share, even at the lower end of its
    interval. Intervals are Wilson's, over images. Because these ratings chose the threshold, check it on others.
    """
    if not 0 < at_least < 1:
        raise InputError(f"at_least={at_least!r}, expected a share between 0 and 1, such as 0.9")
    if not 0 < level < 1:
        raise InputError(f"confidence level {level}, expected a number between 0 and 1, such as level={LEVEL}")
    if isinstance(ratings, (str, Path)):
        ratings, _ = load_ratings(StudyInput(find_recipe_for(str(ratings))), Reading(missing=missing))
    judged = as_ratings(ratings, missing=missing)
    if not isinstance(judged, Ratings):
        raise InputError(f"{judged.name}: has pairs, expected ratings")
    table = read_caption_table(runs)
    if table is None:
        raise InputError("no captions; name a run, or a file with a row per caption")
    table, matches, without = match_captions(table, judged, missing)
    refuse_shared_ratings(table, judged, matches)
    (name,) = table.names_of([metric], "metric")
    values, label = table.values[name], table.labels.get(name, name)
    matches = [(row, item) for row, item in matches if not np.isnan(values[row])]
    if not matches:
        raise InputError(f"{judged.name}: no rated caption has a value of {label}")
    rating: Floats = judged.mean[[item for _, item in matches]]
    is_good = (rating >= good).astype(np.float64)[:, None]
    if is_good.all() or not is_good.any():
        which = "every" if is_good.all() else "no"
        raise InputError(f"{judged.name}: {which} rated caption has a mean rating of {good:g} or more; expected some")
    cluster = number_clusters([table.images[row] for row, _ in matches])
    x: Floats = values[[row for row, _ in matches]]
    higher = choose_direction(name, x, rating, cluster) > 0
    sign = 1.0 if higher else -1.0
    x = sign * x
    thresholds = np.unique(np.quantile(x, np.arange(STEPS) / STEPS, method="higher"))
    # Rated captions × thresholds: 1 if the caption is kept, is kept and good, is good.
    kept = (x[:, None] >= thresholds).astype(np.float64)
    kept_and_good = kept * is_good
    precisions = estimate_shares(kept_and_good, kept, cluster, level)
    recalls = estimate_shares(kept_and_good, np.repeat(is_good, len(thresholds), axis=1), cluster, level)
    base = estimate_shares(is_good, np.ones((len(x), 1)), cluster, level)[0]
    all_values = values[~np.isnan(values)]  # of rated and unrated captions
    rows = [
        ThresholdRow(float(sign * threshold), precision, recall, float((sign * all_values >= threshold).mean()))
        for threshold, precision, recall in zip(thresholds, precisions, recalls, strict=True)
    ]
    precise = [row for row in rows if row.precision.low >= at_least]
    best = max(precise, key=lambda row: row.recall.value) if precise else None
    parts = [f"threshold:{judged.name}", f"metric:{name}", f"good:{good:g}", f"at_least:{at_least:g}"]
    parts += [f"captions:{len(x)}", f"images:{int(cluster.max()) + 1}", f"ci:wilson(images,{100 * level:g}%)"]
    remarks = [f"{len(x):,} rated captions of {int(cluster.max()) + 1:,} images"]
    remarks += list_left_out(judged.dropped)
    remarks += [f"left out: {without:,} (a rated caption that is not among the captions)"] if without else []
    if not higher and find_direction(name) is None:
        remarks.append(f"{label}: lower is better, because people rate captions with lower values higher")
    remarks.append("the threshold was chosen by these ratings: check its precision on others")
    return ThresholdCurve(
        judged.name, name, label, higher, good, at_least, tuple(rows), best, base, level,
        "|".join([*parts, f"captious:{__version__}"]), (*judged.warnings, *table.remarks), tuple(remarks),
    )  # fmt: skip
