"""SPICE: how many of the things that a caption says are said by the references too, and the other way around."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from captious.captions import CaptionSet
from captious.metrics.contract import MeanMetric, Need, Scored, Shared, candidate_means
from captious.metrics.spice.graphs import Matching, SceneGraph, Subset, caption_facts, scores, synset_lookup
from captious.options import current
from captious.syntax import parsing


@dataclass(frozen=True)
class Synonyms:
    """Where synsets are looked up, and the parser: what SPICE needs besides captions."""

    look_up: Callable[[str], frozenset[int]]
    parser: str
    tables: str


@dataclass(frozen=True)
class Spice(MeanMetric):
    """SPICE on spaCy's parses: the F-score of matched tuples between the scene graphs of caption and references.

    A caption says tuples: objects (dog), attributes (dog, brown) and relations (dog, run in, park). Those of all
    references of an item make one graph, in which words with a common WordNet synset are one. A tuple of the caption
    matches if each of its parts shares a word or a synset with a tuple of the references. The corpus value is the mean.

    The original reads Stanford's parser of 2015 in Java. This one reads spaCy's parses by the same rules, so its values
    are close to the original's and not equal; the signature names the parser. ``legacy_fragments`` leaves out what the
    original's parser misses in lower-case fragments without a period; ``matching=one-to-one`` lets each tuple of the
    references match once; ``synsets=no`` asks for equal words. ``subset`` scores tuples of one kind alone; an item
    whose references have none of that kind has no value.

    >>> Spice(subset="color").label
    'SPICE (spaCy) color'
    """

    subset: Subset = "all"
    synsets: bool = True
    matching: Matching = "any"
    legacy_fragments: bool = False
    parser: str = parsing.DEFAULT
    resources: str | None = None
    """METEOR's data or a folder of WordNet 3.0, for the synsets; without it the usual places are searched."""

    name: ClassVar[str] = "spice"
    main: ClassVar[str] = "subset"
    needs: ClassVar[tuple[Need, ...]] = ("references", "model")
    undefined_reason: ClassVar[str] = "its references have no tuple of this kind"
    citation: ClassVar[str] = (
        "Anderson, Fernando, Johnson, Gould. SPICE: semantic propositional image caption evaluation. ECCV 2016."
    )

    @property
    def label(self) -> str:
        """SPICE (spaCy), to tell it from the original, with the subset."""
        return "SPICE (spaCy)" if self.subset == "all" else f"SPICE (spaCy) {self.subset}"

    def prepare(self, captions: CaptionSet) -> Shared[Synonyms]:
        """The parser, which must be installed, and the synsets."""
        version = parsing.version(self.parser)
        if not self.synsets:
            return Shared(Synonyms(lambda label: frozenset(), version, "none"), version)
        look_up, mark = synset_lookup(self.resources)
        return Shared(Synonyms(look_up, version, mark), f"{version} and {mark}")

    def settings(self, state: Shared[Synonyms]) -> Mapping[str, str]:
        """The parser with its version, and the synsets by content."""
        return {
            "parser": state.value.parser,
            "synsets": f"wordnet-3.0#{state.value.tables}" if self.synsets else "none",
        }

    def score_items(self, captions: CaptionSet, state: Shared[Synonyms]) -> Scored:
        """Rows: sums over the candidates of F, 1, precision and recall."""
        key = ("spice", state.key, self.synsets, self.legacy_fragments)
        graphs, references = captions.once(key, lambda: self._graphs(captions, state.value))
        owners = captions.candidates.owners.tolist()
        values = np.zeros((len(graphs), 6))
        for number, (graph, owner) in enumerate(zip(graphs, owners, strict=True)):
            values[number] = scores(graph, references[owner], self.subset, self.matching)
        return Scored(candidate_means(captions, values[:, 0], values[:, 1], values[:, 2]))

    def _graphs(self, captions: CaptionSet, synonyms: Synonyms) -> tuple[list[SceneGraph], list[SceneGraph]]:
        """The graph of each candidate, and that of each item's references."""
        texts = (*captions.candidates.values, *captions.references.values)
        known = caption_facts(texts, self.parser, self.legacy_fragments)
        look_up, merge = synonyms.look_up, self.synsets
        candidates = [SceneGraph.of([known[text]], look_up, merge) for text in captions.candidates.values]
        progress, references = current().progress, []
        for number in range(len(captions)):
            references.append(SceneGraph.of([known[text] for text in captions.references[number]], look_up, merge))
            if number % 1000 == 999 or number == len(captions) - 1:
                progress("scene graphs", number + 1, len(captions))
        return candidates, references
