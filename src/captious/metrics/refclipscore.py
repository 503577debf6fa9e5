"""RefCLIPScore: CLIPScore together with the nearest reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, Literal

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.encoders.similarity import Similarity, to_references
from captious.measurement import Floats
from captious.metrics.base import Need
from captious.metrics.clipscore import ClipScore
from captious.metrics.encoded import Loaded


@dataclass(frozen=True)
class RefClipScore(ClipScore):
    """RefCLIPScore: the harmonic mean of CLIPScore and of the cosine with the nearest reference.

    With r the vectors of the references, behind the same words as the caption::

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
    undefined: ClassVar[str] = "0 / 0: neither the image nor a reference is like the caption"

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "range", (0.0, 2 * self.w / (1 + self.w)))

    @property
    def label(self) -> str:
        """RefCLIPScore."""
        return "RefCLIPScore"

    def joined(self, image: Floats, text: Floats) -> Floats:
        """The harmonic mean of both parts."""
        text = np.maximum(text, 0.0) if self.clip_text else text
        below = image + text
        nothing = np.where(np.isnan(below), np.nan, 0.0 if self.clip_text else np.nan)
        joined: Floats = np.divide(2 * image * text, below, out=nothing, where=~np.isnan(below) & (below != 0))
        return joined

    def values(self, found: Similarity, captions: CaptionSet, state: Loaded) -> Floats:
        """The two parts of each candidate joined."""
        return self.joined(self.scaled(found.cosine), to_references(captions, state.encoder, self.opening))

    def unscorable(self, captions: CaptionSet) -> dict[str, npt.NDArray[np.bool_]]:
        """Nor can references that say nothing be compared with."""
        said = np.array([bool(text.strip()) for text in captions.references.values], dtype=np.bool_)
        owners = np.repeat(np.arange(len(captions)), captions.references.counts)
        number = np.bincount(owners[said], minlength=len(captions))
        return {**super().unscorable(captions), "all references are empty": number == 0}
