"""The losses: contrast of images and texts, and the two hinges of specificity with their moving margin.

All similarities are cosines times exp(logit scale), about 100, as in the published code: margins are in those units.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from captious.errors import InputError
from captious.extras import require
from captious.training import processes

torch = require("torch", "clip")

Tensor = Any

MOST_MARGIN = 1.5
"""The published clamp of the margin, in logit units: about .015 of cosine."""


def unit(features: Tensor) -> Tensor:
    """Vectors of unit length, in float32 whatever the precision they came in."""
    return torch.nn.functional.normalize(features.float(), dim=-1)


def contrast(
    images: Tensor, texts: Tensor, scale: Tensor, *, both: bool = True, gather: bool = False, smoothing: float = 0.0
) -> Tensor:
    """Cross-entropy of each text over the images of the batch and, with ``both``, of each image over the texts.

    ``images`` and ``texts`` are unit vectors of the same rows. With ``gather`` the candidates come from all processes.
    """
    first = processes.rank() * len(images) if gather else 0
    target = torch.arange(first, first + len(images), device=images.device)
    entropy = torch.nn.functional.cross_entropy
    to_image = scale * texts @ processes.gathered(images, gather).T
    loss = entropy(to_image, target, label_smoothing=smoothing)
    if not both:
        return loss
    to_text = scale * images @ processes.gathered(texts, gather).T
    return (loss + entropy(to_text, target, label_smoothing=smoothing)) / 2


def coarse(images: Tensor, components: int, *, gather: bool = False) -> Tensor:
    """Image vectors reduced to the batch's first principal components: what a short caption can be asked to match.

    The mean is kept. The components are taken as constants: the gradient flows through the vectors alone, since that of
    an eigenvector is undefined where eigenvalues coincide. The result is not brought back to unit length.
    """
    everything = processes.gathered(images, gather)
    with torch.autocast(images.device.type, enabled=False):
        mean = everything.mean(dim=0)
        centred = (everything - mean).detach()
        # The smaller of the two Gram matrices has the same leading directions.
        if len(centred) < centred.shape[1]:
            values, vectors = torch.linalg.eigh(centred @ centred.T)
            # Rows that are centred span one direction less than there are rows: nothing is left of the last.
            length = torch.where(values > 1e-6 * values[-1], values.clamp(min=0).rsqrt(), 0)
            basis = (centred.T @ (vectors * length))[:, -components:]
        else:
            _, vectors = torch.linalg.eigh(centred.T @ centred)
            basis = vectors[:, -components:]
        return (images - mean) @ basis @ basis.T + mean


@dataclass
class Margin:
    """The margin ε of the two hinges.

    ``code``: one ε for both, carried from step to step as the published code does. The positive hinge uses the ε that
    the previous step's negative gap left; then ε becomes the clamped mean of s_pos − s_base, which the negative hinge
    uses; then the clamped mean of s_base − s_neg, for the next step. It starts at 0.
    ``paper``: each hinge uses the clamped mean gap of its own pair in this batch.
    A number: that margin, always.
    """

    kind: str = "code"
    value: Tensor = field(default_factory=lambda: torch.zeros(()))
    fixed: float | None = None

    @classmethod
    def named(cls, text: str) -> Margin:
        """``code``, ``paper``, or a number."""
        if text in ("code", "paper"):
            return cls(text)
        try:
            return cls("fixed", torch.tensor(float(text)), float(text))
        except ValueError:
            raise InputError(f"margin {text!r}, expected code, paper, or a number in logit units") from None

    def hinges(self, base: Tensor, positive: Tensor, negative: Tensor, gather: bool = False) -> tuple[Tensor, Tensor]:
        """The positive and the negative loss of a batch of scaled similarities; moves the margin on."""
        if self.kind == "fixed":
            return _hinge(positive - base, self.fixed), _hinge(base - negative, self.fixed)
        if self.kind == "paper":
            self.value = _gap(positive - base, gather)
            return _hinge(positive - base, self.value), _hinge(base - negative, _gap(base - negative, gather))
        positive_loss = _hinge(positive - base, self.value.to(base.device))
        self.value = _gap(positive - base, gather)
        negative_loss = _hinge(base - negative, self.value)
        self.value = _gap(base - negative, gather)
        return positive_loss, negative_loss


def _hinge(gap: Tensor, margin: Tensor | float | None) -> Tensor:
    return torch.relu(margin - gap).mean()


def _gap(gap: Tensor, gather: bool) -> Tensor:
    return processes.mean(gap.detach().mean(), gather).clamp(0, MOST_MARGIN)
