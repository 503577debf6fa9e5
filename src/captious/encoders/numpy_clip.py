"""The forward pass of a CLIP model in NumPy: small encoders work on the base install, without torch.

It reads what ``transformers`` writes for a ``CLIPModel`` (``config.json``, ``model.safetensors``) and gives the same
features to within rounding. Large models run as well, only slowly.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious.encoders.blas import in_threads
from captious.encoders.encoder import Cost, Features, Pixels, Tokens
from captious.encoders.preparation import Preparation
from captious.encoders.tensors import Arrays, read_tensors
from captious.encoders.words import WordTokeniser
from captious.errors import InputError
from captious.files import digest

if TYPE_CHECKING:
    from PIL.Image import Image

Floats = npt.NDArray[np.float32]

_TEXT = "text_model.embeddings."
_CHUNK = 16  # rows computed together: their attention maps and hidden states stay in the processor's cache


@dataclass(eq=False)
class NumpyClip:
    """A CLIP model as arrays; see :class:`captious.encoders.encoder.Encoder`."""

    name: str
    fingerprint: str
    config: dict[str, Any] = field(repr=False)
    arrays: Arrays = field(repr=False)
    tokeniser: WordTokeniser = field(repr=False)
    preparation: Preparation
    precision: str = "fp32"

    def __post_init__(self) -> None:
        self.dimension = len(self.arrays["text_projection.weight"])
        self.limit = self.tokeniser.limit

    def prepare(self, picture: Image) -> Pixels:
        """A picture in the size the model wants, RGB."""
        return self.preparation.prepare(picture)

    def tokenise(self, texts: Sequence[str]) -> Tokens:
        """Token ids of a batch of texts."""
        return self.tokeniser.tokenise(texts)

    def image_features(self, pixels: Pixels) -> Features:
        """Vectors of a batch of prepared images."""
        return _in_chunks(self._image_features, pixels, self.dimension)

    def text_features(self, ids: npt.NDArray[np.int64]) -> Features:
        """Vectors of a batch of tokenised texts."""
        return _in_chunks(self._text_features, ids, self.dimension)

    def cost(self) -> Cost:
        """Parameters and arithmetic of one score."""
        image, text = self._vision, self._text
        patch = self.config["vision_config"]["patch_size"]
        patches = (self.config["vision_config"]["image_size"] // patch) ** 2
        return Cost(
            sum(array.size for array in self.arrays.values()),
            image.flops(patches + 1) + 2.0 * image.width * (3 * patches * patch * patch + self.dimension),
            text.flops(self.limit) + 2.0 * text.width * self.dimension,
        )

    @cached_property
    def _vision(self) -> _Tower:
        return _Tower.read(self.arrays, "vision_model.", self.config["vision_config"])

    @cached_property
    def _text(self) -> _Tower:
        return _Tower.read(self.arrays, "text_model.", self.config["text_config"])

    def _image_features(self, pixels: Pixels) -> Features:
        own, size = self.arrays, self.config["vision_config"]["patch_size"]
        mean, std = (np.array(three, np.float32) for three in (self.preparation.mean, self.preparation.std))
        values = (pixels.astype(np.float32) / np.float32(255) - mean) / std
        n, height, width, _ = values.shape
        patches = values.reshape(n, height // size, size, width // size, size, 3).transpose(0, 1, 3, 5, 2, 4)
        kernel = own["vision_model.embeddings.patch_embedding.weight"]
        embedded = patches.reshape(n, -1, kernel[0].size) @ kernel.reshape(len(kernel), -1).T
        first = np.broadcast_to(own["vision_model.embeddings.class_embedding"], (n, 1, len(kernel)))
        states = np.concatenate([first, embedded], axis=1)
        states = states + own["vision_model.embeddings.position_embedding.weight"]
        tower = self._vision
        states = _norm(states, *_pair(own, "vision_model.pre_layrnorm"), tower.epsilon)
        pooled = _norm(tower.run(states, None)[:, 0], *_pair(own, "vision_model.post_layernorm"), tower.epsilon)
        return _times(pooled, own["visual_projection.weight"].T)

    def _text_features(self, ids: npt.NDArray[np.int64]) -> Features:
        own, end = self.arrays, self.config["text_config"]["eos_token_id"]
        # As transformers has it: configurations from before its correction all say 2, which means the highest id.
        ends = (ids if end == 2 else ids == end).argmax(axis=1)
        ids = ids[:, : int(ends.max(initial=0)) + 1]
        states = own[f"{_TEXT}token_embedding.weight"][ids]
        states = states + own[f"{_TEXT}position_embedding.weight"][: ids.shape[1]]
        tower = self._text
        later = np.triu(np.full((ids.shape[1],) * 2, -np.inf, np.float32), 1)
        last = tower.run(states, later)[np.arange(len(ids)), ends]
        pooled = _norm(last, *_pair(own, "text_model.final_layer_norm"), tower.epsilon)
        return _times(pooled, own["text_projection.weight"].T)


def load_numpy(folder: str | Path, name: str | None = None) -> NumpyClip:
    """The model in a folder of ``transformers`` layout whose tokeniser is made of words."""
    folder = Path(folder)
    try:
        written = (folder / "config.json").read_bytes()
        config = json.loads(written)
    except (OSError, ValueError) as error:
        raise InputError(f"{folder}: no config.json of a CLIP model ({error})") from error
    if config.get("model_type") != "clip":
        raise InputError(f"{folder}: the model type is {config.get('model_type')!r}, expected 'clip'")
    path = folder / "model.safetensors"
    if not path.exists():
        raise InputError(f"{folder}: no model.safetensors beside config.json")
    tokeniser, preparation = WordTokeniser.load(folder), Preparation.read(folder)
    parts = (path.read_bytes(), written, tokeniser.text().encode(), preparation.text.encode(), b"numpy fp32")
    arrays = read_tensors(path)
    tokeniser = replace(tokeniser, limit=min(tokeniser.limit, len(arrays[f"{_TEXT}position_embedding.weight"])))
    return NumpyClip(name or folder.name, digest(*parts), config, arrays, tokeniser, preparation)


@dataclass(frozen=True)
class _Layer:
    """One block: attention and a small network, each after a norm and added to what came in."""

    norm1: tuple[Floats, Floats]
    query_key_value: tuple[Floats, Floats]
    out: tuple[Floats, Floats]
    norm2: tuple[Floats, Floats]
    up: tuple[Floats, Floats]
    down: tuple[Floats, Floats]


@dataclass(frozen=True)
class _Tower:
    """The blocks of one side."""

    layers: tuple[_Layer, ...]
    heads: int
    width: int
    hidden: int
    epsilon: float
    bend: Callable[[Floats], Floats]

    @classmethod
    def read(cls, arrays: Arrays, prefix: str, config: dict[str, Any]) -> _Tower:
        """The tower under a prefix of the arrays' names."""
        activation = config.get("hidden_act", "quick_gelu")
        if activation not in _BENDS:
            raise InputError(f"hidden_act is {activation!r}: expected one of {', '.join(_BENDS)}")
        layers = tuple(
            _layer(arrays, f"{prefix}encoder.layers.{number}.", config["num_attention_heads"])
            for number in range(config["num_hidden_layers"])
        )
        sizes = config["num_attention_heads"], config["hidden_size"], config["intermediate_size"]
        return cls(layers, *sizes, config.get("layer_norm_eps", 1e-5), _BENDS[activation])

    def flops(self, tokens: int) -> float:
        """Twice the multiply-adds of the matrix products for one sequence."""
        one = 4 * self.width**2 + 2 * self.width * self.hidden + 2 * self.width * tokens
        return 2.0 * len(self.layers) * tokens * one

    def run(self, states: Floats, mask: Floats | None) -> Floats:
        """Hidden states after the last block."""
        n, tokens, width = states.shape
        for layer in self.layers:
            mixed = _norm(states, *layer.norm1, self.epsilon) @ layer.query_key_value[0] + layer.query_key_value[1]
            query, key, value = mixed.reshape(n, tokens, 3, self.heads, -1).transpose(2, 0, 3, 1, 4)
            weights = query @ key.swapaxes(-1, -2)
            if mask is not None:
                weights += mask
            np.exp(weights - weights.max(axis=-1, keepdims=True), out=weights)
            weights /= weights.sum(axis=-1, keepdims=True)
            seen = (weights @ value).transpose(0, 2, 1, 3).reshape(n, tokens, width)
            states = states + (seen @ layer.out[0] + layer.out[1])
            inner = self.bend(_norm(states, *layer.norm2, self.epsilon) @ layer.up[0] + layer.up[1])
            states = states + (inner @ layer.down[0] + layer.down[1])
        return states


def _layer(arrays: Arrays, prefix: str, heads: int) -> _Layer:
    def linear(name: str) -> tuple[Floats, Floats]:
        return np.ascontiguousarray(arrays[f"{prefix}{name}.weight"].T), arrays[f"{prefix}{name}.bias"]

    query, key, value = (linear(f"self_attn.{one}_proj") for one in "qkv")
    scale = np.float32((len(query[1]) // heads) ** -0.5)
    joined = (
        np.concatenate([query[0] * scale, key[0], value[0]], axis=1),
        np.concatenate([query[1] * scale, key[1], value[1]]),
    )
    norms = _pair(arrays, f"{prefix}layer_norm1"), _pair(arrays, f"{prefix}layer_norm2")
    return _Layer(norms[0], joined, linear("self_attn.out_proj"), norms[1], linear("mlp.fc1"), linear("mlp.fc2"))


def _pair(arrays: Arrays, name: str) -> tuple[Floats, Floats]:
    return arrays[f"{name}.weight"], arrays[f"{name}.bias"]


def _times(states: Floats, weight: Floats) -> Floats:
    product: Floats = states @ weight
    return product


def _norm(states: Floats, weight: Floats, bias: Floats, epsilon: float) -> Floats:
    centred = states - states.mean(axis=-1, keepdims=True)
    spread = np.sqrt(np.einsum("...i,...i->...", centred, centred)[..., None] / np.float32(states.shape[-1]) + epsilon)
    scaled: Floats = centred * (weight / spread) + bias
    return scaled


def _quick_gelu(values: Floats) -> Floats:
    bent: Floats = values / (1 + np.exp(-np.float32(1.702) * values))
    return bent


def _gelu(values: Floats) -> Floats:
    """With the error function of Abramowitz and Stegun 7.1.26, right to 1.5e-7."""
    size = np.abs(values) * np.float32(0.5**0.5)
    t = 1 / (1 + np.float32(0.3275911) * size)
    series = t * (0.254829592 + t * (-0.284496736 + t * (1.421413741 + t * (-1.453152027 + t * 1.061405429))))
    bent: Floats = np.float32(0.5) * values * (1 + np.sign(values) * (1 - series * np.exp(-size * size)))
    return bent


_BENDS: dict[str, Callable[[Floats], Floats]] = {"quick_gelu": _quick_gelu, "gelu": _gelu}


def _in_chunks(encode: Callable[[Any], Features], rows: npt.NDArray[Any], dimension: int) -> Features:
    parts = in_threads(encode, [rows[start : start + _CHUNK] for start in range(0, len(rows), _CHUNK)])
    return np.concatenate(parts) if parts else np.zeros((0, dimension), np.float32)
