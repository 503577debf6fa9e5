"""What stands for a model in signatures and in the cache: its weights, its shape, and all that comes before them."""

from __future__ import annotations

import hashlib
import json
from typing import Any

from captious.files import digest

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
