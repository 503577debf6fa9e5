"""Interface of an encoder, which every CLIP-like metric, analysis and training uses."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from captious._core import plugins
from captious._core.types import Floats32, Ints
from captious.errors import InputError
from captious.options import Runtime, get_runtime

if TYPE_CHECKING:
    from PIL.Image import Image


# Texts tokenized at a time.
BLOCK = 4096

Features = Floats32
Pixels = npt.NDArray[np.uint8]


class Tokens(NamedTuple):
    """Batch of token ids, truncated at the encoder's limit before the end token."""

    ids: Ints
    """One row per text, padded to the longest of the batch."""
    lengths: Ints
    """Number of tokens of each text before truncation, start and end included."""


class TextEncoder(Protocol):
    """Encoder of texts to vectors."""

    name: str
    """Name in signatures: a hub id, the name of a file or folder, ``captious-mini``."""
    fingerprint: str
    """Twelve hexadecimal digits over weights, architecture, tokenizer, image preparation and precision."""
    precision: str
    """``fp32``, ``bf16`` or ``fp16``."""
    dimension: int
    limit: int
    """Token limit of a text, start and end included."""

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        """Tokenize a batch of texts."""

    def text_features(self, ids: Ints) -> Features:
        """Return the vectors of a batch of tokenized texts, not normalized."""


class Encoder(TextEncoder, Protocol):
    """Encoder of images and texts to vectors of a common space."""

    def prepare(self, picture: Image) -> Pixels:
        """Prepare an opened image before normalization: resized, cropped, RGB, height × width × 3 bytes."""

    def image_features(self, pixels: Pixels) -> Features:
        """Return the vectors of a batch of prepared images, not normalized."""


# Type of a metric's encoder argument: a name or an encoder object.
Weights = str | Encoder
TextWeights = str | TextEncoder

TEXT_MEMBERS = ("name", "fingerprint", "precision", "dimension", "limit", "tokenize", "text_features")
MEMBERS = (*TEXT_MEMBERS, "prepare", "image_features")


_USED: ContextVar[dict[str, str] | None] = ContextVar("models in use", default=None)


@contextmanager
def record_models() -> Iterator[dict[str, str]]:
    """Collect the models that are loaded or used inside the block: names by fingerprint."""
    used: dict[str, str] = {}
    token = _USED.set(used)
    try:
        yield used
    finally:
        _USED.reset(token)


def note_model(model: Any) -> None:
    """Record that a model is used, for `record_models`."""
    used = _USED.get()
    if used is not None and isinstance(getattr(model, "fingerprint", None), str):
        used[model.fingerprint] = str(getattr(model, "name", type(model).__name__))


def find_given_encoder(weights: Any, members: Sequence[str] = MEMBERS) -> Any:
    """Return the encoder that was given as an object instead of a name; None if it is a name."""
    if isinstance(weights, str):
        known = plugins.find_object(weights)
        if known is None:
            return None
        weights = known.object
    return _check_members(weights, type(weights).__name__, members)


def load_installed_encoder(weights: str, runtime: Runtime, members: Sequence[str] = MEMBERS) -> Any:
    """Load the encoder that an installed package provides under this name; return None if there is none.

    Its entry point, of the group ``captious.encoders``, is a function of the `captious.Runtime` in force.
    """
    point = plugins.find_points(plugins.ENCODERS).get(weights)
    if point is None:
        return None
    where, make = plugins.describe_point(point, "encoder"), plugins.load_point(point, "encoder")
    if not callable(make):
        raise InputError(f"{where}: {point.value} is not a function, expected one of captious.Runtime")
    return _check_members(make(runtime), where, members)


def _check_members(encoder: Any, where: str, members: Sequence[str]) -> Any:
    """Raise InputError if an object is not an encoder; return it."""
    missing = [member for member in members if not hasattr(encoder, member)]
    if missing:
        protocol = "Encoder" if len(members) == len(MEMBERS) else "TextEncoder"
        raise InputError(
            f"{where} has no {', '.join(missing)}, expected an encoder with the members of captious.models.{protocol}"
        )
    for attribute in ("name", "fingerprint"):
        plugins.check_name(getattr(encoder, attribute), f"{where}: {attribute}")
    note_model(encoder)
    return encoder


def encoder_id(encoder: Encoder) -> str:
    """Return the identity of an encoder in a signature: name, fingerprint, and options of image reading."""
    return ",".join([f"{encoder.name}#{encoder.fingerprint}", *get_runtime().image_options])


def count_tokens(encoder: TextEncoder, texts: Sequence[str]) -> Ints:
    """Count the tokens of each text, start and end included; nothing is encoded."""
    blocks = [encoder.tokenize(texts[first : first + BLOCK]).lengths for first in range(0, len(texts), BLOCK)]
    return np.concatenate([np.zeros(0, dtype=np.int64), *blocks])
