"""The contrastive n-gram model: document frequencies of each style, and the scores that follow from them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from captious._files import Kind, digest
from captious._hashing import text_hashes
from captious._typing import Bools, Floats, Ints, Ints32
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError, nearest
from captious.text.tables import NgramTable, TextTable
from captious.text.tokenizers import tokenizer_named

ORDERS = 4
Whole = npt.NDArray[np.integer[Any]]


class Order(NamedTuple):
    """The n-grams of one order, sorted, each with the styles it occurs in and its document frequency there."""

    parent: Ints32
    """The (n-1)-gram that each n-gram starts with."""
    last: Ints32
    """The last word of each n-gram."""
    starts: Ints
    """N-gram ``g`` has the entries ``starts[g]`` up to ``starts[g + 1]``."""
    style: Ints32
    frequency: Ints32
    """The number of captions of the style in which the n-gram of each entry occurs."""

    @property
    def occurrences(self) -> Ints:
        """The number of styles in which each n-gram occurs."""
        return np.diff(self.starts)


class StyleShares(NamedTuple):
    """CNG_p(t) = share(t, p) - base(t); share is 0 where t does not occur in p."""

    share: Floats
    """ECDF_p(f_p(t)) / occur(t) of each entry; one more 0 at the end for an n-gram that the style lacks."""
    base: Floats
    """The mean of each n-gram's shares over all styles; one more 0 at the end for what is unseen."""
    gram: Ints
    """The n-gram of each entry."""


@dataclass(frozen=True, eq=False)
class StyleModel:
    """The number of captions of each style in which every n-gram of orders 1 to 4 occurs, and its contrastive score.

    With f_p(t) the captions of style p that contain t, F_p the list of the f_p of all n-grams of that order seen in p,
    and occur(t) the number of styles that t occurs in::

        ECDF_p(x) = share of F_p that is at most x
        CNG_p(t)  = 1/|S| · Σ over q ≠ p of (ECDF_p(f_p(t)) − ECDF_q(f_q(t))) / occur(t)

    An n-gram absent from a style has ECDF 0 there, one absent from all styles has CNG 0. Only counts are kept, so two
    models merge into that of both corpora; words, styles and n-grams are sorted, so equal corpora give equal models.

    >>> from captious.metrics.style.model import fit
    >>> model = fit([("gloomy", "a grey day"), ("happy", "a fine day")])
    >>> round(model.score("fine", "happy"), 6), round(model.score("day", "happy"), 6)  # fine: ½ · (1 − 0) / 1
    (0.5, 0.0)
    """

    styles: tuple[str, ...]
    captions: Ints
    """How many captions each style had."""
    tokenizer: str
    vocabulary: list[str]
    orders: tuple[Order, ...]
    fingerprint: int
    """A fingerprint of the captions with their styles, in any order; those of shards add up modulo 2**64."""
    name: str = "corpus"

    def __str__(self) -> str:
        return f"{self.name}:{self.mark[:8]}"

    @property
    def signature(self) -> str:
        """The model in one line: its content, corpus and tokenizer."""
        corpus = f"{int(self.captions.sum())}:{self.fingerprint:016x}"
        return f"model:{self.mark}|corpus:{corpus}|styles:{len(self.styles)}|tok:{self.tokenizer}"

    @cached_property
    def mark(self) -> str:
        """Twelve hexadecimal digits of everything that moves a score."""
        words = "\n".join([self.tokenizer, *self.styles, *self.vocabulary]).encode("utf-8", "surrogatepass")
        return digest(words, *(array.tobytes() for order in self.orders for array in order), self.captions.tobytes())

    def merge(self, other: StyleModel) -> StyleModel:
        """The model of both corpora together.

        >>> from captious.metrics.style.model import count, fit
        >>> one, other = count([("a", "x y")]), count([("b", "x z"), ("b", "z")])
        >>> one.merge(other).mark == fit([("a", "x y"), ("b", "x z"), ("b", "z")]).mark
        True
        """
        if self.tokenizer != other.tokenizer:
            raise InputError(f"cannot merge style models tokenized by {self.tokenizer} and {other.tokenizer}")
        sides = (self, other)
        styles, in_styles = _united(*(side.styles for side in sides))
        vocabulary, words = _united(*(side.vocabulary for side in sides))
        numbers = (np.zeros(1, dtype=np.int64), np.zeros(1, dtype=np.int64))
        orders = []
        for n in range(ORDERS):
            parts = [side.orders[n] for side in sides]
            keys = [numbers[i][part.parent] * len(vocabulary) + words[i][part.last] for i, part in enumerate(parts)]
            distinct, numbers = _together(*keys)
            entries = [
                np.repeat(numbers[i], part.occurrences) * len(styles) + in_styles[i][part.style]
                for i, part in enumerate(parts)
            ]
            merged, indices = _together(*entries)
            counts = np.zeros(len(merged), dtype=np.int32)
            for index, part in zip(indices, parts, strict=True):
                counts[index] += part.frequency
            gram = merged // max(len(styles), 1)
            orders.append(
                Order(
                    parent=(distinct // max(len(vocabulary), 1)).astype(np.int32),
                    last=(distinct % max(len(vocabulary), 1)).astype(np.int32),
                    starts=np.concatenate(([0], np.cumsum(np.bincount(gram, minlength=len(distinct))))),
                    style=(merged % max(len(styles), 1)).astype(np.int32),
                    frequency=counts,
                )
            )
        captions = np.zeros(len(styles), dtype=np.int64)
        for i, side in enumerate(sides):
            captions[in_styles[i]] += side.captions
        return StyleModel(
            styles=tuple(styles),
            captions=captions,
            tokenizer=self.tokenizer,
            vocabulary=vocabulary,
            orders=tuple(orders),
            fingerprint=(self.fingerprint + other.fingerprint) % 2**64,
            name=self.name,
        )

    def contrasting(self) -> StyleModel:
        """The model itself, if it has styles to contrast."""
        if len(self.styles) < 2:
            content = f"one style ({self.styles[0]!r})" if self.styles else "no style"
            raise InputError(f"{self.name}: holds {content}, expected at least two: a style shows by contrast")
        return self

    def style_number(self, style: str, where: str = "") -> int:
        """The number of a style, or the nearest name."""
        if style not in self.styles:
            names = ", ".join(self.styles[:8]) + (", …" if len(self.styles) > 8 else "")
            raise InputError(
                f"{where}{': ' if where else ''}the style model {self.name} has no style {style!r}, "
                f"only {len(self.styles)}: {names}{nearest(style, self.styles)}"
            )
        return self.styles.index(style)

    def score(self, ngram: str, style: str) -> float:
        """CNG of one n-gram, its words separated by spaces; 0 where no style has it."""
        number, words = self.number(ngram), ngram.split()
        return float(self.scores_under(len(words), np.array([number]), np.array([self.style_number(style)]))[0])

    def number(self, ngram: str) -> int:
        """The number of an n-gram among those of its order, -1 where no style has it."""
        words = ngram.split()
        if not 1 <= len(words) <= ORDERS:
            raise InputError(f"{ngram!r} has {len(words)} words, expected 1 to {ORDERS}")
        number = 0
        for n, word in enumerate(words):
            last = self._position.get(word, -1)
            number = int(_lookup(self._keys[n], np.array([number * len(self.vocabulary) + last]))[0])
            if last < 0 or number < 0:
                return -1
        return number

    @cached_property
    def scores(self) -> tuple[StyleShares, ...]:
        """The parts of CNG, order by order."""
        return tuple(_scored(order, len(self.styles)) for order in self.contrasting().orders)

    def scores_under(self, n: int, gram: Whole, style: Whole) -> Floats:
        """CNG of n-grams of order n (numbers here, -1 for unseen), each under a style."""
        share, base, _ = self.scores[n - 1]
        entry = _lookup(self._entries[n - 1], np.where(gram >= 0, gram * len(self.styles) + style, -1))
        scores: Floats = share[entry] - base[gram]
        return scores

    def occurs(self, n: int, gram: Whole, style: Whole) -> Bools:
        """Whether n-grams of order n (numbers here, -1 for unseen) occur in the captions of a style each."""
        return _lookup(self._entries[n - 1], np.where(gram >= 0, gram * len(self.styles) + style, -1)) >= 0

    def locate(self, table: TextTable) -> list[Ints]:
        """The indices in this model of the n-grams of a table, per order; -1 where one is unseen."""
        position = self._position
        words = np.fromiter((position.get(word, -1) for word in table.vocabulary), np.int64, len(table.vocabulary))
        located = [words[table.ngrams(1).last]]
        for n in range(2, ORDERS + 1):
            grams = table.ngrams(n)
            parent, last = located[-1][grams.parent], words[grams.last]
            wanted = np.where((parent >= 0) & (last >= 0), parent * len(self.vocabulary) + last, -1)
            located.append(_lookup(self._keys[n - 1], wanted))
        return located

    def ngram(self, n: int, number: int) -> str:
        """An n-gram as text."""
        words: list[str] = []
        for order in reversed(self.orders[:n]):
            words.insert(0, self.vocabulary[order.last[number]])
            number = int(order.parent[number])
        return " ".join(words)

    @cached_property
    def _keys(self) -> list[Ints]:
        return [order.parent.astype(np.int64) * len(self.vocabulary) + order.last for order in self.orders]

    @cached_property
    def _entries(self) -> list[Ints]:
        return [
            score.gram * len(self.styles) + order.style for score, order in zip(self.scores, self.orders, strict=True)
        ]

    @cached_property
    def _position(self) -> dict[str, int]:
        return {word: index for index, word in enumerate(self.vocabulary)}


def _lookup(keys: Ints, wanted: Whole) -> Ints:
    """The index of each wanted number among sorted keys, -1 where it is none of them.

    >>> _lookup(np.array([2, 5]), np.array([5, 3])).tolist()
    [1, -1]
    """
    if not len(keys):
        return np.full(len(wanted), -1)
    index = np.minimum(np.searchsorted(keys, wanted), len(keys) - 1)
    return np.where(keys[index] == wanted, index, -1)


def _scored(order: Order, styles: int) -> StyleShares:
    """ECDFs by counting: distinct frequencies are few, so a table of styles by frequencies is small."""
    gram = np.repeat(np.arange(len(order.last)), order.occurrences)
    present = np.bincount(order.frequency) > 0
    rank = (np.cumsum(present) - 1)[order.frequency]
    width = int(present.sum())
    table = np.bincount(order.style * width + rank, minlength=styles * width).reshape(styles, width)
    at_most = np.cumsum(table, axis=1)
    ecdf = at_most / np.maximum(at_most[:, -1:], 1) if width else np.zeros((styles, 0))
    share = ecdf[order.style, rank] / order.occurrences[gram]
    base = np.append(np.bincount(gram, weights=share, minlength=len(order.last)) / styles, 0.0)
    return StyleShares(np.append(share, 0.0), base, gram)


def _united(one: list[str] | tuple[str, ...], other: list[str] | tuple[str, ...]) -> tuple[list[str], list[Ints]]:
    """Names of both, sorted, and the new index of each side's names."""
    names = sorted({*one, *other})
    index = {name: number for number, name in enumerate(names)}
    return names, [np.array([index[name] for name in side], dtype=np.int64) for side in (one, other)]


def _together(one: Ints, other: Ints) -> tuple[Ints, tuple[Ints, Ints]]:
    """Distinct keys of two sorted arrays, and the new index of each side's keys."""
    # With return_index the sort is stable, which merges two sorted runs in linear time.
    distinct, _, index = np.unique(np.concatenate([one, other]), return_index=True, return_inverse=True)
    return distinct, (index[: len(one)], index[len(one) :])


BLOCK = 65_536
"""Captions counted at once; memory beyond the model itself follows this."""


def fit(
    captions: Iterable[tuple[str, str]],
    *,
    tokenizer: str = "plain",
    name: str = "corpus",
    progress: Callable[[int], None] | None = None,
) -> StyleModel:
    """The model of a stream of (style, caption); a single style is refused.

    >>> model = fit([("a", "x y"), ("b", "x z"), ("b", "z")])
    >>> model.styles, model.captions.tolist(), model.vocabulary, model.orders[0].frequency.tolist()
    (('a', 'b'), [1, 2], ['x', 'y', 'z'], [1, 1, 1, 2])
    """
    return count(captions, tokenizer=tokenizer, name=name, progress=progress).contrasting()


def count(
    captions: Iterable[tuple[str, str]],
    *,
    tokenizer: str = "plain",
    name: str = "corpus",
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
) -> StyleModel:
    """Fit a shard of a corpus as `fit` does; the shard may have one style, or none."""
    stream, parts, done = iter(captions), list[tuple[int, StyleModel]](), 0
    while block_captions := list(islice(stream, block)):
        # Models of like size are merged, so that a model takes part in few merges however long the stream.
        size, model = 1, counted(block_captions, tokenizer, name)
        while parts and parts[-1][0] == size:
            size, model = size * 2, parts.pop()[1].merge(model)
        parts.append((size, model))
        done += len(block_captions)
        if progress:
            progress(done)
    if not parts:
        return counted([], tokenizer, name)
    _, whole = parts.pop()
    while parts:
        whole = parts.pop()[1].merge(whole)
    return whole


def counted(captions: Sequence[tuple[str, str]], tokenizer: str, name: str) -> StyleModel:
    """The model of captions that are all at hand."""
    styles = sorted({style for style, _ in captions})
    numbers = {style: index for index, style in enumerate(styles)}
    style = np.array([numbers[style] for style, _ in captions], dtype=np.int32)
    # With captions in the order of styles, the rows of an n-gram come out in the order of styles as well.
    order = np.argsort(style, kind="stable")
    table = sorted_table([captions[index][1] for index in order.tolist()], tokenizer)
    return model_of(table, style[order], styles, fingerprint_of(captions), name)


def model_of(table: TextTable, style: Whole, styles: Sequence[str], fingerprint: int, name: str) -> StyleModel:
    """The model of a table with a sorted vocabulary, its captions in the order of their styles."""
    return StyleModel(
        styles=tuple(styles),
        captions=np.bincount(style, minlength=len(styles)).astype(np.int64),
        tokenizer=str(table.tokenizer),
        vocabulary=table.vocabulary,
        orders=tuple(_order(table.ngrams(n), style[table.ngrams(n).caption]) for n in range(1, ORDERS + 1)),
        fingerprint=fingerprint,
        name=name,
    )


def sorted_table(texts: Sequence[str], tokenizer: str) -> TextTable:
    """Texts as a token table whose vocabulary is sorted, which makes every n-gram table sorted by its words."""
    offsets = np.arange(len(texts) + 1)
    nothing = Ragged((), np.zeros(len(texts) + 1, dtype=np.int64))
    ids = tuple(map(str, range(len(texts))))
    table = TextTable.of(CaptionSet(ids, Ragged(tuple(texts), offsets), nothing), bare(tokenizer))
    alphabetical = sorted(range(len(table.vocabulary)), key=table.vocabulary.__getitem__)
    rank = np.empty(len(alphabetical), dtype=np.int32)
    rank[alphabetical] = np.arange(len(alphabetical), dtype=np.int32)
    vocabulary = [table.vocabulary[index] for index in alphabetical]
    return replace(table, vocabulary=vocabulary, tokens=rank[table.tokens])


def bare(tokenizer: str) -> str:
    """The name of a tokenizer that may carry its version, as it does in a model."""
    name, _, version = tokenizer.partition(".")
    return name if version and str(tokenizer_named(name)) == tokenizer else tokenizer


def _order(grams: NgramTable, style: Whole) -> Order:
    heads = style_heads(grams, style)
    per_gram = np.bincount(grams.gram[heads], minlength=grams.size)
    return Order(
        parent=grams.parent,
        last=grams.last,
        starts=np.concatenate(([0], np.cumsum(per_gram))),
        style=style[heads].astype(np.int32),
        frequency=np.diff(heads, append=len(style)).astype(np.int32),
    )


def style_heads(grams: NgramTable, style: Whole) -> Ints:
    """The first row of each n-gram in each style, from the style of each row."""
    new = np.ones(len(style), dtype=np.bool_)
    new[1:] = (grams.gram[1:] != grams.gram[:-1]) | (style[1:] != style[:-1])
    return np.flatnonzero(new)


def fingerprint_of(captions: Iterable[tuple[str, str]]) -> int:
    """The fingerprint of captions with their styles, in any order."""
    return int(text_hashes(f"{style}\x1f{text}" for style, text in captions).sum(dtype=np.uint64))


KIND = Kind("captious-style", 2, "style model", "captious style fit")
CODEC = "zstd"


def save(model: StyleModel, path: str | Path) -> None:
    """Write a model whole: a line of JSON, then the arrays one after the other, compressed."""
    blocks, sizes = [], []
    texts = "\n".join(model.vocabulary).encode("utf-8", "surrogatepass")
    arrays = [part for order in model.orders for part in _packed(order)]
    for raw in (texts, *(array.astype("<i4").tobytes() for array in arrays)):
        blocks.append(pa.compress(raw, codec=CODEC, asbytes=True))
        sizes.append([len(raw), len(blocks[-1])])
    header = {
        "name": model.name,
        "styles": model.styles,
        "captions": model.captions.tolist(),
        "tokenizer": model.tokenizer,
        "fingerprint": model.fingerprint,
        "sizes": sizes,
    }
    KIND.write(path, header, b"".join(blocks))


def load(path: str | Path) -> StyleModel:
    """Read a file that `save` wrote; a damaged, foreign or differently versioned one is refused."""
    header, payload = KIND.read(path)
    parts, position = [], 0
    for raw, size in header["sizes"]:
        block = payload[position : position + size]
        parts.append(pa.decompress(block, decompressed_size=raw, codec=CODEC, asbytes=True))
        position += size
    words = parts[0].decode("utf-8", "surrogatepass")
    arrays = [np.frombuffer(part, dtype="<i4").astype(np.int32) for part in parts[1:]]
    return StyleModel(
        styles=tuple(header["styles"]),
        captions=np.array(header["captions"], dtype=np.int64),
        tokenizer=header["tokenizer"],
        vocabulary=words.split("\n") if words else [],
        orders=tuple(_unpacked(arrays[5 * n : 5 * n + 5]) for n in range(ORDERS)),
        fingerprint=header["fingerprint"],
        name=header["name"],
    )


def opened(path: str | Path) -> StyleModel:
    """Load a model as `load` does; a file that has not changed is read once."""
    path = Path(path)
    return _cached(path, path.stat().st_mtime_ns) if path.is_file() else load(path)


@lru_cache(maxsize=4)
def _cached(path: Path, changed: int) -> StyleModel:
    return load(path)


def _packed(order: Order) -> tuple[Whole, ...]:
    """Differences of sorted numbers compress far better than the numbers."""
    return (
        np.diff(order.parent, prepend=np.int32(0)),
        order.last,
        order.occurrences,
        order.style,
        order.frequency,
    )


def _unpacked(arrays: list[Ints32]) -> Order:
    parent, last, occurrences, style, frequency = arrays
    starts = np.concatenate(([0], np.cumsum(occurrences, dtype=np.int64)))
    return Order(np.cumsum(parent, dtype=np.int32), last, starts, style, frequency)
