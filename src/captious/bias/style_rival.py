"""Trained classifiers of styles, cross-fitted: the rivals of a metric that counts n-grams."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.bias.classifiers.linear import Linear
from captious.bias.corpus import Classifier, ClassifierTask, Progress, TrainTestSplit
from captious.bias.masks import tokenize_captions


def cross_fit(
    classifier: Classifier,
    texts: Sequence[str],
    styles: Sequence[str],
    folds: Sequence[Bools],
    seeds: int,
    progress: Progress = lambda done: None,
) -> tuple[Floats, Floats]:
    """Train a classifier outside of each fold and test it inside; return two shares for each training seed.

    The share of captions whose own style is the most likely one, and, averaged over captions, the share of the other
    styles that are less likely than the own one. A tie fails, as for OnlyStyle.
    """
    if isinstance(classifier, Linear):
        seeds = 1  # its result depends on the captions only
    names = sorted(set(styles))
    numbers = {name: number for number, name in enumerate(names)}
    labels = np.array([numbers[style] for style in styles], dtype=np.int64)
    captions = tokenize_captions(texts)
    tasks = [
        ClassifierTask(
            captions,
            labels,
            len(names),
            TrainTestSplit(np.flatnonzero(~inside), np.flatnonzero(inside)),
            seed,
            f"fold-{fold}",
        )
        for seed in range(seeds)
        for fold, inside in enumerate(folds)
    ]
    first, wins = np.zeros((seeds, len(labels))), np.zeros((seeds, len(labels)))
    for group in classifier.group_tasks(tasks):
        for task, likely in zip(group, classifier.train(group, progress), strict=True):
            below = _count_below(likely, task.test_labels)
            first[task.seed, task.split.test] = below == len(names) - 1
            wins[task.seed, task.split.test] = below / (len(names) - 1)
    return first.mean(axis=1), wins.mean(axis=1)


def _count_below(likely: Floats, own: Ints) -> Ints:
    """Return how many classes are less likely than each caption's own.

    >>> _count_below(np.array([[0.2, 0.5, 0.3], [0.4, 0.4, 0.2]]), np.array([1, 0])).tolist()
    [2, 1]
    """
    below: Ints = (likely < likely[np.arange(len(own)), own][:, None]).sum(axis=1)
    return below
