"""The protocol of an encoder: what every CLIP-like metric, analysis and training asks of a model."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from captious._core.types import Floats32, Ints
from captious.options import get_runtime

if TYPE_CHECKING:
    from PIL.Image import Image


BLOCK = 4096
"""Texts tokenized at a time."""

Features = Floats32
Pixels = npt.NDArray[np.uint8]


class Tokens(NamedTuple):
    """Texts as a batch of token ids, cut at the encoder's limit with the end token kept."""

    ids: Ints
    """One row per text, padded to the longest of the batch."""
    lengths: Ints
    """How many tokens each text really has, start and end included: more than the limit where it was cut."""


class TextEncoder(Protocol):
    """Texts to vectors of one space."""

    name: str
    """What signatures call it: a hub id, the name of a file or folder, ``captious-mini``."""
    fingerprint: str
    """Twelve hexadecimal digits over weights, architecture, tokenizer, image preparation and precision."""
    precision: str
    """``fp32``, ``bf16`` or ``fp16``."""
    dimension: int
    limit: int
    """Tokens a text may have, start and end included."""

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Token ids of a batch of texts."""

    def text_features(self, ids: Ints) -> Features:
        """Vectors of a batch of tokenized texts, as the model gives them: not of unit length."""


class Encoder(TextEncoder, Protocol):
    """Images and texts to vectors of one space."""

    def prepare(self, picture: Image) -> Pixels:
        """An opened image as the model wants it before normalization: resized, cropped, RGB, height × width × 3."""

    def image_features(self, pixels: Pixels) -> Features:
        """Vectors of a batch of prepared images, as the model gives them: not of unit length."""


def encoder_id(encoder: Encoder) -> str:
    """An encoder in a signature: its name, its content, and how images were read."""
    return ",".join([f"{encoder.name}#{encoder.fingerprint}", *get_runtime().image_options])


def token_counts(encoder: TextEncoder, texts: Sequence[str]) -> Ints:
    """The number of tokens of each text, start and end included; nothing is encoded."""
    blocks = [encoder.tokenize(texts[first : first + BLOCK]).lengths for first in range(0, len(texts), BLOCK)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *blocks])
