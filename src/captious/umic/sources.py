"""The two kinds of negatives that are captions of other images: any image, or one that is much alike."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.text.tables import Ints
from captious.umic.corpus import Corpus
from captious.umic.draws import Keys, below, fork, uniform
from captious.umic.neighbours import Neighbours, nearest_vectors
from captious.umic.similar_captions import nearest_captions

NEAREST = 3
"""Images that count as alike."""
BY_IMAGE = 0.5
"""The share of hard negatives whose image is alike by its picture, where both ways are open."""

ANY, CIDER, IMAGE = range(3)
WAYS = ("", "cider", "image")


@dataclass(frozen=True, eq=False)
class Alike:
    """Of each image of a corpus, the images most alike by captions and, where there are vectors, by picture."""

    captions: Neighbours
    pictures: Neighbours | None = None

    @classmethod
    def of(
        cls,
        corpus: Corpus,
        features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any] | None = None,
        progress: Callable[[str, int, int], None] | None = None,
    ) -> Alike:
        """Search a corpus. Features are vectors by id, or rows in the order of ``corpus.ids`` (NaN: none)."""
        say = progress or (lambda what, done, total: None)
        texts = {key: corpus.texts[corpus.offsets[i] : corpus.offsets[i + 1]] for i, key in enumerate(corpus.ids)}
        captions = CaptionSet.of(dict.fromkeys(corpus.ids, ()), texts)
        words = nearest_captions(captions, NEAREST, lambda done, total: say("captions alike", done, total))
        if features is None:
            return cls(words)
        rows = _rows(corpus, features)
        return cls(words, nearest_vectors(rows, NEAREST, lambda done, total: say("pictures alike", done, total)))


def _rows(corpus: Corpus, features: Mapping[str, npt.NDArray[Any]] | npt.NDArray[Any]) -> npt.NDArray[Any]:
    if isinstance(features, Mapping):
        known = [key for key in corpus.ids if key in features]
        if not known:
            raise InputError(f"{corpus.name}: no image has a vector among the {len(features)} given")
        rows = np.full((len(corpus.ids), len(features[known[0]])), np.nan, dtype=np.float32)
        for number, key in enumerate(corpus.ids):
            if key in features:
                rows[number] = features[key]
        return rows
    if len(features) != len(corpus.ids):
        raise InputError(f"{corpus.name}: {len(features)} rows of features for {len(corpus.ids)} images")
    return features


def any_other(corpus: Corpus, captions: Ints, keys: Keys) -> Ints:
    """A caption of another image for each caption, all equally likely; -1 where there is no other image."""
    image = corpus.image[captions]
    first, own = corpus.offsets[image], np.diff(corpus.offsets)[image]
    others = len(corpus) - own
    place = below(fork(keys, 6), others)
    return np.where(others > 0, place + np.where(place >= first, own, 0), -1)


def alike(corpus: Corpus, near: Alike, captions: Ints, keys: Keys) -> tuple[Ints, npt.NDArray[np.int8]]:
    """A caption of one of the three images most alike, and by what they are alike; -1 where none is."""
    image = corpus.image[captions]
    by_words = near.captions.index[image]
    chosen, way = by_words, np.full(len(captions), CIDER, dtype=np.int8)
    if near.pictures is not None:
        by_picture = near.pictures.index[image]
        coin = uniform(fork(keys, 7)) < BY_IMAGE
        pictured = (by_picture[:, 0] >= 0) & (coin | (by_words[:, 0] < 0))
        chosen = np.where(pictured[:, None], by_picture, by_words)
        way[pictured] = IMAGE
    found = (chosen >= 0).sum(axis=1)
    other = chosen[np.arange(len(captions)), below(fork(keys, 8), found)]
    sizes = np.where(other >= 0, np.diff(corpus.offsets)[other], 0)
    place = corpus.offsets[np.maximum(other, 0)] + below(fork(keys, 9), sizes)
    return np.where(other >= 0, place, -1), way
