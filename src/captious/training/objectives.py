"""What is learnt: the contract of an objective, and the two that compare whole captions with images."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from captious.extras import require
from captious.training import losses
from captious.training.schedule import Rows, draws
from captious.training.texts import Ints, TokenLists
from captious.training.towers import Pictures, Towers, Written

torch = require("torch", "clip")

Tensor = Any
_CAPTION = 21


class Batch(NamedTuple):
    """A batch that only has to travel to the device."""

    pictures: Pictures
    written: Written
    extra: Any = None
    """What else an objective wants to find again."""
    joined: int = 1
    """Of how many batches, which are encoded together and whose losses are taken one by one."""


class Objective(Protocol):
    """Batches of examples, and the losses of a batch."""

    towers: Towers
    joins: ClassVar[bool]
    """Whether ``batch`` can lay out several batches as one."""

    def __len__(self) -> int:
        """How many examples there are."""

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """Lay out examples; depends on nothing but the arguments, and may run in any thread."""

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """The losses of a batch by name, means where it is several; ``loss`` is what is minimised."""

    def state(self) -> dict[str, Any]:
        """What is carried from step to step."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what was carried."""

    def after_step(self) -> None:
        """Mend weights after an optimiser step."""


def means(found: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each part over batches."""
    return {key: sum(parts[key] for parts in found) / len(found) for key in found[0]}


@dataclass
class Contrast:
    """CLIP: image and caption belong together, both directions; one caption of each image per epoch, drawn anew."""

    towers: Towers
    captions: TokenLists
    first: Ints
    images: Ints
    seed: int = 0
    gather: bool = True
    most_scale: float = 4.6052
    """The logit scale is held below ln 100, as CLIP's training does."""
    joins: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """See :class:`Objective`."""
        counts = self.first[rows + 1] - self.first[rows]
        chosen = self.first[rows] + (draws(rows, self.seed, epoch, _CAPTION) * counts).astype(np.int64)
        texts = [[self.towers.frame.around(self.captions[caption])] for caption in chosen.tolist()]
        return Batch(self.towers.pictures(self.images[rows], epoch), self.towers.written(texts))

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """See :class:`Objective`."""
        images = losses.unit(self.towers.images(batch.pictures))
        texts = losses.unit(self.towers.texts(batch.written))
        return {"loss": losses.contrast(images, texts, self.towers.scale, gather=self.gather)}

    def state(self) -> dict[str, Any]:
        """Nothing is carried."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing is carried."""

    def after_step(self) -> None:
        """Hold the logit scale."""
        with torch.no_grad():
            self.towers.encoder.logit_scale.clamp_(max=self.most_scale)


@dataclass
class LongShort:
    """LongCLIP: the long caption against the image, its first sentence against the image's coarse features.

    Coarse features are the projection on the first principal components of the batch. Both directions, labels smoothed.
    """

    towers: Towers
    long: TokenLists
    short: TokenLists
    images: Ints
    gather: bool = True
    components: int = 32
    smoothing: float = 0.1
    joins: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """See :class:`Objective`."""
        around = self.towers.frame.around
        texts = [[around(self.long[row]), around(self.short[row])] for row in rows.tolist()]
        return Batch(self.towers.pictures(self.images[rows], epoch), self.towers.written(texts), joined=count)

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """See :class:`Objective`."""
        images = losses.unit(self.towers.images(batch.pictures)).chunk(batch.joined)
        texts = losses.unit(self.towers.texts(batch.written)).unflatten(0, (-1, 2)).chunk(batch.joined)
        return means([self._losses(*pair) for pair in zip(images, texts, strict=True)])

    def _losses(self, images: Tensor, texts: Tensor) -> dict[str, Tensor]:
        long, short = texts.unbind(1)
        coarse = losses.coarse(images, self.components, gather=self.gather)
        scale, gather, smoothing = self.towers.scale, self.gather, self.smoothing
        parts = {
            "long": losses.contrast(images, long, scale, gather=gather, smoothing=smoothing),
            "short": losses.contrast(coarse, short, scale, gather=gather, smoothing=smoothing),
        }
        return {"loss": parts["long"] + parts["short"], **parts}

    def state(self) -> dict[str, Any]:
        """Nothing is carried."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing is carried."""

    def after_step(self) -> None:
        """Nothing to mend."""
