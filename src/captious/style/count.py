"""Fitting: one pass over styled captions, a block at a time, blocks merged like the digits of a binary counter."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from hashlib import blake2b
from itertools import islice

import numpy as np

from captious.captions import CaptionSet, Ragged
from captious.style.cng import ORDERS, Order, StyleModel, Whole
from captious.text.ngrams import NgramTable
from captious.text.tables import TextTable
from captious.text.tokenisers import tokeniser_named

BLOCK = 65_536
"""Captions counted at once; memory beyond the model itself follows this."""


def fit(
    captions: Iterable[tuple[str, str]],
    *,
    tokeniser: str = "plain",
    name: str = "corpus",
    progress: Callable[[int], None] | None = None,
) -> StyleModel:
    """The model of a stream of (style, caption); a single style is refused.

    >>> model = fit([("a", "x y"), ("b", "x z"), ("b", "z")])
    >>> model.styles, model.captions.tolist(), model.vocabulary, model.orders[0].frequency.tolist()
    (('a', 'b'), [1, 2], ['x', 'y', 'z'], [1, 1, 1, 2])
    """
    return count(captions, tokeniser=tokeniser, name=name, progress=progress).contrasting()


def count(
    captions: Iterable[tuple[str, str]],
    *,
    tokeniser: str = "plain",
    name: str = "corpus",
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
) -> StyleModel:
    """As `fit`, for a shard of a corpus: one style, or none, may be all there is."""
    stream, parts, seen = iter(captions), list[tuple[int, StyleModel]](), 0
    while taken := list(islice(stream, block)):
        # Models of like size are merged, so that a model takes part in few merges however long the stream.
        size, model = 1, counted(taken, tokeniser, name)
        while parts and parts[-1][0] == size:
            size, model = size * 2, parts.pop()[1].merge(model)
        parts.append((size, model))
        seen += len(taken)
        if progress:
            progress(seen)
    if not parts:
        return counted([], tokeniser, name)
    _, whole = parts.pop()
    while parts:
        whole = parts.pop()[1].merge(whole)
    return whole


def counted(captions: Sequence[tuple[str, str]], tokeniser: str, name: str) -> StyleModel:
    """The model of captions that are all at hand."""
    styles = sorted({style for style, _ in captions})
    numbers = {style: index for index, style in enumerate(styles)}
    style = np.array([numbers[style] for style, _ in captions], dtype=np.int32)
    # With captions in the order of styles, the rows of an n-gram come out in the order of styles as well.
    order = np.argsort(style, kind="stable")
    table = sorted_table([captions[index][1] for index in order.tolist()], tokeniser)
    return model_of(table, style[order], styles, fingerprint_of(captions), name)


def model_of(table: TextTable, style: Whole, styles: Sequence[str], fingerprint: int, name: str) -> StyleModel:
    """The model of a table with a sorted vocabulary, its captions in the order of their styles."""
    return StyleModel(
        styles=tuple(styles),
        captions=np.bincount(style, minlength=len(styles)).astype(np.int64),
        tokeniser=str(table.tokeniser),
        vocabulary=table.vocabulary,
        orders=tuple(_order(table.ngrams(n), style[table.ngrams(n).caption]) for n in range(1, ORDERS + 1)),
        fingerprint=fingerprint,
        name=name,
    )


def sorted_table(texts: Sequence[str], tokeniser: str) -> TextTable:
    """Texts as a token table whose vocabulary is sorted, which makes every n-gram table sorted by its words."""
    offsets = np.arange(len(texts) + 1)
    nothing = Ragged((), np.zeros(len(texts) + 1, dtype=np.int64))
    ids = tuple(map(str, range(len(texts))))
    table = TextTable.of(CaptionSet(ids, Ragged(tuple(texts), offsets), nothing), bare(tokeniser))
    alphabetical = sorted(range(len(table.vocabulary)), key=table.vocabulary.__getitem__)
    rank = np.empty(len(alphabetical), dtype=np.int32)
    rank[alphabetical] = np.arange(len(alphabetical), dtype=np.int32)
    vocabulary = [table.vocabulary[index] for index in alphabetical]
    return replace(table, vocabulary=vocabulary, tokens=rank[table.tokens])


def bare(tokeniser: str) -> str:
    """The name of a tokeniser that may carry its version, as it does in a model."""
    name, _, version = tokeniser.partition(".")
    return name if version and str(tokeniser_named(name)) == tokeniser else tokeniser


def _order(grams: NgramTable, style: Whole) -> Order:
    first = np.ones(len(grams.gram), dtype=np.bool_)
    first[1:] = (grams.gram[1:] != grams.gram[:-1]) | (style[1:] != style[:-1])
    heads = np.flatnonzero(first)
    per_gram = np.bincount(grams.gram[heads], minlength=grams.size)
    return Order(
        parent=grams.parent,
        last=grams.last,
        starts=np.concatenate(([0], np.cumsum(per_gram))),
        style=style[heads].astype(np.int32),
        frequency=np.diff(heads, append=len(first)).astype(np.int32),
    )


def fingerprint_of(captions: Sequence[tuple[str, str]]) -> int:
    total = 0
    for style, text in captions:
        content = f"{style}\x1f{text}".encode("utf-8", "surrogatepass")
        total += int.from_bytes(blake2b(content, digest_size=8).digest(), "little")
    return total % 2**64
