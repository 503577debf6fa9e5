"""DCScore: precision and recall of the facts in a detailed caption, against the image and the facts of a reference."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import product
from typing import Any, ClassVar, Literal, NamedTuple, TypeVar

from captious.captions import CaptionSet, Item
from captious.errors import InputError
from captious.io.printed import parse_text_list
from captious.metrics.contract import Need, Shared
from captious.metrics.explanation import Breakdown, Contribution
from captious.metrics.judges._facts import (
    FactMetric,
    ask_each,
    estimate_facts,
    limit_list_tokens,
    map_unless_failed,
    number_lines,
    read_flag,
    read_json_list,
    require_all,
    require_complete,
)
from captious.metrics.judges.judged import JudgeSetup, JudgeVerdict, quote, shorten
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.render import Column

# A small number added to the denominator of F1, as in the original.
EPSILON = 1e-8
# Placeholder of a fact in dry runs.
BLANK = " " * 40
# Name of the signature's count of captions whose oracle facts were given.
ORACLE_LISTS = "oracle_lists"
# Column with the oracle facts of an item, if they are given.
OWN_FACTS = "facts"

NAMES = ("precision", "recall", "f1")
# The index of each fact's oracle fact, or None.
Matches = tuple[int | None, ...]
# Whether each fact is true.
Checks = tuple[bool, ...]
T = TypeVar("T")


class MatchedFact(NamedTuple):
    """A fact of a caption."""

    text: str
    identifier: str = ""
    """The subject of the fact."""
    relevant: bool = True
    """Whether it says what is seen, and is not a guess or a comment."""


class FactLists(NamedTuple):
    """The facts of a caption and those of its references."""

    facts: list[MatchedFact]
    oracle: list[str]
    own: bool = False
    """Whether the oracle facts came with the item."""

    @property
    def numbered(self) -> str:
        """The facts of the caption as the prompts have them."""
        return number_lines([fact.text for fact in self.facts])

    def find_oracle_fact(self, index: int, matches: Sequence[Matches]) -> str:
        """Find the oracle fact that a fact is most often matched with; empty if it is mostly unmatched."""
        ((match, _),) = Counter(one[index] for one in matches).most_common(1)
        return "" if match is None else self.oracle[match]


class FactScores(NamedTuple):
    """Precision, recall and F1, with the contribution of each fact to each."""

    precision: float
    recall: float
    f1: float
    adds: Mapping[str, Sequence[float]]


@dataclass(frozen=True)
class DCScore(FactMetric):
    """DCScore: how many facts of a detailed caption are true, and how many of the reference's facts it has.

    The model breaks the caption into facts, marks those that describe the image as relevant, matches each to a fact of
    the reference (an oracle fact) or to none, and checks each against the image and the reference. Matching and
    checking are sampled three times; every check is combined with every matching::

        precision = true facts / facts
        recall    = (sum over true facts of 1 if unmatched, else 1 / facts with the same match)
                    / (oracle facts + true unmatched facts)
        DCScore   = mean of F1 over all facts and F1 over relevant facts, averaged over the nine combinations

    From 0 to 1; the original prints it × 100. ``value`` gives precision or recall in place of F1, averaged likewise.
    Facts with the same match share one point. Over relevant facts they are counted among the relevant ones; the
    original counts all there (``sharing=all``). Facts are matched by their numbers, so equal ones stay apart.

    The oracle facts are those of the column ``facts`` (a list of texts); where an item has none, the model lists those
    of its references. Calls per caption: one, one for its references, and twice ``samples``. A fact without a word on
    its relevance is relevant. A caption without facts, or without relevant ones, has no value. ``prompt`` names a
    folder with ``dcscore_facts.txt``, ``dcscore_match.txt`` or ``dcscore_check.txt``.

    >>> print(DCScore("gpt-4o", value="recall"))
    dcscore(model=gpt-4o,value=recall)
    """

    value: Literal["f1", "precision", "recall"] = "f1"
    """What is averaged."""
    samples: int = 3
    """How often facts are matched, and how often they are checked."""
    sharing: Literal["relevant", "all"] = "relevant"
    """The facts among which equal matches are counted, where only relevant ones are scored."""

    name: ClassVar[str] = "dcscore"
    needs: ClassVar[tuple[Need, ...]] = ("image", "references", "judge")
    citation: ClassVar[str] = (
        "Ye, Zeng, Li, Li, Fan. Painting with Words: Elevating Detailed Image Captioning with Benchmark and Alignment "
        "Learning. ICLR 2025."
    )
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "dcscore_facts": ("text",),
        "dcscore_match": ("facts", "oracle"),
        "dcscore_check": ("reference", "facts"),
    }
    reply_tokens: ClassVar[int] = 600
    counted: ClassVar[tuple[str, ...]] = (ORACLE_LISTS,)
    part_columns: ClassVar[Sequence[Column]] = (
        Column("true", decimals=2),
        Column("matched", decimals=2),
        Column("relevant", "text"),
        Column("oracle fact", "text", key="oracle_fact"),
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.samples < 1:
            raise InputError(f"dcscore(samples={self.samples}): expected at least 1")

    @property
    def label(self) -> str:
        """The label with the name of the value, if it is not F1."""
        return "DCScore" if self.value == "f1" else f"DCScore {self.value}"

    def prepare(self, captions: CaptionSet) -> Shared[JudgeSetup]:
        """Load the judge and the prompts. The column of facts is checked before any request is sent."""
        for item in captions:
            read_item_facts(item)
        return super().prepare(captions)

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build the requests that list the facts of each caption."""
        return [self._build_list_request(item.candidate, setup) for item in captions]

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """List, match and check the facts of each caption, and compute the value."""
        facts = self._extract_facts(self.build_requests(captions, setup), setup, "in the caption")
        oracle = self._list_oracle_facts(captions, setup)
        lists = [pair_lists(*parts) for parts in zip(captions, facts, oracle, strict=True)]
        matching = map_unless_failed(lists, lambda one: self._build_match_request(one, setup))
        checking = [
            one if isinstance(one, Failure) else self._build_check_request(item, one, setup)
            for item, one in zip(captions, lists, strict=True)
        ]
        matches = self._sample_replies(matching, [partial(read_matches, lists=one) for one in lists], setup, "matching")
        checks = self._sample_replies(checking, [partial(read_checks, lists=one) for one in lists], setup, "checking")
        return [self._build_verdict(*parts) for parts in zip(lists, matches, checks, strict=True)]

    def _extract_facts(
        self, requests: Sequence[Request], setup: JudgeSetup, where: str
    ) -> list[list[MatchedFact] | Failure]:
        """Read the facts in each reply; a text without facts is a Failure."""
        replies = ask_each(setup.judge, requests, [read_facts] * len(requests), f"{self.label}: facts {where}")
        return [one or Failure(f"no facts {where}") for one in replies]

    def _list_oracle_facts(self, captions: CaptionSet, setup: JudgeSetup) -> list[list[str] | Failure]:
        """List the oracle facts from the column, or else by the judge from the references."""
        lists: list[list[str] | Failure] = [*map(read_item_facts, captions)]
        unlisted = [index for index, one in enumerate(lists) if not one]
        requests = [self._build_list_request(" ".join(captions.references[index]), setup) for index in unlisted]
        extracted = self._extract_facts(requests, setup, "in the references")
        for index, one in zip(unlisted, extracted, strict=True):
            lists[index] = one if isinstance(one, Failure) else [fact.text for fact in one]
        return lists

    def _build_list_request(self, text: str, setup: JudgeSetup) -> Request:
        prompt = setup.prompts["dcscore_facts"].format(text=quote(text))
        return Request((Turn("user", prompt),), max_tokens=limit_list_tokens(text, 24))

    def _build_match_request(self, lists: FactLists, setup: JudgeSetup) -> Request:
        oracle = number_lines(lists.oracle)
        prompt = setup.prompts["dcscore_match"].format(facts=lists.numbered, oracle=oracle)
        return Request((Turn("user", prompt),), temperature=1.0, max_tokens=256 + 24 * len(lists.facts))

    def _build_check_request(self, item: Item, lists: FactLists, setup: JudgeSetup) -> Request:
        reference = "\n".join(item.references)
        prompt = setup.prompts["dcscore_check"].format(reference=quote(reference), facts=lists.numbered)
        turn = Turn("user", prompt, (item.fields["image"],))
        return Request((turn,), temperature=0.3, max_tokens=256 + 24 * len(lists.facts), detail="high")

    def _sample_replies(
        self,
        requests: Sequence[Request | Failure],
        parsers: Sequence[Callable[[Reply], T]],
        setup: JudgeSetup,
        what: str,
    ) -> list[list[T] | Failure]:
        """Parse several replies to each request; one unreadable reply fails the request."""
        several = [
            one if isinstance(one, Failure) else replace(one, sample=sample)
            for one, sample in product(requests, range(self.samples))
        ]
        each = [parser for parser in parsers for _ in range(self.samples)]
        replies = ask_each(setup.judge, several, each, f"{self.label}: {what}")
        results: list[list[T] | Failure] = []
        for start in range(0, len(replies), self.samples):
            readings, failures = list[T](), list[Failure]()
            for one in replies[start : start + self.samples]:
                failures.append(one) if isinstance(one, Failure) else readings.append(one)
            results.append(failures[0] if failures else readings)
        return results

    def _build_verdict(
        self, lists: FactLists | Failure, matches: list[Matches] | Failure, checks: list[Checks] | Failure
    ) -> JudgeVerdict | Failure:
        if isinstance(lists, Failure) or isinstance(matches, Failure) or isinstance(checks, Failure):
            return next(one for one in (lists, matches, checks) if isinstance(one, Failure))
        relevant = [fact.relevant for fact in lists.facts]
        if not any(relevant):
            return Failure("no facts in the caption describe the image")
        number = len(lists.oracle)
        over_all = average([score(check, match, number) for check, match in product(checks, matches)])
        over_relevant = average(
            [score(check, match, number, relevant, self.sharing) for check, match in product(checks, matches)]
        )
        adds = [
            (one + other) / 2
            for one, other in zip(over_all.adds[self.value], over_relevant.adds[self.value], strict=True)
        ]
        parts = [
            Contribution(
                fact.text,
                adds[index],
                details={
                    "identifier": fact.identifier,
                    "true": sum(check[index] for check in checks) / len(checks),
                    "matched": sum(match[index] is not None for match in matches) / len(matches),
                    "relevant": "yes" if fact.relevant else "no",
                    "oracle_fact": lists.find_oracle_fact(index, matches),
                },
            )
            for index, fact in enumerate(lists.facts)
        ]
        factors = {
            f"{name}_{which}": getattr(scores, name)
            for which, scores in (("all", over_all), ("relevant", over_relevant))
            for name in NAMES
        }
        value = (getattr(over_all, self.value) + getattr(over_relevant, self.value)) / 2
        true = sum(part.details["true"] for part in parts)
        rates = f"precision {over_all.precision:.2f}, recall {over_all.recall:.2f}"
        summary = f"{true:.3g} of {len(parts)} facts true, {rates}"
        return JudgeVerdict(
            value, details=factors, parts=parts, counted=[ORACLE_LISTS] if lists.own else [], summary=summary
        )

    def build_breakdown(self, verdicts: Sequence[JudgeVerdict]) -> Breakdown:
        """Break the value down by facts, with precision, recall and F1 of a single candidate."""
        breakdown = super().build_breakdown(verdicts)
        factors = [one.details for one in verdicts]
        if len(factors) > 1:
            return breakdown
        lines = [
            f"{which} facts: " + ", ".join(f"{name} {factors[0][f'{name}_{which}']:.4f}" for name in NAMES)
            for which in ("all", "relevant")
        ]
        return replace(breakdown, factors=factors[0], formula="; ".join(lines))

    def estimate_later_calls(self, item: Item, facts: int, setup: JudgeSetup) -> list[tuple[Request, int, int]]:
        """Estimate the calls for the oracle facts, unless they are given, and for the matchings and checks."""
        words = " ".join(item.references)
        oracle = read_item_facts(item) or [BLANK] * estimate_facts(words)
        lists = FactLists([MatchedFact(BLANK)] * facts, oracle)
        sampled = [self._build_match_request(lists, setup), self._build_check_request(item, lists, setup)]
        calls = [(request, self.samples, 12 * facts) for request in sampled]
        return (
            calls if read_item_facts(item) else [(self._build_list_request(words, setup), 1, 30 * len(oracle)), *calls]
        )


def read_item_facts(item: Item) -> list[str]:
    """Read the oracle facts that came with an item: a list of texts, or such a list as JSON; empty if there are none.

    >>> read_item_facts(Item("7", fields={"facts": ["There is a dog.", "The dog is wet."]}))
    ['There is a dog.', 'The dog is wet.']
    """
    return parse_text_list(item.fields.get(OWN_FACTS), item.id, OWN_FACTS) or []


def pair_lists(item: Item, facts: list[MatchedFact] | Failure, oracle: list[str] | Failure) -> FactLists | Failure:
    """Pair both lists, or return the Failure of one."""
    if isinstance(facts, Failure):
        return facts
    return oracle if isinstance(oracle, Failure) else FactLists(facts, oracle, bool(read_item_facts(item)))


def read_facts(reply: Reply) -> list[MatchedFact]:
    """Read the facts of a reply. A fact without a statement on its relevance is relevant.

    >>> read_facts(Reply('[{"fact": "It is wet.", "identifier": "dog", "relevance": 0}]'))
    [MatchedFact(text='It is wet.', identifier='dog', relevant=False)]
    """
    facts = []
    for entry in read_json_list(require_complete(reply)):
        text = entry.get("fact")
        if not isinstance(text, str) or not text.strip():
            raise ValueError(f"no fact in {shorten(json.dumps(entry, default=str))}")
        relevant = read_flag(entry.get("relevance", 1), "relevance")
        facts.append(MatchedFact(text.strip(), str(entry.get("identifier") or ""), relevant))
    return facts


def read_matches(reply: Reply, lists: FactLists | Failure) -> Matches:
    """Read the index of each fact's oracle fact, or None."""
    assert isinstance(lists, FactLists)
    entries = read_json_list(require_complete(reply))
    matches: list[int | None] = [None] * len(lists.facts)
    numbers = [parse_integer(entry.get("fact"), "fact") for entry in entries]
    require_all(numbers, len(lists.facts), reply.text)
    for number, entry in zip(numbers, entries, strict=True):
        match = entry.get("match")
        if match is None or str(match).strip().lower() in ("none", "null", ""):
            continue
        index = parse_integer(match, "match") - 1
        if not 0 <= index < len(lists.oracle):
            raise ValueError(f"match {index + 1} is not from 1 to {len(lists.oracle)}")
        matches[number - 1] = index
    return tuple(matches)


def read_checks(reply: Reply, lists: FactLists | Failure) -> Checks:
    """Read whether each fact is true."""
    assert isinstance(lists, FactLists)
    entries = read_json_list(require_complete(reply))
    flags = {parse_integer(entry.get("fact"), "fact"): read_flag(entry.get("true"), "true") for entry in entries}
    require_all([parse_integer(entry.get("fact"), "fact") for entry in entries], len(lists.facts), reply.text)
    return tuple(flags[number] for number in range(1, len(lists.facts) + 1))


def score(
    true: Checks,
    matches: Matches,
    oracle: int,
    relevant: Sequence[bool] | None = None,
    sharing: Literal["relevant", "all"] = "relevant",
) -> FactScores:
    """Compute precision, recall and F1 of facts, given which are true, their matches, and the number of oracle facts.

    Three facts, of which the first two have the same match and the third, which is true, none; 4 oracle facts:
    the recall is (1/2 + 1/2 + 1) / (4 + 1).

    >>> score((True, True, True), (0, 0, None), 4).recall
    0.4
    """
    scored = [True] * len(true) if relevant is None else list(relevant)
    counted = scored if sharing == "relevant" else [True] * len(true)
    same = Counter(match for match, one in zip(matches, counted, strict=True) if one)
    credits = [
        (1.0 if match is None else 1 / same[match]) if one and verdict else 0.0
        for verdict, match, one in zip(true, matches, scored, strict=True)
    ]
    verified = [one and verdict for verdict, one in zip(true, scored, strict=True)]
    unmatched = sum(one and match is None for one, match in zip(verified, matches, strict=True))
    number, total = sum(scored), oracle + unmatched
    precision, recall = sum(verified) / number, sum(credits) / total
    factor = 2 * precision / (precision + recall + EPSILON)
    adds = {
        "precision": [one / number for one in verified],
        "recall": [credit / total for credit in credits],
        "f1": [factor * credit / total for credit in credits],
    }
    return FactScores(precision, recall, factor * recall, adds)


def average(scores: Sequence[FactScores]) -> FactScores:
    """Average several scores, and the contributions of each fact."""
    number = len(scores)
    adds = {
        name: [sum(column) / number for column in zip(*(one.adds[name] for one in scores), strict=True)]
        for name in scores[0].adds
    }
    precision, recall, f1 = (sum(values) / number for values in zip(*(one[:3] for one in scores), strict=True))
    return FactScores(precision, recall, f1, adds)


def parse_integer(value: Any, what: str) -> int:
    """Parse an integer in a reply."""
    try:
        return int(str(value).strip().removesuffix(".0").lstrip("#"))
    except ValueError:
        raise ValueError(f"{what} {shorten(str(value))} is not a number") from None
