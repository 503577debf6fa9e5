"""An encoder on torch: a ``transformers`` CLIP-family model with its tokeniser and image preparation.

Scoring goes through :meth:`TorchEncoder.image_features` and :meth:`TorchEncoder.text_features` (arrays, no gradients);
training goes through ``image_tensor`` and ``text_tensor`` (tensors, with gradients) on the same model.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import numpy.typing as npt

from captious.encoders.cost import clip_cost
from captious.encoders.devices import device_called, number_type, precision_on, quiet
from captious.encoders.encoder import Cost, Features, Pixels, Tokens
from captious.encoders.fingerprints import fingerprint_of
from captious.encoders.preparation import Preparation
from captious.encoders.tokenisers import Tokeniser
from captious.extras import require

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image


@dataclass(eq=False)
class TorchEncoder:
    """See :class:`captious.encoders.encoder.Encoder`. Made by :func:`wrap`; after training, save and load it again."""

    name: str
    fingerprint: str
    precision: str
    dimension: int
    limit: int
    module: Any = field(repr=False)
    """The whole model, a ``torch.nn.Module`` with ``get_image_features`` and ``get_text_features``."""
    tokeniser: Tokeniser = field(repr=False)
    preparation: Preparation
    device: torch.device
    causal: bool
    """The text tower looks only backwards: padding cannot be seen, and texts with a common prefix share its states."""

    _mean: torch.Tensor = field(init=False, repr=False)
    _std: torch.Tensor = field(init=False, repr=False)

    def __post_init__(self) -> None:
        torch = require("torch", "clip")
        with torch.inference_mode(False):  # training uses them too
            self._mean = torch.tensor(self.preparation.mean, device=self.device).view(1, 3, 1, 1)
            self._std = torch.tensor(self.preparation.std, device=self.device).view(1, 3, 1, 1)

    @property
    def pad(self) -> int:
        """The id that fills rows."""
        return self.tokeniser.pad

    @property
    def start(self) -> int:
        """The id before every text, −1 where there is none."""
        return self.tokeniser.start

    @property
    def end(self) -> int:
        """The id after every text."""
        return self.tokeniser.end

    @property
    def logit_scale(self) -> torch.nn.Parameter:
        """Logarithm of the factor on cosines in training."""
        return cast("torch.nn.Parameter", self.module.logit_scale)

    def prepare(self, picture: Image) -> Pixels:
        """An opened image as height × width × 3 bytes."""
        return self.preparation.prepare(picture)

    def tokenise(self, texts: Sequence[str]) -> Tokens:
        """Token ids of a batch of texts."""
        return self.tokeniser(texts)

    def image_features(self, pixels: Pixels) -> Features:
        """Vectors of a batch of prepared images."""
        with require("torch", "clip").inference_mode():
            return _array(self.image_tensor(self.pixels_to_tensor(pixels)))

    def text_features(self, ids: npt.NDArray[np.int64]) -> Features:
        """Vectors of a batch of tokenised texts."""
        torch = require("torch", "clip")
        with torch.inference_mode():
            return _array(self.text_tensor(torch.from_numpy(np.ascontiguousarray(ids)).to(self.device)))

    def pixels_to_tensor(self, pixels: Pixels | torch.Tensor) -> torch.Tensor:
        """Bytes, n × height × width × 3, to what ``image_tensor`` takes; the bytes travel, the device normalises."""
        torch = require("torch", "clip")
        given = torch.as_tensor(pixels if _writeable(pixels) else np.array(pixels))
        there = given.to(self.device, non_blocking=True).permute(0, 3, 1, 2)
        normal = (there.float() / 255 - self._mean) / self._std
        return normal.to(number_type(self.precision)).contiguous()  # type: ignore[no-any-return]

    def image_tensor(self, pixels: torch.Tensor) -> torch.Tensor:
        """Features of normalised pixels, with gradients."""
        return _pooled(self.module.get_image_features(pixel_values=pixels))

    def text_tensor(self, ids: torch.Tensor) -> torch.Tensor:
        """Features of token ids, with gradients."""
        if self.causal or self.tokeniser.full:
            return _pooled(self.module.get_text_features(input_ids=ids))
        return _pooled(self.module.get_text_features(input_ids=ids, attention_mask=self.seen(ids)))

    def seen(self, ids: torch.Tensor) -> torch.Tensor:
        """1 for the tokens of a text, its first end token included, 0 for its padding."""
        ends = (ids == self.end).long()
        return (ends.cumsum(1) == ends).long()

    def cost(self) -> Cost:
        """Parameters and arithmetic of one score."""
        return clip_cost(self.module, self.limit)

    def save(self, folder: str | Path) -> None:
        """Write model, tokeniser and preparation in ``transformers``' layout, for ``captious.encoders.loading.load``.

        The files go straight into the folder: where a half-written one would matter, give a draft of
        :func:`captious.files.whole_folder`.
        """
        target = Path(folder)
        target.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.module.save_pretrained(target)
        self.tokeniser.save(target)
        self.preparation.save(target)


def wrap(
    module: Any,
    tokeniser: Tokeniser,
    preparation: Preparation,
    name: str,
    device: str = "cpu",
    precision: str = "auto",
) -> TorchEncoder:
    """Make an encoder of a ``transformers`` model: CLIP, SigLIP or a vision-text dual encoder."""
    where = device_called(device)
    fine = precision_on(where, precision)
    module = module.float().eval()
    fingerprint = fingerprint_of(module, preparation.text, tokeniser.text, fine)
    module = module.to(device=where, dtype=number_type(fine))
    kind = module.config.model_type
    dimension = module.config.vision_config.hidden_size if kind == "siglip" else module.config.projection_dim
    return TorchEncoder(
        name=name,
        fingerprint=fingerprint,
        precision=fine,
        dimension=int(dimension),
        limit=tokeniser.limit,
        module=module,
        tokeniser=tokeniser,
        preparation=preparation,
        device=where,
        causal=kind == "clip",
    )


def _pooled(found: Any) -> torch.Tensor:
    """Features, which ``transformers`` 5 hands over inside an object."""
    return cast("torch.Tensor", getattr(found, "pooler_output", found))


def _writeable(pixels: Pixels | torch.Tensor) -> bool:
    """Torch warns of arrays that it could not write to."""
    return not isinstance(pixels, np.ndarray) or pixels.flags.writeable


def _array(features: torch.Tensor) -> Features:
    return cast(Features, features.float().cpu().numpy())
