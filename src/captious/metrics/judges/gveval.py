"""G-VEval: a chat model reasons in steps and rates a caption from 0 to 100; the value is the expected number."""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar, Literal

from captious.captions import CaptionSet, Item
from captious.metrics.contract import Need
from captious.metrics.judges._digits import SAMPLED, SmoothedMetric, digit_probabilities, split_expectation
from captious.metrics.judges.judged import JudgeSetup, JudgeVerdict, format_list, join_prompts, quote, shorten
from captious.models.chat.messages import Reply, Request, Turn

TEMPERATURE = 1.0
# Name of the signature's count of captions whose number was written in several tokens.
SPLIT = "split_numbers"
_BETWEEN_DOLLARS = re.compile(r"\$\s*(\d{1,3})(?:\.0+)?(?:\s*/\s*100)?\s*(?:\$|\Z)")


@dataclass(frozen=True)
class GVEval(SmoothedMetric):
    """G-VEval: a chat model compares a caption with the image, the references or both, in steps, and rates it 0 to 100.

    ``mode`` says what the judge sees: ``image``, ``references``, or ``both``. It writes down its evaluation first, and
    then a whole number between dollar signs. The value is the expectation over the whole numbers n among the likeliest
    tokens at that place, whose probabilities p are made to sum to 1::

        G-VEval = Σ p(n) · n / 100

    Where a model writes the number in several tokens (one for each digit), tens and ones have an expectation each, and
    100 is taken as written; ``split_numbers`` in the signature counts these. (The original reads the first token
    alone, so that 85 is 8.) Where the server gives no probabilities, the value is the mean of ``samples`` replies
    (``sampled`` in the signature). ``smoothing=none`` takes the number as it was written.

    The temperature is 1, the alternatives are the ``top`` likeliest, and images are sent at low detail. If a reply has
    no such number, the request is repeated, at most twice; then the caption has no value. (The original drops it, which
    shifts all that follow.) ``prompt`` names a file with ``{caption}``, and with ``{references}`` where the judge sees
    them.

    >>> GVEval("gpt-4o").label, GVEval("gpt-4o", mode="references").label
    ('G-VEval', 'G-VEval (references)')
    """

    samples: int = 5
    top: int = 5
    mode: Literal["both", "image", "references"] = "both"

    name: ClassVar[str] = "gveval"
    counted: ClassVar[tuple[str, ...]] = (SAMPLED, SPLIT)
    parse_rule: ClassVar[str] = "dollars"
    reply_tokens: ClassVar[int] = 250
    citation: ClassVar[str] = (
        "Tong et al. G-VEval: A Versatile Metric for Evaluating Image and Video Captions. AAAI 2025."
    )

    @property
    def needs(self) -> tuple[Need, ...]:
        """The input of the judge."""
        return ("image", "references", "judge") if self.mode == "both" else (self.mode, "judge")

    @property
    def fields(self) -> tuple[str, ...]:  # type: ignore[override]
        """The placeholders of the prompt."""
        return ("caption",) if self.mode == "image" else ("references", "caption")

    @property
    def label(self) -> str:
        """G-VEval, and what the judge sees where that is not all."""
        return "G-VEval" if self.mode == "both" else f"G-VEval ({self.mode})"

    def read_prompts(self) -> dict[str, str]:
        """Read the prompt."""
        return {self.name: join_prompts(self.prompt, self.fields, f"gveval_{self.mode}", "gveval_steps")}

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build one request per caption."""
        return [
            Request((self._build_turn(item, setup.prompts[self.name]),), temperature=TEMPERATURE, detail="low")
            for item in captions
        ]

    def _build_turn(self, item: Item, prompt: str) -> Turn:
        """Build the turn about the only candidate of an item."""
        texts = {"caption": quote(item.candidate), "references": format_list(item.references)}
        image = (item.fields["image"],) if "image" in self.needs else ()
        return Turn("user", prompt.format(**{name: texts[name] for name in self.fields}), image)

    def smooth(self, reply: Reply) -> JudgeVerdict | None:
        """Compute the expected number; the evaluation before it is the reason."""
        number = find_rating(reply.text)
        position = reply.find_token(number.start(1))
        if position is None:
            return None
        token, offset = position
        counted: tuple[str, ...] = ()
        if token.text[offset:].startswith(number[1].encode()):
            steps = [(_limit_to_100(digit_probabilities(reply, number.start(1))), _hundredths)]
        elif len(number[1]) == 2:
            tens, ones = (digit_probabilities(reply, number.start(1) + index) for index in (0, 1))
            steps, counted = (
                [(_select_single_digits(tens), _tenths), (_select_single_digits(ones), _hundredths)],
                (SPLIT,),
            )
        else:
            steps, counted = [({number[1]: 1.0}, _hundredths)], (SPLIT,)
        if not all(probabilities for probabilities, _ in steps):
            return None
        parts = split_expectation(steps, renormalize=True, name=lambda worth: f"{100 * worth:.12g}")
        value = math.fsum(part.adds for part in parts)
        reason, raw = _get_reason(reply, number), int(number[1])
        return JudgeVerdict(value, reason, {"raw": raw}, parts, counted=counted, summary=f"the judge wrote {raw}")

    def read_raw(self, reply: Reply) -> float:
        """Read the number, divided by 100."""
        return int(find_rating(reply.text)[1]) / 100


def find_rating(text: str) -> re.Match[str]:
    """Find the integer from 0 to 100 between dollar signs; the last, if there are several.

    >>> find_rating("A bill of $5 lies on the table. Fair. $85$")[1]
    '85'
    """
    numbers = list(_BETWEEN_DOLLARS.finditer(text))
    if not numbers:
        raise ValueError(f"no whole number between dollar signs in {shorten(text)}")
    if int(numbers[-1][1]) > 100:
        raise ValueError(f"score {numbers[-1][1]} is not from 0 to 100")
    return numbers[-1]


def _limit_to_100(probabilities: Mapping[str, float]) -> dict[str, float]:
    return {digits: probability for digits, probability in probabilities.items() if int(digits) <= 100}


def _select_single_digits(probabilities: Mapping[str, float]) -> dict[str, float]:
    return {digits: probability for digits, probability in probabilities.items() if len(digits) == 1}


def _hundredths(digits: str) -> float:
    return int(digits) / 100


def _tenths(digits: str) -> float:
    return int(digits) / 10


def _get_reason(reply: Reply, number: re.Match[str]) -> str:
    """Return the text before the number, on one line."""
    return " ".join(reply.text[: number.start()].split())
