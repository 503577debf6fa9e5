"""What a frozen encoder thinks of every patch and every token: its last hidden states, encoded once and cached.

An image is its patch states, averaged to a grid of at most 8 × 8 where there are more, behind the tokens that stand
before the patches. A text is the states of its tokens. Both are kept in half precision. One pass of the encoder gives
states and the pooled vector, which goes where CLIPScore looks for it.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Cost, Features, Pixels, Tokens
from captious.encoders.loading import MINI, load
from captious.encoders.registry import ModelRegistry
from captious.encoders.runtime import current
from captious.encoders.torch_encoder import TorchEncoder
from captious.errors import InputError
from captious.extras import require

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
else:
    torch = require("torch", "clip")

GRID = 8
STEPS = (8, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512)
"""Token states are stored in rows of these lengths, each text in the shortest that holds it."""
LARGEST = 60_000.0
"""Half precision ends soon after."""
Halves = npt.NDArray[np.float16]

_SHAPES: dict[str, tuple[int, int]] = {}
_TORCH_MINI: ModelRegistry[TorchEncoder] = ModelRegistry(limit=2)


def frozen(weights: str) -> TorchEncoder:
    """The encoder of these weights on torch, where its states are; captious-mini too."""
    if weights in MINI:
        from captious.encoders.folders import load_folder
        from captious.encoders.mini import folder_of

        runtime = current()
        key = (weights, runtime.device, runtime.precision)
        return _TORCH_MINI.get(key, lambda: load_folder(folder_of(weights), weights, runtime))
    found = load(weights)
    if not isinstance(found, TorchEncoder):
        raise InputError(f"encoder {weights!r}: has no states to look at, expected a CLIP-like model on torch")
    return found


class Insides:
    """An encoder that gives, for each input, all its states and behind them the pooled vector, in one row.

    ``tokens`` is the length of a text's row of states. It has what the pipeline asks of an encoder on torch.
    """

    def __init__(self, encoder: TorchEncoder, tokens: int = 0) -> None:
        self.encoder, self.tokens = encoder, tokens
        self.name, self.fingerprint, self.precision = encoder.name, encoder.fingerprint, encoder.precision
        self.limit, self.device, self.preparation = encoder.limit, encoder.device, encoder.preparation
        states = tokens * self.text_width if tokens else self.image_shape[0] * self.image_shape[1]
        self.dimension = states + encoder.dimension

    @cached_property
    def image_shape(self) -> tuple[int, int]:
        """Rows of an image, and their width."""
        if self.fingerprint not in _SHAPES:
            side = self.encoder.preparation.crop
            blank = self.encoder.pixels_to_tensor(np.zeros((1, side, side, 3), np.uint8))
            with torch.inference_mode():
                states, _ = self.of_images(blank)
            _SHAPES[self.fingerprint] = int(states.shape[1]), int(states.shape[2])
        return _SHAPES[self.fingerprint]

    @cached_property
    def text_width(self) -> int:
        """Of a token's state."""
        ids = torch.from_numpy(self.encoder.tokenise(["a"]).ids).to(self.device)
        with torch.inference_mode():
            return int(self.of_texts(ids)[0].shape[2])

    def prepare(self, picture: Image) -> Pixels:
        """As the encoder does."""
        return self.encoder.prepare(picture)

    def tokenise(self, texts: Sequence[str]) -> Tokens:
        """As the encoder does."""
        return self.encoder.tokenise(texts)

    def cost(self) -> Cost:
        """As the encoder's."""
        return self.encoder.cost()

    def pixels_to_tensor(self, pixels: Any) -> torch.Tensor:
        """As the encoder does."""
        return self.encoder.pixels_to_tensor(pixels)

    def image_tensor(self, pixels: torch.Tensor) -> torch.Tensor:
        """States and vector of normalised pixels."""
        return _row(*self.of_images(pixels))

    def text_tensor(self, ids: torch.Tensor) -> torch.Tensor:
        """States and vector of token ids."""
        states, vector = self.of_texts(ids)
        short = max(0, self.tokens - states.shape[1])
        return _row(torch.nn.functional.pad(states, (0, 0, 0, short))[:, : self.tokens], vector)

    def image_features(self, pixels: Pixels) -> Features:
        """See :class:`captious.encoders.encoder.Encoder`."""
        with torch.inference_mode():
            return _array(self.image_tensor(self.pixels_to_tensor(pixels)))

    def text_features(self, ids: npt.NDArray[np.int64]) -> Features:
        """See :class:`captious.encoders.encoder.Encoder`."""
        with torch.inference_mode():
            return _array(self.text_tensor(torch.from_numpy(np.ascontiguousarray(ids)).to(self.device)))

    def of_images(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """States of normalised pixels, and their vectors."""
        module = self.encoder.module
        found = module.vision_model(pixel_values=pixels)
        if hasattr(module, "image_head"):
            from captious.encoders.heads import pool_image

            vector = module.image_head(pool_image(found, module.shape.image_pooling))
        else:
            vector = _projected(module, "visual_projection", found.pooler_output)
        return on_grid(found.last_hidden_state), vector

    def of_texts(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """States of token ids, and their vectors."""
        module, encoder = self.encoder.module, self.encoder
        seen = encoder.seen(ids)
        if encoder.causal or encoder.tokeniser.full:
            found = module.text_model(input_ids=ids)
        else:
            found = module.text_model(input_ids=ids, attention_mask=seen)
        if hasattr(module, "text_head"):
            from captious.encoders.heads import pool_text

            vector = module.text_head(pool_text(found, seen, module.shape.text_pooling))
        else:
            vector = _projected(module, "text_projection", found.pooler_output)
        return found.last_hidden_state, vector


def on_grid(states: torch.Tensor, most: int = GRID) -> torch.Tensor:
    """States with a square of patches averaged down to at most ``most`` × ``most``; what stands before it stays.

    >>> on_grid(torch.arange(17.0)[None, :, None], most=2)[0, :, 0].tolist()  # 1 + 4 × 4, by 2 × 2
    [0.0, 3.5, 5.5, 11.5, 13.5]
    """
    count = states.shape[1]
    side = isqrt(count)
    if side <= most:
        return states
    smaller = -(-side // -(-side // most))
    front, patches = states[:, : count - side * side], states[:, count - side * side :]
    square = patches.transpose(1, 2).reshape(len(states), -1, side, side)
    pooled = torch.nn.functional.adaptive_avg_pool2d(square.float(), smaller).to(states.dtype)
    return torch.cat([front, pooled.flatten(2).transpose(1, 2)], dim=1)


def halved(states: npt.NDArray[Any]) -> Halves:
    """States in half precision, however large some are."""
    found: Halves = np.clip(states, -LARGEST, LARGEST).astype(np.float16)
    return found


def _projected(module: Any, name: str, pooled: torch.Tensor) -> torch.Tensor:
    projection = getattr(module, name, None)
    return pooled if projection is None else projection(pooled)


def _row(states: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.cat([states.flatten(1), vector], dim=1)


def _array(rows: torch.Tensor) -> Features:
    found: Features = rows.float().cpu().numpy()
    return found
