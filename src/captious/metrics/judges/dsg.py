"""Davidsonian Scene Graph: yes-or-no questions about an image, some of which depend on others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.io.join import format_first
from captious.io.questions import ANSWER_COLUMN, QUESTION_COLUMN, ItemQuestion, QuestionTable, normalize_answer
from captious.metrics.contract import Shared
from captious.metrics.judges._choices import YES_NO, AnswerOptions, ChosenAnswer
from captious.metrics.judges._question_metric import AnswerMark, AskedItem, QuestionMetric
from captious.metrics.judges.judged import JudgeSetup
from captious.metrics.statistic_rows import Scored
from captious.models.chat.messages import Failure

UNKNOWN_PARENT = "a parent is not a question of the item"


@dataclass(frozen=True)
class Dsg(QuestionMetric):
    """DSG: the share of a text's propositions that a model sees in the image, none without those that it depends on.

    Every proposition of the text is a question that is answered *yes* if it holds, and may have parents: "Is the dog
    brown?" depends on "Is there a dog?". A model that sees the image answers each. A question counts 1 for yes; with
    ``dependencies`` it counts 0 where the own answer of any of its parents is no. The rule takes one step, as in the
    original: a grandchild of a no under a yes keeps its point. The value of an item is the mean over its questions;
    that of a set is the mean over items::

        DSG = (questions answered yes whose parents are all answered yes) / questions

    Questions come from ``questions=FILE`` in the layout of DSG-1k, or from a column ``questions``; one call each.
    ``answers=FILE`` scores stored answers, such as those that the authors published, and asks nothing; where the file
    has answers for several image models, items are called ``item_model``. An answer that is neither yes nor no leaves
    the item without a value. ``missing=wrong`` counts the question as answered no, and an item without any answer as 0,
    as the original does: for the numbers that its authors published. ``missing=skip`` leaves the question out. A parent
    that is not a question of the item leaves the item without a value too, unless ``dependencies=no``.

    >>> Dsg("qwen2-vl").label, Dsg("qwen2-vl", dependencies=False).label
    ('DSG', 'DSG without dependencies')
    """

    dependencies: bool = True
    """Whether a question counts only if its parents are answered yes."""

    name: ClassVar[str] = "dsg"
    sees: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    candidates_together: ClassVar[bool] = True
    fields: ClassVar[tuple[str, ...]] = ("question",)
    citation: ClassVar[str] = (
        "Cho, Hu, Garg, Anderson, Krishna, Baldridge, Bansal, Pont-Tuset, Wang. Davidsonian Scene Graph: Improving "
        "Reliability in Fine-Grained Evaluation for Text-to-Image Generation. ICLR 2024."
    )

    @property
    def label(self) -> str:
        """DSG; it says so if dependencies are ignored."""
        return "DSG" if self.dependencies else "DSG without dependencies"

    def refuse_unfit_question(self, question: ItemQuestion, where: str) -> None:
        """Raise InputError if the right answer is not yes."""
        if question.answer and normalize_answer(question.answer) != "yes":
            raise InputError(f"{where}: the right answer is {question.answer!r}, expected yes")

    def list_options(self, key: str, question: ItemQuestion) -> AnswerOptions:
        """Return yes and no."""
        return AnswerOptions.words(*YES_NO)

    def list_asked_items(self, captions: CaptionSet, setup: JudgeSetup) -> list[AskedItem | Failure]:
        """List each item with its questions, or a Failure, for instance if a parent is not one of the questions."""
        items = super().list_asked_items(captions, setup)
        return [one if isinstance(one, Failure) else self._find_unknown_parent(one) or one for one in items]

    def _find_unknown_parent(self, asked: AskedItem) -> Failure | None:
        ids = {one.id for one in asked.question_list.questions}
        unknown = [
            (one.id, parent) for one in asked.question_list.questions for parent in one.parents if parent not in ids
        ]
        if not unknown or not self.dependencies:
            return None
        id, parent = unknown[0]
        return Failure(f"{UNKNOWN_PARENT}: question {id} of item {asked.question_list.key!r} depends on {parent!r}")

    def score_items(self, captions: CaptionSet, state: Shared[JudgeSetup]) -> Scored:
        """Score items as shares of questions; warn if parents cannot be read."""
        scored = super().score_items(captions, state)
        tables = state.value.tables
        table = tables.get(QUESTION_COLUMN) or tables.get(ANSWER_COLUMN)
        unread = [item.id for item in captions if table is not None and self._has_unread_parents(item, table)]
        if not unread or not self.dependencies:
            return scored
        warning = (
            f"{self.label}: parents of {len(unread):,} items cannot be read ({format_first(unread)}): none of their "
            "questions has any, as in the original"
        )
        return replace(scored, warnings=[*scored.warnings, warning])

    def _has_unread_parents(self, item: Item, table: QuestionTable) -> bool:
        match = table.find(item.id, item.fields.get("image"))
        return match is not None and match[0] in table.unread_parents

    def hint(self, reason: str) -> str:
        """Return the advice for an unknown parent."""
        if reason.startswith(UNKNOWN_PARENT):
            return "; parents are ids of questions of the same item; pass dsg(dependencies=no) to ignore them"
        return super().hint(reason)

    def mark(self, question: ItemQuestion, answer: ChosenAnswer) -> AnswerMark:
        """Mark one answer, whatever the answers to its parents: 1 point for yes."""
        yes = answer.text == "yes"
        return AnswerMark(float(yes), "right" if yes else "wrong")

    def mark_all(self, questions: Sequence[ItemQuestion], answers: Sequence[ChosenAnswer]) -> list[AnswerMark]:
        """Mark the answers of an item: 1 point for yes, unless a parent is not answered yes."""
        marks = super().mark_all(questions, answers)
        if not self.dependencies:
            return marks
        reasons = {
            question.id: f"{'is answered no' if answer.text else 'has no readable answer'}: {question.text}"
            for question, answer in zip(questions, answers, strict=True)
            if answer.text != "yes"
        }
        for index, question in enumerate(questions):
            parent = next((one for one in question.parents if one in reasons), None)
            if parent is not None and marks[index].points:
                marks[index] = AnswerMark(0.0, "not counted", f"question {parent} {reasons[parent]}")
        return marks
