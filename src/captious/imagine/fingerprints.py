"""What stands for a painter of torch modules: every tensor, and the settings that move a pixel."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

from captious.files import digest


def fingerprint(parts: Mapping[str, Any], settings: str) -> str:
    """Twelve digits over the modules, schedulers and tokenisers of a painter, and its settings."""
    found = [f"{name}={_content(part)}".encode() for name, part in sorted(parts.items()) if part is not None]
    return digest(settings.encode(), *found)


def tensors(module: Any) -> str:
    """A digest of every tensor of a module, of whichever type."""
    import torch

    state = hashlib.blake2b(digest_size=16)
    for key, tensor in sorted(module.state_dict().items()):
        state.update(f"{key}{tuple(tensor.shape)}{tensor.dtype}".encode())
        flat = tensor.detach().cpu().contiguous().reshape(-1)
        state.update(memoryview(flat.view(torch.uint8).numpy()))
    return state.hexdigest()


def _content(part: Any) -> str:
    if hasattr(part, "state_dict") and hasattr(part, "parameters"):
        return tensors(part) + _settled(part)
    if hasattr(part, "get_vocab"):
        return hashlib.blake2b(repr(sorted(part.get_vocab().items())).encode(), digest_size=16).hexdigest()
    return _settled(part)


def _settled(part: Any) -> str:
    """Class and configuration, less what differs between versions of the library and places of a folder."""
    config = getattr(part, "config", {})
    known = config.to_dict() if hasattr(config, "to_dict") else dict(config) if isinstance(config, Mapping) else {}
    plain = {key: value for key, value in known.items() if not key.startswith("_") and "version" not in key}
    return type(part).__name__ + json.dumps(plain, sort_keys=True, default=str)
