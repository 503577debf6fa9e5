"""TIFA: questions made from a text, answered by a model that sees the image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from captious.io.questions import ItemQuestion
from captious.metrics.judges._choices import AnswerOptions, ChosenAnswer, shuffle_options
from captious.metrics.judges._question_metric import AnswerMark, QuestionMetric


@dataclass(frozen=True)
class Tifa(QuestionMetric):
    """TIFA: the share of questions about a text that a model answers from the image as the text does.

    Questions with choices and the right answer were made from the caption by their publishers. A model that sees
    the image chooses an answer to each. The value of an item is the share of right answers; that of a set is the mean
    over items::

        TIFA = right answers / questions

    Questions come from ``questions=FILE`` or a column ``questions``, one call each. ``answers=FILE`` scores stored
    answers, such as the result file of the original code, and asks nothing. The order of choices depends on ``seed``,
    the item and the question alone. An answer that cannot be read leaves the item without a value, unless
    ``missing=skip``. (The original asks a VQA model without the choices and takes the choice nearest to its reply by
    SBERT.)

    >>> Tifa("qwen2-vl").label
    'TIFA'
    """

    seed: int = 0
    """The seed of the order of choices."""

    name: ClassVar[str] = "tifa"
    label: ClassVar[str] = "TIFA"
    sees: ClassVar[bool] = True
    pooled: ClassVar[bool] = False
    candidates_together: ClassVar[bool] = True
    fields: ClassVar[tuple[str, ...]] = ("question", "options")
    citation: ClassVar[str] = (
        "Hu, Liu, Kasai, Wang, Ostendorf, Krishna, Smith. TIFA: Accurate and Interpretable Text-to-Image Faithfulness "
        "Evaluation with Question Answering. ICCV 2023."
    )

    def list_options(self, key: str, question: ItemQuestion) -> AnswerOptions:
        """Shuffle the choices by the seed, the item and the question."""
        return AnswerOptions.of(shuffle_options(question.choices, self.seed, key, question.text))

    def mark(self, question: ItemQuestion, answer: ChosenAnswer) -> AnswerMark:
        """Mark the right answer with 1."""
        right = answer.text == question.right
        return AnswerMark(float(right), "right" if right else "wrong")
