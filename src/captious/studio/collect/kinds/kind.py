"""Interface of a kind of task: from the files of a plan to tasks, and from a posted form to an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious.stats.rater_agreement import Measurement
from captious.studio.collect._subjects import Subject
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import KindName, Plan

# A complete answer, by ids and never by positions:
#     ratings  {"ratings": {choice: {aspect: 4 or None}}}
#     ranking  {"ranks": {choice: 1, 2, …}}, the best has the highest
#     pairs    {"preferred": choice or None, "both_bad": False}
#     yesno    {"seen": {thing: True, False or None}}
#     labels   {"label": name or None}
Answer = Mapping[str, Any]
# Ids of choices; a page has fewer captions.
LETTERS = "abcdefghijklmnopqrstuvwxyz"


@dataclass(frozen=True)
class Gap:
    """A missing value of a form, so that the page can name it and link to it."""

    field: str
    """Name of the form field."""
    message: str
    """The text that the rater reads, such as: Caption 2 has no rating for fluency."""


@dataclass(frozen=True)
class GradedAnswer:
    """One part of an answer with the expected one, as a rater reads it."""

    about: str
    """The subject of the answer, such as: Caption 2. Empty if a page asks one thing."""
    given: str
    expected: str
    right: bool


class Incomplete(Exception):
    """A form with missing or invalid values. Nothing is stored; the page shows the form again."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        super().__init__("; ".join(gap.message for gap in gaps))
        self.gaps = tuple(gaps)


class TaskKind(ABC):
    """Interface of one kind of task to the rest of the studio."""

    name: ClassVar[KindName]
    measurement: ClassVar[Measurement]
    """Level of measurement at which agreement is computed, unless the plan names another."""
    needs: ClassVar[str]
    """The condition that a subject must meet, in words."""

    @abstractmethod
    def split_pages(
        self, plan: Plan, subject: Subject, rng: np.random.Generator
    ) -> Iterable[Sequence[tuple[str, str]]]:
        """Return the captions of each page about a subject, as pairs of system and text."""

    def make_tasks(self, plan: Plan, subjects: Sequence[Subject]) -> list[Task]:
        """Make the tasks about these subjects, in their order."""
        rng = np.random.default_rng(plan.seed)
        pages = [(subject, captions) for subject in subjects for captions in self.split_pages(plan, subject, rng)]
        return [
            Task(
                f"t{number}",
                subject.id,
                subject.image,
                make_choices(captions, rng),
                subject.references,
                subject.things,
                subject.heading,
                None,
                subject.fields,
                audio=subject.audio,
                video=subject.video,
            )
            for number, (subject, captions) in enumerate(pages, 1)
        ]

    def draw_order(self, plan: Plan, task: Task, rng: np.random.Generator) -> tuple[str, ...]:
        """Return the ids of the choices in random order, so that no system has a fixed place."""
        return tuple(task.choices[index].id for index in rng.permutation(len(task.choices)))

    @abstractmethod
    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """Parse a posted form; raise `Incomplete` if a value is missing or not one of the choices."""

    @abstractmethod
    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """Return the form fields of an answer, to show it again."""

    @abstractmethod
    def parse_gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """Parse the column ``expected`` of the file of gold tasks into the value that `passes` compares with.

        None if it is not about this page; `InputError`, without the place, if it is invalid.
        """

    @abstractmethod
    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Return True if the answer of a gold task is the expected one."""

    @abstractmethod
    def grade_answer(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """Return the parts of an answer to a practice task with the expected ones, in the words of the page."""

    @abstractmethod
    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """Return a number for every unit of agreement (caption, pair, thing, image), by what was asked.

        Ratings have a table for each aspect and ``rating`` for the overall one; other kinds have one table.
        """


def make_choices(captions: Sequence[tuple[str, str]], rng: np.random.Generator) -> tuple[Choice, ...]:
    """Make the choices of a page, with random letters that say nothing about the systems."""
    letters = rng.permutation(len(captions)).tolist() if len(captions) > 1 else range(len(captions))
    return tuple(
        [Choice(LETTERS[letter], text, system) for letter, (system, text) in zip(letters, captions, strict=True)]
    )


def find_choice(task: Task, name: Any) -> Choice | None:
    """Return the choice of a system, or at a place (1, 2, …) if captions have none; None if another page has it."""
    for place, choice in enumerate(task.choices, 1):
        if name in ((choice.system,) if choice.system else (place, str(place))):
            return choice
    return None


def parse_option(
    plan: Plan, value: str | None, options: Mapping[str, Any], field: str, missing: str
) -> tuple[Any, list[Gap]]:
    """Return the value of an option in a form and no gap, or None and the gap."""
    if not value:
        return None, [Gap(field, missing)]
    if value not in options:
        return None, [Gap(field, plan.wording("not_a_choice", value=value[:40]))]
    return options[value], []
