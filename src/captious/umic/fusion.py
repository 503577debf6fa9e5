"""The default backbone: a small trained fusion over the states of any frozen captious encoder."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious.encoders.fingerprints import weights_digest
from captious.encoders.torch_encoder import TorchEncoder
from captious.errors import InputError
from captious.extras import require
from captious.files import digest
from captious.umic.backbone import Ints, spread
from captious.umic.fusion_module import FusionModule, Shape
from captious.umic.states import Insides, frozen
from captious.umic.stored import ImageStates, TextStates, image_states, text_states

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

WEIGHTS = "model.safetensors"
ROOM = 0.4
"""Share of a GPU's free memory that states may take."""


@dataclass(frozen=True, eq=False)
class Seen:
    """Images as states, on the device where they fit."""

    states: ImageStates
    device: Any
    held: Any = None
    vectors: Any = None

    @classmethod
    def of(cls, states: ImageStates, device: Any) -> Seen:
        """Move what fits to the device."""
        held = _there(states.rows, device) if states.rows is not None else None
        return cls(states, device, held, torch.from_numpy(np.ascontiguousarray(states.vectors.rows)).to(device))

    @property
    def faults(self) -> dict[int, str]:
        """Why an image has no states."""
        return self.states.faults

    def __len__(self) -> int:
        return len(self.states)

    def take(self, rows: Ints) -> tuple[Any, Any]:
        """Patch states and vectors."""
        vectors = self.vectors[torch.from_numpy(self.states.vectors.index[rows]).to(self.device)]
        if self.held is None:
            return torch.from_numpy(self.states.take(rows)).to(self.device), vectors
        places = torch.from_numpy(self.states.index[rows]).to(self.held.device)
        return self.held[places].to(self.device), vectors


@dataclass(frozen=True, eq=False)
class Read:
    """Captions as states, on the device where they fit."""

    states: TextStates
    device: Any
    held: Any
    vectors: Any

    @classmethod
    def of(cls, states: TextStates, device: Any) -> Read:
        """Move what fits to the device."""
        return cls(states, device, _there(states.flat, device), torch.from_numpy(states.vectors).to(device))

    @property
    def lengths(self) -> Ints:
        """Tokens before cutting."""
        return self.states.lengths

    def take(self, rows: Ints) -> tuple[Any, Any, Any]:
        """Token states, which of them are there, and vectors."""
        chosen = self.states.index[rows]
        places, inside = spread(self.states.starts, self.states.counts, chosen)
        states = self.held[torch.from_numpy(places).to(self.held.device)].to(self.device)
        number = torch.from_numpy(chosen).to(self.device)
        return states, torch.from_numpy(inside).to(self.device), self.vectors[number]


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
    inside = Insides(encoder)
    shape = Shape(*inside.image_shape, inside.text_width, encoder.dimension, encoder.limit)
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = FusionModule(replace(shape, **sizes))
    return Fusion(encoder, weights, module, prefix)


def load_fusion(folder: Path, record: dict[str, Any]) -> Fusion:
    """The fusion of a folder, with its encoder."""
    from captious.umic.saving import fill, read_state

    told = record["encoder"]
    beside = next((str(place) for place in (folder / "encoder", folder.parent / "encoder") if place.exists()), None)
    weights = beside or told["weights"]
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
    encoder.name = told["name"]
    module = FusionModule(Shape(**record["shape"]))
    fill(module, read_state(folder / WEIGHTS), str(folder / WEIGHTS))
    return Fusion(encoder, weights, module.eval(), record.get("prefix", ""))


def _there(states: Any, device: Any) -> Any:
    """States as a tensor: on a GPU where they leave it enough room, else in memory."""
    held = torch.from_numpy(states)
    if device.type == "cuda" and states.nbytes < ROOM * torch.cuda.mem_get_info(device)[0]:
        return held.to(device)
    return held
