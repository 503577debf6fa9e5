"""What one score costs: parameters, and floating-point operations counted by torch as 2 × multiply-adds.

CLIPScore's ViT-B/32 with 77 tokens takes 8.82 GFLOPs for the image and 5.96 for the text, as SPECS's Table 2 says.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import chain
from typing import Any

from captious.errors import require
from captious.models.encoder import Encoder


@dataclass(frozen=True)
class Cost:
    """Parameters of an encoder and the floating-point operations of one score."""

    parameters: int
    image_flops: float
    text_flops: float
    """For a text as long as the token limit."""

    @property
    def flops(self) -> float:
        """One image and one text."""
        return self.image_flops + self.text_flops


def cost(encoder: Encoder) -> Cost:
    """The cost of an encoder; its layers are run on torch's ``meta`` device, which computes shapes alone."""
    torch = require("torch", "clip")
    from captious.models.clip import TorchEncoder
    from captious.models.mini import NumpyClip, torch_module

    if isinstance(encoder, NumpyClip):
        module = torch_module(encoder)
        image: Callable[[Any], Any] = lambda pixels: module.get_image_features(pixel_values=pixels)
        text: Callable[[Any], Any] = lambda ids: module.get_text_features(input_ids=ids)
    E
