"""What UMIC learns: the true caption of an image above wrong ones, by a margin, on sigmoid scores."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple

import numpy as np
import numpy.typing as npt

from captious.extras import require
from captious.training.schedule import Rows
from captious.umic.backbone import Backbone, Pictures, Texts

torch = require("torch", "clip")

Tensor = Any
Ints = npt.NDArray[np.int64]
CHUNK = 64
"""Captions that validation judges at a time, each with its negatives."""


@dataclass(frozen=True)
class Learner:
    """The backbone where the loop looks for an encoder."""

    encoder: Backbone

    @property
    def scale(self) -> Tensor:
        """One number for the log."""
        return self.encoder.scale


@dataclass(frozen=True, eq=False)
class Table:
    """Captions with their negatives: text numbers, n × (1 + kinds), −1 where a negative could not be made."""

    kinds: tuple[str, ...]
    image: Ints
    """The image of each caption."""
    numbers: Sequence[Ints]
    """One array for each draw of negatives."""

    def rows(self, rows: Rows, draw: int) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Texts of some captions and which negatives are there; the caption itself stands in for those that are not."""
        numbers = self.numbers[draw % len(self.numbers)][rows]
        return np.where(numbers < 0, numbers[:, :1], numbers), numbers[:, 1:] >= 0


class Batch(NamedTuple):
    """A batch laid out for the backbone."""

    pictures: Any
    texts: Any
    there: Tensor


@dataclass
class Patience:
    """Stops a training after so many validations without a new best; 0 never does."""

    most: int = 0
    best: float = float("-inf")
    since: int = 0

    def see(self, value: float) -> bool:
        """Note a validation; True when it is enough."""
        self.best, self.since = (value, 0) if value > self.best else (self.best, self.since + 1)
        return bool(self.most) and self.since >= self.most


@dataclass
class Ranking:
    """See :class:`captious.training.objectives.Objective`."""

    backbone: Backbone
    pictures: Pictures
    texts: Texts
    table: Table
    margin: float = 0.2
    patience: Patience = field(default_factory=Patience)
    joins: ClassVar[bool] = False

    def __post_init__(self) -> None:
        self.towers = Learner(self.backbone)

    def __len__(self) -> int:
        return len(self.table.image)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """Images, each with its caption and that caption's negatives of this epoch."""
        numbers, there = self.table.rows(rows, epoch)
        pictures = self.pictures.take(self.table.image[rows])
        return Batch(pictures, self.texts.take(numbers), torch.from_numpy(there).to(self.backbone.device))

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """The hinge, the share of negatives that are ranked below, and mean scores."""
        scores = torch.sigmoid(self.backbone.logits(batch.pictures, batch.texts).float())
        return losses(scores, batch.there, self.margin)

    def state(self) -> dict[str, Any]:
        """How long the best validation is past."""
        return {"best": self.patience.best, "since": self.patience.since}

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what was carried."""
        self.patience.best, self.patience.since = state["best"], state["since"]

    def after_step(self) -> None:
        """Nothing to mend."""


def losses(scores: Tensor, there: Tensor, margin: float) -> dict[str, Tensor]:
    """Of scores n × (1 + kinds), the true caption first: mean over its negatives of max(0, margin + s⁻ − s⁺).

    >>> scores = torch.tensor([[0.7, 0.4, 0.6], [0.5, 0.9, 0.5]])
    >>> found = losses(scores, torch.tensor([[True, True], [True, False]]), margin=0.2)
    >>> [round(float(found[name]), 3) for name in ("loss", "ranked")]  # (0 + .1) / 2 and .6, then their mean
    [0.325, 0.667]
    """
    gaps = scores[:, :1] - scores[:, 1:]
    known = there.to(scores.dtype)
    each = (torch.relu(margin - gaps) * known).sum(1) / known.sum(1).clamp(min=1)
    wrong = (scores[:, 1:] * known).sum() / known.sum().clamp(min=1)
    ranked = ((gaps > 0) * known).sum() / known.sum().clamp(min=1)
    return {"loss": each.mean(), "ranked": ranked, "right": scores[:, 0].mean(), "wrong": wrong}


@dataclass(frozen=True)
class Accuracy:
    """Share of negatives that score strictly below their caption, in per cent, by kind; ``ranking`` is over all.

    A kind of which there is no negative is left out.
    """

    backbone: Backbone
    pictures: Pictures
    texts: Texts
    table: Table
    goal: str = "ranking"

    def __call__(self) -> dict[str, float]:
        """Judge every caption of the table with its negatives."""
        right, total = np.zeros(len(self.table.kinds)), np.zeros(len(self.table.kinds))
        with torch.no_grad():
            for start in range(0, len(self.table.image), CHUNK):
                rows = np.arange(start, min(start + CHUNK, len(self.table.image)))
                numbers, there = self.table.rows(rows, 0)
                batch = self.pictures.take(self.table.image[rows]), self.texts.take(numbers)
                logits = self.backbone.logits(*batch).double().cpu().numpy()
                right += ((logits[:, :1] > logits[:, 1:]) & there).sum(axis=0)
                total += there.sum(axis=0)
        shares = {kind: _share(one, of) for kind, one, of in zip(self.table.kinds, right, total, strict=True) if of}
        return {"ranking": _share(right.sum(), total.sum()), **shares}


def _share(part: float, whole: float) -> float:
    return round(100 * float(part) / float(whole), 4)
