"""The model a training starts from: one that exists, one that exists with more positions, or a new small one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np

from captious.encoders.runtime import Runtime, using
from captious.errors import InputError
from captious.extras import require

NEW = ("mini",)


def starting_model(
    base: str | None,
    new: str | None,
    texts: Iterable[str],
    device: str,
    seed: int,
    towers: tuple[str | None, str | None] = (None, None),
    heads: str = "residual",
) -> Any:
    """A fresh encoder in fp32 that may be changed: ``base`` loaded, a ``new`` one, or new heads on two ``towers``."""
    vision, text = towers
    if [base is not None, new is not None, vision is not None or text is not None].count(True) != 1:
        raise InputError("give one of --base (a folder, file or hub id), --new mini, or --vision with --text")
    if vision is not None and text is not None:
        from captious.encoders.dual import new_dual
        from captious.encoders.dual_module import Shape

        return new_dual(vision, text, Shape(heads=heads), seed=seed, device=device)
    if base is None and new is None:
        raise InputError("--vision and --text go together: a folder or hub id of a pretrained model each")
    with using(Runtime(device=device, precision="fp32")):
        if base is not None:
            from captious.encoders.loading import load_trainable

            return load_trainable(base, device)
        if new not in NEW:
            raise InputError(f"--new {new}: expected {', '.join(NEW)}")
        from captious.encoders.mini import new_mini

        return new_mini(texts, device=device, seed=seed)


def stretched(encoder: Any) -> Any:
    """The encoder with room for 248 tokens instead of 77; one that has as much already is left alone."""
    from captious.encoders.longclip_layout import stretch
    from captious.encoders.torch_encoder import wrap

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
    tokeniser = replace(encoder.tokeniser, limit=len(table))
    return wrap(module, tokeniser, encoder.preparation, encoder.name, str(encoder.device), "fp32")
