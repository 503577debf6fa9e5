"""``captious.reward``: one number for a caption from several metrics, for trainers that take a single reward."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np

from captious.errors import InputError
from captious.io.columns import REFERENCE_COLUMNS
from captious.metrics.contract import Metric
from captious.metrics.registry import parse, short_names
from captious.options import Runtime
from captious.rewarding._panel import Panel
from captious.rewarding._rollouts import RolloutReader, extraction
from captious.rewarding._scaling import Bounds
from captious.rewarding.functions import tell
from captious.runs.report import PREFIX

_SIGN = re.compile(r"\s+([+-])\s+")
_TERM = re.compile(r"(?:([+-]?\s*\d*\.?\d+(?:[eE][+-]?\d+)?)\s*\*\s*)?([A-Za-z][\w-]*\s*(?:\(.*\))?)", re.DOTALL)
EXAMPLE = "0.7*cider + 0.3*clipscore"


class WeightedReward:
    """A weighted sum of metrics as one reward. A trainer calls the object; verl calls ``compute_score``."""

    def __init__(self, panel: Panel, weights: Mapping[Metric, float]) -> None:
        self.panel, self.weights = panel, dict(weights)
        self.names = {key: f"{PREFIX}/{name}" for key, name in short_names(weights).items()}
        self.__name__ = f"{PREFIX}/reward"

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """The sum for each completion; None if a technical fault leaves a metric without a value."""
        batch, new = self.panel.score(self.__name__, completions, columns)
        if new:
            tell(batch, columns)
            for key, name in self.names.items():
                known = batch.values[key][~np.isnan(batch.values[key])]
                if len(known) and callable(columns.get("log_metric")):
                    columns["log_metric"](name, float(known.mean()))
        return batch.listed(self.panel.weighted(batch.values, self.weights))

    def compute_score(
        self,
        data_source: Any = None,
        solution_str: str = "",
        ground_truth: Any = None,
        extra_info: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, float]:
        """The score of one response as verl asks for it, with the value of each metric beside it.

        The item is found by its id in ``extra_info``; references that were not given by id are ``ground_truth``. verl
        has no missing rewards, so a response that cannot be scored gets the floor, and ``captious/missing`` is 1.
        """
        columns: dict[str, Any] = {name: [value] for name, value in (extra_info or {}).items()}
        if ground_truth is not None and not any(name in columns for name in REFERENCE_COLUMNS):
            columns[REFERENCE_COLUMNS[0]] = [ground_truth]
        batch, _ = self.panel.score(self.__name__, [solution_str], columns)
        missing = bool(batch.gaps)
        values = {key: np.array([self.panel.floors[key]]) for key in batch.values} if missing else batch.values
        named = {self.names[key]: float(own[0]) for key, own in values.items()}
        return {
            "score": float(self.panel.weighted(values, self.weights)[0]),
            **named,
            f"{PREFIX}/missing": float(missing),
        }

    def __repr__(self) -> str:
        terms = (f"{weight:g}*{one}{self.panel.scalings[str(one)]}" for one, weight in self.weights.items())
        return f"<WeightedReward {' + '.join(terms)}>"


def reward(
    expression: str,
    references: Any = None,
    images: Any = None,
    *,
    extract: str | re.Pattern[str] | None = None,
    id_column: str | None = None,
    floors: Mapping[str, float] | None = None,
    clip: Bounds | Mapping[str, Bounds] | None = None,
    scale: Literal["references"] | Mapping[str, float] | None = None,
    runtime: Runtime | None = None,
    language: str | None = None,
) -> WeightedReward:
    """A weighted sum of metrics as one reward; the other arguments are those of ``captious.rewards``.

    A metric for which lower is better must be subtracted.

    >>> one = reward("0.5*rouge + 0.5*rouge_n(n=1)", references={"7": ["a dog runs"], "9": ["a cat"]})
    >>> one(completions=["a dog runs", "a dog"], id=["7", "9"])
    [1.0, 0.5]
    >>> one.compute_score(solution_str="a dog runs", extra_info={"id": "7"})
    {'score': 1.0, 'captious/rouge': 1.0, 'captious/rouge_n': 1.0, 'captious/missing': 0.0}
    """
    weights = weights_of(expression)
    reader = RolloutReader(extraction(extract), id_column)
    panel = Panel(list(weights), references, images, reader, floors, runtime, (), clip, scale, language)
    return WeightedReward(panel, weights)


def weights_of(expression: str) -> dict[Metric, float]:
    """The metrics of a sum with their weights. There are spaces around + and -.

    >>> {str(metric): weight for metric, weight in weights_of("cider(idf=coco-train) - 0.5*chair_i").items()}
    {'cider(idf=coco-train)': 1.0, 'chair(value=i)': -0.5}
    """
    if not isinstance(expression, str):
        raise InputError(f"reward: {type(expression).__name__}, expected a sum of metrics such as {EXAMPLE!r}")
    parts = _SIGN.split(expression.strip())
    weights: dict[Metric, float] = {}
    for sign, part in zip(["+", *parts[1::2]], parts[::2], strict=True):
        term = _TERM.fullmatch(part.strip())
        if term is None:
            expected = f"expected a sum such as {EXAMPLE!r}, with spaces around + and -"
            raise InputError(f"reward {expression!r}: cannot read {part!r}, {expected}")
        metric = parse(term[2])
        weight = float((term[1] or "1").replace(" ", "")) * (1 if sign == "+" else -1)
        if metric in weights:
            raise InputError(f"reward {expression!r}: {metric} occurs twice")
        if weight > 0 and not metric.higher_is_better:
            raise InputError(f"reward {expression!r}: lower is better for {metric}; subtract it, as in - 0.3*{metric}")
        weights[metric] = weight
    return weights
