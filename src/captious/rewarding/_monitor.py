"""The drift monitor: every few steps it scores the captions of a batch with metrics that are not rewarded."""

from __future__ import annotations

import os
import threading
import warnings
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.notation import split_specs
from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError, format_one_line
from captious.metrics.contract import Metric
from captious.metrics.registry import parse_all
from captious.metrics.requests import Specs, check_specs
from captious.rewarding._panel import Panel, ScoredBatch
from captious.rewarding._reward_run import LoggedStep, LogPlan, RewardLog
from captious.rewarding._rollouts import Rollouts
from captious.rewarding._scaling import Scaling
from captious.rewarding._signs import DriftVerdict, StepCheck, judge_last
from captious.runs.report import PREFIX

Generate = Callable[[list[str]], Iterable[Any]]
# A name that a list of watched metrics may contain; every check counts words anyway.
WORDS = "words"


@dataclass(frozen=True)
class WatchPlan:
    """The rewarded and the watched metrics of a monitor."""

    rewarded: Mapping[Metric, float]
    """The rewarded metrics with their weights; the weight is negative if lower is better."""
    watched: tuple[Metric, ...]
    """Metrics of single captions that are not rewarded."""
    diversity: tuple[Metric, ...]
    """Metrics of all captions of a prompt."""
    every: int
    out: Path
    probe: tuple[str, ...] = ()
    """The items whose captions are checked each time; without them the captions of the batch are."""
    generate: Generate | None = None
    """Captions of these items by the policy as it is now."""

    def make_log_plan(self, scalings: Mapping[str, Scaling]) -> LogPlan:
        """Return the plan in the form that the folder stores."""
        rewards = {str(metric): weight for metric, weight in self.rewarded.items()}
        watched, diversity = (tuple(map(str, metrics)) for metrics in (self.watched, self.diversity))
        changed = {key: one for key, one in scalings.items() if one != Scaling()}
        return LogPlan(rewards, watched, diversity, self.every, changed, self.probe)


def make_watch_plan(
    metrics: Sequence[Metric],
    weights: Sequence[float],
    watch: Specs | None,
    every: int,
    out: Any,
    probe: Sequence[Any] | None = None,
    generate: Generate | None = None,
) -> WatchPlan:
    """Check the arguments and return the plan of a monitor."""
    if out is None:
        what = "watch" if watch is not None else "probe"
        raise InputError(f"{what}=... needs out=..., the folder that the checks are written into")
    if (probe is None) != (generate is None) or isinstance(probe, str) or not callable(generate or print):
        raise InputError("probe=... and generate=...: expected ids of items, and a function from ids to captions")
    if not isinstance(every, int) or every < 1:
        raise InputError(f"every={every!r}, expected a number of steps from 1 on")
    given = [watch] if isinstance(watch, (str, Metric)) else list(watch or ())
    specs = [part for one in given for part in (split_specs(one) if isinstance(one, str) else [one])]
    others = [one for one in specs if one != WORDS]
    watched = parse_all(check_specs(others)) if others else []
    if twice := [metric for metric in watched if metric in metrics]:
        raise InputError(f"watch: {twice[0]} is rewarded, expected metrics that are not")
    diversity = [metric for metric in watched if not metric.needs or "several candidates" in metric.needs]
    signed = {one: weight if one.higher_is_better else -weight for one, weight in zip(metrics, weights, strict=True)}
    single = tuple(metric for metric in watched if metric not in diversity)
    ids = () if probe is None else tuple(map(str, probe))
    return WatchPlan(signed, single, tuple(diversity), every, Path(out), ids, generate)


class Monitor:
    """Checks a batch every few steps, stores it, and warns if a policy games its reward or collapses.

    If the monitor fails, it warns once and training continues. Each rank checks and judges its own captions; the
    page of the run joins them.
    """

    def __init__(self, panel: Panel, plan: WatchPlan) -> None:
        self.panel, self.plan = panel, plan
        if plan.probe:
            panel.refuse_unknown(plan.probe)
        self._log = RewardLog.begin(plan.out, panel.prepared, plan.make_log_plan(panel.scalings))
        self._reset()

    def _reset(self) -> None:
        self._lock = threading.Lock()
        self._checks: list[StepCheck] | None = None
        self._said: set[str] = set()
        self._calls = 0

    def __getstate__(self) -> dict[str, Any]:
        return {"panel": self.panel, "plan": self.plan, "_log": self._log}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._reset()

    def observe(self, batch: ScoredBatch, columns: Mapping[str, Any]) -> DriftVerdict | None:
        """Check a batch if its step is due; return the verdict, or None."""
        if not _is_training(columns):
            return None
        with self._lock:
            try:
                verdict = self._observe(batch, columns)
            except Exception as error:
                self._warn(f"captious: the rewards are not monitored at this step: {format_one_line(error)}")
                return None
        log_metric = columns.get("log_metric")
        if verdict is not None and callable(log_metric):
            log_metric(f"{PREFIX}/drift", float(len(verdict.signs)))
        return verdict

    def _observe(self, batch: ScoredBatch, columns: Mapping[str, Any]) -> DriftVerdict | None:
        rank = int(os.environ.get("RANK", "0") or 0)
        step = getattr(columns.get("trainer_state"), "global_step", None)
        if self._checks is None:
            self._checks = self._read_earlier_checks(step, rank)
        if step is None:  # the trainer reports no step: count calls, starting after the last one in the log
            step = self._calls
            self._calls += 1
        # A trainer that reuses samples for several steps calls only at some of them, so a multiple of `every` may be
        # skipped.
        if self._checks and step // self.plan.every <= self._checks[-1].step // self.plan.every:
            return None
        logged = self._measure_and_write(self._score_probe(rank) if self.plan.generate else batch, step, rank)
        self._checks.append(self._log.check(logged))
        verdict = judge_last(self._checks, self._log.labels, self._log.plan.held_out, bool(self.plan.probe))
        # Warn once for each meaning: captions that degrade may raise the reward some steps later.
        if verdict.alarm and rank == 0 and f"alarm: {verdict.trend}" not in self._said:
            self._said.add(f"alarm: {verdict.trend}")
            self._warn(
                f"captious: {verdict.meaning} at step {step}: "
                f"{'; '.join(sign.text for sign in verdict.signs)}. Look at it: captious view {self.plan.out}"
            )
        return verdict

    def _read_earlier_checks(self, step: int | None, rank: int) -> list[StepCheck]:
        """Return the checks of this rank before this step; later ones are from before the training was resumed."""
        if step is not None:
            self._log.supersede(step, rank)
        checks = [self._log.check(logged) for logged in self._log.read(rank)]
        self._calls = checks[-1].step + 1 if checks else 0
        return checks

    def _score_probe(self, rank: int) -> ScoredBatch:
        """Score the present captions of the policy for this rank's items of the probe set."""
        assert self.plan.generate is not None
        ids = list(self.plan.probe[rank :: max(int(os.environ.get("WORLD_SIZE", "1") or 1), 1)])
        completions = list(self.plan.generate(ids))
        if len(completions) != len(ids):
            raise InputError(f"generate: {len(completions)} captions for {len(ids)} items, expected one for each")
        return self.panel.score_rollouts(
            Rollouts(self.panel.reader.extract_captions(completions), tuple(ids), tuple(ids), None, {})
        )

    def _measure_and_write(self, batch: ScoredBatch, step: int, rank: int) -> LoggedStep:
        """Score the captions of a batch by all metrics, and store them."""
        rollouts = batch.rollouts
        scorer = self.panel.get_scorer(rollouts)
        chosen = [index for index, key in enumerate(rollouts.ids) if key in scorer]
        ids, texts = [rollouts.ids[index] for index in chosen], [rollouts.texts[index] or "" for index in chosen]
        prompts = [rollouts.groups[index] for index in chosen]
        reward = self.panel.sum_rewards(batch.values, self.plan.rewarded)[chosen]
        columns: dict[str, Sequence[Any]] = {
            "step": [step] * len(chosen),
            "prompt": prompts,
            "reward": [None if np.isnan(value) else float(value) for value in reward],
        }
        names = [f"{step}-{rank}-{index}" for index in chosen]
        captions, measurements = scorer.measure_captions(ids, texts, names, columns)
        diversity = {str(metric): _score_prompts(metric, captions, prompts) for metric in self.plan.diversity}
        captions = replace(
            captions, columns={**captions.columns, **{key: tuple(own) for key, own in diversity.items()}}
        )
        self._log = self._log.write(step, rank, captions, measurements)
        values = {**{key: one.values for key, one in measurements.items()}, **diversity}
        return LoggedStep(step, names, prompts, texts, [], [], reward, values)

    def _warn(self, message: str) -> None:
        """Warn once per message; training continues."""
        if message not in self._said:
            self._said.add(message)
            warnings.warn(message, RuntimeWarning, stacklevel=2)


def _score_prompts(metric: Metric, captions: CaptionSet, prompts: Sequence[str]) -> Floats:
    """Return for each caption the value of a metric on all captions of its prompt."""
    first = {prompt: index for index, prompt in reversed(list(enumerate(prompts)))}
    texts: dict[str, list[str]] = {}
    for prompt, text in zip(prompts, captions.candidates.values, strict=True):
        texts.setdefault(prompt, []).append(text)
    references = {prompt: captions.references[first[prompt]] for prompt in texts}
    together = replace(CaptionSet.of(texts, references, name="prompts"), language=captions.language)
    values = dict(zip(together.ids, metric.measure(together).values.tolist(), strict=True))
    return np.array([values[prompt] for prompt in prompts])


def _is_training(columns: Mapping[str, Any]) -> bool:
    """Return True if a batch is used for training. TRL also scores evaluation batches, with the model in eval mode."""
    trainer = getattr(columns.get("log_metric"), "__self__", None)
    return bool(getattr(getattr(trainer, "model", None), "training", True))
