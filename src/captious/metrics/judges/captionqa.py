"""CaptionQA: accuracy of a text model on questions about an image when it reads the caption in its place."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.questions import ItemQuestion, normalize_answer
from captious.metrics.contract import Shared
from captious.metrics.judges._choices import LETTERS, YES_NO, AnswerOptions, ChosenAnswer, shuffle_options
from captious.metrics.judges._question_metric import (
    COLUMN,
    AnswerMark,
    GroupedQuestions,
    QuestionList,
    find_item_questions,
)
from captious.metrics.judges.judged import JudgeSetup
from captious.metrics.statistic_rows import Scored
from captious.models.chat.messages import Failure

# The option that is added to a question.
CANNOT = "cannot be answered from the caption"
# The original rounds the points of a "cannot" to this many decimals.
DECIMALS = 4
# First words by which the original recognizes yes-or-no questions.
OPENINGS = (
    "is", "are", "was", "were", "do", "does", "did", "have", "has", "had", "can", "could", "will", "would", "should",
    "shall", "may", "might", "must",
)  # fmt: skip


@dataclass(frozen=True)
class CaptionQA(GroupedQuestions):
    """CaptionQA: how many multiple-choice questions about an image a text model answers right from the caption.

    The model reads the caption in place of the image, a question and its options, and names one of them. Unless the
    options are yes and no, one more is added: that the caption does not say it. With n the number of the original
    options, a question is worth::

        1           for the right answer
        0           for a wrong one
        1/n + .05   for "cannot": more than a guess would earn on average

    The value is the sum over the number of questions, pooled over captions: a caption with more questions counts more.
    ``value=accuracy`` counts only right answers, and ``value=cannot`` the share of "cannot". A caption that says
    nothing earns about .30 by "cannot"; the notes of a run say how much it is for these questions.

    Questions come from ``questions=FILE`` (JSONL, JSON, CSV, Parquet) or a column ``questions``, in the layout of
    CaptionQA, CapMAS or any other with choices. ``ask=together`` asks all questions about a caption in one call, as
    CapMAS does; with ``value=accuracy`` that is CapMAS coverage. The order of options depends on ``seed``, the item and
    the question only. ``schema=yes`` asks the server to enforce a JSON schema, which small models need.
    ``answers=FILE`` or ``answers=column`` scores stored answers and sends no request.

    If an answer cannot be parsed, the request is repeated, at most twice; then the caption has no value, unless
    ``missing=skip`` leaves the question out or ``missing=wrong`` scores it as 0, as the original does.
    ``yes_no=original`` adds no "cannot" where the original adds none: if *yes* and *no* occur inside options, or by the
    first word of the question.

    >>> CaptionQA("gpt-4o-mini").label, CaptionQA("gpt-4o-mini", value="accuracy").label
    ('CaptionQA', 'CaptionQA accuracy')
    """

    value: Literal["score", "accuracy", "cannot"] = "score"
    """What becomes of the answers."""
    credit: float = 0.05
    """The points that "cannot" earns above a guess."""
    yes_no: Literal["choices", "original"] = "choices"
    """Which questions get no option "cannot"."""
    seed: int = 0
    """The seed of the order of options."""

    name: ClassVar[str] = "captionqa"
    citation: ClassVar[str] = (
        "Yang et al. CaptionQA: Is Your Caption as Useful as the Image Itself? 2025. arXiv:2511.21025."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 0 <= self.credit <= 0.5:
            raise InputError(f"{self.name}(credit={self.credit}): expected a number from 0 to 0.5")

    @property
    def label(self) -> str:
        """The label with the name of the value, if it is not the score."""
        return "CaptionQA" if self.value == "score" else f"CaptionQA {self.value}"

    @property
    def higher_is_better(self) -> bool:
        """The share of "cannot" is better low."""
        return self.value != "cannot"

    @property
    def prompt_file(self) -> tuple[str, tuple[str, ...]]:
        """The prompt for one question, or for all."""
        if self.together:
            return "captionqa_together", ("caption", "questions")
        return "captionqa", ("caption", "question", "options")

    def refuse_unfit_question(self, question: ItemQuestion, where: str) -> None:
        """Raise InputError if a question has no right answer, or more options than letters."""
        super().refuse_unfit_question(question, where)
        if len(question.choices) >= len(LETTERS):
            raise InputError(f"{where}: has {len(question.choices)} choices, expected at most {len(LETTERS) - 1}")

    def list_options(self, key: str, question: ItemQuestion) -> AnswerOptions:
        """Shuffle the choices and "cannot" by the seed, the item and the question."""
        if self.is_yes_no(question):
            return AnswerOptions.of(shuffle_options(question.choices, self.seed, key, question.text))
        return AnswerOptions.of(shuffle_options([*question.choices, CANNOT], self.seed, key, question.text))

    def is_yes_no(self, question: ItemQuestion) -> bool:
        """Return True if a question gets no option "cannot"."""
        choices = [choice.strip().lower() for choice in question.choices]
        if self.yes_no == "choices":
            return sorted(map(normalize_answer, choices)) == sorted(YES_NO)
        inside = all(any(word in choice for choice in choices) for word in YES_NO)
        return inside or question.text.lower().startswith(tuple(f"{word} " for word in OPENINGS))

    def mark(self, question: ItemQuestion, answer: ChosenAnswer) -> AnswerMark:
        """Mark an answer."""
        if answer.text == CANNOT:
            credit = round(1 / len(question.choices) + self.credit, DECIMALS)
            return AnswerMark({"score": credit, "accuracy": 0.0, "cannot": 1.0}[self.value], "cannot")
        right = answer.text == question.right
        return AnswerMark(float(right and self.value != "cannot"), "right" if right else "wrong")

    def read_stored(self, text: str, options: AnswerOptions) -> ChosenAnswer | Failure:
        """Read a stored answer; any text that begins with "cannot" is that option."""
        return super().read_stored(CANNOT if normalize_answer(text).startswith("cannot") else text, options)

    def score_items(self, captions: CaptionSet, state: Shared[JudgeSetup]) -> Scored:
        """Score items as points and questions; a note says how much "cannot" to every question would earn."""
        scored = super().score_items(captions, state)
        lists = [find_item_questions(item, state.value.tables, self.answers == COLUMN) for item in captions]
        questions = [one for own in lists if isinstance(own, QuestionList) for one in own.questions]
        if self.value != "score" or not questions:
            return scored
        silent = [0.0 if self.is_yes_no(one) else self.mark(one, ChosenAnswer(CANNOT)).points for one in questions]
        note = f'{self.label}: "cannot" to every question would earn {sum(silent) / len(silent):.4f}'
        return replace(scored, notes=[*scored.notes, note])
