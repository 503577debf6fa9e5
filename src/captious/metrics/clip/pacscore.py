"""PAC-S: CLIPScore with CLIP's last projections trained on generated images and captions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from captious.metrics.clip.clipscore import ClipScore, RefClipScore
from captious.models.encoder import Weights


@dataclass(frozen=True)
class PacScore(ClipScore):
    """PAC-S: CLIPScore with factor 2 and an encoder trained on positively augmented pairs, without references.

    With v the vector of the image, c that of the caption after the words "A photo depicts "::

        PAC-S = 2 · max(cos(v, c), 0)

    The authors' checkpoint is not on the hub: download ``clip_ViT-B-32.pth`` and name it with ``weights``. The options
    are those of ``clipscore``.

    >>> import numpy as np
    >>> PacScore().scaled(np.array([0.4, -0.1])).tolist()  # 2 · 0.4
    [0.8, 0.0]
    """

    weights: Weights = ""
    w: float = 2.0

    name: ClassVar[str] = "pacscore"
    label: ClassVar[str] = "PAC-S"
    always_shown: ClassVar[tuple[str, ...]] = ("weights",)
    citation: ClassVar[str] = (
        "Sarto, Barraco, Cornia, Baraldi, Cucchiara. Positive-augmented contrastive learning for image and video "
        "captioning evaluation. CVPR 2023."
    )
    where_to_get: ClassVar[str] = (
        "get clip_ViT-B-32.pth from the repository aimagelab/pacscore (its README links the checkpoints) and name it: "
        "{name}(weights=clip_ViT-B-32.pth)"
    )


@dataclass(frozen=True)
class RefPacScore(PacScore, RefClipScore):
    """RefPAC-S: the harmonic mean of PAC-S and of the cosine with the nearest reference.

    With v, c and r the vectors of the image, the caption and the references, captions after "A photo depicts "::

        RefPAC-S = H(2 · max(cos(v, c), 0), max over r of max(cos(c, r), 0)),  0 where either is 0

    Weights as for ``pacscore``, options as for ``refclipscore``.

    >>> import numpy as np
    >>> RefPacScore().joined(np.array([0.6]), np.array([0.9])).round(4).tolist()  # 2 · .6 · .9 / 1.5
    [0.72]
    """

    name: ClassVar[str] = "refpacscore"
    label: ClassVar[str] = "RefPAC-S"
