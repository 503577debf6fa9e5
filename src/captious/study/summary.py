"""A study as plain data: what JSON holds, and what the page is drawn from."""

from __future__ import annotations

import platform
from dataclasses import asdict
from typing import Any

import numpy as np

from captious._version import __version__
from captious.render.tables import finite
from captious.study.design import Rows
from captious.study.study import Study
from captious.study.table import zero_tests


def summarize(study: Study) -> dict[str, Any]:
    """Every number of a study with everything that moves it."""
    problem = study.problem
    rows = len(problem.human) if isinstance(problem, Rows) else problem.items // 2
    return {
        "captious": __version__,
        "environment": {"python": platform.python_version(), "numpy": np.__version__, "system": platform.system()},
        "name": study.ratings.name,
        "signature": study.signature,
        "protocol": list(study.protocol),
        "warnings": list(study.warnings),
        "headline": study.options.statistic,
        "options": asdict(study.options),
        "rows": rows,
        "items": problem.items,
        "images": problem.clusters,
        "dropped": dict(study.ratings.dropped),
        "metrics": [_metric(study, key) for key in study.order],
        "contests": [plain(asdict(contest)) for contest in study.contests],
        "clusters": [list(cluster) for cluster in study.clusters],
    }


def _metric(study: Study, key: str) -> dict[str, Any]:
    score = next(score for score in study.scores if score.key == key)
    metric_ties, human_ties = study.ties[key]
    found: dict[str, Any] = {
        "metric": key,
        "label": score.label,
        "rank": study.rank(key),
        "statistics": {name: plain(asdict(estimate)) for name, estimate in study.estimates[key].items()},
        "metric_ties": metric_ties,
        "human_ties": human_ties,
        "missing": study.missing[key],
        "turned": not score.higher_is_better,
        "signature": score.signature,
    }
    if isinstance(study.problem, Rows):
        found["p_zero"] = {name: finite(p) for name, p in zero_tests(study, key).items()}
        within = study.statistics[key].get("within")
        if within is not None:
            found |= {"epsilon": within.epsilon(), "images_without_sample_tau": within.skipped}
        if study.soft:
            found["soft_pairwise_accuracy"] = study.soft[key]
    return found


def plain(value: Any) -> Any:
    """Data that JSON can hold: NaN is null, an infinite number of degrees of freedom too."""
    if isinstance(value, dict):
        return {name: plain(part) for name, part in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    if isinstance(value, float):
        return value if np.isfinite(value) else None
    return value
