"""What turns the states of a pretrained tower into a vector of the common space: pooling, then a projection head."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from captious._files import digest
from captious.errors import InputError, nearest, require
from captious.models.clip import TorchEncoder, wrap
from captious.models.devices import quiet
from captious.models.hub import find
from captious.models.preprocess import Preparation
from captious.models.tokenizers import tokenizer_of
from captious.options import Precision, Runtime, current

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

IMAGE_POOLINGS = ("cls+mean", "cls", "mean", "pooler")
TEXT_POOLINGS = ("mean", "cls", "pooler")
HEADS = ("residual", "linear")


def pooled_width(pooling: str, width: int) -> int:
    """Numbers in a pooled vector of states that have ``width``."""
    return 2 * width if pooling == "cls+mean" else width


def pool_image(found: Any, pooling: str) -> torch.Tensor:
    """One vector per image from a vision model's output: ``cls`` is the first token, ``mean`` the mean of patches.

    ``pooler`` is the vector the model itself offers.
    """
    if pooling == "pooler":
        return _own(found)
    states: torch.Tensor = found.last_hidden_state
    parts = {"cls": lambda: states[:, 0], "mean": lambda: states[:, 1:].mean(1)}
    return torch.cat([parts[part]() for part in pooling.split("+")], dim=-1)


def pool_text(found: Any, seen: torch.Tensor, pooling: str) -> torch.Tensor:
    """One vector per text from a text model's output: the mean of its tokens, the first one, or the model's own."""
    if pooling == "pooler":
        return _own(found)
    states: torch.Tensor = found.last_hidden_state
    if pooling == "cls":
        return states[:, 0]
    weights = seen[..., None].to(states.dtype)
    return (states * weights).sum(1) / weights.sum(1)


def _own(found: Any) -> torch.Tensor:
    if getattr(found, "pooler_output", None) is None:
        raise InputError("pooling 'pooler': this model has no pooler, expected cls or mean")
    vector: torch.Tensor = found.pooler_output
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
        """Vectors of the common space, not of unit length."""
        normal = self.norm(pooled)
        bent: torch.Tensor = self.outer(self.dropout(torch.nn.functional.gelu(self.inner(normal))))
        straight: torch.Tensor = self.straight(self.dropout(normal))
        return straight + bent


def new_head(kind: str, width: int, dimension: int, hidden: int, dropout: float) -> torch.nn.Module:
    """A head by name: ``linear`` is that of ``transformers``' VisionTextDualEncoderModel."""
    if kind == "linear":
        return torch.nn.Linear(width, dimension, bias=False)
    return ResidualHead(width, dimension, hidden, dropout)


def checked(what: str, given: str, known: tuple[str, ...]) -> str:
    """A name of a pooling or head, or one line that says which there are."""
    if given not in known:
        raise InputError(f"{what} {given!r}: expected {', '.join(known)}{nearest(given, known)}")
    return given


@dataclass(frozen=True)
class Shape:
    """What stands on the towers. ``hidden`` and ``dropout`` are those of residual heads."""

    image_pooling: str = "cls+mean"
    text_pooling: str = "mean"
    heads: str = "residual"
    dimension: int = 384
    hidden: int = 1024
    dropout: float = 0.3

    def __post_init__(self) -> None:
        checked("image pooling", self.image_pooling, IMAGE_POOLINGS)
        checked("text pooling", self.text_pooling, TEXT_POOLINGS)
        checked("heads", self.heads, HEADS)
        if self.dimension < 1 or self.hidden < 1:
            raise InputError(f"dimension {self.dimension}, hidden {self.hidden}: expected 1 or more")
        if not 0 <= self.dropout < 1:
            raise InputError(f"dropout {self.dropout:g}: expected 0 or more and less than 1")

    @property
    def text(self) -> str:
        """Stands for the shape in fingerprints; dropout does not move a feature."""
        return json.dumps({**asdict(self), "dropout": 0}, sort_keys=True)


class DualModule(torch.nn.Module):
    """Two towers and their heads, with the methods of ``transformers``' CLIP-like models."""

    def __init__(self, vision: Any, text: Any, shape: Shape, scale: float = 3.0) -> None:
        super().__init__()
        self.shape = shape
        self.config = SimpleNamespace(
            model_type="captious-dual",
            projection_dim=shape.dimension,
            vision_config=vision.config,
            text_config=text.config,
        )
        self.vision_model, self.text_model = (
            _without_pooler(vision, shape.image_pooling),
            _without_pooler(text, shape.text_pooling),
        )
        widths = (
            pooled_width(shape.image_pooling, vision.config.hidden_size),
            pooled_width(shape.text_pooling, text.config.hidden_size),
        )
        self.image_head, self.text_head = (
            new_head(shape.heads, width, shape.dimension, shape.hidden, shape.dropout) for width in widths
        )
        self.logit_scale = torch.nn.Parameter(torch.tensor(scale))

    def pooled_images(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """One vector per image, before the head."""
        return pool_image(self.vision_model(pixel_values=pixel_values), self.shape.image_pooling)

    def lower(self, layers: int) -> list[Any]:
        """The parts of the image tower up to a layer."""
        tower = self.vision_model
        if not all(hasattr(tower, part) for part in ("embeddings", "encoder", "layernorm")):
            raise InputError(f"{tower.config.model_type}: the layers of this image tower cannot be told apart")
        if not 0 < layers < len(tower.encoder.layer):
            raise InputError(f"--lock image:{layers}: the image tower has {len(tower.encoder.layer)} layers")
        return [tower.embeddings, *tower.encoder.layer[:layers]]

    def below(self, pixel_values: torch.Tensor, layers: int) -> torch.Tensor:
        """The states of an image behind the first layers."""
        first, *rest = self.lower(layers)
        states: torch.Tensor = first(pixel_values)
        for layer in rest:
            states = layer(states)
        return states

    def above(self, states: torch.Tensor, layers: int) -> torch.Tensor:
        """The pooled vector of an image from its states behind the first layers."""
        for layer in self.vision_model.encoder.layer[layers:]:
            states = layer(states)
        last = self.vision_model.layernorm(states)
        return pool_image(SimpleNamespace(last_hidden_state=last, pooler_output=last[:, 0]), self.shape.image_pooling)

    def pooled_texts(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """One vector per text, before the head."""
        found = self.text_model(input_ids=input_ids, attention_mask=attention_mask)
        return pool_text(found, attention_mask, self.shape.text_pooling)

    def get_image_features(self, pixel_values: torch.Tensor) -> torch.Tensor:
        """Vectors of images in the common space."""
        features: torch.Tensor = self.image_head(self.pooled_images(pixel_values))
        return features

    def get_text_features(self, input_ids: torch.Tensor, attention_mask: torch.Tensor) -> torch.Tensor:
        """Vectors of texts in the common space."""
        features: torch.Tensor = self.text_head(self.pooled_texts(input_ids, attention_mask))
        return features


def _without_pooler(tower: Any, pooling: str) -> Any:
    """The tower, its pooler dropped where nothing asks for it: it would be saved, counted and never trained."""
    if pooling != "pooler" and getattr(tower, "pooler", None) is not None:
        tower.pooler = None
    return tower


MARKER = "captious-encoder.json"
WEIGHTS = "heads.safetensors"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(eq=False)
class DualEncoder(TorchEncoder):
    """A :class:`captious.models.clip.TorchEncoder` over a :class:`DualModule`.

    For towers that do not learn, training caches ``frozen_images`` and ``frozen_texts`` and trains the heads on them.
    """

    shape: Shape = field(default_factory=Shape)
    depth: int | None = None
    """Layers of the image tower that training holds still; None for all of it."""

    def hold_images(self, layers: int) -> None:
        """Let only the layers of the image tower behind the first so many learn."""
        self.module.vision_model.requires_grad_(True)
        for part in self.module.lower(layers):
            part.requires_grad_(False)
        self.depth = layers

    def frozen_images(self, pixels: torch.Tensor) -> torch.Tensor:
        """Of normalized pixels what does not learn: pooled vectors, or the states behind the layers held still."""
        found: torch.Tensor = (
            self.module.pooled_images(pixels) if self.depth is None else self.module.below(pixels, self.depth)
        )
        return found

    def frozen_texts(self, ids: torch.Tensor) -> torch.Tensor:
        """The pooled vectors of token ids."""
        found: torch.Tensor = self.module.pooled_texts(ids, self.seen(ids))
        return found

    def image_head(self, frozen: torch.Tensor) -> torch.Tensor:
        """From what :meth:`frozen_images` gives to the common space."""
        pooled = frozen if self.depth is None else self.module.above(frozen, self.depth)
        found: torch.Tensor = self.module.image_head(pooled)
        return found

    def text_head(self, pooled: torch.Tensor) -> torch.Tensor:
        """From pooled vectors of texts to the common space."""
        found: torch.Tensor = self.module.text_head(pooled)
        return found

    def save(self, folder: str | Path) -> None:
        """Write the layout that :func:`load_dual` reads."""
        target = Path(folder)
        with quiet():
            for tower, name in ((self.module.vision_model, "vision"), (self.module.text_model, "text")):
                (target / name).mkdir(parents=True, exist_ok=True)
                tower.save_pretrained(target / name)
        self.preparation.save(target / "vision")
        self.tokenizer.save(target / "text")
        heads = {key: one.detach().cpu().contiguous() for key, one in self.module.state_dict().items() if _is_head(key)}
        require("safetensors.torch", "clip").save_file(heads, str(target / WEIGHTS))
        record = {"kind": "dual", "format": 1, **asdict(self.shape)}
        (target / MARKER).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


def new_dual(
    vision: str,
    text: str,
    shape: Shape | None = None,
    *,
    seed: int = 0,
    device: str = "auto",
    precision: Precision = "fp32",
    name: str | None = None,
) -> DualEncoder:
    """An encoder of two pretrained models (folders or hub ids) with heads that have learnt nothing yet."""
    places = find(vision), find(text)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = DualModule(_tower_of(places[0]), _tower_of(places[1]), shape or Shape())
    named = name or f"{places[0].name}+{places[1].name}"
    return _encoder(module, places[0], places[1], named, Runtime(device=device, precision=precision))


def load_dual(folder: str | Path, name: str | None = None, runtime: Runtime | None = None) -> DualEncoder:
    """The encoder of a folder, in the runtime in force where none is given."""
    place = Path(folder)
    module = DualModule(_tower_of(place / "vision"), _tower_of(place / "text"), _shape(place))
    path = place / WEIGHTS
    try:
        heads = require("safetensors.torch", "clip").load_file(str(path))
    except Exception as error:  # missing, truncated, of another kind: the library has its own classes
        raise InputError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]})") from None
    wanted = {key: tuple(one.shape) for key, one in module.state_dict().items() if _is_head(key)}
    given = {key: tuple(one.shape) for key, one in heads.items()}
    if given != wanted:
        differ = sorted(key for key in given.keys() | wanted.keys() if given.get(key) != wanted.get(key))
        raise InputError(f"{path}: is not of the shape that {MARKER} says; different: {', '.join(differ[:3])}")
    module.load_state_dict(heads, strict=False)
    return _encoder(module, place / "vision", place / "text", name or place.resolve().name, runtime or current())


def _encoder(module: DualModule, vision: Path, text: Path, name: str, runtime: Runtime) -> DualEncoder:
    tower = module.text_model.config
    tokenizer = tokenizer_of(text, int(tower.max_position_embeddings))
    most = min(tokenizer.limit, int(tokenizer.settings.get("model_max_length", tokenizer.limit)))
    tokenizer = replace(tokenizer, limit=most)
    side = module.vision_model.config.image_size
    preparation = Preparation.read(vision, Preparation(side, side, "bicubic", *IMAGENET, "rgb-first"))
    made = wrap(module, tokenizer, preparation, name, runtime.device, runtime.precision)
    plain = {each.name: getattr(made, each.name) for each in fields(made) if each.init}
    plain["fingerprint"] = digest(made.fingerprint.encode(), module.shape.text.encode())
    return DualEncoder(**plain, shape=module.shape)


def _tower_of(folder: Path) -> Any:
    """A pretrained model of any kind, with every weight from its folder, save a pooler that is not used."""
    transformers = require("transformers", "clip")
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: has no config.json, expected a model folder in transformers' layout")
    try:
        with quiet():
            model, report = transformers.AutoModel.from_pretrained(
                folder, output_loading_info=True, local_files_only=True
            )
    except Exception as error:  # the library raises many kinds, from missing files to unknown formats
        raise InputError(f"{folder}: cannot be loaded by transformers ({' '.join(str(error).split())[:200]})") from None
    missing = [key for key in report["missing_keys"] if not key.startswith("pooler.")]
    if missing:
        raise InputError(f"{folder}: its weights lack {', '.join(sorted(missing)[:3])}")
    return model


def _shape(place: Path) -> Shape:
    path = place / MARKER
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{place}: has no {MARKER}, expected a folder that captious train clip wrote") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None
    kind = found.get("kind") if isinstance(found, Mapping) else None
    if kind != "dual" or found.get("format") != 1:
        raise InputError(f"{path}: kind {kind!r}, expected 'dual' in format 1")
    known = {each.name for each in fields(Shape)}
    try:
        return Shape(**{key: value for key, value in found.items() if key in known})
    except TypeError as error:
        raise InputError(f"{path}: {error}") from None


def _is_head(key: str) -> bool:
    return not key.startswith(("vision_model.", "text_model."))
