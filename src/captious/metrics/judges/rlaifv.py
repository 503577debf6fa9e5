"""RLAIF-V's divide and conquer: facts become questions, and the probability of yes is compared with that of no."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ClassVar, Literal

from captious.captions import CaptionSet, Item
from captious.metrics.contract import Need
from captious.metrics.explanation import Contribution
from captious.metrics.judges._facts import (
    FactMetric,
    ask_each,
    format_count,
    limit_list_tokens,
    map_unless_failed,
    number_lines,
    read_bullets,
    read_numbered,
    require_complete,
)
from captious.metrics.judges._yes_no import BY_WORDS, YesNoAnswer, ask_yes_no, build_yes_no_request
from captious.metrics.judges.judged import JudgeSetup, JudgeVerdict, quote
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.render import Column


@dataclass(frozen=True)
class RlaifV(FactMetric):
    """RLAIF-V: facts of a caption as questions about the image, each accepted if yes is likelier than no.

    Three steps: the model lists the facts of the caption, turns each into a question of yes or no, and answers each
    question with the image before it. A fact is accepted if p(yes) > p(no) at the first token of the answer; a tie
    rejects it. There are two calls per caption and one per fact. ``value`` says how the answers count:

    - ``ratio``: accepted facts / facts, the default, since captions differ in length
    - ``rejected``: −(number of rejected facts), the score of the original
    - ``probability``: the mean of p(yes) / (p(yes) + p(no)) over facts

    Where the server sends no probabilities the words of the answer decide, and the probability of a fact is 1 or 0.
    The prompt takes the whole caption and the reply may be as long as it needs. (The original cuts the prompt to
    300 words and the reply to 256 tokens, and pairs facts and questions by their order even if some are missing.) A
    caption without facts has no value. ``prompt`` names a folder with ``rlaifv_facts.txt``, ``rlaifv_questions.txt``
    or ``rlaifv_check.txt``.

    >>> print(RlaifV("llava-1.5-13b", value="rejected").label)
    RLAIF-V rejected
    """

    value: Literal["ratio", "rejected", "probability"] = "ratio"
    """What becomes of the answers."""

    name: ClassVar[str] = "rlaifv"
    needs: ClassVar[tuple[Need, ...]] = ("image", "judge")
    citation: ClassVar[str] = (
        "Yu et al. RLAIF-V: Open-Source AI Feedback Leads to Super GPT-4V Trustworthiness. CVPR 2025."
    )
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "rlaifv_facts": ("text",),
        "rlaifv_questions": ("facts",),
        "rlaifv_check": ("question",),
    }
    parse_rule: ClassVar[str] = "lines"
    counted: ClassVar[tuple[str, ...]] = (BY_WORDS,)
    part_columns: ClassVar[Sequence[Column]] = (
        Column("verdict", "text"),
        Column("p(yes)", key="probability"),
        Column("question", "text"),
    )
    reply_tokens: ClassVar[int] = 120

    @property
    def label(self) -> str:
        """The label with the name of the value, if it is not the ratio."""
        return "RLAIF-V" if self.value == "ratio" else f"RLAIF-V {self.value}"

    @property
    def range(self) -> tuple[float, float]:
        """Rejected facts count down from 0."""
        return (float("-inf"), 0.0) if self.value == "rejected" else (0.0, 1.0)

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build the requests that list the facts of each caption."""
        prompt = setup.prompts["rlaifv_facts"]
        return [
            Request((Turn("user", prompt.format(text=quote(text))),), max_tokens=limit_list_tokens(text, 8))
            for text in (item.candidate for item in captions)
        ]

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """List the facts of each caption, turn them into questions, and collect the answers."""
        requests = self.build_requests(captions, setup)
        listed = ask_each(setup.judge, requests, [read_fact_list] * len(requests), f"{self.label}: facts")
        facts = [one or Failure("no facts in the caption") for one in listed]
        parsers = [partial(read_questions, number=0 if isinstance(one, Failure) else len(one)) for one in facts]
        asked = map_unless_failed(facts, lambda one: self._build_questions_request(one, setup))
        questions = ask_each(setup.judge, asked, parsers, f"{self.label}: questions")
        check = setup.prompts["rlaifv_check"]
        texts = map_unless_failed(questions, lambda one: [check.format(question=text) for text in one])
        answers = ask_yes_no(setup.judge, texts, captions.images, f"{self.label}: verifying")
        return [self._build_verdict(*parts) for parts in zip(facts, questions, answers, strict=True)]

    def _build_questions_request(self, facts: Sequence[str], setup: JudgeSetup) -> Request:
        text = number_lines(facts)
        return Request(
            (Turn("user", setup.prompts["rlaifv_questions"].format(facts=text)),), max_tokens=limit_list_tokens(text, 4)
        )

    def _build_verdict(
        self, facts: list[str] | Failure, questions: list[str] | Failure, answers: list[YesNoAnswer] | Failure
    ) -> JudgeVerdict | Failure:
        if isinstance(facts, Failure) or isinstance(questions, Failure) or isinstance(answers, Failure):
            return next(one for one in (facts, questions, answers) if isinstance(one, Failure))
        amounts = compute_fact_values(answers, self.value)
        parts = [
            Contribution(
                fact,
                amount,
                details={
                    "verdict": "accepted" if answer.yes else "rejected",
                    "probability": answer.probability,
                    "question": question,
                },
            )
            for fact, question, answer, amount in zip(facts, questions, answers, amounts, strict=True)
        ]
        counted = [BY_WORDS] if any(answer.by_words for answer in answers) else []
        summary = format_count([answer.yes for answer in answers], "fact", "accepted")
        return JudgeVerdict(sum(amounts), parts=parts, counted=counted, summary=summary)

    def estimate_later_calls(self, item: Item, facts: int, setup: JudgeSetup) -> list[tuple[Request, int, int]]:
        """Estimate the call for the questions, and one for each answer."""
        check = build_yes_no_request(setup.prompts["rlaifv_check"].format(question=" " * 40), item.fields["image"])
        return [(self._build_questions_request([" " * 40] * facts, setup), 1, 12 * facts), (check, facts, 2)]


def compute_fact_values(
    answers: Sequence[YesNoAnswer], value: Literal["ratio", "rejected", "probability"]
) -> list[float]:
    """Compute the contribution of each fact to the value of its caption.

    >>> answers = [YesNoAnswer(True, 0.9), YesNoAnswer(False, 0.3)]
    >>> compute_fact_values(answers, "ratio"), compute_fact_values(answers, "rejected")
    ([0.5, 0.0], [0.0, -1.0])
    >>> sum(compute_fact_values(answers, "probability"))
    0.6
    """
    if value == "rejected":
        return [0.0 if answer.yes else -1.0 for answer in answers]
    amounts = [float(answer.yes) if value == "ratio" else answer.probability for answer in answers]
    return [amount / len(answers) for amount in amounts]


def read_fact_list(reply: Reply) -> list[str]:
    """Read the facts of a reply."""
    return read_bullets(require_complete(reply))


def read_questions(reply: Reply, number: int) -> list[str]:
    """Read the questions of a reply, one per fact."""
    return read_numbered(require_complete(reply), number)
