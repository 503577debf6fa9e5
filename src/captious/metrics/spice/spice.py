"""SPICE: the F-score of the statements that a caption shares with its references."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.metrics.contract import MeanMetric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution, MarkedText, label_candidates
from captious.metrics.meteor._synsets import Synsets
from captious.metrics.spice.graphs import (
    LookUp,
    Matching,
    SceneGraph,
    Subset,
    compare_graphs,
    compute_soft_score,
    list_phrases,
    no_synsets,
    parse_facts,
    score_graphs,
)
from captious.metrics.statistic_rows import Scored, candidate_means
from captious.models.encoder import TextEncoder, TextWeights
from captious.models.sentence_models import load_sentences, sentence_vectors
from captious.options import get_runtime
from captious.render import Column, Graph, Why
from captious.syntax import parsing

# The kind of a tuple, by its length.
KINDS = {1: "object", 2: "attribute", 3: "relation"}
SENTENCES = "sentence-transformers/all-MiniLM-L6-v2"


@dataclass(frozen=True)
class SpiceResources:
    """The models and tables of SPICE: the parser, and synsets or a sentence encoder."""

    parser: str
    look_up: LookUp = no_synsets
    synsets: str = "none"
    encoder: TextEncoder | None = None


@dataclass(frozen=True)
class Spice(MeanMetric):
    """SPICE on spaCy's parses: the F-score of matched tuples between the scene graphs of caption and references.

    A caption says tuples: objects (dog), attributes (dog, brown) and relations (dog, run in, park). Those of all
    references of an item make one graph, in which words with a common WordNet synset are one. A tuple of the caption
    matches if each of its parts shares a word or a synset with a tuple of the references. The corpus value is the mean.

    The original reads Stanford's parser of 2015 in Java. This one reads spaCy's parses by the same rules, so its values
    are close to the original's but not equal; the signature names the parser. ``legacy_fragments`` leaves out what the
    original's parser misses in lower-case fragments without a period; ``matching=one-to-one`` lets each tuple of the
    references match once; ``synsets=no`` asks for equal words. ``subset`` scores only tuples of one kind; an item
    whose references have none of that kind has no value.

    ``matching=soft`` is Soft-SPICE: tuples are read as phrases (*brown dog*, *dog run in park*), and the value is the
    mean over the caption's phrases of the cosine with the nearest phrase of the references, under the sentence encoder
    ``weights``. There is no recall in it and no synset.

    >>> Spice(subset="color").label
    'SPICE (spaCy) color'
    """

    subset: Subset = "all"
    synsets: bool = True
    matching: Matching = "any"
    legacy_fragments: bool = False
    parser: str = parsing.DEFAULT
    weights: TextWeights = SENTENCES
    """The sentence encoder of ``matching=soft``: a hub id or a folder of sentence-transformers."""
    resources: str | None = None
    """METEOR's data or a folder of WordNet 3.0, for the synsets; without it the usual places are searched."""

    name: ClassVar[str] = "spice"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "subset"
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    undefined_reason: ClassVar[str] = "its references have no tuple of this kind"
    undefined_by_caption: ClassVar[bool] = False
    citation: ClassVar[str] = (
        "Anderson, Fernando, Johnson, Gould. SPICE: semantic propositional image caption evaluation. ECCV 2016."
    )

    @property
    def label(self) -> str:
        """SPICE (spaCy), to distinguish it from the original, with the subset."""
        name = "Soft-SPICE" if self.matching == "soft" else "SPICE (spaCy)"
        return name if self.subset == "all" else f"{name} {self.subset}"

    @property
    def range(self) -> tuple[float, float]:
        """The range of an F-score, or of a cosine."""
        return (-1.0, 1.0) if self.matching == "soft" else (0.0, 1.0)

    def prepare(self, captions: CaptionSet) -> Shared[SpiceResources]:
        """Load the parser, which must be installed, and the synsets or the sentence encoder."""
        version = parsing.get_version(self.parser)
        if self.matching == "soft":
            encoder = load_sentences(self.weights)
            return Shared(SpiceResources(version, encoder=encoder), f"{version} and {encoder.fingerprint}")
        if not self.synsets:
            return Shared(SpiceResources(version), version)
        look_up = Synsets(self.resources)
        return Shared(SpiceResources(version, look_up, f"wordnet-3.0#{look_up.mark}"), f"{version} and {look_up.mark}")

    def settings(self, state: Shared[SpiceResources]) -> Mapping[str, str]:
        """Return the parser with its version, and the synsets or the sentence encoder by content."""
        encoder = state.value.encoder
        if encoder is not None:
            return {"parser": state.value.parser, "model": f"{encoder.name}#{encoder.fingerprint}"}
        return {"parser": state.value.parser, "synsets": state.value.synsets}

    def score_items(self, captions: CaptionSet, state: Shared[SpiceResources]) -> Scored:
        """Return rows with sums over the candidates of F, 1, precision and recall; soft: of the value and 1."""
        if self.matching == "soft":
            return Scored(candidate_means(captions, self._score_soft(captions)))
        values = self.candidate_scores(captions, state)
        return Scored(candidate_means(captions, values[:, 0], values[:, 1], values[:, 2]))

    def candidate_scores(self, captions: CaptionSet, state: Shared[SpiceResources]) -> Floats:
        """Compute F, precision, recall, and the numbers of matched, wrong and missed tuples of each candidate."""
        graphs, references = self.graphs(captions, state)
        values = np.zeros((len(graphs), 6))
        for number, (graph, owner) in enumerate(zip(graphs, captions.candidates.owners.tolist(), strict=True)):
            values[number] = score_graphs(graph, references[owner], self.subset, self.matching)
        return values

    @property
    def explains_on_page(self) -> bool:
        """Whether the page draws scene graphs; soft matching has none."""
        return self.matching != "soft"

    def page_explanations(
        self, captions: CaptionSet, indices: Sequence[int], state: Shared[SpiceResources]
    ) -> list[Why]:
        """Return the graphs of each item."""
        return [_summarize_graphs(self._compare_graphs(captions, index, state)) for index in indices]

    def _compare_graphs(self, captions: CaptionSet, index: int, state: Shared[SpiceResources]) -> list[Graph]:
        """Return the graph of each candidate of an item: matched, wrong and missed tuples."""
        graphs, references = self.graphs(captions, state)
        start, stop = captions.candidates.offsets[index : index + 2].tolist()
        return [compare_graphs(graph, references[index], self.subset, self.matching) for graph in graphs[start:stop]]

    def break_down(self, item: CaptionSet, state: Shared[SpiceResources]) -> Breakdown:
        """List tuples: matched ones share the F-score equally, wrong and missed ones add nothing."""
        if self.matching == "soft":
            return self._break_down_soft(item)
        drawings, texts = self._compare_graphs(item, 0, state), item.candidates.values
        parts, formulas = [], []
        for rank, graph in enumerate(drawings):
            candidate_size, hits = len(graph.statements), sum(bool(one.matched) for one in graph.statements)
            # Not hits + missed: if several tuples may match the same one, the two sides have different numbers of hits.
            reference_size = len(self.graphs(item, state)[1][0].tuples(self.subset))
            each = 2 / (candidate_size + reference_size) / len(drawings) if hits else 0.0
            tuples = {
                "matched": [one.parts for one in graph.statements if one.matched],
                "wrong": [one.parts for one in graph.statements if not one.matched],
                "missed": graph.missed,
            }
            for result, members in tuples.items():
                for one in members:
                    details = {"result": result, "kind": KINDS[len(one)]}
                    parts.append(Contribution(", ".join(one), each if result == "matched" else 0.0, rank, details))
            formulas.append(f"2 · {hits} / ({candidate_size} + {reference_size})")
        mean = f"mean over {len(formulas)} candidates of " if len(formulas) > 1 else ""
        return Breakdown(
            parts,
            unit="tuple",
            columns=[Column("result", "text"), Column("kind", "text")],
            texts=_list_texts(texts),
            formula=f"{self.label} = {mean}2 · matched / (tuples of the caption + of the references): "
            f"{'; '.join(formulas)}",
            ordered=True,
            notes=["wrong: no reference says it; missed: only the references say it"],
            graphs=[replace(graph, title=text) for graph, text in zip(drawings, texts, strict=True)],
            shown=None,
        )

    def _score_soft(self, captions: CaptionSet) -> Floats:
        """Compute the soft value of each candidate; every distinct phrase is encoded once."""
        owners = captions.candidates.owners.tolist()
        candidate_phrases, reference_phrases, encode = self._collect_phrases(captions)
        references = list(map(encode, reference_phrases))
        return np.array(
            [
                compute_soft_score(encode(phrases), references[owner], self.subset)
                for phrases, owner in zip(candidate_phrases, owners, strict=True)
            ],
            dtype=np.float64,
        )

    def _break_down_soft(self, item: CaptionSet) -> Breakdown:
        """List the phrases of the caption, each with the nearest phrase of the references."""
        candidate_phrases, (reference_phrases,), encode = self._collect_phrases(item)
        parts = []
        for rank, phrases in enumerate(candidate_phrases):
            cosines = (
                encode(phrases) @ encode(reference_phrases).T if phrases and reference_phrases else np.zeros((0, 0))
            )
            for phrase, row in zip(phrases, cosines, strict=False):
                best = int(np.argmax(row))
                details = {"nearest": reference_phrases[best], "cosine": float(row[best])}
                parts.append(
                    Contribution(phrase, float(row[best]) / len(phrases) / len(candidate_phrases), rank, details)
                )
        return Breakdown(
            parts,
            unit="phrase",
            columns=[Column("nearest", "text"), Column("cosine")],
            texts=_list_texts(item.candidates.values),
            formula=f"{self.label} = mean over the caption's phrases of the cosine with the nearest of the references' "
            "phrases",
        )

    def _collect_phrases(
        self, captions: CaptionSet
    ) -> tuple[list[list[str]], list[list[str]], Callable[[list[str]], Floats]]:
        """Return the phrases of each candidate and of each item's references, and a function that encodes phrases."""
        texts = (*captions.candidates.values, *captions.references.values)
        tuples = parse_facts(texts, self.parser, self.legacy_fragments)
        candidate_phrases = [list_phrases(tuples[text], self.subset) for text in captions.candidates.values]
        reference_phrases = [
            list_phrases((fact for text in captions.references[item] for fact in tuples[text]), self.subset)
            for item in range(len(captions))
        ]
        distinct = list(
            dict.fromkeys(phrase for lists in (candidate_phrases, reference_phrases) for one in lists for phrase in one)
        )
        row = {phrase: number for number, phrase in enumerate(distinct)}
        vectors = sentence_vectors(distinct, self.weights)

        def encode(phrases: list[str]) -> Floats:
            return vectors[[row[phrase] for phrase in phrases]].astype(np.float64)

        return candidate_phrases, reference_phrases, encode

    def graphs(self, captions: CaptionSet, state: Shared[SpiceResources]) -> tuple[list[SceneGraph], list[SceneGraph]]:
        """Return the graph of each candidate, and that of each item's references; cached per set."""
        key = ("spice", state.key, self.synsets, self.legacy_fragments)
        return captions.once(key, lambda: self._build_graphs(captions, state.value))

    def _build_graphs(
        self, captions: CaptionSet, resources: SpiceResources
    ) -> tuple[list[SceneGraph], list[SceneGraph]]:
        texts = (*captions.candidates.values, *captions.references.values)
        facts = parse_facts(texts, self.parser, self.legacy_fragments)
        look_up, merge = resources.look_up, self.synsets
        candidates = [SceneGraph.of([facts[text]], look_up, merge) for text in captions.candidates.values]
        progress, references = get_runtime().progress, []
        for number in range(len(captions)):
            references.append(SceneGraph.of([facts[text] for text in captions.references[number]], look_up, merge))
            if number % 1000 == 999 or number == len(captions) - 1:
                progress("scene graphs", number + 1, len(captions))
        return candidates, references


def _summarize_graphs(graphs: list[Graph]) -> Why:
    said, missed = sum(len(one.statements) for one in graphs), sum(len(one.missed) for one in graphs)
    matched = sum(bool(statement.matched) for one in graphs for statement in one.statements)
    return Why(f"{matched} of {said} tuple{'' if said == 1 else 's'} matched, {missed} missed", graphs)


def _list_texts(texts: Sequence[str]) -> list[MarkedText]:
    """Return candidates without marked words: tuples are not words of the caption."""
    labels = label_candidates(len(texts))
    return [MarkedText(label, text.split()) for label, text in zip(labels, texts, strict=True)]
