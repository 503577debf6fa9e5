"""The owner's pages of single tasks and raters: captions shown, answers, times and comments."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median
from typing import NamedTuple

from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response
from starlette.routing import BaseRoute, Route

from captious.models.clip_stills import can_decode, make_poster
from captious.studio.collect._clips import describe_clip
from captious.studio.collect._events import Answered
from captious.studio.collect._rater_pages import (
    make_image_response,
    make_sound_response,
    make_still_response,
    make_video_response,
)
from captious.studio.collect._rendering import PageRenderer, format_point
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Plan
from captious.studio.owner.export import make_sort_key

# Rows of a page.
SHOWN = 50
PURPOSES = {"work": "", "gold": "check", "repeat": "repeated"}


class AnswerLine(NamedTuple):
    """A caption or thing in the order that the rater saw, with its answer."""

    place: str
    system: str
    text: str
    answer: str


@dataclass(frozen=True)
class AnswerView:
    """One answer as the owner's page shows it."""

    rater: str
    task: Task
    purpose: str
    lines: tuple[AnswerLine, ...]
    seconds: float | None
    late: bool
    excluded: bool
    comment: str


@dataclass(frozen=True)
class TaskRow:
    """A row of the list of tasks."""

    task: Task
    answers: int
    seconds: float | None
    """The median time on its page."""
    comments: int


def build_answer_view(plan: Plan, task: Task, one: Answered) -> AnswerView:
    """Build the view of an answer, with captions in the order that the rater saw."""
    purpose, lines = PURPOSES[one.purpose], tuple(build_answer_lines(plan, task, one))
    return AnswerView(one.rater, task, purpose, lines, one.seconds, one.late, one.excluded, one.comment)


def build_answer_lines(plan: Plan, task: Task, one: Answered) -> list[AnswerLine]:
    """Return a line with the answer for each caption or thing of a page; for labels one line per text."""
    answer = one.answer
    if plan.kind == "yesno":
        words = {True: "yes", False: "no", None: "cannot judge"}
        return [AnswerLine("", "", thing, words[answer["seen"].get(thing)]) for thing in one.order or task.things]
    choices = {choice.id: choice for choice in task.choices}
    shown = [choices[key] for key in one.order if key in choices] or list(task.choices)
    if plan.kind == "labels":
        texts = [choice.text for choice in shown] or [task.heading]
        return [AnswerLine("", "", text, str(answer["label"] or "cannot judge")) for text in texts]
    lines = []
    for place, choice in enumerate(shown, 1):
        if plan.kind == "ratings":
            said = _format_ratings(plan, answer["ratings"].get(choice.id, {}))
        elif plan.kind == "ranking":
            said = f"rank {format_point(answer['ranks'][choice.id])} of {len(task.choices)}"
        else:
            said = "preferred" if answer["preferred"] == choice.id else ""
        lines.append(
            AnswerLine(str(place) if plan.kind != "pairs" else "AB"[place - 1], choice.system, choice.text, said)
        )
    if plan.kind == "pairs" and (answer["preferred"] is None or answer.get("both_bad")):
        said = "; ".join(["equally good"] * (answer["preferred"] is None) + ["both bad"] * bool(answer.get("both_bad")))
        lines.append(AnswerLine("", "", "", said))
    return lines


def _format_ratings(plan: Plan, ratings: Mapping[str, float | None]) -> str:
    values = [(aspect.label, ratings.get(aspect.name)) for aspect in plan.aspects]
    said = [(label, "cannot judge" if value is None else format_point(value)) for label, value in values]
    return said[0][1] if len(said) == 1 else " · ".join(f"{label} {value}" for label, value in said)


def build_task_rows(tasks: Iterable[Task], answers: Sequence[Answered]) -> list[TaskRow]:
    """Build the rows of all tasks in the order of their numbers."""
    by_task: dict[str, list[Answered]] = {}
    for one in answers:
        by_task.setdefault(one.task, []).append(one)
    rows = []
    for task in sorted(tasks, key=lambda one: make_sort_key(one.id)):
        own = [one for one in by_task.get(task.id, ()) if not one.excluded]
        times = [one.seconds for one in own if one.seconds is not None]
        work = sum(one.purpose != "repeat" for one in own)
        rows.append(TaskRow(task, work, median(times) if times else None, sum(bool(one.comment) for one in own)))
    return rows


def format_seconds(seconds: float) -> str:
    """Format a time in seconds or minutes.

    >>> format_seconds(12.34), format_seconds(200)
    ('12.3 s', '3.3 min')
    """
    return f"{seconds:.1f} s" if seconds < 120 else f"{seconds / 60:.1f} min"


class AnswerPages:
    """The pages of tasks and raters below ``/owner``, with their images and sounds."""

    def __init__(
        self,
        plan: Callable[[], Plan],
        renderer: Callable[[], PageRenderer],
        answers: Callable[[], tuple[Mapping[str, Task], list[Answered]]],
    ) -> None:
        self._plan, self._renderer, self._answers = plan, renderer, answers

    def routes(self) -> list[BaseRoute]:
        """Return the routes of these pages."""
        return [
            Route("/owner/tasks", self.show_tasks),
            Route("/owner/tasks/{task}", self.show_task),
            Route("/owner/raters/{rater}", self.show_rater),
            Route("/owner/image/{task}", self.send_image),
            Route("/owner/sound/{task}", self.send_sound),
            Route("/owner/video/{task}", self.send_video),
            Route("/owner/poster/{task}", self.send_poster),
        ]

    def show_tasks(self, request: Request) -> Response:
        """Show a page of the list of tasks."""
        tasks, answers = self._answers()
        rows = build_task_rows(tasks.values(), answers)
        return self._render("owner-tasks.html", request, rows, heading="Tasks", overlap=self._plan().overlap)

    def show_task(self, request: Request) -> Response:
        """Show one task with all its answers."""
        tasks, answers = self._answers()
        task = tasks.get(request.path_params["task"])
        if task is None:
            raise HTTPException(404)
        own = sorted((one for one in answers if one.task == task.id), key=lambda one: make_sort_key(one.rater))
        views = [build_answer_view(self._plan(), task, one) for one in own]
        heading = f"{task.id}: {task.item}" if task.item else task.id
        clip = describe_clip(task, task.id, "/owner")
        return self._render("owner-answers.html", request, views, heading=heading, task=task, clip=clip)

    def show_rater(self, request: Request) -> Response:
        """Show all answers of one rater, the first one first."""
        tasks, answers = self._answers()
        rater = request.path_params["rater"]
        own = sorted((one for one in answers if one.rater == rater), key=lambda one: one.seq)
        if not own:
            raise HTTPException(404, f"{rater} has not answered a task.")
        views = [build_answer_view(self._plan(), tasks[one.task], one) for one in own]
        return self._render("owner-answers.html", request, views, heading=rater, task=None, clip=None)

    def send_image(self, request: Request) -> Response:
        """Send the image of a task."""
        task = self._answers()[0].get(request.path_params["task"])
        if task is None or task.image is None:
            raise HTTPException(404)
        return make_image_response(self._plan(), task.image, f"task {task.id}")

    def send_sound(self, request: Request) -> Response:
        """Send the sound of a task."""
        task = self._answers()[0].get(request.path_params["task"])
        if task is None or task.audio is None:
            raise HTTPException(404)
        return make_sound_response(self._plan(), task.audio, f"task {task.id}")

    def _find_video_task(self, request: Request) -> Task:
        task = self._answers()[0].get(request.path_params["task"])
        if task is None or task.video is None:
            raise HTTPException(404)
        return task

    def send_video(self, request: Request) -> Response:
        """Send the video of a task."""
        return make_video_response(self._plan(), self._find_video_task(request))

    def send_poster(self, request: Request) -> Response:
        """Send the middle frame of the video of a task."""
        return make_still_response(self._plan(), self._find_video_task(request), make_poster)

    def _render(self, template: str, request: Request, rows: Sequence[object], **values: object) -> Response:
        """Render a page with `SHOWN` of the rows, and links to the previous and next ones."""
        written = request.query_params.get("from", "")
        first = int(written[:9]) if written.isascii() and written.isdigit() else 0
        path, last = request.url.path, first + SHOWN
        earlier = f"{path}?from={max(0, first - SHOWN)}" if first else ""
        later = f"{path}?from={last}" if last < len(rows) else ""
        text = self._renderer().render(
            template,
            rows=rows[first:last],
            first=first,
            number=len(rows),
            earlier=earlier,
            later=later,
            pictured=bool(self._plan().images or (self._plan().videos and can_decode())),
            stills=can_decode(),
            show_references=self._plan().show_references,
            seconds=format_seconds,
            **values,
        )
        return HTMLResponse(text)
