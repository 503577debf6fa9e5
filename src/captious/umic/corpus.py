"""The captions that negatives are made of and from: images in the order of their ids, whitespace tokens as numbers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.text.tables import Ints, tokenise
from captious.text.tokenisers import TOKENISERS
from captious.umic.draws import Keys, fork, mixed

_CLITICS = frozenset({"'s", "'re", "'ve", "'ll", "'d", "'m"})


@dataclass(frozen=True, eq=False)
class Corpus:
    """Captions by image: sorted by id, whatever order they came in; images without captions are left out.

    >>> corpus = Corpus.of({"b": ["a red dog", "A dog."], "a": ["two cats"]})
    >>> corpus.ids, corpus.texts
    (('a', 'b'), ('two cats', 'a red dog', 'A dog.'))
    """

    ids: tuple[str, ...]
    texts: tuple[str, ...]
    offsets: Ints
    """Image i has the captions ``offsets[i]`` up to ``offsets[i + 1]``."""
    as_given: Ints
    """The captions in the order they came."""
    name: str = "captions"

    @classmethod
    def of(cls, captions: Mapping[str, Sequence[str]], name: str = "captions") -> Corpus:
        """Captions by id."""
        given = [key for key in captions if captions[key]]
        ids = sorted(given)
        counts = np.array([len(captions[key]) for key in ids], dtype=np.int64)
        offsets = np.concatenate(([0], np.cumsum(counts)))
        place = {key: number for number, key in enumerate(ids)}
        order = np.array([place[key] for key in given], dtype=np.int64)
        texts = tuple(text for key in ids for text in captions[key])
        return cls(tuple(ids), texts, offsets, runs(offsets[:-1][order], counts[order]), name)

    @classmethod
    def of_references(cls, captions: CaptionSet) -> Corpus:
        """The references of a set, or its candidates where it has no references."""
        lists = captions.references if len(captions.references.values) else captions.candidates
        return cls.of({key: lists[number] for number, key in enumerate(captions.ids)}, captions.name)

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def image(self) -> Ints:
        """The image of each caption."""
        return np.repeat(np.arange(len(self.ids)), np.diff(self.offsets))

    @cached_property
    def place(self) -> Ints:
        """The number of each caption among those of its image."""
        return np.arange(len(self.texts)) - self.offsets[self.image]

    @cached_property
    def _tokenised(self) -> tuple[list[str], npt.NDArray[np.int32], Ints]:
        return tokenise(self.texts, TOKENISERS["whitespace"])

    @property
    def chunks(self) -> list[str]:
        """The distinct whitespace tokens."""
        return self._tokenised[0]

    @property
    def tokens(self) -> npt.NDArray[np.int32]:
        """All captions' tokens as numbers of chunks, one after another."""
        return self._tokenised[1]

    @property
    def lengths(self) -> Ints:
        """Tokens of each caption."""
        return self._tokenised[2]

    @cached_property
    def starts(self) -> Ints:
        """The first token of each caption."""
        return np.cumsum(self.lengths) - self.lengths

    @cached_property
    def cores(self) -> list[tuple[str, str, str]]:
        """Of each chunk, the word and the punctuation before and after it; all of a chunk without a word is before."""
        return [_split(chunk) for chunk in self.chunks]

    @cached_property
    def keys(self) -> Ints:
        """Of each chunk, the number of its word in small letters: 0 for a chunk without a word."""
        numbers = {"": 0}
        return np.array([numbers.setdefault(core[1].lower(), len(numbers)) for core in self.cores], dtype=np.int64)

    @cached_property
    def signatures(self) -> Keys:
        """A hash of each caption's words and their order; case and punctuation do not count."""
        return signatures(self.keys[self.tokens], self.lengths)

    def is_own(self, captions: Ints, found: Keys) -> npt.NDArray[np.bool_]:
        """Whether these texts (by signature) are captions of the images of these captions, or hold no word at all."""
        wanted = mixed(found + fork(self._image_salt, 0)[self.image[captions]])
        place = np.minimum(np.searchsorted(self._own, wanted), len(self._own) - 1)
        known: npt.NDArray[np.bool_] = (self._own[place] == wanted) | (found == 0)
        return known

    @cached_property
    def _image_salt(self) -> Keys:
        return np.arange(len(self.ids), dtype=np.uint64)

    @cached_property
    def _own(self) -> Keys:
        return np.sort(mixed(self.signatures + fork(self._image_salt, 0)[self.image]))


def signatures(keys: Ints, lengths: Ints) -> Keys:
    """One hash for each run of word numbers; 0 for a run without a word."""
    row = np.repeat(np.arange(len(lengths)), lengths)
    word = np.flatnonzero(keys > 0)
    row = row[word]
    counts = np.bincount(row, minlength=len(lengths))
    position = np.arange(len(word)) - np.repeat(np.cumsum(counts) - counts, counts)
    hashed = mixed(fork(keys[word].astype(np.uint64), position))
    total = np.concatenate((np.zeros(1, dtype=np.uint64), np.cumsum(hashed, dtype=np.uint64)))
    ends = np.cumsum(counts)
    found: Keys = total[ends] - total[ends - counts]
    return found


def runs(starts: Ints, lengths: Ints) -> Ints:
    """The numbers from each start on, one run after another.

    >>> runs(np.array([7, 2]), np.array([2, 1])).tolist()
    [7, 8, 2]
    """
    return np.repeat(starts - (np.cumsum(lengths) - lengths), lengths) + np.arange(int(lengths.sum()))


def _split(chunk: str) -> tuple[str, str, str]:
    """Punctuation before, word, punctuation after.

    >>> _split('"dogs",'), _split("o'clock"), _split("--")
    (('"', 'dogs', '",'), ('', "o'clock", ''), ('--', '', ''))
    >>> _split("'s")  # in text that is tokenised already
    ('', "'s", '')
    """
    if chunk.isalnum() or chunk.lower() in _CLITICS:
        return "", chunk, ""
    first = next((place for place, letter in enumerate(chunk) if letter.isalnum()), len(chunk))
    end = next((place for place in range(len(chunk), first, -1) if chunk[place - 1].isalnum()), first)
    return chunk[:first], chunk[first:end], chunk[end:]
