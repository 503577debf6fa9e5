"""CAPEval: the share of a checklist that a caption mentions, and the share of those points that it gets right."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious._core.types import Floats
from captious.io.questions import ItemQuestion
from captious.metrics.judges._choices import AnswerOptions, ChosenAnswer
from captious.metrics.judges._question_metric import AnswerMark, GroupedQuestions
from captious.models.chat.messages import Failure

YES, NO, NOT_MENTIONED = "yes", "no", "not_mentioned"
# Name of each verdict in explanations.
WORDS = {YES: "right", NO: "contradicted", NOT_MENTIONED: "not mentioned"}
# Verdicts as CAPability writes them.
NUMBERS = {"1": YES, "-1": NO, "−1": NO, "0": NOT_MENTIONED}


@dataclass(frozen=True)
class CapEval(GroupedQuestions):
    """CAPEval: a checklist of what there is to say about an image, and what of it the caption says.

    A text model reads the caption and a list of questions such as "Does the caption mention a red car?", and answers
    each with *yes* (the caption supports it), *no* (the caption contradicts it) or *not_mentioned*. All questions about
    a caption are one call. Pooled over all questions of all captions::

        coverage  C = (yes + no) / questions
        precision P = yes / (yes + no)
        f1          = 2 C P / (C + P)

    From 0 to 1; the original prints C and P × 100. Precision alone rewards silence, so read it beside coverage. A
    caption that answers no question has no precision.

    Questions come from ``questions=FILE`` or a column ``questions``; ``category`` restricts the value to one category
    (CAPEval's ``channel``). ``ask=each`` asks one question per call, which small models need, and ``schema=yes`` makes
    the server enforce the form of replies. ``answers=FILE`` or ``answers=column`` scores stored verdicts and asks
    nothing; verdicts may also be written 1, −1 and 0, as CAPability does.

    If a reply has no verdict on some question, the request is repeated, at most twice; then the caption has no value,
    unless ``missing=skip`` leaves those questions out or ``missing=wrong`` counts them as not mentioned, as in the
    original.

    >>> CapEval("gpt-4o-mini").label, CapEval("gpt-4o-mini", value="precision").label
    ('CAPEval coverage', 'CAPEval precision')
    """

    value: Literal["coverage", "precision", "f1"] = "coverage"
    """What becomes of the verdicts."""
    ask: Literal["each", "together"] = "together"

    name: ClassVar[str] = "capeval"
    wrong: ClassVar[str] = NOT_MENTIONED
    citation: ClassVar[str] = (
        "Liu, Wang, Zhang. CAPEval: A Decoupled Caption Evaluation across Understanding and Generation. 2026. "
        "arXiv:2608.02589."
    )
    gold: ClassVar[bool] = False
    one_token: ClassVar[bool] = False
    row_size: ClassVar[int] = 3

    @property
    def label(self) -> str:
        """The label with the name of the value."""
        return f"CAPEval {'F1' if self.value == 'f1' else self.value}"

    @property
    def undefined_reason(self) -> str:
        """The reason why a caption has no precision."""
        return "the caption answers no question"

    @property
    def prompt_file(self) -> tuple[str, tuple[str, ...]]:
        """The prompt for all questions, or for one."""
        if self.together:
            return "capeval_together", ("caption", "questions")
        return "capeval", ("caption", "question")

    def list_options(self, key: str, question: ItemQuestion) -> AnswerOptions:
        """Return yes, no and not mentioned."""
        return AnswerOptions.words(YES, NO, NOT_MENTIONED)

    def mark(self, question: ItemQuestion, answer: ChosenAnswer) -> AnswerMark:
        """Mark a verdict: for coverage 1 if the caption mentions the point, for other values 1 if it is right."""
        counts = answer.text != NOT_MENTIONED if self.value == "coverage" else answer.text == YES
        return AnswerMark(float(counts), WORDS[answer.text])

    def sum_marks(self, marks: Sequence[AnswerMark]) -> Sequence[float]:
        """Count yes, yes and no, and all questions."""
        yes, no = (sum(mark.verdict == WORDS[word] for mark in marks) for word in (YES, NO))
        return float(yes), float(yes + no), float(len(marks))

    def aggregate(self, rows: Floats) -> Floats:
        """Compute coverage, precision or F1 of sums."""
        yes, answered, questions = rows[..., 0], rows[..., 1], rows[..., 2]
        with np.errstate(invalid="ignore", divide="ignore"):
            coverage, precision = answered / questions, yes / answered
            if self.value == "coverage":
                return coverage
            if self.value == "precision":
                return precision
            f1: Floats = np.where(yes > 0, 2 * coverage * precision / (coverage + precision), coverage * 0.0)
        return f1

    def summarize_marks(self, marks: Sequence[AnswerMark]) -> str:
        """Count the verdicts of each kind."""
        numbers = [(sum(mark.verdict == word for mark in marks), word) for word in WORDS.values()]
        return ", ".join(f"{number} {word}" for number, word in numbers if number)

    def read_stored(self, text: str, options: AnswerOptions) -> ChosenAnswer | Failure:
        """Read a stored verdict, as a word or as a number."""
        return super().read_stored(NUMBERS.get(text.strip().removesuffix(".0"), text), options)
