"""The contract of a kind of task: from the files of a plan to tasks, and from a form that was sent to an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.stats.agreement import Measurement
from captious.studio.collect._subjects import Subject
from captious.studio.collect.plan import KindName, Plan
from captious.studio.collect.tasks import Choice, Task

Answer = Mapping[str, Any]
"""One whole value, in ids and never in positions. By kind: ``{"ratings": {choice: {aspect: 4 or None}}}``,
``{"ranks": {choice: 1, 2, …; the best has the highest}}``, ``{"preferred": choice or None, "both_bad": False}``,
``{"seen": {thing: True, False or None}}``, ``{"label": name or None}``."""
LETTERS = "abcdefghijklmnopqrstuvwxyz"
"""Ids of choices; no page has more captions."""


@dataclass(frozen=True)
class Gap:
    """What is missing in a form, so that the page can name it and go to it."""

    field: str
    """Name of the form field."""
    message: str
    """What the rater reads, such as: Caption 2 has no rating for fluency."""


@dataclass(frozen=True)
class GradedAnswer:
    """One thing that was answered, and what was expected, as a rater reads it."""

    about: str
    """What the answer is about, such as: Caption 2. Empty where a page asks one thing."""
    given: str
    expected: str
    right: bool


class Incomplete(Exception):
    """A form without a whole answer. Nothing of it is stored; the page shows it again with its values."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        super().__init__("; ".join(gap.message for gap in gaps))
        self.gaps = tuple(gaps)


class TaskKind(ABC):
    """What the rest of the studio needs to know of one kind of task."""

    name: ClassVar[KindName]
    measurement: ClassVar[Measurement]
    """Level of measurement at which agreement is computed, unless the plan names another."""
    needs: ClassVar[str]
    """What a subject must have to be asked about, in words."""

    @abstractmethod
    def pages(self, plan: Plan, subject: Subject, rng: np.random.Generator) -> Iterable[Sequence[tuple[str, str]]]:
        """The captions of each page about a subject, with their systems."""

    def tasks(self, plan: Plan, subjects: Sequence[Subject]) -> list[Task]:
        """The tasks that ask about these subjects, in their order."""
        rng = np.random.default_rng(plan.seed)
        pages = [(subject, captions) for subject in subjects for captions in self.pages(plan, subject, rng)]
        return [
            Task(
                f"t{number}",
                subject.id,
                subject.image,
                choices_of(captions, rng),
                subject.references,
                subject.things,
                subject.heading,
                None,
                subject.fields,
                audio=subject.audio,
            )
            for number, (subject, captions) in enumerate(pages, 1)
        ]

    def order(self, plan: Plan, task: Task, rng: np.random.Generator) -> tuple[str, ...]:
        """Ids of the choices in the order of this page: shuffled, so that no system has a place of its own."""
        return tuple(task.choices[index].id for index in rng.permutation(len(task.choices)))

    @abstractmethod
    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """The answer of a form that was sent; `Incomplete` where a part is missing or none of the choices."""

    @abstractmethod
    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """The form fields of an answer, to show it again."""

    @abstractmethod
    def gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """What `passes` compares with, from the column ``expected`` of the file of gold tasks.

        None where it says nothing about this page; an InputError, without the place, where it makes no sense.
        """

    @abstractmethod
    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Whether the answer of a gold task is the expected one."""

    @abstractmethod
    def compared(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """The answer to a task of practice beside the expected one, in the words of the page."""

    @abstractmethod
    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """A number for every unit that raters can agree about (caption, pair, thing, image), by what was asked.

        Ratings have a table for each aspect and ``rating`` for the overall one; other kinds have one table.
        """


def choices_of(captions: Sequence[tuple[str, str]], rng: np.random.Generator) -> tuple[Choice, ...]:
    """The captions as choices whose letters say nothing about the systems."""
    letters = rng.permutation(len(captions)).tolist() if len(captions) > 1 else range(len(captions))
    return tuple(
        [Choice(LETTERS[letter], text, system) for letter, (system, text) in zip(letters, captions, strict=True)]
    )


def named_choice(task: Task, name: Any) -> Choice | None:
    """The choice of a system, or of the place (1, 2, …) of a caption without one; None where another page has it."""
    for place, choice in enumerate(task.choices, 1):
        if name in ((choice.system,) if choice.system else (place, str(place))):
            return choice
    return None


def one_of(
    plan: Plan, value: str | None, options: Mapping[str, Any], field: str, missing: str
) -> tuple[Any, list[Gap]]:
    """What a form's value stands for, or the gap that it leaves."""
    if not value:
        return None, [Gap(field, missing)]
    if value not in options:
        return None, [Gap(field, plan.wording("not_a_choice", value=value[:40]))]
    return options[value], []
