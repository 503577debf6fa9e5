"""Two captions of one item before a judge: the question in both orders, and the verdict that follows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from captious.captions import CaptionSet, ImageSource
from captious.metrics.judges.judged import JudgeSetup, json_object, listed, quoted, shortened
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, Reply, Request, Turn

Outcome = Literal["first", "second", "tie"]
SWAPPED: Mapping[Outcome, Outcome] = {"first": "second", "second": "first", "tie": "tie"}
WORDS: Mapping[str, Outcome] = {
    "first": "first", "second": "second", "tie": "tie", "1": "first", "2": "second", "neither": "tie", "both": "tie",
}  # fmt: skip
"""How a judge may call the better caption."""
PROMPT = "arena"
LONGEST = 512
"""Tokens of a reply, which is a verdict and one or two sentences."""
FIELDS = ("evidence", "first", "second")
"""What a prompt must have in braces."""


SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "better": {"type": "string", "enum": ["first", "second", "tie"]}},
    "required": ["reason", "better"],
    "additionalProperties": False,
}
"""The JSON schema of a reply, for servers that hold to one."""


@dataclass(frozen=True)
class Preference:
    """What the judge said of two captions in one order."""

    better: Outcome
    """The better of the captions in the order in which they were shown."""
    reason: str = ""


@dataclass(frozen=True)
class Match:
    """The captions of two systems for one item, and what the judge said of them."""

    id: str
    systems: tuple[str, str]
    captions: tuple[str, str]
    opinions: tuple[Preference | Failure, ...] = ()
    """The preferences with the captions in this order and in the other.

    Empty where they are equal and nothing was asked.
    """

    @property
    def verdicts(self) -> list[Outcome]:
        """Both opinions, in terms of ``systems``; empty where one of them is missing."""
        opinions = [one for one in self.opinions if isinstance(one, Preference)]
        return [opinions[0].better, SWAPPED[opinions[1].better]] if len(opinions) == 2 else []

    @property
    def outcome(self) -> Outcome | None:
        """Which system is better. A verdict that changes with the order is a tie; None where there is none."""
        if not self.opinions:
            return "tie"
        verdicts = self.verdicts
        return None if not verdicts else verdicts[0] if verdicts[0] == verdicts[1] else "tie"

    @property
    def changed(self) -> bool:
        """Whether the verdict changed with the order."""
        return len(set(self.verdicts)) == 2

    @property
    def winner(self) -> str | None:
        """The name of the better system; None for a tie and where there is no verdict."""
        return None if self.outcome in (None, "tie") else self.systems[self.outcome == "second"]

    @property
    def failure(self) -> str:
        """Why there is no verdict."""
        return next((one.reason for one in self.opinions if isinstance(one, Failure)), "")


def draw(sets: Mapping[str, CaptionSet], comparisons: int | None, seed: int) -> list[Match]:
    """The comparisons to make: all, or as many of each pair of systems, drawn at random; in the order of the items."""
    pairs, ids = list(combinations(sets, 2)), next(iter(sets.values())).ids
    chosen = [(item, pair) for item in range(len(ids)) for pair in range(len(pairs))]
    if comparisons is not None and comparisons < len(chosen):
        generator = np.random.default_rng(seed)
        orders = [generator.permutation(len(ids)).tolist() for _ in pairs]
        # Round by round one item of every pair, so that no pair is ahead by more than one.
        rounds = [(orders[pair][turn], pair) for turn in range(len(ids)) for pair in range(len(pairs))]
        chosen = sorted(rounds[:comparisons])
    return [
        Match(ids[item], (one, other), (_caption(sets[one], item), _caption(sets[other], item)))
        for item, (one, other) in ((item, pairs[pair]) for item, pair in chosen)
    ]


def _caption(captions: CaptionSet, item: int) -> str:
    return " ".join(" ".join(captions.candidates[item]).split())


def ask(
    sets: Mapping[str, CaptionSet],
    matches: Sequence[Match],
    setup: JudgeSetup,
    images: bool = True,
    schema: bool = False,
) -> list[Match]:
    """The comparisons with what the judge said; with ``schema`` the server holds its replies to their form."""
    asked = questions(sets, matches, setup, images, schema)
    requests = [request for both in asked.values() if not isinstance(both, Failure) for request in both]
    replies = iter(ask_and_parse(setup.judge, requests, parse_opinion, what="arena"))
    judged = []
    for index, match in enumerate(matches):
        both = asked.get(index)
        if isinstance(both, Failure):
            match = replace(match, opinions=(both, both))
        elif both is not None:
            match = replace(match, opinions=(next(replies), next(replies)))
        judged.append(match)
    return judged


def questions(
    sets: Mapping[str, CaptionSet],
    matches: Sequence[Match],
    setup: JudgeSetup,
    images: bool = True,
    schema: bool = False,
) -> dict[int, tuple[Request, Request] | Failure]:
    """Both orders of each comparison by its index, or why nothing can be asked; none of equal captions.

    Without ``images`` the judge sees the references alone.
    """
    prompt, first = setup.prompts[PROMPT], next(iter(sets.values()))
    pictures = first.images if images else [None] * len(first)
    return {
        index: _questions(sets[match.systems[0]], match, pictures, prompt, schema)
        for index, match in enumerate(matches)
        if match.captions[0] != match.captions[1]
    }


def _questions(
    captions: CaptionSet, match: Match, images: Sequence[ImageSource | None], prompt: str, schema: bool
) -> tuple[Request, Request] | Failure:
    for name, text in zip(match.systems, match.captions, strict=True):
        if not text:
            return Failure(f"{name} has no caption")
    index = captions.position(match.id)
    image, references = images[index], captions.references[index]
    evidence = ["The image is attached."] if image is not None else []
    evidence += ["People described it so:", listed(references)] if references else []
    if not evidence:
        return Failure("no image and no references; pass images=... or references=...")
    pictures = () if image is None else (image,)

    def request(first: str, second: str) -> Request:
        text = prompt.format(evidence="\n".join(evidence), first=quoted(first), second=quoted(second))
        return Request((Turn("user", text, pictures),), max_tokens=LONGEST, schema=SCHEMA if schema else None)

    one, other = match.captions
    return request(one, other), request(other, one)


def parse_opinion(reply: Reply) -> Preference:
    """The better caption and the reason of a reply.

    >>> parse_opinion(Reply('{"reason": "The second one names the dog.", "better": "second"}')).better
    'second'
    """
    answer = json_object(reply.text, "better")
    word = str(answer.get("better", "")).strip().lower().removesuffix(" caption")
    if word not in WORDS:
        raise ValueError(f"better is {shortened(word)}, expected first, second or tie")
    return Preference(WORDS[word], str(answer.get("reason") or ""))
