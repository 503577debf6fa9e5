"""The two towers of an encoder in training: inputs, cached features, and locking."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from captious._core.types import Ints
from captious.errors import InputError, require
from captious.train._data import (
    Example,
    TokenFrame,
    TrainingImages,
    apply_views,
    draw_views,
    load_image_features,
    number_images,
)
from captious.train._objective import Job
from captious.train._packing import Packed, encode_packed, pack
from captious.train._schedule import Rows

torch = require("torch", "clip")
Tensor = Any
SIDES = ("image", "text")


@dataclass(frozen=True)
class TowerImages:
    """Images of a batch to be moved to the device; ``pixels`` is None if all features are cached."""

    rows: Rows
    pixels: Any
    views: Any = None
    """The augmentation of each image in this epoch, if any."""


@dataclass(frozen=True)
class TowerTexts:
    """Texts of a batch to be moved to the device: packed trees, or padded rows with a key for each."""

    packed: Packed | None
    ids: Tensor
    keys: Sequence[bytes]


class Towers:
    """The two towers of an encoder and their images; ``locked`` names sides that are not trained."""

    def __init__(
        self,
        encoder: Any,
        image_set: TrainingImages,
        locked: Sequence[str] = (),
        augment: float = 0.0,
        seed: int = 0,
    ) -> None:
        self.encoder, self.image_set, self.augment, self.seed = encoder, image_set, augment, seed
        self.locked, self.frame = frozenset(map(parse_side, locked)), TokenFrame.of(encoder)
        self._room = 0
        clip = getattr(encoder.module.config, "model_type", "") == "clip"
        if clip and encoder.causal and "text" not in self.locked:
            self._room = int(encoder.module.config.text_config.hidden_size)
        self._images, self._texts = LockedFeatures(), LockedFeatures()

    @property
    def scale(self) -> Tensor:
        """The factor of the cosines."""
        return self.encoder.logit_scale.float().exp()

    def make_image_batch(self, rows: Rows, epoch: int | None = None) -> TowerImages:
        """Load images, with a new view in each epoch if one is given; called ahead, in another thread."""
        wanted = rows
        if "image" in self.locked:
            wanted = np.array([row for row in rows.tolist() if row not in self._images], dtype=np.int64)
        if not len(wanted):
            return TowerImages(rows, None)
        pixels = torch.from_numpy(self.image_set.pixels(wanted))
        views = None
        if self.augment and epoch is not None and "image" not in self.locked:
            views = torch.from_numpy(draw_views(rows, self.augment, self.seed, epoch))
        return TowerImages(rows, (wanted, self._pin(pixels)), views)

    def make_text_batch(self, groups: Sequence[Sequence[Ints]]) -> TowerTexts:
        """Pack or pad the texts of each sample; called ahead, in another thread."""
        if self._room and len(groups[0]) > 1:
            packed = pack(groups, self._room, self.frame.pad)
            return TowerTexts(packed.pin() if self.encoder.device.type == "cuda" else packed, None, ())
        texts = [text for group in groups for text in group]
        keys = [text.tobytes() for text in texts] if "text" in self.locked else ()
        return TowerTexts(None, self._pin(torch.from_numpy(self.frame.stack(texts))), keys)

    def below(self, rows: Rows) -> Tensor:
        """Compute features of images with the locked image tower, without the cache."""
        frozen, _ = split_tower(self.encoder, "image")
        return _encode_locked(frozen, self.encoder.pixels_to_tensor(torch.from_numpy(self.image_set.pixels(rows))))

    def add_text_features(self, texts: Sequence[Ints], features: Tensor) -> None:
        """Cache features of the locked text tower, given texts with start and end tokens."""
        self._texts.add([text.tobytes() for text in texts], features)

    def add_image_features(self, rows: Sequence[int], features: Tensor) -> None:
        """Cache features of the locked image tower."""
        self._images.add(rows, features.to(self.encoder.device))

    def images(self, batch: TowerImages) -> Tensor:
        """Return the features of a batch of images."""
        wanted, pixels = batch.pixels if batch.pixels is not None else (np.zeros(0, np.int64), None)
        tensor = self.encoder.pixels_to_tensor(pixels) if pixels is not None else None
        if "image" not in self.locked:
            return self.encoder.image_tensor(tensor if batch.views is None else apply_views(tensor, batch.views))
        below, head = split_tower(self.encoder, "image")
        if tensor is not None:
            self._images.add(wanted.tolist(), _encode_locked(below, tensor))
        return head(self._images.rows(batch.rows.tolist()))

    def texts(self, batch: TowerTexts) -> Tensor:
        """Return the features of a batch of texts, group by group."""
        if batch.packed is not None:
            return encode_packed(self.encoder.module, batch.packed.to(self.encoder.device))
        if "text" not in self.locked:
            return self.encoder.text_tensor(batch.ids.to(self.encoder.device, non_blocking=True))
        below, head = split_tower(self.encoder, "text")
        new = [number for number, key in enumerate(batch.keys) if key not in self._texts]
        if new:
            ids = batch.ids[new].to(self.encoder.device)
            self._texts.add([batch.keys[number] for number in new], _encode_locked(below, ids))
        return head(self._texts.rows(batch.keys))

    def _pin(self, tensor: Tensor) -> Tensor:
        """Pin memory for asynchronous transfer to a GPU."""
        return tensor.pin_memory() if self.encoder.device.type == "cuda" else tensor


def build_towers(examples: Sequence[Example], encoder: Any, job: Job) -> tuple[Towers, Ints, str]:
    """Build the towers with the images of the examples; return them, the image of each example, and a note."""
    paths, images = number_images(examples)
    features, settings, runtime = job.training.image_features, job.settings, job.runtime
    image_set = TrainingImages(
        paths, encoder, runtime.workers, keep=False if features else None, report=runtime.progress
    )
    towers = Towers(encoder, image_set, settings.lock, augment=settings.augment or 0.0, seed=settings.seed)
    if features:
        return towers, images, load_image_features(towers, features)
    if image_set.in_memory:
        return towers, images, f"{len(image_set)} images kept in memory ({image_set.nbytes / 2**30:.2g} GiB)"
    return towers, images, f"{len(image_set)} images do not fit into memory: each is opened when its turn comes"


class LockedFeatures:
    """Features of a locked tower by key, cached on the device."""

    def __init__(self) -> None:
        self._where: dict[Any, int] = {}
        self._table: Tensor | None = None

    def __contains__(self, key: Any) -> bool:
        return key in self._where

    def add(self, keys: Sequence[Any], features: Tensor) -> None:
        """Add features by key; the same key has the same features."""
        rows = [self._where.setdefault(key, len(self._where)) for key in keys]
        size = len(self._where)
        if self._table is None or len(self._table) < size:
            grown = features.new_zeros((max(1024, 2 * size), *features.shape[1:]))
            if self._table is not None:
                grown[: len(self._table)] = self._table
            self._table = grown
        self._table[torch.tensor(rows, device=features.device)] = features

    def rows(self, keys: Sequence[Any]) -> Tensor:
        """Return the features of these keys."""
        assert self._table is not None
        return self._table[torch.tensor([self._where[key] for key in keys], device=self._table.device)]


def normalize(features: Tensor) -> Tensor:
    """Normalize vectors to unit length, in float32."""
    return torch.nn.functional.normalize(features.float(), dim=-1)


def _encode_locked(below: Callable[[Tensor], Tensor], inputs: Tensor) -> Tensor:
    """Compute features of the locked part in full precision, which is affordable because it is done once."""
    with torch.no_grad(), torch.autocast(inputs.device.type, enabled=False):
        return below(inputs).float()


def split_tower(encoder: Any, side: str) -> tuple[Callable[[Tensor], Tensor], Callable[[Tensor], Tensor]]:
    """Return a tower and its head as two functions.

    An encoder may define them (``frozen_images`` and ``image_head``, ``frozen_texts`` and ``text_head``); for a CLIP
    model the head is the projection.
    """
    plural = f"{side}s"
    if hasattr(encoder, f"frozen_{plural}"):
        return getattr(encoder, f"frozen_{plural}"), getattr(encoder, f"{side}_head")
    module = encoder.module
    if not hasattr(module, "visual_projection"):
        raise InputError(f"{encoder.name}: its {side} tower has no head to train, so it cannot be locked")
    if side == "image":
        return lambda pixels: module.vision_model(pixel_values=pixels).pooler_output, module.visual_projection
    if encoder.causal:
        return lambda ids: module.text_model(input_ids=ids).pooler_output, module.text_projection
    return (
        lambda ids: module.text_model(input_ids=ids, attention_mask=encoder.attention_mask(ids)).pooler_output,
        module.text_projection,
    )


def parse_side(locked: str) -> str:
    """Return the tower that an entry of ``lock`` names.

    >>> parse_side("image:9"), parse_side("text")
    ('image', 'text')
    """
    return locked.partition(":")[0]


def lock(encoder: Any, sides: Sequence[str]) -> None:
    """Freeze the towers of these sides: no gradients, no dropout."""
    for entry in sides:
        side, layers = parse_side(entry), entry.partition(":")[2]
        partly = layers.isdigit() and side == "image" and hasattr(encoder, "freeze_image_layers")
        if side not in SIDES or (layers and not partly):
            raise InputError(f"lock={entry}: expected image, text, or both with a comma")
        tower = getattr(encoder.module, "vision_model" if side == "image" else "text_model", None)
        if tower is None:
            raise InputError(f"{encoder.name}: has no {side} tower that can be locked")
        split_tower(encoder, side)
        tower.requires_grad_(False)
        tower.eval()
        if layers:
            encoder.freeze_image_layers(int(layers))
