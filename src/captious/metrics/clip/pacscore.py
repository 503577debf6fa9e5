"""PAC-S and PAC-S++: CLIPScore with a CLIP trained further on generated images and captions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from captious.errors import InputError
from captious.metrics.clip.clipscore import ClipScore, RefClipScore
from captious.models.checkpoints import LoraRule
from captious.models.encoder import Weights


@dataclass(frozen=True)
class PacScore(ClipScore):
    """PAC-S: CLIPScore with factor 2 and an encoder trained on positively augmented pairs, without references.

    With v the vector of the image, c that of the caption after the words "A photo depicts "::

        PAC-S = 2 · max(cos(v, c), 0)

    The authors' checkpoint is not on the hub: download ``clip_ViT-B-32.pth`` and name it with ``weights``. ``plus=yes``
    is PAC-S++ (Sarto, Moratelli, Cornia, Baraldi, Cucchiara, arXiv 2410.07336), for their files
    ``PAC++_clip_ViT-B-32.pth`` and ``PAC++_clip_ViT-L-14.pth``, whose low-rank updates (LoRA) are added to the weights
    as the authors' code really does: those of the MLP layers are ignored. The other options are those of ``clipscore``.

    >>> import numpy as np
    >>> PacScore().scale_cosines(np.array([0.4, -0.1])).tolist()  # 2 · 0.4
    [0.8, 0.0]
    """

    weights: Weights = ""
    w: float = 2.0
    plus: bool = False

    name: ClassVar[str] = "pacscore"
    always_shown: ClassVar[tuple[str, ...]] = ("weights",)
    citation: ClassVar[str] = (
        "Sarto, Barraco, Cornia, Baraldi, Cucchiara. Positive-augmented contrastive learning for image and video "
        "captioning evaluation. CVPR 2023."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.plus and self.lora:
            raise InputError(f"{self.name}: plus=yes says which LoRA tensors are added; expected it without lora")

    @property
    def label(self) -> str:
        """PAC-S, or PAC-S++ with ``plus=yes``."""
        return "PAC-S++" if self.plus else "PAC-S"

    @property
    def lora_rule(self) -> LoraRule | None:
        """Which LoRA tensors of a checkpoint are added to its weights."""
        return "no-mlp" if self.plus else self.lora

    @property
    def where_to_get(self) -> str:
        """Advice of the error if no weights are named."""
        file, options = ("PAC++_clip_ViT-B-32.pth", ",plus=yes") if self.plus else ("clip_ViT-B-32.pth", "")
        return (
            f"get {file} from the repository aimagelab/pacscore (its README links the checkpoints) and name it: "
            f"{self.name}(weights={file}{options})"
        )


@dataclass(frozen=True)
class RefPacScore(PacScore, RefClipScore):
    """RefPAC-S: the harmonic mean of PAC-S and of the cosine with the nearest reference.

    With v, c and r the vectors of the image, the caption and the references, captions after "A photo depicts "::

        RefPAC-S = H(2 · max(cos(v, c), 0), max over r of max(cos(c, r), 0)),  0 where either is 0

    Weights as for ``pacscore``, with ``plus=yes`` for RefPAC-S++; options as for ``refclipscore``.

    >>> import numpy as np
    >>> RefPacScore().joined(np.array([0.6]), np.array([0.9])).round(4).tolist()  # 2 · .6 · .9 / 1.5
    [0.72]
    """

    name: ClassVar[str] = "refpacscore"

    @property
    def label(self) -> str:
        """RefPAC-S, or RefPAC-S++ with ``plus=yes``."""
        return f"Ref{super().label}"
