"""What a score costs: parameters, and 2 × multiply-adds of every matrix product, the attention's own included.

The paper's Table 2 counts so: ViT-B/32 with 77 tokens takes 8.82 GFLOPs for the image and 5.96 for the text.
"""

from __future__ import annotations

from typing import Any

from captious.models.encoder import Cost


def tower_flops(tokens: int, width: int, inner: int, layers: int) -> float:
    """Of a transformer over so many tokens: four projections, two attention products, two layers of the MLP.

    >>> round(tower_flops(77, 512, 2048, 12) / 1e9, 2)
    5.96
    """
    projections = 4 * tokens * width * width
    attention = 2 * tokens * tokens * width
    mlp = 2 * tokens * width * inner
    return 2.0 * layers * (projections + attention + mlp)


def image_flops(side: int, patch: int, width: int, inner: int, layers: int, dimension: int) -> float:
    """Of a vision transformer: cutting the patches, the tower over them and the class token, the projection.

    >>> round(image_flops(224, 32, 768, 3072, 12, 512) / 1e9, 2)
    8.82
    """
    patches = (side // patch) ** 2
    return (
        2.0 * patches * 3 * patch * patch * width
        + tower_flops(patches + 1, width, inner, layers)
        + 2.0 * width * dimension
    )


def clip_cost(module: Any, limit: int) -> Cost:
    """Of a ``transformers`` model with a text and a vision transformer."""
    config = module.config
    text, vision = config.text_config, config.vision_config
    dimension = getattr(config, "projection_dim", None) or text.hidden_size
    return Cost(
        parameters=sum(tensor.numel() for tensor in module.parameters()),
        image_flops=image_flops(
            _side(vision.image_size),
            _side(vision.patch_size),
            vision.hidden_size,
            _inner(vision),
            vision.num_hidden_layers,
            dimension,
        ),
        text_flops=tower_flops(limit, text.hidden_size, _inner(text), text.num_hidden_layers)
        + 2.0 * text.hidden_size * dimension,
    )


def _side(value: Any) -> int:
    return int(value[0] if isinstance(value, (list, tuple)) else value)


def _inner(config: Any) -> int:
    """The MLP's width; DINOv2 writes a ratio instead."""
    return int(getattr(config, "intermediate_size", None) or config.hidden_size * config.mlp_ratio)
