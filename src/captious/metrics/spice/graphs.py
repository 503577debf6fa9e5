"""Scene graphs of captions: tuples parsed once and cached, merged by synonyms, and matched between two graphs."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Literal

import numpy as np

from captious._core.files import digest
from captious._core.types import Floats
from captious.engines import count_cores, run_tasks
from captious.errors import InputError
from captious.models.segments import FeatureSpace, as_keys, hash_text
from captious.models.store import open_store
from captious.options import Engine, get_runtime
from captious.render import Graph, Statement
from captious.syntax import parsing
from captious.syntax.scenegraph import Fact, facts

Subset = Literal["all", "object", "attribute", "relation", "color", "cardinality", "size"]
Matching = Literal["any", "one-to-one", "soft"]
# A function from a word or phrase to its synsets.
LookUp = Callable[[str], frozenset[int]]
# Length of the tuples of a subset.
LENGTHS = {"object": 1, "attribute": 2, "relation": 3, "color": 2, "cardinality": 2, "size": 2}
_COLORS = """
black brown blue red yellow pink gray grey green dark light white cream orange purple maroon beige violet
"""
_SIZES = """
baby beefy big bony boundless brawny broad bulky chunky colossal compact corpulent cosmic cubby curvy elfin emaciated
endless enormous epic expansive extensive fat fleshy full-size gargantuan gaunt giant gigantic grand great heavy hefty
huge hulking illimitable immeasurable immense infinitesimal lanky large lean life-size limitless little mammoth
massive meager measly microscopic mini miniature minuscule minute narrow obese outsized oversize overweight paltry
petite pint-size plump pocket-size portly pudgy puny rotund scanty scraggy scrawny short sizable skeletal skimpy
skinny slender slim small squat stocky stout strapping sturdy tall teensy teeny teeny-tiny teeny-weeny thick thickset
thin tiny titanic towering trifling trim tubby undersized underweight unlimited vast wee whopping wide
"""
# The attributes that belong to a subset.
LABELS = {
    "color": frozenset(_COLORS.split()),
    "cardinality": frozenset(["one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten"]),
    "size": frozenset(_SIZES.split()),
}
# Bytes per caption in the cache. The tuples of a very long caption do not fit and are computed each time.
ROW_BYTES = 1024


# From this number of captions on, they are parsed in worker processes, each of which takes a second to start.
MANY = 8000
# Largest number of worker processes; each loads its own parser.
MOST_PROCESSES = 16
# Number of captions per task of a worker.
TASK = 500


def parse_facts(texts: Sequence[str], parser: str, legacy_fragments: bool) -> dict[str, tuple[Fact, ...]]:
    """Return the tuples of each distinct text, from the cache or by the parser."""
    version = parsing.get_version(parser)
    jobs = min(get_runtime().workers or count_cores(), MOST_PROCESSES)

    def parse_texts(some: list[str]) -> list[tuple[Fact, ...]]:
        progress = partial(get_runtime().progress, "captions parsed")
        if jobs == 1 or len(some) < MANY:
            parses = parsing.parse(some, parser, lambda done: progress(min(done, len(some)), len(some)))
            return [facts(sentences, legacy_fragments) for sentences in parses]
        tasks = [some[start : start + TASK] for start in range(0, len(some), TASK)]
        setup = partial(_make_worker, parser, legacy_fragments, parsing.has_torch_layers(parser))
        results: dict[int, list[tuple[Fact, ...]]] = {}
        for end in run_tasks(setup, tasks, Engine("processes", jobs)):
            if end.result is None:
                raise InputError(end.error)
            results[end.index] = end.result
            progress(sum(map(len, results.values())), len(some))
        return [tuples for index in range(len(tasks)) for tuples in results[index]]

    return get_facts(texts, version, digest(version.encode(), FORMAT.encode(), bytes([legacy_fragments])), parse_texts)


def _make_worker(parser: str, legacy_fragments: bool, torch: bool) -> Callable[[list[str]], list[tuple[Fact, ...]]]:
    """Return the function that parses captions in a worker process."""
    if not torch:  # spaCy imports torch if it is installed, which takes longer than everything else
        sys.modules["torch"] = None  # type: ignore[assignment]
    parsing.load(parser)
    return lambda texts: [facts(sentences, legacy_fragments) for sentences in parsing.parse(texts, parser)]


def get_facts(
    texts: Sequence[str], name: str, mark: str, read: Callable[[list[str]], Sequence[Sequence[Fact]]]
) -> dict[str, tuple[Fact, ...]]:
    """Return the tuples of each distinct text, from the cache of this parser; ``read`` computes missing ones."""
    distinct = list(dict.fromkeys(texts))
    store = open_store(FeatureSpace(name, mark, "graphs", (ROW_BYTES,), "uint8"))
    keys = as_keys(map(hash_text, distinct))
    rows, lengths, stored = store.gather(keys)
    result = {
        text: tuple(map(tuple, json.loads(rows[number, : lengths[number]].tobytes())))
        for number, text in enumerate(distinct)
        if stored[number]
    }
    missing = [number for number in range(len(distinct)) if not stored[number]]
    if missing:
        some = [distinct[number] for number in missing]
        result |= {text: tuple(tuples) for text, tuples in zip(some, read(some), strict=True)}
        written = [json.dumps(result[text], separators=(",", ":"), ensure_ascii=False).encode() for text in some]
        short = [index for index, row in enumerate(written) if len(row) <= ROW_BYTES]
        if short:
            block = np.zeros((len(short), ROW_BYTES), np.uint8)
            for number, index in enumerate(short):
                block[number, : len(written[index])] = np.frombuffer(written[index], np.uint8)
            sizes = np.array([len(written[index]) for index in short], np.int32)
            store.put(keys[[missing[index] for index in short]], block, sizes)
        store.settle()
    return result


# Version of the rules: tuples cached by an older version are ignored.
FORMAT = "1"


@dataclass(eq=False)
class Concept:
    """An object, an attribute or a relation: the words for it, and the synsets of these words."""

    words: frozenset[str]
    synsets: frozenset[int]

    def is_same(self, other: Concept) -> bool:
        """Return True if words and synsets are the same."""
        return self.words == other.words and self.synsets == other.synsets

    def is_similar(self, other: Concept) -> bool:
        """Return True if they share a word or a synset."""
        return not self.words.isdisjoint(other.words) or not self.synsets.isdisjoint(other.synsets)

    def likeness(self, other: Concept) -> float:
        """Return 1 if they share a word, else the Jaccard index of their synsets."""
        if not self.words.isdisjoint(other.words):
            return 1.0
        common = len(self.synsets & other.synsets)
        return common / len(self.synsets | other.synsets) if common else 0.0

    def unite(self, other: Concept) -> None:
        """Add the words and synsets of another concept."""
        self.words |= other.words
        self.synsets |= other.synsets

    @property
    def label(self) -> str:
        """The words of the node, joined as in the original."""
        return "/".join(sorted(self.words))


Tuple = tuple[Concept, ...]


@dataclass
class SceneGraph:
    """A graph of objects, their attributes and their relations; nodes that mean the same are merged."""

    merge: bool = True
    """Whether concepts with a common synset are one; without synsets only those of the same word are."""
    nodes: list[Concept] = field(default_factory=list)
    attributes: dict[int, list[Concept]] = field(default_factory=dict)
    relations: dict[tuple[int, int], list[Concept]] = field(default_factory=dict)

    @classmethod
    def of(
        cls, captions: Iterable[Sequence[Fact]], look_up: Callable[[str], frozenset[int]], merge: bool
    ) -> SceneGraph:
        """Build the graph of all tuples of one or several captions, in their order."""
        graph = cls(merge)

        def make_concept(word: str) -> Concept:
            return Concept(frozenset((word,)), look_up(word))

        for caption in captions:
            for fact in caption:
                first = graph._add_node(make_concept(fact[0]))
                if len(fact) == 2:
                    graph._join(graph.attributes.setdefault(first, []), make_concept(fact[1]))
                elif len(fact) == 3:
                    second = graph._add_node(make_concept(fact[2]))
                    graph._join(graph.relations.setdefault((first, second), []), make_concept(fact[1]))
        return graph

    def _add_node(self, new: Concept) -> int:
        """Return the index of the node for a concept: an equal one, the most similar one, or a new one."""
        best, likeness = -1, 0.0  # a shared word, 1, cannot be exceeded: the first such node wins
        for number, node in enumerate(self.nodes):
            if node.is_same(new):
                return number
            if self.merge and likeness < 1 and (value := node.likeness(new)) > likeness:
                best, likeness = number, value
        if best >= 0:
            self.nodes[best].unite(new)
            return best
        self.nodes.append(new)
        return len(self.nodes) - 1

    def _join(self, concepts: list[Concept], new: Concept) -> None:
        if any(one.is_same(new) for one in concepts):
            return
        for one in concepts if self.merge else ():
            if one.is_similar(new):
                one.unite(new)
                return
        concepts.append(new)

    def tuples(self, subset: Subset = "all") -> list[Tuple]:
        """Return one tuple per object, per attribute of an object, and per relation; or only those of a subset."""
        nodes: list[Tuple] = [(node,) for node in self.nodes]
        attributes: list[Tuple] = [
            (self.nodes[node], one) for node, concepts in self.attributes.items() for one in concepts
        ]
        relations: list[Tuple] = [
            (self.nodes[first], one, self.nodes[second])
            for (first, second), concepts in self.relations.items()
            for one in concepts
        ]
        if subset == "all":
            return nodes + attributes + relations
        chosen = {1: nodes, 2: attributes, 3: relations}[LENGTHS[subset]]
        labels = LABELS.get(subset)
        return chosen if labels is None else [one for one in chosen if one[1].label in labels]


def match_tuples(
    candidate: Collection[Tuple], reference: Collection[Tuple], merge: bool, matching: Matching
) -> list[bool]:
    """Return True for each tuple of the candidate that has an equal tuple in the reference."""
    alike = [
        [number for number, other in enumerate(reference) if len(one) == len(other) and _are_equal(one, other, merge)]
        for one in candidate
    ]
    if matching == "any" or not any(alike):
        return [bool(others) for others in alike]
    from scipy.sparse import csr_matrix
    from scipy.sparse.csgraph import maximum_bipartite_matching

    table = np.zeros((len(candidate), len(reference)), np.int8)
    for row, others in enumerate(alike):
        table[row, others] = 1
    partners = maximum_bipartite_matching(csr_matrix(table), perm_type="column")
    return [partner >= 0 for partner in partners.tolist()]


def _are_equal(one: Tuple, other: Tuple, merge: bool) -> bool:
    if merge:
        return all(a.is_similar(b) for a, b in zip(one, other, strict=True))
    return all(a.is_same(b) for a, b in zip(one, other, strict=True))


def score_graphs(candidate: SceneGraph, reference: SceneGraph, subset: Subset, matching: Matching) -> Floats:
    """Compute F, precision, recall, and the numbers of matched, wrong and missed tuples.

    F, precision and recall are NaN if the references have no tuple of the subset.
    """
    candidate_tuples, reference_tuples = candidate.tuples(subset), reference.tuples(subset)
    hits = sum(match_tuples(candidate_tuples, reference_tuples, candidate.merge, matching))
    counts = (hits, len(candidate_tuples) - hits, len(reference_tuples) - hits)
    if not reference_tuples and subset != "all":
        return np.array([np.nan, np.nan, np.nan, *counts])
    if not hits:
        return np.array([0.0, 0.0, 0.0, *counts])
    precision, recall = hits / len(candidate_tuples), hits / len(reference_tuples)
    return np.array([2 * precision * recall / (precision + recall), precision, recall, *counts])


def compare_graphs(candidate: SceneGraph, reference: SceneGraph, subset: Subset, matching: Matching) -> Graph:
    """Return the candidate's tuples, each matched or not, and the unmatched tuples of the reference."""
    candidate_tuples, reference_tuples = candidate.tuples(subset), reference.tuples(subset)
    marks = match_tuples(candidate_tuples, reference_tuples, candidate.merge, matching)
    others = match_tuples(reference_tuples, candidate_tuples, candidate.merge, matching)
    return Graph(
        [Statement(get_labels(one), mark) for one, mark in zip(candidate_tuples, marks, strict=True)],
        [get_labels(one) for one, mark in zip(reference_tuples, others, strict=True) if not mark],
    )


def get_labels(one: Tuple) -> Fact:
    """Return the label of each concept of a tuple."""
    return tuple(concept.label for concept in one)


def list_phrases(facts: Iterable[Fact], subset: Subset = "all") -> list[str]:
    """Convert tuples to distinct phrases: *dog*, *brown dog*, *dog run in park*.

    >>> list_phrases([("dog", "brown"), ("dog", "run in", "park")])
    ['dog', 'brown dog', 'park', 'dog run in park']
    """
    tuples: dict[Fact, None] = {}
    for fact in facts:
        tuples |= dict.fromkeys([(fact[0],), *([(fact[2],)] if len(fact) == 3 else []), fact])
    if subset != "all":
        labels = LABELS.get(subset)
        tuples = {one: None for one in tuples if len(one) == LENGTHS[subset] and (labels is None or one[1] in labels)}
    return [" ".join(reversed(one) if len(one) == 2 else one) for one in tuples]


def compute_soft_score(candidate: Floats, reference: Floats, subset: Subset) -> float:
    """Compute the mean, over the phrases of a caption, of the cosine with the nearest phrase of the references."""
    if not len(reference):
        return 0.0 if subset == "all" else float("nan")
    return float((candidate @ reference.T).max(axis=1).mean()) if len(candidate) else 0.0


def no_synsets(label: str) -> frozenset[int]:
    """Return no synsets: only equal words match."""
    return frozenset()
