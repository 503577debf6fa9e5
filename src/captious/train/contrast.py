"""The losses: contrast of images and texts, and the two hinges of specificity with their moving margin.

All similarities are cosines times exp(logit scale), about 100, as in the published code: margins are in those units.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, ClassVar, NamedTuple, Protocol

import numpy as np

from captious._typing import Ints
from captious.errors import InputError, require
from captious.train import loop as processes
from captious.train.data import TokenLists
from captious.train.schedule import Rows, draws
from captious.train.towers import Pictures, Towers, Written, halves

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


def coarse_images(images: Tensor, components: int, *, gather: bool = False) -> Tensor:
    """Image vectors reduced to the batch's first principal components: what a short caption can be asked to match.

    The mean is kept. The components are taken as constants: the gradient flows through the vectors alone, since that of
    an eigenvector is undefined where eigenvalues coincide. The result is not brought back to unit length.
    """
    everything = processes.gathered(images, gather)
    with torch.autocast(images.device.type, enabled=False):
        mean = everything.mean(dim=0)
        centerd = (everything - mean).detach()
        # The smaller of the two Gram matrices has the same leading directions.
        if len(centerd) < centerd.shape[1]:
            values, vectors = torch.linalg.eigh(centerd @ centerd.T)
            # Rows that are centerd span one direction less than there are rows: nothing is left of the last.
            length = torch.where(values > 1e-6 * values[-1], values.clamp(min=0).rsqrt(), 0)
            basis = (centerd.T @ (vectors * length))[:, -components:]
        else:
            _, vectors = torch.linalg.eigh(centerd.T @ centerd)
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


_CAPTION = 21


class Batch(NamedTuple):
    """A batch that only has to travel to the device."""

    pictures: Pictures
    written: Written
    extra: Any = None
    """What else an objective wants to find again."""
    joined: int = 1
    """Of how many batches, which are encoded together and whose losses are taken one by one."""


class Objective(Protocol):
    """Batches of examples, and the losses of a batch."""

    towers: Towers
    joins: ClassVar[bool]
    """Whether ``batch`` can lay out several batches as one."""

    def __len__(self) -> int:
        """How many examples there are."""

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """Lay out examples; depends on nothing but the arguments, and may run in any thread."""

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """The losses of a batch by name, means where it is several; ``loss`` is what is minimized."""

    def state(self) -> dict[str, Any]:
        """What is carried from step to step."""

    def restore(self, state: dict[str, Any]) -> None:
        """Take up what was carried."""

    def after_step(self) -> None:
        """Mend weights after an optimizer step."""


def means(found: Sequence[dict[str, Tensor]]) -> dict[str, Tensor]:
    """The mean of each part over batches."""
    return {key: sum(parts[key] for parts in found) / len(found) for key in found[0]}


@dataclass
class Contrast:
    """CLIP: image and caption belong together, both directions; one caption of each image per epoch, drawn anew."""

    towers: Towers
    captions: TokenLists
    first: Ints
    images: Ints
    seed: int = 0
    gather: bool = True
    most_scale: float = 4.6052
    """The logit scale is held below ln 100, as CLIP's training does."""
    joins: ClassVar[bool] = False

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """See :class:`Objective`."""
        counts = self.first[rows + 1] - self.first[rows]
        chosen = self.first[rows] + (draws(rows, self.seed, epoch, _CAPTION) * counts).astype(np.int64)
        texts = [[self.towers.frame.around(self.captions[caption])] for caption in chosen.tolist()]
        return Batch(self.towers.pictures(self.images[rows], epoch), self.towers.written(texts))

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """See :class:`Objective`."""
        images = unit(self.towers.images(batch.pictures))
        texts = unit(self.towers.texts(batch.written))
        return {"loss": contrast(images, texts, self.towers.scale, gather=self.gather)}

    def state(self) -> dict[str, Any]:
        """Nothing is carried."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing is carried."""

    def after_step(self) -> None:
        """Hold the logit scale."""
        with torch.no_grad():
            self.towers.encoder.logit_scale.clamp_(max=self.most_scale)


@dataclass
class LongShort:
    """LongCLIP: the long caption against the image, its first sentence against the image's coarse features.

    Coarse features are the projection on the first principal components of the batch. Both directions, labels smoothed.
    """

    towers: Towers
    long: TokenLists
    short: TokenLists
    images: Ints
    gather: bool = True
    components: int = 32
    smoothing: float = 0.1
    joins: ClassVar[bool] = True

    def __len__(self) -> int:
        return len(self.images)

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """See :class:`Objective`."""
        around = self.towers.frame.around
        texts = [[around(self.long[row]), around(self.short[row])] for row in rows.tolist()]
        return Batch(self.towers.pictures(self.images[rows], epoch), self.towers.written(texts), joined=count)

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """See :class:`Objective`."""
        images = unit(self.towers.images(batch.pictures)).chunk(batch.joined)
        texts = unit(self.towers.texts(batch.written)).unflatten(0, (-1, 2)).chunk(batch.joined)
        return means([self._losses(*pair) for pair in zip(images, texts, strict=True)])

    def _losses(self, images: Tensor, texts: Tensor) -> dict[str, Tensor]:
        long, short = texts.unbind(1)
        coarse = coarse_images(images, self.components, gather=self.gather)
        scale, gather, smoothing = self.towers.scale, self.gather, self.smoothing
        parts = {
            "long": contrast(images, long, scale, gather=gather, smoothing=smoothing),
            "short": contrast(coarse, short, scale, gather=gather, smoothing=smoothing),
        }
        return {"loss": parts["long"] + parts["short"], **parts}

    def state(self) -> dict[str, Any]:
        """Nothing is carried."""
        return {}

    def restore(self, state: dict[str, Any]) -> None:
        """Nothing is carried."""

    def after_step(self) -> None:
        """Nothing to mend."""


_CAPTIONS = 41
CHUNK = 256


@dataclass
class SoftContrast(Contrast):
    """``per_image`` captions of an image are right at once; ``soften`` is the share of the softened target.

    ``sharpness`` multiplies the cosines of captions before their softmax.
    """

    per_image: int = 2
    soften: float = 0.0
    sharpness: float = 10.0
    _texts: Tensor = field(default=None, init=False, repr=False)
    _images: Tensor = field(default=None, init=False, repr=False)

    def __post_init__(self) -> None:
        if self.soften:
            self._texts = self._judged()
            owner = torch.from_numpy(np.repeat(np.arange(len(self)), np.diff(self.first))).to(self._texts.device)
            sums = torch.zeros(len(self), self._texts.shape[1], device=self._texts.device)
            self._images = unit(sums.index_add_(0, owner, self._texts))

    def batch(self, rows: Rows, epoch: int, count: int = 1) -> Batch:
        """See :class:`captious.train.contrast.Objective`."""
        chosen = self.chosen(rows, epoch)
        texts = [[self.towers.frame.around(self.captions[caption])] for caption in chosen.ravel().tolist()]
        pictures = self.towers.pictures(self.images[rows], epoch)
        return Batch(pictures, self.towers.written(texts), (rows, chosen))

    def chosen(self, rows: Rows, epoch: int) -> Ints:
        """Captions of each example, all different where it has enough."""
        counts = self.first[rows + 1] - self.first[rows]
        places = np.arange(max(int(counts.max()), 1))
        captions = self.first[rows][:, None] + places
        keys = np.where(places < counts[:, None], draws(captions, self.seed, epoch, _CAPTIONS), 2.0)
        order = np.argsort(keys, axis=1)
        turns = np.arange(self.per_image) % counts[:, None]
        found: Ints = np.take_along_axis(captions, np.take_along_axis(order, turns, axis=1), axis=1)
        return found

    def parts(self, batch: Batch) -> dict[str, Tensor]:
        """See :class:`captious.train.contrast.Objective`."""
        images = unit(self.towers.images(batch.pictures))
        texts = unit(self.towers.texts(batch.written))
        every_image, every_text = (processes.gathered(each, self.gather) for each in (images, texts))
        rows, chosen = batch.extra
        to_text, to_image = self._targets(rows, chosen, images.device)
        scale = self.towers.scale
        one = _entropy(scale * images @ every_text.T, to_text)
        other = _entropy(scale * texts @ every_image.T, to_image)
        return {"loss": (one + other) / 2}

    def _targets(self, rows: Rows, chosen: Ints, device: Any) -> tuple[Tensor, Tensor]:
        """How much of each image belongs to each caption of all processes, and of each caption to each image."""
        share = self.per_image
        first = processes.rank() if self.gather else 0
        world = processes.world() if self.gather else 1
        own = torch.arange(len(rows), device=device) + first * len(rows)
        right = torch.nn.functional.one_hot(own, world * len(rows)).float()
        to_text, to_image = right.repeat_interleave(share, 1) / share, right.repeat_interleave(share, 0)
        if not self.soften:
            return to_text, to_image
        images = self._images[torch.from_numpy(rows).to(device)]
        texts = self._texts[torch.from_numpy(chosen.ravel()).to(device)]
        near = self.sharpness * images @ processes.gathered(texts, self.gather).T
        far = self.sharpness * texts @ processes.gathered(images, self.gather).T
        keep = 1 - self.soften
        return keep * to_text + self.soften * near.softmax(1), keep * to_image + self.soften * far.softmax(1)

    def _judged(self) -> Tensor:
        """Unit vectors of all captions by the text tower as it is now; one that is locked need not see them again."""
        encoder, frame = self.towers.encoder, self.towers.frame
        below, _ = halves(encoder, "text")
        encoder.module.eval()
        order = np.argsort(np.diff(self.captions.offsets), kind="stable")  # texts of one length pad little
        found = []
        with torch.no_grad():
            for at in range(0, len(order), CHUNK):
                texts = [frame.around(self.captions[caption]) for caption in order[at : at + CHUNK].tolist()]
                features = below(torch.from_numpy(frame.stacked(texts)).to(encoder.device)).float()
                if "text" in self.towers.locked:
                    self.towers.learn_texts(texts, features)
                found.append(unit(features))
        return torch.cat(found)[torch.from_numpy(np.argsort(order)).to(encoder.device)]


def _entropy(logits: Tensor, target: Tensor) -> Tensor:
    return torch.nn.functional.cross_entropy(logits, target)
