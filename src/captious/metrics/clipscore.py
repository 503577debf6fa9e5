"""CLIPScore: the cosine of caption and image under CLIP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious.encoders.encoder import Cost
from captious.measurement import Floats
from captious.metrics.encoded import EncodedMetric

PREFIX = "A photo depicts "
B32 = Cost(parameters=151_277_313, image_flops=8.818e9, text_flops=5.960e9)
"""CLIP ViT-B/32 with a text of 77 tokens; a test counts it anew from the architecture."""


@dataclass(frozen=True)
class ClipScore(EncodedMetric):
    """CLIPScore: how well a caption suits its image by CLIP, without references.

    With v the vector of the image, c that of the caption behind the words "A photo depicts "::

        CLIPScore = 2.5 · max(cos(v, c), 0)

    The corpus value is the mean; an item with several candidates has their mean. As in the reference code images are
    cropped before they become RGB, the shorter side 224, and a caption is cut at 77 tokens with its end token kept; how
    many were cut stands in the signature. Vectors are brought to unit length in single precision; the reference does it
    in half precision on a GPU. ``value=raw`` is the cosine itself, ``prefix=""`` the caption alone, ``w`` the factor.
    ``weights`` takes a hub id, a folder, a checkpoint file, or ``captious-mini``; ``activation=gelu`` is for those of
    OpenCLIP, ``order=rgb-first`` makes images RGB first, as ``transformers`` does.

    >>> ClipScore().scaled(np.array([0.3, -0.1])).tolist()  # 2.5 · 0.3, and 0 for what points away
    [0.75, 0.0]
    """

    weights: str = "openai/clip-vit-base-patch32"
    w: float = 2.5
    prefix: str = PREFIX
    value: Literal["clipped", "raw"] = "clipped"

    name: ClassVar[str] = "clipscore"
    range: ClassVar[tuple[float, float]] = (0.0, 2.5)
    citation: ClassVar[str] = (
        "Hessel, Holtzman, Forbes, Le Bras, Choi. CLIPScore: a reference-free evaluation metric for image captioning. "
        "EMNLP 2021."
    )
    cost: ClassVar[Cost | None] = B32

    def __post_init__(self) -> None:
        # What the parameters make of a cosine is known only here; reports draw their axes from it.
        object.__setattr__(self, "range", (-1.0, 1.0) if self.value == "raw" else (0.0, self.w))

    @property
    def label(self) -> str:
        """CLIPScore."""
        return "CLIPScore"

    def scaled(self, cosines: Floats) -> Floats:
        """Values from cosines."""
        return cosines if self.value == "raw" else self.w * np.maximum(cosines, 0.0)
