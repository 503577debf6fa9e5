"""The encoder that a training starts from: one that exists, with more positions if need be, or a new one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from captious.errors import InputError, require
from captious.options import Runtime, using


def starting_encoder(
    base: str | None,
    device: str,
    new: str | None = None,
    towers: tuple[str, str] | None = None,
    heads: str = "residual",
    *,
    texts: Iterable[str] = (),
    seed: int = 0,
) -> Any:
    """A fresh encoder in fp32 that may be changed: ``base`` loaded, a ``new`` one, or new heads on two ``towers``.

    The tokenizer of a new one knows the words of ``texts``.
    """
    if [base, new, towers].count(None) != 2:
        raise InputError("pass one of base=... (a folder, file or hub id), new='mini', or towers=... (image and text)")
    if towers is not None:
        from captious.models.dual import Shape, new_dual

        return new_dual(*towers, Shape(heads=heads), seed=seed, device=device)
    with using(Runtime(device=device, precision="fp32")):
        if base is not None:
            from captious.models.loading import load_trainable

            return load_trainable(base, device)
        from captious.models.mini import new_mini

        return new_mini(texts, device=device, seed=seed)


def stretched(encoder: Any) -> Any:
    """The encoder with room for 248 tokens instead of 77; one that has as much already is left alone."""
    from captious.models.checkpoints import stretch
    from captious.models.clip import wrap

    torch = require("torch", "clip")
    config = encoder.module.config
    if getattr(config, "model_type", "") != "clip":
        raise InputError(f"{encoder.name}: is not a CLIP model, whose table of positions could be stretched")
    if encoder.limit >= 248:
        return encoder
    module = encoder.module
    tower = getattr(module.text_model, "text_model", module.text_model)
    old = tower.embeddings.position_embedding.weight.detach().cpu().numpy()
    table = torch.from_numpy(stretch(old).astype(np.float32))
    tower.embeddings.position_embedding = torch.nn.Embedding.from_pretrained(table, freeze=False)
    tower.embeddings.register_buffer("position_ids", torch.arange(len(table)).expand((1, -1)), persistent=False)
    config.text_config.max_position_embeddings = tower.config.max_position_embeddings = len(table)
    tokenizer = replace(encoder.tokenizer, limit=len(table))
    return wrap(module, tokenizer, encoder.preparation, encoder.name, str(encoder.device), "fp32")
