"""Bots: what careful, noisy, random, lazy and leaving raters answer, by kind of task."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from scipy.stats import rankdata

from captious._random import keys_of
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.registry import parse
from captious.studio.events import Page
from captious.studio.kinds import kind_of
from captious.studio.kinds.kind import Answer
from captious.studio.plan import Plan
from captious.studio.tasks import Choice, Task
from captious.study.ratings import Preferences, as_ratings

BotName = Literal["careful", "noisy", "random", "lazy", "leaving"]
SHARES: Mapping[str, float] = {"careful": 0.6, "noisy": 0.15, "random": 0.1, "lazy": 0.1, "leaving": 0.05}
"""The crowd that is simulated unless another is asked for."""
COMMENTS = (
    "The image is hard to see on my screen.",
    "Two of the captions say the same.",
    "One caption is right but says too little.",
    "I would have liked a half point here.",
)
REMARKS = 0.02
"""Share of the pages of careful bots with a comment."""


class Bot(NamedTuple):
    """How a kind of rater answers."""

    noise: float
    """Standard deviation of a judgment, where quality goes from 0 to 1; also the share of wrong yes/no answers."""
    seconds: float
    """Median time a task."""
    slips: float = 0.02
    """Share of gold tasks that are answered like any other."""


BOTS: Mapping[BotName, Bot] = {
    "careful": Bot(0.1, 14.0),
    "noisy": Bot(0.3, 9.0, 0.2),
    "random": Bot(0.0, 7.0),
    "lazy": Bot(0.0, 1.3),
    "leaving": Bot(0.1, 14.0),
}


def qualities(plan: Plan, tasks: Mapping[str, Task], ratings: Any = None) -> dict[str, float]:
    """How good every caption is, from 0 for the worst to 1 for the best, by task and choice."""
    captions = {f"{task.id}/{choice.id}": (task, choice) for task in tasks.values() for choice in task.choices}
    if not captions:
        return {}
    if ratings is not None:
        values = _known(ratings, captions)
    elif any(task.references for task in tasks.values()):
        cider = parse("cider").measure(_caption_set(plan, captions)).items
        values = {caption: cider.get(caption, float("nan")) for caption in captions}
    else:
        values = {caption: float(len(choice.text.split())) for caption, (_, choice) in captions.items()}
    ids = sorted(captions)
    numbers = np.nan_to_num(np.array([values[caption] for caption in ids]), nan=0.0)
    rank = (rankdata(numbers) - 1) / max(len(ids) - 1, 1)
    return dict(zip(ids, rank.tolist(), strict=True))


def _caption_set(plan: Plan, captions: Mapping[str, tuple[Task, Choice]]) -> CaptionSet:
    """Every caption of the study but those of gold tasks, with its references."""
    asked = {key: (task, choice) for key, (task, choice) in captions.items() if task.gold is None}
    return CaptionSet.of(
        {key: choice.text for key, (_, choice) in asked.items()},
        {key: list(task.references) for key, (task, _) in asked.items()},
        name=plan.title,
    )


def _known(ratings: Any, captions: Mapping[str, tuple[Task, Choice]]) -> dict[str, float]:
    """The mean rating of every caption, found by item and system, or else by its text."""
    people = as_ratings(ratings)
    if isinstance(people, Preferences):
        raise InputError(f"{people.name}: holds pairs, expected ratings of captions")
    by_id = dict(zip(people.ids, people.mean.tolist(), strict=True))
    texts = {} if people.captions is None else {one: people.captions[one].candidate for one in people.ids}
    by_text = {text: by_id[one] for one, text in texts.items()}
    values = {
        caption: by_id.get(f"{task.item}/{choice.system}", by_text.get(" ".join(choice.text.split())))
        for caption, (task, choice) in captions.items()
        if task.gold is None
    }
    lacking = [caption for caption, value in values.items() if value is None]
    if lacking:
        task, choice = captions[lacking[0]]
        some = f"{task.item}/{choice.system}"
        raise InputError(f"{people.name}: no rating of {len(lacking)} captions of the study, such as {some!r}")
    return {caption: float("nan") if (value := values.get(caption)) is None else value for caption in captions}


@dataclass
class Judge:
    """What bots answer, by kind of task."""

    plan: Plan
    quality: Mapping[str, float]
    seed: int

    def answer(self, name: BotName, page: Page, rng: np.random.Generator) -> Answer:
        """The answer of a kind of bot to a page."""
        if name == "random":
            return self.random(page.task, rng)
        if name == "lazy":
            return self.lazy(page)
        bot = BOTS[name]
        answer = self.perceived(page.task, bot.noise, rng)
        if page.task.gold is not None and rng.random() >= bot.slips:
            return self._passing(page.task, answer, rng)
        return answer

    def _passing(self, task: Task, answer: Answer, rng: np.random.Generator) -> Answer:
        """What somebody who looks would answer to a check."""
        kind = kind_of(self.plan)
        for _ in range(2000):
            if kind.passes(self.plan, task, answer):
                break
            answer = self.random(task, rng)
        return answer

    def perceived(self, task: Task, noise: float, rng: np.random.Generator) -> Answer:
        """What somebody answers who sees the quality with some noise."""
        plan = self.plan
        if plan.kind == "yesno":
            truth = {thing: self._share(f"{task.id}/{thing}") < 0.75 for thing in task.things}
            return {"seen": {thing: seen != (rng.random() < noise) for thing, seen in truth.items()}}
        if plan.kind == "labels":
            names = [option.name for option in plan.options]
            right = names[int(self._share(task.id) * len(names))]
            return {"label": right if rng.random() >= noise else names[int(rng.integers(len(names)))]}
        seen = {choice.id: self.quality[f"{task.id}/{choice.id}"] + noise * rng.normal() for choice in task.choices}
        if plan.kind == "pairs":
            return {"preferred": max(seen, key=lambda choice: seen[choice]), "both_bad": False}
        if plan.kind == "ranking":
            return {"ranks": {choice: rank for rank, choice in enumerate(sorted(seen, key=lambda one: seen[one]), 1)}}
        return {
            "ratings": {
                choice: {
                    aspect.name: _point(aspect.points, value + noise * rng.normal() / 2) for aspect in plan.aspects
                }
                for choice, value in seen.items()
            }
        }

    def random(self, task: Task, rng: np.random.Generator) -> Answer:
        """An answer that has nothing to do with the task."""
        plan = self.plan
        if plan.kind == "yesno":
            return {"seen": {thing: bool(rng.random() < 0.5) for thing in task.things}}
        if plan.kind == "labels":
            return {"label": plan.options[int(rng.integers(len(plan.options)))].name}
        ids = [choice.id for choice in task.choices]
        if plan.kind == "pairs":
            return {"preferred": ids[int(rng.integers(len(ids)))], "both_bad": False}
        if plan.kind == "ranking":
            return {"ranks": {ids[index]: rank for rank, index in enumerate(rng.permutation(len(ids)).tolist(), 1)}}
        return {
            "ratings": {
                choice: {aspect.name: _point(aspect.points, rng.random()) for aspect in plan.aspects} for choice in ids
            }
        }

    def lazy(self, page: Page) -> Answer:
        """The same click everywhere."""
        plan, task = self.plan, page.task
        if plan.kind == "yesno":
            return {"seen": dict.fromkeys(task.things, True)}
        if plan.kind == "labels":
            return {"label": plan.options[0].name}
        if plan.kind == "pairs":
            return {"preferred": page.order[0], "both_bad": False}
        if plan.kind == "ranking":
            return {"ranks": {choice: rank for rank, choice in enumerate(page.order, 1)}}
        return {
            "ratings": {
                choice.id: {aspect.name: _point(aspect.points, 0.7) for aspect in plan.aspects}
                for choice in task.choices
            }
        }

    def _share(self, name: str) -> float:
        """A number from 0 to 1 that belongs to a name: what is true of a picture, the same for all who look."""
        return float(np.random.default_rng(int(keys_of([name], self.seed)[0])).random())


def _point(points: Sequence[float], share: float) -> float:
    """The point of a scale nearest to a share of its way."""
    return points[min(max(round(share * (len(points) - 1)), 0), len(points) - 1)]
