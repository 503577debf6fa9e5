"""Interface of training objectives: batches of examples, losses of a batch; and their use by a training."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

from captious.options import Runtime
from captious.train._data import Example, read_examples
from captious.train._schedule import Rows
from captious.train.training_options import Settings, Training

Tensor = Any


class TrainingBatch(NamedTuple):
    """A batch that is ready to be moved to the device."""

    images: Any
    texts: Any
    extra: Any = None
    """Further inputs of the losses."""
    joined: int = 1
    """Number of batches that are encoded together, with separate losses."""


class Objective(ABC):
    """A training objective: batches of examples, and the losses of a batch."""

    towers: Any
    joins: ClassVar[bool] = False
    """Whether ``batch`` can prepare several batches as one."""

    @property
    def model(self) -> Any:
        """The trained model, with ``module``, ``device`` and ``save``."""
        return self.towers.encoder

    @property
    def scale(self) -> Tensor:
        """The factor on similarities, for the log."""
        return self.towers.scale

    @abstractmethod
    def __len__(self) -> int:
        """Return the number of examples."""

    @abstractmethod
    def batch(self, rows: Rows, epoch: int, count: int = 1) -> TrainingBatch:
        """Prepare a batch; depends only on the arguments, and may run in any thread."""

    @abstractmethod
    def parts(self, batch: TrainingBatch) -> dict[str, Tensor]:
        """Compute the losses of a batch by name, averaged over joined batches; ``loss`` is minimized."""

    def state(self) -> dict[str, Any]:
        """Return the state carried from step to step."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:  # noqa: B027 - most objectives have no state
        """Restore the state."""

    def after_step(self) -> None:  # noqa: B027 - most objectives have nothing to do
        """Adjust weights after an optimizer step."""


class Validation(Protocol):
    """Scores of the model on examples that it is not trained on."""

    @property
    def goal(self) -> str:
        """The score that selects the best model."""

    def __call__(self) -> dict[str, float]:
        """Return the scores by name."""


@dataclass(frozen=True)
class Job:
    """A training with all of its options resolved."""

    training: Training
    options: Any
    settings: Settings
    runtime: Runtime

    @property
    def data(self) -> str:
        """The path of the training data."""
        return str(self.training.data)


@dataclass
class Method(ABC):
    """A kind of training: its examples, model, losses and validation."""

    job: Job
    notes: list[str] = field(default_factory=list)
    """Messages for the user."""
    merges: ClassVar[bool] = False
    """Whether all rows of an image are one example."""

    def examples(self) -> tuple[list[Example], list[Example]]:
        """Read the training and the validation examples."""
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
        """Load or make the model to train."""

    @abstractmethod
    def objective(self, examples: Sequence[Example], model: Any) -> Objective:
        """Make the objective from the examples."""

    @abstractmethod
    def validation(self, checks: Sequence[Example], model: Any) -> Validation:
        """Make the validation from the validation examples."""

    def keep(self, model: Any) -> None:  # noqa: B027 - most models need nothing besides themselves
        """Copy files that the model needs into the output folder."""
