"""VDCscore: a model answers open questions from a description, and compares its answers with the right ones."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar, Literal

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.questions import ItemQuestion
from captious.metrics.judges._choices import AnswerOptions, ChosenAnswer
from captious.metrics.judges._facts import read_prompt_folder
from captious.metrics.judges._question_metric import AnswerMark, AskedItem, QuestionMetric
from captious.metrics.judges._yes_no import read_word
from captious.metrics.judges.judged import (
    CallPlan,
    JudgeSetup,
    parse_number,
    plan_requests,
    quote,
    read_json_object,
    shorten,
)
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request, Turn

# Highest score of an answer.
MAX_SCORE = 5.0
# Token limits of the two replies: an answer, and its comparison with the right answer.
ANSWER_TOKENS, VERDICT_TOKENS = 64, 48
# Placeholder in dry runs for an answer that is not known yet: 40 characters, a typical length.
USUAL_ANSWER = " " * 40
# Typical numbers of tokens of the two replies, for dry runs.
USUAL_ANSWER_TOKENS, USUAL_VERDICT_TOKENS = 12, 14


@dataclass(frozen=True)
class Vdc(QuestionMetric):
    """VDCscore: how many open questions about a video or image can be answered right from its description.

    There are two calls per question. A text model, which sees no frame of the video, answers it briefly from the
    description; then the model compares that answer with the right one, and says whether they mean the same and how
    well they agree, from 0 to 5. The value of an item is the mean over its questions; that of a set is the mean over
    items::

        accuracy = answers that mean the same / questions
        score    = mean of the points from 0 to 5

    Questions come from ``questions=FILE`` in VDC's layout (``{video: [{question, answer, category}]}``), or from a
    column ``questions``. ``answers=FILE`` scores stored verdicts, *yes* and *no* or points, and asks nothing. A reply
    that cannot be read leaves the item without a value, unless ``missing=skip`` leaves the question out. (The original
    drops every video whose value is 0, and any with one unreadable reply.) ``prompt`` names a folder with
    ``vdc_answer.txt`` or ``vdc_compare.txt``.

    >>> Vdc("llama-3.1-8b").label, Vdc("llama-3.1-8b", value="score").label
    ('VDC accuracy', 'VDC score')
    """

    value: Literal["accuracy", "score"] = "accuracy"
    """The value of an item: the share of right answers, or the mean of the points."""

    name: ClassVar[str] = "vdc"
    pooled: ClassVar[bool] = False
    parse_rule: ClassVar[str] = "json"
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "vdc_answer": ("caption", "question"),
        "vdc_compare": ("question", "answer", "given"),
    }
    citation: ClassVar[str] = (
        "Chai, Song, Du, Meng, Madhavan, Bar-Tal, Hwang, Xie, Manning. AuroraCap: Efficient, Performant Video Detailed "
        "Captioning and a New Benchmark. ICLR 2025."
    )

    @property
    def label(self) -> str:
        """The label with the name of the value."""
        return f"VDC {self.value}"

    @property
    def range(self) -> tuple[float, float]:
        """A score goes up to 5."""
        return (0.0, 1.0 if self.value == "accuracy" else MAX_SCORE)

    def read_prompts(self) -> dict[str, str]:
        """Read the prompts by name."""
        return read_prompt_folder(self.prompt, self.files)

    def refuse_unfit_question(self, question: ItemQuestion, where: str) -> None:
        """Raise InputError if a question has no right answer."""
        if not question.answer:
            raise InputError(f"{where}: has no answer, expected the right one")

    def list_options(self, key: str, question: ItemQuestion) -> AnswerOptions:
        """Return no options: answers are in the model's own words."""
        return AnswerOptions((), ())

    def mark(self, question: ItemQuestion, answer: ChosenAnswer) -> AnswerMark:
        """Mark an answer: for the accuracy 1 if it means the same as the right one, for the score its points."""
        points = float(answer.accepted) if self.value == "accuracy" else answer.score
        return AnswerMark(points, "right" if answer.accepted else "wrong")

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build the request for an answer to each question."""
        items = [one for one in self.list_asked_items(captions, setup) if isinstance(one, AskedItem)]
        return [request for _, request in self._pair_requests(items, setup)]

    def _pair_requests(self, items: Sequence[AskedItem], setup: JudgeSetup) -> list[tuple[ItemQuestion, Request]]:
        """Pair every question with the request for its answer."""
        prompt, pairs = setup.prompts["vdc_answer"], []
        for asked in items:
            caption = quote(asked.item.candidate)
            for one in asked.question_list.questions:
                text = prompt.format(caption=caption, question=one.text).strip()
                pairs.append((one, Request((Turn("user", text),), max_tokens=ANSWER_TOKENS)))
        return pairs

    def _build_comparison_request(self, question: ItemQuestion, given: str, setup: JudgeSetup) -> Request:
        text = setup.prompts["vdc_compare"].format(
            question=question.text, answer=quote(question.answer), given=quote(given)
        )
        return Request((Turn("user", text.strip()),), max_tokens=VERDICT_TOKENS)

    def plan(self, captions: CaptionSet, setup: JudgeSetup) -> CallPlan:
        """Plan the two calls per question: the answer, and its comparison with the right answer.

        The request of a comparison contains the model's answer. If that answer is stored, the request is known, and may
        be stored too; otherwise its tokens are estimated with a placeholder.
        """
        items = [one for one in self.list_asked_items(captions, setup) if isinstance(one, AskedItem)]
        pairs = self._pair_requests(items, setup)
        unanswered_by_digest, _ = setup.judge.find_unanswered([request for _, request in pairs])
        unanswered = set(unanswered_by_digest.values())
        comparisons, placeholders = list[Request](), list[Request]()
        for question, request in pairs:
            given = None if request in unanswered else _replay_answer(request, setup)
            if given is None:
                placeholders.append(self._build_comparison_request(question, USUAL_ANSWER, setup))
            elif not isinstance(given, Failure):  # an answer that failed is not compared
                comparisons.append(self._build_comparison_request(question, given, setup))
        plan = plan_requests(setup.judge, [request for _, request in pairs], USUAL_ANSWER_TOKENS)
        tokens = sum(request.estimated_tokens for request in placeholders)
        plan += CallPlan(len(placeholders), 0, tokens, USUAL_VERDICT_TOKENS * len(placeholders))
        return plan + plan_requests(setup.judge, comparisons, USUAL_VERDICT_TOKENS)

    def ask_model(self, asked: Sequence[AskedItem], setup: JudgeSetup) -> list[list[ChosenAnswer | Failure] | Failure]:
        """Ask the model every question, then ask it to compare each answer with the right one.

        Return one list per item, with a compared answer or a failure for each of its questions.
        """
        pairs = self._pair_requests(asked, setup)
        requests = [request for _, request in pairs]
        given = ask_and_parse(setup.judge, requests, read_answer, what=f"{self.label}: answers")
        answered = [index for index, one in enumerate(given) if isinstance(one, str)]
        compared = ask_and_parse(
            setup.judge,
            [self._build_comparison_request(pairs[index][0], str(given[index]), setup) for index in answered],
            read_comparison,
            what=f"{self.label}: comparing",
        )
        # Every "not compared" is replaced below, because each answer that could be read was compared.
        results: list[ChosenAnswer | Failure] = [
            answer if isinstance(answer, Failure) else Failure("not compared") for answer in given
        ]
        for index, verdict in zip(answered, compared, strict=True):
            results[index] = verdict if isinstance(verdict, Failure) else verdict._replace(text=str(given[index]))
        remaining = iter(results)  # in the order of the items and their questions
        return [[next(remaining) for _ in one.question_list.questions] for one in asked]

    def read_stored(self, text: str, options: AnswerOptions) -> ChosenAnswer | Failure:
        """Read a stored verdict: yes or no for the accuracy, points for the score."""
        try:
            if self.value == "accuracy":
                return ChosenAnswer(text, accepted=read_word(text))
            points = parse_number(text, 0, MAX_SCORE)
            # Stored points come without a verdict; this one is only shown, the value is the points.
            return ChosenAnswer(text, accepted=points > MAX_SCORE / 2, score=points)
        except ValueError as error:
            return Failure(f"unreadable answer: {error}")


def _replay_answer(request: Request, setup: JudgeSetup) -> str | Failure | None:
    """Return the stored answer to a question; None if the model would be asked again, as after an unreadable reply."""
    try:
        (answer,) = ask_and_parse(setup.as_replay().judge, [request], read_answer)
    except InputError:  # a replay refuses to ask
        return None
    return answer


def read_answer(reply: Reply) -> str:
    """Read a short answer, with all whitespace reduced to single spaces; raise ValueError if it is empty."""
    text = " ".join(reply.text.split())
    if not text:
        raise ValueError("an empty answer")
    return text


def read_comparison(reply: Reply) -> ChosenAnswer:
    """Read whether two answers mean the same, and the points.

    >>> read_comparison(Reply('{"same": "yes", "score": 4}')).score
    4.0
    """
    answer = read_json_object(reply.text, "score")
    word = str(answer.get("same", "")).strip().lower()
    if word not in ("yes", "no", "true", "false"):
        raise ValueError(f"same is {shorten(word)}, expected yes or no")
    score = parse_number(answer["score"], 0, MAX_SCORE)
    return ChosenAnswer("", reason=f"{score:g} of {MAX_SCORE:g} points", accepted=word in ("yes", "true"), score=score)
