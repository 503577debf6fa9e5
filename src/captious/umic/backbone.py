"""What judges an image with captions: the protocol of a backbone, and captions as ragged rows of token ids.

A backbone lays images and captions out once (states of a frozen encoder, pixels, regions, token ids), and then gives a
logit for any image with any of the captions. The score is the logit's sigmoid.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Tokens
from captious.extras import require

if TYPE_CHECKING:
    import torch

Ints = npt.NDArray[np.int64]
NAMES = ("fusion", "vilt", "blip", "uniter")
ORIGINAL = "uniter"
"""Only this one may be called UMIC."""


def called(backbone: str) -> str:
    """What a metric on this backbone is called.

    >>> called("fusion"), called("uniter")
    ('umic-fusion', 'umic')
    """
    return "umic" if backbone == ORIGINAL else f"umic-{backbone}"


class Pictures(Protocol):
    """Images laid out."""

    @property
    def faults(self) -> Mapping[int, str]:
        """Why an image cannot be used, by its place."""

    def __len__(self) -> int:
        """How many there are."""

    def take(self, rows: Ints) -> Any:
        """A batch of b images; may run in any thread."""


class Texts(Protocol):
    """Captions laid out."""

    @property
    def lengths(self) -> Ints:
        """Tokens of each before it was cut at the limit."""

    def take(self, rows: Ints) -> Any:
        """A batch of b × k captions, k for each of b images; may run in any thread."""


class Backbone(Protocol):
    """A model that gives logits. ``module``, ``device`` and ``save`` are what a training asks for."""

    name: str
    module: Any
    device: torch.device
    limit: int
    """Tokens of a caption that are read."""

    @property
    def fingerprint(self) -> str:
        """Twelve digits over weights and all that comes before them."""

    @property
    def scale(self) -> torch.Tensor:
        """One number for the log: what the logit is multiplied by."""

    @property
    def reads(self) -> str:
        """How it comes to its input, for cached scores: image preparation, frozen encoder, prefix."""

    def pictures(self, paths: Sequence[str]) -> Pictures:
        """Lay images out."""

    def texts(self, texts: Sequence[str], keep: bool = True) -> Texts:
        """Lay captions out; ``keep`` is for those that will be asked for again in other runs."""

    def logits(self, pictures: Any, texts: Any) -> torch.Tensor:
        """Of each image with each of its captions, b × k."""

    def save(self, folder: str | Path) -> None:
        """Write all files, for :func:`captious.umic.saving.load_backbone`."""


@dataclass(frozen=True, eq=False)
class Ids:
    """Captions as token ids one after another."""

    flat: Ints
    starts: Ints
    counts: Ints
    lengths: Ints
    device: Any

    @classmethod
    def of(cls, tokens: Tokens, limit: int, device: Any) -> Ids:
        """From a padded batch."""
        counts = np.minimum(tokens.lengths, limit)
        inside = np.arange(tokens.ids.shape[1]) < counts[:, None]
        return cls(tokens.ids[inside], np.cumsum(counts) - counts, counts, tokens.lengths, device)

    def take(self, rows: Ints) -> tuple[Any, Any]:
        """Ids and mask, b × k × longest."""
        places, inside = self.places(rows)
        torch = require("torch", "clip")
        ids = np.where(inside, self._padded[places], 0)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(inside).to(self.device)

    def places(self, rows: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
        """Where the tokens of captions stand, and which of a padded row are there."""
        return spread(self.starts, self.counts, rows)

    @cached_property
    def _padded(self) -> Ints:
        return np.append(self.flat, 0)


def spread(starts: Ints, counts: Ints, rows: Ints) -> tuple[Ints, npt.NDArray[np.bool_]]:
    """Places of ragged rows as a padded array, and what of it is inside; outside it points to the first place.

    >>> places, inside = spread(np.array([0, 2]), np.array([2, 3]), np.array([[1], [0]]))
    >>> places.tolist(), inside[1].tolist()
    ([[[2, 3, 4]], [[0, 1, 0]]], [[True, True, False]])
    """
    longest = int(counts[rows].max(initial=1))
    steps = np.arange(longest)
    inside = steps < counts[rows][..., None]
    return np.where(inside, starts[rows][..., None] + steps, 0), inside


def parameters(backbone: Backbone) -> int:
    """How many numbers the model has learnt, those of a frozen encoder not counted."""
    return sum(one.numel() for one in backbone.module.parameters())
