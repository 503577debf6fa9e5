"""The original UMIC: UNITER with a rank head, over region features that are given as files.

The model is one stream: BERT's layers over caption tokens followed by regions. Only the embedding of regions is not
BERT's: features and geometry each through a linear map and a norm, summed with the type embedding of images, normed.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from captious.encoders.devices import device_called
from captious.encoders.fingerprints import weights_digest
from captious.encoders.runtime import current
from captious.encoders.tokenisers import Tokeniser
from captious.errors import InputError
from captious.extras import require
from captious.files import digest
from captious.umic.backbone import Ids
from captious.umic.regions import Regions
from captious.umic.wordpiece import read_wordpiece

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

LIMIT = 60
"""Tokens of a caption, start and end included."""


class RegionEmbedding(torch.nn.Module):
    """Regions to vectors, under the names of the original."""

    def __init__(self, regions: int, width: int, dropout: float) -> None:
        super().__init__()
        self.img_linear, self.img_layer_norm = torch.nn.Linear(regions, width), torch.nn.LayerNorm(width, eps=1e-12)
        self.pos_linear, self.pos_layer_norm = torch.nn.Linear(7, width), torch.nn.LayerNorm(width, eps=1e-12)
        self.mask_embedding = torch.nn.Embedding(2, regions, padding_idx=0)
        self.LayerNorm = torch.nn.LayerNorm(width, eps=1e-12)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, features: torch.Tensor, boxes: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
        """Features b × n × 2048 and boxes b × n × 7."""
        states = self.img_layer_norm(self.img_linear(features)) + self.pos_layer_norm(self.pos_linear(boxes)) + kind
        found: torch.Tensor = self.dropout(self.LayerNorm(states))
        return found


class UniterModule(torch.nn.Module):
    """BERT's embeddings, layers and pooler, the regions' embedding, and the rank head."""

    def __init__(self, config: Any, regions: int = 2048) -> None:
        super().__init__()
        self.config, self.regions = config, regions
        self.bert = require("transformers", "clip").BertModel(config)
        self.img_embeddings = RegionEmbedding(regions, config.hidden_size, config.hidden_dropout_prob)
        self.img_embeddings.mask_embedding.requires_grad_(False)  # masks regions in pre-training only
        self.rank_output = torch.nn.Linear(config.hidden_size, 1)

    def forward(
        self,
        ids: torch.Tensor,
        read: torch.Tensor,
        features: torch.Tensor,
        boxes: torch.Tensor,
        seen: torch.Tensor,
    ) -> torch.Tensor:
        """Logits of n captions with n images."""
        kind = self.bert.embeddings.token_type_embeddings.weight[1]
        states = torch.cat([self.bert.embeddings(input_ids=ids), self.img_embeddings(features, boxes, kind)], dim=1)
        there = torch.cat([read, seen], dim=1)[:, None, None, :]
        mask = torch.zeros(there.shape, dtype=states.dtype, device=states.device)
        mask = mask.masked_fill(~there, torch.finfo(states.dtype).min)
        states = self.bert.encoder(states, attention_mask=mask.expand(-1, 1, states.shape[1], -1)).last_hidden_state
        logits: torch.Tensor = self.rank_output(self.bert.pooler(states))[:, 0]
        return logits


@dataclass(eq=False)
class Uniter:
    """See :class:`captious.umic.backbone.Backbone`."""

    module: Any = field(repr=False)
    tokeniser: Tokeniser = field(repr=False)
    folder: str | None = None
    """Of the region features."""
    name: str = "uniter"
    sealed: str = ""
    """Its fingerprint, where it will not change any more."""

    def __post_init__(self) -> None:
        self.limit = self.tokeniser.limit
        self.device = next(self.module.parameters()).device

    @property
    def scale(self) -> torch.Tensor:
        """The length of the rank head."""
        length: torch.Tensor = self.module.rank_output.weight.norm()
        return length

    @property
    def reads(self) -> str:
        """The tokeniser."""
        return self.tokeniser.text

    @property
    def fingerprint(self) -> str:
        """Of all weights and the tokeniser."""
        return self.sealed or digest(weights_digest(self.module), self.reads.encode())

    def files(self, paths: Sequence[str]) -> list[Path]:
        """The file of regions of each image: the one of its name in the folder."""
        if self.folder is None:
            raise InputError("umic on uniter needs region features: regions=FOLDER with an .npz file for each image")
        if not Path(self.folder).is_dir():
            raise InputError(f"{self.folder}: no such folder of region features")
        return [Path(self.folder) / f"{Path(path).stem}.npz" for path in paths]

    def pictures(self, paths: Sequence[str]) -> Regions:
        """Lay images out."""
        return Regions.of(self.files(paths), self.module.regions)

    def texts(self, texts: Sequence[str], keep: bool = True) -> Ids:
        """Lay captions out."""
        return Ids.of(self.tokeniser([" ".join(text.split()) for text in texts]), self.limit, self.device)

    def logits(self, pictures: Any, texts: Any) -> torch.Tensor:
        """The regions of an image are repeated for its captions."""
        ids, inside = texts
        count = ids.shape[1]
        features, boxes, seen = (
            torch.from_numpy(one).to(self.device).repeat_interleave(count, dim=0) for one in pictures
        )
        found = self.module(ids.flatten(0, 1), inside.flatten(0, 1), features, boxes, seen)
        logits: torch.Tensor = found.reshape(-1, count).float()
        return logits

    def save(self, folder: str | Path) -> None:
        """Weights under the original's names, the configuration, the vocabulary."""
        from captious.umic.saving import mark

        target = Path(folder)
        state = {_theirs(key): one.detach().cpu().contiguous() for key, one in self.module.state_dict().items()}
        require("safetensors.torch", "clip").save_file(state, str(target / "model.safetensors"))
        self.module.config.save_pretrained(target)
        self.tokeniser.save(target)
        mark(folder, self, {"regions": self.module.regions})


def load_uniter(place: str | Path, regions: str | None = None) -> Uniter:
    """From a folder with ``config.json``, the vocabulary, and weights (``model.safetensors``, or any ``.pt`` file)."""
    folder = Path(place)
    if not (folder / "config.json").is_file():
        raise InputError(f"{folder}: has no config.json, expected that of UNITER beside its weights")
    config = require("transformers", "clip").BertConfig.from_json_file(str(folder / "config.json"))
    state = {_ours(key): one.float() for key, one in _weights(folder).items()}
    first = state.get("img_embeddings.img_linear.weight")
    if first is None:
        raise InputError(f"{folder}: holds no uniter.img_embeddings.img_linear.weight: not the weights of a UNITER")
    module = UniterModule(config, int(first.shape[1]))
    if "rank_output.weight" not in state and "itm_output.weight" in state:
        state |= {f"rank_output.{part}": state[f"itm_output.{part}"][1:] for part in ("weight", "bias")}
    wanted = module.state_dict()
    differ = sorted(key for key in wanted if key not in state or state[key].shape != wanted[key].shape)
    if differ:
        raise InputError(
            f"{folder}: weights of another model: {len(differ)} of {len(wanted)} tensors are missing or of another "
            f"shape, such as {_theirs(differ[0])}"
        )
    module.load_state_dict({key: state[key] for key in wanted})
    tokeniser = read_wordpiece(folder, min(LIMIT, int(config.max_position_embeddings)))
    return Uniter(module.to(device_called(current().device)).eval(), tokeniser, regions)


def _weights(folder: Path) -> Mapping[str, Any]:
    from captious.umic.saving import read_state

    if (folder / "model.safetensors").is_file():
        return read_state(folder / "model.safetensors")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".pt", ".pth", ".bin"))
    if len(files) != 1:
        raise InputError(f"{folder}: {len(files)} files of weights, expected model.safetensors or one .pt file")
    try:
        found: Mapping[str, Any] = torch.load(files[0], map_location="cpu", weights_only=True)
    except Exception as error:  # a damaged file makes the unpickler raise almost anything
        raise InputError(f"{files[0]}: cannot be read ({' '.join(str(error).split())[:120]})") from None
    return found


def _ours(key: str) -> str:
    """A name of the original in the module here.

    >>> _ours("uniter.encoder.layer.0.output.LayerNorm.gamma"), _ours("uniter.img_embeddings.LayerNorm.bias")
    ('bert.encoder.layer.0.output.LayerNorm.weight', 'img_embeddings.LayerNorm.bias')
    """
    key = key.removeprefix("module.").replace(".gamma", ".weight").replace(".beta", ".bias")
    if key.startswith("uniter.img_embeddings."):
        return key.removeprefix("uniter.")
    return f"bert.{key.removeprefix('uniter.')}" if key.startswith("uniter.") else key


def _theirs(key: str) -> str:
    """The original's name of a tensor here."""
    if key.startswith("img_embeddings."):
        return f"uniter.{key}"
    return f"uniter.{key.removeprefix('bert.')}" if key.startswith("bert.") else key
