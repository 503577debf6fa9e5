"""The page of a reward run: reward and watched metrics over the steps, signs of drift, and captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.types import Floats
from captious._core.values import PlainState
from captious.io.images import find_images
from captious.options import Resampling
from captious.render import (
    Cell,
    Chart,
    Column,
    Document,
    Entry,
    Evidence,
    Gallery,
    Line,
    Meter,
    Picture,
    Result,
    Series,
    Table,
    Text,
    open_evidence,
)
from captious.render.document import Value
from captious.rewarding._reward_run import LoggedStep, RewardLog, open_log
from captious.rewarding._signs import FIRST, NEEDED, START, DriftVerdict, StepCheck, judge_checks
from captious.stats import Estimate, mean_estimate

# Number of captions in the gallery.
SHOWN = 12
# Captions of a check that a click on its point shows.
ROLLOUTS = 20
SIGNS = {
    "falls": "metric falls",
    "distinct": "less distinct",
    "equal": "same for all",
    "repeats": "repetition",
    "length": "length",
    "ranks": "ranks differ",
}


@dataclass(frozen=True, eq=False, repr=False)
class Drift(PlainState, Result):
    """Every check of a reward run, compared with the first two."""

    log: RewardLog
    logged: Sequence[LoggedStep]
    images: str | Path | None = None
    """The folder of the images, which the page shows next to captions."""

    def __repr__(self) -> str:
        return f"<Drift {self.log.folder}: {len(self.logged)} checks, {len(self.alarms)} with an alarm>"

    @cached_property
    def checks(self) -> list[StepCheck]:
        """The numbers of each check."""
        return [self.log.check(one) for one in self.logged]

    @cached_property
    def verdicts(self) -> list[DriftVerdict]:
        """The verdict on each check."""
        return judge_checks(self.checks, self.log.labels, self.log.plan.held_out, bool(self.log.plan.probe))

    @property
    def alarms(self) -> list[int]:
        """The steps with two signs or more."""
        return [verdict.step for verdict in self.verdicts if verdict.alarm]

    def document(self) -> Document:
        """Return the page: verdicts, reward and watched metrics over the steps, and captions to look at."""
        size = sum(len(one.ids) for one in self.logged)
        title = f"{self.log.run.marker.name}: the reward and what it costs"
        if not self.logged:
            return Document(title, "no check yet", answer="The first batch of the training has not been scored.")
        every = "every step" if self.log.plan.every == 1 else f"every {self.log.plan.every} steps"
        about = (
            f"{len(self.logged)} checks from step {self.logged[0].step} to {self.logged[-1].step}, {every}; "
            f"{size:,} captions" + (f" of the same {len(set(probe)):,} items" if (probe := self.log.plan.probe) else "")
        )
        sections: list[Any] = [*self._list_signs(), *self._draw_charts(), self._make_table(), *self._make_gallery()]
        sections += [self._make_evidence(one) for one in self.logged]
        return Document(
            title,
            about,
            sections,
            notes=self._list_notes(),
            data=self._collect_data(),
            answer=self._answer(),
            page=f"Reward drift of {self.log.run.marker.name}",
        )

    def _answer(self) -> str:
        """Return the plain answer: an alarm and what it means, or how the reward and the captions have changed."""
        if len(self.logged) < FIRST:
            return f"No verdict yet: the first is at check {FIRST}, and there {_count_checks(len(self.logged))}."
        last = self.verdicts[-1]
        if not self.alarms:
            return f"No alarm. {last.summary}"
        first = next(one for one in self.verdicts if one.alarm)
        begin = f"Alarm at step {first.step}, the first of {len(self.alarms)}: {first.meaning}."
        latest = next(one for one in reversed(self.verdicts) if one.alarm)
        if latest.trend != first.trend:
            begin += f" At step {latest.step}, the last alarm: {latest.meaning}."
        return begin

    def _list_signs(self) -> list[Text]:
        """Return the signs of the first alarm; without an alarm, the first signs of all checks."""
        first = next((one for one in self.verdicts if one.alarm), None)
        if first is not None:
            lines = [f"{sign.text[0].upper()}{sign.text[1:]}." for sign in first.signs]
        else:
            lines = [f"Step {one.step}: {sign.text}." for one in self.verdicts for sign in one.signs][:6]
        return [Text(lines, f"Signs at step {first.step}" if first else "Signs", bullets=True)] if lines else []

    @cached_property
    def _curves(self) -> dict[str, list[Estimate]]:
        """Means over prompts with their intervals for each step, by label."""
        labels, plan = self.log.labels, self.log.plan
        keys = [*plan.rewards, *plan.held_out, *plan.diversity]
        # A single metric with weight 1 is the reward itself, so it has no curve of its own.
        is_single = list(plan.rewards.values()) == [1]
        reward = f"reward: {labels[keys.pop(0)]}" if is_single else "reward"
        curves = {reward: [_estimate_mean(one, one.reward) for one in self.logged]}
        for key in keys:
            rewarded = " (rewarded)" if key in plan.rewards else ""
            curves[f"{labels[key]}{rewarded}"] = [_estimate_mean(one, one.values[key]) for one in self.logged]
        curves["distinct bigrams"] = [Estimate(one.distinct) for one in self.checks]
        curves["words"] = [mean_estimate(one.words, _RESAMPLING) for one in self.checks]
        curves["captions of several prompts"] = [Estimate(one.equal) for one in self.checks]
        return curves

    def _draw_charts(self) -> list[Chart]:
        steps = [float(one.step) for one in self.logged]
        return [
            Chart(
                "lines",
                [
                    Series(
                        name,
                        steps,
                        [one.value for one in curve],
                        [one.low for one in curve],
                        [one.high for one in curve],
                        hollow=[not verdict.alarm for verdict in self.verdicts],
                        hrefs=[open_evidence(f"step-{one.step}") for one in self.logged],
                    )
                ],
                title=name,
                x="step",
                note="Click a point for its captions." + (" Filled: alarm." if self.alarms else ""),
            )
            for name, curve in self._curves.items()
        ]

    def _make_table(self) -> Table:
        columns: list[Column | str] = [Column("step", decimals=0), "signs"]
        columns += [Column(name, decimals=3, spread="half", level=_RESAMPLING.level) for name in self._curves]
        rows: list[list[Value]] = [
            [
                Cell(one.step, decimals=0, href=open_evidence(f"step-{one.step}")),
                ", ".join(SIGNS[sign.name] for sign in self.verdicts[number].signs),
                *(Cell.of(curve[number]) for curve in self._curves.values()),
                Cell(float(np.isnan(one.reward).mean()) if len(one.reward) else 0.0),
            ]
            for number, one in enumerate(self.logged)
        ]
        note = f"± is half of the {_RESAMPLING.level:.0%} interval. missing: the share of captions without a reward."
        return Table("checks", "Checks", [*columns, Column("missing", decimals=3)], rows, note)

    def _make_evidence(self, logged: LoggedStep) -> Evidence:
        """Return the rollouts of a check: those with the highest rewards, and their values by every metric."""
        order = np.argsort(-np.nan_to_num(logged.reward, nan=-np.inf), kind="stable").tolist()
        entries = []
        for index in order[:ROLLOUTS]:
            values = {"reward": logged.reward[index]}
            values |= {self.log.labels[key]: column[index] for key, column in logged.values.items()}
            facts = [f"prompt {logged.prompts[index]}"]
            facts += [f"{name} {value:.3f}" for name, value in values.items() if not np.isnan(value)]
            references = logged.references[index]
            entries.append(Entry(logged.ids[index], [Line(logged.texts[index])], None, facts, (), references))
        number = len(logged.ids)
        note = f"The {ROLLOUTS} of {number:,} captions with the highest reward." if number > ROLLOUTS else ""
        title = f"Step {logged.step}: {number:,} caption{'' if number == 1 else 's'}, highest reward first"
        return Evidence(f"step-{logged.step}", title, entries, note)

    def _make_gallery(self) -> list[Any]:
        """Return the captions that rank much higher by reward than by the metrics that are not rewarded."""
        plan, labels = self.log.plan, self.log.labels
        if not plan.held_out:
            return []
        facts = self.log.run.facts
        # All captions of all steps in one list; `position` below is an index into it.
        captions = [(step, index) for step in self.logged for index in range(len(step.ids))]
        reward = np.concatenate([step.reward for step in self.logged])
        held_out_shares = []
        for key in plan.held_out:
            sign = 1.0 if facts[key].higher_is_better else -1.0
            held_out_shares.append(_compute_shares(sign * np.concatenate([step.values[key] for step in self.logged])))
        reward_shares = _compute_shares(reward)
        with np.errstate(invalid="ignore"):
            gap = reward_shares - np.nanmean(np.stack(held_out_shares), axis=0)
        chosen = _select_by_gap(captions, np.where(np.isnan(gap), -np.inf, gap))
        pictures = self._find_pictures([(step, index) for _, step, index in chosen])
        entries: list[Entry] = []
        rows: list[list[Value]] = []
        for (position, step, index), picture in zip(chosen, pictures, strict=True):
            values = {labels[key]: float(step.values[key][index]) for key in plan.held_out}
            meters = [Meter("reward", float(reward_shares[position]), f"{reward[position]:.3f}")]
            meters += [
                Meter(name, float(np.nan_to_num(shares[position])), f"{value:.3f}")
                for (name, value), shares in zip(values.items(), held_out_shares, strict=True)
            ]
            text = step.texts[index]
            where, references = [f"step {step.step}", f"prompt {step.prompts[index]}"], step.references[index]
            entries.append(Entry(step.ids[index], [Line(text, "caption")], picture, where, meters, references))
            rows.append([step.ids[index], step.step, text, float(reward[position]), *values.values()])
        note = "The bars are shares of all logged captions with a lower value."
        heads: list[Column | str] = ["id", Column("step", decimals=0), "caption", Column("reward")]
        heads += [Column(labels[key]) for key in plan.held_out]
        title = "Captions that gained most reward and lost most of the others"
        return [Gallery(title, entries, note, replaces="captions"), Table("captions", title, heads, rows)]

    def _find_pictures(self, chosen: Sequence[tuple[LoggedStep, int]]) -> list[Picture | None]:
        if self.images is None:
            return [None] * len(chosen)
        names = [one.images[index] for one, index in chosen]
        paths = find_images(Path(self.images), [one.prompts[index] for one, index in chosen], names)
        return [Picture(path) if path and Path(path).is_file() else None for path in paths]

    def _list_notes(self) -> list[str]:
        plan = self.log.plan
        rewards = ", ".join(f"{weight:g} × {key}{plan.scalings.get(key, '')}" for key, weight in plan.rewards.items())
        return [
            f"reward: {rewards}",
            f"Each check is compared with the first {START}. An alarm is {NEEDED} signs or more at one check, from "
            f"check {FIRST} on. Intervals are of means over prompts.",
        ]

    def _collect_data(self) -> Mapping[str, Any]:
        return {
            "rewards": self.log.plan.to_record(),
            "alarms": self.alarms,
            "checks": [
                {
                    "step": one.step,
                    "captions": len(one.ids),
                    **{name: _convert_estimate(curve[number]) for name, curve in self._curves.items()},
                    "signs": [{"name": sign.name, "text": sign.text} for sign in self.verdicts[number].signs],
                    "alarm": self.verdicts[number].alarm,
                    "reward_trend": self.verdicts[number].trend,
                }
                for number, one in enumerate(self.logged)
            ],
        }


_RESAMPLING = Resampling(interval="t")


def _count_checks(number: int) -> str:
    return "is one" if number == 1 else f"are {number}"


def read_drift(folder: str | Path, images: str | Path | None = None) -> Drift:
    """Read the reward run of a folder that ``captious.rewards(..., out=folder)`` writes, finished or not."""
    log = open_log(folder)
    return Drift(log, log.read(), images)


def _estimate_mean(logged: LoggedStep, values: Floats) -> Estimate:
    """Return the mean over prompts of the captions' values."""
    prompts = {prompt: number for number, prompt in enumerate(dict.fromkeys(logged.prompts))}
    owners = np.array([prompts[prompt] for prompt in logged.prompts], dtype=np.int64)
    present = ~np.isnan(values)
    counts = np.bincount(owners[present], minlength=len(prompts))
    with np.errstate(invalid="ignore", divide="ignore"):
        means = np.bincount(owners[present], weights=values[present], minlength=len(prompts)) / counts
    return mean_estimate(means, _RESAMPLING)


def _select_by_gap(captions: Sequence[tuple[LoggedStep, int]], gap: Floats) -> list[tuple[int, LoggedStep, int]]:
    """Return the captions with the largest gap, with their index: no caption twice, and at most two of a prompt."""
    chosen: list[tuple[int, LoggedStep, int]] = []
    texts, prompts = set[str](), Counter[str]()
    for position in np.argsort(-gap, kind="stable").tolist():
        step, index = captions[position]
        if gap[position] <= 0 or len(chosen) == SHOWN:
            break
        if step.texts[index] not in texts and prompts[step.prompts[index]] < 2:
            chosen.append((position, step, index))
            texts.add(step.texts[index])
            prompts[step.prompts[index]] += 1
    return chosen


def _compute_shares(values: Floats) -> Floats:
    """Return the share of lower values, with half of the equal ones; NaN if a value is missing."""
    ordered = np.sort(values[~np.isnan(values)])
    below, up_to = np.searchsorted(ordered, values), np.searchsorted(ordered, values, side="right")
    return np.where(np.isnan(values), np.nan, (below + up_to) / max(2 * len(ordered), 1))


def _convert_estimate(estimate: Estimate) -> dict[str, float]:
    return {"value": estimate.value, "low": estimate.low, "high": estimate.high}
