"""ViLT as a backbone: one stream over caption tokens and raw patches, the nearest thing to UNITER without regions."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.encoders.devices import quiet
from captious.encoders.encoder import Pixels
from captious.encoders.fingerprints import weights_digest
from captious.encoders.tokenisers import Tokeniser, tokeniser_of
from captious.extras import require
from captious.files import digest
from captious.umic.backbone import Ids
from captious.umic.pretrained import placed, positive_row, pretrained, refuse_missing
from captious.umic.shown import Shown

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
else:
    torch = require("torch", "clip")

DEFAULT = "dandelin/vilt-b32-finetuned-coco"
ITM = "itm_score.fc"
LONGER = 1333 / 800
"""The longer side is at most so many times the shorter, as in ViLT's own preparation."""


@dataclass(eq=False)
class Vilt:
    """See :class:`captious.umic.backbone.Backbone`."""

    module: Any = field(repr=False)
    tokeniser: Tokeniser = field(repr=False)
    name: str = "vilt"
    sealed: str = ""
    """Its fingerprint, where it will not change any more."""

    def __post_init__(self) -> None:
        self.device = self.module.device
        self.limit = self.tokeniser.limit
        self.side, self.patch = int(self.module.config.image_size), int(self.module.config.patch_size)

    @property
    def scale(self) -> torch.Tensor:
        """The length of the rank head."""
        length: torch.Tensor = self.module.rank_output.weight.norm()
        return length

    @property
    def reads(self) -> str:
        """Tokeniser and image size."""
        return f"{self.tokeniser.text} {self.side}"

    @property
    def fingerprint(self) -> str:
        """Of all weights and what comes before them."""
        return self.sealed or digest(weights_digest(self.module), self.reads.encode())

    def prepare(self, picture: Image) -> Pixels:
        """The shorter side to the model's, the longer in proportion, both cut to whole patches."""
        from PIL import Image

        width, height = picture.size
        factor = self.side / min(width, height)
        most = int(self.side * LONGER)
        factor = min(factor, most / max(width, height))
        size = [max(self.patch, int(side * factor + 0.5) // self.patch * self.patch) for side in (width, height)]
        return np.asarray(picture.convert("RGB").resize((size[0], size[1]), Image.Resampling.BICUBIC))

    def pictures(self, paths: Sequence[str]) -> Shown:
        """Lay images out."""
        return Shown.of(paths, self.prepare)

    def texts(self, texts: Sequence[str], keep: bool = True) -> Ids:
        """Lay captions out."""
        return Ids.of(self.tokeniser(texts), self.limit, self.device)

    def logits(self, pictures: list[Pixels], texts: tuple[Any, Any]) -> torch.Tensor:
        """Patches of an image are embedded once and repeated for its captions."""
        ids, inside = texts
        count = ids.shape[1]
        patches, seen = self._patches(pictures)
        found = self.module(
            input_ids=ids.flatten(0, 1),
            attention_mask=inside.flatten(0, 1).long(),
            image_embeds=patches.repeat_interleave(count, dim=0),
            pixel_mask=seen.repeat_interleave(count, dim=0),
        )
        logits: torch.Tensor = found.logits[:, 0].unflatten(0, (-1, count))
        return logits.float()

    def _patches(self, pictures: list[Pixels]) -> tuple[torch.Tensor, torch.Tensor]:
        """Embedded patches with their positions, and which are there.

        The library does the same but shuffles the patches, so that sums differ in their last digits from call to call.
        """
        embeddings = self.module.vilt.embeddings
        grids = [(one.shape[0] // self.patch, one.shape[1] // self.patch) for one in pictures]
        height, width = (max(sides) for sides in zip(*grids, strict=True))
        pixels = np.full((len(pictures), height * self.patch, width * self.patch, 3), 127, np.uint8)
        for row, one in zip(pixels, pictures, strict=True):
            row[: one.shape[0], : one.shape[1]] = one
        there = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float() / 127.5 - 1
        patches = embeddings.patch_embeddings(there)
        table = embeddings.position_embeddings
        side = self.side // self.patch
        square = table[:, 1:].transpose(1, 2).unflatten(2, (side, side))
        places = [
            torch.nn.functional.pad(_stretched(square, grid), (0, width - grid[1], 0, height - grid[0]))
            for grid in grids
        ]
        states = (patches + torch.cat(places)).flatten(2).transpose(1, 2)
        first = (embeddings.cls_token + table[:, :1]).expand(len(pictures), -1, -1)
        states = embeddings.dropout(torch.cat([first, states], dim=1))
        seen = torch.zeros(len(pictures), height, width, dtype=torch.long, device=self.device)
        for row, (high, wide) in zip(seen, grids, strict=True):
            row[:high, :wide] = 1
        return states, torch.nn.functional.pad(seen.flatten(1), (1, 0), value=1)

    def save(self, folder: str | Path) -> None:
        """The model in ``transformers``' layout in ``model/``."""
        from captious.umic.saving import mark

        target = Path(folder) / "model"
        target.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.module.save_pretrained(target)
        self.tokeniser.save(target)
        mark(folder, self, {})


def load_vilt(place: str | Path) -> Vilt:
    """A ViLT for retrieval, or one with a matching head, whose positive row becomes the rank head."""
    module, folder, missing, tensors = pretrained(place, "vilt", "ViltForImageAndTextRetrieval")
    if f"{ITM}.weight" in tensors and "rank_output.weight" in missing:
        positive_row(module.rank_output, tensors[f"{ITM}.weight"], tensors[f"{ITM}.bias"])
        missing -= {"rank_output.weight", "rank_output.bias"}
    refuse_missing(folder, missing)
    tokeniser = tokeniser_of(folder, int(module.config.max_position_embeddings))
    return Vilt(placed(module), tokeniser)


def _stretched(square: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    return torch.nn.functional.interpolate(square, size=grid, mode="bilinear", align_corners=True)
