"""Captions as padded arrays of word numbers, and the mini-batches of an epoch, for many runs in parallel."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from captious._core.types import Ints, Ints32
from captious.bias.corpus import ClassifierTask
from captious.bias.masks import as_words
from captious.text.ngram_tables import take_runs

PAD, UNSEEN = 0, 1


class Padded(NamedTuple):
    """A captions × words array, padded with ``PAD``, and the number of words of each caption."""

    words: Ints32
    lengths: Ints


@dataclass(frozen=True, eq=False)
class Captions:
    """Lists of words, or of n-grams, as indices into a sorted vocabulary; shared by the tasks of all seeds."""

    vocabulary: list[str]
    flat: Ints
    starts: Ints
    lengths: Ints

    @classmethod
    def of(cls, lists: Sequence[Collection[str]]) -> Captions:
        """Assign a number to each word of the lists.

        >>> Captions.of([["a", "dog"], ["a"]]).flat.tolist()
        [0, 1, 0]
        """
        vocabulary = sorted({word for words in lists for word in words})
        numbers = {word: number for number, word in enumerate(vocabulary)}
        lengths = np.array([len(words) for words in lists], dtype=np.int64)
        flat = np.array([numbers[word] for words in lists for word in words], dtype=np.int64)
        return cls(vocabulary, flat, np.cumsum(lengths) - lengths, lengths)

    def ngrams(self, orders: int) -> Captions:
        """Return the distinct n-grams of up to ``orders`` words of each list.

        >>> grams = Captions.of([["a", "red", "kite"], ["red", "red"]]).ngrams(2)
        >>> grams.vocabulary
        ['a', 'a red', 'kite', 'red', 'red kite', 'red red']
        >>> grams.lengths.tolist(), grams.flat.tolist()
        ([5, 2], [0, 1, 2, 3, 4, 3, 5])
        """
        owner = np.repeat(np.arange(len(self.lengths)), self.lengths)
        left = np.repeat(self.starts + self.lengths, self.lengths) - np.arange(len(self.flat))
        base, vocabulary = len(self.vocabulary) + 1, self.vocabulary
        # For each order: the positions at which its n-grams start, and the numbers of these n-grams. An n-gram is coded
        # as (number of its first n-1 words) · base + last word + 1; a last digit of 0 codes a shorter n-gram.
        begins, numbers = [np.arange(len(self.flat))], [self.flat]
        for n in range(1, orders):
            longer = left[begins[-1]] > n
            begins.append(begins[-1][longer])
            codes = [number * base for number in numbers]
            codes.append(codes[-1][longer] + self.flat[begins[-1] + n] + 1)
            distinct, inverse = np.unique(np.concatenate(codes), return_inverse=True)
            numbers = np.split(inverse, np.cumsum([len(code) for code in codes])[:-1])
            vocabulary = [
                f"{vocabulary[code // base]} {self.vocabulary[code % base - 1]}"
                if code % base
                else vocabulary[code // base]
                for code in distinct.tolist()
            ]
        keys = np.sort(owner[np.concatenate(begins)] * len(vocabulary) + np.concatenate(numbers))
        keys = keys[np.diff(keys, prepend=-1) > 0]  # np.unique hashes, which is ten times as slow here
        owner, flat = np.divmod(keys, max(len(vocabulary), 1))
        lengths = np.bincount(owner, minlength=len(self.lengths))
        return Captions(vocabulary, flat, np.cumsum(lengths) - lengths, lengths)

    def rows(self, indices: Ints) -> tuple[Ints, Ints]:
        """Return the concatenated numbers of some lists, and the length of each."""
        lengths = self.lengths[indices]
        return take_runs(self.flat, self.starts[indices], lengths), lengths

    def pad(self, indices: Ints, numbers: Ints) -> Padded:
        """Renumber some lists and pad them to the longest."""
        flat, lengths = self.rows(indices)
        present = np.arange(int(lengths.max())) < lengths[:, None]
        words = np.full(present.shape, PAD, dtype=np.int32)
        words[present] = numbers[flat]
        return Padded(words, lengths)


def pair_with_captions(
    tasks: Sequence[ClassifierTask], read: Callable[[ClassifierTask], Captions]
) -> Iterator[tuple[ClassifierTask, Captions]]:
    """Yield each task with the captions of its corpus, which are read once for all its tasks."""
    by_corpus: dict[int, Captions] = {}
    for task in tasks:
        key = id(task.captions)
        if key not in by_corpus:
            by_corpus[key] = read(task)
        yield task, by_corpus[key]


class EncodedTask(NamedTuple):
    """A task's captions as word numbers; the vocabulary is that of its training captions, most frequent first."""

    size: int
    """The size of the vocabulary, padding and the unseen word included."""
    train: Padded
    test: Padded


def encode(tasks: Sequence[ClassifierTask], most: int) -> list[EncodedTask]:
    """Encode captions as word numbers; a word that is not among the ``most`` frequent of training is ``UNSEEN``."""
    encoded = []
    for task, captions in pair_with_captions(tasks, _read_words):
        counts = np.bincount(captions.rows(task.split.train)[0], minlength=len(captions.vocabulary))
        frequent = np.argsort(-counts, kind="stable")[: min(most, int(np.count_nonzero(counts)))]
        numbers = np.full(len(captions.vocabulary), UNSEEN, dtype=np.int64)
        numbers[frequent] = np.arange(2, len(frequent) + 2)
        train, test = (captions.pad(part, numbers) for part in task.split)
        encoded.append(EncodedTask(len(frequent) + 2, train, test))
    return encoded


def _read_words(task: ClassifierTask) -> Captions:
    """Read the words of each caption; an empty caption becomes one word, because an LSTM needs at least one."""
    return Captions.of([as_words(caption, task.token, task.style) or [""] for caption in task.captions])


def stack_words(runs: Sequence[Padded]) -> tuple[Ints32, Ints]:
    """Stack runs with equally many captions: runs × captions × words, and lengths.

    >>> one, two = Padded(np.array([[5, 6]]), np.array([2])), Padded(np.array([[7]]), np.array([1]))
    >>> words, lengths = stack_words([one, two])
    >>> words.tolist(), lengths.tolist()
    ([[[5, 6]], [[7, 0]]], [[2], [1]])
    """
    longest = max(run.words.shape[1] for run in runs)
    words = np.full((len(runs), len(runs[0].lengths), longest), PAD, dtype=np.int32)
    for row, run in zip(words, runs, strict=True):
        row[:, : run.words.shape[1]] = run.words
    return words, np.stack([run.lengths for run in runs])


def draw_batches(lengths: Ints, generators: Sequence[np.random.Generator], epoch: int, size: int) -> Ints:
    """Draw the batches of one epoch: batches × runs × captions indices, −1 where a batch is not full.

    As in the originals' bucketing, a run's captions are shuffled, sorted by length and split into batches, which come
    in random order. The content of a batch is drawn for each run; the order of short and long batches is drawn for the
    epoch only, so that runs trained together have batches of similar lengths at the same time, with little padding.
    """
    runs, captions = lengths.shape
    batches = -(-captions // size)
    drawn = np.full((runs, batches * size), -1, dtype=np.int64)
    for run, generator in enumerate(generators):
        shuffled = generator.permutation(captions)
        drawn[run, :captions] = shuffled[np.argsort(lengths[run, shuffled], kind="stable")]
    order = np.random.default_rng([epoch, batches]).permutation(batches)
    ordered: Ints = drawn.reshape(runs, batches, size).transpose(1, 0, 2)[order]
    return ordered
