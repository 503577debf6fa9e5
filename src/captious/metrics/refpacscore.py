"""RefPAC-S: PAC-S together with the nearest reference."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from captious.metrics.pacscore import CITATION, WANTED
from captious.metrics.refclipscore import RefClipScore


@dataclass(frozen=True)
class RefPacScore(RefClipScore):
    """RefPAC-S: the harmonic mean of PAC-S and of the cosine with the nearest reference.

    With v, c and r the vectors of the image, the caption and the references, captions behind "A photo depicts "::

        RefPAC-S = H(2 · max(cos(v, c), 0), max over r of max(cos(c, r), 0)),  0 where either is 0

    Weights as for ``pacscore``, options as for ``refclipscore``.

    >>> import numpy as np
    >>> RefPacScore().joined(np.array([0.6]), np.array([0.9])).round(4).tolist()  # 2 · .6 · .9 / 1.5
    [0.72]
    """

    weights: str = ""
    w: float = 2.0

    name: ClassVar[str] = "refpacscore"
    shown: ClassVar[tuple[str, ...]] = ("weights",)
    range: ClassVar[tuple[float, float]] = (0.0, 4 / 3)
    citation: ClassVar[str] = CITATION
    wanted: ClassVar[str] = WANTED.format(name="refpacscore")

    @property
    def label(self) -> str:
        """RefPAC-S."""
        return "RefPAC-S"
