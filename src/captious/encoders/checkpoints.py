"""Checkpoint files to tensors by name: TorchScript archives, pickles (tensors only) and safetensors."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.extras import require

WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
"""Keys under which training scripts put the weights."""
PREFIXES = ("module.", "_orig_mod.", "clip.", "model.")
"""What wrappers of a model put before every key."""


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Every tensor of a checkpoint in fp32, under its bare name."""
    found = _unwrapped(_read(path))
    torch = require("torch", "clip")
    tensors = {str(key): value for key, value in found.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise InputError(f"{path}: holds no tensors, expected the weights of a CLIP model")
    for prefix in (*PREFIXES, *PREFIXES):
        if all(key.startswith(prefix) for key in tensors):
            tensors = {key.removeprefix(prefix): value for key, value in tensors.items()}
    return {key: value.float() if value.is_floating_point() else value for key, value in tensors.items()}


def _read(path: Path) -> Any:
    torch = require("torch", "clip")
    try:
        if path.suffix == ".safetensors":
            return require("safetensors.torch", "clip").load_file(str(path))
        if not _starts_right(path):
            raise ValueError
        if _is_script(path):
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # torch calls its own archives deprecated; OpenAI's files stay as they are
                return torch.jit.load(str(path), map_location="cpu").state_dict()
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Exception as error:  # pickle, zip, torch and safetensors each raise their own
        reason = " ".join(str(error).split())
        if "weights_only" in reason or "WeightsUnpickler" in reason:
            raise InputError(
                f"{path}: holds Python objects besides tensors, which are not opened because they could run code; "
                "save its state_dict alone"
            ) from None
        detail = f" ({reason[:120]})" if reason else ""
        raise InputError(f"{path}: is not a checkpoint of torch or safetensors, or is damaged{detail}") from None


def _starts_right(path: Path) -> bool:
    """A zip archive or a pickle: torch would take any other file for a pickle and complain of what it finds there."""
    with path.open("rb") as file:
        return file.read(2)[:1] == b"\x80" or zipfile.is_zipfile(path)


def _is_script(path: Path) -> bool:
    """A TorchScript archive, as OpenAI released its models, carries its code's constants."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _unwrapped(found: Any) -> Mapping[Any, Any]:
    for name in WRAPPERS:
        if isinstance(found, Mapping) and isinstance(found.get(name), Mapping):
            return _unwrapped(found[name])
    return found if isinstance(found, Mapping) else {}
