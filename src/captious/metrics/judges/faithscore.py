"""FaithScore: the share of the facts in a caption that a model finds true of the image."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import ClassVar, Literal, NamedTuple

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
    require_all,
    require_complete,
)
from captious.metrics.judges._yes_no import BY_WORDS, YesNoAnswer, ask_yes_no, build_yes_no_request
from captious.metrics.judges.judged import JudgeSetup, JudgeVerdict, quote, shorten
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.render import Column

CATEGORIES = ("entities", "relations", "colors", "counting", "other attributes")
_PIECE_ENDS = re.compile(r"(?<=[.,;:!?])\s+|(?<=[\u3001\u3002\uff0c\uff1b\uff1a\uff01\uff1f])")  # and their wide forms
_FACT_ENDS = re.compile(r"(?<=[.!?\u3002])\s+")
_LABEL = re.compile(  # "2 D", "[2]: analytical (a guess)", or with the sub-sentence itself: "2. A dog runs, D"
    r"^\W*(\d+)\W+(?:is\s+)?(?:(?P<first>d|a|descriptive|analytical)\W*(?:[-\u2013\u2014:(].*)?|.*\W(?-i:(?P<last>[DA]))\W*)$",
    re.IGNORECASE,
)
_HEADING = re.compile(
    r"\W*(?:\d+\W+)?(entit(?:y|ies)|relations?|colou?rs?|count(?:s|ing)?|other(?: attributes)?)\W*?:(.*)", re.IGNORECASE
)
_NO_FACT = re.compile(r"\W*(none|n/a|nothing|not mentioned)?\W*", re.IGNORECASE)
_BULLET = re.compile(r"^\s*[-*•]\s*")


class AtomicFact(NamedTuple):
    """An atomic fact of a caption."""

    text: str
    category: str


class Description(NamedTuple):
    """The sub-sentences of a caption that describe the image."""

    sentences: tuple[str, ...]

    @property
    def text(self) -> str:
        """The sub-sentence as one text."""
        return " ".join(self.sentences)


@dataclass(frozen=True)
class FaithScore(FactMetric):
    """FaithScore: the share of a caption's atomic facts that a chat model finds true of the image.

    Three steps. The caption is cut into sub-sentences at its commas and stops, and the model labels each as descriptive
    or analytical: guesses and opinions are not held against a caption. The descriptive ones are broken into atomic
    facts of five categories: entities, relations, colors, counting, other attributes. Each fact is verified against
    the image by a question of yes or no::

        FaithScore = true facts / facts

    With ``level=sentence`` it is the share of descriptive sub-sentences without a wrong entity: one whose own fact is
    false, or that a false fact of another category mentions. There are two calls per caption and one per fact.

    Yes and no are compared by their probabilities where the server sends them, otherwise by the words of the reply, as
    whole words: "No, the eyes are closed" is a no, which the original code counts as a yes. A caption without facts has
    no value (the original scores 0). The original's markers match every capital D and A of the text; ours are
    numbers of lines. ``prompt`` names a folder with ``faithscore_labels.txt``, ``faithscore_facts.txt`` or
    ``faithscore_check.txt``.

    >>> print(FaithScore("gpt-4o-mini", level="sentence").label)
    FaithScore-S
    """

    level: Literal["fact", "sentence"] = "fact"
    """What is counted."""

    name: ClassVar[str] = "faithscore"
    needs: ClassVar[tuple[Need, ...]] = ("image", "judge")
    citation: ClassVar[str] = (
        "Jing, Li, Chen, Du. FaithScore: Fine-grained Evaluations of Hallucinations in Large Vision-Language Models. "
        "Findings of EMNLP 2024."
    )
    files: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "faithscore_labels": ("sentences",),
        "faithscore_facts": ("text",),
        "faithscore_check": ("statement",),
    }
    parse_rule: ClassVar[str] = "lines"
    counted: ClassVar[tuple[str, ...]] = (BY_WORDS,)
    reply_tokens: ClassVar[int] = 20

    @property
    def label(self) -> str:
        """The label, with an S where sub-sentences are counted."""
        return "FaithScore" if self.level == "fact" else "FaithScore-S"

    @property
    def part_unit(self) -> str:  # type: ignore[override]  # by the level
        """The noun for a part of an explanation."""
        return "fact" if self.level == "fact" else "sub-sentence"

    @property
    def part_columns(self) -> Sequence[Column]:  # type: ignore[override]  # by the level
        """The columns of the details of a part."""
        if self.level == "sentence":
            return Column("verdict", "text"), Column("false facts", "text", key="false_facts")
        return Column("verdict", "text"), Column("category", "text"), Column("p(yes)", key="probability")

    def build_requests(self, captions: CaptionSet, setup: JudgeSetup) -> list[Request]:
        """Build the requests that label the sub-sentences of each caption."""
        prompt = setup.prompts["faithscore_labels"]
        pieces = [split_sub_sentences(item.candidate) for item in captions]
        return [
            Request((Turn("user", prompt.format(sentences=number_lines(one))),), max_tokens=64 + 8 * len(one))
            for one in pieces
        ]

    def collect_verdicts(self, captions: CaptionSet, setup: JudgeSetup) -> list[JudgeVerdict | Failure]:
        """List and verify the facts of each caption, and compute the share of true ones."""
        parsers = [partial(read_labels, sentences=split_sub_sentences(item.candidate)) for item in captions]
        described = ask_each(setup.judge, self.build_requests(captions, setup), parsers, f"{self.label}: labels")
        requests = map_unless_failed(described, lambda one: self._build_facts_request(one.text, setup))
        facts = ask_each(setup.judge, requests, [read_facts] * len(requests), f"{self.label}: facts")
        check = setup.prompts["faithscore_check"]
        statements = map_unless_failed(facts, lambda one: [check.format(statement=quote(fact.text)) for fact in one])
        answers = ask_yes_no(setup.judge, statements, captions.images, f"{self.label}: verifying")
        return [self._build_verdict(*parts) for parts in zip(described, facts, answers, strict=True)]

    def _build_facts_request(self, text: str, setup: JudgeSetup) -> Request | Failure:
        if not text:
            return Failure("no facts: nothing in the caption describes the image")
        prompt = setup.prompts["faithscore_facts"].format(text=quote(text))
        return Request((Turn("user", prompt),), max_tokens=limit_list_tokens(text, 8))

    def _build_verdict(
        self, described: Description | Failure, facts: list[AtomicFact] | Failure, answers: list[YesNoAnswer] | Failure
    ) -> JudgeVerdict | Failure:
        if isinstance(described, Failure) or isinstance(facts, Failure) or isinstance(answers, Failure):
            return next(one for one in (described, facts, answers) if isinstance(one, Failure))
        if not facts:
            return Failure("no facts in the caption")
        verdicts = [answer.yes for answer in answers]
        counted = [BY_WORDS] if any(answer.by_words for answer in answers) else []
        if self.level == "sentence":
            return replace(judge_sentences(described.sentences, facts, verdicts), counted=counted)
        parts = [
            Contribution(
                fact.text,
                answer.yes / len(facts),
                details={
                    "category": fact.category,
                    "verdict": "true" if answer.yes else "false",
                    "probability": answer.probability,
                },
            )
            for fact, answer in zip(facts, answers, strict=True)
        ]
        return JudgeVerdict(
            compute_share(verdicts), parts=parts, counted=counted, summary=format_count(verdicts, "fact", "true")
        )

    def estimate_later_calls(self, item: Item, facts: int, setup: JudgeSetup) -> list[tuple[Request, int, int]]:
        """Estimate the call for the facts, and one for each fact."""
        extraction = self._build_facts_request(item.candidate, setup)
        assert isinstance(extraction, Request)
        check = build_yes_no_request(setup.prompts["faithscore_check"].format(statement=" " * 30), item.fields["image"])
        return [(extraction, 1, 12 * facts + 20), (check, facts, 2)]


def compute_share(verdicts: Sequence[bool]) -> float:
    """Return the share of facts that are true.

    >>> compute_share([True, False, True, True])
    0.75
    """
    return sum(verdicts) / len(verdicts)


def split_sub_sentences(text: str) -> list[str]:
    """Split a text after commas and stops.

    >>> split_sub_sentences("A dog, 1.5 m tall, runs. It is wet.")
    ['A dog,', '1.5 m tall,', 'runs.', 'It is wet.']
    """
    pieces = _PIECE_ENDS.split(" ".join(text.split()))
    return [piece for piece in pieces if any(character.isalnum() for character in piece)] or [text.strip()]


def read_labels(reply: Reply, sentences: Sequence[str]) -> Description:
    r"""Read the sub-sentences that a reply labels as descriptive, by number and letter.

    >>> read_labels(Reply("1. D\n2: analytical"), ["A dog runs,", "which is nice."]).text
    'A dog runs,'
    """
    lines = filter(None, map(_LABEL.match, reply.text.splitlines()))
    labels = [(int(match[1]), (match["first"] or match["last"])[0].lower()) for match in lines]
    require_all([number for number, _ in labels], len(sentences), require_complete(reply))
    return Description(tuple(sentences[number - 1] for number, label in sorted(labels) if label == "d"))


def read_facts(reply: Reply) -> list[AtomicFact]:
    r"""Read the facts of a reply of five lines; the facts of a category may also follow on separate lines.

    >>> [fact.text for fact in read_facts(Reply("Entities: There is a dog. There is a ball.\nColors: None"))]
    ['There is a dog.', 'There is a ball.']
    """
    facts, category = list[AtomicFact](), ""
    for line in require_complete(reply).splitlines():
        if heading := _HEADING.fullmatch(line.strip()):
            category = next(one for one in CATEGORIES if one[:3] == heading[1].lower()[:3])
            line = heading[2]
        texts = _FACT_ENDS.split(_BULLET.sub("", line.strip().strip("*").strip()))
        if category:
            facts += [AtomicFact(text, category) for text in texts if not _NO_FACT.fullmatch(text)]
    if not category:
        raise ValueError(f"none of the lines {', '.join(CATEGORIES)} in {shorten(reply.text)}")
    return facts


def judge_sentences(sentences: Sequence[str], facts: Sequence[AtomicFact], verdicts: Sequence[bool]) -> JudgeVerdict:
    """Compute the share of sub-sentences that name no entity of a false fact, and list the false facts of the others.

    An entity is the last word of a fact of that category: "There is a dog." A final s does not count.
    """
    entities = {last for fact in facts if fact.category == "entities" and (last := _split_words(fact.text)[-1:])}
    false = [fact.text for fact, verdict in zip(facts, verdicts, strict=True) if not verdict]
    blamed = []
    for sentence in sentences:
        mentioned = {word for word in _split_words(sentence) if (word,) in entities}
        blamed.append([text for text in false if mentioned.intersection(_split_words(text))])
    parts = [
        Contribution(
            sentence,
            (not wrong) / len(sentences),
            details={"verdict": "wrong" if wrong else "right", "false_facts": " ".join(wrong)},
        )
        for sentence, wrong in zip(sentences, blamed, strict=True)
    ]
    right = [not wrong for wrong in blamed]
    return JudgeVerdict(compute_share(right), parts=parts, summary=format_count(right, "sub-sentence", "right"))


def _split_words(text: str) -> tuple[str, ...]:
    return tuple(word.removesuffix("s") for word in re.findall(r"\w+", text.lower()))
