"""Validation during training: retrieval recall, or the Specificity Rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from captious._core.types import Ints
from captious.errors import require
from captious.probes.retrieval import DEPTHS, rank_both_ways
from captious.probes.specificity import Steps
from captious.probes.vectors import Vectors
from captious.train._data import TokenLists
from captious.train._schedule import Rows
from captious.train._towers import Towers, normalize

torch = require("torch", "clip")

Tensor = Any
CHUNK = 64


@dataclass(frozen=True)
class RetrievalValidation:
    """Recall of images by captions and of captions by images."""

    towers: Towers
    captions: TokenLists
    first: Ints
    images: Ints
    goal: str = "recall"

    def __call__(self) -> dict[str, float]:
        """Return the recalls in percent; ``recall`` is the mean of both directions at 1."""
        with torch.no_grad():
            images = _encode_images(self.towers, self.images)
            framed = [[self.towers.frame.around(self.captions[row])] for row in range(len(self.captions))]
            texts = _encode_texts(self.towers, framed)
        owner = np.repeat(np.arange(len(self.images)), np.diff(self.first))
        pictures, wordings = (Vectors.of(part.float().cpu().numpy()) for part in (images, texts))
        to_image, to_text = rank_both_ways(pictures, wordings, owner)
        rates: dict[str, float] = {}
        for depth in DEPTHS:
            rates[f"text_to_image_r{depth}"] = _to_percent(to_image.hits(depth).mean())
            rates[f"image_to_text_r{depth}"] = _to_percent(to_text.hits(depth).mean())
        return {"recall": (rates["text_to_image_r1"] + rates["image_to_text_r1"]) / 2, **rates}


@dataclass(frozen=True)
class SpecificityValidation:
    """The Specificity Rate over all pairs in percent, pooled, as ``captious probe specificity`` computes it."""

    towers: Towers
    chains: Any
    goal: str = "sr"

    def __call__(self) -> dict[str, float]:
        """Return the rates in percent; ``sr`` is the mean of ``sr_pos`` and ``sr_neg``."""
        scores: list[Tensor] = []
        with torch.no_grad():
            for first in range(0, len(self.chains), CHUNK):
                rows = np.arange(first, min(first + CHUNK, len(self.chains)))
                images = _encode_images(self.towers, self.chains.images[rows])
                counts = self.chains.usable[rows]
                groups = [self._build_chain(row, int(count)) for row, count in zip(rows.tolist(), counts, strict=True)]
                owner = torch.from_numpy(np.repeat(np.arange(len(rows)), 2 * counts + 1)).to(images.device)
                similar = (
                    (_encode_texts(self.towers, groups, chunk=len(groups)) * images[owner])
                    .sum(1)
                    .split((2 * counts + 1).tolist())
                )
                for values, count in zip(similar, counts.tolist(), strict=True):
                    # The longest caption is first, because packing uses it as the trunk.
                    scores += [values[: count + 1].flip(0), values[count + 1 :]]
        negatives = np.asarray(self.chains.usable, dtype=np.int64)
        steps = Steps.of(torch.cat(scores).double().cpu().numpy(), negatives + 1, negatives)
        positive, negative = map(_to_percent, steps.hits().mean(axis=0))
        return {"sr": (positive + negative) / 2, "sr_pos": positive, "sr_neg": negative}

    def _build_chain(self, row: int, count: int) -> list[Ints]:
        """Return captions of count + 1 to 1 units, then the negative of each but the longest."""
        steps = np.arange(count)
        triplets = self.chains.make_triplets(np.full(count, row), steps)
        captions = [triplets[0][0], *(positive for _, positive, _ in triplets)]
        return [*reversed(captions), *(negative for _, _, negative in triplets)]


def _encode_images(towers: Towers, rows: Rows) -> Tensor:
    parts = [towers.images(towers.make_image_batch(rows[at : at + CHUNK])) for at in range(0, len(rows), CHUNK)]
    return normalize(torch.cat(parts))


def _encode_texts(towers: Towers, groups: list[list[Ints]], chunk: int = 4 * CHUNK) -> Tensor:
    parts = [towers.texts(towers.make_text_batch(groups[at : at + chunk])) for at in range(0, len(groups), chunk)]
    return normalize(torch.cat(parts))


def _to_percent(share: float) -> float:
    return round(100 * float(share), 4)
