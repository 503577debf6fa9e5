"""What the metrics on image–text encoders share: an encoder by name, cosines, reasons, captions cut at its limit."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, TypeVar

import numpy as np
import numpy.typing as npt

from captious.captions import CaptionSet
from captious.encoders import loading
from captious.encoders.encoder import Encoder
from captious.encoders.pictures import NO_SUCH
from captious.encoders.runtime import current
from captious.encoders.similarity import Similarity, image_paths, similarity
from captious.errors import InputError
from captious.measurement import Floats, Sums
from captious.metrics.base import MeanMetric, Need, summed

T = TypeVar("T")
NAMED = 5
"""Ids that a remark lists before it only counts."""


@dataclass(frozen=True, eq=False)
class Loaded:
    """An encoder as a metric's state: shards all have the same one, so merging changes nothing."""

    encoder: Encoder

    def merge(self, other: Loaded) -> Loaded:
        """The same encoder."""
        if self.encoder.fingerprint != other.encoder.fingerprint:
            raise InputError(f"cannot merge shards scored by {mark(self.encoder)} and {mark(other.encoder)}")
        return self


@dataclass(frozen=True)
class EncodedMetric(MeanMetric):
    """A metric that looks at the image: values from the cosine of caption and image under an encoder.

    ``weights`` is a hub id, a folder, a checkpoint file, or ``captious-mini``. ``order`` says when an image becomes
    RGB; without it the weights say, and CLIP's crop first as the originals do. ``activation`` replaces that of a
    checkpoint (``gelu`` for those of OpenCLIP).
    """

    weights: str = ""
    order: Literal["crop-first", "rgb-first"] | None = None
    activation: Literal["gelu", "quick_gelu"] | None = None

    needs: ClassVar[tuple[Need, ...]] = ("image", "model")
    wanted: ClassVar[str] = ""
    """What to say where no weights are named and there is no default."""

    @property
    def opening(self) -> str:
        """Words put before every caption."""
        return getattr(self, "prefix", "")

    @abstractmethod
    def scaled(self, cosines: Floats) -> Floats:
        """Values from cosines."""

    def values(self, found: Similarity, captions: CaptionSet, state: Loaded) -> Floats:
        """One value per candidate."""
        return self.scaled(found.cosine)

    def statistics(self, captions: CaptionSet, state: Loaded) -> Sums:
        """Sum of the candidates' values, and their number; NaN where one of them has none."""
        found = self._similarity(captions, state)
        return summed(captions, self.values(found, captions, state))

    def encoder(self) -> Encoder:
        """The encoder of the weights."""
        if not self.weights:
            raise InputError(f"{self.name} needs weights: {self.wanted}")
        return loading.load(self.weights, activation=self.activation, order=self.order)

    def prepare(self, captions: CaptionSet) -> Any:
        """The encoder."""
        return with_images_or_refuse(self, captions, lambda: Loaded(self.encoder()))

    def settings(self, state: Any) -> Mapping[str, str]:
        """The encoder by name and content, and its precision."""
        return {"encoder": mark(state.encoder), "precision": state.encoder.precision}

    def unscorable(self, captions: CaptionSet) -> Mapping[str, npt.NDArray[np.bool_]]:
        """An item needs an image, and candidates that say something."""
        return {**super().unscorable(captions), **unseen(captions, image_paths(captions))}

    def faults(self, captions: CaptionSet, state: Any) -> Mapping[int, str]:
        """Why an image could not be used, by item."""
        return self._similarity(captions, state).faults

    def counts(self, captions: CaptionSet, state: Any) -> Mapping[str, int]:
        """Captions cut at the encoder's limit."""
        return {"truncated": len(self._cut(captions, state))}

    def remarks(self, captions: CaptionSet) -> list[str]:
        """Captions beyond the encoder's limit: how many, and of which items."""
        state = self.prepare(captions)
        return too_long(self.label, captions, self._cut(captions, state), state.encoder.limit)

    def remedy(self, reason: str) -> str:
        """Where images come from."""
        if reason == "no image":
            return "; give their folder with --images, or a column 'image' with their paths"
        if reason == f"image: {NO_SUCH}":
            return "; what the column 'image' names is not there: give the folder of the images with --images"
        return super().remedy(reason)

    def _similarity(self, captions: CaptionSet, state: Loaded) -> Similarity:
        return similarity(captions, state.encoder, self.opening)

    def _cut(self, captions: CaptionSet, state: Loaded) -> list[int]:
        found = self._similarity(captions, state)
        cut: list[int] = found.item[found.lengths > state.encoder.limit].tolist()
        return cut


def unseen(captions: CaptionSet, paths: Sequence[str | None]) -> dict[str, npt.NDArray[np.bool_]]:
    """Items without an image, and items with a candidate that says nothing."""
    owners = np.repeat(np.arange(len(captions)), captions.candidates.counts)
    empty = np.zeros(len(captions), dtype=np.bool_)
    empty[owners[[not text.strip() for text in captions.candidates.values]]] = True
    return {"no image": np.array([path is None for path in paths], dtype=np.bool_), "empty caption": empty}


def too_long(label: str, captions: CaptionSet, cut: Sequence[int], limit: int) -> list[str]:
    """A remark on captions that were cut, if there are any."""
    if not cut:
        return []
    ids = list(dict.fromkeys(captions.ids[item] for item in cut))
    named = ", ".join(ids[:NAMED]) + (", …" if len(ids) > NAMED else "")
    number = f"{len(cut):,} caption{' is' if len(cut) == 1 else 's are'}"
    return [f"{label}: {number} longer than the encoder's {limit} tokens and read only so far (ids {named})"]


def mark(encoder: Encoder) -> str:
    """An encoder in a signature: its name, its content, and whether images were turned as their EXIF tags say."""
    return f"{encoder.name}#{encoder.fingerprint}{',upright' * current().upright}"


def with_images_or_refuse(metric: MeanMetric, captions: CaptionSet, load: Callable[[], T]) -> T:
    """What ``load`` gives; where it fails and the set has no image either, the error says that first."""
    try:
        return load()
    except InputError:
        if len(captions) and not any(image_paths(captions)):
            reason = "no image"
            raise InputError(f"{metric} cannot score {captions.name}: {reason}{metric.remedy(reason)}") from None
        raise
