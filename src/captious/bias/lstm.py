"""The bi-LSTM classifier of Hirota et al. (2022), many runs trained at once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from captious.bias.tasks import Progress, Task
from captious.errors import InputError
from captious.extras import require
from captious.measurement import Floats

ON_CPU, ON_GPU = 6, 256
"""Runs trained together: on a CPU one captioner's seed, on a GPU as many as keep it busy."""


@dataclass(frozen=True)
class Lstm:
    """Random embedding, two bi-LSTM layers, the last states of both directions, one logit (or one per class).

    The words of the training split only (at most ``words``); dropout on the embeddings, between the layers and before
    the output; Adam; a fixed number of epochs, no validation. RELIC's text says a learning rate of 1e-5, the code of
    both papers has 5e-5, which is the default here.
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
    device: str = "auto"
    stack: int = 0
    """Most runs trained together; 0 for what suits the device. It does not move the numbers."""

    name = "lstm"

    def settings(self) -> Mapping[str, Any]:
        """Everything that can move its numbers; a GPU multiplies in TF32, so it counts."""
        kept = {key: value for key, value in asdict(self).items() if key not in ("device", "stack")}
        products = "tf32" if self.where() == "cuda" else self.dtype
        return {"classifier": self.name, **kept, "products": products, "torch": require("torch", "bias").__version__}

    def where(self) -> str:
        """The device in use."""
        return device_named(self.device)

    def stacks(self, tasks: Sequence[Task]) -> list[list[Task]]:
        """Tasks of the same size together, in the given order, so that early seeds are finished first."""
        most = self.stack or (ON_GPU if self.where() == "cuda" else ON_CPU)
        alike: dict[tuple[int, int, int], list[Task]] = {}
        for task in tasks:
            alike.setdefault((len(task.split.train), len(task.split.test), task.classes), []).append(task)
        # Equal shares: two stacks of 150 take less memory than one of 256 and one of 44, and as long.
        parts = {key: -(-len(group) // most) for key, group in alike.items()}
        shares = {key: -(-len(group) // parts[key]) for key, group in alike.items()}
        return [
            group[first : first + shares[key]]
            for key, group in alike.items()
            for first in range(0, len(group), shares[key])
        ]

    def train(self, tasks: Sequence[Task], progress: Progress) -> list[Floats]:
        """Train the tasks side by side."""
        from captious.bias import stacked

        return stacked.train(self, tasks, progress)


def device_named(name: str) -> str:
    """``cuda`` or ``cpu``; ``auto`` takes the GPU where there is one.

    >>> device_named("cpu")
    'cpu'
    """
    if name not in ("auto", "cpu", "cuda"):
        raise InputError(f"device {name!r}: expected auto, cpu or cuda")
    if name == "cpu":
        return name
    there = bool(require("torch", "bias").cuda.is_available())
    if name == "cuda" and not there:
        raise InputError("device 'cuda': torch finds no GPU here, expected cpu or auto")
    return "cuda" if there else "cpu"
