"""Score smoothing: the expectation over the numbers that a judge could have written, instead of the one it wrote.

A chat model that rates captions uses few numbers, so that many captions tie. The probabilities of the digits tell them
apart. If a server sends none, the mean of several sampled replies is used instead.
"""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.explanation import Contribution
from captious.metrics.judges._yes_no import sum_yes_and_no
from captious.metrics.judges.judged import CallPlan, JudgedMetric, JudgeSetup, JudgeVerdict, plan_requests, shorten
from captious.models.chat.judge import Judge, ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request
from captious.render import Column

Smoothing = Literal["digits", "samples", "none"]
# For each digit position of a number: probabilities of the digits, and the value of a digit there.
Steps = Sequence[tuple[Mapping[str, float], Callable[[str], float]]]
# Name of the signature's count of captions whose value is a mean of samples.
SAMPLED = "sampled"
# Name of the signature's count of captions with a token of several digits.
MERGED = "merged_digits"
_NUMBER = re.compile(r"(?<![\d.,\-−])(?P<whole>\d+)?(?:\.(?P<decimals>\d+))?(?!\d|[.,]\d)")
_LABEL = re.compile(r"\W*(?:(?:the\s+)?(?:score|rating|answer)\s*(?:is)?\W*)?", re.IGNORECASE)
_SCALE = re.compile(r"(?:/|\bout of)\s*1(?:\.0+)?(?![\d.]*\d)", re.IGNORECASE)


def find_number(text: str) -> re.Match[str]:
    """Find the number from 0 to 1 at the beginning of a reply, or the only one in it. A scale ("/1.0") is ignored.

    >>> [find_number(text)[0] for text in ("0.85", "Score: 0.7/1.0", "I would say .8.")]
    ['0.85', '0.7', '.8']
    """
    plain = _SCALE.sub(lambda scale: " " * len(scale[0]), text)
    numbers = [match for match in _NUMBER.finditer(plain) if match[0]]
    label = _LABEL.match(plain)
    first = [match for match in numbers if label and match.start() == label.end()]
    if not numbers:
        raise ValueError(f"no number in {shorten(text)}")
    if len(numbers) > 1 and not first:
        raise ValueError(f"{len(numbers)} numbers in {shorten(text)}, expected one")
    number = (first or numbers)[0]
    if float(number[0]) > 1:
        raise ValueError(f"score {number[0]} is not from 0 to 1")
    return number


def digit_probabilities(reply: Reply, position: int) -> Mapping[str, float]:
    """Return the probability of digits at a position of a reply; empty if the server sent none.

    Alternatives of the token count that differ from there on. A vocabulary may have tokens of several digits.

    >>> from captious.models.chat.messages import ReplyToken
    >>> digit = ReplyToken(b"8", ((b"8", 0.6), (b"7", 0.3), (b"x", 0.1)))
    >>> digit_probabilities(Reply("0.8", (ReplyToken(b"0.", ()), digit)), 2)
    {'8': 0.6, '7': 0.3}
    """
    place, probabilities = reply.find_token(position), dict[str, float]()
    if place is None:
        return {}
    token, offset = place
    before = token.text[:offset].lstrip()
    for text, probability in token.top:
        rest = text.lstrip().removeprefix(before)
        if text.lstrip().startswith(before) and (digits := re.match(rb"\d+", rest)):
            number = digits[0].decode()
            probabilities[number] = probabilities.get(number, 0.0) + probability
    return probabilities


def split_expectation(steps: Steps, renormalize: bool, name: Callable[[float], str]) -> list[Contribution]:
    """Return the contribution of every digit to the expected number.

    The probabilities are those among all tokens, so that they sum to less than 1; ``renormalize`` makes it 1.
    """
    parts = []
    for probabilities, worth in steps:
        total = sum(probabilities.values()) if renormalize else 1.0
        for digits in sorted(probabilities, key=worth, reverse=True):
            probability = probabilities[digits] / total
            details = {"probability": probability}
            parts.append(Contribution(name(worth(digits)), probability * worth(digits), details=details))
    return parts


def smooth_decimal(reply: Reply, renormalize: bool = False) -> JudgeVerdict | None:
    """Smooth a number from 0 to 1 as FLEUR does; None if the server sent no probabilities.

    Expected first decimal, and the second where the reply has one that is not 0. Where the reply is 1, the leading
    digit counts: 1 is worth 1, and 0 is worth 0.9. Where a token holds several digits, numbers take the place of
    digits.
    """
    number = find_number(reply.text)
    raw, decimals = float(number[0]), (number["decimals"] or "").rstrip("0")
    if raw == 1 or not number["decimals"]:
        # As in FLEUR: if the reply is 1.0, its alternative 0 counts as 0.9.
        worth = {"0": 0.9 if raw == 1 else 0.0, "1": 1.0}
        leading = digit_probabilities(reply, number.start())
        steps: Steps = [({digit: p for digit, p in leading.items() if digit in worth}, worth.__getitem__)]
        merged = False
    else:
        start = number.start("decimals")
        first = digit_probabilities(reply, start)
        merged = any(len(digits) > 1 for digits in first)
        steps = [(first, lambda digits: float(f"0.{digits}"))]
        if len(decimals) > 1 and not merged:
            second = digit_probabilities(reply, start + 1)
            steps = [*steps, (second, lambda digits: float(f"0.0{digits}"))]
    if not all(probabilities for probabilities, _ in steps):
        return None
    parts = split_expectation(steps, renormalize, lambda worth: f"{worth:.12g}" if worth % 1 else f"{worth:.1f}")
    counted = (MERGED,) if merged else ()
    summary = f"the judge wrote {number[0]}"
    return JudgeVerdict(sum(part.adds for part in parts), "", {"raw": raw}, parts, counted=counted, summary=summary)


def smooth_yes(reply: Reply) -> JudgeVerdict | None:
    """Compute the probability of yes against no at the first token; None if the server sent no probabilities.

    >>> from captious.models.chat.messages import ReplyToken
    >>> smooth_yes(Reply("Yes", (ReplyToken(b"Yes", ((b"Yes", 0.5), (b" yes", 0.25), (b"No", 0.25))),))).value
    0.75
    """
    if not any(token.top for token in reply.tokens):
        return None
    chances = dict(zip(("yes", "no"), sum_yes_and_no(reply), strict=True))
    total = sum(chances.values())
    if not total:
        number = max(len(token.top) for token in reply.tokens)
        raise ValueError(f"neither yes nor no among the {number} likeliest beginnings of {shorten(reply.text)}")
    parts = [
        Contribution(word, (word == "yes") * probability / total, details={"probability": probability / total})
        for word, probability in chances.items()
    ]
    value = sum(part.adds for part in parts)
    return JudgeVerdict(
        value, details={"raw": reply.text.strip()}, parts=parts, summary=f"yes with probability {value:.2f}"
    )


@dataclass(frozen=True)
class SmoothedMetric(JudgedMetric):
    """A metric whose judge writes a number. Subclasses read it, smoothed and as written."""

    smoothing: Smoothing = "digits"
    """``samples`` where the server gives no probabilities of digits; ``none`` for the number as it was written."""
    samples: int = 10
    """Number of replies whose mean replaces the expectation."""
    top: int = 20
    """Alternatives of each token that are asked for; some servers give 5 at most."""

    counted: ClassVar[tuple[str, ...]] = (SAMPLED, MERGED)
    part_unit: ClassVar[str] = "answer"
    part_columns: ClassVar[Sequence[Column]] = (Column("probability", bar=True),)

    def __post_init__(self) -> None:
        super().__post_init__()
        for name in ("samples", "top"):
            if getattr(self, name) < 1:
                raise InputError(f"{self.name}({name}={getattr(self, name)}): expected {name} of at least 1")

    @abstractmethod
    def smooth(self, reply: Reply) -> JudgeVerdict | None:
        """Compute the expected number; None if the server sent no probabilities."""

    @abstractmethod
    def read_raw(self, reply: Reply) -> float:
        """Read the number as it was written."""

    def plan(self, captions: CaptionSet, setup: JudgeSetup) -> CallPlan:
        """Plan one call per caption, or one per sample unless the server is known to send several replies at once."""
        requests = self.build_requests(captions, setup)
        if self.smoothing == "samples" and self.samples > 1 and setup.judge.has_ability("n"):
            return plan_requests(setup.judge, self._request_all_samples(requests), self.samples * self.reply_tokens)
        return plan_requests(setup.judge, self._prepare_requests(requests), self.reply_tokens)

    def _prepare_requests(self, requests: Sequence[Request]) -> Sequence[Request]:
        """Add the parameters of the smoothing to requests, assuming that the server supports them."""
        if self.smoothing == "digits":
            return [replace(request, top_logprobs=self.top) for request in requests]
        return self._repeat_requests(requests) if self.smoothing == "samples" else requests

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Read the number of each caption: smoothed over digits, over samples if that is impossible, or raw."""
        requests, judge = self.build_requests(captions, setup), setup.judge
        if self.smoothing == "none":
            return ask_and_parse(judge, requests, lambda reply: JudgeVerdict(self.read_raw(reply)), what=self.label)
        verdicts: list[JudgeVerdict | Failure | None] = [None] * len(requests)
        if self.smoothing == "digits" and judge.can("logprobs"):
            verdicts = list(ask_and_parse(judge, self._prepare_requests(requests), self.smooth, what=self.label))
        unsmoothed = [index for index, verdict in enumerate(verdicts) if verdict is None]
        means = self._average_samples([requests[index] for index in unsmoothed], judge) if unsmoothed else []
        for index, mean in zip(unsmoothed, means, strict=True):
            verdicts[index] = mean
        return [verdict for verdict in verdicts if verdict is not None]

    def _average_samples(self, requests: Sequence[Request], judge: Judge) -> list[JudgeVerdict | Failure]:
        """Average samples of each request: in one call if the server sends several replies, else in several calls."""
        if self.samples > 1 and judge.can("n"):
            replies = ask_and_parse(judge, self._request_all_samples(requests), self._read_raw_numbers, what=self.label)
            return [_average([one] if isinstance(one, Failure) else one) for one in replies]
        judge.can("seed")  # recorded in the signature: whether the samples are reproducible
        values = ask_and_parse(judge, self._repeat_requests(requests), self.read_raw, what=self.label)
        return [_average(values[start : start + self.samples]) for start in range(0, len(values), self.samples)]

    def _read_raw_numbers(self, reply: Reply) -> list[float]:
        """Read the numbers of all replies of one call; raise ValueError if none can be read."""
        numbers, texts = list[float](), (reply.text, *reply.others)
        for text in texts:
            try:
                numbers.append(self.read_raw(replace(reply, text=text, tokens=(), others=())))
            except ValueError:
                if text == texts[-1] and not numbers:
                    raise
        return numbers

    def _request_all_samples(self, requests: Sequence[Request]) -> list[Request]:
        """Ask for all samples of a request in one call, at temperature 1."""
        return [replace(request, temperature=1.0, sample=1, choices=self.samples) for request in requests]

    def _repeat_requests(self, requests: Sequence[Request]) -> list[Request]:
        """Repeat every request once per sample, at temperature 1."""
        numbers = range(1, self.samples + 1)
        return [replace(request, temperature=1.0, sample=number) for request in requests for number in numbers]


def _average(values: Sequence[float | Failure] | Sequence[float]) -> JudgeVerdict | Failure:
    """Average the samples that could be read."""
    numbers = [value for value in values if not isinstance(value, Failure)]
    if not numbers:
        return next(value for value in values if isinstance(value, Failure))
    share = 1 / len(numbers)
    parts = [
        Contribution(f"sample {number}", value * share, details={"probability": share})
        for number, value in enumerate(numbers, 1)
    ]
    summary = f"mean of {len(numbers)} sample{'' if len(numbers) == 1 else 's'}"
    return JudgeVerdict(sum(part.adds for part in parts), parts=parts, counted=(SAMPLED,), summary=summary)
