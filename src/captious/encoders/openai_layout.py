"""OpenAI's CLIP layout, which PAC-S, OpenCLIP, LongCLIP and SPECS share, to the layout of ``transformers``."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from captious.encoders.folders import differences
from captious.encoders.longclip_layout import merged_positions
from captious.encoders.openai_keys import IGNORED, TOP, TURNED, blocks, pairs
from captious.errors import InputError
from captious.extras import require

WIDE_HEADS = {1280: 16, 1408: 16, 1664: 16}
"""Image towers (ViT-H, g, bigG) whose heads are not 64 wide; a checkpoint does not say."""


@dataclass(frozen=True)
class Shape:
    """The sizes of a checkpoint's two towers."""

    dimension: int
    side: int
    patch: int
    image_width: int
    image_inner: int
    image_layers: int
    vocabulary: int
    limit: int
    text_width: int
    text_inner: int
    text_layers: int

    @property
    def image_heads(self) -> int:
        """Heads of 64, but for the largest models."""
        return WIDE_HEADS.get(self.image_width) or max(self.image_width // 64, 1)

    @property
    def text_heads(self) -> int:
        """Heads of 64."""
        return max(self.text_width // 64, 1)


def from_openai(found: Mapping[str, Any], where: str, activation: str = "quick_gelu") -> Any:
    """A ``transformers`` CLIPModel with the weights of an OpenAI-layout checkpoint."""
    state = merged_positions({key: value for key, value in found.items() if key not in IGNORED}, where)
    shape = shape_of(state, where)
    model = _without_weights(_configuration(shape, activation))
    wanted = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    made: dict[str, Any] = {}
    shaped: list[str] = []
    for source, targets in pairs(shape.image_layers, shape.text_layers).items():
        tensor = state[source].t() if source in TURNED else state[source]
        parts = tensor.chunk(len(targets)) if len(targets) > 1 else (tensor,)
        if len(parts) != len(targets) or any(
            tuple(part.shape) != wanted[target] for part, target in zip(parts, targets, strict=True)
        ):
            shaped.append(f"{source} {tuple(tensor.shape)}")
            continue
        made.update({target: _own(part) for target, part in zip(targets, parts, strict=True)})
    if shaped:
        raise InputError(f"{where}: its towers do not fit together: {differences([], [], shaped)}")
    model.load_state_dict(made, assign=True)
    return model


def shape_of(state: Mapping[str, Any], where: str) -> Shape:
    """Read the sizes off the tensors, and say which keys differ where it is another architecture."""
    if any(key.startswith("visual.layer1.") for key in state):
        raise InputError(f"{where}: is a ResNet CLIP, expected one with a vision transformer, such as ViT-B/32")
    layers = [_layers(state, "visual.transformer.resblocks."), _layers(state, "transformer.resblocks.")]
    expected = set(TOP) | {
        key for tower, count in zip(("visual.", ""), layers, strict=True) for key in blocks(tower, max(count, 1))
    }
    missing, unexpected = sorted(expected - set(state)), sorted(set(state) - expected)
    if missing or unexpected:
        raise InputError(f"{where}: is not a CLIP of OpenAI's layout: {differences(missing, unexpected, [])}")
    tables = ("visual.conv1.weight", "visual.positional_embedding", "token_embedding.weight", "positional_embedding")
    flat = [key for key, axes in zip(tables, (4, 2, 2, 2), strict=True) if state[key].dim() != axes]
    if flat or state["visual.proj"].dim() != 2:
        raise InputError(f"{where}: is not a CLIP of OpenAI's layout: {differences([], [], flat or ['visual.proj'])}")
    width, _, patch, _ = state["visual.conv1.weight"].shape
    grid = round((state["visual.positional_embedding"].shape[0] - 1) ** 0.5)
    return Shape(
        dimension=state["visual.proj"].shape[1],
        side=grid * patch,
        patch=patch,
        image_width=width,
        image_inner=state["visual.transformer.resblocks.0.mlp.c_fc.weight"].shape[0],
        image_layers=layers[0],
        vocabulary=state["token_embedding.weight"].shape[0],
        limit=state["positional_embedding"].shape[0],
        text_width=state["token_embedding.weight"].shape[1],
        text_inner=state["transformer.resblocks.0.mlp.c_fc.weight"].shape[0],
        text_layers=layers[1],
    )


def _configuration(shape: Shape, activation: str) -> Any:
    transformers = require("transformers", "clip")
    return transformers.CLIPConfig(
        projection_dim=shape.dimension,
        text_config={
            "hidden_size": shape.text_width,
            "intermediate_size": shape.text_inner,
            "num_hidden_layers": shape.text_layers,
            "num_attention_heads": shape.text_heads,
            "max_position_embeddings": shape.limit,
            "vocab_size": shape.vocabulary,
            "hidden_act": activation,
            "projection_dim": shape.dimension,
            # OpenAI's code reads the feature at the largest id, which is the last of the vocabulary: the end token.
            "bos_token_id": shape.vocabulary - 2,
            "eos_token_id": shape.vocabulary - 1,
            "pad_token_id": shape.vocabulary - 1,
        },
        vision_config={
            "hidden_size": shape.image_width,
            "intermediate_size": shape.image_inner,
            "num_hidden_layers": shape.image_layers,
            "num_attention_heads": shape.image_heads,
            "image_size": shape.side,
            "patch_size": shape.patch,
            "hidden_act": activation,
            "projection_dim": shape.dimension,
        },
    )


def _without_weights(config: Any) -> Any:
    """A model whose tensors are still to come: making random ones first would take longer than all the rest."""
    torch = require("torch", "clip")
    with torch.device("meta"):
        model = require("transformers", "clip").CLIPModel(config)
    for module in model.modules():
        if "position_ids" in module._buffers:
            module._buffers["position_ids"] = torch.arange(module.position_ids.shape[1])[None]
    return model.eval()


def _own(tensor: Any) -> Any:
    """A tensor with memory of its own, as the format of saved models demands."""
    return tensor.clone(memory_format=require("torch", "clip").contiguous_format)


def _layers(state: Mapping[str, Any], prefix: str) -> int:
    numbers = {key.removeprefix(prefix).split(".")[0] for key in state if key.startswith(prefix)}
    return max((int(number) + 1 for number in numbers if number.isdigit()), default=0)
