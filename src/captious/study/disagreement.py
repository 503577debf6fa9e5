"""Items where a metric and people disagree most."""

from __future__ import annotations

from typing import Any

import numpy as np

from captious.stats.correlation import standing
from captious.study.design import Pairs, Rows
from captious.study.study import Study


def disagreements(study: Study, number: int = 20) -> dict[str, list[dict[str, Any]]]:
    """Per metric the items whose standing differs most between the metric and people, as shares of all items.

    Standing: the share of items rated (scored) lower, ties half. For pairs: the largest standardized preference of the
    metric for the caption that people rejected.
    """
    found = {}
    for score in study.scores:
        if isinstance(study.problem, Rows):
            people, metric = standing(study.problem.mean), standing(score.oriented)
            gap = metric - people
            worst = np.argsort(-np.abs(gap), kind="stable")[:number].tolist()
            found[score.key] = [
                {
                    "items": [study.ids[place]],
                    "human": float(study.problem.mean[place]),
                    "values": [float(score.values[place])],
                    "people": float(people[place]),
                    "metric": float(metric[place]),
                    "gap": float(gap[place]),
                }
                for place in worst
            ]
            continue
        assert isinstance(study.problem, Pairs)
        first, second = study.problem.first, study.problem.second
        gap = (score.oriented[second] - score.oriented[first]) / (score.values.std() or 1.0)
        worst = [place for place in np.argsort(-gap, kind="stable")[:number].tolist() if gap[place] > 0]
        found[score.key] = [
            {
                "items": [study.ids[first[place]], study.ids[second[place]]],
                "values": [float(score.values[first[place]]), float(score.values[second[place]])],
                "category": study.problem.names[study.problem.category[place]],
                "gap": float(gap[place]),
            }
            for place in worst
        ]
    return found
