"""ALOHa: the similarity of the caption's most doubtful object with the objects of the references."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar, Literal, NamedTuple

import numpy as np

from captious._core.files import digest
from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.columns import OBJECT_COLUMN
from captious.io.printed import parse_text_list
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution, MarkedText
from captious.metrics.hallucination._marks import Run, build_page_explanations, mark_captions
from captious.metrics.judges._facts import ask_each, limit_list_tokens, read_bullets, require_complete
from captious.metrics.judges.judged import PROMPTS, CallPlan, plan_requests, quote, read_prompt
from captious.metrics.statistic_rows import Scored, candidate_means
from captious.models.chat.judge import Judge, Usage, load_judge
from captious.models.chat.messages import Failure, Reply, Request, Turn
from captious.models.encoder import TextEncoder, TextWeights
from captious.models.sentence_models import load_sentences, sentence_vectors
from captious.options import get_runtime
from captious.render import Column, Why
from captious.syntax import parsing
from captious.syntax.lemmas import singularize
from captious.syntax.parsing import find_common_nouns
from captious.syntax.sentences import split_sentences
from captious.syntax.tagging import tag_texts

SENTENCES = "sentence-transformers/all-mpnet-base-v2"
NO_REFERENCE = "the references name no object"
OBJECTLESS = "objectless"
# Typical tokens of a list of objects, for dry runs.
REPLY_TOKENS = 40
# Similarities from here on mean the same words; the rest is rounding.
EQUAL = 1 - 1e-9


@dataclass(frozen=True, eq=False)
class AlohaState:
    """The sentence encoder, and the chat model with its prompt if one is used."""

    encoder: TextEncoder
    judge: Judge | None = None
    prompt: str = ""


class MatchedObject(NamedTuple):
    """An object of a caption with its partner among the objects of the references."""

    name: NamedObject
    nearest: str
    """The object that it was matched with; empty if none was left for it."""
    similarity: float


@dataclass(frozen=True)
class Aloha(MeanMetric):
    """ALOHa: the similarity of the caption's worst object with its partner among the objects of the references.

    The objects of the caption are paired with those of all references, one with one, so that the sum of their
    similarities is largest; a similarity is the cosine of two sentence vectors. The least one is the value::

        ALOHa = min over objects o of the caption of cos(o, partner of o)

    It is 1 if the references name every object. An object without a partner, because the caption has more objects than
    the references, counts 0. The authors' code intends this but does not do it: ``unmatched=ignore``. A caption without
    objects invents none and has 1, which the signature counts; references without objects give no value. If an object
    has alternatives ("ball or frisbee"), its most similar one counts; the original tries all combinations.

    Objects are nouns by a tagger, in the singular by the rules of pattern.en. With ``model=NAME`` a chat model lists
    them, as in the paper: with adjectives, without those that the caption calls possible, and for the references also
    the last noun of each. ``detections=yes`` adds the words of the column ``objects`` to those of the references.

    >>> print(Aloha(tagger="spacy", detections=True))
    aloha(tagger=spacy,detections=yes)
    """

    model: str = ""
    """Name of a chat model at the endpoint, or ``local:FOLDER``; without it the tagger finds the objects."""
    weights: TextWeights = SENTENCES
    """A hub id or a folder of sentence-transformers."""
    tagger: Literal["captious", "spacy", "nltk"] = "captious"
    detections: bool = False
    """Whether the column ``objects`` has further objects of the image."""
    unmatched: Literal["zero", "ignore"] = "zero"
    prompt: str = ""
    """File with another prompt for the chat model."""

    name: ClassVar[str] = "aloha"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "model"
    label: ClassVar[str] = "ALOHa"
    range: ClassVar[tuple[float, float]] = (-1.0, 1.0)
    citation: ClassVar[str] = (
        "Petryk, Chan, Kachinthaya, Zou, Canny, Gonzalez, Darrell. ALOHa: A New Measure for Hallucination in "
        "Captioning Models. NAACL 2024."
    )

    @property
    def needs(self) -> tuple[Need, ...]:
        """References, the sentence encoder, and a chat model where one is named."""
        return ("references", "model", "judge") if self.model else ("references", "model")

    def prepare(self, captions: CaptionSet) -> Shared[AlohaState]:
        """Load the sentence encoder, and the chat model with its prompt."""
        encoder = load_sentences(self.weights)
        if not self.model:
            return Shared(AlohaState(encoder), encoder.fingerprint)
        state = AlohaState(encoder, load_judge(self.model), self._prompt)
        return Shared(state, f"{encoder.fingerprint} and {self.model}#{digest(state.prompt.encode())}")

    @property
    def _prompt(self) -> str:
        return read_prompt(self.prompt or PROMPTS / f"{self.name}.txt", ("text",))

    def settings(self, state: Shared[AlohaState]) -> Mapping[str, str]:
        """Return the fingerprint of the sentence encoder, and the chat model with its prompt."""
        encoder, judge = state.value.encoder, state.value.judge
        settings = {"model": f"{encoder.name}#{encoder.fingerprint}"}
        if judge is not None:
            settings |= {"judge": judge.identity, "prompt": digest(state.value.prompt.encode())}
        elif self.tagger == "spacy":
            settings["parser"] = parsing.get_version()
        return settings

    def plan_scoring(self, captions: CaptionSet) -> CallPlan:
        """Plan the requests that scoring a set would send to the chat model, without sending any."""
        texts = [*captions.candidates.values, *map(_join_references, captions.references)]
        requests = build_list_requests([text for text in texts if text.strip()], self._prompt)
        return plan_requests(load_judge(self.model), requests, REPLY_TOKENS)

    def score_items(self, captions: CaptionSet, state: Shared[AlohaState]) -> Scored:
        """Score each candidate by its worst object. A row is the sum over an item's candidates, and their number."""
        captions.keep(("state", self), state)  # `page_explanations` gets this state, whose judge has the replies
        judge = state.value.judge
        before = replace(judge.usage) if judge is not None else Usage()
        matched = self._match_candidates(captions, state.value)
        values, reasons, objectless = np.full(len(matched), np.nan), dict[int, str](), 0
        for index, (one, owner) in enumerate(zip(matched, captions.candidates.owners.tolist(), strict=True)):
            if isinstance(one, Failure):
                reasons.setdefault(owner, one.reason)
            else:
                values[index] = self._compute_value(one)
                objectless += not one
        notes = []
        if judge is not None and matched:
            notes.append(f"{self.label}: {judge.usage.since(before).line(judge.judging.prices)}")
        return Scored(candidate_means(captions, values), reasons, {OBJECTLESS: objectless}, notes=notes)

    def _compute_value(self, matched: Sequence[MatchedObject]) -> float:
        """Return the least similarity; 1 if no object counts."""
        counted = [one.similarity for one in matched if one.nearest or self.unmatched == "zero"]
        return min(counted, default=1.0)

    def _match_candidates(self, captions: CaptionSet, state: AlohaState) -> list[list[MatchedObject] | Failure]:
        """Match the objects of every candidate; a Failure says why a candidate has no value."""
        candidate_objects = self._list_objects(captions.candidates.values, state, "in captions")
        reference_objects = self._list_reference_objects(captions, state)
        vectors = _Vectors.of([*candidate_objects, *reference_objects], self.weights)
        matched: list[list[MatchedObject] | Failure] = []
        for objects, owner in zip(candidate_objects, captions.candidates.owners.tolist(), strict=True):
            others = reference_objects[owner]
            if isinstance(objects, Failure) or isinstance(others, Failure):
                matched.append(objects if isinstance(objects, Failure) else others)
            elif not others:
                matched.append(Failure(NO_REFERENCE))
            else:
                matched.append(match_objects([one for one in objects if not one.unsure], others, vectors))
        return matched

    def _list_objects(self, texts: Sequence[str], state: AlohaState, where: str) -> list[list[NamedObject] | Failure]:
        """List the objects of each text, by the tagger or by the chat model."""
        if state.judge is None:
            return [*find_nouns(texts, self.tagger)]
        asked = [index for index, text in enumerate(texts) if text.strip()]
        lists: list[list[NamedObject] | Failure] = [[] for _ in texts]
        replies = ask_for_objects(
            state.judge, [texts[index] for index in asked], state.prompt, f"{self.label}: objects {where}"
        )
        for index, objects in zip(asked, replies, strict=True):
            lists[index] = objects
        return lists

    def _list_reference_objects(self, captions: CaptionSet, state: AlohaState) -> list[list[NamedObject] | Failure]:
        """List the distinct objects of each item's references; ``detections`` adds those of its column `objects`."""
        lists: list[list[NamedObject] | Failure] = []
        if state.judge is None:
            nouns = iter(find_nouns(captions.references.values, self.tagger))  # one list per reference
            for number in captions.references.counts.tolist():
                lists.append(list(dict.fromkeys(name for _ in range(number) for name in next(nouns))))
        else:
            # The chat model reads all references of an item as one text.
            listed = self._list_objects([*map(_join_references, captions.references)], state, "in references")
            lists = [one if isinstance(one, Failure) else add_head_nouns(one) for one in listed]
        if not self.detections:
            return lists
        column = captions.columns.get(OBJECT_COLUMN, (None,) * len(captions))
        combined = []
        for id, objects, value in zip(captions.ids, lists, column, strict=True):
            words = parse_text_list(value, id, OBJECT_COLUMN) or []
            detected = [NamedObject((singularize(word.lower()),)) for word in words]
            combined.append(objects if isinstance(objects, Failure) else list(dict.fromkeys([*objects, *detected])))
        return combined

    @property
    def explains_on_page(self) -> bool:
        """True: the page shows the captions with their objects marked."""
        return True

    def page_explanations(self, captions: CaptionSet, indices: Sequence[int], state: Shared[AlohaState]) -> list[Why]:
        """Mark the objects in the captions of each item. Sends nothing; replies come from the store."""
        chosen, value = captions.take(indices), state.value
        if value.judge is not None:
            judging = replace(value.judge.judging, replay=True)
            value = replace(value, judge=replace(value.judge, judging=judging, usage=Usage()))
        try:
            matched = self._match_candidates(chosen, value)
        except InputError as error:
            get_runtime().log(f"{self.label}: the page shows no objects ({error})")
            return []
        summaries: list[list[str]] = [[] for _ in indices]
        for one, owner in zip(matched, chosen.candidates.owners.tolist(), strict=True):
            summaries[owner].append(one.reason if isinstance(one, Failure) else _format_summary(one))
        lines = [list[str]() for _ in indices]
        return build_page_explanations(chosen, _mark_objects(chosen, matched), [*map("; ".join, summaries)], lines)

    def break_down(self, item: CaptionSet, state: Shared[AlohaState]) -> Breakdown:
        """Break the value down by objects. The value is a minimum, so the worst object of a caption adds all of it,
        others 0.
        """
        matched = self._match_candidates(item, state.value)
        parts = []
        for rank, one in enumerate(matched):
            objects = [] if isinstance(one, Failure) else one
            counted = [each for each in objects if each.nearest or self.unmatched == "zero"]
            worst = min(counted, key=lambda each: each.similarity, default=None)
            for each in objects:
                details = {"nearest": each.nearest or "none is left", "similarity": each.similarity}
                adds = each.similarity / len(matched) if each is worst else 0.0
                parts.append(Contribution(str(each.name), adds, rank, details))
            if worst is None:
                parts.append(Contribution("no objects", 1 / len(matched), rank))
        return Breakdown(
            parts,
            unit="object",
            columns=[Column("nearest", "text"), Column("similarity")],
            texts=_mark_objects(item, matched),
            formula=f"{self.label} = the least similarity of an object of the caption with its partner",
            notes=["✓: a reference names it; ✗: the worst object; ?: another that no reference names"],
            ordered=True,
            shown=None,
        )


def _join_references(references: Sequence[str]) -> str:
    """Join references into one text, with a blank line between them."""
    return "\n\n".join(text.strip() for text in references if text.strip())


class _Vectors:
    """Sentence vectors of words."""

    def __init__(self, rows: Mapping[str, int], vectors: Floats) -> None:
        self._rows, self._vectors = rows, vectors

    @classmethod
    def of(cls, lists: Sequence[list[NamedObject] | Failure], weights: TextWeights) -> _Vectors:
        """Encode all distinct words of these objects, each once."""
        words = sorted({word for one in lists if not isinstance(one, Failure) for name in one for word in name.words})
        vectors = np.nan_to_num(sentence_vectors(words, weights).astype(np.float64)) if words else np.zeros((0, 1))
        return cls({word: row for row, word in enumerate(words)}, vectors)

    def similarity(self, one: NamedObject, other: NamedObject) -> float:
        """Return the largest cosine of two words of the objects; exactly 1 if they share a word."""
        if set(one.words) & set(other.words):
            return 1.0
        first, second = ([self._rows[word] for word in each.words] for each in (one, other))
        return float(min((self._vectors[first] @ self._vectors[second].T).max(), 1.0))


def match_objects(
    objects: Sequence[NamedObject], others: Sequence[NamedObject], vectors: _Vectors
) -> list[MatchedObject]:
    """Assign a partner to each object so that the sum of similarities is largest; 0 for objects without one."""
    from scipy.optimize import linear_sum_assignment

    table = np.array([[vectors.similarity(one, other) for other in others] for one in objects])
    table = table.reshape(len(objects), len(others))
    rows, columns = linear_sum_assignment(table, maximize=True)
    partners = dict(zip(rows.tolist(), columns.tolist(), strict=True))
    return [
        MatchedObject(one, str(others[partners[row]]), float(table[row, partners[row]]))
        if row in partners
        else MatchedObject(one, "", 0.0)
        for row, one in enumerate(objects)
    ]


def _mark_objects(captions: CaptionSet, matched: Sequence[list[MatchedObject] | Failure]) -> list[MarkedText]:
    """Mark the objects of every candidate: right if a reference names it, wrong if it is the worst, else unknown."""
    runs = []
    for text, objects in zip(captions.candidates.values, matched, strict=True):
        matches = [] if isinstance(objects, Failure) else objects
        least = min((one.similarity for one in matches), default=1.0)
        # Verdicts by the last word of an object's name, in the singular: "brown dogs" marks "dogs" in the caption.
        verdicts = {
            singularize(word.split()[-1]): "right"
            if one.similarity >= EQUAL
            else "wrong"
            if one.similarity == least
            else "unknown"
            for one in matches
            for word in one.name.words
        }
        runs.append(_find_runs(text, verdicts))
    return mark_captions(captions, runs, captions.candidates.values)


def _find_runs(text: str, verdicts: Mapping[str, str]) -> list[Run]:
    """Return start, stop and verdict of each word of a text whose singular has a verdict."""
    return [
        (start, stop, verdicts[word])
        for sentence in split_sentences(text)
        for token, start, stop in zip(*sentence, strict=True)
        if (word := singularize(token.lower())) in verdicts
    ]


def _format_summary(matched: Sequence[MatchedObject]) -> str:
    if not matched:
        return "no objects"
    worst = min(matched, key=lambda one: one.similarity)
    partner = f"nearest {worst.nearest}" if worst.nearest else "no object of the references is left for it"
    return f"{worst.name}: {worst.similarity:.4f}, {partner}"


_UNSURE = re.compile(r"\bpossibly\b", re.IGNORECASE)
_ALTERNATIVES = re.compile(r"\s*,\s*|\s+or\s+", re.IGNORECASE)
# Shortest line of a list, including hyphen and space; shorter lines are ignored.
SHORTEST = 3


class NamedObject(NamedTuple):
    """An object that a text names, with several words if the text gives alternatives."""

    words: tuple[str, ...]
    unsure: bool = False
    """Whether the text is not sure that it is there."""

    def __str__(self) -> str:
        return " or ".join(self.words)


def find_nouns(texts: Sequence[str], tagger: str) -> list[list[NamedObject]]:
    """Find the common nouns of each text in the singular, each once. ``spacy`` also tokenizes the texts itself.

    >>> [str(one) for one in find_nouns(["Two dogs near a cat; the dogs are asleep."], "captious")[0]]
    ['dog', 'cat']
    """
    words = find_common_nouns(texts) if tagger == "spacy" else _select_tagged_nouns(texts, tagger)
    return [[NamedObject((word,)) for word in dict.fromkeys(map(singularize, own))] for own in words]


def _select_tagged_nouns(texts: Sequence[str], tagger: str) -> list[list[str]]:
    return [
        [
            token.lower()
            for sentence, tags in tagged
            for token, tag in zip(sentence.tokens, tags, strict=True)
            if tag in ("NN", "NNS")
        ]
        for tagged in tag_texts(texts, tagger)
    ]


def build_list_requests(texts: Sequence[str], prompt: str) -> list[Request]:
    """Build the request for the objects of each text."""
    return [
        Request((Turn("user", prompt.format(text=quote(text))),), max_tokens=limit_list_tokens(text, 4))
        for text in texts
    ]


def ask_for_objects(judge: Judge, texts: Sequence[str], prompt: str, what: str) -> list[list[NamedObject] | Failure]:
    """Ask a chat model for the objects of each text."""
    requests = build_list_requests(texts, prompt)
    return ask_each(judge, requests, [read_objects] * len(requests), what)


def read_objects(reply: Reply) -> list[NamedObject]:
    r"""Read the distinct objects of a reply: the words before a parenthesis, with alternatives split at commas and
    *or*.

    >>> objects = read_objects(Reply("- brown dog\n- cat (possibly)\n- red ball or frisbee\n- brown dog"))
    >>> [(one.words, one.unsure) for one in objects]
    [(('brown dog',), False), (('cat',), True), (('red ball', 'frisbee'), False)]
    """
    objects = []
    for line in read_bullets(require_complete(reply)):
        words = [word.strip(" .").lower() for word in _ALTERNATIVES.split(line.partition("(")[0].strip())]
        # `read_bullets` has removed hyphen and space, which SHORTEST includes.
        if names := tuple(word for word in words if len(word) + 2 >= SHORTEST):
            objects.append(NamedObject(names, bool(_UNSURE.search(line))))
    return list(dict.fromkeys(objects))


def add_head_nouns(objects: Sequence[NamedObject]) -> list[NamedObject]:
    """Return the objects, followed by the last word of each as an object of its own.

    >>> [str(one) for one in add_head_nouns([NamedObject(("brown dog",)), NamedObject(("cat",))])]
    ['brown dog', 'cat', 'dog']
    """
    # In English noun phrases the head is the last word: "brown dog" also allows "dog".
    heads = [NamedObject((singularize(word.split()[-1]),)) for one in objects for word in one.words]
    # In references, an object that is only possible is an object like any other.
    return list(dict.fromkeys([*(one._replace(unsure=False) for one in objects), *heads]))
