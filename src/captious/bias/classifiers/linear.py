"""A linear n-gram classifier, which measures leakage in seconds, without torch."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
from scipy.sparse import csr_array
from scipy.special import softmax

from captious._core.types import Bools, Floats, Ints
from captious.bias.classifiers._encoding import Captions, pair_with_captions
from captious.bias.corpus import ClassifierTask, Progress
from captious.bias.masks import as_words


@dataclass(frozen=True)
class Linear:
    """Softmax regression on the presence of n-grams, with a quadratic penalty.

    It minimizes Σ −log p(class) + |W|²/(2·``c``) over captions by Nesterov's method from 0 with a fixed step, so the
    result depends only on the captions. N-grams of fewer than ``least`` training captions are ignored.
    """

    orders: int = 2
    least: int = 2
    c: float = 0.3
    iterations: int = 100

    name = "linear"

    def settings(self) -> Mapping[str, Any]:
        """Return every setting that can change results."""
        return {"classifier": self.name, **asdict(self)}

    def group_tasks(self, tasks: Sequence[ClassifierTask]) -> list[list[ClassifierTask]]:
        """Group the tasks of one corpus, so that its n-grams are counted once."""
        by_corpus: dict[int, list[ClassifierTask]] = {}
        for task in tasks:
            by_corpus.setdefault(id(task.captions), []).append(task)
        return list(by_corpus.values())

    def train(self, tasks: Sequence[ClassifierTask], progress: Progress) -> list[Floats]:
        """Fit each task; return the class probabilities of its test captions."""
        results = []
        for task, grams in pair_with_captions(tasks, self._count_ngrams):
            results.append(self._train(task, grams))
            progress(1.0)
        return results

    def _count_ngrams(self, task: ClassifierTask) -> Captions:
        return Captions.of([as_words(caption, task.token, task.style) for caption in task.captions]).ngrams(self.orders)

    def _train(self, task: ClassifierTask, grams: Captions) -> Floats:
        counts = np.bincount(grams.rows(task.split.train)[0], minlength=len(grams.vocabulary))
        frequent = counts >= self.least
        train, test = (_build_matrix(*grams.rows(part), frequent) for part in (task.split.train, task.split.test))
        probabilities: Floats = softmax(test @ self._fit(train, task.train_labels, task.classes), axis=1)
        return probabilities

    def _fit(self, rows: csr_array, labels: Ints, classes: int) -> Floats:
        """Fit the weights, n-grams × classes."""
        # Classes are rows inside the loop: a product with one vector per class is twice as fast as one with a matrix.
        target = np.ascontiguousarray(np.eye(classes)[labels].T)
        transposed, ridge = rows.T.tocsr(), 1 / self.c
        # The Hessian of softmax regression is at most ½XᵀX + ridge, which bounds the step of gradient descent.
        step = 1 / (0.5 * _bound_largest_eigenvalue(rows, transposed) + ridge)
        # Nesterov's accelerated gradient: `ahead` is extrapolated from the last two iterates.
        weights = ahead = np.zeros((classes, rows.shape[1]))
        momentum = 1.0
        for _ in range(self.iterations):
            error = softmax(np.stack([rows @ row for row in ahead]), axis=0) - target
            gradient = np.stack([transposed @ row for row in error]) + ridge * ahead
            new = ahead - step * gradient
            next_momentum = (1 + np.sqrt(1 + 4 * momentum * momentum)) / 2
            ahead = new + (momentum - 1) / next_momentum * (new - weights)
            weights, momentum = new, next_momentum
        result: Floats = weights.T
        return result


def _build_matrix(flat: Ints, lengths: Ints, frequent: Bools) -> csr_array:
    """Build the matrix captions × frequent n-grams, 1 where a caption has the n-gram; the last column is the intercept.

    ``flat`` are the n-grams of all captions, concatenated, and ``lengths`` their numbers.
    """
    column = np.cumsum(frequent, dtype=np.int32) - 1
    captions = np.arange(len(lengths), dtype=np.int32)
    rows, kept = np.repeat(captions, lengths), frequent[flat]
    intercept = np.full(len(lengths), frequent.sum(), dtype=np.int32)
    indices = np.concatenate([rows[kept], captions]), np.concatenate([column[flat[kept]], intercept])
    return csr_array((np.ones(len(indices[0])), indices), shape=(len(lengths), int(frequent.sum()) + 1))


def _bound_largest_eigenvalue(rows: csr_array, transposed: csr_array) -> float:
    """Return an upper bound of the largest eigenvalue of XᵀX.

    30 power iterations approach the eigenvalue from below, so 5 % are added.
    """
    vector = np.ones(rows.shape[1])
    size = 1.0
    for _ in range(30):
        vector = transposed @ (rows @ vector)
        size = float(np.linalg.norm(vector))
        vector = vector / size
    return 1.05 * size
