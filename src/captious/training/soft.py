"""Contrast with several captions of each image, and with targets that know that captions of other images may fit too.

Among a few thousand images many show the same kind of scene, and the plain contrast calls all but one of them wrong.
Here a share of each target follows how near the captions of the images are to each other, judged by the text tower as
it was before training.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from captious.extras import require
from captious.training import losses, processes
from captious.training.objectives import Batch, Contrast
from captious.training.schedule import Rows, draws
from captious.training.texts import Ints
from captious.training.towers import halves

torch = require("torch", "clip")

Tensor = Any
_CAPTIONS = 41
CHUNK = 256


@dataclass
class SoftContrast(Contrast):
    """``per_image`` captions of an image are right at once; ``soften`` is the share of the softened target.

    ``sharpness`` multiplies the cosines of captions before their softmax.
    """

    per_image: int = 2
    soften: float = 0.0
    sharpness: float = 10.0
    _texts: Tensor = field(default=None, init=False, repr=False)
    _images: Tensor = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.soften:
            self._texts = self._judged()
            owner = torch.from_numpy(np.repeat(np.arange(len(self)), np.diff(self.first))).to(self._texts.device)
            sums = torch.zeros(len(self), self._texts.shape[1], device=self._texts.device)
            self._images = losses.unit(sums.index_add_(0, owner, self._texts))

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """See :class:`captious.training.objectives.Objective`."""
        chosen = self.chosen(rows, epoch)
        texts = [[self.towers.frame.around(self.captions[caption])] for caption in chosen.ravel().tolist()]
        pictures = self.towers.pictures(self.images[rows], epoch)
        return Batch(pictures, self.towers.written(texts), (rows, chosen))

    def chosen(self, rows: Rows, epoch: int) -> Ints:
        """Captions of each example, all different where it has enough."""
        counts = self.first[rows + 1] - self.first[rows]
        places = np.arange(max(int(counts.max()), 1))
        captions = self.first[rows][:, None] + places
        keys = np.where(places < counts[:, None], draws(captions, self.seed, epoch, _CAPTIONS), 2.0)
        order = np.argsort(keys, axis=1)
        turns = np.arange(self.per_image) % counts[:, None]
        found: Ints = np.take_along_axis(captions, np.take_along_axis(order, turns, axis=1), axis=1)
        return found

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """See :class:`captious.training.objectives.Objective`."""
        images = losses.unit(self.towers.images(batch.pictures))
        texts = losses.unit(self.towers.texts(batch.written))
        every_image, every_text = (processes.gathered(each, self.gather) for each in (images, texts))
        rows, chosen = batch.extra
        to_text, to_image = self._targets(rows, chosen, images.device)
        scale = self.towers.scale
        one = _entropy(scale * images @ every_text.T, to_text)
        other = _entropy(scale * texts @ every_image.T, to_image)
        return {"loss": (one + other) / 2}

    def _targets(self, rows: Rows, chosen: Ints, device: Any) -> tuple[Tensor, Tensor]:
        """How much of each image belongs to each caption of all processes, and of each caption to each image."""
        share = self.per_image
        first = processes.rank() if self.gather else 0
        world = processes.world() if self.gather else 1
        own = torch.arange(len(rows), device=device) + first * len(rows)
        right = torch.nn.functional.one_hot(own, world * len(rows)).float()
        to_text, to_image = right.repeat_interleave(share, 1) / share, right.repeat_interleave(share, 0)
        if not self.soften:
            return to_text, to_image
        images = self._images[torch.from_numpy(rows).to(device)]
        texts = self._texts[torch.from_numpy(chosen.ravel()).to(device)]
        near = self.sharpness * images @ processes.gathered(texts, self.gather).T
        far = self.sharpness * texts @ processes.gathered(images, self.gather).T
        keep = 1 - self.soften
        return keep * to_text + self.soften * near.softmax(1), keep * to_image + self.soften * far.softmax(1)

    def _judged(self) -> Tensor:
        """Unit vectors of all captions by the text tower as it is now; one that is locked need not see them again."""
        encoder, frame = self.towers.encoder, self.towers.frame
        below, _ = halves(encoder, "text")
        encoder.module.eval()
        order = np.argsort(np.diff(self.captions.offsets), kind="stable")  # texts of one length pad little
        found = []
        with torch.no_grad():
            for at in range(0, len(order), CHUNK):
                texts = [frame.around(self.captions[caption]) for caption in order[at : at + CHUNK].tolist()]
                features = below(torch.from_numpy(frame.stacked(texts)).to(encoder.device)).float()
                if "text" in self.towers.locked:
                    self.towers.learn_texts(texts, features)
                found.append(losses.unit(features))
        return torch.cat(found)[torch.from_numpy(np.argsort(order)).to(encoder.device)]


def _entropy(logits: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, target)
