"""BLEU-1 to BLEU-4 with coco-caption's arithmetic."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from captious._core.languages import AUTO
from captious._core.types import Floats, Ints, Ints32
from captious.captions import CaptionSet
from captious.metrics.contract import CandidateMetric, NgramMetric
from captious.metrics.explanation import Breakdown, Contribution, MarkedText, label_candidates
from captious.metrics.statistic_rows import Scored
from captious.render import Column, Table
from captious.text.ngram_tables import NgramTable, TextTable, mark_changes
from captious.text.tokenizers import Tokenizer

# The smoothing constants of coco-caption.
TINY, SMALL = 1e-15, 1e-9
ORDERS = 4


@dataclass(frozen=True)
class Bleu(NgramMetric, CandidateMetric):
    """BLEU-n: geometric mean of clipped n-gram precisions of orders 1 to n, times a brevity penalty.

    c_k counts the n-grams of order k that the candidate shares with a reference. An n-gram counts at most as often as
    in the reference that has it most often. g_k counts all n-grams of the candidate::

        BLEU-n = bp · Π_k ((c_k + 1e-15) / (g_k + 1e-9))^(1/n)
        bp     = min(1, exp(1 − 1/ρ)),  ρ = (length + 1e-15) / (reference length + 1e-9)

    The reference length is the one closest to the candidate's, the shorter of two equally close. This is the arithmetic
    of coco-caption. Its two small constants are the only smoothing: if an order has no match, the value of an item is
    practically 0. The corpus value comes from statistics summed over items, it is not the mean of the items' values.

    >>> captions = CaptionSet.of({"1": "a cat on a mat"}, {"1": ["the cat is on a mat", "a cat sits"]})
    >>> round(Bleu(n=1).measure(captions).corpus, 6)  # one "a" too many; the closest length is 6: 4/5 · exp(1 − 6/5)
    0.654985
    """

    n: int = 4
    tokenizer: str | Tokenizer = AUTO

    name: ClassVar[str] = "bleu"
    compares_jointly: ClassVar[bool] = True
    highest_n: ClassVar[int] = ORDERS
    variants: ClassVar[Mapping[str, tuple[int, ...]]] = {"n": (1, 2, 3, 4)}
    citation: ClassVar[str] = (
        "Papineni, Roukos, Ward, Zhu. BLEU: a method for automatic evaluation of machine translation. ACL 2002."
    )

    @property
    def label(self) -> str:
        """BLEU-1 to BLEU-4."""
        return f"BLEU-{self.n}"

    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """Return rows with the length, the reference length, then matches and n-grams of each order up to n."""
        table = self.table(captions)
        rows = table.once("bleu", lambda: _count_against_references(table))
        return Scored(rows[:, : 2 + 2 * self.n])

    def aggregate(self, rows: Floats) -> Floats:
        """Compute BLEU-n of each row."""
        return bleu(rows, self.n)

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """List matched n-grams. Each order has an equal share of the value, each match an equal share of its order."""
        table = self.table(item)
        sums = np.asarray(self.score_candidates(item, state).rows).sum(axis=0)
        length, reference_length = sums[:2].tolist()
        penalty = float(np.exp(min(0.0, 1 - (reference_length + SMALL) / (length + TINY))))
        matches, grams = sums[2::2], sums[3::2]
        product = " · ".join(f"{hits:.0f}/{total:.0f}" for hits, total in zip(matches, grams, strict=True))
        root = f"({product})^(1/{self.n})" if self.n > 1 else product
        rows = [
            (n, int(hits), int(total), (hits + TINY) / (total + SMALL))
            for n, (hits, total) in enumerate(zip(matches, grams, strict=True), 1)
        ]
        orders = [Column("n"), Column("matched"), Column("n-grams", key="ngrams"), Column("precision")]
        labels = label_candidates(len(table.candidates))
        return Breakdown(
            list(self._list_contributions(table, sums)),
            columns=[Column("n"), Column("matched"), Column("of", key="count")],
            texts=[
                MarkedText(label, table.words(caption), table.find_shared_runs(caption, self.n))
                for label, caption in zip(labels, table.candidates.tolist(), strict=True)
            ],
            formula=f"{self.label} = brevity penalty {penalty:.4f} · {root}; {length:.0f} words, the closest reference "
            f"length is {reference_length:.0f}",
            factors={"brevity_penalty": penalty, "length": length, "reference_length": reference_length},
            tables=[Table("orders", "clipped precision", orders, rows)],
        )

    def _list_contributions(self, table: TextTable, sums: Floats) -> Iterator[Contribution]:
        """Yield the matched n-grams of the only item; for an order without a match, the part of the constant 1e-15."""
        value = float(bleu(sums, self.n))
        for n in range(1, self.n + 1):
            grams = table.ngrams(n)
            matches, total = sums[2 * n : 2 * n + 2].tolist()
            share = value / self.n / (matches + TINY)
            for row in grams.candidate_rows.tolist():
                count = int(grams.count[row])
                if clipped := min(count, int(grams.reference_max[grams.group[row]])):
                    name, rank = table.ngram(n, int(grams.gram[row])), int(table.rank[grams.caption[row]])
                    yield Contribution(name, share * clipped, rank, {"n": n, "matched": clipped, "count": count})
            if not matches:
                yield Contribution(
                    f"no match of order {n}", share * TINY, None, {"n": n, "matched": 0, "count": int(total)}
                )

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return the choice of the reference length, and the smoothing constants."""
        return {**super().settings(state), "reflen": "closest", "smooth": "1e-15/1e-9"}


def bleu(sums: Floats, n: int) -> Floats:
    """Compute BLEU-n from rows (length, reference length, matches_1, n-grams_1, matches_2, …)."""
    length, reference_length = sums[..., 0], sums[..., 1]
    matches, grams = sums[..., 2 : 2 + 2 * n : 2], sums[..., 3 : 3 + 2 * n : 2]
    product = np.prod((matches + TINY) / (grams + SMALL), axis=-1)
    ratio = (length + TINY) / (reference_length + SMALL)
    with np.errstate(divide="ignore", over="ignore"):
        penalty = np.where(ratio < 1, np.exp(1 - 1 / ratio), 1.0)
    result: Floats = product ** (1 / n) * penalty
    return result


def count_statistics(
    table: TextTable, closest: Ints, highest_counts: Callable[[NgramTable], tuple[Ints, Ints32]]
) -> Floats:
    """Count the statistics of every candidate, given the reference length closest to its own.

    ``highest_counts`` returns the rows of an n-gram table that belong to candidates and may match, and for each row the
    highest count of its n-gram in one reference.
    """
    candidates, lengths = table.candidates, table.lengths
    result = np.zeros((len(candidates), 2 + 2 * ORDERS))
    result[:, 0] = lengths[candidates]
    result[:, 1] = closest
    # The row of `result` that each caption of the table has; -1 for references.
    slot = np.full(len(lengths), -1)
    slot[candidates] = np.arange(len(candidates))
    for n in range(1, ORDERS + 1):
        grams = table.ngrams(n)
        rows, highest = highest_counts(grams)
        clipped = np.minimum(grams.count.take(rows), highest)
        result[:, 2 * n] = np.bincount(slot.take(grams.caption.take(rows)), weights=clipped, minlength=len(candidates))
        result[:, 2 * n + 1] = np.maximum(lengths[candidates] - n + 1, 0)
    return result


def _count_against_references(table: TextTable) -> Floats:
    def find_highest_counts(grams: NgramTable) -> tuple[Ints, Ints32]:
        rows = grams.matches.rows
        return rows, grams.reference_max.take(grams.group.take(rows))

    return count_statistics(table, find_closest_reference_lengths(table), find_highest_counts)


def find_closest_reference_lengths(table: TextTable) -> Ints:
    """Return the reference length closest to that of each candidate, the shorter of two equally close; 0 if none."""
    lengths = table.lengths
    result = np.zeros(len(table.candidates), dtype=np.int64)
    references = np.flatnonzero(~table.is_candidate)
    if not len(references):
        return result
    # References of an item follow each other: a group of them begins at each of `starts`. Items without references
    # have no group (-1).
    item = table.item[references]
    starts = np.flatnonzero(mark_changes(item))
    group_of_item = np.full(table.items, -1)
    group_of_item[item[starts]] = np.arange(len(starts))
    candidate_group = group_of_item[table.item[table.candidates]]
    rank = table.rank[table.candidates]
    # distance * width + length is one integer; its minimum is the closest length, of equally close ones the shorter.
    width = int(lengths.max(initial=0)) + 1
    # The first candidates of all items at once, then the second ones, …: each item has at most one of them.
    for number in range(int(rank.max(initial=0)) + 1):
        chosen = np.flatnonzero((rank == number) & (candidate_group >= 0))
        length = np.zeros(len(starts), dtype=np.int64)
        length[candidate_group[chosen]] = lengths[table.candidates[chosen]]
        distance = np.abs(lengths[references] - np.repeat(length, np.diff(starts, append=len(references))))
        best = np.minimum.reduceat(distance * width + lengths[references], starts)
        result[chosen] = (best % width)[candidate_group[chosen]]
    return result
