"""Document frequencies of n-grams: of the references at hand, of merged shards, or of a corpus in a file.

There is one representation, sorted hashes with their counts (`captious.text.counts`): shards merge without a common
vocabulary, and files are memory-mapped. The frequencies of the references at hand stay a trie (`NgramTrie`) until
hashes are needed; the chunks of one set are merged as tries, without hashing.
"""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache, reduce
from itertools import accumulate
from pathlib import Path
from typing import Any, ClassVar, NamedTuple
from weakref import ref

import numpy as np
import numpy.typing as npt

from captious._core.files import get_data_folder, read_regular
from captious._core.hashing import hash_text
from captious._core.languages import AUTO, ENGLISH, find_language
from captious._core.types import Ints, Ints32
from captious.captions import CaptionSet
from captious.errors import InputError, format_suggestion
from captious.text.counts import (
    COUNT,
    CountsKind,
    CountsState,
    KeyCounts,
    Keys,
    LazyCounts,
    Once,
    hash_words,
    mix,
    sort_by_first_bits,
)
from captious.text.ngram_tables import ORDERS, TextTable, mark_changes, narrow
from captious.text.tokenizers import find_tokenizer

# Largest plausible number of items, to detect damaged pickles.
MOST_ITEMS = 10**12


KIND = CountsKind("captious-idf", 3, "idf corpus", "captious make idf")
SUFFIX = ".idf"


@dataclass(frozen=True, eq=False)
class DocumentFrequency(CountsState):
    """The number of items in whose references each n-gram of orders 1 to 4 occurs."""

    items: int
    tokenizer: str
    fingerprint: int
    """A fingerprint of the counted items, independent of their order."""
    name: str = "refs"
    complete: bool = False
    """Whether it was read from a file, so that every shard has the whole corpus already."""
    language: str = ""
    """The code of the captions' language; empty means English."""

    kind: ClassVar[CountsKind] = KIND

    @classmethod
    def of(cls, captions: CaptionSet, tokenizer: str = AUTO, name: str = "refs") -> DocumentFrequency:
        """Count the references of a set.

        >>> captions = CaptionSet.of({"1": "a dog", "2": ""}, {"1": ["a dog"], "2": ["a cat", "a cat"]})
        >>> corpus = DocumentFrequency.of(captions)
        >>> table = TextTable.of(captions)
        >>> dict(zip(table.vocabulary, corpus.frequencies(table, 1).tolist()))
        {'a': 2, 'cat': 1, 'dog': 1}
        """
        table = TextTable.of(captions, tokenizer)
        corpus = cls(
            counts=TrieCounts(lambda: NgramTrie.of(table)),
            items=int((captions.references.counts > 0).sum()),
            tokenizer=str(table.tokenizer),
            fingerprint=captions.fingerprint,
            name=name,
            language=captions.language,
        )
        # A weak reference, because the counts refer to the table: a cycle would keep both until garbage collection.
        table.keep(ref(corpus), [table.ngrams(n).document_frequency for n in range(1, ORDERS + 1)])
        return corpus

    def __str__(self) -> str:
        return f"{self.name}:{self.items}:{f'{self.fingerprint:016x}'[:8]}"

    def check_tokenizer(self, name: str, language: str = "") -> DocumentFrequency:
        """Return self; raise InputError if the corpus is in another language or was tokenized differently."""
        own_language, caption_language = (find_language(code or ENGLISH).name for code in (self.language, language))
        if own_language != caption_language:
            raise InputError(
                f"idf corpus {self.name!r} is of captions in {own_language}, these in {caption_language}; pass "
                "language=... where it is made and where it is used"
            )
        version = str(find_tokenizer(name))
        if version != self.tokenizer:
            raise InputError(
                f"idf corpus {self.name!r} has tokens of {self.tokenizer}, the metric uses those of {version}; write "
                f"cider(idf=…,tokenizer={self.tokenizer.partition('.')[0]}), or make the corpus with that tokenizer"
            )
        return self

    def frequencies(self, table: TextTable, n: int) -> Ints:
        """Return the document frequency of each n-gram of a table, 0 for one that the corpus does not contain.

        All orders are looked up at once, and kept by the table.
        """
        by_order = table.once(ref(self), lambda: _split_by_order(table, self.counts.lookup(_hash_ngrams(table))))
        return by_order[n - 1].astype(np.int64, copy=False)

    def merge(self, other: DocumentFrequency) -> DocumentFrequency:
        """Add up the frequencies of two disjoint shards; merging a complete corpus with itself returns it."""
        if self.complete and other.complete and self.fingerprint == other.fingerprint:
            return self
        if self.complete or other.complete:
            raise InputError(f"cannot merge the idf corpora {self} and {other}: one of them is complete already")
        if self.tokenizer != other.tokenizer:
            raise InputError(f"cannot merge idf corpora tokenized by {self.tokenizer} and {other.tokenizer}")
        if self.language != other.language:
            raise InputError(f"cannot merge idf corpora in the languages {self.language!r} and {other.language!r}")
        return replace(
            self,
            counts=KeyCounts.sum([self.counts, other.counts]),
            items=self.items + other.items,
            fingerprint=(self.fingerprint + other.fingerprint) % 2**64,
        )

    @classmethod
    def merge_all(cls, states: Sequence[DocumentFrequency], tables: Sequence[TextTable] = ()) -> DocumentFrequency:
        """Add up the frequencies of all parts and store in each table those of its own n-grams, so that scoring needs
        no lookup.
        """
        # Only tries of all parts can be merged without hashing.
        tries = [state.counts.trie for state in states if tables and isinstance(state.counts, TrieCounts)]
        if len(tries) < len(states):
            return super().merge_all(states)
        facts = reduce(DocumentFrequency.merge, (replace(state, counts=KeyCounts()) for state in states))
        corpus = replace(facts, counts=LazyCounts(lambda: KeyCounts.sum([trie.to_key_counts() for trie in tries])))
        for table, frequencies in zip(tables, sum_counts(tries), strict=True):
            table.keep(ref(corpus), frequencies)
        return corpus


def _hash_ngrams(table: TextTable) -> Keys:
    """Hash the n-grams of a table, order by order."""
    return np.concatenate([table.hash_ngrams(n) for n in range(1, ORDERS + 1)])


def _split_by_order(table: TextTable, counts: npt.NDArray[Any]) -> list[npt.NDArray[Any]]:
    """Split counts of all n-grams, in the order of `_hash_ngrams`, into one array for each order."""
    sizes = [rows.size for rows in table.compact_rows or map(table.ngrams, range(1, ORDERS + 1))]
    return [counts[end - size : end] for size, end in zip(sizes, accumulate(sizes), strict=True)]


def load(path: str | Path) -> DocumentFrequency:
    """Open a corpus that `DocumentFrequency.save` wrote, memory-mapped; raise InputError if the file is damaged or of
    another format.
    """
    return replace(DocumentFrequency.load(path), complete=True)


def get_named_path(name: str) -> Path:
    """Return the path of a named corpus of this user."""
    return get_data_folder() / "idf" / f"{name}{SUFFIX}"


def list_names() -> list[str]:
    """List the names of this user's corpora."""
    return sorted(path.stem for path in (get_data_folder() / "idf").glob(f"*{SUFFIX}"))


def find(where: str) -> DocumentFrequency:
    """Open a corpus by path or by name; raise InputError if there is neither."""
    path = Path(where)
    if not path.is_file():
        path = get_named_path(where)
    if not path.is_file():
        names = list_names()
        known_names = f"named corpora: {', '.join(names)}" if names else "no corpus is named yet"
        raise InputError(
            f"no idf corpus {where!r}: neither a file nor a name ({known_names}{format_suggestion(where, names)}); "
            f"make one with: captious make idf captions.jsonl --name {path.stem}"
        )
    return _open(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _open(path: Path, changed: int) -> DocumentFrequency:
    """Open a corpus; ``changed``, the time of its last change, makes the cache open a changed file again."""
    return load(path)


def from_pickle(
    path: str | Path, name: str, items: int | None = None, tokenizer: str | None = None, language: str = ""
) -> DocumentFrequency:
    """Read a corpus from CIDEr's reference code, a pickled ``{ref_len, document_frequency}``, without running its code.

    ``tokenizer`` names the tokenizer of the table. Without it they are those of ``ptb``, but ``whitespace`` if some of
    them cannot come from ``ptb``, such as ``UNK`` and ``<eos>`` in the tables of self-critical training.
    """
    try:
        content = _Restricted(io.BytesIO(read_regular(path)), encoding="latin1").load()
        # Older files contain only the table and leave the number of items to the code that reads them.
        counts: Mapping[tuple[str, ...], float] = content.get("document_frequency", content)
        if items is None and "ref_len" not in content:
            raise KeyError("ref_len")
        number = items if items is not None else round(float(content["ref_len"]))
        _refuse_impossible(counts, number)
        return replace(_build_from_counts(counts, number, name, tokenizer), language=language)
    except InputError as error:
        raise InputError(f"{path}: {error}") from None
    except Exception as error:  # a damaged pickle raises whatever its opcodes run into
        wanted = "with ref_len and document_frequency, or a bare table and items=..."
        raise InputError(f"{path}: not a pickled idf table {wanted} ({error})") from None


def _refuse_impossible(counts: Mapping[tuple[str, ...], float], items: int) -> None:
    """Raise InputError for a table that no corpus can have: each n-gram must occur in 1 to ``items`` items."""
    if not 1 <= items <= MOST_ITEMS:
        raise InputError(f"an idf table of {items:,} items, expected from 1 to {MOST_ITEMS:,}")
    for gram, count in counts.items():
        if not isinstance(gram, tuple) or not gram or not all(isinstance(word, str) for word in gram):
            raise InputError(f"an idf table with {str(gram)[:40]!r}, expected n-grams as tuples of words")
        if isinstance(count, bool) or not isinstance(count, (int, float)) or not 1 <= count <= items:
            words = " ".join(gram)[:40]
            raise InputError(
                f"an idf table in which {words!r} is in {count} of {items:,} items, expected from 1 to all"
            )


def _build_from_counts(
    counts: Mapping[tuple[str, ...], float], items: int, name: str, tokenizer: str | None = None
) -> DocumentFrequency:
    """Build a corpus from n-grams as tuples of words.

    >>> corpus = _build_from_counts({("a",): 2, ("dog",): 1, ("a", "dog"): 1}, items=2, name="tiny")
    >>> corpus.frequencies(TextTable.of(CaptionSet.of({"1": "a dog"})), 2).tolist()
    [1]
    """
    keys, frequencies = [], []
    for n in range(1, ORDERS + 1):
        grams = [gram for gram in counts if len(gram) == n]
        words = hash_words(word for gram in grams for word in gram).reshape(-1, n)
        keys.append(reduce(mix, words.T, np.zeros(len(grams), dtype=np.uint64)))
        frequencies.append(np.array([int(counts[gram]) for gram in grams], dtype=np.int64))
    mark = hash_text(repr(sorted(counts.items())))
    if tokenizer is None:
        foreign = any(word != word.lower() or word[:1] == "<" for gram in counts if len(gram) == 1 for word in gram)
        tokenizer = "whitespace" if foreign else "ptb"
    sums = KeyCounts.of(np.concatenate(keys), np.concatenate(frequencies))
    return DocumentFrequency(sums, items, str(find_tokenizer(tokenizer)), mark, name)


class _Restricted(pickle.Unpickler):
    """An unpickler of dictionaries, tuples, strings and numbers that refuses everything that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"defaultdict": defaultdict, "dict": dict, "float": float, "int": int}
        if module in ("collections", "builtins", "__builtin__") and name in allowed:
            return allowed[name]
        raise pickle.UnpicklingError(f"it would load {module}.{name}")


Counts = npt.NDArray[np.unsignedinteger[Any]]
# N-grams with their counts as a trie: compact for each chunk of a set, and merged over all chunks without hashing.
#
# Level n of a trie has a node for each n-gram of order n; its parent is the n-gram without the last word. The trie of
# the captions "a dog runs" and "the dog", with the vocabulary a, dog, runs, the (0 to 3):
#
#     root ─┬─ a ──── dog ── runs        level   children of the level above   last token of each node
#           ├─ dog ── runs               1       [4]                           [0, 1, 2, 3]  a, dog, runs, the
#           ├─ runs                      2       [1, 1, 0, 1]                  [1, 2, 1]     a dog, dog runs, the dog
#           └─ the ── dog                3       [1, 0, 0]                     [2]           a dog runs
#
# Vocabularies are sorted, and so are the children of a node. Therefore the n-grams of every trie are in the same order,
# and tries are merged level by level with sorted integers and sequential memory access.

# Nodes that are numbered at a time: few enough to stay in the processor's cache.
RANGE = 1 << 18


class Level(NamedTuple):
    """The n-grams of one order; those with the same parent are contiguous."""

    children: Counts
    """The number of children of each node of the level above."""
    last: Counts
    """The last token of each n-gram."""
    counts: Counts


@dataclass(frozen=True, eq=False)
class NgramTrie:
    """The n-grams of orders 1 to 4 of a table, each with its document frequency."""

    vocabulary: Sequence[str]
    levels: tuple[Level, ...]

    @classmethod
    def of(cls, table: TextTable) -> NgramTrie:
        """Build the trie of a table; its nodes are in the order of the table's n-grams."""
        levels, parents = [], 1
        for n in range(1, ORDERS + 1):
            grams = table.ngrams(n)
            children = np.bincount(grams.parent, minlength=parents)
            levels.append(Level(narrow(children), narrow(grams.last), narrow(grams.document_frequency)))
            parents = grams.size
        return cls(table.vocabulary, tuple(levels))

    @property
    def keys(self) -> Keys:
        """The keys of all n-grams, order by order; see `TextTable.hash_ngrams`."""
        words, keys = hash_words(self.vocabulary), [np.zeros(1, dtype=np.uint64)]
        for level in self.levels:
            keys.append(mix(np.repeat(keys[-1], level.children), words.take(level.last)))
        return np.concatenate(keys[1:])

    def to_key_counts(self) -> KeyCounts:
        """Convert the trie to counts by key, without counts of 0."""
        keys, counts = self.keys, np.concatenate([level.counts for level in self.levels])
        order = np.flatnonzero(counts)
        # Sorting by the first bits beforehand makes the full sort in KeyCounts.of three times as fast.
        order = order.take(sort_by_first_bits(keys.take(order)))
        return KeyCounts.of(keys.take(order), counts.take(order))


class TrieCounts(LazyCounts):
    """The counts of a trie; the trie is built when it is first needed, and its keys are hashed only if they are."""

    def __init__(self, make: Callable[[], NgramTrie]) -> None:
        self._trie = trie = Once(make)
        super().__init__(lambda: trie().to_key_counts())

    @property
    def trie(self) -> NgramTrie:
        """The trie."""
        return self._trie()

    def release(self) -> None:
        """Build the trie now, so that the table can be freed."""
        self._trie()


def sum_counts(tries: Sequence[NgramTrie]) -> list[list[Counts]]:
    """Return for each trie the counts of its n-grams by level, each summed over all tries that have the n-gram.

    The vocabularies must be sorted.

    >>> from captious.captions import CaptionSet
    >>> tables = [TextTable.of(CaptionSet.of({"1": ()}, {"1": [text]})) for text in ("a red dog", "a dog", "the dog")]
    >>> sums = sum_counts([NgramTrie.of(table) for table in tables])
    >>> [dict(zip(table.vocabulary, own[0].tolist())) for table, own in zip(tables, sums)]
    [{'a': 2, 'dog': 3, 'red': 1}, {'a': 2, 'dog': 3}, {'dog': 3, 'the': 1}]
    """
    words = sorted(set().union(*(trie.vocabulary for trie in tries)))
    index = dict(zip(words, range(len(words)), strict=True))
    tokens = [np.fromiter(map(index.__getitem__, trie.vocabulary), np.int64) for trie in tries]
    numbers, size = [np.zeros(1, dtype=np.int32) for _ in tries], 1  # all roots are the same node
    sums: list[list[Counts]] = [[] for _ in tries]
    for levels in zip(*(trie.levels for trie in tries), strict=True):
        numbers, size = _number_nodes(levels, numbers, size, tokens, len(words))
        totals = np.zeros(size, dtype=COUNT)
        for level, number in zip(levels, numbers, strict=True):
            totals[number] += level.counts  # safe without np.add.at: numbers are distinct within a trie
        totals = narrow(totals)
        for own, number in zip(sums, numbers, strict=True):
            own.append(totals.take(number))
    return sums


def _number_nodes(
    levels: Sequence[Level], parents: Sequence[Ints32], size: int, tokens: Sequence[Ints], words: int
) -> tuple[list[Ints32], int]:
    """Return the number of each node of a level, by trie, and how many numbers there are.

    Equal n-grams have equal numbers, and numbers are in the order of the n-grams.

    ``parents`` are the numbers of the nodes of the level above, which are below ``size``, and ``tokens`` the indices of
    each vocabulary among all ``words``.
    """
    # Parents are taken in ranges. Parents are ascending in every trie, so a range is a slice of each trie's parents
    # (`above`), and their children are a slice of its level (`below`).
    ranges = sum(len(level.last) for level in levels) // RANGE + 1
    bounds = np.linspace(0, size, ranges + 1).astype(np.int32)
    bits = (len(levels) - 1).bit_length()
    # A code is (parent, token, trie), with the trie in the last bits: np.sort of codes is faster than np.argsort.
    marked = [(token << bits) | source for source, token in enumerate(tokens)]
    above = [np.searchsorted(own, bounds) for own in parents]
    below = [
        np.append(0, np.cumsum(level.children, dtype=np.int64)).take(cut)
        for level, cut in zip(levels, above, strict=True)
    ]
    numbers = [np.empty(len(level.last), dtype=np.int32) for level in levels]
    count = 0
    for span in (slice(index, index + 2) for index in range(ranges)):
        codes = []
        for level, own, token, up, down in zip(levels, parents, marked, above, below, strict=True):
            parent, child = slice(*up[span]), slice(*down[span])
            code = np.repeat(np.multiply(own[parent], words << bits, dtype=np.int64), level.children[parent])
            code += token.take(level.last[child])
            codes.append(code)
        ranks, distinct = _rank_codes(np.concatenate(codes), bits)
        first = 0
        for number, down in zip(numbers, below, strict=True):
            part = number[slice(*down[span])]
            np.add(ranks[first : first + len(part)], np.int32(count), out=part)
            first += len(part)
        count += distinct
    return numbers, count


def _rank_codes(codes: Ints, bits: int) -> tuple[Ints32, int]:
    """Return the rank of each code among the distinct ones, and the number of distinct ones. ``codes`` is sorted in
    place.

    The last bits of a code are its source and are ignored. Codes of one source are ascending, and so are the sources.

    >>> codes = np.array([3, 8, 1, 3, 9]) << 1 | np.array([0, 0, 1, 1, 1])
    >>> _rank_codes(codes, 1)[0].tolist()
    [1, 2, 0, 1, 3]
    """
    codes.sort()
    source = (codes & ((1 << bits) - 1)).astype(np.min_scalar_type((1 << bits) - 1))
    codes >>= bits
    rank = np.cumsum(mark_changes(codes), dtype=np.int32)
    # A stable sort by source restores the input order: the codes of each source were ascending.
    ranks = rank.take(np.argsort(source, kind="stable"))
    ranks -= 1
    return ranks, int(rank[-1]) if len(rank) else 0
