"""Fitting of style models: captions are counted block by block, and the counts merged."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import islice

import numpy as np

from captious._core.hashing import hash_texts
from captious._core.languages import AUTO, SPACED_TOKENIZERS, Scripts, choose_tokenizer
from captious._core.types import Ints
from captious.captions import CaptionSet, Ragged
from captious.metrics.style.model import ORDERS, AnyInts, Order, StyleModel
from captious.text.ngram_tables import NgramTable, TextTable
from captious.text.tokenizers import find_tokenizer

# Default tokenizer.
PLAIN = "plain"
# Captions per block; memory beyond the model itself is proportional to this.
BLOCK = 65_536


def fit(
    captions: Iterable[tuple[str, str]],
    *,
    tokenizer: str = PLAIN,
    name: str = "corpus",
    progress: Callable[[int], None] | None = None,
) -> StyleModel:
    """Fit a model to a stream of (style, caption); raise InputError for a single style.

    >>> model = fit([("a", "x y"), ("b", "x z"), ("b", "z")])
    >>> model.styles, model.captions.tolist(), model.vocabulary, model.orders[0].frequency.tolist()
    (('a', 'b'), [1, 2], ['x', 'y', 'z'], [1, 1, 1, 2])
    """
    return count(captions, tokenizer=tokenizer, name=name, progress=progress).require_contrast()


def count(
    captions: Iterable[tuple[str, str]],
    *,
    tokenizer: str = PLAIN,
    name: str = "corpus",
    block: int = BLOCK,
    progress: Callable[[int], None] | None = None,
) -> StyleModel:
    """Count a shard of a corpus; unlike in `fit`, it may have one style, or none."""
    stream, parts, done = iter(captions), list[tuple[int, StyleModel]](), 0
    while block_captions := list(islice(stream, block)):
        # Merge models of equal size, as in a binary counter: each caption takes part in O(log blocks) merges.
        size, model = 1, count_block(block_captions, tokenizer, name)
        while parts and parts[-1][0] == size:
            size, model = size * 2, parts.pop()[1].merge(model)
        parts.append((size, model))
        done += len(block_captions)
        if progress:
            progress(done)
    if not parts:
        return count_block([], tokenizer, name)
    _, merged = parts.pop()
    while parts:
        merged = parts.pop()[1].merge(merged)
    return merged


def count_block(captions: Sequence[tuple[str, str]], tokenizer: str, name: str) -> StyleModel:
    """Count captions that fit into memory."""
    styles = sorted({style for style, _ in captions})
    numbers = {style: index for index, style in enumerate(styles)}
    style = np.array([numbers[style] for style, _ in captions], dtype=np.int32)
    # If captions are sorted by style, so are the rows of each n-gram.
    order = np.argsort(style, kind="stable")
    table = build_sorted_table([captions[index][1] for index in order.tolist()], tokenizer)
    return build_model(table, style[order], styles, hash_captions(captions), name)


def build_model(table: TextTable, style: AnyInts, styles: Sequence[str], fingerprint: int, name: str) -> StyleModel:
    """Build the model of a table with a sorted vocabulary, its captions in the order of their styles."""
    return StyleModel(
        styles=tuple(styles),
        captions=np.bincount(style, minlength=len(styles)).astype(np.int64),
        tokenizer=str(table.tokenizer),
        vocabulary=table.vocabulary,
        orders=tuple(_build_order(table.ngrams(n), style[table.ngrams(n).caption]) for n in range(1, ORDERS + 1)),
        fingerprint=fingerprint,
        name=name,
    )


def build_sorted_table(texts: Sequence[str], tokenizer: str) -> TextTable:
    """Build a token table with a sorted vocabulary, which makes every n-gram table sorted by its words."""
    offsets = np.arange(len(texts) + 1)
    nothing = Ragged((), np.zeros(len(texts) + 1, dtype=np.int64))
    ids = tuple(map(str, range(len(texts))))
    table = TextTable.of(CaptionSet(ids, Ragged(tuple(texts), offsets), nothing), strip_version(tokenizer))
    alphabetical = sorted(range(len(table.vocabulary)), key=table.vocabulary.__getitem__)
    rank = np.empty(len(alphabetical), dtype=np.int32)
    rank[alphabetical] = np.arange(len(alphabetical), dtype=np.int32)
    vocabulary = [table.vocabulary[index] for index in alphabetical]
    return replace(table, vocabulary=vocabulary, tokens=rank[table.tokens])


def strip_version(tokenizer: str) -> str:
    """Return the name of a tokenizer without its version, if it has one, as it does in a model."""
    name, _, version = tokenizer.partition(".")
    return name if version and str(find_tokenizer(name)) == tokenizer else tokenizer


def choose_style_tokenizer(language: str) -> str:
    """Choose the tokenizer of a new model: ``plain``, or that of a language without spaces between words.

    >>> choose_style_tokenizer(""), choose_style_tokenizer("fr"), choose_style_tokenizer("zh")
    ('plain', 'plain', 'zh-char')
    """
    name = choose_tokenizer(AUTO, language)
    return PLAIN if name in SPACED_TOKENIZERS else name


def warn_of_clauses(model: StyleModel) -> list[str]:
    """Return a warning if the tokenizer of a model took clauses for words."""
    warning = Scripts.of(model.vocabulary).explain_unsplit_clauses(strip_version(model.tokenizer), "")
    return [warning] if warning else []


def _build_order(grams: NgramTable, style: AnyInts) -> Order:
    heads = find_style_heads(grams, style)
    per_gram = np.bincount(grams.gram[heads], minlength=grams.size)
    return Order(
        parent=grams.parent,
        last=grams.last,
        starts=np.concatenate(([0], np.cumsum(per_gram))),
        style=style[heads].astype(np.int32),
        frequency=np.diff(heads, append=len(style)).astype(np.int32),
    )


def find_style_heads(grams: NgramTable, style: AnyInts) -> Ints:
    """Find the first row of each n-gram in each style, from the style of each row."""
    new = np.ones(len(style), dtype=np.bool_)
    new[1:] = (grams.gram[1:] != grams.gram[:-1]) | (style[1:] != style[:-1])
    return np.flatnonzero(new)


def hash_captions(captions: Iterable[tuple[str, str]]) -> int:
    """Hash captions with their styles, independently of their order."""
    return int(hash_texts(f"{style}\x1f{text}" for style, text in captions).sum(dtype=np.uint64))
