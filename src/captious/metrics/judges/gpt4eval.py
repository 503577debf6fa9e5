"""GPT4-Eval: a chat model scores a caption and a reference from 1 to 10 and explains the scores."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass
from typing import ClassVar, Literal, NamedTuple

from captious.captions import CaptionSet
from captious.metrics.contract import Need
from captious.metrics.explanation import Contribution
from captious.metrics.judges.judged import (
    PROMPTS,
    JudgedMetric,
    JudgeSetup,
    JudgeVerdict,
    format_list,
    quote,
    read_prompt,
    shorten,
)
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.render import Column

TEMPERATURE = 0.2
LOWEST, HIGHEST = 1.0, 10.0
_SCORE = r"(\d+(?:\.\d+)?)(?:\s*/\s*10\b)?"
_LABELED = re.compile(rf"\b(?:assistant|answer)\s*#?\s*([12])[\s*_)]*[:=][\s*_]*{_SCORE}(?![\d.]*\d)", re.IGNORECASE)
_PAIR = re.compile(rf"\bscores\s+(?:are|of|:)\s*[(\[]?\s*{_SCORE}\s*(?:,|and|/)\s*{_SCORE}", re.IGNORECASE)
_WORDS = re.compile(
    r"\b(?:(?:assistant|answer)\s*#?\s*[12]|scores?|ratings?|and)\b|/\s*10\b|[,;:|()\[\]*_=&]|(?<=\d)\s*[-–]", re.I
)


class ReviewScores(NamedTuple):
    """The scores of a review for the first and the second answer, and its explanation."""

    first: float
    second: float
    reason: str


@dataclass(frozen=True)
class Gpt4Eval(JudgedMetric):
    """GPT4-Eval: a chat model scores the caption beside a reference, 1 to 10 each, as in LLaVA's evaluation.

    The judge sees no image; the reference captions stand for it. Answer 1 is the first reference and answer 2 the
    caption. The judge weighs helpfulness, relevance, accuracy and detail, writes two numbers, and explains them::

        GPT4-Eval = caption / 10                (value=score)
        GPT4-Eval = caption / reference         (value=ratio)

    The corpus value is the mean; of ratios it is the sum of the captions' scores over that of the references', as in
    the original. Judges prefer an answer for its place: ``swap`` asks in both orders and takes the mean of both.

    The numbers are read from the first line, with or without commas, brackets, labels and "/10", or from lines such as
    "Assistant 1: 8" further down. If a review has none, the request is repeated, at most twice; then the caption has
    no value. (The original splits the first line at single spaces, so that "8, 9" fails, and averages −1 for failures.)
    The temperature is 0.2. ``prompt`` names a file with ``{references}``, ``{first}`` and ``{second}``.

    >>> Gpt4Eval("gpt-4o").label, Gpt4Eval("gpt-4o", value="ratio").label
    ('GPT4-Eval', 'GPT4-Eval ratio')
    """

    value: Literal["score", "ratio"] = "score"
    swap: bool = False

    name: ClassVar[str] = "gpt4eval"
    needs: ClassVar[tuple[Need, ...]] = ("references", "judge")
    fields: ClassVar[tuple[str, ...]] = ("references", "first", "second")
    parse_rule: ClassVar[str] = "two-scores"
    reply_tokens: ClassVar[int] = 150
    part_unit: ClassVar[str] = "review"
    part_columns: ClassVar[tuple[Column, ...]] = (Column("caption", decimals=1), Column("reference", decimals=1))
    citation: ClassVar[str] = "Liu, Li, Wu, Lee. Visual Instruction Tuning. NeurIPS 2023."

    @property
    def label(self) -> str:
        """GPT4-Eval, and whether it is the ratio."""
        return "GPT4-Eval ratio" if self.value == "ratio" else "GPT4-Eval"

    @property
    def range(self) -> tuple[float, float]:
        """Scores are from 1 to 10."""
        return (LOWEST / HIGHEST, HIGHEST / LOWEST if self.value == "ratio" else 1.0)

    def read_prompts(self) -> dict[str, str]:
        """Read the prompt and the system message."""
        system = read_prompt(PROMPTS / "gpt4eval_system.txt", ()).strip()
        return {**super().read_prompts(), "system": system}

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build one request per caption; with ``swap`` those of the other order follow."""
        system, prompt = Turn("system", setup.prompts["system"]), setup.prompts[self.name]
        requests = []
        for swapped in (False, True) if self.swap else (False,):
            for item in captions:
                answers = [item.references[0], item.candidate]
                first, second = reversed(answers) if swapped else answers
                text = prompt.format(references=format_list(item.references), first=quote(first), second=quote(second))
                requests.append(Request((system, Turn("user", text)), temperature=TEMPERATURE))
        return requests

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Collect the scores of each caption and its reference, and the judge's explanation."""
        reviews = ask_and_parse(setup.judge, self.build_requests(captions, setup), parse_review, what=self.label)
        number = len(captions)
        orders = [reviews[:number], [_swap_review(one) for one in reviews[number:]]] if self.swap else [reviews]
        return [self._build_verdict(list(same)) for same in zip(*orders, strict=True)]

    def _build_verdict(self, reviews: list[ReviewScores | Failure]) -> JudgeVerdict | Failure:
        """Build the verdict from the reviews of one caption in one or both orders, the reference's score first."""
        scores = [one for one in reviews if isinstance(one, ReviewScores)]
        if len(scores) < len(reviews):
            return next(one for one in reviews if isinstance(one, Failure))
        reference = sum(one.first for one in scores) / len(scores)
        weight = reference if self.value == "ratio" else 1.0
        unit = len(scores) * (reference if self.value == "ratio" else HIGHEST)
        orders = ["reference first", "caption first"]
        parts = [
            Contribution(
                order, one.second / unit, details={"caption": one.second, "reference": one.first, "reason": one.reason}
            )
            for order, one in zip(orders, scores, strict=False)
        ]
        caption = sum(one.second for one in scores) / len(scores)
        summary = f"caption {caption:g}, reference {reference:g} of {HIGHEST:g}"
        return JudgeVerdict(math.fsum(part.adds for part in parts), parts=parts, weight=weight, summary=summary)


def _swap_review(review: ReviewScores | Failure) -> ReviewScores | Failure:
    """Swap the scores of a review of the other order."""
    return review if isinstance(review, Failure) else ReviewScores(review.second, review.first, review.reason)


def parse_review(reply: Reply) -> ReviewScores:
    r"""Parse the two scores of a review.

    >>> parse_review(Reply("8, 9\nThe second has more detail."))
    ReviewScores(first=8.0, second=9.0, reason='The second has more detail.')
    >>> parse_review(Reply("First, I look at both.\nAssistant 1: 4 (wrong)\nAssistant 2: 8/10"))[:2]
    (4.0, 8.0)
    """
    line, _, rest = reply.text.strip().partition("\n")
    pair = _find_labeled(line) or _parse_pair(line)
    if pair:
        return ReviewScores(_parse_score(pair[0]), _parse_score(pair[1]), rest.strip())
    pair = _find_labeled(reply.text)
    if not pair and (match := _PAIR.search(reply.text)):
        pair = match[1], match[2]
    if not pair:
        raise ValueError(f"no two scores in {shorten(reply.text)}")
    return ReviewScores(_parse_score(pair[0]), _parse_score(pair[1]), reply.text.strip())


def _find_labeled(text: str) -> tuple[str, str] | None:
    """Find the scores after the labels of both answers, the last of each."""
    scores = {match[1]: match[2] for match in _LABELED.finditer(text)}
    return (scores["1"], scores["2"]) if len(scores) == 2 else None


def _parse_pair(line: str) -> tuple[str, str] | None:
    """Parse a line that has nothing but two scores."""
    words = _WORDS.sub(" ", line).split()
    return (
        (words[0], words[1]) if len(words) == 2 and all(re.fullmatch(r"-?\d+(\.\d+)?", one) for one in words) else None
    )


def _parse_score(text: str) -> float:
    score = float(text)
    if not LOWEST <= score <= HIGHEST:
        raise ValueError(f"score {text} is not from 1 to 10")
    return score
