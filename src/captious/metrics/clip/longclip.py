"""The LongCLIP score: the cosine of caption and image under a CLIP that reads 248 tokens."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

from captious.metrics.clip.clipscore import ClipScore
from captious.models.encoder import Weights


@dataclass(frozen=True)
class LongClip(ClipScore):
    """LongCLIP: the cosine of caption and image under LongCLIP, which reads captions of up to 248 tokens.

    With v the vector of the image and c that of the caption, without any words before it::

        LongCLIP = cos(v, c)

    ``value=clipped`` is w · max(cos, 0) as in CLIPScore. The default weights are the released ViT-B/16; the row
    "LongCLIP*" of the SPECS paper is its authors' ViT-B/32 (``openai_b32_longclip.pt``), to be named with ``weights``.

    >>> import numpy as np
    >>> LongClip(value="clipped").scaled(np.array([0.3, -0.1])).tolist()  # 2.5 · 0.3
    [0.75, 0.0]
    """

    weights: Weights = "BeichenZhang/LongCLIP-B"
    prefix: str = ""
    value: Literal["clipped", "raw"] = "raw"

    name: ClassVar[str] = "longclip"
    label: ClassVar[str] = "LongCLIP"
    citation: ClassVar[str] = (
        "Zhang, Zhang, Dong, Zang, Wang. Long-CLIP: unlocking the long-text capability of CLIP. ECCV 2024."
    )
