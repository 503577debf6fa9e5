"""Rows of numbers for each token of a text, computed once and cached: hidden states, or vectors of tokens.

All tokens of a text are one row of the store, in half precision, padded to one of a few lengths, and each length has a
store of its own. The vector of the whole text comes from the same forward pass and is cached for CLIPScore too.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt

from captious._core.types import Ints
from captious.errors import InputError
from captious.models.encoder import BLOCK, Features, TextEncoder
from captious.models.features import find_distinct, get_vector_space, normalize_rows, put_vectors, text_features
from captious.models.pipeline import encode_text_batches
from captious.models.segments import FeatureSpace, as_keys, hash_text
from captious.models.store import open_store

# Rows of tokens are stored in these lengths; a text is padded to the next one.
STEPS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
# Just below the largest number of half precision.
LARGEST = 60_000.0
# Largest share of free memory for the rows of one call.
SHARE = 0.4
Halves = npt.NDArray[np.float16]
# A function from a number of tokens to an encoder, whose output row has the rows of these tokens and the text's vector.
Flatten = Callable[[int], TextEncoder]


@dataclass(frozen=True, eq=False)
class TokenRows:
    """A row of numbers for each token of n texts, of which u are distinct; the tokens of all texts are concatenated."""

    flat: Halves
    ids: Ints
    """Token id of each row."""
    starts: Ints
    counts: Ints
    index: Ints
    """Index of each text among the distinct ones."""
    lengths: Ints
    """Number of tokens of each text before truncation."""
    vectors: Features
    """u × d, of unit length."""

    def __len__(self) -> int:
        return len(self.index)


class TokenEncoder(TextEncoder, Protocol):
    """Encoder that also has a vector for each token of a text."""

    def token_features(self, ids: Ints) -> Features:
        """Return the vectors of all tokens, texts × tokens × dimension, not normalized; zeros behind the end token.

        The vector of the end token is that of the text.
        """


class FlatVectors:
    """Text encoder whose output row is the unit vectors of a text's tokens, flattened, and the vector of the text."""

    def __init__(self, encoder: TokenEncoder, tokens: int) -> None:
        self.encoder, self.tokens = encoder, tokens
        self.name, self.fingerprint, self.precision = encoder.name, encoder.fingerprint, encoder.precision
        self.limit, self.dimension = encoder.limit, (tokens + 1) * encoder.dimension
        self.tokenize = encoder.tokenize

    def text_features(self, ids: Ints) -> Features:
        """Return one row per text: the vectors of its tokens, and once more that of the end token."""
        vectors = self.encoder.token_features(ids)
        ends = (vectors != 0).any(axis=2).sum(axis=1) - 1
        text_vectors = vectors[np.arange(len(ids)), ends]
        vectors = vectors[:, : self.tokens]
        unit, _ = normalize_rows(vectors.reshape(-1, vectors.shape[2]))
        flat = np.zeros((len(ids), self.tokens, vectors.shape[2]), np.float32)
        flat[:, : vectors.shape[1]] = unit.reshape(vectors.shape)
        return np.concatenate([flat.reshape(len(ids), -1), text_vectors], axis=1)


def get_token_vectors(encoder: TextEncoder, texts: Sequence[str], keep: bool = True) -> TokenRows:
    """Return the vectors of the tokens of texts, of unit length; raise InputError if the encoder has none."""
    if not hasattr(encoder, "token_features"):
        raise InputError(
            f"encoder {encoder.name}: has no vectors of tokens (token_features), expected a CLIP model, whose text "
            "projection applies to every token"
        )
    tokens: TokenEncoder = cast(Any, encoder)
    return get_token_rows(
        encoder, texts, "token-vectors", encoder.dimension, lambda step: FlatVectors(tokens, step), keep
    )


def get_token_rows(
    encoder: TextEncoder, texts: Sequence[str], kind: str, width: int, flatten: Flatten, keep: bool = True
) -> TokenRows:
    """Return a row of ``width`` numbers for each token of texts, and vectors of texts.

    ``kind`` begins the names of the stores; ``keep`` writes them to the cache.
    """
    distinct, index = find_distinct(texts)
    ids, lengths = tokenize_texts(encoder, distinct)
    counts = np.minimum(lengths, encoder.limit)
    refuse_too_many(int(counts.sum()) * width * 2, len(distinct))
    flat = np.zeros((int(counts.sum()), width), np.float16)
    starts = np.cumsum(counts) - counts
    vectors = np.zeros((len(distinct), encoder.dimension), np.float32)
    full = getattr(getattr(encoder, "tokenizer", None), "full", False)
    steps = [encoder.limit] if full else [step for step in STEPS if step < encoder.limit] + [encoder.limit]
    step_of = np.searchsorted(steps, counts)
    for number, step in enumerate(steps):
        chosen = np.flatnonzero(step_of == number)
        space = FeatureSpace(encoder.name, encoder.fingerprint, f"{kind}-{step}", (step, width), "float16")
        texts_of_step = [distinct[index] for index in chosen.tolist()]
        for batch, padded, pooled in _encode_texts(encoder, flatten(step), space, texts_of_step, keep):
            rows = chosen[batch]
            inside = np.arange(step) < counts[rows, None]
            # The padded rows (texts × step) lose their padding and go to the texts' ranges of `flat`.
            flat[(starts[rows, None] + np.arange(step))[inside]] = padded[inside]
            vectors[rows] = pooled
    return TokenRows(flat, ids, starts, counts, index, lengths[index], vectors)


def tokenize_texts(encoder: TextEncoder, texts: Sequence[str]) -> tuple[Ints, Ints]:
    """Return the token ids of all texts, truncated and concatenated, and the number of tokens of each before that."""
    ids, lengths = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for first in range(0, len(texts), BLOCK):
        tokens = encoder.tokenize(texts[first : first + BLOCK])
        inside = np.arange(tokens.ids.shape[1]) < np.minimum(tokens.lengths, encoder.limit)[:, None]
        ids.append(tokens.ids[inside])
        lengths.append(tokens.lengths)
    return np.concatenate(ids), np.concatenate(lengths)


def _encode_texts(
    encoder: TextEncoder, flat: TextEncoder, space: FeatureSpace, texts: list[str], keep: bool
) -> Iterator[tuple[Ints, Halves, Features]]:
    """Yield rows of the tokens and unit vectors of texts: cached ones first, then those computed now."""
    if not texts:
        return
    missing = list(range(len(texts)))
    contents = [hash_text(text) for text in texts]
    if keep:
        store, vector_store = open_store(space), open_store(get_vector_space(encoder, "texts"))
        rows, _, stored = store.gather(as_keys(contents))
        missing = np.flatnonzero(~stored).tolist()
        if stored.any():
            cached = np.flatnonzero(stored)
            vectors = text_features(encoder, [texts[index] for index in cached.tolist()])
            yield cached, rows[stored], vectors.rows[vectors.index]
    try:
        for batch in encode_text_batches(flat, [texts[index] for index in missing]):
            indices = np.array([missing[number] for number in batch.indices])
            states = to_half(batch.features[:, : -encoder.dimension].reshape(-1, *space.shape))
            pooled = batch.features[:, -encoder.dimension :]
            if keep:
                keys = as_keys(contents[index] for index in indices.tolist())
                store.put(keys, states)
                put_vectors(vector_store, keys, pooled, batch.lengths)
            yield indices, states, pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
    finally:
        if keep:
            store.settle()
            vector_store.settle()


def to_half(states: npt.NDArray[Any]) -> Halves:
    """Convert states to half precision, clipped to its range."""
    half: Halves = np.clip(states, -LARGEST, LARGEST).astype(np.float16)
    return half


def refuse_too_many(size: int, texts: int) -> None:
    """Raise InputError if rows of this size in bytes do not fit into memory."""
    if size > SHARE * get_free_memory():
        raise InputError(
            f"the tokens of {texts:,} texts take {size / 2**30:.1f} GiB, more than memory allows; train with fewer "
            "captions or with draws=1"
        )


def get_free_memory() -> int:
    """Return the free memory in bytes."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 8 * 2**30
