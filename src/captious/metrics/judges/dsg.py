"""Davidsonian Scene Graph: questions of yes or no about an image, of which some make sense only after others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from captious.errors import InputError
from captious.io.questions import ItemQuestion, normalize_answer
from captious.metrics.judges._choices import YES_NO, AnswerOptions, ChosenAnswer
from captious.metrics.judges._questions import AnswerMark, QuestionMetric


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
    has answers for several image models, items are called ``item_model``. An answer that cannot be read leaves the item
    without a value, unless ``missing=skip``. (The original scores an item without answers as 0.)

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
        """The label, and whether dependencies count."""
        return "DSG" if self.dependencies else "DSG without dependencies"

    def refuse_unfit_question(self, question: ItemQuestion, where: str) -> None:
        """Raise an error where the right answer is another than yes."""
        if question.answer and normalize_answer(question.answer) != "yes":
            raise InputError(f"{where}: the right answer is {question.answer!r}, expected yes")

    def options(self, key: str, question: ItemQuestion) -> AnswerOptions:
        """Yes or no."""
        return AnswerOptions.words(*YES_NO)

    def mark(self, question: ItemQuestion, answer: ChosenAnswer) -> AnswerMark:
        """One for yes, whatever the parents are."""
        yes = answer.text == "yes"
        return AnswerMark(float(yes), "right" if yes else "wrong")

    def marks(self, questions: Sequence[ItemQuestion], answers: Sequence[ChosenAnswer]) -> list[AnswerMark]:
        """One for yes, unless a parent is answered no."""
        marks = super().marks(questions, answers)
        if not self.dependencies:
            return marks
        denied = {
            question.id: question.text
            for question, answer in zip(questions, answers, strict=True)
            if answer.text != "yes"
        }
        for index, question in enumerate(questions):
            parent = next((one for one in question.parents if one in denied), None)
            if parent is not None and marks[index].points:
                marks[index] = AnswerMark(0.0, "not counted", f"question {parent} is answered no: {denied[parent]}")
        return marks
