"""ROUGE-L with coco-caption's arithmetic, and ROUGE-n."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.languages import AUTO
from captious._core.types import Floats, Ints, Ints32
from captious.captions import CaptionSet
from captious.metrics.contract import CandidateMetric, MeanMetric, NgramMetric
from captious.metrics.explanation import Breakdown, Contribution, MarkedText, label_candidates
from captious.metrics.statistic_rows import Scored, item_means
from captious.render import Column
from captious.text.ngram_tables import TextTable, mark_changes, run_indices
from captious.text.tokenizers import Tokenizer

BETA = 1.2
# Number of candidate tokens that fit into one machine word.
BITS = 64
# An empty caption counts as this one word.
EMPTY = "(no words)"


@dataclass(frozen=True)
class Rouge(CandidateMetric, MeanMetric):
    """ROUGE-L: an F-score of the longest common subsequence, recall weighted by β = 1.2.

    With P and R the LCS length over the length of the candidate and of the reference::

        ROUGE-L = (1 + β²) P R / (R + β² P)

    Over several references coco-caption takes the highest P and the highest R independently, even from different
    references; ``best=f`` takes the reference with the highest F instead. The corpus value is the mean. An empty
    caption counts as one empty word, as in coco-caption, so that it equals only another empty caption.

    >>> captions = CaptionSet.of({"1": "a cat on a mat"}, {"1": ["the cat is on a mat"]})
    >>> round(Rouge().measure(captions).corpus, 6)  # LCS "cat on a mat": P = 4/5, R = 4/6
    0.715543
    """

    best: Literal["separate", "f"] = "separate"
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "rouge"
    compares_jointly: ClassVar[bool] = True
    label: ClassVar[str] = "ROUGE-L"
    citation: ClassVar[str] = "Lin. ROUGE: a package for automatic evaluation of summaries. ACL Workshop 2004."

    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the value and 1."""
        table = self.table(captions)
        left, right, common = table.once("lcs", lambda: _compute_common(table))
        lengths = np.maximum(table.lengths, 1)
        precision, recall = common / lengths[left], common / lengths[right]
        heads = np.flatnonzero(mark_changes(left))
        values = np.zeros(len(table.lengths))
        if self.best == "separate":
            best = f_score(np.maximum.reduceat(precision, heads), np.maximum.reduceat(recall, heads), BETA)
        else:
            best = np.maximum.reduceat(f_score(precision, recall, BETA), heads)
        values[left[heads]] = best
        return Scored(item_means(values[table.candidates]))

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """List words of the longest common subsequences: those that precision counts, and those that recall counts."""
        table = self.table(item)
        references = [table.words(one) or [EMPTY] for one in table.references.tolist()]
        labels = label_candidates(len(table.candidates))
        parts, texts, formulas = list[Contribution](), list[MarkedText](), list[str]()
        for rank, candidate in enumerate(table.candidates.tolist()):
            words = table.words(candidate) or [EMPTY]
            pairs = [CommonSubsequence(words, other, find_common_subsequence(words, other)) for other in references]
            by_precision = max(pairs, key=lambda pair: pair.precision)
            by_recall = max(pairs, key=lambda pair: pair.recall)
            if self.best == "f":
                by_precision = by_recall = max(pairs, key=lambda pair: pair.f)
            parts += _list_word_parts(by_precision, by_recall, rank, len(labels))
            texts += _mark_texts(labels[rank], by_precision, by_recall)
            p, r = (f"{len(pair.positions)}" for pair in (by_precision, by_recall))
            formulas.append(f"P = {p}/{len(words)}, R = {r}/{len(by_recall.reference)}")
        mean = f"mean over {len(formulas)} candidates of " if len(formulas) > 1 else ""
        return Breakdown(
            parts,
            unit="word",
            columns=[Column("through P", key="precision"), Column("through R", key="recall")],
            texts=texts,
            formula=f"ROUGE-L = {mean}(1 + β²)·P·R / (R + β²·P), β = {BETA}, with {'; '.join(formulas)}",
        )

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return the weight β of recall."""
        return {**super().settings(state), "beta": str(BETA)}


class CommonSubsequence(NamedTuple):
    """A candidate and a reference with a longest common subsequence."""

    words: list[str]
    reference: list[str]
    positions: list[tuple[int, int]]
    """Positions of the matched words in both texts."""

    @property
    def precision(self) -> float:
        """The share of the candidate's words."""
        return len(self.positions) / len(self.words)

    @property
    def recall(self) -> float:
        """The share of the reference's words."""
        return len(self.positions) / len(self.reference)

    @property
    def f(self) -> float:
        """ROUGE-L of the pair."""
        return float(f_score(np.array([self.precision]), np.array([self.recall]), BETA)[0])


def _list_word_parts(
    by_precision: CommonSubsequence, by_recall: CommonSubsequence, rank: int, candidates: int
) -> Iterator[Contribution]:
    """Yield what each word of a candidate adds through precision and recall, which may come from two references."""
    p, r = by_precision.precision, by_recall.recall
    if not (p and r):
        return
    value = float(f_score(np.array([p]), np.array([r]), BETA)[0]) / candidates
    # P · ∂F/∂P and R · ∂F/∂R, which add up to F.
    for_precision = value * r / (r + BETA**2 * p) / len(by_precision.positions)
    for_recall = value * BETA**2 * p / (r + BETA**2 * p) / len(by_recall.positions)
    counted, recalled = ({ours for ours, _ in pair.positions} for pair in (by_precision, by_recall))
    for index in sorted(counted | recalled):
        details = {
            "precision": for_precision if index in counted else 0.0,
            "recall": for_recall if index in recalled else 0.0,
        }
        yield Contribution(by_precision.words[index], sum(details.values()), rank, details)


def _mark_texts(label: str, by_precision: CommonSubsequence, by_recall: CommonSubsequence) -> list[MarkedText]:
    """Mark the common subsequences in the candidate, and in the reference or references that count."""
    names = ["reference"] if by_precision == by_recall else ["precision from", "recall from"]
    runs = _number_runs(len(by_precision.words), [runs for runs, _ in by_precision.positions])
    return [MarkedText(label, by_precision.words, runs)] + [
        MarkedText(name, pair.reference, _number_runs(len(pair.reference), [theirs for _, theirs in pair.positions]))
        for name, pair in zip(names, (by_precision, by_recall), strict=False)
    ]


def find_common_subsequence(left: Sequence[str], right: Sequence[str]) -> list[tuple[int, int]]:
    """Find a longest common subsequence; return its positions in both lists of words.

    >>> find_common_subsequence("a cat on a mat".split(), "the cat is on a mat".split())
    [(1, 1), (2, 3), (3, 4), (4, 5)]
    """
    lengths = [[0] * (len(right) + 1) for _ in range(len(left) + 1)]
    for i in reversed(range(len(left))):
        for j in reversed(range(len(right))):
            same = left[i] == right[j]
            lengths[i][j] = lengths[i + 1][j + 1] + 1 if same else max(lengths[i + 1][j], lengths[i][j + 1])
    pairs, i, j = [], 0, 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            pairs.append((i, j))
            i, j = i + 1, j + 1
        elif lengths[i + 1][j] >= lengths[i][j + 1]:
            i += 1
        else:
            j += 1
    return pairs


def _number_runs(length: int, positions: Sequence[int]) -> list[int]:
    """Count the runs of neighboring positions from 1; other positions get 0."""
    runs = [0] * length
    number = 0
    for position in positions:
        number += not (position and runs[position - 1])
        runs[position] = number
    return runs


def f_score(precision: Floats, recall: Floats, beta: float = 1.0) -> Floats:
    """Compute the F-measure, 0 if either part is 0."""
    below = recall + beta**2 * precision
    result: Floats = np.divide(
        (1 + beta**2) * precision * recall, below, out=np.zeros_like(below), where=(precision > 0) & (recall > 0)
    )
    return result


def _compute_common(table: TextTable) -> tuple[Ints, Ints, Ints]:
    left, right, _ = table.pairs
    common = compute_lcs_lengths(table)
    common[(table.lengths[left] == 0) & (table.lengths[right] == 0)] = 1
    return left, right, common


@dataclass(frozen=True)
class RougeN(NgramMetric, CandidateMetric, MeanMetric):
    """ROUGE-n: n-grams shared with a reference, over those of the candidate (P), of the reference (R), or F1 of both.

    A shared n-gram counts as often as in the text that has it less often. Of several references the one with the
    highest value counts; ``over=mean`` averages. The corpus value is the mean. A caption without n-grams scores 0.

    >>> captions = CaptionSet.of({"1": "a cat on a mat"}, {"1": ["the cat is on a mat"]})
    >>> round(RougeN(n=2, value="precision").measure(captions).corpus, 6)  # "on a", "a mat" of 4 bigrams
    0.5
    """

    n: int = 1
    value: Literal["f", "precision", "recall"] = "f"
    over: Literal["max", "mean"] = "max"
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "rouge_n"
    compares_jointly: ClassVar[bool] = True
    citation: ClassVar[str] = "Lin. ROUGE: a package for automatic evaluation of summaries. ACL Workshop 2004."

    @property
    def label(self) -> str:
        """ROUGE-n, with P or R for precision or recall."""
        return f"ROUGE-{self.n}" + {"f": "", "precision": " P", "recall": " R"}[self.value]

    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the value and 1."""
        table = self.table(captions)
        left = table.pairs.left
        precision, recall = table.once(("rouge_n", self.n), lambda: _compute_overlap(table, self.n))
        by_pair = {"precision": precision, "recall": recall, "f": f_score(precision, recall)}[self.value]
        values = np.zeros(len(table.lengths))
        if self.over == "max":
            np.maximum.at(values, left, by_pair)
        else:
            number = np.bincount(left, minlength=len(values))
            values = np.bincount(left, weights=by_pair, minlength=len(values)) / np.maximum(number, 1)
        return Scored(item_means(values[table.candidates]))

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """List n-grams shared with the best reference, or with any if ``over=mean``."""
        table = self.table(item)
        size, counts = np.maximum(table.lengths - self.n + 1, 1), table.counts(self.n)
        references = table.references.tolist()
        labels = label_candidates(len(table.candidates))
        parts, texts = [], []
        for rank, candidate in enumerate(table.candidates.tolist()):
            # What one shared n-gram adds to the value of the pair; F1 is 2 · shared / (both sizes).
            below = {"precision": size[candidate], "recall": size, "f": (size[candidate] + size) / 2}[self.value]
            each = np.broadcast_to(1 / below, len(size)) / len(table.candidates)
            own = counts[candidate]
            shared = {
                reference: {gram: min(count, counts[reference].get(gram, 0)) for gram, count in own.items()}
                for reference in references
            }
            values = [each[reference] * sum(shared[reference].values()) for reference in references]
            chosen = references if self.over == "mean" else [references[int(np.argmax(values))]]
            for gram, count in own.items():
                adds = sum(float(each[one]) * shared[one][gram] for one in chosen) / len(chosen)
                if adds:
                    parts.append(Contribution(table.ngram(self.n, gram), adds, rank, {"count": count}))
            texts.append(MarkedText(labels[rank], table.words(candidate), table.find_shared_runs(candidate, self.n)))
            if self.over == "max":
                texts.append(MarkedText("best reference", table.words(chosen[0])))
        mean = f"mean over {len(references)} references of " if self.over == "mean" else ""
        of = {"precision": "those of the candidate", "recall": "those of the reference", "f": "mean number of both"}
        return Breakdown(
            parts,
            columns=[Column("count")],
            texts=texts,
            formula=f"{self.label} = {mean}shared {self.n}-grams / {of[self.value]}",
        )


def _compute_overlap(table: TextTable, n: int) -> tuple[Floats, Floats]:
    """Return precision and recall of every candidate-reference pair."""
    left, right, _ = table.pairs
    grams = table.ngrams(n)
    shared = np.zeros(len(left))
    for turn in range(int(table.rank.max(initial=-1)) + 1):
        rows = np.flatnonzero(table.rank[grams.caption] == turn)
        in_candidate = np.zeros(len(grams.heads), dtype=np.int32)
        in_candidate[grams.group[rows]] = grams.count[rows]
        common = np.minimum(in_candidate[grams.group], grams.count)
        per_caption = np.bincount(grams.caption, weights=common, minlength=len(table.lengths))
        mine = table.rank[left] == turn
        shared[mine] = per_caption[right[mine]]
    size = np.maximum(table.lengths - n + 1, 1)
    return shared / size[left], shared / size[right]


def compute_lcs_lengths(table: TextTable) -> Ints:
    """Compute the LCS length of every pair of ``table.pairs``.

    Bit-parallel after Hyyrö (2004): a row of the dynamic programme is one 64-bit word, the candidate's tokens its bits.
    Which bits a reference's token matches is read off the unigram table, and all references advance together, one token
    at a time. Candidates of over 64 tokens use Python's long integers.

    >>> captions = CaptionSet.of({"1": "a b c d"}, {"1": ["b d x", "d c"]})
    >>> compute_lcs_lengths(TextTable.of(captions)).tolist()  # b d; c or d
    [2, 1]
    """
    left, right, _ = table.pairs
    result = np.zeros(len(left), dtype=np.int64)
    long = table.lengths[left] > BITS
    steps: _Steps | None = None
    for turn in range(int(table.rank.max(initial=-1)) + 1):
        pairs = np.flatnonzero((table.rank[left] == turn) & ~long)
        references = right[pairs]
        if steps is None or not np.array_equal(references, steps.references):
            steps = _Steps.of(table, references)
        result[pairs] = steps.lcs_lengths(_set_bits(table, turn))
    for pair in np.flatnonzero(long).tolist():
        sides = [
            table.tokens[table.starts[side] : table.starts[side + 1]].tolist() for side in (left[pair], right[pair])
        ]
        result[pair] = _compute_long_lcs(*sides)
    return result


def _set_bits(table: TextTable, turn: int) -> npt.NDArray[np.uint64]:
    """Return a 64-bit word per unigram group: bit i is set if token i of candidate number ``turn`` is in the group."""
    starts, lengths, unigrams = table.starts, table.lengths, table.ngrams(1)
    mine = np.flatnonzero(table.rank == turn)
    mine = mine[lengths[mine] <= BITS]
    positions = run_indices(starts[mine], lengths[mine])
    bit = np.uint64(1) << (positions - np.repeat(starts[mine], lengths[mine])).astype(np.uint64)
    bits = np.zeros(len(unigrams.heads), dtype=np.uint64)
    np.bitwise_or.at(bits, unigrams.group_at.take(positions), bit)
    return bits


class _Steps(NamedTuple):
    """The tokens of references in the order of processing: the first of each, the second of each, …"""

    references: Ints
    order: Ints
    """The longest references first: those that have a token at some step are always a prefix."""
    running: list[int]
    """References that have a token at each step."""
    groups: Ints32
    """The group of the unigram at each token."""

    @classmethod
    def of(cls, table: TextTable, references: Ints) -> _Steps:
        lengths = table.lengths[references]
        order = np.argsort(-lengths, kind="stable")
        begin = table.starts[references][order]
        running = np.searchsorted(
            -lengths[order], -np.arange(1, int(lengths.max(initial=0)) + 1), side="right"
        ).tolist()
        tokens = [begin[:number] + step for step, number in enumerate(running)]
        groups = table.ngrams(1).group_at.take(np.concatenate([np.zeros(0, dtype=np.int64), *tokens]))
        return cls(references, order, running, groups)

    def lcs_lengths(self, bits: npt.NDArray[np.uint64]) -> Ints:
        """Compute the LCS length of each reference and a candidate, from the bits of each group."""
        matches = bits.take(self.groups)
        state = np.full(len(self.references), ~np.uint64(0))
        first = 0
        for number in self.running:
            current = state[:number]
            # Hyyrö's step: a zero bit of the state stands for a token of the LCS. The carry of the addition moves each
            # zero to the next match; `current - common` keeps the bits without a match.
            common = current & matches[first : first + number]
            state[:number] = (current + common) | (current - common)
            first += number
        result = np.empty(len(self.references), dtype=np.int64)
        result[self.order] = _count_ones(~state)
        return result


def _count_ones(words: npt.NDArray[np.uint64]) -> Ints:
    """Count the set bits of each word: in every two bits, every four, every byte, and in total."""
    pairs, fours, bytes_ = (np.uint64(one) for one in (0x5555555555555555, 0x3333333333333333, 0x0F0F0F0F0F0F0F0F))
    words = words - ((words >> np.uint64(1)) & pairs)
    words = (words & fours) + ((words >> np.uint64(2)) & fours)
    words = (words + (words >> np.uint64(4))) & bytes_
    ones: Ints = ((words * np.uint64(0x0101010101010101)) >> np.uint64(56)).astype(np.int64)
    return ones


def _compute_long_lcs(left: list[int], right: list[int]) -> int:
    positions: dict[int, int] = {}
    for bit, token in enumerate(left):
        positions[token] = positions.get(token, 0) | (1 << bit)
    full = (1 << len(left)) - 1
    state = full
    for token in right:
        common = state & positions.get(token, 0)
        state = ((state + common) | (state - common)) & full
    return len(left) - state.bit_count()
