"""The contract of a kind of task: from the files of a plan to tasks, and from a form that was sent to an answer."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from captious.studio.plan import KindName, Plan
from captious.studio.tasks import Task

Answer = Mapping[str, Any]
"""One whole value, in ids and never in positions. By kind: ``{"ratings": {choice: {aspect: 4 or None}}}``,
``{"ranks": {choice: 1, 2, …; the best has the highest}}``, ``{"preferred": choice or None, "both_bad": False}``,
``{"seen": {thing: True, False or None}}``, ``{"label": name or None}``."""
Measurement = Literal["nominal", "ordinal", "interval", "ratio"]


@dataclass(frozen=True)
class Gap:
    """What is missing in a form, so that the page can name it and go to it."""

    field: str
    """Name of the form field."""
    message: str
    """Such as: Caption 2 has no rating for fluency."""


class Incomplete(Exception):
    """A form without a whole answer. Nothing of it is stored; the page shows it again with its values."""

    def __init__(self, gaps: Sequence[Gap]) -> None:
        super().__init__("; ".join(gap.message for gap in gaps))
        self.gaps = tuple(gaps)


class Kind(ABC):
    """What the rest of the studio needs to know of one kind of task."""

    name: ClassVar[KindName]
    measurement: ClassVar[Measurement]
    """Level at which agreement is computed."""

    @abstractmethod
    def tasks(self, plan: Plan) -> list[Task]:
        """All tasks of the plan, gold ones too, in the order of the files."""

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
    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Whether the answer of a gold task is the expected one."""

    @abstractmethod
    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, float | None]:
        """A number for every unit that raters can agree about (caption and aspect, pair, thing, image)."""
