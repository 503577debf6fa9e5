"""Simulated raters, to try a study before people see it.

They are careful, noisy, random, lazy, or leave early. Their answers are validated by the kind of task like those of
people, and stored in the log.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np

from captious._core.numbers import parse_number
from captious._core.random import make_keys
from captious.captions import CaptionSet
from captious.errors import InputError, format_suggestion
from captious.metrics.registry import parse
from captious.options import SEED, get_choices
from captious.render import Column, Document, Result, Table
from captious.render.document import Value
from captious.stats.correlation import mid_ranks
from captious.studio.access import hash_token, make_token
from captious.studio.collect._events import Page
from captious.studio.collect._survey import Moment, list_questions, read_survey, simulate_survey
from captious.studio.collect.kinds import Answer, kind_of
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import Choice, Task, build_tasks
from captious.studio.collect.study_plan import Plan
from captious.studio.owner.raters import SIMULATED
from captious.studio.owner.study_progress import StudyProgress, study_progress
from captious.study.judgments import Preferences, as_ratings

BotName = Literal["careful", "noisy", "random", "lazy", "leaving"]
# Default share of each kind of bot.
SHARES: Mapping[str, float] = {"careful": 0.6, "noisy": 0.15, "random": 0.1, "lazy": 0.1, "leaving": 0.05}
COMMENTS = (
    "The image is hard to see on my screen.",
    "Two of the captions say the same.",
    "One caption is right but says too little.",
    "I would have liked a half point here.",
)
# Share of the pages of careful bots with a comment.
REMARKS = 0.02


class Bot(NamedTuple):
    """Parameters of a kind of simulated rater."""

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


@dataclass(frozen=True, repr=False)
class Simulation(Result):
    """The simulated raters, and the progress of the study with their flags."""

    bots: Mapping[str, BotName]
    """The kind of every rater."""
    progress: StudyProgress

    def __repr__(self) -> str:
        return f"<Simulation: {len(self.bots)} raters, {self.progress.coverage.answers} answers>"

    def document(self) -> Document:
        """Return a row per kind of bot, then the progress of the study."""
        progress = self.progress.document()
        sections = [self._build_table(), *progress.sections]
        data = {"simulated": self._build_rows(), **progress.data}
        return Document(
            f"{self.progress.title}: simulated",
            progress.about,
            sections,
            progress.warnings,
            progress.notes,
            (),
            data,
            "simulation",
        )

    def _build_rows(self) -> list[dict[str, Any]]:
        by_id = {rater.id: rater for rater in self.progress.raters}
        rows = []
        for name in BOTS:
            raters = [by_id[rater] for rater, bot in self.bots.items() if bot == name]
            if raters:
                alphas = [rater.agreement.alpha for rater in raters if rater.agreement.tasks]
                rows.append(
                    {
                        "bot": name,
                        "raters": len(raters),
                        "tasks": sum(rater.tasks for rater in raters),
                        "agreement": float(np.mean(alphas)) if alphas else float("nan"),
                        "flagged": sum(bool(rater.flags) for rater in raters),
                        "flags": dict(Counter(flag.name for rater in raters for flag in rater.flags)),
                    }
                )
        return rows

    def _build_table(self) -> Table:
        columns: list[Column | str] = ["raters who are", Column("number"), Column("tasks")]
        columns += [Column("agreement", decimals=2), Column("flagged"), "flags"]
        rows: list[list[Value]] = [
            [
                *(row["bot"], row["raters"], row["tasks"], row["agreement"], row["flagged"]),
                ", ".join(f"{name} {number}" for name, number in row["flags"].items()),
            ]
            for row in self._build_rows()
        ]
        note = "agreement: mean part in alpha"
        return Table("simulated", "Simulated raters, and what the flags found", columns, rows, note)


def simulate_raters(
    plan: Plan,
    log: StudyLog,
    *,
    raters: int = 20,
    share: Mapping[str, float] | None = None,
    seed: int = SEED,
    ratings: Any = None,
    progress: Callable[[str], None] | None = None,
) -> Simulation:
    """Let simulated raters answer a study that has no answer of a person.

    Parameters
    ----------
    plan, log
        The study; a log that has not begun is begun. A server may run on the same log.
    raters, share
        How many, and the share of each kind: careful, noisy, random, lazy, leaving.
    seed
        Of everything random; the same seed gives the same answers.
    ratings
        Known ratings of the captions, in any form that ``captious.correlate`` takes. Careful raters follow them.
        Without them CIDEr stands for quality, and without references the length of a caption.
    progress
        Called with the name of each step as it begins.
    """
    begun = log.begun
    if begun:
        _refuse_people(log)
    names = _choose_kinds(raters, share or SHARES)
    step = progress or (lambda name: None)
    step("quality")
    tasks = log.tasks() if begun else {task.id: task for task in build_tasks(plan)}
    answers = BotAnswers(plan, compute_qualities(plan, tasks, ratings), seed)
    if not begun:  # only after all arguments are checked
        log.begin(plan, list(tasks.values()))
    people = log.add_raters([hash_token(make_token()) for _ in names])
    step("answers")
    visits = [BotVisit(person.id, name, log, answers) for person, name in zip(people, names, strict=True)]
    _run(visits, seed)
    step("progress")
    return Simulation({visit.rater: visit.name for visit in visits}, study_progress(log))


def _run(visits: Sequence[BotVisit], seed: int) -> None:
    """Run the visits in random order, until all have finished, left, or wait for tasks leased to others."""
    rng = np.random.default_rng(seed)
    active, waiting = list(visits), []
    while active:
        answers = sum(visit.answers for visit in visits)
        while active:
            visit = active[int(rng.integers(len(active)))]
            if not visit.take_step():
                active.remove(visit)
                waiting += [visit] if visit.is_waiting else []
        if sum(visit.answers for visit in visits) > answers:
            active, waiting = waiting, []


def _refuse_people(log: StudyLog) -> None:
    """Raise InputError if the study has answers of people: simulated answers must not mix with them."""
    bots: set[str] = set()
    for event in log.events():
        if SIMULATED in event.body:
            bots.add(event.rater)
        elif event.kind == "answered" and event.rater not in bots:
            raise InputError(
                f"{log.name}: rater {event.rater} has answered this study, expected one without answers of people; "
                "simulate it in a copy, with a database of its own"
            )


def _choose_kinds(raters: int, share: Mapping[str, float]) -> list[BotName]:
    """Return the kind of every rater, in a shuffled order; the counts are the shares, rounded."""
    kinds = get_choices(BotName)
    for name, part in share.items():
        if name not in kinds:
            raise InputError(f"share: {name!r}, expected {', '.join(kinds)}{format_suggestion(name, kinds)}")
        if not 0 <= part < float("inf"):
            raise InputError(f"share: {name}={part:g}, expected a number from 0 to 1")
    total = sum(share.values())
    if raters < 1 or total <= 0:
        raise InputError(f"raters={raters}, share={dict(share)}: expected at least one rater")
    ends = np.cumsum(list(share.values())) / total * raters
    names: list[BotName] = []
    for name, end in zip(share, ends, strict=True):
        names += [name] * (round(float(end)) - len(names))  # type: ignore[list-item]
    return [names[index] for index in np.random.default_rng(0).permutation(len(names))]


def read_share(written: Sequence[str]) -> dict[str, float]:
    """Parse shares such as ``careful=0.5``.

    >>> read_share(["careful=0.5", "random=0.5"])
    {'careful': 0.5, 'random': 0.5}
    """
    share = {}
    for part in written:
        name, _, number = part.partition("=")
        try:
            share[name.strip()] = parse_number(number)
        except ValueError:
            raise InputError(f"share={part}: expected a kind and its share, such as careful=0.5") from None
    return share


class BotVisit:
    """The visit of one bot, with the same steps as on the pages."""

    def __init__(self, rater: str, name: BotName, log: StudyLog, bots: BotAnswers) -> None:
        self.rater, self.name = rater, name
        self._log, self._bots, self._plan = log, bots, bots.plan
        self._at: Literal["link", "consent", "task", "wait", "end"] = "link"
        self._page: Page | None = None
        self.answers = 0
        self._rng = np.random.default_rng(int(make_keys([f"bot/{rater}"], bots.seed)[0]))
        self._leaves_after = int(self._rng.integers(1, max(2, self._plan.per_rater))) if name == "leaving" else None
        self._record("joined", {SIMULATED: name})

    @property
    def is_waiting(self) -> bool:
        """Whether all remaining tasks are leased to others."""
        return self._at == "wait"

    def take_step(self) -> bool:
        """Take the next step; return False at the end, if the bot leaves, or if it must wait for others."""
        if self._at == "link" and self._plan.consent.strip():
            self._at = "consent"
        elif self._at in ("link", "consent", "wait"):
            if self._at == "consent":
                self._record("consented")
            if self._at != "wait":
                self._answer_survey("before")
            self._open_next()
        elif self._at == "end" or self._leaves_after == self.answers:
            return False
        else:
            self._answer_task()
            self._open_next()
        return not self.is_waiting

    def _open_next(self) -> None:
        self._page = self._log.next_page(self.rater)
        if self._page is not None:
            self._at = "task"
            return
        why = self._log.explain_no_page(self.rater)
        self._at = "wait" if why == "wait" else "end"
        if why == "finished":
            self._answer_survey("after")
            self._record("finished")

    def _answer_survey(self, when: Moment) -> None:
        """Answer the questions about the rater."""
        if list_questions(self._plan, when):
            answers, _ = read_survey(self._plan, when, simulate_survey(self._plan, when, self._rng))
            body = {"when": when, "answers": answers}
            self._log.record(self.rater, "surveyed", f"{self.rater}.bot.surveyed.{when}", body=body)

    def _answer_task(self) -> None:
        page, plan, kind = self._page, self._plan, kind_of(self._plan)
        assert page is not None
        fields = kind.form(plan, page.task, page.order, self._bots.make_answer(self.name, page, self._rng))
        body: dict[str, Any] = {"answer": kind.read(plan, page.task, page.order, fields)}
        if self.name == "careful" and self._rng.random() < REMARKS:
            body["comment"] = str(self._rng.choice(COMMENTS))
        seconds = BOTS[self.name].seconds * float(np.exp(0.4 * self._rng.normal()))
        body |= {"purpose": page.purpose, "order": list(page.order), "seconds": round(seconds, 1)}
        self.answers += 1
        self._log.record(self.rater, "answered", f"{self.rater}.bot.{self.answers}", page.task.id, body)

    def _record(self, event: Literal["joined", "consented", "finished"], body: Mapping[str, Any] | None = None) -> None:
        self._log.record(self.rater, event, f"{self.rater}.bot.{event}", body=body or {})


# Answers


def compute_qualities(plan: Plan, tasks: Mapping[str, Task], ratings: Any = None) -> dict[str, float]:
    """Return the quality of every caption, from 0 for the worst to 1 for the best, by task and choice."""
    captions = {f"{task.id}/{choice.id}": (task, choice) for task in tasks.values() for choice in task.choices}
    if not captions:
        return {}
    if ratings is not None:
        values = _find_ratings(ratings, captions)
    elif any(task.references for task in tasks.values()):
        cider = parse("cider").measure(_make_caption_set(plan, captions)).items
        values = {caption: cider.get(caption, float("nan")) for caption in captions}
    else:
        values = {caption: float(len(choice.text.split())) for caption, (_, choice) in captions.items()}
    ids = sorted(captions)
    numbers = np.nan_to_num(np.array([values[caption] for caption in ids]), nan=0.0)
    rank = (mid_ranks(numbers) - 1) / max(len(ids) - 1, 1)
    return dict(zip(ids, rank.tolist(), strict=True))


def _make_caption_set(plan: Plan, captions: Mapping[str, tuple[Task, Choice]]) -> CaptionSet:
    """Return all captions except those of gold tasks, with references."""
    asked = {key: (task, choice) for key, (task, choice) in captions.items() if task.gold is None}
    return CaptionSet.of(
        {key: choice.text for key, (_, choice) in asked.items()},
        {key: list(task.references) for key, (task, _) in asked.items()},
        name=plan.title,
    )


def _find_ratings(ratings: Any, captions: Mapping[str, tuple[Task, Choice]]) -> dict[str, float]:
    """Return the mean rating of every caption, matched by item and system, or else by its text."""
    people = as_ratings(ratings)
    if isinstance(people, Preferences):
        raise InputError(f"{people.name}: contains pairs, expected ratings of captions")
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
class BotAnswers:
    """Generator of answers by kind of bot and of task."""

    plan: Plan
    quality: Mapping[str, float]
    seed: int

    def make_answer(self, name: BotName, page: Page, rng: np.random.Generator) -> Answer:
        """Return the answer of a kind of bot to a page."""
        if name == "random":
            return self.make_random_answer(page.task, rng)
        if name == "lazy":
            return self.make_lazy_answer(page)
        bot = BOTS[name]
        answer = self.make_noisy_answer(page.task, bot.noise, rng)
        if page.task.gold is not None and rng.random() >= bot.slips:
            return self._make_passing_answer(page.task, answer, rng)
        return answer

    def _make_passing_answer(self, task: Task, answer: Answer, rng: np.random.Generator) -> Answer:
        """Return an answer that passes a check."""
        kind = kind_of(self.plan)
        for _ in range(2000):
            if kind.passes(self.plan, task, answer):
                break
            answer = self.make_random_answer(task, rng)
        return answer

    def make_noisy_answer(self, task: Task, noise: float, rng: np.random.Generator) -> Answer:
        """Return an answer that follows the quality with some noise."""
        plan = self.plan
        if plan.kind == "yesno":
            truth = {thing: self._draw_share(f"{task.id}/{thing}") < 0.75 for thing in task.things}
            return {"seen": {thing: seen != (rng.random() < noise) for thing, seen in truth.items()}}
        if plan.kind == "labels":
            names = [option.name for option in plan.options]
            right = names[int(self._draw_share(task.id) * len(names))]
            return {"label": right if rng.random() >= noise else names[int(rng.integers(len(names)))]}
        seen = {choice.id: self.quality[f"{task.id}/{choice.id}"] + noise * rng.normal() for choice in task.choices}
        if plan.kind == "pairs":
            return {"preferred": max(seen, key=lambda choice: seen[choice]), "both_bad": False}
        if plan.kind == "ranking":
            return {"ranks": {choice: rank for rank, choice in enumerate(sorted(seen, key=lambda one: seen[one]), 1)}}
        return {
            "ratings": {
                choice: {
                    aspect.name: _get_point(aspect.points, value + noise * rng.normal() / 2) for aspect in plan.aspects
                }
                for choice, value in seen.items()
            }
        }

    def make_random_answer(self, task: Task, rng: np.random.Generator) -> Answer:
        """Return a random answer, independent of the task."""
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
                choice: {aspect.name: _get_point(aspect.points, rng.random()) for aspect in plan.aspects}
                for choice in ids
            }
        }

    def make_lazy_answer(self, page: Page) -> Answer:
        """Return the same click everywhere."""
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
                choice.id: {aspect.name: _get_point(aspect.points, 0.7) for aspect in plan.aspects}
                for choice in task.choices
            }
        }

    def _draw_share(self, name: str) -> float:
        """Return a number from 0 to 1 that depends only on the name and the seed: the truth about a picture, for all
        bots.
        """
        return float(np.random.default_rng(int(make_keys([name], self.seed)[0])).random())


def _get_point(points: Sequence[float], share: float) -> float:
    """Return the point of a scale nearest to a share of its length."""
    return points[min(max(round(share * (len(points) - 1)), 0), len(points) - 1)]
