"""The names of CLIP's tensors: OpenAI's, and what ``transformers`` calls the same ones."""

from __future__ import annotations

IGNORED = ("input_resolution", "context_length", "vocab_size", "attn_mask", "mask1", "mask2")
TOP = {
    "visual.class_embedding": "vision_model.embeddings.class_embedding",
    "visual.conv1.weight": "vision_model.embeddings.patch_embedding.weight",
    "visual.positional_embedding": "vision_model.embeddings.position_embedding.weight",
    "visual.ln_pre.weight": "vision_model.pre_layrnorm.weight",
    "visual.ln_pre.bias": "vision_model.pre_layrnorm.bias",
    "visual.ln_post.weight": "vision_model.post_layernorm.weight",
    "visual.ln_post.bias": "vision_model.post_layernorm.bias",
    "visual.proj": "visual_projection.weight",
    "token_embedding.weight": "text_model.embeddings.token_embedding.weight",
    "positional_embedding": "text_model.embeddings.position_embedding.weight",
    "ln_final.weight": "text_model.final_layer_norm.weight",
    "ln_final.bias": "text_model.final_layer_norm.bias",
    "text_projection": "text_projection.weight",
    "logit_scale": "logit_scale",
}
BLOCK = {
    "attn.in_proj_{}": ("self_attn.q_proj.{}", "self_attn.k_proj.{}", "self_attn.v_proj.{}"),
    "attn.out_proj.{}": ("self_attn.out_proj.{}",),
    "ln_1.{}": ("layer_norm1.{}",),
    "ln_2.{}": ("layer_norm2.{}",),
    "mlp.c_fc.{}": ("mlp.fc1.{}",),
    "mlp.c_proj.{}": ("mlp.fc2.{}",),
}
TURNED = ("visual.proj", "text_projection")
"""Stored as input × output."""


def blocks(tower: str, layers: int) -> dict[str, tuple[str, ...]]:
    """Every key of a tower's blocks, with the keys it becomes."""
    ours = "vision_model" if tower else "text_model"
    return {
        f"{tower}transformer.resblocks.{layer}.{source.format(kind)}": tuple(
            f"{ours}.encoder.layers.{layer}.{target.format(kind)}" for target in targets
        )
        for layer in range(layers)
        for source, targets in BLOCK.items()
        for kind in ("weight", "bias")
    }


def pairs(image_layers: int, text_layers: int) -> dict[str, tuple[str, ...]]:
    """Every key of a model, with the keys it becomes: the three projections of attention are one tensor at OpenAI's."""
    single = {source: (target,) for source, target in TOP.items()}
    return single | blocks("visual.", image_layers) | blocks("", text_layers)
