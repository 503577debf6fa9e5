"""Folders in ``transformers``' layout: configuration, weights, tokeniser, image preparation."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from captious.encoders.devices import quiet
from captious.encoders.preparation import Order, Preparation
from captious.encoders.runtime import Runtime
from captious.encoders.tokenisers import Tokeniser, tokeniser_of
from captious.encoders.torch_encoder import TorchEncoder, wrap
from captious.errors import InputError
from captious.extras import require

MODELS = {
    "clip": "CLIPModel",
    "siglip": "SiglipModel",
    "vision-text-dual-encoder": "VisionTextDualEncoderModel",
}
"""The class in ``transformers`` for a ``model_type``."""
NOT_WEIGHTS = ("position_ids", "num_batches_tracked")
"""Ends of keys that older versions saved and that carry nothing."""


def load_folder(folder: Path, name: str, runtime: Runtime, order: str | None = None) -> TorchEncoder:
    """The encoder of a folder."""
    settings = _configuration(folder)
    kind = settings.get("model_type")
    if kind not in MODELS:
        known = ", ".join(MODELS)
        raise InputError(f"{folder / 'config.json'}: model_type is {kind!r}, expected one of {known}")
    module = _model(folder, MODELS[kind])
    text, vision = module.config.text_config, module.config.vision_config
    tokeniser = tokeniser_of(folder, int(text.max_position_embeddings))
    if kind != "clip":  # RoBERTa's table has two rows more than tokens it can take; its tokeniser knows
        tokeniser = replace(
            tokeniser, limit=min(tokeniser.limit, int(tokeniser.settings.get("model_max_length", 10**9)))
        )
    if kind == "siglip":
        tokeniser = replace(tokeniser, full=True)
    if kind == "clip":
        check_end(module, tokeniser, str(folder))
    side = vision.image_size if isinstance(vision.image_size, int) else vision.image_size[0]
    usual: Order = "crop-first" if kind == "clip" else "rgb-first"
    preparation = Preparation.read(folder, Preparation(size=side, crop=side, order=usual), usual)
    if order is not None and kind == "clip":
        preparation = replace(preparation, order=cast(Order, order))
    return wrap(module, tokeniser, preparation, name, runtime.device, runtime.precision)


def check_end(module: Any, tokeniser: Tokeniser, where: str) -> None:
    """A text's feature is read at its end token: model and tokeniser must mean the same one.

    An ``eos_token_id`` of 2 is a slip in old CLIP configurations, which ``transformers`` reads as "the largest id".
    """
    looked_for = module.config.text_config.eos_token_id
    largest = tokeniser.backend.get_vocab_size() - 1
    if looked_for == 2 and tokeniser.end != largest:
        raise InputError(
            f"{where}: eos_token_id is 2, which transformers takes for the largest id of a text, "
            f"but the tokeniser ends texts with {tokeniser.end} of {largest + 1} tokens"
        )
    if looked_for not in (2, tokeniser.end):
        raise InputError(
            f"{where}: the model looks for the end token {looked_for}, the tokeniser writes {tokeniser.end}"
        )


def _configuration(folder: Path) -> dict[str, Any]:
    path = folder / "config.json"
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{folder}: has no config.json, expected a model folder in transformers' layout") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None
    return cast("dict[str, Any]", found) if isinstance(found, dict) else {}


def _model(folder: Path, kind: str) -> Any:
    """The model, with every weight from the folder: ``transformers`` alone would make up those that are missing."""
    transformers = require("transformers", "clip")
    try:
        with quiet():
            model, report = getattr(transformers, kind).from_pretrained(
                folder, output_loading_info=True, local_files_only=True, ignore_mismatched_sizes=True
            )
    except Exception as error:  # the library raises many kinds, from missing files to unknown formats
        raise InputError(f"{folder}: cannot be loaded as {kind} ({' '.join(str(error).split())[:200]})") from None
    missing = [key for key in report["missing_keys"] if not key.endswith(NOT_WEIGHTS)]
    other = [entry[0] if isinstance(entry, (tuple, list)) else entry for entry in report["mismatched_keys"]]
    if missing or other:
        raise InputError(f"{folder}: its weights are not those of its config.json: {differences(missing, [], other)}")
    return model


def differences(missing: list[str], unexpected: list[str], shaped: list[str], shown: int = 3) -> str:
    """A few of the keys that differ, for an error.

    >>> differences(["a", "b"], [], ["c"])
    'missing a, b; of another shape c'
    """
    named = {"missing": missing, "unexpected": unexpected, "of another shape": shaped}
    parts = []
    for what, keys in named.items():
        if keys:
            more = f" and {len(keys) - shown} more" if len(keys) > shown else ""
            parts.append(f"{what} {', '.join(sorted(keys)[:shown])}{more}")
    return "; ".join(parts)
