"""SPECS: a CLIP trained to rise with every right detail and to fall with every wrong one."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious.encoders.encoder import Cost
from captious.measurement import Floats
from captious.metrics.encoded import EncodedMetric

CITATION = (
    "Chen, Salazar, Kementchedjhieva. SPECS: specificity-enhanced CLIPScore for long image caption evaluation. 2025."
)
B32_LONG = Cost(parameters=151_364_865, image_flops=8.818e9, text_flops=20.235e9)
"""LongCLIP from ViT-B/32 with a text of 248 tokens."""


@dataclass(frozen=True)
class Specs(EncodedMetric):
    """SPECS: how well a long caption suits its image, detail by detail, without references.

    With v the vector of the image and c that of the caption (up to 248 tokens, no words before it)::

        SPECS = (cos(v, c) + 1) / 2

    This is the authors' code. Their paper says "cosine clipped at 0", but the released model gives good captions small
    negative cosines (the examples of its README lie between −.14 and −.08), and clipping those would make all of them
    0: ``value=paper`` does it nevertheless, ``value=raw`` is the cosine itself. Ranks are the same under ``raw`` and
    by default. Trained for long captions: below about 60 tokens CLIPScore agrees better with people (``routed``). The
    arithmetic below is counted with the attention products; the paper's table has 2.81e-2.

    >>> Specs().scaled(np.array([-0.1414, 0.5])).tolist()  # the first example of the authors' README: .4293
    [0.4293, 0.75]
    """

    weights: str = "Xiaohud/SPECS"
    value: Literal["shifted", "raw", "paper"] = "shifted"
    prefix: str = ""

    name: ClassVar[str] = "specs"
    range: ClassVar[tuple[float, float]] = (0.0, 1.0)
    citation: ClassVar[str] = CITATION
    cost: ClassVar[Cost | None] = B32_LONG

    def __post_init__(self) -> None:
        object.__setattr__(self, "range", (-1.0, 1.0) if self.value == "raw" else (0.0, 1.0))

    @property
    def label(self) -> str:
        """SPECS."""
        return "SPECS"

    def scaled(self, cosines: Floats) -> Floats:
        """Values from cosines."""
        if self.value == "raw":
            return cosines
        return np.maximum(cosines, 0.0) if self.value == "paper" else (cosines + 1) / 2
