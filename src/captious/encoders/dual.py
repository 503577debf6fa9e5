"""An image–text encoder made of any two pretrained models of ``transformers``: a vision and a text tower, each pooled
to one vector and projected into a common space by a head that is trained with ``captious train clip``.

A folder holds ``captious-encoder.json`` (how states are pooled, what heads there are), ``vision/`` and ``text/`` in
``transformers``' own layout, and ``heads.safetensors``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious.encoders.cost import tower_flops
from captious.encoders.devices import quiet
from captious.encoders.dual_module import DualModule, Shape
from captious.encoders.encoder import Cost
from captious.encoders.places import find
from captious.encoders.preparation import Preparation
from captious.encoders.runtime import Precision, Runtime, current
from captious.encoders.tokenisers import tokeniser_of
from captious.encoders.torch_encoder import TorchEncoder, wrap
from captious.errors import InputError
from captious.extras import require
from captious.files import digest

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

MARKER = "captious-encoder.json"
WEIGHTS = "heads.safetensors"
IMAGENET = ((0.485, 0.456, 0.406), (0.229, 0.224, 0.225))


@dataclass(eq=False)
class DualEncoder(TorchEncoder):
    """A :class:`captious.encoders.torch_encoder.TorchEncoder` over a :class:`DualModule`.

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
        """Of normalised pixels what does not learn: pooled vectors, or the states behind the layers held still."""
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

    def cost(self) -> Cost:
        """Parameters, and 2 × multiply-adds of the towers' matrix products and the heads'."""
        vision, text = self.module.vision_model.config, self.module.text_model.config
        patches = (self.preparation.crop // vision.patch_size) ** 2
        image = _tower(vision, patches + 1) + 2.0 * patches * 3 * vision.patch_size**2 * vision.hidden_size
        heads = [_matrices(head) for head in (self.module.image_head, self.module.text_head)]
        parameters = sum(each.numel() for each in self.module.parameters())
        return Cost(parameters, image + 2.0 * heads[0], _tower(text, self.limit) + 2.0 * heads[1])

    def save(self, folder: str | Path) -> None:
        """Write the layout that :func:`load_dual` reads."""
        target = Path(folder)
        with quiet():
            for tower, name in ((self.module.vision_model, "vision"), (self.module.text_model, "text")):
                (target / name).mkdir(parents=True, exist_ok=True)
                tower.save_pretrained(target / name)
        self.preparation.save(target / "vision")
        self.tokeniser.save(target / "text")
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
    tokeniser = tokeniser_of(text, int(tower.max_position_embeddings))
    most = min(tokeniser.limit, int(tokeniser.settings.get("model_max_length", tokeniser.limit)))
    tokeniser = replace(tokeniser, limit=most)
    side = module.vision_model.config.image_size
    preparation = Preparation.read(vision, Preparation(side, side, "bicubic", *IMAGENET, "rgb-first"))
    made = wrap(module, tokeniser, preparation, name, runtime.device, runtime.precision)
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


def _tower(config: Any, tokens: int) -> float:
    inner = getattr(config, "intermediate_size", None) or config.hidden_size * config.mlp_ratio
    return tower_flops(tokens, config.hidden_size, int(inner), config.num_hidden_layers)


def _matrices(head: Any) -> int:
    return sum(one.numel() for one in head.parameters() if one.ndim == 2)


def _is_head(key: str) -> bool:
    return not key.startswith(("vision_model.", "text_model."))
