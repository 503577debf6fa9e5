"""CAPTURE: objects, attributes and relations that a detailed caption shares with its references."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from captious.captions import CaptionSet
from captious.metrics.capture._matching import (
    WEIGHTS,
    Alike,
    Credits,
    Elements,
    Kind,
    Pairing,
    Synonyms,
    Vectors,
    collect_elements,
)
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution, MarkedText, label_candidates
from captious.metrics.spice.graphs import get_facts, parse_facts
from captious.metrics.statistic_rows import Scored, candidate_means
from captious.models.encoder import TextEncoder, TextWeights
from captious.models.factual import Factual, is_factual, load_factual
from captious.models.sentence_models import load_sentences, sentence_vectors
from captious.render import Column, Table
from captious.syntax import parsing
from captious.syntax.scenegraph import Fact, get_lemma
from captious.syntax.sentences import split_sentences

SENTENCES = "sentence-transformers/all-mpnet-base-v2"
NUMBERS = ("precision", "recall", "f")
STOP_NOUNS = Path(__file__).parent / "stop_nouns.txt"


@dataclass(frozen=True, eq=False)
class CaptureResources:
    """The models and tables of CAPTURE."""

    parser: str
    """The parser with its version, or with a digest of its content if it is a FACTUAL model."""
    factual: Factual | None = None
    synonyms: Synonyms | None = None
    encoder: TextEncoder | None = None
    elements: dict[str, Elements] = field(default_factory=dict)
    """The elements of every text that was parsed so far."""


@dataclass(frozen=True)
class Capture(MeanMetric):
    """CAPTURE: the F-scores of objects, attributes and relations that a caption shares with a reference.

    Both texts are parsed into scene graphs. The elements of each kind are paired: equal ones first, then those of which
    one contains the other or that have a synonym in WordNet in common. What is left counts by the largest cosine with
    what is left on the other side, under the sentence encoder ``weights``. From precision and recall of each kind::

        CAPTURE = (0.5 · F_objects + 0.5 · F_attributes + 0.2 · F_relations) / 1.2

    The value is the mean over the references. A kind that is missing on one side has F = 0, so a caption without
    relations reaches 0.83 at most. Objects on a stop list of 317 abstract nouns (*scene*, *atmosphere*) do not count.

    The original reads a FACTUAL model: ``parser=lizhuang144/flan-t5-base-VG-factual-sg``, or its folder. By default the
    graphs are those of SPICE's rules on spaCy's parses, so values are close to the original's but not equal. Lemmas and
    nouns are spaCy's in both. Elements are sorted before they are paired; in the original the pairs depend on Python's
    hash seed. A negative cosine counts 0. A reference that says nothing is left out.

    ``whole_words`` requires that one element contains the other as whole words: by default *man* is a part of *woman*,
    as in the original. ``subset`` is the F-score of a single kind.

    >>> Capture(subset="relation").label
    'CAPTURE relation'
    """

    subset: Literal["all", "object", "attribute", "relation"] = "all"
    parser: str = parsing.DEFAULT
    """A model of spaCy, or the folder or hub id of a FACTUAL model."""
    weights: TextWeights = SENTENCES
    """A hub id or a folder of sentence-transformers."""
    synonyms: bool = True
    soft: bool = True
    """Whether elements without a partner count by their cosine."""
    stop_words: bool = True
    whole_words: bool = False
    resources: str | None = None
    """METEOR's data or a folder of WordNet 3.0, for the synonyms; without it the usual places are searched."""

    name: ClassVar[str] = "capture"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "subset"
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    undefined_reason: ClassVar[str] = "its references have no element of this kind"
    undefined_by_caption: ClassVar[bool] = False
    citation: ClassVar[str] = "Dong et al. Benchmarking and Improving Detail Image Caption. 2024. arXiv:2405.19092."

    @property
    def label(self) -> str:
        """CAPTURE with its subset."""
        return "CAPTURE" if self.subset == "all" else f"CAPTURE {self.subset}"

    def prepare(self, captions: CaptionSet) -> Shared[CaptureResources]:
        """Load the parser, the synonyms and the sentence encoder."""
        version, factual = parsing.get_version(self._spacy), None
        if is_factual(self.parser):
            factual = load_factual(self.parser)
            version = f"{factual.name}#{factual.fingerprint}+{version}"
        resources = CaptureResources(
            version,
            factual,
            Synonyms(self.resources) if self.synonyms else None,
            load_sentences(self.weights) if self.soft else None,
        )
        return Shared(resources, " and ".join(self._describe_resources(resources).values()))

    @property
    def _spacy(self) -> str:
        """The spaCy model for lemmas and nouns, which are also needed with a FACTUAL parser."""
        return parsing.DEFAULT if is_factual(self.parser) else self.parser

    def settings(self, state: Shared[CaptureResources]) -> Mapping[str, str]:
        """Return the parser with its version, the synonyms and the sentence encoder by content."""
        return self._describe_resources(state.value)

    def _describe_resources(self, resources: CaptureResources) -> dict[str, str]:
        settings = {"parser": resources.parser}
        if resources.synonyms is not None:
            settings["synonyms"] = f"wordnet-3.0#{resources.synonyms.mark}"
        if resources.encoder is not None:
            settings["model"] = f"{resources.encoder.name}#{resources.encoder.fingerprint}"
        return settings

    def score_items(self, captions: CaptionSet, state: Shared[CaptureResources]) -> Scored:
        """Score each candidate by its mean over the references. A row is the sum over an item's candidates, and their
        number.
        """
        self._parse(captions, state.value)
        comparisons = [
            self._pair_references(text, captions.references[owner], state.value)
            for text, owner in zip(captions.candidates.values, captions.candidates.owners.tolist(), strict=True)
        ]
        vectors = self._encode_phrases((one for several in comparisons for one in several), state.value)
        # A candidate has no value if none of its references has an element.
        values = [
            float(np.mean([self._value(one.compute_credits(vectors)) for one in several])) if several else np.nan
            for several in comparisons
        ]
        return Scored(candidate_means(captions, np.array(values, dtype=np.float64)))

    def _value(self, credits: Mapping[Kind, Credits]) -> float:
        return sum(weight * credits[kind].f for kind, weight in self._weights.items())

    @property
    def _weights(self) -> dict[Kind, float]:
        """The weight of each kind's F-score in the value."""
        if self.subset != "all":
            return {self.subset: 1.0}
        return {kind: weight / sum(WEIGHTS.values()) for kind, weight in WEIGHTS.items()}

    def _pair_references(
        self, text: str, references: Sequence[str], resources: CaptureResources
    ) -> list[ReferencePairings]:
        """Pair the elements of a caption with those of each reference; references without elements are left out."""
        alike = partial(_are_synonyms, resources.synonyms, self.whole_words) if resources.synonyms else None
        elements = [resources.elements[reference] for reference in references]
        return [
            ReferencePairings.of(resources.elements[text], one, tuple(self._weights), alike)
            for one in elements
            if any(one[kind] for kind in self._weights)
        ]

    def _encode_phrases(self, comparisons: Iterable[ReferencePairings], resources: CaptureResources) -> Vectors | None:
        """Encode each phrase without a partner once; return a function from phrases to their vectors."""
        if resources.encoder is None:
            return None
        distinct = sorted({phrase for one in comparisons for phrase in one.list_phrases()})
        row = {phrase: number for number, phrase in enumerate(distinct)}
        encoded = np.nan_to_num(sentence_vectors(distinct, self.weights).astype(np.float64))
        return lambda phrases: encoded[[row[phrase] for phrase in phrases]]

    def _parse(self, captions: CaptionSet, resources: CaptureResources) -> None:
        """Parse the texts that are not cached yet."""
        texts = dict.fromkeys((*captions.candidates.values, *captions.references.values))
        new = [text for text in texts if text not in resources.elements]
        facts = self._parse_facts(new, resources.factual)
        stop_nouns = read_stop_nouns() if self.stop_words else frozenset()
        resources.elements.update({text: collect_elements(facts[text], stop_nouns) for text in new})

    def _parse_facts(self, texts: Sequence[str], factual: Factual | None) -> Mapping[str, Sequence[Fact]]:
        """Parse each text into its tuples, by SPICE's rules or by a FACTUAL model."""
        if factual is None:
            return parse_facts(texts, self.parser, legacy_fragments=False)
        # A FACTUAL model reads one sentence at a time.
        split = {text: [text[one.starts[0] : one.stops[-1]] for one in split_sentences(text)] for text in texts}
        sentences = [sentence for parts in split.values() for sentence in parts]
        facts = get_facts(sentences, factual.name, factual.fingerprint, factual.facts)
        parses = parsing.parse(texts, self._spacy)
        return {
            text: list(normalize_facts((fact for one in split[text] for fact in facts[one]), parse))
            for text, parse in zip(texts, parses, strict=True)
        }

    def break_down(self, item: CaptionSet, state: Shared[CaptureResources]) -> Breakdown:
        """Break the value down by elements: the F-score of a kind is divided among the caption's elements by their
        credits. Elements that only the references have are listed too, and add 0.
        """
        self._parse(item, state.value)
        texts = item.candidates.values
        parts: list[Contribution] = []
        scores: dict[Kind, list[Credits]] = {kind: [] for kind in self._weights}
        for rank, text in enumerate(texts):
            comparisons = self._pair_references(text, item.references[0], state.value)
            vectors = self._encode_phrases(comparisons, state.value)
            credits = [one.compute_credits(vectors) for one in comparisons]
            for kind, weight in self._weights.items():
                pairings = [one.pairings[kind] for one in comparisons]
                counted = [one[kind] for one in credits]
                scores[kind] += counted
                parts += _list_parts(kind, weight / len(texts), rank, pairings, counted)
        rows: list[Sequence[Any]] = [
            (f"{kind}s", *(float(np.mean([getattr(one, name) for one in scores[kind]])) for name in NUMBERS), weight)
            for kind, weight in self._weights.items()
        ]
        columns: list[Column | str] = ["kind", Column("precision"), Column("recall"), Column("F"), Column("weight")]
        spelled = " + ".join(f"{row[-1]:.4f} · {row[-2]:.4f}" for row in rows)
        labels = label_candidates(len(texts))
        return Breakdown(
            parts,
            unit="element",
            columns=[Column("result", "text"), Column("kind", "text"), Column("nearest", "text"), Column("counts")],
            texts=[MarkedText(label, text.split()) for label, text in zip(labels, texts, strict=True)],
            formula=f"{self.label} = {spelled}: the weights times the F-scores, means over the references",
            tables=[Table("kinds", "", columns, rows)],
            ordered=True,
            notes=["soft: counts by its cosine with the nearest element; missed: only the references say it"],
            shown=None,
        )


@dataclass(frozen=True)
class ReferencePairings:
    """The pairings of a caption with one reference, by kind."""

    pairings: Mapping[Kind, Pairing]

    @classmethod
    def of(
        cls, candidate: Elements, reference: Elements, kinds: Sequence[Kind], alike: Alike | None
    ) -> ReferencePairings:
        """Pair the elements of these kinds."""
        return cls({kind: Pairing.of(candidate[kind], reference[kind], alike) for kind in kinds})

    def list_phrases(self) -> Iterator[str]:
        """Yield the elements without a partner as phrases."""
        for pairing in self.pairings.values():
            yield from pairing.list_phrases()

    def compute_credits(self, vectors: Vectors | None) -> dict[Kind, Credits]:
        """Compute the credits of the elements, by kind."""
        return {kind: pairing.compute_credits(vectors) for kind, pairing in self.pairings.items()}


def _are_synonyms(synonyms: Synonyms, whole_words: bool, one: str, other: str) -> bool:
    """Call ``synonyms``; its arguments are in the order in which `functools.partial` can bind the first two."""
    return synonyms(one, other, whole_words)


def _list_parts(
    kind: Kind, weight: float, rank: int, pairings: Sequence[Pairing], credits: Sequence[Credits]
) -> Iterator[Contribution]:
    """Yield the elements of one kind: those of the caption with what they add to the value, then those elements of the
    references that have no partner, which add 0.
    """
    number = len(pairings)
    for index, fact in enumerate(pairings[0].candidate):  # the caption's elements are the same in all pairings
        element_credits = [float(one.candidate[index]) for one in credits]
        best = max(range(number), key=lambda reference: _rank(pairings[reference], index, element_credits[reference]))
        # The element's share of the F-score with each reference, summed over the references.
        adds = sum(
            one.f * credit / one.candidate.sum() for one, credit in zip(credits, element_credits, strict=True) if credit
        )
        way = pairings[best].partners[index][1] if index in pairings[best].partners else "soft"
        nearest = credits[best].nearest.get(index, ()) if element_credits[best] else ()
        details = {
            "result": way if element_credits[best] else "extra",
            "kind": kind,
            "nearest": ", ".join(nearest),
            "counts": float(np.mean(element_credits)),
        }
        yield Contribution(", ".join(fact), weight * adds / number, rank, details)
    missed: dict[Fact, list[float]] = {}
    for pairing, one in zip(pairings, credits, strict=True):
        paired = {match for match, _ in pairing.partners.values()}
        for index, fact in enumerate(pairing.reference):
            if index not in paired:
                missed.setdefault(fact, []).append(float(one.reference[index]))
    for fact, missed_credits in missed.items():
        details = {"result": "missed", "kind": kind, "nearest": "", "counts": float(np.mean(missed_credits))}
        yield Contribution(", ".join(fact), 0.0, rank, details)


def _rank(pairing: Pairing, index: int, credit: float) -> tuple[int, float]:
    """Return the sort key of an element's match in one reference: equal beats synonym, which beats soft; then the
    credit.
    """
    way = pairing.partners[index][1] if index in pairing.partners else ""
    return ("", "synonym", "equal").index(way), credit


def normalize_facts(facts: Iterable[Fact], parse: Sequence[parsing.Parse]) -> Iterator[Fact]:
    """Lemmatize the objects in a FACTUAL model's tuples, and yield the tuples whose objects are nouns of the parsed
    text.
    """
    words = [word for sentence in parse for word in sentence]
    lemmas = {word.text.lower(): get_lemma(word.text, word.tag, word.lemma) for word in words}
    nouns = {lemmas[word.text.lower()] for word in words if word.tag.startswith("NN")}
    for fact in facts:
        # (object, attribute) or (object, relation, object)
        objects = {0, 2} if len(fact) == 3 else {0}
        parts = tuple(
            " ".join(lemmas.get(word, word) for word in part.lower().split()) if index in objects else part.lower()
            for index, part in enumerate(fact)
        )
        if all(word in nouns for index in objects for word in parts[index].split()):
            yield parts


@cache
def read_stop_nouns() -> frozenset[str]:
    """Read the nouns that do not count as objects.

    >>> len(read_stop_nouns()), "atmosphere" in read_stop_nouns()
    (317, True)
    """
    lines = STOP_NOUNS.read_text(encoding="utf-8").splitlines()
    return frozenset(line for line in lines if not line.startswith("#"))
