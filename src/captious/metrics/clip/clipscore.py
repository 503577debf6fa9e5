"""CLIPScore: the cosine of caption and image under CLIP."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.metrics.clip.encoded import EncodedMetric, Similarity, compute_reference_cosines
from captious.metrics.contract import Need
from captious.models.encoder import Encoder, Weights

PREFIX = "A photo depicts "


@dataclass(frozen=True)
class ClipScore(EncodedMetric):
    """CLIPScore: how well a caption fits its image according to CLIP, without references.

    With v the vector of the image, c that of the caption after the words "A photo depicts "::

        CLIPScore = 2.5 · max(cos(v, c), 0)

    The corpus value is the mean; an item with several candidates has their mean. As in the reference code images are
    cropped before they become RGB, the shorter side 224, and a caption is truncated to 77 tokens, with its end token
    kept. The signature says how many were truncated. Vectors are brought to unit length in single precision; the
    reference does it in half precision on a GPU. ``value=raw`` is the cosine itself, ``prefix=""`` the caption alone,
    ``w`` the factor. ``weights`` takes a hub id, a folder, a checkpoint file, or ``captious-mini``; ``activation=gelu``
    is for those of OpenCLIP, ``lora=all`` for files with LoRA tensors such as DAC's. ``order=rgb-first`` makes images
    RGB first, as ``transformers`` does, and ``case=lower`` puts texts in lower case for a SigLIP 2 that keeps capitals.
    With a video, cos(v, c) is the mean over its frames, and ``pool`` names another way: ``best``, ``worst``, or
    ``vector``, the cosine with the sum of their vectors.

    >>> ClipScore().scale_cosines(np.array([0.3, -0.1])).tolist()  # 2.5 · 0.3, and 0 for what points away
    [0.75, 0.0]
    """

    weights: Weights = "openai/clip-vit-base-patch32"
    w: float = 2.5
    prefix: str = PREFIX
    value: Literal["clipped", "raw"] = "clipped"

    name: ClassVar[str] = "clipscore"
    citation: ClassVar[str] = (
        "Hessel, Holtzman, Forbes, Le Bras, Choi. CLIPScore: a reference-free evaluation metric for image captioning. "
        "EMNLP 2021."
    )

    @property
    def label(self) -> str:
        """The name of the metric in tables."""
        return "CLIPScore"

    @property
    def range(self) -> tuple[float, float]:
        """The range of a cosine, or from 0 to the factor."""
        return (-1.0, 1.0) if self.value == "raw" else (0.0, self.w)

    def scale_cosines(self, cosines: Floats) -> Floats:
        """Compute values from cosines."""
        return cosines if self.value == "raw" else self.w * np.maximum(cosines, 0.0)


@dataclass(frozen=True)
class RefClipScore(ClipScore):
    """RefCLIPScore: the harmonic mean of CLIPScore and of the cosine with the nearest reference.

    With r the vectors of the references, after the same words as the caption::

        RefCLIPScore = H(CLIPScore, max over r of max(cos(c, r), 0)),  0 where either is 0

    This is the paper's formula. The reference code does not clip the cosine of the texts at 0 and divides 0 by 0;
    ``clip_text=no`` does as the code does, and an item with 0 / 0 has no value. The other options are those of
    ``clipscore``.

    >>> RefClipScore().joined(np.array([0.75, 0.75]), np.array([0.5, -0.2])).tolist()  # 2 · .75 · .5 / 1.25
    [0.6, 0.0]
    """

    value: Literal["clipped"] = "clipped"
    clip_text: bool = True

    name: ClassVar[str] = "refclipscore"
    needs: ClassVar[tuple[Need, ...]] = ("image", "references", "model")
    undefined_reason: ClassVar[str] = "0 / 0: neither the image nor a reference is like the caption"

    @property
    def label(self) -> str:
        """The name of the metric in tables."""
        return "RefCLIPScore"

    @property
    def range(self) -> tuple[float, float]:
        """From 0 to the harmonic mean of the factor and 1."""
        return (0.0, 2 * self.w / (1 + self.w))

    def joined(self, image: Floats, text: Floats) -> Floats:
        """Compute the harmonic mean of both parts."""
        text = np.maximum(text, 0.0) if self.clip_text else text
        below = image + text
        nothing = np.where(np.isnan(below), np.nan, 0.0 if self.clip_text else np.nan)
        joined: Floats = np.divide(2 * image * text, below, out=nothing, where=~np.isnan(below) & (below != 0))
        return joined

    def values(self, similar: Similarity, captions: CaptionSet, encoder: Encoder) -> Floats:
        """Return the harmonic mean of both parts for each candidate."""
        return self.joined(
            self.scale_cosines(similar.cosine), compute_reference_cosines(captions, encoder, self.prefix)
        )
