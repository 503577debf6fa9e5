"""Diversity metrics: repetition within and between captions, vocabulary, and novelty."""

from __future__ import annotations

import itertools
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import inf
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np

from captious._core.languages import AUTO
from captious._core.types import Floats, Ints, Ints32
from captious.captions import CaptionSet, Ragged
from captious.io.columns import SENTENCE_COLUMN, WITHOUT_PREDICTION_COLUMN
from captious.io.formats import read_rows
from captious.io.join import gather_references
from captious.metrics.bleu import ORDERS, bleu, count_statistics
from captious.metrics.cider import compute_similarities, get_document_frequencies
from captious.metrics.contract import MeanMetric, Need, NgramMetric, TokenMetric
from captious.metrics.statistic_rows import Scored, TypeSets, give_reason, item_means
from captious.text.counts import CountsKind, CountsState, KeyCounts
from captious.text.idf import DocumentFrequency
from captious.text.ngram_tables import NgramTable, TextTable, count_words, mark_changes
from captious.text.tokenizers import Tokenizer


@dataclass(frozen=True)
class DivN(NgramMetric, MeanMetric):
    """div-n: distinct n-grams over all n-grams of an item's candidates taken together; 1 − rep-n.

    With one candidate this is ImaginE's div-n of a text; with several candidates it is the Div-n of diverse captioning.
    Edge cases, which no paper defines: no tokens gives 0, tokens but fewer than n gives 1 (nothing can repeat);
    ``strict=yes`` leaves both without a value. The corpus value is the mean over items.

    >>> round(DivN(n=1).measure(CaptionSet.of({"1": "the cat and the dog"})).corpus, 6)  # 4 of 5 words differ
    0.8
    """

    n: int = 2
    strict: bool = False
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "div_n"
    needs: ClassVar[tuple[Need, ...]] = ()
    citation: ClassVar[str] = (
        "Welleck et al. Neural text generation with unlikelihood training. ICLR 2020 (as 1 - rep-n)."
    )

    @property
    def label(self) -> str:
        """The label div-n."""
        return f"div-{self.n}"

    @property
    def undefined_reason(self) -> str:
        """The reason of items that ``strict=yes`` leaves without a value."""
        return f"fewer than {self.n} tokens"

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the item's value and 1."""
        table = self.table(captions)
        reasons = (
            give_reason(count_distinct_and_total(table, self.n)[1] == 0, self.undefined_reason) if self.strict else {}
        )
        return Scored(item_means(div(table, self.n)), reasons)


def div(table: TextTable, n: int) -> Floats:
    """Compute div-n of each item."""
    distinct, total = count_distinct_and_total(table, n)
    tokens = count_distinct_and_total(table, 1)[1]
    result: Floats = np.divide(distinct, total, out=(tokens > 0).astype(np.float64), where=total > 0)
    return result


def count_distinct_and_total(table: TextTable, n: int) -> tuple[Floats, Floats]:
    """Count the distinct and all n-grams of each item's candidates."""
    grams = table.ngrams(n)
    rows = grams.candidate_rows
    item = table.item[grams.caption[rows]]
    total = np.bincount(item, weights=grams.count[rows], minlength=table.items).astype(np.float64)
    first = mark_changes(grams.group[rows])
    return np.bincount(item[first], minlength=table.items).astype(np.float64), total


@dataclass(frozen=True)
class Words(MeanMetric):
    """The number of words of a caption: what stands between spaces, or the tokens of a language without spaces.

    These are the words that runs store and filters name. The corpus value is the mean over captions. More words are
    not better; read other metrics beside it.

    >>> Words().measure(CaptionSet.of({"1": "a red dog", "2": "a cat"})).corpus
    2.5
    """

    name: ClassVar[str] = "words"
    needs: ClassVar[tuple[Need, ...]] = ()
    range: ClassVar[tuple[float, float]] = (0.0, inf)
    decimals: ClassVar[int | None] = 1

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the words of all captions of an item, and the number of captions."""
        candidates = captions.candidates
        words = np.array(count_words(candidates.values, captions.language), dtype=np.float64)
        total = np.bincount(candidates.owners, weights=words, minlength=len(captions))
        return Scored(np.stack([total, candidates.counts.astype(np.float64)], axis=1))


@dataclass(frozen=True)
class VocabSize(TokenMetric):
    """The number of distinct tokens in all candidates; per item, in its candidates.

    There is no bootstrap interval: a resample repeats items, so its vocabulary is always smaller than the set's.

    >>> VocabSize().measure(CaptionSet.of({"1": "a cat", "2": "a dog"})).corpus
    3.0
    """

    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "vocab_size"
    needs: ClassVar[tuple[Need, ...]] = ()
    range: ClassVar[tuple[float, float]] = (0.0, inf)
    decimals: ClassVar[int | None] = 0

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return the set of words of each item."""
        return Scored(collect_type_sets(self.table(captions), 1))

    def aggregate(self, rows: Floats) -> Floats:
        """Return the number of distinct tokens."""
        return rows[..., 0]


def collect_type_sets(table: TextTable, n: int) -> TypeSets:
    """Collect the distinct n-grams of each item's candidates, as texts, so that the sets of shards unite."""
    grams = table.ngrams(n)
    rows = grams.candidate_rows
    texts = _format_ngrams(table, n, np.unique(grams.gram[rows]))
    types: list[set[str]] = [set() for _ in range(table.items)]
    for item, gram in zip(table.item[grams.caption[rows]].tolist(), grams.gram[rows].tolist(), strict=True):
        types[item].add(texts[gram])
    tokens = table.sum_per_item(table.lengths[table.candidates, None].astype(np.float64))[:, 0]
    return TypeSets(tuple(map(frozenset, types)), tokens.astype(np.int64))


def _format_ngrams(table: TextTable, n: int, grams: np.ndarray) -> dict[int, str]:
    # An n-gram is its last word and its parent, the (n-1)-gram before it: walk up, and collect words from the right.
    words: list[list[str]] = [[] for _ in grams]
    current = grams
    for order in range(n, 0, -1):
        level = table.ngrams(order)
        for text, last in zip(words, level.last[current].tolist(), strict=True):
            text.append(table.vocabulary[last])
        current = level.parent[current]
    return {gram: " ".join(reversed(text)) for gram, text in zip(grams.tolist(), words, strict=True)}


@dataclass(frozen=True)
class DistinctN(NgramMetric):
    """distinct-n: distinct n-grams over the number of tokens (Li et al. 2016), of one text or of the whole set.

    ``over=item`` averages the items' own values, as ImaginE does; ``over=corpus`` counts distinct n-grams over all
    candidates of the set, as in dialogue work, and has no bootstrap interval. A text without tokens scores 0.

    >>> captions = CaptionSet.of({"1": "a cat sat", "2": "a cat ran"})
    >>> values = [DistinctN(n=2, over=over).measure(captions).corpus for over in ("item", "corpus")]
    >>> [round(value, 6) for value in values]  # 2 bigrams of 3 tokens each; 3 distinct of 6 tokens
    [0.666667, 0.5]
    """

    n: int = 2
    over: Literal["item", "corpus"] = "item"
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "distinct_n"
    needs: ClassVar[tuple[Need, ...]] = ()
    citation: ClassVar[str] = (
        "Li et al. A diversity-promoting objective function for neural conversation models. NAACL 2016."
    )

    @property
    def label(self) -> str:
        """The label distinct-n."""
        return f"distinct-{self.n}" + (" (corpus)" if self.over == "corpus" else "")

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the item's value and 1, or the set of its n-grams."""
        table = self.table(captions)
        if self.over == "corpus":
            return Scored(collect_type_sets(table, self.n))
        distinct, tokens = count_distinct_and_total(table, self.n)[0], count_distinct_and_total(table, 1)[1]
        return Scored(item_means(distinct / np.maximum(tokens, 1)))

    def aggregate(self, rows: Floats) -> Floats:
        """Divide distinct n-grams by tokens, or the sum of values by their number."""
        result: Floats = rows[..., 0] / np.maximum(rows[..., 1], 1)
        return result


class SentenceMetric(NgramMetric, MeanMetric):
    """A metric of the sentences about a video, of dense captions or of a paragraph; other items have candidates.

    Videos without predictions have no value and are left out of the mean.
    """

    needs: ClassVar[tuple[Need, ...]] = ()

    def table(self, captions: CaptionSet) -> TextTable:
        """Return the token table of the sentences as they were written, before a paragraph was joined from them."""
        sentences = captions.columns.get(SENTENCE_COLUMN)
        if sentences is None:
            return super().table(captions)
        joined = captions.once("sentences", lambda: _restore_sentences(captions, sentences))
        return super().table(joined)

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the item's value and 1."""
        without = [bool(one) for one in captions.columns.get(WITHOUT_PREDICTION_COLUMN, (False,) * len(captions))]
        values = self.count_sentences(self.table(captions))
        return Scored(item_means(np.where(without, np.nan, values)), give_reason(np.array(without), "no prediction"))

    @abstractmethod
    def count_sentences(self, table: TextTable) -> Floats:
        """Return the value of each item."""


def _restore_sentences(captions: CaptionSet, sentences: Sequence[Sequence[str] | None]) -> CaptionSet:
    """Return the sentences as candidates; a paragraph that was not joined from any stays one text."""
    texts = [tuple(own) if own is not None else one for own, one in zip(sentences, captions.candidates, strict=True)]
    return replace(captions, candidates=Ragged.of(texts), columns={})


@dataclass(frozen=True)
class Repetition(SentenceMetric):
    """Repetition (R@n) of the sentences about a video: the share of n-grams that occurred before; lower is better.

    This is 1 − div_n on sentences as they were written: not lower-cased, commas are spaces and one period at the end is
    removed. N-grams do not cross sentences. Without n-grams it is 0. The corpus value is the mean over videos with
    predictions.

    >>> round(Repetition(n=2).measure(CaptionSet.of({"1": ["add the salt.", "add the egg"]})).corpus, 6)  # 1 of 4
    0.25
    """

    n: int = 4
    tokenizer: str | Tokenizer = "mart"

    name: ClassVar[str] = "repetition"
    higher_is_better: ClassVar[bool] = False
    citation: ClassVar[str] = (
        "Xiong, Dai, Lin. Move forward and tell: a progressive generator of video descriptions. ECCV 2018; as counted "
        "by Lei et al. MART: memory-augmented recurrent transformer for coherent video paragraph captioning. ACL 2020."
    )

    @property
    def label(self) -> str:
        """The label R@n."""
        return f"R@{self.n}"

    def count_sentences(self, table: TextTable) -> Floats:
        """Return the share of repeated n-grams of each item."""
        distinct, total = count_distinct_and_total(table, self.n)
        return (total - distinct) / np.maximum(total, 1)


@dataclass(frozen=True)
class Diversity(SentenceMetric):
    """Diversity of the sentences about a video (MART's Div-n): distinct n-grams over all words, not over n-grams.

    Sentences are read as for `repetition`. It is ``distinct_n`` of them, and for n = 1 also ``div_n``. Without words it
    is 0. The corpus value is the mean over videos with predictions.

    >>> round(Diversity(n=2).measure(CaptionSet.of({"1": ["add the salt.", "add the egg"]})).corpus, 6)  # 3 of 6 words
    0.5
    """

    n: int = 2
    tokenizer: str | Tokenizer = "mart"

    name: ClassVar[str] = "diversity"
    variants: ClassVar[Mapping[str, tuple[int, ...]]] = {"n": (1, 2)}
    citation: ClassVar[str] = (
        "Lei et al. MART: memory-augmented recurrent transformer for coherent video paragraph captioning. ACL 2020."
    )

    @property
    def label(self) -> str:
        """The label Div-n with the words that it is divided by."""
        return f"Div-{self.n} (per word)"

    def count_sentences(self, table: TextTable) -> Floats:
        """Return the distinct n-grams over the words of each item."""
        return count_distinct_and_total(table, self.n)[0] / np.maximum(count_distinct_and_total(table, 1)[1], 1)


@dataclass(frozen=True)
class RepDiversity(TokenMetric, MeanMetric):
    """Diversity: div-2 · div-3 · div-4 = Π (1 − rep-n), per text; the corpus value is the mean.

    ImaginE prints a product of rep-n; the original (Su et al. 2022) and this are the product of 1 − rep-n.

    >>> round(RepDiversity().measure(CaptionSet.of({"1": "a cat a cat a"})).corpus, 6)  # 2/4 · 2/3 · 2/2
    0.333333
    """

    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "rep_diversity"
    needs: ClassVar[tuple[Need, ...]] = ()
    citation: ClassVar[str] = "Su et al. A contrastive framework for neural text generation. NeurIPS 2022."

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the item's value and 1."""
        table = self.table(captions)
        return Scored(item_means(np.prod([div(table, n) for n in (2, 3, 4)], axis=0)))


@dataclass(frozen=True)
class SelfCider(TokenMetric, MeanMetric):
    """Self-CIDEr of m candidates: 0 when all say the same, 1 when no two share anything.

    K_ij is the CIDEr-D of candidate i against candidate j, for i ≤ j and mirrored; with σ its singular values::

        r = √σ_max / Σ √σ,    diversity = −log(r) / log(m)

    Candidates with no weighted n-gram at all carry no information; an item of only such candidates has no value.
    The paper's code counts df over COCO train2014: name such a corpus with ``idf``; the default counts the references.

    >>> captions = CaptionSet.of({"1": ["a cat", "two dogs"], "2": ["a red bus"] * 2}, {"1": ["a cat"], "2": ["a bus"]})
    >>> SelfCider().measure(captions).values.round(6).tolist()
    [1.0, 0.0]
    """

    idf: str = "refs"
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "selfcider"
    label: ClassVar[str] = "Self-CIDEr"
    main: ClassVar[str] = "idf"
    needs: ClassVar[tuple[Need, ...]] = ("references", "several candidates")
    undefined_reason: ClassVar[str] = "no candidate has an n-gram with weight"
    citation: ClassVar[str] = "Wang, Chan. Describing like humans: on diversity in image captioning. CVPR 2019."

    @property
    def corpus_state(self) -> type[DocumentFrequency] | None:
        """Document frequencies with ``idf=refs``, None if a corpus is named."""
        return DocumentFrequency if self.idf == "refs" else None

    def prepare(self, captions: CaptionSet) -> DocumentFrequency:
        """Count the document frequencies of the references, or load those of the named corpus."""
        return get_document_frequencies(self.idf, captions, self.tokenizer_name(captions))

    def score_items(self, captions: CaptionSet, state: DocumentFrequency) -> Scored:
        """Return rows with the item's value and 1."""
        table = self.table(captions)
        similarity, counts = compute_similarities(table, state, "d", candidates=True), captions.candidates.counts
        ends = np.cumsum(np.square(counts)).tolist()
        values = [
            _score_similarities(similarity[end - number * number : end].reshape(number, number))
            for end, number in zip(ends, counts.tolist(), strict=True)
        ]
        return Scored(item_means(np.array(values)))

    def settings(self, state: DocumentFrequency) -> Mapping[str, str]:
        """Return the idf corpus by name, size and content."""
        return {**super().settings(state), "idf": str(state)}


def _score_similarities(similarity: Floats) -> float:
    """Compute the value of one item from the similarities of its candidates; only those for i ≤ j are used."""
    if len(similarity) < 2:
        return float("nan")
    kernel = np.triu(similarity) + np.triu(similarity, 1).T
    return compute_diversity(np.sqrt(np.linalg.svd(kernel, compute_uv=False)), len(kernel))


def compute_diversity(values: Floats, m: int) -> float:
    """Compute −log(largest share) / log(m); NaN if the sum of values is 0."""
    total = float(values.sum())
    if m < 2 or total <= 0:
        return float("nan")
    return float(-np.log(values.max() / total) / np.log(m)) + 0.0


@dataclass(frozen=True)
class Lsa(TokenMetric, MeanMetric):
    """LSA diversity of m candidates: −log(r) / log(m), r = σ_max / Σ σ of the matrix of word counts by caption.

    >>> captions = CaptionSet.of({"1": ["a cat", "two dogs"], "2": ["a red bus"] * 2})
    >>> Lsa().measure(captions).values.round(6).tolist()
    [1.0, 0.0]
    """

    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "lsa"
    label: ClassVar[str] = "LSA diversity"
    needs: ClassVar[tuple[Need, ...]] = ("several candidates",)
    undefined_reason: ClassVar[str] = "no candidate has a token"
    citation: ClassVar[str] = "Wang, Chan. Describing like humans: on diversity in image captioning. CVPR 2019."

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the item's value and 1."""
        table = self.table(captions)
        values = np.full(table.items, np.nan)
        for item, (first, end) in enumerate(itertools.pairwise(captions.candidates.offsets.tolist())):
            parts = [table.tokens[table.starts[c] : table.starts[c + 1]] for c in table.candidates[first:end]]
            if end - first < 2 or not any(map(len, parts)):
                continue
            words, column = np.unique(np.concatenate(parts), return_inverse=True)
            row = np.repeat(np.arange(end - first), [len(part) for part in parts])
            counts = np.zeros((end - first, len(words)))
            np.add.at(counts, (row, column), 1)
            values[item] = compute_diversity(np.linalg.svd(counts, compute_uv=False), end - first)
        return Scored(item_means(values))


@dataclass(frozen=True)
class MBleu(NgramMetric, MeanMetric):
    """mBLEU-n: the mean BLEU-n of each candidate of an item against its other candidates; lower is more diverse.

    >>> same = CaptionSet.of({"1": ["a cat sat on a mat", "a cat sat on a mat"]})
    >>> round(MBleu().measure(same).corpus, 6)
    1.0
    """

    n: int = 4
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "mbleu"
    needs: ClassVar[tuple[Need, ...]] = ("several candidates",)
    higher_is_better: ClassVar[bool] = False
    highest_n: ClassVar[int] = ORDERS
    citation: ClassVar[str] = "Shetty et al. Speaking the same language. ICCV 2017."

    @property
    def label(self) -> str:
        """The label mBLEU-n."""
        return f"mBLEU-{self.n}"

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the sum of the candidates' values, and their number."""
        table = self.table(captions)
        return Scored(table.mean_rows(bleu(table.once("mbleu", lambda: _count_against_others(table)), self.n)))


def _count_against_others(table: TextTable) -> Floats:
    """Count the BLEU statistics of each candidate with the other candidates of its item as references."""

    def find_highest_counts(grams: NgramTable) -> tuple[Ints, Ints32]:
        rows = grams.candidate_rows
        rows = rows[np.lexsort((-grams.count[rows], grams.group[rows]))]
        group, count = grams.group[rows], grams.count[rows]
        # Rows of a group are in falling order of count: the most that another caption has is the first row's count,
        # except for the first row itself, for which it is the second's.
        first = mark_changes(group)
        head = np.flatnonzero(first)[np.cumsum(first) - 1]
        after = np.append(np.where(first[1:], 0, count[1:]), 0)
        return rows, np.where(first, after, count[head])

    return count_statistics(table, _find_closest_lengths(table), find_highest_counts)


def _find_closest_lengths(table: TextTable) -> Ints:
    lengths, item = table.lengths[table.candidates], table.item[table.candidates]
    best = np.zeros(len(lengths), dtype=np.int64)
    bounds = np.searchsorted(item, np.arange(table.items + 1)).tolist()
    for first, end in itertools.pairwise(bounds):
        if end - first < 2:
            continue
        own = lengths[first:end]
        distance = np.abs(own[:, None] - own[None, :]) * (own.max() + 1) + own[None, :]
        np.fill_diagonal(distance, np.iinfo(np.int64).max)
        best[first:end] = own[distance.argmin(axis=1)]
    return best


@dataclass(frozen=True, eq=False)
class KnownCaptions(CountsState):
    """Captions that are not new, by the hash of their tokens; shards unite.

    Of 1e8 new captions against 5e8 known ones, 3e-3 are expected to have a known hash by chance.
    """

    kind: ClassVar[CountsKind] = CountsKind("captious-known", 1, "state of novelty", "captious score")

    @classmethod
    def of(cls, table: TextTable) -> KnownCaptions:
        """Hash the references of a table."""
        keys = table.hash_captions(table.references)
        return cls(KeyCounts.of(keys, np.ones(len(keys))))

    def merge(self, other: KnownCaptions) -> KnownCaptions:
        """Unite the known captions of two shards."""
        return KnownCaptions(KeyCounts.sum([self.counts, other.counts]))

    @cached_property
    def _fingerprint(self) -> str:
        mark = int(np.add.reduce(self.counts.keys, dtype=np.uint64))
        return f"{len(self.counts)}:{f'{mark:016x}'[:8]}"

    def __str__(self) -> str:
        return self._fingerprint


@dataclass(frozen=True)
class Novelty(TokenMetric, MeanMetric):
    """The share of candidates whose tokens are not those of a known caption.

    ``against=refs``: the known captions are the references of the set. A path names a file of known captions, such as
    the training captions.

    >>> captions = CaptionSet.of({"1": "A cat.", "2": "a new dog"}, {"1": ["a cat"], "2": ["a dog"]})
    >>> Novelty().measure(captions).corpus
    0.5
    """

    against: str = "refs"
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "novelty"
    main: ClassVar[str] = "against"

    @property
    def needs(self) -> tuple[Need, ...]:
        """References, unless a file of known captions is named."""
        return ("references",) if self.against == "refs" else ()

    @property
    def corpus_state(self) -> type[KnownCaptions] | None:
        """The known captions with ``against=refs``, None if a file is named."""
        return KnownCaptions if self.against == "refs" else None

    def prepare(self, captions: CaptionSet) -> KnownCaptions:
        """Hash the captions that are not new: the references, or those of the named file."""
        if self.against != "refs":
            return _read_known_captions(
                self.against, self.tokenizer_name(captions), _get_modification_time(self.against)
            )
        return KnownCaptions.of(self.table(captions))

    def score_items(self, captions: CaptionSet, state: KnownCaptions) -> Scored:
        """Return rows with the number of new candidates of an item, and the number of all."""
        table = self.table(captions)
        new = state.counts.lookup(table.hash_captions(table.candidates)) == 0
        return Scored(table.mean_rows(new.astype(np.float64)))

    def settings(self, state: KnownCaptions) -> Mapping[str, str]:
        """Return the known captions by number and content."""
        return {**super().settings(state), "known": str(state)}


@lru_cache(maxsize=2)
def _read_known_captions(source: str, tokenizer: str, changed: int) -> KnownCaptions:
    """Read the captions of a file, once for all shards; `changed` is part of the cache key."""
    references = gather_references(read_rows(source)).references
    return KnownCaptions.of(TextTable.of(CaptionSet.of(dict.fromkeys(references, ()), references), tokenizer))


def _get_modification_time(source: str) -> int:
    """Return when a file was last written, in ns; 0 if the source is no local file."""
    path = Path(source)
    return path.stat().st_mtime_ns if path.is_file() else 0
