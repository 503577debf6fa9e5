"""Reading and writing of model folders: JSON files, tensors, and models of ``transformers``."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from captious._core.files import load_json
from captious.errors import InputError, format_one_line, require
from captious.models.devices import quiet


def read_json(path: Path, expected: str = "a model folder in transformers' layout") -> dict[str, Any]:
    """Read the object in a JSON file of a model folder; ``expected`` ends the message if the file is missing."""
    try:
        content = load_json(path)
    except FileNotFoundError:
        raise InputError(f"{path.parent}: has no {path.name}, expected {expected}") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None
    return content if isinstance(content, dict) else {}


def write_json(path: Path, content: Mapping[str, Any]) -> None:
    """Write an object as indented JSON."""
    path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8", newline="\n")


def load_pretrained(folder: Path, model: str, **options: Any) -> tuple[Any, dict[str, Any]]:
    """Load the model of a folder by its class in ``transformers``; return it with the library's loading report."""
    transformers = require("transformers", "clip")
    try:
        with quiet():
            module, report = getattr(transformers, model).from_pretrained(
                folder, output_loading_info=True, local_files_only=True, **options
            )
    except Exception as error:  # the library raises many kinds, from missing files to unknown formats
        how = "by transformers" if model == "AutoModel" else f"as {model}"
        raise InputError(f"{folder}: cannot be loaded {how} ({format_one_line(error, 200)})") from None
    return module, report


def refuse_missing(folder: Path, missing: list[str]) -> None:
    """Raise InputError if weights are missing: ``transformers`` would initialize them at random."""
    if missing:
        raise InputError(
            f"{folder}: its weights do not have {len(missing)} tensors, such as {', '.join(sorted(missing)[:3])}"
        )


def read_state(path: Path) -> dict[str, Any]:
    """Read the tensors of a safetensors file, or of a pickle that contains only tensors."""
    try:
        if path.suffix == ".safetensors":
            return require("safetensors.torch", "clip").load_file(str(path))  # type: ignore[no-any-return]
        return require("torch", "clip").load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    except Exception as error:  # missing, truncated, of another kind: the libraries have their own classes
        raise InputError(f"{path}: cannot be read ({format_one_line(error, 200)})") from None


def save_state(path: Path, state: Mapping[str, Any]) -> None:
    """Write tensors to a safetensors file."""
    tensors = {key: tensor.detach().cpu().contiguous() for key, tensor in state.items()}
    require("safetensors.torch", "clip").save_file(tensors, str(path))


def fill(module: Any, state: Mapping[str, Any], where: Path) -> None:
    """Load a state dict into a module that must have exactly these tensors."""
    refuse_different(state, module.state_dict(), f"{where}: weights of another model")
    module.load_state_dict(state)


def refuse_different(state: Mapping[str, Any], expected: Mapping[str, Any], message: str) -> None:
    """Raise InputError if names or shapes of tensors differ from the expected; ``message`` opens the error."""
    missing, unexpected = [*(expected.keys() - state.keys())], [*(state.keys() - expected.keys())]
    shaped = [key for key in state.keys() & expected.keys() if state[key].shape != expected[key].shape]
    if missing or unexpected or shaped:
        raise InputError(f"{message}: {format_differences(missing, unexpected, shaped)}")


def format_differences(missing: list[str], unexpected: list[str], shaped: list[str], shown: int = 3) -> str:
    """Format a few of the keys that differ, for an error.

    >>> format_differences(["a", "b"], [], ["c"])
    'missing a, b; of another shape c'
    """
    named = {"missing": missing, "unexpected": unexpected, "of another shape": shaped}
    parts = []
    for what, keys in named.items():
        if keys:
            more = f" and {len(keys) - shown} more" if len(keys) > shown else ""
            parts.append(f"{what} {', '.join(sorted(keys)[:shown])}{more}")
    return "; ".join(parts)
