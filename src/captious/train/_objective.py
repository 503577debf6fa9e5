"""The contract of an objective: batches of examples, losses of a batch; and how a training puts one together."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from captious.options import Runtime
from captious.train._data import Example, read_examples
from captious.train._schedule import Rows
from captious.train.options import Settings, Training

Tensor = Any


class TrainingBatch(NamedTuple):
    """A batch that only has to travel to the device."""

    images: Any
    texts: Any
    extra: Any = None
    """What else an objective needs for its losses."""
    joined: int = 1
    """Number of batches that are encoded together and whose losses are taken one by one."""


class Objective(ABC):
    """Batches of examples, and the losses of a batch."""

    towers: Any
    joins: ClassVar[bool] = False
    """Whether ``batch`` can lay out several batches as one."""

    @property
    def model(self) -> Any:
        """What learns: it has a ``module``, a ``device`` and ``save``."""
        return self.towers.encoder

    @property
    def scale(self) -> Tensor:
        """The factor on similarities, for the log."""
        return self.towers.scale

    @abstractmethod
    def __len__(self) -> int:
        """How many examples there are."""

    @abstractmethod
    def batch(self, rows: Rows, epoch: int, count: int = 1) -> TrainingBatch:
        """Lay out examples; depends on nothing but the arguments, and may run in any thread."""

    @abstractmethod
    def parts(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """The losses of a batch by name, means where it is several; ``loss`` is what is minimized."""

    def state(self) -> dict[str, Any]:
        """What is carried from step to step."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:  # noqa: B027 - most objectives carry nothing
        """Take up what was carried."""

    def after_step(self) -> None:  # noqa: B027 - most objectives have nothing to do
        """Correct weights after an optimizer step."""


class Validation(Protocol):
    """Figures of the model on examples that it does not learn from."""

    @property
    def goal(self) -> str:
        """The figure by which the best model is chosen."""

    def __call__(self) -> dict[str, float]:
        """The figures by name."""


@dataclass(frozen=True)
class Job:
    """What was asked for, with nothing left open."""

    training: Training
    options: Any
    settings: Settings
    runtime: Runtime

    @property
    def data(self) -> str:
        """The file of the rows."""
        return str(self.training.data)


@dataclass
class Method(ABC):
    """An objective as a plug-in of a training: its examples, its model, its losses and its validation."""

    job: Job
    notes: list[str] = field(default_factory=list)
    """What a user should know."""
    merges: ClassVar[bool] = False
    """Whether all rows of an image are one example."""

    def examples(self) -> tuple[list[Example], list[Example]]:
        """Examples to learn from, and to validate on."""
        training = self.job.training
        skip = training.missing == "skip"
        examples, notes = read_examples(self.job.data, training.images, skip, self.merges)
        self.notes += notes
        if training.validate is None:
            return examples, []
        checks, notes = read_examples(training.validate, training.images, skip, self.merges)
        self.notes += [f"validation: {note}" for note in notes]
        return examples, checks

    @abstractmethod
    def start(self, examples: Sequence[Example]) -> Any:
        """The model that learns."""

    @abstractmethod
    def objective(self, examples: Sequence[Example], model: Any) -> Objective:
        """What the model learns from the examples."""

    @abstractmethod
    def validation(self, checks: Sequence[Example], model: Any) -> Validation:
        """How good the model is on the other examples."""

    def keep(self, model: Any) -> None:  # noqa: B027 - most models need nothing besides themselves
        """Put into the output folder what the model cannot do without."""
