"""Loading a pretrained image–text matching model of ``transformers``, and its head as a rank head."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captious.encoders.devices import device_called, quiet
from captious.encoders.places import find
from captious.encoders.runtime import current
from captious.errors import InputError
from captious.extras import require

RANK = "rank.safetensors"


def pretrained(place: str | Path, kind: str, model: str) -> tuple[Any, Path, set[str], Mapping[str, Any]]:
    """A model by folder or hub id: itself, its folder, the keys its file lacks, and the tensors of the file.

    ``kind`` is the ``model_type`` it must be of, ``model`` its class in ``transformers``.
    """
    transformers = require("transformers", "clip")
    folder = find(str(place))
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises many kinds
        raise InputError(f"{folder}: is no model of transformers ({_line(error)})") from None
    if config.model_type != kind:
        raise InputError(f"{folder}: holds a model of type {config.model_type!r}, expected {kind!r}")
    try:
        with quiet():
            module, report = getattr(transformers, model).from_pretrained(
                folder, output_loading_info=True, local_files_only=True
            )
    except Exception as error:
        raise InputError(f"{folder}: cannot be loaded by transformers ({_line(error)})") from None
    return module, folder, set(report["missing_keys"]), _tensors(folder)


def refuse_missing(folder: Path, missing: set[str]) -> None:
    """Every weight must come from the file."""
    if missing:
        raise InputError(f"{folder}: its weights lack {len(missing)} tensors, such as {min(missing)}")


def positive_row(head: Any, weight: Any, bias: Any) -> None:
    """Start a rank head from the row of a two-way matching head that stands for a match."""
    torch = require("torch", "clip")
    with torch.no_grad():
        head.weight.copy_(weight[1:])
        head.bias.copy_(bias[1:])


def placed(module: Any) -> Any:
    """The model on the device of the runtime, for use."""
    return module.float().to(device_called(current().device)).eval()


def _tensors(folder: Path) -> Mapping[str, Any]:
    """The tensors of a folder's file, for those that the model's class has no place for."""
    path = folder / "model.safetensors"
    if path.is_file():
        return require("safetensors.torch", "clip").load_file(str(path))  # type: ignore[no-any-return]
    path = folder / "pytorch_model.bin"
    if path.is_file():
        return require("torch", "clip").load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    return {}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]
