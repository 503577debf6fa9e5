"""States of images and texts through the feature cache: each distinct input encoded once."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
import numpy.typing as npt

from captious.encoders import memo
from captious.encoders.cache import Store
from captious.encoders.encoder import Features
from captious.encoders.features import (
    NOT_FINITE,
    Encoded,
    encode_missing,
    gathered,
    image_features,
    keep_vectors,
    text_features,
    vector_space,
)
from captious.encoders.pipeline import text_batches
from captious.encoders.runtime import current
from captious.encoders.segments import Keys, Space, as_keys, key_of
from captious.encoders.similarity import tokens_of
from captious.encoders.stores import open_store
from captious.encoders.torch_encoder import TorchEncoder
from captious.errors import InputError
from captious.umic.states import STEPS, Halves, Insides, halved

Ints = npt.NDArray[np.int64]
SHARE = 0.4
"""Of the free memory that states may take; beyond that those of images are read from disk batch by batch."""


@dataclass(frozen=True, eq=False)
class ImageStates:
    """States of n images: in memory, or in the store under their keys."""

    rows: Halves | None
    index: Ints
    """The row of each image, −1 where it has none."""
    vectors: Encoded
    faults: dict[int, str]
    store: Store | None = None
    keys: Keys | None = None

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Ints) -> Halves:
        """States of some images."""
        if self.rows is not None:
            return self.rows[self.index[rows]]
        assert self.store is not None and self.keys is not None
        found, _, there = self.store.gather(self.keys[rows])
        if not there.all():
            raise InputError(
                f"the feature cache lost {int((~there).sum())} images on the way; CAPTIOUS_CACHE_LIMIT is too small"
            )
        return found


def image_states(encoder: TorchEncoder, paths: Sequence[str]) -> ImageStates:
    """States and vectors of image files, with the reason where a file cannot be used."""
    runtime, inside = current(), Insides(encoder)
    places = {path: place for place, path in enumerate(dict.fromkeys(paths))}
    distinct = list(places)
    kind = "-upright" if runtime.upright else ""
    store = open_store(Space(encoder.name, encoder.fingerprint, f"states{kind}", inside.image_shape, "float16"))
    vectors, seen = open_store(vector_space(encoder, f"images{kind}")), open_store(memo.SPACE)
    marks = [memo.mark(path) for path in distinct]
    contents = memo.recall(seen, marks)
    rows, index, keys = _found(store, contents)
    todo = np.flatnonzero(index < 0).tolist()

    def keep(store: Store, keys: Keys, rows: Features) -> None:
        finite = np.isfinite(rows).all(axis=1)
        states = rows[finite, : -encoder.dimension].reshape(-1, *inside.image_shape)
        store.put(keys[finite], halved(states))
        keep_vectors(vectors, keys, rows[:, -encoder.dimension :])

    faults: dict[int, str] = {}
    if todo:
        faults = encode_missing(inside, distinct, marks, todo, contents, store, seen, keep)
        rows, index, keys = _found(store, contents)
    for one in (vectors, store, seen):
        one.settle()
    spread = np.fromiter(map(places.__getitem__, paths), np.int64, len(paths))
    given = image_features(encoder, paths)
    lost = np.flatnonzero(index[spread] < 0).tolist()
    broken = {place: faults.get(int(spread[place]), f"{paths[place]}: {NOT_FINITE}") for place in lost}
    return ImageStates(rows, index[spread], given, {**broken, **given.faults}, store, keys[spread])


def _found(store: Store, contents: list[bytes | None]) -> tuple[Halves | None, Ints, Keys]:
    """Rows where they fit into memory, the row of each content (−1 for none), and its key."""
    keys = as_keys(key or bytes(16) for key in contents)
    size = 2 * int(np.prod(store.space.shape)) * len(contents)
    if size < SHARE * free_memory() or store.folder is None:
        rows, _, index = gathered(store, contents)
        return cast(Halves, rows), index, keys
    held = np.array([key is not None and store.holds(key) for key in contents])
    return None, np.where(held, np.arange(len(contents)), -1), keys


@dataclass(frozen=True, eq=False)
class TextStates:
    """States of n texts, of which u are distinct, one after another."""

    flat: Halves
    starts: Ints
    counts: Ints
    index: Ints
    """The distinct text of each."""
    lengths: Ints
    """Tokens of each before it was cut."""
    vectors: Features
    """u × d, of unit length."""

    def __len__(self) -> int:
        return len(self.index)


def text_states(encoder: TorchEncoder, texts: Sequence[str], keep: bool = True) -> TextStates:
    """States and vectors of texts; ``keep`` writes them to the cache."""
    places = {text: place for place, text in enumerate(dict.fromkeys(texts))}
    distinct = list(places)
    lengths = tokens_of(encoder, distinct)
    counts = np.minimum(lengths, encoder.limit)
    width = Insides(encoder).text_width
    _refuse_too_many(int(counts.sum()) * width * 2, len(distinct))
    flat = np.zeros((int(counts.sum()), width), np.float16)
    starts = np.cumsum(counts) - counts
    vectors = np.zeros((len(distinct), encoder.dimension), np.float32)
    full = encoder.tokeniser.full
    steps = [encoder.limit] if full else [step for step in STEPS if step < encoder.limit] + [encoder.limit]
    step_of = np.searchsorted(steps, counts)
    for number, step in enumerate(steps):
        chosen = np.flatnonzero(step_of == number)
        for some, states, pooled in _encoded(encoder, step, [distinct[one] for one in chosen.tolist()], keep):
            rows = chosen[some]
            inside = np.arange(step) < counts[rows, None]
            flat[(starts[rows, None] + np.arange(step))[inside]] = states[inside]
            vectors[rows] = pooled
    index = np.fromiter(map(places.__getitem__, texts), np.int64, len(texts))
    return TextStates(flat, starts, counts, index, lengths[index], vectors)


def _encoded(encoder: TorchEncoder, step: int, texts: list[str], keep: bool) -> Iterator[tuple[Ints, Halves, Features]]:
    """States in rows of ``step`` tokens and unit vectors of texts, in parts, cached where they were met before."""
    if not texts:
        return
    inside = Insides(encoder, step)
    shape = (step, inside.text_width)
    missing = list(range(len(texts)))
    contents = [key_of(text.encode("utf-8", "surrogatepass")) for text in texts]
    if keep:
        store = open_store(Space(encoder.name, encoder.fingerprint, f"tokens-{step}", shape, "float16"))
        known = open_store(vector_space(encoder, "texts"))
        rows, _, there = store.gather(as_keys(contents))
        missing = np.flatnonzero(~there).tolist()
        if there.any():
            held = np.flatnonzero(there)
            found = text_features(encoder, [texts[one] for one in held.tolist()])
            yield held, rows[there], found.rows[found.index]
    try:
        for batch in text_batches(inside, [texts[one] for one in missing]):
            at = np.array([missing[one] for one in batch.places])
            states = halved(batch.features[:, : -encoder.dimension].reshape(-1, *shape))
            pooled = batch.features[:, -encoder.dimension :]
            if keep:
                keys = as_keys(contents[one] for one in at.tolist())
                store.put(keys, states)
                keep_vectors(known, keys, pooled, batch.lengths)
            yield at, states, pooled / np.maximum(np.linalg.norm(pooled, axis=1, keepdims=True), 1e-12)
    finally:
        if keep:
            store.settle()
            known.settle()


def _refuse_too_many(size: int, texts: int) -> None:
    if size > SHARE * free_memory():
        raise InputError(
            f"the states of {texts:,} texts take {size / 2**30:.1f} GiB, more than memory allows; train with fewer "
            "captions or with --draws 1"
        )


def free_memory() -> int:
    """Bytes of memory that nobody uses."""
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 8 * 2**30
