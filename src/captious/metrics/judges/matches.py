"""Pairwise comparisons of captions by a judge: questions in both orders, and verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import Any, Literal

import numpy as np

from captious.captions import CaptionSet, ImageSource
from captious.metrics.judges.judged import JudgeSetup, format_list, quote, read_json_object, shorten
from captious.models.chat.clip_images import attach_frames
from captious.models.chat.judge import ask_and_parse
from captious.models.chat.messages import Failure, ImageGroup, Reply, Request, Turn

Outcome = Literal["first", "second", "tie"]
# A comparison shows the captions in both orders, or in a random one.
Orders = Literal["both", "one"]
SWAPPED: Mapping[Outcome, Outcome] = {"first": "second", "second": "first", "tie": "tie"}
# Words of a judge for the better caption.
WORDS: Mapping[str, Outcome] = {
    "first": "first", "second": "second", "tie": "tie", "1": "first", "2": "second", "neither": "tie", "both": "tie",
}  # fmt: skip
PROMPT = "arena"
# Token limit of a reply: a verdict and one or two sentences.
LONGEST = 512
# Fields that a prompt must have in braces.
FIELDS = ("evidence", "first", "second")


# JSON schema of a reply, for servers that enforce one.
SCHEMA: Mapping[str, Any] = {
    "type": "object",
    "properties": {"reason": {"type": "string"}, "better": {"type": "string", "enum": ["first", "second", "tie"]}},
    "required": ["reason", "better"],
    "additionalProperties": False,
}


@dataclass(frozen=True)
class Preference:
    """The judge's opinion of two captions in one order."""

    better: Outcome
    """The better of the captions in the order in which they were shown."""
    reason: str = ""


@dataclass(frozen=True)
class Match:
    """The captions of two systems for one item, with the judge's opinions."""

    id: str
    systems: tuple[str, str]
    captions: tuple[str, str]
    opinions: tuple[Preference | Failure, ...] = ()
    """The preferences in each of ``orders``. Empty if the captions are equal and nothing was asked."""
    orders: tuple[Literal["own", "swapped"], ...] = ("own", "swapped")
    """How the captions are shown in each question: in this order, or in the other."""

    @property
    def verdicts(self) -> list[Outcome]:
        """The opinions in terms of ``systems``; empty if one of them is missing."""
        opinions = [one for one in self.opinions if isinstance(one, Preference)]
        if len(opinions) != len(self.orders):
            return []
        return [
            one.better if order == "own" else SWAPPED[one.better]
            for one, order in zip(opinions, self.orders, strict=True)
        ]

    @property
    def outcome(self) -> Outcome | None:
        """Which system is better. A verdict that changes with the order is a tie; None if there is none."""
        if not self.opinions:
            return "tie"
        verdicts = self.verdicts
        return None if not verdicts else verdicts[0] if len({*verdicts}) == 1 else "tie"

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
        """The reason why there is no verdict."""
        return next((one.reason for one in self.opinions if isinstance(one, Failure)), "")


@dataclass(frozen=True)
class Opponents:
    """The pairs of systems to compare: all pairs, each challenger with every baseline, or with the baseline of the
    item.
    """

    challengers: tuple[str, ...] = ()
    baselines: tuple[str, ...] = ()
    """Systems that challengers are compared with; none where every two systems meet."""
    assigned: tuple[str, ...] | None = None
    """The one baseline of each item, where items have one."""

    def pairs(self, systems: Iterable[str]) -> list[tuple[str, str]]:
        """List the pairs of systems to compare."""
        if not self.baselines:
            return list(combinations(systems, 2))
        return [(one, other) for one in self.challengers for other in self.baselines if one != other]

    def meet(self, item: int, other: str) -> bool:
        """Return True if the second system of a pair is compared on an item."""
        return self.assigned is None or self.assigned[item] == other


EVERYBODY = Opponents()


def draw(
    sets: Mapping[str, CaptionSet],
    comparisons: int | None,
    seed: int,
    opponents: Opponents = EVERYBODY,
    orders: Orders = "both",
) -> list[Match]:
    """Draw the comparisons: all, or `comparisons` of them, spread evenly over pairs; in the order of the items.

    With one order, which caption is shown first is drawn for each comparison.
    """
    pairs, ids = opponents.pairs(sets), next(iter(sets.values())).ids
    chosen = [(item, pair) for item in range(len(ids)) for pair in range(len(pairs))]
    chosen = [(item, pair) for item, pair in chosen if opponents.meet(item, pairs[pair][1])]
    generator = np.random.default_rng(seed)
    if comparisons is not None and comparisons < len(chosen):
        shuffled = [generator.permutation(len(ids)).tolist() for _ in pairs]
        # Take one item of every pair per round, so that the pairs' numbers of comparisons differ by at most one.
        rounds = [(shuffled[pair][turn], pair) for turn in range(len(ids)) for pair in range(len(pairs))]
        wanted = {*chosen}
        chosen = sorted([one for one in rounds if one in wanted][:comparisons])
    first = generator.random(len(chosen)) < 0.5 if orders == "one" else ()
    matches = [
        Match(ids[item], (one, other), (_join_caption(sets[one], item), _join_caption(sets[other], item)))
        for item, (one, other) in ((item, pairs[pair]) for item, pair in chosen)
    ]
    return (
        [replace(match, orders=("own",) if own else ("swapped",)) for match, own in zip(matches, first, strict=True)]
        if orders == "one"
        else matches
    )


def _join_caption(captions: CaptionSet, item: int) -> str:
    return " ".join(" ".join(captions.candidates[item]).split())


def ask(
    sets: Mapping[str, CaptionSet],
    matches: Sequence[Match],
    setup: JudgeSetup,
    images: bool = True,
    schema: bool = False,
) -> list[Match]:
    """Ask the judge about the comparisons; with ``schema`` the server must follow a JSON schema."""
    asked = build_questions(sets, matches, setup, images, schema)
    requests = [request for both in asked.values() if not isinstance(both, Failure) for request in both]
    replies = iter(ask_and_parse(setup.judge, requests, parse_opinion, what="arena"))
    judged = []
    for index, match in enumerate(matches):
        both = asked.get(index)
        if isinstance(both, Failure):
            match = replace(match, opinions=(both,) * len(match.orders))
        elif both is not None:
            match = replace(match, opinions=tuple(next(replies) for _ in match.orders))
        judged.append(match)
    return judged


def build_questions(
    sets: Mapping[str, CaptionSet],
    matches: Sequence[Match],
    setup: JudgeSetup,
    images: bool = True,
    schema: bool = False,
) -> dict[int, tuple[Request, ...] | Failure]:
    """Build the requests of each comparison by its index, or a Failure; equal captions are not compared.

    Without ``images`` the judge sees the references alone.
    """
    prompt, first = setup.prompts[PROMPT], next(iter(sets.values()))
    attached, faults = attach_frames(first) if images else (first, {})
    pictures: list[ImageSource | Failure | None] = list(attached.images) if images else [None] * len(first)
    for index, fault in faults.items():
        pictures[index] = Failure(fault)
    return {
        index: _build_match_questions(sets[match.systems[0]], match, pictures, prompt, schema)
        for index, match in enumerate(matches)
        if match.captions[0] != match.captions[1]
    }


def _build_match_questions(
    captions: CaptionSet, match: Match, images: Sequence[ImageSource | Failure | None], prompt: str, schema: bool
) -> tuple[Request, ...] | Failure:
    for name, text in zip(match.systems, match.captions, strict=True):
        if not text:
            return Failure(f"{name} has no caption")
    index = captions.position(match.id)
    image, references = images[index], captions.references[index]
    if isinstance(image, Failure):
        return image
    what = "The frames are" if isinstance(image, ImageGroup) else "The image is"
    evidence = [f"{what} attached."] if image is not None else []
    evidence += ["People described it so:", format_list(references)] if references else []
    if not evidence:
        return Failure("no image and no references; pass images=... or references=...")
    pictures = () if image is None else (image,)

    def request(first: str, second: str) -> Request:
        text = prompt.format(evidence="\n".join(evidence), first=quote(first), second=quote(second))
        return Request((Turn("user", text, pictures),), max_tokens=LONGEST, schema=SCHEMA if schema else None)

    one, other = match.captions
    return tuple(request(one, other) if order == "own" else request(other, one) for order in match.orders)


def parse_opinion(reply: Reply) -> Preference:
    """Parse the better caption and the reason of a reply.

    >>> parse_opinion(Reply('{"reason": "The second one names the dog.", "better": "second"}')).better
    'second'
    """
    answer = read_json_object(reply.text, "better")
    word = str(answer.get("better", "")).strip().lower().removesuffix(" caption")
    if word not in WORDS:
        raise ValueError(f"better is {shorten(word)}, expected first, second or tie")
    return Preference(WORDS[word], str(answer.get("reason") or ""))
