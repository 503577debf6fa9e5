"""The module of a dual encoder: two pretrained towers, pooled to one vector each, and the heads on them."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from captious.encoders.heads import (
    HEADS,
    IMAGE_POOLINGS,
    TEXT_POOLINGS,
    checked,
    new_head,
    pool_image,
    pool_text,
    pooled_width,
)
from captious.errors import InputError
from captious.extras import require

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")


@dataclass(frozen=True)
class Shape:
    """What stands on the towers. ``hidden`` and ``dropout`` are those of residual heads."""

    image_pooling: str = "cls+mean"
    text_pooling: str = "mean"
    heads: str = "residual"
    dimension: int = 384
    hidden: int = 1024
    dropout: float = 0.3

    def __post_init__(self) -> None:
        checked("image pooling", self.image_pooling, IMAGE_POOLINGS)
        checked("text pooling", self.text_pooling, TEXT_POOLINGS)
        checked("heads", self.heads, HEADS)
        if self.dimension < 1 or self.hidden < 1:
            raise InputError(f"dimension {self.dimension}, hidden {self.hidden}: expected 1 or more")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout {self.dropout:g}: expected 0 or more and less than 1")

    @property
    def text(self) -> str:
        """Stands for the shape in fingerprints; dropout does not move a feature."""
        return json.dumps({**asdict(self), "dropout": 0}, sort_keys=True)


class DualModule(torch.nn.Module):
    """Two towers and their heads, with the methods of ``transformers``' CLIP-like models."""

    def __init__(self, vision: Any, text: Any, shape: Shape, scale: float = 3.0) -> None:
        super().__init__()
        self.shape = shape
        self.config = SimpleNamespace(
            model_type="captious-dual",
            projection_dim=shape.dimension,
            vision_config=vision.config,
            text_config=text.config,
        )
        self.vision_model, self.text_model = (
            _without_pooler(vision, shape.image_pooling),
            _without_pooler(text, shape.text_pooling),
        )
        widths = (
            pooled_width(shape.image_pooling, vision.config.hidden_size),
            pooled_width(shape.text_pooling, text.config.hidden_size),
        )
        self.image_head, self.text_head = (
            new_head(shape.heads, width, shape.dimension, shape.hidden, shape.dropout) for width in widths
        )
        self.logit_scale = torch.nn.Parameter(torch.tensor(scale))

    def pooled_images(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """One vector per image, before the head."""
        return pool_image(self.vision_model(pixel_values=pixel_values), self.shape.image_pooling)

    def lower(self, layers: int) -> list[Any]:
        """The parts of the image tower up to a layer."""
        tower = self.vision_model
        if not all(hasattr(tower, part) for part in ("embeddings", "encoder", "layernorm")):
            raise InputError(f"{tower.config.model_type}: the layers of this image tower cannot be told apart")
        if not 0 < layers < len(tower.encoder.layer):
            raise InputError(f"--lock image:{layers}: the image tower has {len(tower.encoder.layer)} layers")
        return [tower.embeddings, *tower.encoder.layer[:layers]]

    def below(self, pixel_values: torch.Tensor, layers: int) -> torch.Tensor:
        """The states of an image behind the first layers."""
        first, *rest = self.lower(layers)
        states: torch.Tensor = first(pixel_values)
        for layer in rest:
            states = layer(states)
        return states

    def above(self, states: torch.Tensor, layers: int) -> torch.Tensor:
        """The pooled vector of an image from its states behind the first layers."""
        for layer in self.vision_model.encoder.layer[layers:]:
            states = layer(states)
        last = self.vision_model.layernorm(states)
        return pool_image(SimpleNamespace(last_hidden_state=last, pooler_output=last[:, 0]), self.shape.image_pooling)

    def pooled_texts(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """One vector per text, before the head."""
        found = self.text_model(input_ids=input_ids, attention_mask=attention_mask)
        return pool_text(found, attention_mask, self.shape.text_pooling)

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Vectors of images in the common space."""
        features: torch.Tensor = self.image_head(self.pooled_images(pixel_values))
        return features

    def get_text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Vectors of texts in the common space."""
        features: torch.Tensor = self.text_head(self.pooled_texts(input_ids, attention_mask))
        return features


def _without_pooler(tower: Any, pooling: str) -> Any:
    """The tower, its pooler dropped where nothing asks for it: it would be saved, counted and never trained."""
    if pooling != "pooler" and getattr(tower, "pooler", None) is not None:
        tower.pooler = None
    return tower
