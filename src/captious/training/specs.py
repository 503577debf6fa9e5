"""Specificity: one more right detail must raise the similarity, one wrong detail must lower it."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar

import numpy as np

from captious.errors import InputError
from captious.extras import require
from captious.training import losses
from captious.training.objectives import Batch, means
from captious.training.schedule import Rows
from captious.training.texts import TokenLists
from captious.training.towers import Towers
from captious.training.triplets import Chains

torch = require("torch", "clip")

Tensor = Any


@dataclass
class Specificity:
    """SPECS: weights · (contrast of the full caption, positive hinge, negative hinge).

    As in the published code the contrast asks only which image a text belongs to, among those of this process;
    ``both`` asks the other direction too, ``gather`` takes the images (and the margin's mean) of all processes.
    """

    towers: Towers
    full: TokenLists
    chains: Chains
    weights: tuple[float, float, float] = (1.0, 8.0, 0.8)
    margin: losses.Margin = field(default_factory=losses.Margin)
    both: bool = False
    gather: bool = False
    joins: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.chains)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """See :class:`captious.training.objectives.Objective`."""
        parts = np.split(rows, count)
        triplets = [one for part in parts for one in self.chains.triplets(part, self.chains.steps(part, epoch), epoch)]
        texts = [
            (self.towers.frame.around(self.full[row]), positive, base, negative)
            for row, (base, positive, negative) in zip(rows.tolist(), triplets, strict=True)
        ]
        return Batch(self.towers.pictures(self.chains.images[rows], epoch), self.towers.written(texts), joined=count)

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """See :class:`captious.training.objectives.Objective`."""
        images = losses.unit(self.towers.images(batch.pictures)).chunk(batch.joined)
        texts = losses.unit(self.towers.texts(batch.written)).unflatten(0, (-1, 4)).chunk(batch.joined)
        return means([self._losses(*pair) for pair in zip(images, texts, strict=True)])

    def _losses(self, images: Tensor, texts: Tensor) -> dict[str, Tensor]:
        scale = self.towers.scale
        positive, base, negative = (scale * (texts[:, 1:] * images[:, None]).sum(-1)).unbind(1)
        contrast = losses.contrast(images, texts[:, 0], scale, both=self.both, gather=self.gather)
        first, second = self.margin.hinges(base, positive, negative, self.gather)
        alpha, beta, gamma = self.weights
        return {
            "loss": alpha * contrast + beta * first + gamma * second,
            "contrast": contrast,
            "positive": first,
            "negative": second,
            "margin": self.margin.value,
            "sr_pos": (positive > base).float().mean(),
            "sr_neg": (base > negative).float().mean(),
        }

    def state(self) -> dict[str, Any]:
        """The margin."""
        return {"margin": self.margin.value.detach().clone()}

    def restore(self, state: dict[str, Any]) -> None:
        """The margin."""
        self.margin.value = state["margin"].to(self.towers.encoder.device)

    def after_step(self) -> None:
        """Nothing to mend."""


def weights_of(text: str) -> tuple[float, float, float]:
    """Three loss weights.

    >>> weights_of("1,8,0.8")
    (1.0, 8.0, 0.8)
    """
    try:
        alpha, beta, gamma = (float(part) for part in text.replace(":", ",").split(","))
    except ValueError:
        raise InputError(f"weights {text!r}, expected three numbers such as 1,8,0.8") from None
    return alpha, beta, gamma
