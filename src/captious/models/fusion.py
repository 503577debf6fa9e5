"""Small cross-attention of a caption's tokens over an image's patches, on hidden states of a frozen encoder.

The logit is a straight line through the encoder's own cosine plus a residual that starts at zero, so that before any
training captions are ranked exactly as the encoder ranks them.
"""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.records import from_json
from captious._core.types import Ints
from captious.captions import ImageSource
from captious.errors import InputError, require
from captious.models._model_folders import fill, read_state, save_state
from captious.models.clip import TorchEncoder
from captious.models.crossencoders import Backbone, mark, pad_ragged
from captious.models.encoder import count_tokens
from captious.models.hidden_states import (
    HiddenStates,
    ImageStates,
    get_image_states,
    get_text_states,
    load_frozen_encoder,
)
from captious.models.token_rows import TokenRows

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

functional = torch.nn.functional


@dataclass(frozen=True)
class FusionConfig:
    """Sizes of a fusion; the first five are given by the encoder, in the order of `_get_shape`."""

    patches: int
    image_width: int
    text_width: int
    dimension: int
    tokens: int
    width: int = 256
    layers: int = 2
    heads: int = 4
    dropout: float = 0.1

    def __post_init__(self) -> None:
        if min(self.width, self.layers, self.heads) < 1 or self.width % self.heads:
            raise InputError(f"width {self.width}, heads {self.heads}: expected a width that the heads divide")


class Attention(torch.nn.Module):
    """Cross-attention or self-attention after a layer norm, with a residual connection."""

    def __init__(self, width: int, heads: int, dropout: float) -> None:
        super().__init__()
        self.heads, self.dropout = heads, dropout
        self.norm = torch.nn.LayerNorm(width)
        self.query = torch.nn.Linear(width, width)
        self.key_value = torch.nn.Linear(width, 2 * width)
        self.out = torch.nn.Linear(width, width)

    def forward(
        self, states: torch.Tensor, over: torch.Tensor | None, mask: torch.Tensor | None, queries: int | None = None
    ) -> torch.Tensor:
        """Return the states after attention to the states ``over``, or to themselves if it is None.

        ``over`` must be normalized already; ``states`` are normalized here. With ``queries`` only the first ``queries``
        states attend, and only they are returned.
        """
        normalized = self.norm(states)
        key, value = self.key_value(normalized if over is None else over).chunk(2, dim=-1)
        states, normalized = states[:, :queries], normalized[:, :queries]
        query, key, value = (  # batch × heads × length × width of a head
            one.unflatten(-1, (self.heads, -1)).transpose(1, 2) for one in (self.query(normalized), key, value)
        )
        dropout = self.dropout if self.training else 0.0
        attended = functional.scaled_dot_product_attention(query, key, value, attn_mask=mask, dropout_p=dropout)
        mixed: torch.Tensor = self.out(attended.transpose(1, 2).flatten(2))
        return states + functional.dropout(mixed, self.dropout, self.training)


class Layer(torch.nn.Module):
    """Self-attention of the tokens, cross-attention to the patches, then a feed-forward block."""

    def __init__(self, shape: FusionConfig) -> None:
        super().__init__()
        # Named for what is attended to; the names are those of stored weights.
        self.tokens = Attention(shape.width, shape.heads, shape.dropout)
        self.patches = Attention(shape.width, shape.heads, shape.dropout)
        self.norm = torch.nn.LayerNorm(shape.width)
        self.up = torch.nn.Linear(shape.width, 4 * shape.width)
        self.down = torch.nn.Linear(4 * shape.width, shape.width)
        self.dropout = torch.nn.Dropout(shape.dropout)

    def forward(
        self, texts: torch.Tensor, mask: torch.Tensor, image: torch.Tensor, queries: int | None = None
    ) -> torch.Tensor:
        """Return the token states of the next layer, b images × k captions × tokens × width.

        The tokens of all k captions attend to the patches of their image in one call, so that its keys and values are
        computed once per image. ``queries`` is the number of leading tokens to compute, by default all.
        """
        number, captions = texts.shape[:2]
        states = self.tokens(texts.flatten(0, 1), None, mask, queries)
        states = self.patches(states.unflatten(0, (number, captions)).flatten(1, 2), image, None)
        states = states + self.dropout(self.down(functional.gelu(self.up(self.norm(states)))))
        split: torch.Tensor = states.unflatten(1, (captions, -1))
        return split


class FusionModule(torch.nn.Module):
    """Fusion network: token states attend to patch states; a residual is added to the scaled cosine."""

    def __init__(self, shape: FusionConfig) -> None:
        super().__init__()
        self.shape = shape
        self.config = SimpleNamespace(model_type="captious-fusion")
        width = shape.width
        self.image_norm = torch.nn.LayerNorm(shape.image_width)
        self.image_in = torch.nn.Linear(shape.image_width, width)
        self.text_norm = torch.nn.LayerNorm(shape.text_width)
        self.text_in = torch.nn.Linear(shape.text_width, width)
        self.image_position_embedding = torch.nn.Parameter(torch.randn(shape.patches, width) * 0.02)
        self.text_position_embedding = torch.nn.Parameter(torch.randn(shape.tokens, width) * 0.02)
        # State of a pooling token, put before the tokens; its last state is that of the pair.
        self.pool = torch.nn.Parameter(torch.randn(width) * 0.02)
        self.patch_norm = torch.nn.LayerNorm(width)
        self.layers = torch.nn.ModuleList(Layer(shape) for _ in range(shape.layers))
        self.pair_norm = torch.nn.LayerNorm(2 * shape.dimension)
        self.pair = torch.nn.Linear(2 * shape.dimension, width)
        self.norm = torch.nn.LayerNorm(width)
        self.head = torch.nn.Linear(width, 1)
        # The residual is zero before training, so that the logit is a linear function of the cosine.
        torch.nn.init.zeros_(self.head.weight)
        torch.nn.init.zeros_(self.head.bias)
        self.slope = torch.nn.Parameter(torch.tensor(1.0))
        self.shift = torch.nn.Parameter(torch.tensor(0.0))

    def forward(
        self,
        patches: torch.Tensor,
        image: torch.Tensor,
        tokens: torch.Tensor,
        inside: torch.Tensor,
        text: torch.Tensor,
    ) -> torch.Tensor:
        """Return the logits of b images with k captions each, b × k.

        ``patches`` (b × p × width) and ``tokens`` (b × k × t × width) are hidden states of the encoder; ``inside`` (b ×
        k × t) is False for padding. ``image`` (b × d) and ``text`` (b × k × d) are the encoder's pooled vectors, of
        unit length.
        """
        image_states = self.image_in(self.image_norm(patches.float())) + self.image_position_embedding
        text_states = self.text_in(self.text_norm(tokens.float())) + self.text_position_embedding[: tokens.shape[2]]
        first = self.pool.expand(*text_states.shape[:2], 1, -1).to(text_states.dtype)
        states, image_states = torch.cat([first, text_states], dim=2), self.patch_norm(image_states)
        mask = functional.pad(inside, (1, 0), value=True).flatten(0, 1)[:, None, None, :]
        *most, last = self.layers
        for layer in most:
            states = layer(states, mask, image_states)
        states = last(states, mask, image_states, queries=1)  # of the last layer only the pooling token is read
        image = image[:, None].expand_as(text)
        pair = self.pair(self.pair_norm(torch.cat([image * text, (image - text).abs()], dim=-1)))
        residual = self.head(self.norm(states[:, :, 0] + pair))[..., 0].float()
        cosine = (image * text).sum(-1)
        logits: torch.Tensor = self.slope * cosine + self.shift + residual
        return logits

    def calibrate(self, cosines: torch.Tensor) -> None:
        """Set slope and shift so that these cosines give logits of mean 0 and standard deviation 1.5.

        Cosines of an encoder differ little from each other; without this their sigmoids, which the loss compares, would
        too.
        """
        with torch.no_grad():
            self.slope.copy_(1.5 / cosines.std().clamp(min=1e-3))
            self.shift.copy_(-self.slope * cosines.mean())


# Largest share of a GPU's free memory that states may take.
MEMORY_SHARE = 0.4


@dataclass(frozen=True, eq=False)
class ImageBatches:
    """Hidden states and pooled vectors of images, from which batches are taken."""

    states: ImageStates
    device: Any
    on_device: Any = None
    """Tensor of the states, in host memory if the device has not enough; None if they are read from disk by batch."""
    vectors: Any = None

    @classmethod
    def of(cls, states: ImageStates, device: Any) -> ImageBatches:
        """Make a tensor of the states, on the device if they fit, and move the vectors to the device."""
        on_device = _to_device(states.rows, device) if states.rows is not None else None
        return cls(states, device, on_device, torch.from_numpy(np.ascontiguousarray(states.vectors.rows)).to(device))

    @property
    def faults(self) -> dict[int, str]:
        """Reasons by image why it has no states."""
        return self.states.faults

    def __len__(self) -> int:
        return len(self.states)

    def take(self, rows: Ints) -> tuple[Any, Any]:
        """Return the patch states and the vectors of the images with these indices, on the device."""
        vectors = self.vectors[torch.from_numpy(self.states.vectors.index[rows]).to(self.device)]
        if self.on_device is None:
            return torch.from_numpy(self.states.take(rows)).to(self.device), vectors
        indices = torch.from_numpy(self.states.index[rows]).to(self.on_device.device)
        return self.on_device[indices].to(self.device), vectors


@dataclass(frozen=True, eq=False)
class TextBatches:
    """Hidden states and pooled vectors of captions, from which batches are taken."""

    states: TokenRows
    device: Any
    on_device: Any
    """Tensor of the states, in host memory if the device has not enough."""
    vectors: Any

    @classmethod
    def of(cls, states: TokenRows, device: Any) -> TextBatches:
        """Make a tensor of the states, on the device if they fit, and move the vectors to the device."""
        return cls(states, device, _to_device(states.flat, device), torch.from_numpy(states.vectors).to(device))

    @property
    def lengths(self) -> Ints:
        """Number of tokens before truncation."""
        return self.states.lengths

    def take(self, rows: Ints) -> tuple[Any, Any, Any]:
        """Return token states, their mask (False for padding), and vectors of the captions with these indices."""
        distinct = self.states.index[rows]  # equal captions share their states
        indices, inside = pad_ragged(self.states.starts, self.states.counts, distinct)
        states = self.on_device[torch.from_numpy(indices).to(self.on_device.device)].to(self.device)
        vectors = self.vectors[torch.from_numpy(distinct).to(self.device)]
        return states, torch.from_numpy(inside).to(self.device), vectors


def _to_device(states: Any, device: Any) -> Any:
    """Convert states to a tensor: on the GPU if they take little of its free memory, else in host memory."""
    tensor = torch.from_numpy(states)
    if device.type == "cuda" and states.nbytes < MEMORY_SHARE * torch.cuda.mem_get_info(device)[0]:
        return tensor.to(device)
    return tensor


WEIGHTS = "model.safetensors"


class Fusion(Backbone):
    """Default backbone: a small trained fusion over the hidden states of a frozen encoder; see ``Backbone``."""

    name = "fusion"

    def __init__(self, encoder: TorchEncoder, weights: str, module: FusionModule, prefix: str = "") -> None:
        self.encoder = encoder
        # Name or path the encoder was loaded from.
        self.weights = weights
        self.prefix = prefix
        self.device, self.limit = encoder.device, encoder.limit
        self.module = module.to(self.device)

    @property
    def scale(self) -> torch.Tensor:
        """Slope on the cosine."""
        slope: torch.Tensor = self.module.slope
        return slope

    @property
    def input_recipe(self) -> str:
        """Fingerprint of the encoder, and the prefix of captions; a part of the backbone's own fingerprint."""
        return f"{self.encoder.fingerprint} {self.prefix}"

    def pictures(self, paths: Sequence[ImageSource]) -> ImageBatches:
        """Prepare images for `logits`."""
        return ImageBatches.of(get_image_states(self.encoder, paths), self.device)

    def texts(self, texts: Sequence[str], keep: bool = True) -> TextBatches:
        """Prepare captions for `logits`; ``keep`` writes their states to the cache."""
        return TextBatches.of(get_text_states(self.encoder, [self.prefix + text for text in texts], keep), self.device)

    @property
    def frozen_encoder(self) -> TorchEncoder:
        """Encoder whose states are fused."""
        return self.encoder

    def count_tokens(self, texts: Sequence[str]) -> Ints:
        """Count the tokens of each caption before truncation; nothing is encoded."""
        return count_tokens(self.encoder, [self.prefix + text for text in texts])

    def logits(self, pictures: Any, texts: Any) -> torch.Tensor:
        """Return the logits of each image with each of its captions."""
        logits: torch.Tensor = self.module(*pictures, *texts)
        return logits

    def record(self) -> dict[str, Any]:
        """Return the fields of the marker file."""
        encoder = self.encoder
        identity = {"name": encoder.name, "fingerprint": encoder.fingerprint, "precision": encoder.precision}
        shape = asdict(self.module.shape)
        return {"encoder": {"weights": self.weights, **identity}, "prefix": self.prefix, "shape": shape}

    def save(self, folder: str | Path) -> None:
        """Write the weights of the fusion and the marker file, which names the encoder.

        The encoder is not written here; training copies a local one to ``encoder/`` in its output folder.
        """
        save_state(Path(folder) / WEIGHTS, self.module.state_dict())
        mark(folder, self, self.record())


def make_fusion(weights: str, seed: int = 0, prefix: str = "", **sizes: Any) -> Fusion:
    """Make an untrained fusion over the encoder of these weights; equal seeds give equal weights."""
    encoder = load_frozen_encoder(weights)
    shape = FusionConfig(*_get_shape(encoder))
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        module = FusionModule(replace(shape, **sizes))
    return Fusion(encoder, weights, module, prefix)


def load_fusion(folder: Path, record: dict[str, Any]) -> Fusion:
    """Load the fusion of a folder and its encoder; raise InputError if the encoder is not the one of the training."""
    saved = record["encoder"]
    # Training writes OUT/, OUT/best/ and one copy of the encoder, OUT/encoder/.
    parents = (folder, folder.resolve().parent) if folder.resolve().name == "best" else (folder,)
    weights = next((str(one / "encoder") for one in parents if (one / "encoder").exists()), saved["weights"])
    try:
        encoder = load_frozen_encoder(weights)
    except InputError as error:
        raise InputError(f"{folder}: its encoder {saved['name']} is not available: {error}") from None
    # Fingerprints can be compared only if both encoders have the same precision.
    same_precision = encoder.precision == saved["precision"]
    if same_precision and encoder.fingerprint != saved["fingerprint"]:
        raise InputError(
            f"{folder}: was trained on the encoder {saved['name']}#{saved['fingerprint']}, but {weights} is "
            f"{encoder.name}#{encoder.fingerprint}"
        )
    encoder = copy(encoder)  # the registry's encoder keeps its own name
    encoder.name = saved["name"]
    shape: FusionConfig = from_json(FusionConfig, record["shape"])
    actual = _get_shape(encoder)
    expected = (shape.patches, shape.image_width, shape.text_width, shape.dimension, shape.tokens)
    if actual != expected:
        raise InputError(
            f"{folder}: was trained on an encoder {saved['name']} with states of {expected}, but {weights} has {actual}"
        )
    module = FusionModule(shape)
    fill(module, read_state(folder / WEIGHTS), folder / WEIGHTS)
    return Fusion(encoder, weights, module.eval(), record.get("prefix", ""))


def _get_shape(encoder: TorchEncoder) -> tuple[int, int, int, int, int]:
    """Return patches, width of patch states, width of token states, dimension of vectors, and the token limit."""
    hidden = HiddenStates(encoder)
    return (*hidden.image_shape, hidden.text_width, encoder.dimension, encoder.limit)
