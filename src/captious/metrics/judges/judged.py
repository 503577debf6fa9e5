"""Base class of metrics that ask a chat model: model and prompt as parameters, one verdict per caption."""

from __future__ import annotations

import json
import math
import re
from abc import abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, ClassVar, Protocol, runtime_checkable

import numpy as np

from captious._core.files import SMALL, digest, read_regular
from captious._core.types import Ints
from captious.captions import CaptionSet
from captious.errors import InputError, format_one_line
from captious.io.questions import QuestionTable
from captious.metrics.contract import MeanMetric, Shared
from captious.metrics.explanation import Breakdown, Contribution, Explanation, label_candidates
from captious.metrics.statistic_rows import Scored, find_blank_texts, find_missing_inputs
from captious.models.chat.clip_images import SEVERAL, SINGLE, attach_frames, count_frames, describe_frames
from captious.models.chat.judge import Judge, Usage, load_judge
from captious.models.chat.messages import Failure, Request
from captious.options import get_runtime
from captious.render import Column, Text, Why

PROMPTS = Path(__file__).parent / "prompts"
# Warn if at least this many captions all get the same value.
SUSPICIOUS_TIES = 10
# Unparsed replies are shown up to this many characters; the store has them in full.
LONGEST_REPLY = 2000


@dataclass(frozen=True)
class JudgeVerdict:
    """The judgment of one caption."""

    value: float
    reason: str = ""
    """The judge's own words."""
    details: Mapping[str, Any] = field(default_factory=dict)
    """Further details to show, such as facts with their verdicts."""
    parts: Sequence[Contribution] = ()
    """The parts that add up to the value, if there are several, such as the digits that it is an expectation over."""
    weight: float = 1.0
    """The weight of the value in means: the denominator, if the value is a ratio."""
    counted: Sequence[str] = ()
    """Names under which the signature counts it; those of the metric's ``counted``."""
    summary: str = ""
    """A few words on how the value came about; the reason follows them."""
    sums: Sequence[float] = ()
    """The row of statistics, if it is another one than value × weight and weight."""


@dataclass(frozen=True, eq=False)
class JudgeSetup:
    """A judge with its prompts."""

    chat: Judge | None
    """The model that is asked, or None if every answer is stored in a file."""
    prompts: Mapping[str, str]
    tables: Mapping[str, QuestionTable] = field(default_factory=dict)
    """Files of questions and of answers, by the parameter that names them."""

    @property
    def judge(self) -> Judge:
        """The judge that is asked."""
        if self.chat is None:
            raise InputError("no model to ask: every answer is read from a file")
        return self.chat

    def as_replay(self) -> JudgeSetup:
        """Return the same setup in replay mode: it reads stored replies and sends nothing."""
        if self.chat is None:
            return self
        return replace(self, chat=replace(self.chat, judging=replace(self.chat.judging, replay=True), usage=Usage()))

    @property
    def prompt_digest(self) -> str:
        """The digest of the prompts, for signatures."""
        return digest(*(text.encode() for text in self.prompts.values()))


@dataclass(frozen=True)
class CallPlan:
    """The calls that a run would make. Tokens are estimates."""

    calls: int = 0
    stored: int = 0
    """Questions whose reply already exists."""
    prompt_tokens: int = 0
    reply_tokens: int = 0
    images: int = 0
    """Images that would be sent; each frame of a video is one."""
    waiting: Mapping[str, tuple[int, int, int]] = field(default_factory=dict, repr=False)
    """The tokens of prompt and reply and the images of the calls whose questions are known, by digest."""
    replies: frozenset[str] = field(default=frozenset(), repr=False)
    """The digests of questions whose reply already exists."""

    def __add__(self, other: CallPlan) -> CallPlan:
        """Add two plans; a question that both ask is sent once.

        >>> one = CallPlan(2, 0, 30, 8, 1, {"a": (10, 4, 1), "b": (20, 4, 0)})
        >>> one + CallPlan(1, 0, 10, 4, 1, {"a": (10, 4, 1)}) == one
        True
        """
        shared = [self.waiting[digest] for digest in other.waiting if digest in self.waiting]
        return CallPlan(
            self.calls + other.calls - len(shared),
            self.stored + other.stored - len(self.replies & other.replies),
            self.prompt_tokens + other.prompt_tokens - sum(prompt for prompt, _, _ in shared),
            self.reply_tokens + other.reply_tokens - sum(reply for _, reply, _ in shared),
            self.images + other.images - sum(images for _, _, images in shared),
            {**other.waiting, **self.waiting},
            self.replies | other.replies,
        )

    @property
    def numbers(self) -> CallPlan:
        """The plan without its questions, which are many."""
        return CallPlan(self.calls, self.stored, self.prompt_tokens, self.reply_tokens, self.images)


@runtime_checkable
class AsksJudge(Protocol):
    """A metric that can plan its requests to a chat model."""

    def plan_scoring(self, captions: CaptionSet) -> CallPlan:
        """Plan the calls for scoring a set, without sending any request."""


def plan_requests(judge: Judge, requests: Sequence[Request], reply_tokens: int) -> CallPlan:
    """Plan the calls for requests, of which some may be stored; a reply takes about `reply_tokens` tokens."""
    waiting, stored = judge.find_unanswered(requests)
    sizes = {digest: (request.estimated_tokens, reply_tokens, request.images) for digest, request in waiting.items()}
    prompts, images = (sum(size[column] for size in sizes.values()) for column in (0, 2))
    return CallPlan(len(waiting), len(stored), prompts, len(waiting) * reply_tokens, images, sizes, frozenset(stored))


@dataclass(frozen=True)
class JudgedMetric(MeanMetric):
    """A metric whose values come from a chat model. The corpus value is the mean over captions that have one.

    A subclass implements `build_requests`, the first requests to the model, and `collect_verdicts`, which sends them,
    perhaps more, and parses the replies. If it sends more than the first requests, it overrides `plan`.
    """

    model: str = ""
    """Name of the model at the endpoint, or ``local:FOLDER``."""
    prompt: str = ""
    """File with your own prompt."""

    main: ClassVar[str] = "model"
    always_shown: ClassVar[tuple[str, ...]] = ("model",)
    fields: ClassVar[tuple[str, ...]] = ("candidates", "references")
    """The placeholders that a prompt must have."""
    parse_rule: ClassVar[str] = "json"
    """The name of the rule that reads a value from a reply; part of the signature."""
    reply_tokens: ClassVar[int] = 60
    """Length of a usual reply to a first question, for the estimate before a run."""
    candidates_together: ClassVar[bool] = False
    """Whether all candidates of an item are judged as one; otherwise each is, and the item has their mean."""
    counted: ClassVar[tuple[str, ...]] = ()
    """The counts of the signature besides that of unreadable replies."""
    row_size: ClassVar[int] = 2
    """The statistics of a row."""
    part_unit: ClassVar[str] = "verdict"
    """The noun for a part of an explanation."""
    part_columns: ClassVar[Sequence[Column]] = ()
    """The columns of the details of the verdicts' parts."""

    @property
    def reads_videos(self) -> bool:  # type: ignore[override]  # those that look at an image
        """Whether the judge sees frames of a video in place of an image."""
        return "image" in self.needs

    @property
    def sends_frames_together(self) -> bool:
        """Whether the frames of a video are sent in one message, after a sentence that says what they are."""
        return True

    def frame_settings(self, captions: CaptionSet) -> Mapping[str, str]:
        """Return which frames are sent and how large, and the digest of the prompts with the sentence about them."""
        if not super().frame_settings(captions):
            return {}
        if not self.sends_frames_together:
            return describe_frames(captions)
        texts = (*self.read_prompts().values(), SEVERAL, SINGLE)
        return {**describe_frames(captions), "prompt": digest(*(text.encode() for text in texts))}

    def prepare(self, captions: CaptionSet) -> Shared[JudgeSetup]:
        """Load the judge and the prompts; no request is sent."""
        if not self.model:
            raise InputError(f"{self.name}: name the model that judges, such as {self.name}(model=gpt-4o-mini)")
        setup = JudgeSetup(load_judge(self.model), self.read_prompts())
        return Shared(setup, f"{self.model}#{setup.prompt_digest}")

    def read_prompts(self) -> dict[str, str]:
        """Read the prompts by name."""
        return {self.name: read_prompt(self.prompt or PROMPTS / f"{self.name}.txt", self.fields)}

    @abstractmethod
    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build the first requests about each item, which has one candidate unless they are judged together."""

    @abstractmethod
    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """Collect the judge's verdict on each item of such a set."""

    def plan(self, captions: CaptionSet, setup: JudgeSetup) -> CallPlan:
        """Plan the calls for the verdicts on such a set."""
        return plan_requests(setup.judge, self.build_requests(captions, setup), self.reply_tokens)

    def plan_scoring(self, captions: CaptionSet) -> CallPlan:
        """Plan the calls for scoring a set, without sending any request."""
        units, reasons = self._split_units(captions)
        asked = [index for index in range(len(units)) if index not in reasons]
        return self.plan(units.take(asked), self.prepare(captions).value)

    def score_items(self, captions: CaptionSet, state: Shared[JudgeSetup]) -> Scored:
        """Score items. A row is the sum over candidates and their number; an item with an unscored candidate gets a
        reason.
        """
        captions.keep(("state", self), state)  # explanations need the store with the replies
        chat = state.value.chat
        before = replace(chat.usage) if chat else Usage()
        units, reasons = self._split_units(captions)
        statistics, owners = np.full((len(units), self.row_size), np.nan), self._get_owners(captions)
        counts = dict.fromkeys(("unreadable", *self.counted), 0)
        asked = [index for index in range(len(units)) if index not in reasons]
        verdicts = self.collect_verdicts(units.take(asked), state.value) if asked else []
        for index, verdict in zip(asked, verdicts, strict=True):
            if isinstance(verdict, Failure):
                reasons[index] = verdict.reason
            else:
                statistics[index] = self.get_statistics(verdict)
                for name in verdict.counted:
                    counts[name] += 1
        rows = np.zeros((len(captions), self.row_size))
        np.add.at(rows, owners, statistics)
        by_item: dict[int, str] = {}
        for index in sorted(reasons):
            by_item.setdefault(int(owners[index]), reasons[index])
        if self.reads_videos and captions.has_videos:
            counts |= count_frames(attach_frames(captions)[0])
        counts["unreadable"] = sum(reason.startswith("unreadable") for reason in reasons.values())
        notes = [f"{self.label}: {chat.usage.since(before).line(chat.judging.prices)}"] if chat and asked else []
        given = np.array([one.value for one in verdicts if isinstance(one, JudgeVerdict)])
        warnings = []
        if len(given) >= SUSPICIOUS_TIES and (given == given[0]).all():
            warnings = [
                f"{self.label}: the judge gave {given[0]:g} to all {len(given):,} captions, so the value says "
                "nothing of them; explain an item to see what the model replied"
            ]
        return Scored(rows, by_item, counts, warnings, notes)

    def get_statistics(self, verdict: JudgeVerdict) -> Sequence[float]:
        """Return the row of one verdict; the rows of an item's candidates add up."""
        return verdict.sums or (verdict.value * verdict.weight, verdict.weight)

    def compute_value(self, verdicts: Sequence[JudgeVerdict]) -> float:
        """Compute the value of an item from the verdicts on its candidates."""
        return float(self.aggregate(np.sum([self.get_statistics(one) for one in verdicts], axis=0)))

    def _split_units(self, captions: CaptionSet) -> tuple[CaptionSet, dict[int, str]]:
        """Split a set into units that are judged one at a time; also return why some cannot be judged."""
        units = captions
        if not self.candidates_together:
            units = captions.once("candidates alone", captions.split_candidates)
        units, faults = attach_frames(units) if self.reads_videos else (units, {})
        missing = find_missing_inputs(units, self.needs, self.reads_videos)
        return units, {**find_blank_texts(units, "references" in self.needs), **missing, **faults}

    def _get_owners(self, captions: CaptionSet) -> Ints:
        """Return the item index of each unit."""
        return np.arange(len(captions)) if self.candidates_together else captions.candidates.owners

    def break_down(self, item: CaptionSet, state: Shared[JudgeSetup]) -> Breakdown:
        """Break the value down by verdicts, or by their parts, with the judge's words; reads stored replies only."""
        units, _ = self._split_units(item)
        return self.build_breakdown(
            [one for one in self.collect_verdicts(units, state.value) if isinstance(one, JudgeVerdict)]
        )

    def break_down_missing(self, item: CaptionSet, state: Shared[JudgeSetup]) -> Breakdown:
        """List replies that could not be parsed."""
        units, reasons = self._split_units(item)
        asked = [index for index in range(len(units)) if index not in reasons]
        return _list_unread_replies(self.collect_verdicts(units.take(asked), state.value)) if asked else Breakdown([])

    @property
    def explains_on_page(self) -> bool:
        """Reasons, facts and probabilities, from stored replies."""
        return True

    def page_explanations(self, captions: CaptionSet, indices: Sequence[int], state: Shared[JudgeSetup]) -> list[Why]:
        """Explain each item from stored replies. Nothing is sent; replies in another store cannot be shown."""
        chosen = captions.take(indices)
        units, reasons = self._split_units(chosen)
        asked = [index for index in range(len(units)) if index not in reasons]
        try:
            verdicts = self.collect_verdicts(units.take(asked), state.value.as_replay()) if asked else []
        except InputError as error:
            get_runtime().log(f"{self.label}: the page shows no reasons ({error})")
            return []
        by_item: list[list[JudgeVerdict | Failure]] = [[] for _ in indices]
        for owner, reason in zip(self._get_owners(chosen)[list(reasons)].tolist(), reasons.values(), strict=True):
            by_item[owner].append(Failure(reason))
        for owner, verdict in zip(self._get_owners(chosen)[asked].tolist(), verdicts, strict=True):
            by_item[owner].append(verdict)
        return [self._explain_item(id, own) for id, own in zip(chosen.ids, by_item, strict=True)]

    def _explain_item(self, id: str, verdicts: Sequence[JudgeVerdict | Failure]) -> Why:
        readable = [one for one in verdicts if isinstance(one, JudgeVerdict)]
        reason = next((one.reason for one in verdicts if isinstance(one, Failure)), "" if verdicts else "no candidates")
        breakdown = _list_unread_replies(verdicts) if reason else self.build_breakdown(readable)
        value = math.nan if reason else self.compute_value(readable)
        if len(verdicts) == len(readable) == 1 and not readable[0].parts:  # a number and a reason need no table
            return Why(breakdown.summary, [Text([readable[0].reason])] if readable[0].reason else [])
        explanation = Explanation(str(self), self.label, id, value, breakdown, reason)
        return Why(breakdown.summary, explanation.sections())

    def build_breakdown(self, verdicts: Sequence[JudgeVerdict]) -> Breakdown:
        """Build the breakdown of one item's value from its verdicts."""
        together = self.candidates_together or len(verdicts) == 1
        names = [self.label] if together else label_candidates(len(verdicts))
        total = sum(one.weight for one in verdicts)
        parts, notes = list[Contribution](), list[str]()
        for number, (name, one) in enumerate(zip(names, verdicts, strict=True)):
            candidate, share = None if together else number, one.weight / total
            own = one.parts or [Contribution(name, one.value, details={"reason": one.reason, **one.details})]
            parts += [part._replace(adds=part.adds * share, candidate=candidate) for part in own]
            if one.parts and one.reason:
                notes.append(f"{'the judge' if together else f'the judge on {name}'}: {one.reason}")
        columns = list(self.part_columns)
        if any(part.details.get("reason") for part in parts):
            columns.append(Column("reason", "text"))
        summary = " · ".join(": ".join(filter(None, (one.summary, one.reason))) for one in verdicts)
        return Breakdown(
            parts, unit=self.part_unit, columns=columns, notes=notes, shown=None, ordered=True, summary=summary
        )

    def settings(self, state: Shared[JudgeSetup]) -> Mapping[str, str]:
        """Return the model as the server names it, the prompt, the parse rule, and the supported options."""
        judge = state.value.chat
        if judge is None:
            return {}
        settings = {"judge": judge.identity, "prompt": state.value.prompt_digest, "parse": self.parse_rule}
        for ability, able in sorted(judge.abilities.items()):
            settings[ability] = "followed" if able else "ignored"
        return settings


def _list_unread_replies(verdicts: Sequence[JudgeVerdict | Failure]) -> Breakdown:
    """Show the replies that could not be parsed."""
    replies = dict.fromkeys(one.reply for one in verdicts if isinstance(one, Failure) and one.reply)
    notes = [f"the judge replied: {_truncate_reply(reply)}" for reply in replies]
    return Breakdown([], notes=notes, summary=f"the judge replied: {next(iter(replies))}" if replies else "")


def _truncate_reply(reply: str) -> str:
    return reply if len(reply) <= LONGEST_REPLY else f"{reply[:LONGEST_REPLY]}… ({len(reply):,} characters)"


def read_prompt(path: str | Path, fields: Sequence[str]) -> str:
    """Read a prompt and check that it has every field in braces, and no other."""
    try:
        text = read_regular(path, SMALL).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read ({format_one_line(error)}), expected a text with a prompt") from None
    try:
        text.format(**dict.fromkeys(fields, ""))
    except (KeyError, IndexError, ValueError, AttributeError) as error:
        braces = " and ".join(f"{{{name}}}" for name in fields)
        raise InputError(f"{path}: {error} in braces, expected only {braces}; other braces are doubled") from None
    for name in fields:
        if f"{{{name}}}" not in text:
            raise InputError(f"{path}: has no {{{name}}}, which stands for what is judged")
    return text


def join_prompts(own: str, fields: Sequence[str], *names: str) -> str:
    """Read the user's prompt, or join these files of the package: some metrics share parts of a prompt."""
    if own:
        return read_prompt(own, fields)
    first, *others = names
    return "".join(
        [read_prompt(PROMPTS / f"{first}.txt", fields), *(read_prompt(PROMPTS / f"{one}.txt", ()) for one in others)]
    )


def quote(text: str) -> str:
    r"""Quote a text on one line as JSON, so that a caption cannot end the quotation and continue the prompt.

    >>> print(quote('a "stop" sign'), quote("two\ncats"))
    "a \"stop\" sign" "two cats"
    """
    # JSON escapes quotation marks and backslashes, and joining the words removes line breaks.
    return json.dumps(" ".join(text.split()), ensure_ascii=False)


def format_list(texts: Sequence[str]) -> str:
    r"""Format texts as quoted lines with a hyphen.

    >>> print(format_list(["a dog", "two\ncats"]))
    - "a dog"
    - "two cats"
    """
    return "\n".join(f"- {quote(text)}" for text in texts)


def find_json_values(text: str, opening: str) -> Iterator[Any]:
    r"""Yield the JSON values in a reply that start with a bracket, in order, ignoring text around them.

    >>> list(find_json_values('Sure! ```json\n{"score": 80, "reason": "a {red} dog"}\n```', "{"))
    [{'score': 80, 'reason': 'a {red} dog'}]
    """
    decoder, after = json.JSONDecoder(strict=False), 0
    for match in re.finditer(re.escape(opening), text):
        if match.start() < after:  # inside a value already parsed
            continue
        try:
            value, after = decoder.raw_decode(text, match.start())
        except (ValueError, RecursionError):
            continue
        yield value


def read_json_object(text: str, field: str) -> dict[str, Any]:
    r"""Read the last JSON object in a reply that has a field: an earlier one may be quoted from a caption.

    >>> read_json_object('The caption says {"score": 100}. {"score": 20, "reason": "a {red} dog"}', "score")
    {'score': 20, 'reason': 'a {red} dog'}
    """
    objects = [value for value in find_json_values(text, "{") if isinstance(value, dict)]
    if not objects:
        raise ValueError(f"no JSON object in {shorten(text)}")
    fitting = [value for value in objects if field in value]
    if not fitting:
        raise ValueError(f"the object has no {field}")
    return fitting[-1]


def parse_number(value: Any, low: float, high: float, what: str = "score") -> float:
    """Parse a number that must be on its scale; also a text such as "80" or "80/100".

    >>> parse_number("80", 0, 100), parse_number(79.5, 0, 100)
    (80.0, 79.5)
    """
    if isinstance(value, str) and (match := re.fullmatch(r"\s*(-?\d+(?:\.\d+)?)\s*(?:%|/\s*100)?\s*", value)):
        value = float(match[1])
    if isinstance(value, bool) or not isinstance(value, (int, float)) or not math.isfinite(value):
        raise ValueError(f"{what} {shorten(str(value))} is not a number")
    if not low <= value <= high:
        raise ValueError(f"{what} {value:g} is not from {low:g} to {high:g}")
    return float(value)


def shorten(text: str, most: int = 60) -> str:
    """Quote a reply on one line, truncated for a message."""
    line = " ".join(text.split())
    return repr(line if len(line) <= most else f"{line[: most - 1]}…")
