"""AMBER's generative part: the nouns of a caption that are in the image, and those that are likely hallucinations."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path, PurePath
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np

from captious._core.files import digest, read_regular
from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError, format_one_line
from captious.metrics.contract import Metric, Need, Shared
from captious.metrics.explanation import Breakdown, Contribution, MarkedText
from captious.metrics.hallucination._marks import build_page_explanations, format_wrong_share, mark_captions
from captious.metrics.statistic_rows import Scored
from captious.render import Column, Why
from captious.syntax.lemmas import find_wordnet_lemma
from captious.syntax.parsing import VECTORS, find_similar_words, format_version, load_vectors
from captious.syntax.sentences import split_sentences
from captious.syntax.tagging import find_tagger

FILES = ("annotations.json", "relation.json", "safe_words.txt")
# Words with a cosine above this match each other.
THRESHOLD = 0.8
NO_VECTORS = "none"
LABELS = {"chair": "AMBER CHAIR", "cover": "AMBER Cover", "hal": "AMBER Hal", "cog": "AMBER Cog"}
# Counts per caption.
STATISTICS = ("captions", "wrong_captions", "nouns", "wrong_nouns", "covered", "truth", "hit", "hallu")
_ID = re.compile(r"(?:AMBER_)?0*(\d+)")


class Annotation(NamedTuple):
    """The annotation of an image: words for its objects, and words for objects that models are likely to invent."""

    truth: tuple[str, ...]
    hallu: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class Annotations:
    """AMBER's annotations with its word lists."""

    images: Mapping[str, Annotation]
    association: Mapping[str, tuple[str, ...]]
    """Words that also count for a word."""
    safe_words: frozenset[str]
    """Nouns that are neither right nor wrong."""
    fingerprint: str

    @property
    def words(self) -> list[str]:
        """Every noun that counts."""
        return list(dict.fromkeys(word for key, others in self.association.items() for word in (key, *others)))

    def list_entries(self, words: Sequence[str]) -> list[tuple[str, int]]:
        """List the words that match one of `words`, with its index: all associated words first, then the words
        themselves.
        """
        associated = [(other, index) for index, word in enumerate(words) for other in self.association.get(word, ())]
        return [*associated, *((word, index) for index, word in enumerate(words))]


class Noun(NamedTuple):
    """A noun of a caption that is one of AMBER's words."""

    word: str
    start: int
    stop: int
    verdict: str
    """Right, wrong, or unknown for a safe word."""


class NounCounts(NamedTuple):
    """The nouns of a caption, with the indices of the annotated words that they cover or hit."""

    nouns: tuple[Noun, ...]
    covered: frozenset[int]
    hit: frozenset[int]


@dataclass(frozen=True, eq=False)
class AmberState:
    """AMBER's annotations and its groups of similar words."""

    annotations: Annotations
    similar: Mapping[str, frozenset[str]]
    """Words that match each word by their vectors; only itself if words are compared by equality."""
    vectors: str


@dataclass(frozen=True)
class Amber(Metric):
    """AMBER: nouns of captions against words for what is in the image (truth) and likely inventions (hallu).

    A noun of the caption that is one of AMBER's 418 words covers a truth word if it is that word, an associated one or
    a similar one, and hits a hallu word in the same way. A noun that covers nothing is wrong, unless it is one of nine
    safe words. Over all captions::

        CHAIR = wrong nouns / nouns                    Hal = captions with a wrong noun / captions
        Cover = covered truth words / truth words      Cog = hit hallu words / hallu words

    Words are similar if the cosine of their vectors in a spaCy model is above 0.8: ``vectors=en_core_web_lg`` in the
    original. A model without word vectors, such as en_core_web_sm, is refused; ``vectors=none`` compares by equality.
    ``annotations`` is the folder ``data`` of AMBER's repository, with annotations.json, relation.json and
    safe_words.txt. An item belongs to the image whose number its id or image has: 7, AMBER_7.jpg.

    AMBER's code divides Cog by all hallu words, which is the default; the paper divides by the nouns of the captions:
    ``cog=nouns``. Its code starts each denominator at 0.001, which changes no printed decimal and is left out. Nouns
    are tagged in the text as written; a capitalized one matches nothing, as in the original. For the original's tags
    write ``tagger=nltk``.

    >>> print(Amber("cover", vectors="none"))
    amber(value=cover,vectors=none)
    """

    value: Literal["chair", "cover", "hal", "cog"] = "chair"
    annotations: str = ""
    """Folder with AMBER's annotations.json, relation.json and safe_words.txt."""
    vectors: str = VECTORS
    """A spaCy model with word vectors, or ``none``."""
    cog: Literal["hallu", "nouns"] = "hallu"
    """The divisor of Cog."""
    tagger: Literal["captious", "spacy", "nltk"] = "captious"

    name: ClassVar[str] = "amber"
    languages: ClassVar[tuple[str, ...]] = ("en",)
    main: ClassVar[str] = "value"
    always_shown: ClassVar[tuple[str, ...]] = ("value",)
    variants: ClassVar[Mapping[str, tuple[str, ...]]] = {"value": ("chair", "cover", "hal", "cog")}
    citation: ClassVar[str] = (
        "Wang et al. AMBER: An LLM-free Multi-dimensional Benchmark for MLLMs Hallucination Evaluation. 2023. "
        "arXiv:2311.07397."
    )

    @property
    def needs(self) -> tuple[Need, ...]:
        """A model with word vectors, unless words are compared by equality."""
        return () if self.vectors == NO_VECTORS and self.annotations else ("model",)

    @property
    def label(self) -> str:
        """AMBER with its value."""
        return LABELS[self.value]

    @property
    def higher_is_better(self) -> bool:
        """Whether more is better, which is so only for coverage."""
        return self.value == "cover"

    @property
    def undefined_reason(self) -> str:
        """The values that are undefined for a caption without nouns, or an image without words."""
        return (
            "the caption has no noun of AMBER's words" if self.value in ("chair", "cog") else "the image has no words"
        )

    @property
    def undefined_by_caption(self) -> bool:
        """Whether the caption has no noun; coverage and hallucination are undefined where the image has no words."""
        return self.value in ("chair", "cog")

    @property
    def _columns(self) -> tuple[str, str]:
        """The statistics of the value, numerator first."""
        below = "hallu" if self.cog == "hallu" else "nouns"
        return {
            "chair": ("wrong_nouns", "nouns"),
            "cover": ("covered", "truth"),
            "hal": ("wrong_captions", "captions"),
            "cog": ("hit", below),
        }[self.value]

    def prepare(self, captions: CaptionSet) -> Shared[AmberState]:
        """Read the annotations and find the similar words."""
        if not self.annotations:
            raise InputError(
                "amber: name the folder of AMBER's annotations (data/ of its repository), such as "
                "amber(annotations=AMBER/data)"
            )
        annotations = open_annotations(self.annotations)
        if self.vectors == NO_VECTORS:
            similar, vectors = {word: frozenset([word]) for word in annotations.words}, NO_VECTORS
        else:
            similar = find_similar_words(annotations.words, self.vectors, THRESHOLD)
            vectors = format_version(load_vectors(self.vectors))
        state = AmberState(annotations, similar, vectors)
        return Shared(state, f"{annotations.fingerprint} and {vectors}")

    def settings(self, state: Shared[AmberState]) -> Mapping[str, str]:
        """Return the fingerprint of the annotations, the model of the word vectors with its version, and the tagger."""
        value = state.value
        return {
            "annotations": f"amber#{value.annotations.fingerprint}",
            "vectors": value.vectors,
            "tagger": self.tagger,
        }

    def score_items(self, captions: CaptionSet, state: Shared[AmberState]) -> Scored:
        """Score items. A row is the numerator and denominator of the value, summed over candidates."""
        counts, _, annotations = self._get_counts(captions, state.value)
        rows = np.zeros((len(captions), len(STATISTICS)))
        np.add.at(rows, captions.candidates.owners, counts)
        reasons = {
            index: f"no image {captions.item_ids[index]} among AMBER's"
            for index, one in enumerate(annotations)
            if one is None
        }
        return Scored(rows[:, [STATISTICS.index(name) for name in self._columns]], reasons)

    def aggregate(self, rows: Floats) -> Floats:
        """Return the ratio of the sums."""
        with np.errstate(invalid="ignore", divide="ignore"):
            shares: Floats = rows[..., 0] / rows[..., 1]
        return shares

    def counts(self, captions: CaptionSet, state: Shared[AmberState]) -> Floats:
        """Count the `STATISTICS` of each candidate."""
        return self._get_counts(captions, state.value)[0]

    def _get_counts(
        self, captions: CaptionSet, state: AmberState
    ) -> tuple[Floats, list[NounCounts], list[Annotation | None]]:
        """Return the statistics and nouns of every candidate and the annotation of every item, computed once for all
        values.
        """
        # All values of AMBER share one reading of the captions.
        key = ("amber", replace(self, value="chair", cog="hallu"))
        return captions.once(key, lambda: self._count(captions, state))

    def _count(
        self, captions: CaptionSet, state: AmberState
    ) -> tuple[Floats, list[NounCounts], list[Annotation | None]]:
        images = state.annotations.images
        annotations = [
            next((images[key] for key in _parse_numbers(id, image) if key in images), None)
            for id, image in zip(captions.item_ids, captions.images, strict=True)
        ]
        counts = np.zeros((len(captions.candidates.values), len(STATISTICS)))
        counted = []
        nouns = find_nouns(captions.candidates.values, state.annotations.words, self.tagger)
        for row, (own, owner) in enumerate(zip(nouns, captions.candidates.owners.tolist(), strict=True)):
            annotation = annotations[owner] or Annotation((), ())
            one = match_nouns(own, annotation, state)
            wrong = sum(noun.verdict == "wrong" for noun in one.nouns)
            below = (len(annotation.truth), len(one.hit), len(annotation.hallu))
            counts[row] = (1, wrong > 0, len(one.nouns), wrong, len(one.covered), *below)
            counted.append(one)
        return counts, counted, annotations

    def hint(self, reason: str) -> str:
        """Say how items are matched with annotations."""
        if reason.startswith("no image "):
            return "; an item needs the number of its image as its id, such as 7 or AMBER_7.jpg"
        return super().hint(reason)

    @property
    def explains_on_page(self) -> bool:
        """The marked caption, for the values that look at wrong nouns."""
        return self.value in ("chair", "hal")

    def page_explanations(self, captions: CaptionSet, indices: Sequence[int], state: Shared[AmberState]) -> list[Why]:
        """Mark the nouns in the captions of each item, and list the words of the image."""
        chosen = captions.take(indices)
        _, counted, annotations = self._get_counts(chosen, state.value)
        nouns: list[list[Noun]] = [[] for _ in indices]
        for one, owner in zip(counted, chosen.candidates.owners.tolist(), strict=True):
            nouns[owner] += one.nouns
        lines = [_format_words(one) for one in annotations]
        return build_page_explanations(chosen, _mark_nouns(chosen, counted), [*map(_format_summary, nouns)], lines)

    def break_down(self, item: CaptionSet, state: Shared[AmberState]) -> Breakdown:
        """Break the value down by nouns of the caption, or by words of the image."""
        counts, counted, (annotation,) = self._get_counts(item, state.value)
        assert annotation is not None
        sums = dict(zip(STATISTICS, counts.sum(axis=0).tolist(), strict=True))
        above, below = self._columns
        parts = [
            part
            for rank, (one, wrong) in enumerate(zip(counted, counts[:, STATISTICS.index("wrong_nouns")], strict=True))
            for part in self._yield_parts(rank, one, annotation, float(wrong), sums[below])
        ]
        names = [name.replace("_", " ") for name in (above, below)]
        return Breakdown(
            parts,
            unit="noun" if self.value in ("chair", "hal") else "word",
            columns=[Column("verdict", "text")],
            texts=_mark_nouns(item, counted),
            formula=f"{self.label} = {names[0]} / {names[1]}: {sums[above]:.0f} / {sums[below]:.0f}",
            factors=sums,
            notes=_format_words(annotation),
            ordered=True,
            shown=None,
            summary=_format_summary([noun for one in counted for noun in one.nouns]),
        )

    def _yield_parts(
        self, rank: int, one: NounCounts, annotation: Annotation, wrong: float, below: float
    ) -> Iterator[Contribution]:
        """Yield the contribution of each noun or word of one candidate."""
        if self.value in ("chair", "hal"):
            each = 1 / below / (max(wrong, 1) if self.value == "hal" else 1)
            for noun in one.nouns:
                yield Contribution(noun.word, each * (noun.verdict == "wrong"), rank, {"verdict": noun.verdict})
            return
        words, indices = (annotation.truth, one.covered) if self.value == "cover" else (annotation.hallu, one.hit)
        verdicts = ("covered", "missed") if self.value == "cover" else ("hit", "avoided")
        for index, word in enumerate(words):
            yield Contribution(word, (index in indices) / below, rank, {"verdict": verdicts[index not in indices]})


def find_nouns(texts: Sequence[str], words: Sequence[str], tagger: str) -> list[list[tuple[str, int, int]]]:
    """Find the nouns of each text whose WordNet lemma is in `words`, with their start and stop.

    The tokens of a text are tagged as one sequence, in the case that they are written in.

    >>> find_nouns(["Birds follow two boats and a dog."], ["bird", "boat", "cat"], "captious")
    [[('boat', 17, 22)]]
    """
    vocabulary = frozenset(words)
    parsed = [split_sentences(text) for text in texts]
    tokens = [[token for sentence in one for token in sentence.tokens] for one in parsed]
    nouns = []
    for one, own, tags in zip(parsed, tokens, find_tagger(tagger)(tokens), strict=True):
        spans = [span for sentence in one for span in zip(sentence.starts, sentence.stops, strict=True)]
        lemmas = [
            find_wordnet_lemma(token, "n", vocabulary) if tag.startswith("NN") else ""
            for token, tag in zip(own, tags, strict=True)
        ]
        nouns.append([(lemma, *span) for lemma, span in zip(lemmas, spans, strict=True) if lemma in vocabulary])
    return nouns


def match_nouns(nouns: Sequence[tuple[str, int, int]], annotation: Annotation, state: AmberState) -> NounCounts:
    """Find the truth words that nouns cover, the hallu words that they hit, and the nouns that are wrong.

    A noun looks for itself in the truth first. If it is not there, it may hit a hallu word as itself and one by
    similarity, and still cover a truth word by similarity.
    """
    annotations, verdicts = state.annotations, []
    truth, hallu = annotations.list_entries(annotation.truth), annotations.list_entries(annotation.hallu)
    covered, hit = set[int](), set[int]()
    for word, start, stop in nouns:
        verdict = "unknown"
        if word not in annotations.safe_words:
            alone, similar = frozenset([word]), state.similar[word]
            # Equality goes before similarity, so that a noun covers its own word if the annotation has it.
            index = _find_first(truth, alone)
            if index is None:
                hit.update(one for one in (_find_first(hallu, alone), _find_first(hallu, similar)) if one is not None)
                index = _find_first(truth, similar)
            verdict = "wrong" if index is None else "right"
            covered.update([] if index is None else [index])
        verdicts.append(Noun(word, start, stop, verdict))
    return NounCounts(tuple(verdicts), frozenset(covered), frozenset(hit))


def _find_first(entries: Sequence[tuple[str, int]], words: frozenset[str]) -> int | None:
    return next((index for entry, index in entries if entry in words), None)


def _parse_numbers(id: str, image: Any) -> Iterator[str]:
    """Yield the image number in the id of an item, and in the name of its image file."""
    alone = id.rpartition("#")[0]
    for name in (id, alone, *([image] if isinstance(image, str) else [])):
        if match := _ID.fullmatch(PurePath(name).stem):
            yield match[1]


def open_annotations(folder: str) -> Annotations:
    """Read AMBER's annotations and word lists."""
    contents = []
    for name in FILES:
        path = Path(folder) / name
        try:
            contents.append(read_regular(path))
        except OSError as error:
            raise InputError(
                f"{path}: cannot be read ({error.strerror}), expected the folder data of AMBER's repository with "
                f"{', '.join(FILES)}"
            ) from None
    return _parse_annotations(folder, *contents)


@lru_cache(maxsize=2)
def _parse_annotations(folder: str, annotations: bytes, relation: bytes, safe_words: bytes) -> Annotations:
    path = Path(folder) / FILES[0]
    try:
        images = {
            str(row["id"]): Annotation(_check_words(row["truth"]), _check_words(row["hallu"]))
            for row in json.loads(annotations)
            if row.get("type", "generative") == "generative"
        }
        path = Path(folder) / FILES[1]
        association = {str(word): _check_words(others) for word, others in json.loads(relation).items()}
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        raise InputError(f"{path}: is not as AMBER writes it ({format_one_line(error)})") from None
    safe = frozenset(safe_words.decode("utf-8", errors="replace").split())
    return Annotations(images, association, safe, digest(annotations, relation, safe_words))


def _check_words(value: Any) -> tuple[str, ...]:
    if not isinstance(value, list) or not all(isinstance(word, str) for word in value):
        raise ValueError(f"{str(value)[:40]!r}, expected a list of words")
    return tuple(value)


def _mark_nouns(captions: CaptionSet, counted: Sequence[NounCounts]) -> list[MarkedText]:
    runs = [[(noun.start, noun.stop, noun.verdict) for noun in one.nouns] for one in counted]
    return mark_captions(captions, runs, captions.candidates.values)


def _format_summary(nouns: Sequence[Noun]) -> str:
    return format_wrong_share([noun.word for noun in nouns if noun.verdict == "wrong"], len(nouns), "noun")


def _format_words(annotation: Annotation | None) -> list[str]:
    if annotation is None:
        return []
    return [
        f"in the image: {', '.join(dict.fromkeys(annotation.truth))}",
        f"likely inventions: {', '.join(dict.fromkeys(annotation.hallu))}",
    ]
