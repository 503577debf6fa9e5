"""Captions as arrays of token ids, and n-gram counts as one sorted table per order; both are shared by all metrics.

Captions are concatenated in one array, those of an item contiguous and its candidates before its references::

    caption   0: "a dog"    1: "a dog runs"    2: "a cat"
    tokens    a   dog       a   dog   runs     a   cat        flat ids into a sorted vocabulary
    starts    0             2                  5         7    caption c is tokens[starts[c]:starts[c + 1]]

An `NgramTable` has one row for each n-gram and caption that has it, sorted by n-gram, then item, then caption. With
captions 0 (candidate) and 1 (reference) in item 0, and 2 (reference) in item 1, the unigrams are::

    gram       a    a    a    cat   dog   dog   runs
    caption    0    1    2    2     0     1     1
    count      1    1    1    1     1     1     1
    group      0    0    1    2     3     3     4        one group for each (n-gram, item)

Clipping against references, document frequencies and dot products are reductions over such groups.
"""

from __future__ import annotations

import contextlib
import itertools
from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache, partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from captious._core.languages import AUTO, SPACED_TOKENIZERS, choose_tokenizer
from captious._core.types import Bools, Floats, Ints, Ints32
from captious.captions import CaptionSet, Memo, Ragged
from captious.errors import InputError, format_one_line
from captious.text.counts import Keys, hash_words, mix
from captious.text.tokenizers import Tokenizer, find_tokenizer, name_tokenizer

# Chunks of captions that a table remembers the tokens of.
_REMEMBERED = 1 << 17
# Orders of n-grams whose document frequencies are counted.
ORDERS = 4
# Tokens of a table so small that the number of steps takes longer than the work of each.
SMALL = 1 << 15
Counts = npt.NDArray[np.signedinteger[Any] | np.unsignedinteger[Any]]


class NgramMatches(NamedTuple):
    """Rows of candidates, each with a run of rows that have the same n-gram in the same item."""

    rows: Ints
    first: Ints
    """The first row of each run."""
    met: Ints
    """The length of each run."""


class CaptionPairs(NamedTuple):
    """Candidates, each paired with a contiguous run of captions of its item."""

    left: Ints
    right: Ints
    shift: Ints
    """Captions ``l`` and ``r`` are pair number ``shift[l] + r``."""


@dataclass(frozen=True, eq=False)
class NgramRows:
    """Rows (n-gram, item, caption, count), sorted in that order; see the drawing at the top of the module.

    The rows of one n-gram in one item are a group, its candidates before its references.
    """

    n: int
    size: int
    """Distinct n-grams in the whole set."""
    gram: Ints32
    caption: Ints32
    count: Counts
    item: Ints32
    """The item of each caption."""
    is_candidate: Bools
    """Whether each caption is a candidate."""

    @cached_property
    def _groups(self) -> tuple[Ints32, Ints]:
        """The group number of each row, and the first row of each group, followed by the number of rows."""
        begins = np.ones(len(self.gram) + 1, dtype=np.bool_)
        np.logical_or(mark_changes(self.gram), mark_changes(self.item.take(self.caption)), out=begins[:-1])
        return _number_runs(begins[:-1]), begins.nonzero()[0]

    @property
    def group(self) -> Ints32:
        """Number of the (n-gram, item) group of each row."""
        return self._groups[0]

    @property
    def heads(self) -> Ints:
        """First row of each group."""
        return self._groups[1][:-1]

    @property
    def ends(self) -> Ints:
        """One past the last row of each group."""
        return self._groups[1][1:]

    @cached_property
    def reference_row(self) -> Bools:
        """Whether each row belongs to a reference."""
        return ~self.is_candidate.take(self.caption)

    @property
    def candidate_rows(self) -> Ints:
        """The rows of candidates."""
        return (~self.reference_row).nonzero()[0]

    @cached_property
    def matches(self) -> NgramMatches:
        """The rows of candidates whose n-gram occurs in a reference of the item, with the rows of these references."""
        rows, references = self.candidate_rows, self.reference_row.nonzero()[0]
        # The number of reference rows before a candidate's; the next row is of its group, if the group has any.
        before = rows - np.arange(len(rows))
        rows = rows[: before.searchsorted(len(references))]
        following, group = references.take(before[: len(rows)]), self.group.take(rows)
        met = (self.group.take(following) == group).nonzero()[0]
        first = following.take(met)
        return NgramMatches(rows.take(met), first, self.ends.take(group.take(met)) - first)

    @property
    def candidate_matches(self) -> NgramMatches:
        """The rows of candidates with the rows of candidates that have the same n-gram, their own among them."""
        rows = self.candidate_rows
        group = self.group.take(rows)
        return NgramMatches(rows, self.heads.take(group), np.bincount(group).take(group))

    @cached_property
    def reference_max(self) -> Ints32:
        """The highest count of each group in one reference; 0 if the n-gram is in no reference."""
        # References end their group, and few have an n-gram more than once.
        highest: Ints32 = self.reference_row.take(self.ends - 1).astype(np.int32)
        several = np.flatnonzero(self.reference_row & (self.count > 1))
        np.maximum.at(highest, self.group.take(several), self.count.take(several).astype(np.int32))
        return highest

    @cached_property
    def document_frequency(self) -> Ints:
        """The number of items in whose references each n-gram occurs."""
        referenced = self.heads.take(np.flatnonzero(self.reference_max > 0))
        return np.bincount(self.gram.take(referenced), minlength=self.size)

    def compact(self) -> CompactRows:
        """Pack the rows into about three bytes each."""
        rows, first, met = self.matches
        matched = np.zeros(len(self.gram), dtype=np.bool_)
        matched[rows] = True
        bits = np.packbits(mark_changes(self.gram)), np.packbits(matched)
        return CompactRows(self.n, self.size, *bits, *map(narrow, (self.caption, self.count, first - rows, met)))


@dataclass(frozen=True, eq=False)
class CompactRows:
    """N-gram rows packed into about three bytes each, with their matches."""

    n: int
    size: int
    new_gram: npt.NDArray[np.uint8]
    """A bit for each row: whether it begins an n-gram."""
    matched: npt.NDArray[np.uint8]
    """A bit for each row: whether it is a candidate's and a reference has the n-gram."""
    caption: Counts
    count: Counts
    distance: Counts
    """The distance from a matched row to the first row of a reference."""
    met: Counts
    """The number of rows of references that a matched row meets."""

    def rows(self, table: TextTable) -> NgramRows:
        """Unpack the rows; the table is that of their captions."""
        new_gram, matched = (
            np.unpackbits(bits, count=len(self.caption)).view(np.bool_) for bits in (self.new_gram, self.matched)
        )
        caption = self.caption.astype(np.int32)
        rows = NgramRows(self.n, self.size, _number_runs(new_gram), caption, self.count, table.item, table.is_candidate)
        own = np.flatnonzero(matched)
        rows.__dict__["matches"] = NgramMatches(own, own + self.distance, self.met.astype(np.int64))
        return rows

    @property
    def nbytes(self) -> int:
        """Memory of the rows in bytes."""
        parts = (self.new_gram, self.matched, self.caption, self.count, self.distance, self.met)
        return sum(part.nbytes for part in parts)


def narrow(numbers: Counts) -> npt.NDArray[np.unsignedinteger[Any]]:
    """Convert non-negative integers to the smallest unsigned type that fits all of them."""
    return numbers.astype(np.min_scalar_type(int(numbers.max(initial=0))))


@dataclass(frozen=True, eq=False)
class NgramTable(NgramRows):
    """N-gram rows with the token positions at which each n-gram starts."""

    order: Ints32
    """The tokens at which an n-gram starts, sorted by n-gram."""
    tokens: int
    """The number of tokens of all captions."""
    parent: Ints32
    """The (n-1)-gram that each n-gram starts with."""
    last: Ints32
    """The last token of each n-gram."""

    @classmethod
    def of(cls, table: TextTable, n: int) -> NgramTable:
        """Count the n-grams of all captions: each is an (n-1)-gram followed by one more token."""
        shorter = table.ngrams(n - 1) if n > 1 else None
        if shorter is None:
            order = _sort_by_keys(table.tokens, len(table.vocabulary), np.arange(len(table.tokens), dtype=np.int32))
            parents = np.zeros(len(order), dtype=np.int32)
        else:
            # Tokens in the order of the token n-1 positions on, then stably by the (n-1)-gram that starts there.
            order = table.ngrams(1).order.take((table.sorted_positions >= n - 1).nonzero()[0]) - np.int32(n - 1)
            starting = shorter.at
            order = _sort_by_keys(starting, shorter.size, order)
            parents = starting.take(order)
        lasts = table.tokens.take(order + (n - 1))
        caption = table.caption_at.take(order)
        new_gram = mark_changes(parents) | mark_changes(lasts)
        new_row = new_gram | mark_changes(caption)
        rows, firsts = new_row.nonzero()[0], new_gram.nonzero()[0]
        return cls(
            n=n,
            size=len(firsts),
            gram=_number_runs(new_gram.take(rows)),
            caption=caption.take(rows),
            count=_compute_run_lengths(rows, len(order)),
            item=table.item,
            is_candidate=table.is_candidate,
            order=order,
            tokens=len(table.tokens),
            parent=parents.take(firsts),
            last=lasts.take(firsts),
        )

    @property
    def at(self) -> Ints32:
        """The n-gram that starts at each token; -1 if the caption ends too soon."""
        return self._place_at_tokens(self.gram)

    @cached_property
    def group_at(self) -> Ints32:
        """The group of the n-gram that starts at each token; -1 if none does."""
        return self._place_at_tokens(self.group)

    def _place_at_tokens(self, numbers: Ints32) -> Ints32:
        """Return for each token the number of the row whose n-gram starts there; -1 if none does."""
        result = np.full(self.tokens, -1, dtype=np.int32)
        result[self.order] = numbers.repeat(self.count)
        return result


def _sort_by_keys(keys: Ints32, bound: int, order: Ints32) -> Ints32:
    """Sort indices stably by small integer keys, 16 bits at a time, for which NumPy has a radix sort."""
    bits = max(bound - 1, 1).bit_length()
    for shift in range(0, bits, 16):
        digit = (keys.take(order) >> shift).astype(np.uint16 if bits - shift > 8 else np.uint8)
        order = order.take(digit.argsort(kind="stable"))
    return order


def _number_runs(new: Bools) -> Ints32:
    """Return the run number of each position; ``new`` marks the positions at which runs begin."""
    number: Ints32 = new.cumsum(dtype=np.int32)
    number -= np.int32(1)
    return number


def _compute_run_lengths(starts: Ints, end: int) -> Ints32:
    """Compute the lengths of runs that begin at ``starts``; the last run ends at ``end``."""
    lengths = np.empty(len(starts), dtype=np.int32)
    np.subtract(starts[1:], starts[:-1], out=lengths[:-1], casting="same_kind")
    lengths[-1:] = end - starts[-1:]
    return lengths


def mark_changes(values: npt.NDArray[Any]) -> Bools:
    """Mark the values that differ from the one before; the first is always marked."""
    changed = np.empty(len(values), dtype=np.bool_)
    changed[:1] = True
    np.not_equal(values[1:], values[:-1], out=changed[1:])
    return changed


def make_table_key(tokenizer: str) -> tuple[str, str]:
    """Return the key under which a set stores its table of a tokenizer, see `Memo.once`."""
    return "tokens", tokenizer


@dataclass(frozen=True, eq=False)
class TextTable(Memo):
    """All captions of a set as token ids."""

    tokenizer: Tokenizer
    vocabulary: list[str]
    tokens: Ints32
    starts: Ints
    """Caption ``c`` is ``tokens[starts[c]:starts[c + 1]]``."""
    item: Ints32
    """The item each caption belongs to."""
    is_candidate: Bools
    items: int
    base: TextTable | None = None
    """A table whose vocabulary this one begins with."""

    @classmethod
    def of(cls, captions: CaptionSet, tokenizer: str | Tokenizer = AUTO) -> TextTable:
        """Return the token table of a set, built once per tokenizer and shared by all metrics."""
        tokenizer = name_tokenizer(tokenizer) if isinstance(tokenizer, Tokenizer) else tokenizer
        name = choose_tokenizer(tokenizer, captions.language, captions.tokenizer)
        return captions.once(make_table_key(name), lambda: cls._build(captions, find_tokenizer(name)))

    @classmethod
    def _build(cls, captions: CaptionSet, tool: Tokenizer) -> TextTable:
        candidates, references = captions.candidates, captions.references
        texts, number = candidates.distinct
        vocabulary, tokens, lengths = tokenize((*texts, *references.values), tool)
        text = np.concatenate([number, np.arange(len(texts), len(lengths))])
        item = np.concatenate([candidates.owners, references.owners]).astype(np.int32)
        return cls._group_by_item(tool, vocabulary, tokens, lengths, text, item, len(candidates.values), len(captions))

    @classmethod
    def _group_by_item(
        cls,
        tool: Tokenizer,
        vocabulary: list[str],
        tokens: Ints32,
        lengths: Ints,
        text: Ints,
        item: Ints32,
        candidates: int,
        items: int,
        base: TextTable | None = None,
    ) -> TextTable:
        """Build a table from captions in the order candidates, references; the table's captions are grouped by item.

        ``lengths`` has the tokens of each text, and ``text`` the number of each caption's text.
        """
        order = np.argsort(item, kind="stable")
        starts, text = np.cumsum(lengths) - lengths, text.take(order)
        lengths = lengths.take(text)
        return cls(
            tokenizer=tool,
            vocabulary=vocabulary,
            tokens=take_runs(tokens, starts.take(text), lengths),
            starts=np.concatenate(([0], np.cumsum(lengths))),
            item=item[order],
            is_candidate=order < candidates,
            items=items,
            base=base,
        )

    def with_candidates(self, candidates: Ragged, items: Ints) -> TextTable:
        """Build a table of new candidates with references of this table, which are not tokenized again.

        Item ``i`` of the new table has ``candidates[i]`` and the references of item ``items[i]`` of this table, whose
        items must have no candidates.

        >>> from captious.captions import CaptionSet
        >>> references = TextTable.of(CaptionSet.of({"1": (), "2": ()}, {"1": ["a dog"], "2": ["a cat", "cats"]}))
        >>> table = references.with_candidates(Ragged.of([["a bird", "birds"]]), np.array([1]))
        >>> [" ".join(table.words(caption)) for caption in range(len(table.lengths))]
        ['a bird', 'birds', 'a cat', 'cats']
        """
        new, tokens, lengths = self._known_words.tokenize(candidates.values)
        first = self.first_caption[items]
        counts = self.first_caption[items + 1] - first
        references = run_indices(first, counts)
        reference_lengths = self.lengths[references]
        reference_tokens = take_runs(self.tokens, self.starts[references], reference_lengths)
        return self._group_by_item(
            self.tokenizer,
            self.vocabulary + new if new else self.vocabulary,
            np.concatenate([tokens, reference_tokens]),
            np.concatenate([lengths, reference_lengths]),
            np.arange(len(lengths) + len(references)),
            np.concatenate([candidates.owners, np.repeat(np.arange(len(items)), counts)]).astype(np.int32),
            len(candidates.values),
            len(items),
            self,
        )

    @cached_property
    def _known_words(self) -> _KnownWords:
        return _KnownWords(self.tokenizer, self.vocabulary)

    @cached_property
    def lengths(self) -> Ints:
        """Tokens per caption."""
        return self.starts[1:] - self.starts[:-1]

    @cached_property
    def caption_at(self) -> Ints32:
        """The caption each token belongs to."""
        return np.repeat(np.arange(len(self.lengths), dtype=np.int32), self.lengths)

    @cached_property
    def sorted_positions(self) -> Ints32:
        """The position of each token in its caption, in the order of the unigrams."""
        positions = np.arange(len(self.tokens), dtype=np.int32)
        positions -= np.repeat(self.starts[:-1].astype(np.int32), self.lengths)
        return positions.take(self.ngrams(1).order)

    @cached_property
    def candidates(self) -> Ints:
        """The numbers of the candidate captions."""
        return np.flatnonzero(self.is_candidate)

    @cached_property
    def first_caption(self) -> Ints:
        """Item ``i`` has the captions ``first_caption[i]`` up to ``first_caption[i + 1]``."""
        return np.searchsorted(self.item, np.arange(self.items + 1))

    @cached_property
    def rank(self) -> Ints:
        """The index of each candidate caption among those of its item: 0 for the first; -1 for references."""
        numbers = np.arange(len(self.item)) - self.first_caption[self.item]
        return np.where(self.is_candidate, numbers, -1)

    @cached_property
    def pairs(self) -> CaptionPairs:
        """Every candidate with every reference of its item."""
        candidates = np.bincount(self.item[self.candidates], minlength=self.items)
        return self._pairs(self.first_caption[:-1] + candidates, self.first_caption[1:])

    @cached_property
    def candidate_pairs(self) -> CaptionPairs:
        """Every candidate with every candidate of its item, itself among them."""
        candidates = np.bincount(self.item[self.candidates], minlength=self.items)
        return self._pairs(self.first_caption[:-1], self.first_caption[:-1] + candidates)

    def _pairs(self, first: Ints, end: Ints) -> CaptionPairs:
        """Every candidate with the captions from the first of its item up to the end."""
        item = self.item[self.candidates]
        first, counts = first.take(item), (end - first).take(item)
        shift = np.zeros(len(self.item), dtype=np.int64)
        shift[self.candidates] = np.cumsum(counts) - counts - first
        return CaptionPairs(np.repeat(self.candidates, counts), run_indices(first, counts), shift)

    def sum_per_item(self, rows: Floats) -> Floats:
        """Sum rows of candidates into rows of items."""
        item = self.item[self.candidates]
        if len(item) == self.items and (item == np.arange(self.items)).all():
            return rows
        return np.stack([np.bincount(item, weights=column, minlength=self.items) for column in rows.T], axis=1)

    def mean_rows(self, values: Floats) -> Floats:
        """Return (sum, number) of the candidates' values for each item: the statistics of a mean."""
        return self.sum_per_item(np.stack([values, np.ones(len(values))], axis=1))

    def words(self, caption: int) -> list[str]:
        """Return the tokens of a caption as text."""
        return [self.vocabulary[token] for token in self.tokens[self.starts[caption] : self.starts[caption + 1]]]

    @cached_property
    def references(self) -> Ints:
        """The numbers of the references."""
        return np.flatnonzero(~self.is_candidate)

    def counts(self, n: int) -> list[dict[int, int]]:
        """Count the n-grams of each caption, as dictionaries; meant for a few captions."""
        grams = self.ngrams(n)
        counts: list[dict[int, int]] = [{} for _ in self.lengths]
        for caption, gram, count in zip(grams.caption.tolist(), grams.gram.tolist(), grams.count.tolist(), strict=True):
            counts[caption][gram] = count
        return counts

    def ngram(self, n: int, gram: int) -> str:
        """Return an n-gram of the table as text."""
        words = []
        for order in range(n, 0, -1):
            grams = self.ngrams(order)
            words.append(self.vocabulary[grams.last[gram]])
            gram = int(grams.parent[gram])
        return " ".join(reversed(words))

    @cached_property
    def word_keys(self) -> Keys:
        """A 64-bit hash of each word of the vocabulary."""
        if self.base is None:
            return hash_words(self.vocabulary)
        new = self.vocabulary[len(self.base.vocabulary) :]
        return np.concatenate([self.base.word_keys, hash_words(new)]) if new else self.base.word_keys

    def hash_ngrams(self, n: int) -> Keys:
        """Hash each n-gram to 64 bits, equal in every table."""
        if n == 0:
            return np.zeros(1, dtype=np.uint64)
        grams = self.ngrams(n)
        return self.once(
            ("keys", n), lambda: mix(self.hash_ngrams(n - 1).take(grams.parent), self.word_keys.take(grams.last))
        )

    def hash_captions(self, captions: Ints) -> Keys:
        """Hash the words of each of these captions to 64 bits, equal in every table."""
        keys = np.zeros(len(captions), dtype=np.uint64)
        lengths, starts = self.lengths[captions], self.starts[captions]
        for position in range(int(lengths.max(initial=0))):
            longer = np.flatnonzero(lengths > position)
            words = self.word_keys.take(self.tokens.take(starts.take(longer) + position))
            keys[longer] = mix(keys.take(longer), words)
        return keys

    def find_shared_runs(self, caption: int, highest: int = 4) -> list[int]:
        """Return for each word of a candidate the number of the run, shared with a reference, that contains it; 0 if
        none does.

        A word counts at most as often as in the reference that has it most often. If ``highest`` is 2 or more, two
        neighbors are in one run if they are neighbors in a reference.

        >>> from captious.captions import CaptionSet
        >>> table = TextTable.of(CaptionSet.of({"1": "a red dog a cat"}, {"1": ["the red dog", "a cat"]}))
        >>> table.find_shared_runs(0)
        [0, 1, 1, 2, 2]
        """
        first, end = self.starts[caption : caption + 2].tolist()
        words, pairs = self.ngrams(1), self.ngrams(2)
        joined = [highest > 1 and pairs.reference_max[pairs.group_at[token]] > 0 for token in range(first, end - 1)]
        positions: dict[int, list[int]] = {}
        for position, group in enumerate(words.group_at[first:end].tolist()):
            positions.setdefault(group, []).append(position)
        shared = set()
        for group, own in positions.items():
            # Of a word that counts fewer times than it occurs, those beside a neighbor that the reference has too.
            own.sort(key=lambda position: not any(joined[max(position - 1, 0) : position + 1]))
            shared |= set(own[: int(words.reference_max[group])])
        runs: list[int] = []
        number = 0
        for position in range(end - first):
            number += position in shared and not (position and runs[-1] and joined[position - 1])
            runs.append(number if position in shared else 0)
        return runs

    def get_ngram_rows(self, n: int) -> NgramRows:
        """Return the n-gram counts of all captions, without token positions."""
        compact = self.compact_rows[n - 1 : n]
        return compact[0].rows(self) if compact else self.ngrams(n)

    @property
    def order_blocks(self) -> list[tuple[int, ...]]:
        """The orders of n-grams that are processed together: all at once in a small table, otherwise one at a time."""
        orders = range(1, ORDERS + 1)
        return [tuple(orders)] if len(self.tokens) <= SMALL else [(n,) for n in orders]

    def join_orders(self, orders: Sequence[int]) -> NgramRows:
        """Concatenate the n-gram rows of several orders; the k-th order's captions are numbered from k times their
        number on.
        """
        if len(orders) == 1:
            return self.get_ngram_rows(orders[0])
        parts, captions = [self.get_ngram_rows(n) for n in orders], len(self.lengths)
        before = np.cumsum([0, *(part.size for part in parts)], dtype=np.int32)
        return NgramRows(
            n=orders[-1],
            size=int(before[-1]),
            gram=np.concatenate([part.gram + first for part, first in zip(parts, before[:-1], strict=True)]),
            caption=np.concatenate([part.caption + np.int32(k * captions) for k, part in enumerate(parts)]),
            count=np.concatenate([part.count for part in parts]),
            item=np.concatenate([self.item] * len(orders)),
            is_candidate=np.concatenate([self.is_candidate] * len(orders)),
        )

    @property
    def compact_rows(self) -> tuple[CompactRows, ...]:
        """The n-gram counts of orders 1 to 4 that `compact` has stored; empty in other tables."""
        return self.known("rows") or ()

    def compact(self) -> TextTable:
        """Copy the table with the n-gram counts of orders 1 to 4 only, in a fifth of their memory."""
        table = replace(self)
        table.keep("rows", tuple(self.ngrams(n).compact() for n in range(1, ORDERS + 1)))
        return table

    def ngrams(self, n: int) -> NgramTable:
        """Return the n-gram counts of all captions, computed once and shared by all metrics."""
        for order in range(1, n):
            self.once(("ngrams", order), partial(NgramTable.of, self, order))
        return self.once(("ngrams", n), lambda: NgramTable.of(self, n))


def tokenize(texts: Sequence[str], tool: Tokenizer) -> tuple[list[str], Ints32, Ints]:
    """Tokenize texts; return the sorted vocabulary, flat token ids, and the number of tokens of each text.

    Texts are split at spaces; a distinct chunk is tokenized once if that is safe, a text with an unsafe chunk as a
    whole. A tokenizer that does not split (``cuts``) gets every distinct text once. The vocabulary is sorted, so that
    sums over the n-grams of a caption have an order that does not depend on the other captions, and neither does the
    last digit of its value.

    >>> from captious.text.tokenizers import TOKENIZERS
    >>> vocabulary, tokens, lengths = tokenize(["a dog", "the dog"], TOKENIZERS["ptb"])
    >>> vocabulary, tokens.tolist(), lengths.tolist()
    (['a', 'dog', 'the'], [0, 1, 2, 1], [2, 2])
    """
    if not texts:
        return [], np.zeros(0, dtype=np.int32), np.zeros(0, dtype=np.int64)
    chunks, chunk, bounds = _split_chunks(texts) if tool.cuts else _number_texts(texts)
    plain = list(map(tool.plain_word, chunks))
    rest = [number for number, word in enumerate(plain) if word is None]
    unsafe = np.zeros(len(chunks), dtype=np.bool_)
    unsafe[rest] = [tool.is_local is not None and not tool.is_local(chunks[number]) for number in rest]
    for text in sorted(set((np.searchsorted(bounds, np.flatnonzero(unsafe.take(chunk)), side="right") - 1).tolist())):
        chunk[bounds[text] : bounds[text + 1]] = 0
        chunk[bounds[text]] = len(chunks)
        rest.append(len(chunks))
        chunks.append(texts[text])
    words = [word for word in plain if word is not None]
    start = np.zeros(len(chunks), dtype=np.int64)
    size = np.ones(len(chunks), dtype=np.int64)
    size[rest] = 0
    start[size > 0] = np.arange(len(words))
    for number in rest:
        if number >= len(unsafe) or not unsafe[number]:
            start[number] = len(words)
            words += _tokenize_text(tool, chunks[number])
            size[number] = len(words) - start[number]
    vocabulary: defaultdict[str, int] = defaultdict(itertools.count().__next__)
    flat = np.fromiter(map(vocabulary.__getitem__, words), dtype=np.int32, count=len(words))
    alphabetical = sorted(vocabulary)
    rank = np.empty(len(alphabetical), dtype=np.int32)
    rank[[vocabulary[word] for word in alphabetical]] = np.arange(len(alphabetical))
    flat = rank.take(flat)
    return alphabetical, *_join_chunk_tokens(flat, start, size, chunk, bounds)


def _join_chunk_tokens(flat: Ints32, start: Ints, size: Ints, chunk: Ints32, bounds: Ints) -> tuple[Ints32, Ints]:
    """Return flat token ids and tokens per text, from the tokens of each distinct chunk and the chunks of each text."""
    index = chunk.astype(np.intp)
    sizes = size.astype(np.int32).take(index)
    ends = np.cumsum(sizes, dtype=np.int64)
    places = ends - sizes
    tokens = np.empty(int(ends[-1]) + 1, dtype=np.int32)
    # A chunk without a token writes where the next one does, which overwrites it.
    tokens[places] = np.append(flat, np.int32(0)).take(start).take(index)
    several = np.flatnonzero(sizes > 1)
    if len(several):
        lengths = sizes.take(several).astype(np.int64)
        tokens[run_indices(places.take(several), lengths)] = take_runs(flat, start.take(index.take(several)), lengths)
    return tokens[:-1], np.add.reduceat(sizes, bounds[:-1], dtype=np.int64)


def count_words(texts: Sequence[str], language: str = "") -> list[int]:
    """Count the words of each text, split at spaces, or by the tokenizer of a language without spaces.

    >>> count_words(["a dog's ball ."]), count_words(["一只狗。"], "zh")
    ([4], [3])
    """
    name = choose_tokenizer(AUTO, language)
    if name in SPACED_TOKENIZERS:
        return [len(text.split()) for text in texts]
    lengths: list[int] = tokenize(texts, find_tokenizer(name))[2].tolist()
    return lengths


_END = "\x1e"
# Texts cut at a time: their chunks stay in the processor's cache until they are numbered.
_TEXTS = 512


# Texts after which a process cuts by Arrow: this number takes as long without it as importing it.
_WORTH_ARROW = 100_000
_cut_before = Counter[str]()


def _split_chunks(texts: Sequence[str]) -> tuple[list[str], Ints32, Ints]:
    """Return the distinct space-delimited chunks of all texts, the chunk at each position, and the first position of
    each text.

    Chunk 0 is empty, without tokens. Every text has at least one chunk, which may be empty.
    """
    _cut_before["texts"] += len(texts)
    if _cut_before["texts"] >= _WORTH_ARROW:
        with contextlib.suppress(UnicodeEncodeError):  # half a character
            return _split_chunks_by_arrow(texts)
    numbering: defaultdict[str, int] = defaultdict(itertools.count(1).__next__, {_END: 0})
    chunk, bounds = _number_chunks(texts, numbering)
    return ["", *list(numbering)[1:]], chunk, bounds


def _split_chunks_by_arrow(texts: Sequence[str]) -> tuple[list[str], Ints32, Ints]:
    """Return the same as `_split_chunks`, by Arrow, in 0.3 of the time: only distinct chunks become Python strings.

    A chunk at the end of its text and the same chunk before a space get two numbers. Arrow's own conversions of lists
    and arrays import pandas if it is installed, which takes longer than Arrow saves, so only buffers are passed.
    """
    import pyarrow as pa

    encoded = list(map(str.encode, texts))
    content = b"".join(encoded)
    offsets = np.concatenate(([0], np.cumsum(np.fromiter(map(len, encoded), np.int64, count=len(encoded)))))
    spaces = np.flatnonzero(np.frombuffer(content, dtype=np.uint8) == ord(" "))
    bounds = np.arange(len(texts) + 1) + np.searchsorted(spaces, offsets)
    begins = np.sort(np.concatenate((spaces + 1, offsets)), kind="stable")  # which merges two sorted runs
    buffers = [None, pa.py_buffer(begins), pa.py_buffer(content)]
    cut = pa.Array.from_buffers(pa.large_string(), len(begins) - 1, buffers).dictionary_encode()
    chunks = [chunk.removesuffix(" ") for chunk in cut.dictionary.to_pylist()]
    if _END in "".join(chunks):
        return _split_chunks_by_arrow([text.replace(_END, " ") for text in texts])
    numbers: Ints32 = np.frombuffer(cut.indices.buffers()[1], dtype=np.int32, count=len(cut)) + np.int32(1)
    return ["", *chunks], numbers, bounds


def _number_chunks(texts: Sequence[str], numbering: Mapping[str, int]) -> tuple[Ints32, Ints]:
    """Return the number of the chunk at each position, and the first position of each text."""
    parts = []
    for first in range(0, len(texts), _TEXTS):
        block = texts[first : first + _TEXTS]
        joined = f" {_END} ".join(block)
        if joined.count(_END) != len(block) - 1:
            joined = f" {_END} ".join(text.replace(_END, " ") for text in block)
        pieces = joined.split(" ")
        pieces.append(_END)
        parts.append(np.fromiter(map(numbering.__getitem__, pieces), dtype=np.int32, count=len(pieces)))
    chunk = np.concatenate(parts)
    ends = np.flatnonzero(chunk == 0)
    bounds = np.concatenate(([0], ends - np.arange(len(ends))))
    return chunk.take(np.flatnonzero(chunk)), bounds


class _KnownWords(dict[str, int]):
    """A mapping from a chunk to 1 + the index of its only token; -1 if it has another number of tokens or a new one."""

    def __init__(self, tool: Tokenizer, vocabulary: list[str]) -> None:
        # The number of what is between two spaces; it has no token.
        self.nothing = len(vocabulary) + 1
        super().__init__({_END: 0, "": self.nothing})
        self.tool = tool
        self.index = {word: index for index, word in enumerate(vocabulary)}
        plain = ((word, index + 1) for word, index in self.index.items() if tool.plain_word(word) == word)
        self.update(itertools.islice(plain, _REMEMBERED - len(self)))

    def __missing__(self, chunk: str) -> int:
        word = self.tool.plain_word(chunk)
        local = self.tool.is_local is None or self.tool.is_local(chunk)
        words = (word,) if word is not None else _tokenize_text(self.tool, chunk) if local else ()
        number = self.index.get(words[0], -2) + 1 if len(words) == 1 else -1
        if len(self) < _REMEMBERED:
            self[chunk] = number
        return number

    def tokenize(self, texts: Sequence[str]) -> tuple[list[str], Ints32, Ints]:
        """Tokenize texts; return new words, which extend the vocabulary, flat token ids, and tokens per text.

        Texts of plain known words, the common case, need one dictionary lookup for each word.
        """
        if not texts or not self.tool.cuts:
            chunk, bounds, odd = np.zeros(0, dtype=np.int32), np.zeros(len(texts) + 1, np.int64), np.arange(len(texts))
        else:
            chunk, bounds = _number_chunks(texts, self)
            nothing = np.flatnonzero(chunk == self.nothing)
            if len(nothing):
                chunk, bounds = np.delete(chunk, nothing), bounds - np.searchsorted(nothing, bounds)
            if chunk.min(initial=0) >= 0:
                return [], chunk - np.int32(1), bounds[1:] - bounds[:-1]
            unknown = np.searchsorted(bounds, np.flatnonzero(chunk < 0), side="right") - 1
            odd = np.flatnonzero(np.bincount(unknown, minlength=len(texts)))
        words, tokens, sizes = tokenize([texts[index] for index in odd.tolist()], self.tool)
        numbers = np.fromiter(map(self.index.get, words, itertools.repeat(-1)), np.int32, len(words))
        new = np.flatnonzero(numbers < 0)
        numbers[new] = len(self.index) + np.arange(len(new))
        starts, lengths = bounds[:-1].copy(), np.diff(bounds)
        starts[odd], lengths[odd] = len(chunk) + np.cumsum(sizes) - sizes, sizes
        every = np.concatenate([chunk - np.int32(1), numbers.take(tokens)])
        return [words[index] for index in new.tolist()], take_runs(every, starts, lengths), lengths


def _number_texts(texts: Sequence[str]) -> tuple[list[str], Ints32, Ints]:
    """Return the same as `_split_chunks`, with every distinct text as one chunk."""
    numbering: defaultdict[str, int] = defaultdict(itertools.count(1).__next__)
    chunk = np.fromiter(map(numbering.__getitem__, texts), dtype=np.int32, count=len(texts))
    return ["", *numbering], chunk, np.arange(len(texts) + 1)


def take_runs(values: npt.NDArray[Any], starts: Ints, lengths: Ints) -> npt.NDArray[Any]:
    """Concatenate runs of an array.

    >>> take_runs(np.array([5, 6, 7, 8]), np.array([2, 0]), np.array([2, 1])).tolist()
    [7, 8, 5]
    """
    if len(lengths) and lengths.min() == 1 and lengths.max() == 1:
        return values[starts]
    return values.take(run_indices(starts, lengths))


def run_indices(starts: npt.NDArray[np.integer[Any]], lengths: npt.NDArray[np.integer[Any]]) -> Ints:
    """Return the indices of runs, one run after the other.

    >>> run_indices(np.array([2, 0]), np.array([2, 1])).tolist()
    [2, 3, 0]
    """
    indices: Ints = (starts - lengths.cumsum() + lengths).repeat(lengths)
    indices += np.arange(len(indices))
    return indices


@lru_cache(maxsize=1 << 16)
def _tokenize_text(tool: Tokenizer, text: str) -> tuple[str, ...]:
    """Tokenize a text; cached, because the same texts recur in every part of a large set."""
    try:
        tokens = tool.tokenize(text)
        if isinstance(tokens, str):
            raise TypeError("gave one text, expected a list of tokens")
        tokens = list(tokens)
        joined = " ".join(tokens)
    except InputError:
        raise
    except Exception as error:
        what = f"tokenizer {tool.name!r} on {text[:60]!r}"
        raise InputError(f"{what}: {type(error).__name__}: {format_one_line(error)}") from error
    # coco-caption joins tokens with spaces and splits again on any whitespace, which cuts "1\u00a01/2" in two.
    return tuple(joined.split() if " " in text or "\xa0" in text else tokens)
