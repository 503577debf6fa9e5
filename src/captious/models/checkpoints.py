"""Checkpoint files of OpenAI's CLIP, PAC-S, LongCLIP and SPECS, and their conversion to ``transformers`` models.

The files are TorchScript archives, pickles (of which only tensors are read) or safetensors. LongCLIP and SPECS have
stretched positional tables. PAC-S++ and DAC have LoRA tensors, which are added to the weights.
"""

from __future__ import annotations

import pickle
import warnings
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from captious._core.types import Floats
from captious.errors import InputError, format_one_line, require
from captious.models._model_folders import format_differences

# Keys under which training scripts put the weights.
WRAPPERS = ("state_dict", "model_state_dict", "model", "module")
# Prefixes that wrappers of a model add to every key.
PREFIXES = ("module.", "_orig_mod.", "clip.", "model.")


def read_checkpoint(path: Path) -> dict[str, Any]:
    """Read every tensor of a checkpoint in fp32, with wrapper prefixes removed from the names."""
    state = _unwrap(_read(path))
    torch = require("torch", "clip")
    tensors = {str(key): value for key, value in state.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise InputError(f"{path}: contains no tensors, expected the weights of a CLIP model")
    for prefix in (*PREFIXES, *PREFIXES):
        if all(key.startswith(prefix) for key in tensors):
            tensors = {key.removeprefix(prefix): value for key, value in tensors.items()}
    return {key: value.float() if value.is_floating_point() else value for key, value in tensors.items()}


def _read(path: Path) -> Any:
    torch = require("torch", "clip")
    try:
        if path.suffix == ".safetensors":
            return require("safetensors.torch", "clip").load_file(str(path))
        if not _is_archive(path):
            raise ValueError
        if _is_script(path):
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore"
                )  # TorchScript is deprecated, but OpenAI's files are TorchScript archives
                return torch.jit.load(str(path), map_location="cpu").state_dict()
        return torch.load(path, map_location="cpu", weights_only=True)
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror or error})") from None
    except Exception as error:  # pickle, zip, torch and safetensors each raise their own
        reason = " ".join(str(error).split())
        if "weights_only" in reason or "WeightsUnpickler" in reason:
            raise InputError(
                f"{path}: contains Python objects besides tensors, which are not opened because they could run code; "
                "save only its state_dict"
            ) from None
        detail = f" ({reason[:120]})" if reason else ""
        raise InputError(f"{path}: is not a checkpoint of torch or safetensors, or is damaged{detail}") from None


def read_tensors(path: Path) -> dict[str, Any]:
    """Read the named tensors of a checkpoint that may contain Python objects of a trainer besides them.

    Classes of such objects are replaced by an empty one and never imported, so nothing of the file is run.
    """
    torch = require("torch", "clip")
    if path.suffix == ".safetensors":
        content = _read(path)
    else:
        if not _is_archive(path) or _is_script(path):
            raise InputError(f"{path}: is not a checkpoint of torch, expected a pickle or a safetensors file")
        try:
            content = torch.load(path, map_location="cpu", weights_only=False, pickle_module=_TensorPickles)
        except Exception as error:  # of pickle, zip, torch, or a placeholder used as something else
            raise InputError(
                f"{path}: is not a checkpoint of torch, or is damaged ({format_one_line(error)})"
            ) from None
    named = _list_module_tensors(content) if isinstance(content, _Placeholder) else _unwrap(content)
    tensors = {str(key): value for key, value in named.items() if isinstance(value, torch.Tensor)}
    if not tensors:
        raise InputError(f"{path}: contains no tensors")
    return {key: value.detach() for key, value in tensors.items()}


def _list_module_tensors(module: _Placeholder, prefix: str = "") -> dict[str, Any]:
    """Return the tensors of a module that was pickled whole, by the names that its state dict would have."""
    state = module.state if isinstance(module.state, dict) else {}
    tensors = {
        f"{prefix}{name}": value for kind in ("_parameters", "_buffers") for name, value in state.get(kind, {}).items()
    }
    for name, child in state.get("_modules", {}).items():
        if isinstance(child, _Placeholder):
            tensors |= _list_module_tensors(child, f"{prefix}{name}.")
    return tensors


class _Placeholder:
    """Object of a foreign class, with its state as plain data; takes every call that unpickling makes."""

    state: Any = None

    def __new__(cls, *arguments: Any, **options: Any) -> _Placeholder:
        return super().__new__(cls)

    def __init__(self, *arguments: Any, **options: Any) -> None:
        pass

    def __setstate__(self, state: Any) -> None:
        self.state = state

    def __setitem__(self, key: Any, value: Any) -> None:
        pass

    def append(self, value: Any) -> None:
        """Ignore a value."""

    def extend(self, values: Any) -> None:
        """Ignore values."""


# Names in the pickle of a tensor besides types of storage.
_TENSOR_FUNCTIONS = (
    ("collections", "OrderedDict"),
    ("torch._utils", "_rebuild_tensor_v2"),
    ("torch._utils", "_rebuild_parameter"),
)


class _TensorUnpickler(pickle.Unpickler):
    """Unpickler that knows tensors and nothing else."""

    def find_class(self, module: str, name: str) -> Any:
        """Return the function or type of a tensor; a placeholder for anything else."""
        if (module, name) in _TENSOR_FUNCTIONS or (module == "torch" and name.endswith("Storage") and name.isalpha()):
            return super().find_class(module, name)
        return _Placeholder


class _TensorPickles:
    """The part of the module ``pickle`` that ``torch.load`` uses."""

    Unpickler = _TensorUnpickler

    @staticmethod
    def load(file: Any, **options: Any) -> Any:
        """Unpickle one object."""
        return _TensorUnpickler(file, **options).load()


def _is_archive(path: Path) -> bool:
    """Return True for a zip archive or a pickle: torch would read any other file as a pickle, and fail oddly."""
    with path.open("rb") as file:
        return file.read(2)[:1] == b"\x80" or zipfile.is_zipfile(path)


def _is_script(path: Path) -> bool:
    """Return True for a TorchScript archive, as OpenAI released its models: it contains the constants of its code."""
    if not zipfile.is_zipfile(path):
        return False
    with zipfile.ZipFile(path) as archive:
        return any(name.endswith("/constants.pkl") for name in archive.namelist())


def _unwrap(content: Any) -> Mapping[Any, Any]:
    for name in WRAPPERS:
        if isinstance(content, Mapping) and isinstance(content.get(name), Mapping):
            return _unwrap(content[name])
    return content if isinstance(content, Mapping) else {}


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
# Weights that are stored as input × output.
TRANSPOSED = ("visual.proj", "text_projection")


def map_blocks(tower: str, layers: int) -> dict[str, tuple[str, ...]]:
    """Return every key of a tower's blocks with the keys it becomes."""
    prefix = "vision_model" if tower else "text_model"
    return {
        f"{tower}transformer.resblocks.{layer}.{source.format(kind)}": tuple(
            f"{prefix}.encoder.layers.{layer}.{target.format(kind)}" for target in targets
        )
        for layer in range(layers)
        for source, targets in BLOCK.items()
        for kind in ("weight", "bias")
    }


def map_keys(image_layers: int, text_layers: int) -> dict[str, tuple[str, ...]]:
    """Return every key of a model with the keys it becomes: OpenAI stores the three attention projections as one
    tensor.
    """
    single = {source: (target,) for source, target in TOP.items()}
    return single | map_blocks("visual.", image_layers) | map_blocks("", text_layers)


# Positions that are not stretched: most captions that CLIP was trained on were shorter.
UNSTRETCHED = 20
FACTOR = 4
RESIDUAL = "positional_embedding_res"


def stretch(table: npt.NDArray[np.floating[Any]], copied: int = UNSTRETCHED, factor: int = FACTOR) -> Floats:
    """Stretch positions: the first ``copied`` stay, then three new ones between each and the next (``factor`` 4).

    After the last row the line through the last two goes on, so 77 rows become 4 · 77 − 3 · 20 = 248.

    >>> stretch(np.arange(77.0)[:, None])[[19, 20, 21, 24, 243, 244, 247], 0].tolist()
    [19.0, 20.0, 20.25, 21.0, 75.75, 76.0, 76.75]
    """
    old = np.asarray(table, np.float64)
    if old.ndim != 2 or len(old) < max(copied, 1) + 1:
        raise InputError(f"a positional table of shape {old.shape} cannot be stretched: expected over {copied} rows")
    # The appended row extrapolates the last two, so that the last position has a step too.
    steps = np.diff(old[copied:], axis=0, append=old[-1:] * 2 - old[-2:-1])
    parts = np.arange(factor)[None, :, None] / factor
    later = old[copied:, None, :] + parts * steps[:, None, :]
    return np.concatenate((old[:copied], later.reshape(-1, old.shape[1])))


def merge_positions(state: Mapping[str, Any], where: str) -> dict[str, Any]:
    """Merge the two positional tables of a checkpoint: 20 positions of the frozen one, then the trained one."""
    merged = dict(state)
    trained = merged.pop(RESIDUAL, None)
    if trained is None:
        return merged
    frozen = merged.get("positional_embedding")
    if frozen is None or frozen.shape != trained.shape or len(frozen) <= UNSTRETCHED:
        shape = None if frozen is None else tuple(frozen.shape)
        raise InputError(
            f"{where}: positional_embedding is {shape} and {RESIDUAL} {tuple(trained.shape)}, "
            "expected two tables of 248 rows"
        )
    merged["positional_embedding"] = require("torch", "clip").cat((frozen[:UNSTRETCHED], trained[UNSTRETCHED:]))
    return merged


LoraRule = Literal["no-mlp", "all"]
# Rank of the published files of PAC-S++ and DAC.
PUBLISHED_RANK = 4


@dataclass(frozen=True)
class Lora:
    """The treatment of the LoRA tensors of a checkpoint; the factor of B · A is 1 / rank.

    >>> print(Lora("no-mlp", 4))
    no-mlp,rank=4
    """

    rule: LoraRule
    """``all`` adds every product, as DAC does; ``no-mlp`` ignores those of the MLP layers, as PAC-S++ does."""
    rank: int

    def __str__(self) -> str:
        return f"{self.rule},rank={self.rank}"


def fold_lora(tensors: Mapping[str, Any], rule: LoraRule | None, where: str) -> tuple[dict[str, Any], Lora | None]:
    """Add B · A / rank to the weights of a checkpoint with LoRA tensors, and drop those tensors.

    Raise InputError if the checkpoint has LoRA tensors but there is no rule, or a rule but no such tensors.
    """
    state = {key: value for key, value in tensors.items() if "lora_" not in key}
    names = sorted(tensors.keys() - state.keys())
    if not names:
        if rule is None:
            return state, None
        raise InputError(
            f"{where}: contains no LoRA tensors, expected a checkpoint of PAC-S++ or DAC; "
            "without plus=yes or lora=all it is scored as it is"
        )
    if rule is None:
        raise InputError(
            f"{where}: contains LoRA tensors, such as {names[0]}; a file of PAC-S++ is scored by "
            "pacscore(weights=…, plus=yes), one of DAC by clipscore(weights=…, lora=all)"
        )
    if not state:
        raise InputError(f"{where}: contains only LoRA tensors, expected the weights of the CLIP model as well")
    rank = _read_rank(tensors, names, where)
    for name in (key for key in names if key.endswith("lora_A")):
        # `x.in_proj_weight_lora_A` belongs to `x.in_proj_weight`, `x.c_fc.lora_A` to `x.c_fc.weight`.
        layer = name.removesuffix("lora_A")
        target = layer.removesuffix("_") if layer.endswith("_") else f"{layer}weight"
        a, b, weight = tensors[name], tensors[f"{layer}lora_B"], state.get(target)
        if weight is None or a.dim() != 2 or b.dim() != 2 or not _multiply_to(a, b, weight):
            shape = "(missing)" if weight is None else tuple(weight.shape)
            raise InputError(
                f"{where}: {layer}lora_B {tuple(b.shape)} times lora_A {tuple(a.shape)} does not fit {target} {shape}"
            )
        # PAC-S++ loads its checkpoint after `eval()`, which marks the linear layers of the MLP as merged already, so
        # its published scores ignore these tensors. DAC's linear layers are never marked.
        if rule == "all" or ".mlp." not in name:
            state[target] = weight + (b @ a).reshape(weight.shape) / rank
    return state, Lora(rule, rank)


def _read_rank(tensors: Mapping[str, Any], names: list[str], where: str) -> int:
    """Return the rank, which is the first side of any ``in_proj_weight_lora_A``; raise InputError for lone tensors."""
    pairs = {key.removesuffix("A").removesuffix("B") for key in names}
    lone = sorted(set(names) ^ {f"{key}{side}" for key in pairs for side in "AB"})
    if lone:
        raise InputError(f"{where}: LoRA tensors without their pair: {format_differences(lone, [], [])}")
    ranks = {key: len(tensors[key]) for key in names if key.endswith("in_proj_weight_lora_A")}
    if len(set(ranks.values())) != 1:
        found = ", ".join(f"{key} {tuple(tensors[key].shape)}" for key in [*ranks][:2])
        raise InputError(
            f"{where}: the rank of its LoRA tensors cannot be read: {found or 'no in_proj_weight_lora_A'}; "
            "expected the same first side of every in_proj_weight_lora_A"
        )
    return next(iter(ranks.values()))


def _multiply_to(a: Any, b: Any, weight: Any) -> bool:
    return bool(b.shape[1] == a.shape[0] and b.shape[0] * a.shape[1] == weight.numel())


# Attention heads by width of image towers (ViT-H, g, bigG) whose heads are not 64 wide; checkpoints omit it.
WIDE_HEADS = {1280: 16, 1408: 16, 1664: 16}


def from_openai(tensors: Mapping[str, Any], where: str, activation: str = "quick_gelu") -> Any:
    """Build a ``transformers`` CLIPModel with the weights of an OpenAI-layout checkpoint."""
    state = merge_positions({key: value for key, value in tensors.items() if key not in IGNORED}, where)
    config = _infer_config(state, where, activation)
    model = _build_empty(config)
    expected = {key: tuple(value.shape) for key, value in model.state_dict().items()}
    weights: dict[str, Any] = {}
    shaped: list[str] = []
    for source, targets in map_keys(
        *(tower.num_hidden_layers for tower in (config.vision_config, config.text_config))
    ).items():
        tensor = state[source].t() if source in TRANSPOSED else state[source]
        parts = tensor.chunk(len(targets)) if len(targets) > 1 else (tensor,)
        if len(parts) != len(targets) or any(
            tuple(part.shape) != expected[target] for part, target in zip(parts, targets, strict=True)
        ):
            shaped.append(f"{source} {tuple(tensor.shape)}")
            continue
        weights.update({target: _copy_tensor(part) for target, part in zip(targets, parts, strict=True)})
    if shaped:
        raise InputError(f"{where}: its towers do not fit together: {format_differences([], [], shaped)}")
    model.load_state_dict(weights, assign=True)
    return model


def _infer_config(state: Mapping[str, Any], where: str, activation: str) -> Any:
    """Infer the sizes of both towers from the tensors; raise InputError with the differing keys if they do not fit."""
    if any(key.startswith("visual.layer1.") for key in state):
        raise InputError(f"{where}: is a ResNet CLIP, expected one with a vision transformer, such as ViT-B/32")
    layers = {tower: _count_layers(state, f"{tower}transformer.resblocks.") for tower in ("visual.", "")}
    expected = set(TOP) | {key for tower, count in layers.items() for key in map_blocks(tower, max(count, 1))}
    missing, unexpected = sorted(expected - set(state)), sorted(set(state) - expected)
    if missing or unexpected:
        raise InputError(f"{where}: is not a CLIP of OpenAI's layout: {format_differences(missing, unexpected, [])}")
    tables = ("visual.conv1.weight", "visual.positional_embedding", "token_embedding.weight", "positional_embedding")
    flat = [key for key, dims in zip(tables, (4, 2, 2, 2), strict=True) if state[key].dim() != dims]
    if flat or state["visual.proj"].dim() != 2:
        raise InputError(
            f"{where}: is not a CLIP of OpenAI's layout: {format_differences([], [], flat or ['visual.proj'])}"
        )
    image_width, _, patch, _ = state["visual.conv1.weight"].shape
    grid = round((state["visual.positional_embedding"].shape[0] - 1) ** 0.5)
    vocabulary, text_width = state["token_embedding.weight"].shape
    both = {"hidden_act": activation, "projection_dim": state["visual.proj"].shape[1]}
    return require("transformers", "clip").CLIPConfig(
        projection_dim=both["projection_dim"],
        text_config={
            **both,
            "hidden_size": text_width,
            "intermediate_size": state["transformer.resblocks.0.mlp.c_fc.weight"].shape[0],
            "num_hidden_layers": layers[""],
            "num_attention_heads": max(text_width // 64, 1),
            "max_position_embeddings": state["positional_embedding"].shape[0],
            "vocab_size": vocabulary,
            # OpenAI's code reads the feature at the largest id, which is the last of the vocabulary: the end token.
            "bos_token_id": vocabulary - 2,
            "eos_token_id": vocabulary - 1,
            "pad_token_id": vocabulary - 1,
        },
        vision_config={
            **both,
            "hidden_size": image_width,
            "intermediate_size": state["visual.transformer.resblocks.0.mlp.c_fc.weight"].shape[0],
            "num_hidden_layers": layers["visual."],
            "num_attention_heads": WIDE_HEADS.get(image_width) or max(image_width // 64, 1),
            "image_size": grid * patch,
            "patch_size": patch,
        },
    )


def _build_empty(config: Any) -> Any:
    """Build a model on the meta device: random weights would take longer than everything else."""
    torch = require("torch", "clip")
    with torch.device("meta"):
        model = require("transformers", "clip").CLIPModel(config)
    for module in model.modules():
        if "position_ids" in module._buffers:
            module._buffers["position_ids"] = torch.arange(module.position_ids.shape[1])[None]
    return model.eval()


def _copy_tensor(tensor: Any) -> Any:
    """Copy a tensor to its own memory, which safetensors requires."""
    return tensor.clone(memory_format=require("torch", "clip").contiguous_format)


def _count_layers(state: Mapping[str, Any], prefix: str) -> int:
    numbers = {key.removeprefix(prefix).split(".")[0] for key in state if key.startswith(prefix)}
    return max((int(number) + 1 for number in numbers if number.isdigit()), default=0)
