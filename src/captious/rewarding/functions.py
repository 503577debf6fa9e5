"""``captious.rewards``: metrics as reward functions for TRL's trainers, verl and ms-swift."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, cast

import numpy as np

from captious._core.notation import split_specs
from captious._core.types import Floats
from captious.errors import InputError
from captious.io.columns import REFERENCE_COLUMNS
from captious.metrics.contract import Metric
from captious.metrics.registry import find_key, make_short_names, parse
from captious.metrics.requests import Specs, check_specs
from captious.options import Runtime
from captious.rewarding._monitor import Generate, Monitor, make_watch_plan
from captious.rewarding._panel import Panel, ScoredBatch
from captious.rewarding._rollouts import RolloutReader, compile_extraction
from captious.rewarding._scaling import Bounds, Scaling, is_number
from captious.runs.report import PREFIX

_SIGN = re.compile(r"\s+([+-])\s+")
_TERM = re.compile(r"(?:([+-]?\s*\d*\.?\d+(?:[eE][+-]?\d+)?)\s*\*\s*)?([A-Za-z][\w-]*\s*(?:\(.*\))?)", re.DOTALL)
_ARGUMENTS = re.compile(r"\([^()]*\)")
EXAMPLE = "0.7*cider + 0.3*clipscore"


class Reward:
    """A metric, or a weighted sum of metrics, as a reward function of completions and columns of the data set.

    Higher is better: a metric for which lower is better is negated. A trainer calls the object, verl calls
    ``compute_score``. The name in logs is ``__name__``.
    """

    def __init__(self, panel: Panel, monitor: Monitor | None, terms: Mapping[Metric, float], name: str) -> None:
        self.panel, self.monitor, self.terms = panel, monitor, dict(terms)
        self.names = {key: f"{PREFIX}/{short}" for key, short in make_short_names(terms).items()}
        self.__name__ = name

    def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:
        """Return the reward of each completion; None if it cannot be scored for a technical reason."""
        batch, new = self.panel.score(self.__name__, completions, columns)
        if new:
            log_batch(batch, columns)
            self._log_terms(batch, columns.get("log_metric"))
            if self.monitor is not None:
                self.monitor.observe(batch, columns)
        return batch.list_rewards(self.panel.sum_rewards(batch.values, self.terms) + 0.0)  # no -0.0 in logs

    def _log_terms(self, batch: ScoredBatch, log_metric: Any) -> None:
        """Log the mean of each metric of a sum with the trainer, which otherwise logs only the sum."""
        for key, name in self.names.items() if len(self.terms) > 1 and callable(log_metric) else ():
            known = batch.values[key][~np.isnan(batch.values[key])]
            if len(known):
                log_metric(name, float(known.mean()))

    def compute_score(
        self,
        data_source: Any = None,
        solution_str: str = "",
        ground_truth: Any = None,
        extra_info: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> dict[str, float]:
        """Return the score of one response in the form that verl expects, with the value of each metric.

        The item is found by its id in ``extra_info``; references that were not given by id are ``ground_truth``. verl
        has no missing rewards, so a response that cannot be scored gets the floor, and ``captious/missing`` is 1.
        """
        columns: dict[str, Any] = {name: [value] for name, value in (extra_info or {}).items()}
        if ground_truth is not None and not any(name in columns for name in REFERENCE_COLUMNS):
            columns[REFERENCE_COLUMNS[0]] = [ground_truth]
        batch, _ = self.panel.score(self.__name__, [solution_str], columns)
        missing = bool(batch.gaps)
        values = self._floors if missing else batch.values
        named = {name: float(values[key][0]) for key, name in self.names.items()}
        score = float(self.panel.sum_rewards(values, self.terms)[0])
        return {"score": score, **named, f"{PREFIX}/missing": float(missing)}

    @property
    def metric(self) -> Metric:
        """The metric, or the first of a sum."""
        return next(iter(self.terms))

    @property
    def scaling(self) -> Scaling:
        """The bounds of the metric's value, and its divisor."""
        return self.panel.scalings[str(self.metric)]

    @property
    def floor(self) -> float:
        """The reward of an empty caption."""
        return float(self.panel.sum_rewards(self._floors, self.terms)[0])

    @property
    def _floors(self) -> dict[str, Floats]:
        return {str(metric): np.array([self.panel.floors[str(metric)]]) for metric in self.terms}

    def __repr__(self) -> str:
        if len(self.terms) == 1:
            return f"<{type(self).__name__} {self.__name__}: {self.metric}{self.scaling}>"
        terms = (f"{weight:g}*{one}{self.panel.scalings[str(one)]}" for one, weight in self.terms.items())
        return f"<{type(self).__name__} {self.__name__}: {' + '.join(terms)}>"


class AsyncReward(Reward):
    """A reward that a trainer awaits, so that judges and other asynchronous rewards run concurrently."""

    async def __call__(self, completions: Sequence[Any], **columns: Any) -> list[float | None]:  # type: ignore[override]
        """Return the reward of each completion, computed in a thread."""
        return await asyncio.to_thread(super().__call__, completions, **columns)


class Rewards(list[Reward]):
    """The rewards of a run, as a list for ``reward_funcs``. They share references, models and one pass per batch."""

    weights: list[float]
    """The weight of each, as ``GRPOConfig(reward_weights=...)`` wants it."""

    def __init__(self, members: Sequence[Reward] = (), weights: Sequence[float] = ()) -> None:
        super().__init__(members)
        self.weights = list(weights)

    @property
    def orms(self) -> dict[str, type]:
        """A class for each reward by its name, for ``swift.rewards.orms``; a missing value is the floor there.

        ms-swift makes an object of each, calls it by the name of its class, and trains on 0 if a value is missing,
        which may be better than any caption's reward.
        """
        return {one.__name__: make_swift_class(one) for one in self}

    @property
    def asynchronous(self) -> Rewards:
        """The same rewards as ``async`` functions, for TRL and ms-swift: they run concurrently with others."""
        members = [AsyncReward(one.panel, one.monitor, one.terms, one.__name__) for one in self]
        return Rewards(members, self.weights)

    @property
    def sum(self) -> Reward:
        """One reward that is the weighted sum of all, for trainers that take a single number, such as verl."""
        terms = {
            metric: weight * sign
            for one, weight in zip(self, self.weights, strict=True)
            for metric, sign in one.terms.items()
        }
        return type(self[0])(self.panel, self[0].monitor, terms, f"{PREFIX}/reward")

    @property
    def panel(self) -> Panel:
        """The panel that they share."""
        return self[0].panel

    def __repr__(self) -> str:
        return f"<Rewards {', '.join(one.__name__ for one in self)}>"


def rewards(
    metrics: Specs,
    *,
    references: Any = None,
    images: Any = None,
    weights: Sequence[float] | Mapping[str, float] | None = None,
    extract: str | re.Pattern[str] | None = None,
    id_column: str | None = None,
    floors: Mapping[str, float] | None = None,
    clip: Bounds | Mapping[str, Bounds] | None = None,
    scale: Literal["references"] | Mapping[str, float] | None = None,
    watch: Specs | None = None,
    every: int = 5,
    out: Any = None,
    probe: Sequence[Any] | None = None,
    generate: Generate | None = None,
    runtime: Runtime | None = None,
    language: str | None = None,
) -> Rewards:
    """Return metrics as reward functions for reinforcement learning, one for each metric.

    An empty caption, or a completion without a caption, gets the worst value of each metric. A caption that cannot be
    scored for a technical reason, such as an image that cannot be read or a server that is down, gets None from all.

    Parameters
    ----------
    metrics
        Written forms, such as ``"cider(idf=coco-train), clipscore"``, or metrics of single captions; or a sum
        with weights, ``"0.7*cider + 0.3*clipscore"``, from which a metric for which lower is better is subtracted. One
        with variants, such as ``bleu``, is its default, ``bleu(n=4)``.
    references
        References by id: whatever ``captious.read`` reads. Without them they come from a column ``references``.
    images
        Images by id, or their folder. Without them they come from a column ``image`` or ``images``.
    weights
        A weight for each metric, in their order or by name; 1 without them. ``rewards(...).sum`` is the weighted sum.
    extract
        Where the caption is in a completion: a tag such as ``caption``, an end tag such as ``</think>`` before it, or
        a regular expression. Without it the completion is the caption.
    id_column
        The column of the data set with the ids of items; without it ``image_id``, ``id`` and the like.
    floors
        The value of an empty caption by a metric without a worst value, by its name.
    clip
        Bounds of every metric's value, ``(low, high)``, or of some by name; None for no bound.
    scale
        The divisor of values, so that no metric outweighs the others only because its numbers are larger: numbers
        by name, or ``references`` for each metric's standard deviation over references, each scored against the
        others of its item. It is computed once, before the training, after which it stays the same.
    watch
        Metrics that are not rewarded, and ``words``, by which the same captions are scored to notice a policy that
        games the reward.
    every
        The number of steps between two such checks.
    out
        The folder that the checks are written into; ``captious view`` opens it.
    probe
        Ids of items whose captions are checked each time, instead of those of the batch.
    generate
        A function from ids to the captions that the policy gives these items now, one for each; for ``probe``.
    runtime
        Where and how models run, and the ceilings of judges, which several processes share.
    language
        The code of the captions' language, such as ``zh``, as in ``captious.evaluate``.

    >>> references = {"7": ["a dog runs", "the dog is running"], "9": ["two cats"]}
    >>> functions = rewards("rouge, bleu(n=1)", references=references)
    >>> [one.__name__ for one in functions], functions.weights
    (['captious/rouge', 'captious/bleu_1'], [1.0, 1.0])
    >>> chat = [[{"role": "assistant", "content": "a dog runs"}], [{"role": "assistant", "content": ""}]]
    >>> functions[0](completions=chat, image_id=[7, 9])
    [1.0, 0.0]
    >>> one = rewards("0.5*rouge + 0.5*rouge_n(n=1)", references=references).sum
    >>> one.compute_score(solution_str="a dog runs", extra_info={"id": "7"})
    {'score': 1.0, 'captious/rouge': 1.0, 'captious/rouge_n': 1.0, 'captious/missing': 0.0}
    """
    members, shares = _parse_members(metrics, weights)
    reader = RolloutReader(compile_extraction(extract), id_column)
    monitored = any(one is not None for one in (watch, out, probe, generate))
    plan = make_watch_plan(members, shares, watch, every, out, probe, generate) if monitored else None
    watched = plan.watched if plan else ()
    panel = Panel(members, references, images, reader, floors, runtime, watched, clip, scale, language)
    monitor = Monitor(panel, plan) if plan else None
    names = make_short_names(members)
    return Rewards(
        [Reward(panel, monitor, {one: _get_sign(one)}, f"{PREFIX}/{names[str(one)]}") for one in members], shares
    )


def _get_sign(metric: Metric) -> float:
    return 1.0 if metric.higher_is_better else -1.0


def _parse_members(
    metrics: Specs, weights: Sequence[float] | Mapping[str, float] | None
) -> tuple[list[Metric], list[float]]:
    """Return the metrics and the weight of each, from a sum or from a list of metrics with weights."""
    if not is_sum(metrics):
        members = _parse_metrics(metrics)
        return members, [_get_weight(metric, weights, members) for metric in members]
    if weights is not None:
        raise InputError(f"weights: {metrics!r} has weights already, expected them in one place")
    terms = parse_sum(str(metrics))
    return list(terms), [weight * _get_sign(metric) for metric, weight in terms.items()]


def _parse_metrics(metrics: Specs) -> list[Metric]:
    """Return the metrics; one with variants, such as ``bleu``, is its default variant."""
    specs = [part for one in check_specs(metrics) for part in (split_specs(one) if isinstance(one, str) else [one])]
    members = list(dict.fromkeys(one if isinstance(one, Metric) else parse(one) for one in specs))
    if not members:
        raise InputError("no metric named, expected a list such as 'cider, clipscore'")
    return members


def log_batch(batch: ScoredBatch, columns: Mapping[str, Any]) -> None:
    """Log the ids and the shares of missing and floored captions with the trainer, if it has a log."""
    log_metric, log_extra = columns.get("log_metric"), columns.get("log_extra")
    if callable(log_metric):
        log_metric(f"{PREFIX}/missing", batch.missing)
        log_metric(f"{PREFIX}/floored", batch.floored)
    if callable(log_extra):
        log_extra("id", list(batch.rollouts.ids))


def make_swift_class(reward: Reward) -> type:
    """Return a class for ms-swift whose objects are the reward, with the floor for a missing value."""
    name = reward.__name__

    def fill_gaps(values: Sequence[float | None]) -> list[float]:
        return [reward.floor if value is None else value for value in values]

    def call(self: Any, completions: Sequence[Any], **columns: Any) -> list[float]:
        return fill_gaps(reward(completions, **columns))

    async def call_async(self: Any, completions: Sequence[Any], **columns: Any) -> list[float]:
        return fill_gaps(await cast(AsyncReward, reward)(completions, **columns))

    def make(self: Any, args: Any = None, **options: Any) -> None:
        self.args = args

    def reduce(self: Any) -> tuple[Any, ...]:
        return _make_swift_object, (reward, self.args)

    calls = call_async if isinstance(reward, AsyncReward) else call
    return type(name, (), {"__init__": make, "__call__": calls, "__reduce__": reduce, "__doc__": f"{reward.metric}"})


def _make_swift_object(reward: Reward, args: Any) -> Any:
    return make_swift_class(reward)(args=args)


def _get_weight(
    metric: Metric, weights: Sequence[float] | Mapping[str, float] | None, metrics: Sequence[Metric]
) -> float:
    if weights is None:
        return 1.0
    if isinstance(weights, Mapping):
        labels = {str(one): one.label for one in metrics}
        weight = {find_key(name, labels, "weights"): value for name, value in weights.items()}.get(str(metric), 1.0)
    elif isinstance(weights, str) or not isinstance(weights, Sequence):
        raise InputError(f"weights: {weights!r}, expected a list of numbers, or numbers by the names of metrics")
    elif len(weights) != len(metrics):
        raise InputError(f"weights: {len(weights)} for {len(metrics)} metrics, expected one for each")
    else:
        weight = weights[metrics.index(metric)]
    if not is_number(weight) or weight < 0:
        turned = "" if metric.higher_is_better else "; lower is better for it, so its reward is negated already"
        raise InputError(f"weights: {weight!r} for {metric}, expected a number of at least 0{turned}")
    return float(weight)


def is_sum(metrics: Any) -> bool:
    """Return True for a sum with weights, such as ``0.7*cider + 0.3*clipscore``.

    >>> is_sum("0.7*cider"), is_sum("cider - chair_i"), is_sum("cider, rouge"), is_sum(["cider"])
    (True, True, False, False)
    """
    outside = _ARGUMENTS.sub("", metrics) if isinstance(metrics, str) else ""
    return "*" in outside or "+" in outside or bool(_SIGN.search(f"{outside} "))


def parse_sum(expression: str) -> dict[Metric, float]:
    """Parse the metrics of a sum with their weights. There must be spaces around + and -.

    >>> {str(metric): weight for metric, weight in parse_sum("cider(idf=coco-train) - 0.5*chair_i").items()}
    {'cider(idf=coco-train)': 1.0, 'chair(value=i)': -0.5}
    """
    parts = _SIGN.split(expression.strip())
    weights: dict[Metric, float] = {}
    for sign, part in zip(["+", *parts[1::2]], parts[::2], strict=True):
        term = _TERM.fullmatch(part.strip())
        if term is None:
            expected = f"expected a sum such as {EXAMPLE!r}, with spaces around + and -"
            raise InputError(f"rewards {expression!r}: cannot read {part!r}, {expected}")
        metric = parse(term[2])
        weight = float((term[1] or "1").replace(" ", "")) * (1 if sign == "+" else -1)
        if metric in weights:
            raise InputError(f"rewards {expression!r}: {metric} occurs twice")
        if weight > 0 and not metric.higher_is_better:
            raise InputError(f"rewards {expression!r}: lower is better for {metric}; subtract it, as in - 0.3*{metric}")
        weights[metric] = weight
    return weights
