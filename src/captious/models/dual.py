"""Dual encoders: two pretrained towers, each with pooling and a projection head into the common space."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

from captious._core.files import digest
from captious._core.records import from_json
from captious.errors import InputError, format_suggestion, require
from captious.models._model_folders import (
    load_pretrained,
    read_json,
    read_state,
    refuse_different,
    refuse_missing,
    save_state,
    write_json,
)
from captious.models._model_tokenizers import read_tokenizer
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import TorchEncoder, wrap
from captious.models.devices import quiet
from captious.models.hub import find
from captious.models.loading import DUAL_MARKER
from captious.options import Precision, Runtime, get_runtime

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

IMAGE_POOLINGS = ("cls+mean", "cls", "mean", "pooler")
TEXT_POOLINGS = ("mean", "cls", "pooler")
HEADS = ("residual", "linear")


def get_pooled_width(pooling: str, width: int) -> int:
    """Return the width of a pooled vector of states of this ``width``."""
    return 2 * width if pooling == "cls+mean" else width


def pool_image(output: Any, pooling: str) -> torch.Tensor:
    """Pool a vision model's output to one vector per image: ``cls`` is the first token, ``mean`` the mean of patches.

    ``pooler`` is the pooled vector of the model itself.
    """
    if pooling == "pooler":
        return _pooler_output(output)
    states: torch.Tensor = output.last_hidden_state
    parts = {"cls": lambda: states[:, 0], "mean": lambda: states[:, 1:].mean(1)}
    return torch.cat([parts[part]() for part in pooling.split("+")], dim=-1)


def pool_text(output: Any, mask: torch.Tensor, pooling: str) -> torch.Tensor:
    """Pool a text model's output to one vector per text: mean of the tokens, the first one, or the model's pooler."""
    if pooling == "pooler":
        return _pooler_output(output)
    states: torch.Tensor = output.last_hidden_state
    if pooling == "cls":
        return states[:, 0]
    weights = mask[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def _pooler_output(output: Any) -> torch.Tensor:
    if getattr(output, "pooler_output", None) is None:
        raise InputError("pooling 'pooler': this model has no pooler, expected cls or mean")
    vector: torch.Tensor = output.pooler_output
    return vector


class ResidualHead(torch.nn.Module):
    """A linear map of the normalized vector plus a small perceptron that starts at zero."""

    def __init__(self, width: int, dimension: int, hidden: int, dropout: float) -> None:
        super().__init__()
        self.norm = torch.nn.LayerNorm(width)
        self.straight = torch.nn.Linear(width, dimension, bias=False)
        self.inner = torch.nn.Linear(width, hidden)
        self.outer = torch.nn.Linear(hidden, dimension)
        self.dropout = torch.nn.Dropout(dropout)
        torch.nn.init.zeros_(self.outer.weight)
        torch.nn.init.zeros_(self.outer.bias)

    def forward(self, pooled: torch.Tensor) -> torch.Tensor:
        """Project to the common space; the vectors are not normalized."""
        normal = self.norm(pooled)
        perceptron: torch.Tensor = self.outer(self.dropout(torch.nn.functional.gelu(self.inner(normal))))
        linear: torch.Tensor = self.straight(self.dropout(normal))
        return linear + perceptron


def make_head(kind: str, width: int, dimension: int, hidden: int, dropout: float) -> torch.nn.Module:
    """Make a head by name: ``linear`` is that of ``transformers``' VisionTextDualEncoderModel."""
    if kind == "linear":
        return torch.nn.Linear(width, dimension, bias=False)
    return ResidualHead(width, dimension, hidden, dropout)


@dataclass(frozen=True)
class DualHeads:
    """Poolings and heads on the towers. ``hidden`` and ``dropout`` apply to residual heads."""

    image_pooling: str = "cls+mean"
    text_pooling: str = "mean"
    heads: str = "residual"
    dimension: int = 384
    hidden: int = 1024
    dropout: float = 0.3

    def __post_init__(self) -> None:
        for what, name, names in (
            ("image pooling", self.image_pooling, IMAGE_POOLINGS),
            ("text pooling", self.text_pooling, TEXT_POOLINGS),
            ("heads", self.heads, HEADS),
        ):
            if name not in names:
                raise InputError(f"{what} {name!r}: expected {', '.join(names)}{format_suggestion(name, names)}")
        if self.dimension < 1 or self.hidden < 1:
            raise InputError(f"dimension {self.dimension}, hidden {self.hidden}: expected 1 or more")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout {self.dropout:g}: expected 0 or more and less than 1")

    @property
    def text(self) -> str:
        """Shape as text, for fingerprints; dropout does not change a feature."""
        return json.dumps({**asdict(self), "dropout": 0}, sort_keys=True)


class DualModule(torch.nn.Module):
    """Two towers and their heads, with the methods of ``transformers``' CLIP-like models."""

    def __init__(self, vision: Any, text: Any, shape: DualHeads, scale: float = 3.0) -> None:
        super().__init__()
        self.shape = shape
        self.config = SimpleNamespace(
            model_type="captious-dual",
            projection_dim=shape.dimension,
            vision_config=vision.config,
            text_config=text.config,
        )
        self.vision_model, self.text_model = (
            _drop_pooler(vision, shape.image_pooling),
            _drop_pooler(text, shape.text_pooling),
        )
        widths = (
            get_pooled_width(shape.image_pooling, vision.config.hidden_size),
            get_pooled_width(shape.text_pooling, text.config.hidden_size),
        )
        self.image_head, self.text_head = (
            make_head(shape.heads, width, shape.dimension, shape.hidden, shape.dropout) for width in widths
        )
        self.logit_scale = torch.nn.Parameter(torch.tensor(scale))

    def pool_images(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return one vector per image, before the head."""
        return pool_image(self.vision_model(pixel_values=pixel_values), self.shape.image_pooling)

    def list_lower_layers(self, layers: int) -> list[Any]:
        """Return the embeddings and the first ``layers`` layers of the image tower."""
        tower = self.vision_model
        if not all(hasattr(tower, part) for part in ("embeddings", "encoder", "layernorm")):
            raise InputError(f"{tower.config.model_type}: the layers of this image tower cannot be distinguished")
        if not 0 < layers < len(tower.encoder.layer):
            raise InputError(f"lock='image:{layers}': the image tower has {len(tower.encoder.layer)} layers")
        return [tower.embeddings, *tower.encoder.layer[:layers]]

    def run_lower(self, pixel_values: torch.Tensor, layers: int) -> torch.Tensor:
        """Return the hidden states of images after the first ``layers`` layers."""
        first, *rest = self.list_lower_layers(layers)
        states: torch.Tensor = first(pixel_values)
        for layer in rest:
            states = layer(states)
        return states

    def run_upper(self, states: torch.Tensor, layers: int) -> torch.Tensor:
        """Return the pooled vectors of images from their hidden states after the first ``layers`` layers."""
        for layer in self.vision_model.encoder.layer[layers:]:
            states = layer(states)
        last = self.vision_model.layernorm(states)
        return pool_image(SimpleNamespace(last_hidden_state=last, pooler_output=last[:, 0]), self.shape.image_pooling)

    def pool_texts(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return one vector per text, before the head."""
        output = self.text_model(input_ids=input_ids, attention_mask=attention_mask)
        return pool_text(output, attention_mask, self.shape.text_pooling)

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Return the vectors of images in the common space."""
        features: torch.Tensor = self.image_head(self.pool_images(pixel_values))
        return features

    def get_text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Return the vectors of texts in the common space."""
        features: torch.Tensor = self.text_head(self.pool_texts(input_ids, attention_mask))
        return features


def _drop_pooler(tower: Any, pooling: str) -> Any:
    """Remove a tower's pooler if it is not used: it would be saved, counted and never trained."""
    if pooling != "pooler" and getattr(tower, "pooler", None) is not None:
        tower.pooler = None
    return tower


WEIGHTS = "heads.safetensors"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(eq=False)
class DualEncoder(TorchEncoder):
    """A :class:`captious.models.clip.TorchEncoder` over a :class:`DualModule`.

    For frozen towers, training caches ``frozen_images`` and ``frozen_texts`` and trains the heads on
    them.
    """

    shape: DualHeads = field(default_factory=DualHeads)
    frozen_layers: int | None = None
    """Layers of the image tower that training does not change; None for all of it."""

    def freeze_image_layers(self, layers: int) -> None:
        """Train only the layers of the image tower after the first ``layers``."""
        self.module.vision_model.requires_grad_(True)
        for part in self.module.list_lower_layers(layers):
            part.requires_grad_(False)
        self.frozen_layers = layers

    def frozen_images(self, pixels: torch.Tensor) -> torch.Tensor:
        """Return the output of the frozen part for normalized pixels: pooled vectors, or hidden states of frozen
        layers.
        """
        if self.frozen_layers is None:
            return cast("torch.Tensor", self.module.pool_images(pixels))
        return cast("torch.Tensor", self.module.run_lower(pixels, self.frozen_layers))

    def frozen_texts(self, ids: torch.Tensor) -> torch.Tensor:
        """Return the pooled vectors of token ids."""
        return cast("torch.Tensor", self.module.pool_texts(ids, self.attention_mask(ids)))

    def image_head(self, frozen: torch.Tensor) -> torch.Tensor:
        """Project the output of :meth:`frozen_images` into the common space."""
        pooled = frozen if self.frozen_layers is None else self.module.run_upper(frozen, self.frozen_layers)
        return cast("torch.Tensor", self.module.image_head(pooled))

    def text_head(self, pooled: torch.Tensor) -> torch.Tensor:
        """Project pooled vectors of texts into the common space."""
        return cast("torch.Tensor", self.module.text_head(pooled))

    def save(self, folder: str | Path) -> None:
        """Write the layout that :func:`load_dual` reads."""
        target = Path(folder)
        with quiet():
            for tower, name in ((self.module.vision_model, "vision"), (self.module.text_model, "text")):
                (target / name).mkdir(parents=True, exist_ok=True)
                tower.save_pretrained(target / name)
        self.preparation.save(target / "vision")
        self.tokenizer.save(target / "text")
        state = self.module.state_dict()
        save_state(target / WEIGHTS, {key: tensor for key, tensor in state.items() if _is_head(key)})
        write_json(target / DUAL_MARKER, {"kind": "dual", "format": 1, **asdict(self.shape)})


def new_dual(
    vision: str,
    text: str,
    shape: DualHeads | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    precision: Precision = "fp32",
    name: str | None = None,
) -> DualEncoder:
    """Build an encoder of two pretrained models (folders or hub ids) with untrained heads."""
    folders = find(vision, instead=""), find(text, instead="")
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = DualModule(_load_tower(folders[0]), _load_tower(folders[1]), shape or DualHeads())
    name = name or f"{folders[0].name}+{folders[1].name}"
    return _build_encoder(module, *folders, name, Runtime(device=device, precision=precision))


def load_dual(folder: str | Path, name: str | None = None, runtime: Runtime | None = None) -> DualEncoder:
    """Load the encoder of a folder, with the current runtime by default."""
    folder = Path(folder)
    module = DualModule(_load_tower(folder / "vision"), _load_tower(folder / "text"), _read_shape(folder))
    heads = read_state(folder / WEIGHTS)
    expected = {key: tensor for key, tensor in module.state_dict().items() if _is_head(key)}
    refuse_different(heads, expected, f"{folder / WEIGHTS}: is not of the shape that {DUAL_MARKER} says")
    module.load_state_dict(heads, strict=False)
    return _build_encoder(
        module, folder / "vision", folder / "text", name or folder.resolve().name, runtime or get_runtime()
    )


def _build_encoder(module: DualModule, vision: Path, text: Path, name: str, runtime: Runtime) -> DualEncoder:
    tower = module.text_model.config
    tokenizer = read_tokenizer(text, int(tower.max_position_embeddings), own_limit=True)
    side = module.vision_model.config.image_size
    preparation = ImagePreprocessing.read(vision, ImagePreprocessing(side, side, "bicubic", *IMAGENET, "rgb-first"))
    encoder = wrap(module, tokenizer, preparation, name, runtime.device, runtime.precision)
    values = {field.name: getattr(encoder, field.name) for field in fields(encoder) if field.init}
    values["fingerprint"] = digest(encoder.fingerprint.encode(), module.shape.text.encode())
    return DualEncoder(**values, shape=module.shape)


def _load_tower(folder: Path) -> Any:
    """Load a pretrained model of any kind; every weight must come from its folder, except an unused pooler."""
    read_json(folder / "config.json")
    model, report = load_pretrained(folder, "AutoModel")
    refuse_missing(folder, [key for key in report["missing_keys"] if not key.startswith("pooler.")])
    return model


def _read_shape(folder: Path) -> DualHeads:
    path = folder / DUAL_MARKER
    stored = read_json(path, "a folder that captious train clip wrote")
    kind = stored.get("kind")
    if kind != "dual" or stored.get("format") != 1:
        raise InputError(f"{path}: kind {kind!r}, expected 'dual' in format 1")
    try:
        shape: DualHeads = from_json(DualHeads, stored)
    except (TypeError, ValueError) as error:
        raise InputError(f"{path}: {error}") from None
    return shape


def _is_head(key: str) -> bool:
    return not key.startswith(("vision_model.", "text_model."))
