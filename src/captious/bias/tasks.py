"""One classifier to train and test: which captions, which split, which seed. Tasks know nothing of each other."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from captious.bias.masking import Style, Tokens
from captious.bias.splits import Split
from captious.measurement import Floats

Progress = Callable[[float], None]
"""Told how many tasks more are done, in fractions."""


@dataclass(frozen=True, eq=False)
class Task:
    """Masked captions with labels, split for one seed.

    ``role`` is ``model`` or ``human-0`` … ``human-4``. All randomness of a task comes from its seed and role: not from
    the captioner's name, so that captioners are compared under the same draws, and not from the tasks beside it.
    """

    captions: Sequence[Tokens]
    labels: npt.NDArray[np.int64]
    classes: int
    split: Split
    seed: int
    role: str
    token: str = "maskword"
    style: Style = "plain"

    @property
    def train_labels(self) -> npt.NDArray[np.int64]:
        """Classes of the captions to train on."""
        return self.labels[self.split.train]

    @property
    def test_labels(self) -> npt.NDArray[np.int64]:
        """Classes of the captions to test on."""
        return self.labels[self.split.test]

    @cached_property
    def entropy(self) -> list[int]:
        """Words to seed generators with."""
        words = np.frombuffer(hashlib.sha256(f"{self.seed}/{self.role}".encode()).digest(), dtype="<u4")
        return [int(word) for word in words]

    @cached_property
    def digest(self) -> str:
        """Stands for everything that the result of a given classifier depends on."""
        state = hashlib.sha256(f"{self.seed}|{self.role}|{self.token}|{self.style}|{self.classes}".encode())
        for part in (self.split.train, self.split.test):
            for position in part.tolist():
                line = f"{self.labels[position]}\x1f{' '.join(self.captions[position])}\x1e"
                state.update(line.encode("utf-8", "surrogatepass"))
            state.update(b"\x1d")
        return state.hexdigest()[:24]


class Classifier(Protocol):
    """What learns a label from captions."""

    @property
    def name(self) -> str:
        """What tables call it."""

    def settings(self) -> Mapping[str, Any]:
        """Everything that can move its numbers."""

    def stacks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Tasks in the groups they are to be trained in."""

    def train(self, tasks: Sequence[Task], progress: Progress) -> list[Floats]:
        """Train each task and give the class probabilities of its test captions, one row each."""
