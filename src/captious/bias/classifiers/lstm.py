"""The bi-LSTM classifier of the LIC and RELIC papers; many runs are trained at once, stacked in one tensor."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from captious._core.types import Floats
from captious.bias.corpus import ClassifierTask, Progress
from captious.errors import require
from captious.models.devices import resolve_device
from captious.options import get_runtime

# Default number of runs per stack: on a CPU those of one captioner and seed, on a GPU as many as keep it busy.
ON_CPU, ON_GPU = 6, 256


@dataclass(frozen=True)
class Lstm:
    """A random embedding, two bi-LSTM layers, the last states of both directions, one logit (or one per class).

    The vocabulary is that of the training split (at most ``words``); dropout is on the embeddings, between the layers
    and before the output; Adam; a fixed number of epochs, no validation. RELIC's paper has a learning rate of 1e-5, the
    code of both papers has 5e-5, which is the default here.
    """

    embedding: int = 100
    hidden: int = 256
    layers: int = 2
    dropout: float = 0.5
    rate: float = 5e-5
    batch: int = 64
    epochs: int = 20
    words: int = 25_000
    dtype: str = "float32"
    stack: int = 0
    """Largest number of runs trained together; 0 for the default of the device. It does not change the numbers."""

    name = "lstm"

    def settings(self) -> Mapping[str, Any]:
        """Return every setting that can change results; a GPU multiplies in TF32, so the device is included."""
        version = require("torch", "bias").__version__
        chosen = {key: value for key, value in asdict(self).items() if key != "stack"}
        products = "tf32" if resolve_device(get_runtime().device).type == "cuda" else self.dtype
        return {"classifier": self.name, **chosen, "products": products, "torch": version}

    def group_tasks(self, tasks: Sequence[ClassifierTask]) -> list[list[ClassifierTask]]:
        """Group tasks of the same size, in their order, so that early seeds are finished first."""
        limit = self.stack or (ON_GPU if resolve_device(get_runtime().device).type == "cuda" else ON_CPU)
        by_size: dict[tuple[int, int, int], list[ClassifierTask]] = {}
        for task in tasks:
            by_size.setdefault((len(task.split.train), len(task.split.test), task.classes), []).append(task)
        stacks = []
        for group in by_size.values():
            # Equal sizes: two stacks of 150 need less memory than one of 256 and one of 44, in the same time.
            number = math.ceil(len(group) / limit)
            stack_size = math.ceil(len(group) / number)
            stacks += [group[first : first + stack_size] for first in range(0, len(group), stack_size)]
        return stacks

    def train(self, tasks: Sequence[ClassifierTask], progress: Progress) -> list[Floats]:
        """Train the tasks as one stack; return the class probabilities of each one's test captions."""
        from captious.bias.classifiers._stack import train

        return train(self, tasks, progress)
