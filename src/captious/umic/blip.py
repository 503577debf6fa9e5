"""BLIP as a backbone: a text encoder that looks at the image in every layer, with the positive row of its ITM head."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.encoders.devices import quiet
from captious.encoders.encoder import Pixels
from captious.encoders.fingerprints import weights_digest
from captious.encoders.preparation import Preparation
from captious.encoders.tokenisers import Tokeniser, tokeniser_of
from captious.extras import require
from captious.files import digest
from captious.umic.backbone import Ids
from captious.umic.pretrained import RANK, placed, positive_row, pretrained, refuse_missing
from captious.umic.shown import Shown

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

DEFAULT = "Salesforce/blip-itm-base-coco"
CONTRAST = ("vision_proj", "text_proj", "itm_head")
"""Parts of the library's model that a rank head does without."""


@dataclass(eq=False)
class Blip:
    """See :class:`captious.umic.backbone.Backbone`."""

    module: Any = field(repr=False)
    """``transformers``' model, with a ``rank`` head of one output besides."""
    tokeniser: Tokeniser = field(repr=False)
    preparation: Preparation
    name: str = "blip"
    sealed: str = ""
    """Its fingerprint, where it will not change any more."""

    def __post_init__(self) -> None:
        self.device = self.module.device
        self.limit = self.tokeniser.limit
        for part in CONTRAST:  # would be counted as learning, and never hear of a loss
            getattr(self.module, part).requires_grad_(False)

    @property
    def scale(self) -> torch.Tensor:
        """The length of the rank head."""
        length: torch.Tensor = self.module.rank.weight.norm()
        return length

    @property
    def reads(self) -> str:
        """Tokeniser and image preparation."""
        return f"{self.tokeniser.text} {self.preparation.text}"

    @property
    def fingerprint(self) -> str:
        """Of all weights and what comes before them."""
        return self.sealed or digest(weights_digest(self.module), self.reads.encode())

    def pictures(self, paths: Sequence[str]) -> Shown:
        """Lay images out."""
        return Shown.of(paths, self.preparation.prepare)

    def texts(self, texts: Sequence[str], keep: bool = True) -> Ids:
        """Lay captions out."""
        return Ids.of(self.tokeniser(texts), self.limit, self.device)

    def logits(self, pictures: list[Pixels], texts: tuple[Any, Any]) -> torch.Tensor:
        """An image is encoded once for all its captions."""
        ids, inside = texts
        count = ids.shape[1]
        mean, std = (torch.tensor(three, device=self.device) for three in (self.preparation.mean, self.preparation.std))
        pixels = torch.from_numpy(np.stack(pictures)).to(self.device).float() / 255
        normal = ((pixels - mean) / std).permute(0, 3, 1, 2).contiguous()
        image = self.module.vision_model(pixel_values=normal).last_hidden_state.repeat_interleave(count, dim=0)
        found = self.module.text_encoder(
            input_ids=ids.flatten(0, 1),
            attention_mask=inside.flatten(0, 1).long(),
            encoder_hidden_states=image,
            encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.long, device=self.device),
        )
        logits: torch.Tensor = self.module.rank(found.last_hidden_state[:, 0])[:, 0].unflatten(0, (-1, count))
        return logits.float()

    def save(self, folder: str | Path) -> None:
        """The model in ``transformers``' layout in ``model/``, the rank head beside it there."""
        from captious.umic.saving import mark

        target = Path(folder) / "model"
        target.mkdir(parents=True, exist_ok=True)
        state = {key: one for key, one in self.module.state_dict().items() if not key.startswith("rank.")}
        with quiet():
            self.module.save_pretrained(target, state_dict=state)
        rank = {key: one.detach().cpu().contiguous() for key, one in self.module.rank.state_dict().items()}
        require("safetensors.torch", "clip").save_file(rank, str(target / RANK))
        self.tokeniser.save(target)
        self.preparation.save(target)
        mark(folder, self, {})


def load_blip(place: str | Path) -> Blip:
    """A BLIP for retrieval; its rank head is its own where it was trained here, else the positive row for a match."""
    from captious.umic.saving import fill, read_state

    module, folder, missing, _ = pretrained(place, "blip", "BlipForImageTextRetrieval")
    refuse_missing(folder, missing)
    module.rank = torch.nn.Linear(module.config.text_config.hidden_size, 1)
    if (folder / RANK).is_file():
        fill(module.rank, read_state(folder / RANK), str(folder / RANK))
    else:
        positive_row(module.rank, module.itm_head.weight, module.itm_head.bias)
    tokeniser = tokeniser_of(folder, int(module.config.text_config.max_position_embeddings))
    side = int(module.config.vision_config.image_size)
    usual = Preparation(size=side, crop=side, order="rgb-first", squash=True)
    return Blip(placed(module), tokeniser, Preparation.read(folder, usual))
