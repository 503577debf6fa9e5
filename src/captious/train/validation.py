"""How good the model is by now, on examples it does not learn from: retrieval recall, or the Specificity Rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from captious._typing import Ints
from captious.errors import require
from captious.probes.specificity import exceeds
from captious.train.data import TokenLists
from captious.train.schedule import Rows
from captious.train.towers import Towers, unit

torch = require("torch", "clip")

Tensor = Any
CHUNK = 64


@dataclass(frozen=True)
class Recall:
    """Share of captions whose image is found, and of images of which a caption is found, among the nearest."""

    towers: Towers
    captions: TokenLists
    first: Ints
    images: Ints
    goal: str = "recall"

    def __call__(self) -> dict[str, float]:
        """``recall`` is the mean of both directions at 1."""
        with torch.no_grad():
            images = _images(self.towers, self.images)
            framed = [[self.towers.frame.around(self.captions[row])] for row in range(len(self.captions))]
            texts = _texts(self.towers, framed)
        owner = torch.from_numpy(np.repeat(np.arange(len(self.images)), np.diff(self.first))).to(texts.device)
        rates: dict[str, float] = {}
        for nearest in (1, 5, 10):
            to_image = (texts @ images.T).topk(min(nearest, len(images)), dim=1).indices
            to_text = owner[(images @ texts.T).topk(min(nearest, len(texts)), dim=1).indices]
            own = torch.arange(len(images), device=texts.device)
            rates[f"text_to_image_r{nearest}"] = _share((to_image == owner[:, None]).any(1))
            rates[f"image_to_text_r{nearest}"] = _share((to_text == own[:, None]).any(1))
        return {"recall": (rates["text_to_image_r1"] + rates["image_to_text_r1"]) / 2, **rates}


@dataclass(frozen=True)
class SpecificityRate:
    """The Specificity Rate over all pairs, in percent: as ``captious probe specificity`` counts it, pooled."""

    towers: Towers
    chains: Any
    goal: str = "sr"

    def __call__(self) -> dict[str, float]:
        """``sr`` is the mean of ``sr_pos`` and ``sr_neg``."""
        base: list[Tensor] = []
        right: list[Tensor] = []
        wrong: list[Tensor] = []
        with torch.no_grad():
            for first in range(0, len(self.chains), CHUNK):
                rows = np.arange(first, min(first + CHUNK, len(self.chains)))
                images = _images(self.towers, self.chains.images[rows])
                counts = self.chains.usable[rows]
                groups = [self._chain(row, int(count)) for row, count in zip(rows.tolist(), counts, strict=True)]
                owner = torch.from_numpy(np.repeat(np.arange(len(rows)), 2 * counts + 1)).to(images.device)
                similar = (
                    (_texts(self.towers, groups, chunk=len(groups)) * images[owner])
                    .sum(1)
                    .split((2 * counts + 1).tolist())
                )
                for values, count in zip(similar, counts.tolist(), strict=True):
                    grown = values[: count + 1].flip(0)  # the longest caption comes first: it is the trunk
                    base.append(grown[:-1])
                    right.append(grown[1:])
                    wrong.append(values[count + 1 :])
        bases, rights, wrongs = (torch.cat(part).double().cpu().numpy() for part in (base, right, wrong))
        rates = (exceeds(rights, bases).mean(), exceeds(bases, wrongs).mean())
        positive, negative = (round(100 * float(rate), 4) for rate in rates)
        return {"sr": (positive + negative) / 2, "sr_pos": positive, "sr_neg": negative}

    def _chain(self, row: int, count: int) -> list[Ints]:
        """Captions of count + 1 to 1 units, then the negative of each but the longest."""
        steps = np.arange(count)
        triplets = self.chains.triplets(np.full(count, row), steps)
        captions = [triplets[0][0], *(positive for _, positive, _ in triplets)]
        return [*reversed(captions), *(negative for _, _, negative in triplets)]


def _images(towers: Towers, rows: Rows) -> Tensor:
    parts = [towers.images(towers.image_batch(rows[at : at + CHUNK])) for at in range(0, len(rows), CHUNK)]
    return unit(torch.cat(parts))


def _texts(towers: Towers, groups: list[list[Ints]], chunk: int = 4 * CHUNK) -> Tensor:
    parts = [towers.texts(towers.text_batch(groups[at : at + chunk])) for at in range(0, len(groups), chunk)]
    return unit(torch.cat(parts))


def _share(hits: Tensor) -> float:
    return round(100 * float(hits.float().mean()), 4)
