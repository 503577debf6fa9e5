"""Hidden states of a frozen encoder for every patch and token, computed once and cached.

The states of an image are those of its patches, averaged to a grid of at most 8 × 8, after the tokens that precede the
patches. The states of a text are those of its tokens. Both are stored in half precision. One forward pass gives the
states and the pooled vector, which is cached for CLIPScore too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cached_property
from math import isqrt
from typing import TYPE_CHECKING, Any, cast

import numpy as np

from captious._core.types import Ints
from captious.captions import ImageSource
from captious.errors import InputError, require
from captious.models.clip import TorchEncoder, load_folder
from captious.models.encoder import Features
from captious.models.features import (
    NOT_FINITE,
    EncodedRows,
    encode_missing,
    find_distinct,
    gather,
    get_image_kind,
    get_vector_space,
    image_features,
    put_vectors,
)
from captious.models.hub import ModelRegistry
from captious.models.loading import MINI, load
from captious.models.segments import FeatureSpace, Keys, as_keys
from captious.models.store import Store, get_file_state, lookup, open_file_index, open_store
from captious.models.token_rows import SHARE, Halves, TokenRows, get_free_memory, get_token_rows, to_half
from captious.options import get_runtime

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

GRID = 8

_SHAPES: dict[str, tuple[int, int]] = {}
_TORCH_MINI: ModelRegistry[TorchEncoder] = ModelRegistry(limit=2)


def load_frozen_encoder(weights: str) -> TorchEncoder:
    """Load the encoder of these weights on torch, which gives access to its hidden states; captious-mini too."""
    if weights in MINI:
        from captious.models.mini import get_mini_folder

        runtime = get_runtime()
        key = (weights, runtime.device, runtime.precision)
        return _TORCH_MINI.get(key, lambda: load_folder(get_mini_folder(weights), weights, runtime))
    encoder = load(weights)
    if not isinstance(encoder, TorchEncoder):
        raise InputError(f"encoder {weights!r}: has no states to look at, expected a CLIP-like model on torch")
    return encoder


class HiddenStates(TorchEncoder):
    """Encoder whose output row is the flattened hidden states followed by the pooled vector.

    ``tokens`` is the padded number of tokens of a text; 0 for images.
    """

    def __init__(self, encoder: TorchEncoder, tokens: int = 0) -> None:
        super().__init__(**{one.name: getattr(encoder, one.name) for one in fields(TorchEncoder) if one.init})
        self.tokens = tokens
        states = tokens * self.text_width if tokens else self.image_shape[0] * self.image_shape[1]
        self.dimension = states + encoder.dimension

    @cached_property
    def image_shape(self) -> tuple[int, int]:
        """Number of states of an image, and their width."""
        if self.fingerprint not in _SHAPES:
            side = self.preparation.crop
            blank = self.pixels_to_tensor(np.zeros((1, side, side, 3), np.uint8))
            with torch.inference_mode():
                states, _ = self.encode_images(blank)
            _SHAPES[self.fingerprint] = int(states.shape[1]), int(states.shape[2])
        return _SHAPES[self.fingerprint]

    @cached_property
    def text_width(self) -> int:
        """Width of a token's hidden state."""
        ids = torch.from_numpy(self.tokenize(["a"]).ids).to(self.device)
        with torch.inference_mode():
            return int(self.encode_texts(ids)[0].shape[2])

    def image_tensor(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the states and the vector of normalized pixels, one row per image."""
        return _join_row(*self.encode_images(pixels))

    def text_tensor(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the states and the vector of token ids, one row per text, padded to ``tokens`` states."""
        states, vector = self.encode_texts(ids)
        short = max(0, self.tokens - states.shape[1])
        return _join_row(torch.nn.functional.pad(states, (0, 0, 0, short))[:, : self.tokens], vector)

    def encode_images(self, pixels: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the hidden states and the vectors of normalized pixels."""
        module = self.module
        output = module.vision_model(pixel_values=pixels)
        if hasattr(module, "image_head"):
            from captious.models.dual import pool_image

            vector = module.image_head(pool_image(output, module.shape.image_pooling))
        else:
            vector = _project(module, "visual_projection", output.pooler_output)
        return pool_grid(output.last_hidden_state), vector

    def encode_texts(self, ids: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Return the hidden states and the vectors of token ids."""
        module, mask = self.module, self.attention_mask(ids)
        masked = {} if self.causal or self.tokenizer.full else {"attention_mask": mask}
        output = module.text_model(input_ids=ids, **masked)
        if hasattr(module, "text_head"):
            from captious.models.dual import pool_text

            vector = module.text_head(pool_text(output, mask, module.shape.text_pooling))
        else:
            vector = _project(module, "text_projection", output.pooler_output)
        return output.last_hidden_state, vector


def pool_grid(states: torch.Tensor, most: int = GRID) -> torch.Tensor:
    """Pool the square of patch states by mean to at most ``most`` × ``most``; tokens before the patches are kept.

    >>> pool_grid(torch.arange(17.0)[None, :, None], most=2)[0, :, 0].tolist()  # 1 + 4 × 4, by 2 × 2
    [0.0, 3.5, 5.5, 11.5, 13.5]
    """
    count = states.shape[1]
    side = isqrt(count)
    if side <= most:
        return states
    # Side of the pooled grid: whole blocks of ceil(side / most) patches.
    smaller = -(-side // -(-side // most))
    front, patches = states[:, : count - side * side], states[:, count - side * side :]
    square = patches.transpose(1, 2).reshape(len(states), -1, side, side)
    pooled = torch.nn.functional.adaptive_avg_pool2d(square.float(), smaller).to(states.dtype)
    return torch.cat([front, pooled.flatten(2).transpose(1, 2)], dim=1)


def _project(module: Any, name: str, pooled: torch.Tensor) -> torch.Tensor:
    projection = getattr(module, name, None)
    return pooled if projection is None else projection(pooled)


def _join_row(states: torch.Tensor, vector: torch.Tensor) -> torch.Tensor:
    return torch.cat([states.flatten(1), vector], dim=1)


@dataclass(frozen=True, eq=False)
class ImageStates:
    """Hidden states of n images: in memory, or in the store under their keys."""

    rows: Halves | None
    index: Ints
    """Row of each image, −1 if it has none."""
    vectors: EncodedRows
    faults: dict[int, str]
    store: Store | None = None
    keys: Keys | None = None

    def __len__(self) -> int:
        return len(self.index)

    def take(self, rows: Ints) -> Halves:
        """Return the states of some images."""
        if self.rows is not None:
            return self.rows[self.index[rows]]
        assert self.store is not None and self.keys is not None
        states, _, stored = self.store.gather(self.keys[rows])
        if not stored.all():
            raise InputError(
                f"the feature cache lost {int((~stored).sum())} images on the way; CAPTIOUS_CACHE_LIMIT is too small"
            )
        return states


def get_image_states(encoder: TorchEncoder, paths: Sequence[ImageSource]) -> ImageStates:
    """Return states and vectors of images, with the reason for each image that cannot be used."""
    inside = HiddenStates(encoder)
    distinct, distinct_of = find_distinct(paths)
    kind = get_image_kind("states")
    store = open_store(FeatureSpace(encoder.name, encoder.fingerprint, kind, inside.image_shape, "float16"))
    vectors, files = open_store(get_vector_space(encoder, get_image_kind("images"))), open_file_index()
    file_states = [get_file_state(path) for path in distinct]
    contents = lookup(files, file_states)
    rows, index, keys = _load_rows(store, contents)
    todo = np.flatnonzero(index < 0).tolist()

    def keep(store: Store, keys: Keys, rows: Features) -> None:
        finite = np.isfinite(rows).all(axis=1)
        states = rows[finite, : -encoder.dimension].reshape(-1, *inside.image_shape)
        store.put(keys[finite], to_half(states))
        put_vectors(vectors, keys, rows[:, -encoder.dimension :])

    faults: dict[int, str] = {}
    if todo:
        faults = encode_missing(inside, distinct, file_states, todo, contents, store, files, keep)
        rows, index, keys = _load_rows(store, contents)
    for one in (vectors, store, files):
        one.settle()
    pooled = image_features(encoder, paths)
    missing = np.flatnonzero(index[distinct_of] < 0).tolist()
    broken = {row: faults.get(int(distinct_of[row]), f"{paths[row]}: {NOT_FINITE}") for row in missing}
    return ImageStates(rows, index[distinct_of], pooled, {**broken, **pooled.faults}, store, keys[distinct_of])


def _load_rows(store: Store, contents: list[bytes | None]) -> tuple[Halves | None, Ints, Keys]:
    """Load the rows if they fit into memory; also return the row of each content (−1 for none) and its key."""
    keys = as_keys(key or bytes(16) for key in contents)
    size = 2 * int(np.prod(store.space.shape)) * len(contents)
    if size < SHARE * get_free_memory() or store.folder is None:
        rows, _, index = gather(store, contents)
        return cast(Halves, rows), index, keys
    stored = np.array([key is not None and store.has_intact_row(key) for key in contents])
    return None, np.where(stored, np.arange(len(contents)), -1), keys


def get_text_states(encoder: TorchEncoder, texts: Sequence[str], keep: bool = True) -> TokenRows:
    """Return states and vectors of texts; ``keep`` writes them to the cache."""
    width = HiddenStates(encoder).text_width
    return get_token_rows(encoder, texts, "tokens", width, lambda step: HiddenStates(encoder, step), keep)
