"""Captions and images of a set as cosines, once per set, encoder and prefix, however many metrics ask."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Literal, TypeVar

import numpy as np

from captious._typing import Bools, Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.images import NO_SUCH
from captious.metrics.contract import MeanMetric, Need, Sums, summed
from captious.models import load as loading
from captious.models.encoder import Encoder, encoder_id, token_counts
from captious.options import current

if TYPE_CHECKING:
    from captious.models.features import Encoded


@dataclass(frozen=True, eq=False)
class Similarity:
    """The candidates of a set held against their images."""

    item: Ints
    """The item of each candidate."""
    cosine: Floats
    """Of each candidate with its image; NaN where there is none."""
    lengths: Ints
    """Tokens of each candidate, prefix and ends included; 0 where it was not encoded."""
    faults: dict[int, str]
    """Why the image of an item could not be used."""


def similarity(
    captions: CaptionSet,
    encoder: Encoder,
    prefix: str = "",
    only: Bools | None = None,
) -> Similarity:
    """Cosines of all candidates with their images, or only of some of them."""
    key = (encoder.fingerprint, prefix, current().upright, None if only is None else only.tobytes())
    found: Similarity = captions.once(key, lambda: _similarity(captions, encoder, prefix, only))
    return found


def to_references(captions: CaptionSet, encoder: Encoder, prefix: str) -> Floats:
    """Of each candidate, the highest cosine with a reference of its item; NaN where there is none."""
    key = (encoder.fingerprint, prefix, "references")
    best: Floats = captions.once(key, lambda: _best(captions, encoder, prefix))
    return best


def token_lengths(captions: CaptionSet, encoder: Encoder) -> Ints:
    """Tokens of each candidate, start and end included; nothing is encoded."""
    lengths: Ints = captions.once(
        (encoder.fingerprint, "lengths"), lambda: token_counts(encoder, captions.candidates.values)
    )
    return lengths


def _similarity(captions: CaptionSet, encoder: Encoder, prefix: str, only: Bools | None) -> Similarity:
    from captious.models.features import cosines, image_features, text_features

    paths = captions.image_paths
    item = captions.candidates.owners
    there = np.array([path is not None for path in paths], dtype=np.bool_)
    usable = _said(captions.candidates.values) & there[item] & (True if only is None else only)
    places = np.flatnonzero(usable)
    cosine, lengths = np.full(len(item), np.nan), np.zeros(len(item), dtype=np.int64)
    if not len(places):
        return Similarity(item, cosine, lengths, {})
    shown = np.flatnonzero(np.bincount(item[places]))
    images = image_features(encoder, [str(paths[one]) for one in shown.tolist()])
    texts = text_features(encoder, [prefix + captions.candidates.values[one] for one in places.tolist()])
    cosine[places] = cosines(taken(images, np.searchsorted(shown, item[places])), texts)
    lengths[places] = texts.lengths
    faults = {
        int(shown[place]): f"image: {fault.removeprefix(f'{paths[shown[place]]}: ')}"
        for place, fault in images.faults.items()
    }
    return Similarity(item, cosine, lengths, faults)


def _best(captions: CaptionSet, encoder: Encoder, prefix: str) -> Floats:
    from captious.models.features import cosines, text_features

    item = captions.candidates.owners
    written = np.flatnonzero(_said(captions.candidates.values))
    kept = np.flatnonzero(_said(captions.references.values))
    owner = captions.references.owners[kept]
    first, end = np.searchsorted(owner, item[written]), np.searchsorted(owner, item[written], side="right")
    number = end - first
    left = np.repeat(np.arange(len(written)), number)
    right = np.repeat(first - (np.cumsum(number) - number), number) + np.arange(int(number.sum()))
    candidates = text_features(encoder, [prefix + captions.candidates.values[one] for one in written.tolist()])
    references = text_features(encoder, [prefix + captions.references.values[one] for one in kept.tolist()])
    values = cosines(taken(candidates, left), taken(references, right))
    best = np.full(len(item), np.nan)
    some = np.flatnonzero(number)
    if len(some):
        best[written[some]] = np.maximum.reduceat(values, (np.cumsum(number) - number)[some])
    return best


def taken(encoded: Encoded, places: Ints) -> Encoded:
    """The vectors at these places, in this order; rows are shared."""
    from captious.models.features import Encoded as Kind

    return Kind(encoded.rows, encoded.index[places], encoded.lengths[places], {})


def _said(texts: Sequence[str]) -> Bools:
    return np.fromiter((bool(text.strip()) for text in texts), dtype=np.bool_, count=len(texts))


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
            raise InputError(
                f"cannot merge shards scored by {encoder_id(self.encoder)} and {encoder_id(other.encoder)}"
            )
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
        return {"encoder": encoder_id(state.encoder), "precision": state.encoder.precision}

    def unscorable(self, captions: CaptionSet) -> Mapping[str, Bools]:
        """An item needs an image, and candidates that say something."""
        return {**super().unscorable(captions), **unseen(captions, captions.image_paths)}

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


def unseen(captions: CaptionSet, paths: Sequence[str | None]) -> dict[str, Bools]:
    """Items without an image, and items with a candidate that says nothing."""
    owners = captions.candidates.owners
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


def with_images_or_refuse(metric: MeanMetric, captions: CaptionSet, load: Callable[[], T]) -> T:
    """What ``load`` gives; where it fails and the set has no image either, the error says that first."""
    try:
        return load()
    except InputError:
        if len(captions) and not any(captions.image_paths):
            reason = "no image"
            raise InputError(f"{metric} cannot score {captions.name}: {reason}{metric.remedy(reason)}") from None
        raise
