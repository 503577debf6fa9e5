"""Labels: one of several words for an image or a caption."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from captious.errors import InputError, format_suggestion
from captious.studio.collect._subjects import Subject
from captious.studio.collect.kinds.kind import Answer, GradedAnswer, Incomplete, TaskKind, parse_option
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import CANNOT, Plan

# The label that loses every tie under the rule of RELIC.
NONE = "none"


class LabelsKind(TaskKind):
    """Kind ``labels``: field ``label`` is the name of an option or ``cannot``; the answer has the name or None."""

    name = "labels"
    measurement = "nominal"
    needs = "an image or a caption"

    def split_pages(
        self, plan: Plan, subject: Subject, rng: np.random.Generator
    ) -> Iterable[Sequence[tuple[str, str]]]:
        """Return one page for each caption, or one for a subject without captions."""
        return [[caption] for caption in subject.captions] or [[]]

    def read(self, plan: Plan, task: Task, order: Sequence[str], form: Mapping[str, str]) -> Answer:
        """Return the name of the label; None for "cannot tell"."""
        options: dict[str, str | None] = {option.name: option.name for option in plan.options}
        if plan.cannot_judge:
            options[CANNOT] = None
        label, gaps = parse_option(plan, form.get("label"), options, "label", plan.wording("choose_label"))
        if gaps:
            raise Incomplete(gaps)
        return {"label": label}

    def form(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> dict[str, str]:
        """Return the name of the label."""
        return {"label": CANNOT if answer["label"] is None else answer["label"]}

    def parse_gold(self, plan: Plan, task: Task, expected: Any) -> dict[str, Any] | None:
        """Parse the right label, or a list of labels that pass."""
        names = [option.name for option in plan.options]
        wanted = expected if isinstance(expected, list) else [expected]
        for name in wanted:
            if name not in names:
                suggestion = format_suggestion(str(name), names)
                raise InputError(f"expected is {str(name)[:40]!r}, expected labels: {', '.join(names)}{suggestion}")
        if not wanted:
            raise InputError(f"expected is an empty list, expected labels: {', '.join(names)}")
        return {"label": list(wanted)}

    def passes(self, plan: Plan, task: Task, answer: Answer) -> bool:
        """Return True if the label is one of the right ones."""
        return task.gold is None or answer["label"] in task.gold["label"]

    def grade_answer(self, plan: Plan, task: Task, order: Sequence[str], answer: Answer) -> list[GradedAnswer]:
        """Return the chosen label, and those that pass."""
        texts: dict[str | None, str] = {one.name: one.text or one.name for one in plan.options}
        texts[None] = plan.wording("cannot_tell")
        right = " / ".join(texts[name] for name in (task.gold or {"label": []})["label"])
        return [GradedAnswer("", texts[answer["label"]], right, self.passes(plan, task, answer))]

    def values(self, plan: Plan, task: Task, answer: Answer) -> dict[str, dict[str, float | None]]:
        """Return the index of the label in the plan."""
        names = [option.name for option in plan.options]
        label = answer["label"]
        return {plan.label: {task.id: None if label is None else float(names.index(label))}}


def merge_labels(plan: Plan, labels: Iterable[str | None]) -> str | None:
    """Return the merged label of an image from those of its raters; None if the rule of the plan finds none.

    ``majority``: the most frequent, if there is no tie. ``unanimous``: the only one. ``relic``: the most frequent; any
    label beats *none* at a tie.
    """
    counts = Counter(label for label in labels if label is not None)
    if counts.total() < plan.votes or not counts:
        return None
    if plan.merge == "unanimous":
        return next(iter(counts)) if len(counts) == 1 else None
    most = max(counts.values())
    first = [label for label, number in counts.items() if number == most]
    if plan.merge == "relic" and len(first) > 1 and NONE in first:
        first.remove(NONE)
    return first[0] if len(first) == 1 else None
