"""A linear n-gram classifier: leakage in seconds, with numpy alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from captious._typing import Floats, Ints
from captious.bias.classifiers.encoding import Captions
from captious.bias.corpus import Progress, Task
from captious.bias.masking import as_words


@dataclass(frozen=True)
class Linear:
    """Softmax regression on which n-grams occur, with a quadratic penalty.

    Minimizes Σ −log p(class) + |W|²/(2·``c``) over captions by Nesterov's method from 0 with a fixed step: the result
    depends on the captions alone. Rare n-grams (fewer than ``least`` training captions) are left out.
    """

    orders: int = 2
    least: int = 2
    c: float = 0.3
    iterations: int = 100

    name = "linear"

    def settings(self) -> Mapping[str, Any]:
        """Everything that can move its numbers."""
        return {"classifier": self.name, **asdict(self)}

    def stacks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """The tasks of one corpus together, for its n-grams are counted once."""
        alike: dict[int, list[Task]] = {}
        for task in tasks:
            alike.setdefault(id(task.captions), []).append(task)
        return list(alike.values())

    def train(self, tasks: Sequence[Task], progress: Progress) -> list[Floats]:
        """Fit each task, give the test captions' class probabilities."""
        read: dict[int, Captions] = {}
        results = []
        for task in tasks:
            if id(task.captions) not in read:
                words = (as_words(caption, task.token, task.style) for caption in task.captions)
                read[id(task.captions)] = Captions.of([ngrams(caption, self.orders) for caption in words])
            results.append(self._train(task, read[id(task.captions)]))
            progress(1.0)
        return results

    def _train(self, task: Task, grams: Captions) -> Floats:
        counts = np.bincount(grams.rows(task.split.train)[0], minlength=grams.vocabulary)
        kept = np.flatnonzero(counts >= self.least)
        columns = np.full(grams.vocabulary, -1, dtype=np.int64)
        columns[kept] = np.arange(len(kept))
        train, test = (_Rows.of(*grams.rows(part), columns, len(kept)) for part in (task.split.train, task.split.test))
        return _softmax(test.times(self._fit(train, task.train_labels, task.classes)))

    def _fit(self, rows: _Rows, labels: Ints, classes: int) -> Floats:
        target = np.eye(classes)[labels]
        ridge = 1 / self.c
        step = 1 / (0.5 * rows.largest_square() + ridge)
        weights = ahead = np.zeros((rows.width, classes))
        pace = 1.0
        for _ in range(self.iterations):
            slope = rows.transposed_times(_softmax(rows.times(ahead)) - target) + ridge * ahead
            new = ahead - step * slope
            quicker = (1 + np.sqrt(1 + 4 * pace * pace)) / 2
            ahead = new + (pace - 1) / quicker * (new - weights)
            weights, pace = new, quicker
        return weights


@dataclass(frozen=True, eq=False)
class _Rows:
    """A sparse matrix of ones; the last column, which every row has, is the intercept."""

    columns: Ints
    rows: Ints
    starts: Ints
    width: int

    @classmethod
    def of(cls, flat: Ints, lengths: Ints, columns: Ints, intercept: int) -> _Rows:
        rows = np.repeat(np.arange(len(lengths)), lengths)
        known = columns[flat] >= 0
        rows = np.concatenate([rows[known], np.arange(len(lengths))])
        found = np.concatenate([columns[flat[known]], np.full(len(lengths), intercept)])
        order = np.argsort(rows, kind="stable")
        return cls(found[order], rows[order], np.searchsorted(rows[order], np.arange(len(lengths))), intercept + 1)

    def times(self, weights: Floats) -> Floats:
        product: Floats = np.add.reduceat(weights[self.columns], self.starts, axis=0)
        return product

    def transposed_times(self, values: Floats) -> Floats:
        spread = values[self.rows]
        return np.stack(
            [np.bincount(self.columns, weights=column, minlength=self.width) for column in spread.T], axis=1
        )

    def largest_square(self) -> float:
        """The largest eigenvalue of XᵀX, from above but for rounding: power iteration from a positive start."""
        vector = np.ones((self.width, 1))
        size = 1.0
        for _ in range(30):
            vector = self.transposed_times(self.times(vector))
            size = float(np.linalg.norm(vector))
            vector = vector / size
        return 1.05 * size


def ngrams(words: Sequence[str], orders: int) -> list[str]:
    """The distinct n-grams of up to ``orders`` words, in alphabetical order.

    >>> ngrams(["a", "red", "kite"], 2)
    ['a', 'a red', 'kite', 'red', 'red kite']
    """
    return sorted({" ".join(words[i : i + n]) for n in range(1, orders + 1) for i in range(len(words) - n + 1)})


def _softmax(logits: Floats) -> Floats:
    powers = np.exp(logits - logits.max(axis=1, keepdims=True))
    shares: Floats = powers / powers.sum(axis=1, keepdims=True)
    return shares
