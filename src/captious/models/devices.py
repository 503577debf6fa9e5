"""Where a model runs and how finely it computes there."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from captious._files import digest
from captious.errors import InputError, require

if TYPE_CHECKING:
    import torch


def device_called(name: str) -> torch.device:
    """The device of a runtime: ``auto`` takes a GPU where there is one.

    >>> device_called("cpu")
    device(type='cpu')
    """
    torch = require("torch", "clip")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[no-any-return]
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"device {name!r}: expected auto, cpu, cuda or a number such as cuda:1") from None
    if device.type == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not there:
            raise InputError(f"device {name!r}: torch finds no GPU here; take --device cpu or auto")
        if (device.index or 0) >= there:
            raise InputError(f"device {name!r}: torch finds {there} GPU{'s' * (there > 1)} here, numbered from 0")
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise InputError(f"device {name!r}: torch finds none here; take --device cpu or auto")
    elif device.type != "cpu":
        raise InputError(f"device {name!r}: expected auto, cpu, cuda or a number such as cuda:1")
    return device  # type: ignore[no-any-return]


def precision_on(device: torch.device, asked: str) -> str:
    """``auto`` is fp32 on a CPU and fp16 on a GPU."""
    if asked == "auto":
        return "fp32" if device.type == "cpu" else "fp16"
    if asked not in ("fp32", "bf16", "fp16"):
        raise InputError(f"precision {asked!r}: expected auto, fp32, bf16 or fp16")
    return asked


def number_type(precision: str) -> Any:
    """The torch type of a precision."""
    torch = require("torch", "clip")
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and no advice from ``transformers`` inside the block: captious says itself what a person should know."""
    logging = require("transformers", "clip").utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()


ARCHITECTURE = (
    "model_type",
    "hidden_size",
    "intermediate_size",
    "num_hidden_layers",
    "num_attention_heads",
    "hidden_act",
    "layer_norm_eps",
    "image_size",
    "patch_size",
    "max_position_embeddings",
    "eos_token_id",
    "vocab_size",
)
"""What of a configuration enters the fingerprint; the rest differs between versions of the library."""


def fingerprint_of(module: Any, *parts: str) -> str:
    """Twelve digits over a model in fp32 and what else moves its features.

    Equal for a checkpoint, the same saved in another layout, and the same loaded again.
    """
    return digest(weights_digest(module), architecture(module).encode(), *(part.encode() for part in parts))


def architecture(module: Any) -> str:
    """The shape of a model as one string, the same for a model that was saved and loaded again."""
    config = module.config
    parts = {
        tower: {key: _plain(getattr(getattr(config, tower, None), key, None)) for key in ARCHITECTURE}
        for tower in ("text_config", "vision_config")
    }
    return json.dumps({"model_type": config.model_type, **parts}, sort_keys=True)


def weights_digest(module: Any) -> bytes:
    """A digest of every tensor, in the order of their names."""
    state = hashlib.blake2b(digest_size=16)
    for key, tensor in sorted(module.state_dict().items()):
        state.update(f"{key}{tuple(tensor.shape)}".encode())
        state.update(memoryview(tensor.detach().cpu().contiguous().reshape(-1).numpy()).cast("B"))
    return state.digest()


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, (list, tuple)) else value
