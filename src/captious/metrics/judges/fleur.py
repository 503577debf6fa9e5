"""FLEUR and RefFLEUR: a vision–language model rates a caption from 0 to 1, smoothed over the digits' probabilities."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.metrics.contract import Need, Shared
from captious.metrics.judges._digits import SmoothedMetric, find_number, smooth_decimal, smooth_yes
from captious.metrics.judges._yes_no import read_word
from captious.metrics.judges.judged import (
    PROMPTS,
    CallPlan,
    JudgeSetup,
    JudgeVerdict,
    format_list,
    join_prompts,
    quote,
    read_prompt,
)
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request, Turn

# A reply is a number; some models write a few words around it.
NUMBER_TOKENS = 32
WHY_TOKENS = 256


@dataclass(frozen=True)
class _Rating(SmoothedMetric):
    """Base class of FLEUR and RefFLEUR."""

    renormalize: bool = False
    answer: Literal["number", "yes-no"] = "number"
    why: bool = False
    """Whether the judge is asked for its reason, in a second turn."""

    reply_tokens: ClassVar[int] = 4
    body: ClassVar[str]
    """The file with the first part of the prompt; the second says how to answer."""

    def read_prompts(self) -> dict[str, str]:
        """Read the prompt, and the one that asks for a reason."""
        ending = "rate_yes_no" if self.answer == "yes-no" else "rate_number"
        prompts = {"question": join_prompts(self.prompt, self.fields, self.body, ending)}
        return prompts | ({"why": read_prompt(PROMPTS / "fleur_why.txt", ())} if self.why else {})

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build one request per caption."""
        length = 1 if self.answer == "yes-no" else NUMBER_TOKENS
        return [Request((self._build_turn(item, setup.prompts["question"]),), max_tokens=length) for item in captions]

    def _build_turn(self, item: Item, prompt: str) -> Turn:
        """Build the turn about the only candidate of an item."""
        texts = {"caption": self.format_caption(item.candidate), "references": format_list(item.references)}
        image = (item.fields["image"],) if "image" in self.needs else ()
        return Turn("user", prompt.format(**{name: texts[name] for name in self.fields}), image)

    def format_caption(self, caption: str) -> str:
        """Format a caption for the prompt: in quotation marks, so that it cannot continue the prompt."""
        return quote(caption)

    def plan(self, captions: CaptionSet, setup: JudgeSetup) -> CallPlan:
        """Plan the ratings, and with ``why`` a second request for each that is not stored."""
        plan = super().plan(captions, setup)
        if not self.why:
            return plan
        calls = plan.calls // (self.samples if self.smoothing == "samples" else 1)
        tokens = plan.prompt_tokens * calls // max(plan.calls, 1)
        images = plan.images * calls // max(plan.calls, 1)
        return plan + CallPlan(calls, 0, tokens + 30 * calls, 60 * calls, images)

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Collect the score of each caption, and the reason if requested."""
        verdicts = super().collect_verdicts(captions, setup)
        if not self.why:
            return verdicts
        rated = {index: one for index, one in enumerate(verdicts) if isinstance(one, JudgeVerdict)}
        questions = self.build_requests(captions, setup)
        conversations = [
            Request(
                (*questions[index].turns, Turn("assistant", _get_raw_rating(one)), Turn("user", setup.prompts["why"])),
                max_tokens=WHY_TOKENS,
            )
            for index, one in rated.items()
        ]
        reasons = ask_and_parse(setup.judge, conversations, lambda reply: reply.text.strip(), what=f"{self.label}: why")
        for (index, one), reason in zip(rated.items(), reasons, strict=True):
            if isinstance(reason, str):
                verdicts[index] = replace(one, reason=reason)
        return verdicts

    def smooth(self, reply: Reply) -> JudgeVerdict | None:
        """Compute the expected number, or the probability of yes."""
        return smooth_yes(reply) if self.answer == "yes-no" else smooth_decimal(reply, self.renormalize)

    def read_raw(self, reply: Reply) -> float:
        """Read the number, or 1 for yes and 0 for no."""
        return float(read_word(reply.text)) if self.answer == "yes-no" else float(find_number(reply.text)[0])

    def settings(self, state: Shared[JudgeSetup]) -> Mapping[str, str]:
        """Return the model, the prompt, and the kind of reply."""
        return {**super().settings(state), "parse": self.answer}

    def hint(self, reason: str) -> str:
        """Say what helps if the model cannot see images."""
        blind = "image" in self.needs and reason.startswith("status") and "image" in reason
        return "; fleur(context=references) judges only by the references" if blind else super().hint(reason)


def _get_raw_rating(verdict: JudgeVerdict) -> str:
    """Return the rating as the judge wrote it."""
    return str(verdict.details.get("raw", f"{verdict.value:.2f}"))


@dataclass(frozen=True)
class Fleur(_Rating):
    """FLEUR: a vision–language model rates how well a caption describes its image, without references.

    The model sees the image and the caption, and writes a number from 0.0 to 1.0. Models use few numbers, so many
    captions would tie. Score smoothing takes the expectation over the digits d that the model could have written, with
    their probabilities p at the first decimal and, if the reply has one, at the second::

        FLEUR = Σ p₁(d) · d / 10  +  Σ p₂(d) · d / 100
        FLEUR = 0.9 · p("0") + 1.0 · p("1")    at the leading digit, if the reply is 1.0

    The digit is located by its position in the text. As in the original, probabilities are those among all tokens;
    ``renormalize`` makes those of the digits sum to 1. Digits beyond the ``top`` likeliest tokens count as 0. Where a
    token holds several digits, the expectation is over the numbers among its alternatives (``merged_digits`` in the
    signature counts these). Where the server gives no probabilities, the value is the mean of ``samples`` replies at
    temperature 1 (``sampled`` in the signature). ``smoothing=none`` takes the number as it was written.

    After a reply without a number from 0 to 1 the request is repeated, at most twice; then the caption has no value.
    (The original code reuses the score of the caption before.) ``why`` asks for the reason in a second turn, for
    `explain`.

    A model that cannot see images can rate by text: with ``context=references`` the reference captions replace the
    image. ``answer=yes-no`` asks whether the caption is right, and the value is p(yes) / (p(yes) + p(no)); it suits
    models too small to rate by numbers. Neither is FLEUR as published, and the label says so. ``prompt`` names a file
    with ``{caption}``, and with ``{references}`` where they are the context.

    ``preset=expert`` is EXPERT (Kim, Kim, Jeong, Cho, Cho. ACL Findings 2025): a LLaVA fine-tuned to rate, with the
    same arithmetic. Such a model was trained with one prompt, so ``prompt`` must name a file with its authors'
    scoring prompt (in ``expert.py`` of hjkim811/EXPERT) and ``{caption}``. The caption gets no quotation marks.

    >>> Fleur("llava").label, Fleur("smollm2", context="references", answer="yes-no").label
    ('FLEUR', 'FLEUR (text only, yes/no)')
    """

    context: Literal["image", "references"] = "image"
    preset: Literal["fleur", "expert"] = "fleur"

    name: ClassVar[str] = "fleur"
    citation: ClassVar[str] = (
        "Lee, Park, Kang. FLEUR: An Explainable Reference-Free Evaluation Metric for Image Captioning Using a Large "
        "Multimodal Model. ACL 2024."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.preset == "fleur":
            return
        if not self.prompt:
            raise InputError(
                "fleur(preset=expert) needs prompt: a file with the scoring prompt of expert.py in the repository "
                "hjkim811/EXPERT, with {caption} in place of the caption"
            )
        if self.context != "image" or self.answer != "number" or self.why:
            raise InputError("fleur(preset=expert): expected it without context, answer and why, which are FLEUR's")

    @property
    def needs(self) -> tuple[Need, ...]:
        """An image, or references in its place."""
        return (self.context, "judge")

    @property
    def fields(self) -> tuple[str, ...]:  # type: ignore[override]
        """The placeholders of the prompt."""
        return ("caption",) if self.context == "image" else ("references", "caption")

    @property
    def body(self) -> str:  # type: ignore[override]
        """The file with the first part of the prompt."""
        return "fleur" if self.context == "image" else "fleur_text"

    def format_caption(self, caption: str) -> str:
        """Format a caption for the prompt; EXPERT was trained with captions on one line, without quotation marks."""
        return " ".join(caption.split()) if self.preset == "expert" else quote(caption)

    @property
    def label(self) -> str:
        """EXPERT, or FLEUR and how it differs from what was published."""
        if self.preset == "expert":
            return "EXPERT"
        return _format_label("FLEUR", text_only=self.context != "image", answer=self.answer)


@dataclass(frozen=True)
class RefFleur(_Rating):
    """RefFLEUR: FLEUR whose model also sees the reference captions.

    The number from 0.0 to 1.0, the smoothing over digits, and all parameters are those of `fleur`. References stand
    before the caption in the prompt, one in a line. (The original prints them as a Python list.) ``prompt`` names a
    file with ``{references}`` and ``{caption}``.

    >>> RefFleur("llava").label
    'RefFLEUR'
    """

    name: ClassVar[str] = "reffleur"
    body: ClassVar[str] = "reffleur"
    needs: ClassVar[tuple[Need, ...]] = ("image", "references", "judge")
    fields: ClassVar[tuple[str, ...]] = ("references", "caption")
    citation: ClassVar[str] = Fleur.citation

    @property
    def label(self) -> str:
        """RefFLEUR, and how it differs from what was published."""
        return _format_label("RefFLEUR", text_only=False, answer=self.answer)


def _format_label(name: str, text_only: bool, answer: str) -> str:
    differences = [*(["text only"] if text_only else []), *(["yes/no"] if answer == "yes-no" else [])]
    return f"{name} ({', '.join(differences)})" if differences else name
