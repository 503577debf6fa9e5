"""The default backbone: a small trained fusion over the states of any frozen captious encoder."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious.encoders.fingerprints import weights_digest
from captious.encoders.torch_encoder import TorchEncoder
from captious.errors import InputError
from captious.extras import require
from captious.files import digest
from captious.umic.fusion_module import FusionModule, Shape
from captious.umic.laid_out import Read, Seen
from captious.umic.states import Insides, frozen
from captious.umic.stored import image_states, text_states

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

WEIGHTS = "model.safetensors"


@dataclass(eq=False)
class Fusion:
    """See :class:`captious.umic.backbone.Backbone`."""

    encoder: TorchEncoder
    weights: str
    """What the encoder was loaded from."""
    module: Any = field(repr=False)
    prefix: str = ""
    name: str = "fusion"
    sealed: str = ""
    """Its fingerprint, where it will not change any more."""

    def __post_init__(self) -> None:
        self.device = self.encoder.device
        self.limit = self.encoder.limit
        self.module = self.module.to(self.device)

    @property
    def scale(self) -> torch.Tensor:
        """The slope on the cosine."""
        found: torch.Tensor = self.module.slope
        return found

    @property
    def reads(self) -> str:
        """The encoder, and what is put before captions."""
        return f"{self.encoder.fingerprint} {self.prefix}"

    @property
    def fingerprint(self) -> str:
        """Of the fusion and its encoder."""
        return self.sealed or digest(weights_digest(self.module), self.reads.encode())

    def pictures(self, paths: Sequence[str]) -> Seen:
        """Lay images out."""
        return Seen.of(image_states(self.encoder, paths), self.device)

    def texts(self, texts: Sequence[str], keep: bool = True) -> Read:
        """Lay captions out."""
        return Read.of(text_states(self.encoder, [self.prefix + text for text in texts], keep), self.device)

    def logits(self, pictures: Any, texts: Any) -> torch.Tensor:
        """Of each image with each of its captions."""
        found: torch.Tensor = self.module(*pictures, *texts)
        return found

    def record(self) -> dict[str, Any]:
        """What the marker says of it."""
        encoder = self.encoder
        known = {"name": encoder.name, "fingerprint": encoder.fingerprint, "precision": encoder.precision}
        shape = self.module.shape.record()
        return {"encoder": {"weights": self.weights, **known}, "prefix": self.prefix, "shape": shape}

    def save(self, folder: str | Path) -> None:
        """The fusion alone; the encoder is named in the marker, or stands beside it in ``encoder/``."""
        from captious.umic.saving import mark

        state = {key: one.detach().cpu().contiguous() for key, one in self.module.state_dict().items()}
        require("safetensors.torch", "clip").save_file(state, str(Path(folder) / WEIGHTS))
        mark(folder, self, self.record())


def new_fusion(weights: str, seed: int = 0, prefix: str = "", **sizes: Any) -> Fusion:
    """A fusion that has learnt nothing, over the encoder of these weights; equal seeds start equally."""
    encoder = frozen(weights)
    shape = Shape(*_shape_of(encoder))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = FusionModule(replace(shape, **sizes))
    return Fusion(encoder, weights, module, prefix)


def load_fusion(folder: Path, record: dict[str, Any]) -> Fusion:
    """The fusion of a folder, with its encoder."""
    from captious.umic.saving import fill, read_state

    told = record["encoder"]
    homes = (folder, folder.resolve().parent) if folder.resolve().name == "best" else (folder,)
    weights = next((str(home / "encoder") for home in homes if (home / "encoder").exists()), told["weights"])
    try:
        encoder = frozen(weights)
    except InputError as error:
        raise InputError(f"{folder}: its encoder {told['name']} is not to be had: {error}") from None
    same = encoder.precision == told["precision"]
    if same and encoder.fingerprint != told["fingerprint"]:
        raise InputError(
            f"{folder}: was trained on the encoder {told['name']}#{told['fingerprint']}, but {weights} is "
            f"{encoder.name}#{encoder.fingerprint}"
        )
    encoder = copy(encoder)  # others may hold it under its own name
    encoder.name = told["name"]
    shape = Shape(**record["shape"])
    inside = _shape_of(encoder)
    wanted = (shape.patches, shape.image_width, shape.text_width, shape.dimension, shape.tokens)
    if inside != wanted:
        raise InputError(
            f"{folder}: was trained on an encoder {told['name']} with states of {wanted}, but {weights} has {inside}"
        )
    module = FusionModule(shape)
    fill(module, read_state(folder / WEIGHTS), str(folder / WEIGHTS))
    return Fusion(encoder, weights, module.eval(), record.get("prefix", ""))


def _shape_of(encoder: TorchEncoder) -> tuple[int, int, int, int, int]:
    """Rows of an image, widths of its and of a token's states, of the vectors, and the most tokens."""
    inside = Insides(encoder)
    return (*inside.image_shape, inside.text_width, encoder.dimension, encoder.limit)
