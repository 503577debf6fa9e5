"""The original UMIC: UNITER with a rank head over region features.

Region features are files, one ``.npz`` per image, in the layout of UNITER's feature dumps. ``features`` is regions ×
2048. ``norm_bb`` are the boxes relative to the image (x1, y1, x2, y2, width, height, perhaps the area). ``conf`` is the
confidence of the detector, highest first. The number of regions is adaptive: those above ``CERTAIN``, at least
``FEWEST`` and at most ``MOST``. The tokenizer is BERT's cased word pieces.
"""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from captious._core.files import read_regular
from captious._core.types import Bools, Floats32, Ints
from captious.captions import ImageSource
from captious.errors import InputError, require
from captious.models._model_folders import read_json, read_state, save_state
from captious.models._model_tokenizers import SubwordTokenizer, read_wordpiece
from captious.models.crossencoders import Backbone, TokenIds, mark
from captious.models.devices import resolve_device
from captious.options import get_runtime

if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

CERTAIN, FEWEST, MOST = 0.2, 10, 100


def read_regions(path: Path, width: int) -> tuple[Floats32, Floats32]:
    """Read features and seven-number geometry of the regions of an image."""
    try:
        archive = np.load(io.BytesIO(read_regular(path)), allow_pickle=False)
        if not isinstance(archive, np.lib.npyio.NpzFile):
            raise ValueError("it is one array without a name")
        with archive:
            arrays: dict[str, npt.NDArray[Any]] = {name: archive[name] for name in archive.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no region features of this image") from None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{path}: is not an .npz file of arrays ({str(error)[:80]})") from None
    if not {"features", "norm_bb"} <= arrays.keys():
        raise InputError(f"{path}: contains {', '.join(arrays) or 'nothing'}, expected the arrays features and norm_bb")
    features, boxes = arrays["features"], arrays["norm_bb"]
    if features.ndim != 2 or features.shape[1] != width or boxes.shape not in ((len(features), 6), (len(features), 7)):
        raise InputError(
            f"{path}: features of shape {features.shape} and norm_bb of shape {boxes.shape}, expected n × {width} and "
            "n × 6 or 7"
        )
    if not len(features):
        raise InputError(f"{path}: contains no region")
    if not all(one.dtype.kind in "fiu" and np.isfinite(one).all() for one in (features, boxes)):
        raise InputError(f"{path}: features or norm_bb have a number that is not finite")
    if "conf" in arrays and arrays["conf"].shape != (len(features),):
        raise InputError(f"{path}: conf of shape {arrays['conf'].shape}, expected one number for each region")
    if boxes.shape[1] == 6:
        boxes = np.concatenate([boxes, boxes[:, 4:5] * boxes[:, 5:6]], axis=1)
    number = count_regions(arrays["conf"]) if "conf" in arrays else MOST
    return features[:number].astype(np.float32), boxes[:number].astype(np.float32)


def count_regions(confidence: npt.NDArray[Any]) -> int:
    """Count the regions to use: those above ``CERTAIN``, within bounds.

    >>> count_regions(np.array([0.9] * 40 + [0.1] * 60)), count_regions(np.array([0.9] + [0.1] * 60))
    (40, 10)
    """
    return int(np.clip((confidence > CERTAIN).sum(), FEWEST, MOST))


@dataclass(frozen=True, eq=False)
class Regions:
    """Features and boxes of the regions of images, in memory."""

    regions: list[tuple[Floats32, Floats32] | None]
    faults: dict[int, str]

    @classmethod
    def of(cls, files: Sequence[Path], width: int) -> Regions:
        """Read all files; an error of a file becomes its fault."""
        regions: list[tuple[Floats32, Floats32] | None] = []
        faults: dict[int, str] = {}
        for index, path in enumerate(files):
            try:
                regions.append(read_regions(path, width))
            except InputError as error:
                faults[index] = str(error)
                regions.append(None)
        return cls(regions, faults)

    def __len__(self) -> int:
        return len(self.regions)

    def take(self, rows: Ints) -> tuple[Floats32, Floats32, Bools]:
        """Return padded features and boxes, and the mask of regions that are no padding."""
        chosen = []
        for row in rows.tolist():
            regions = self.regions[row]
            if regions is None:
                raise InputError(self.faults[row])
            chosen.append(regions)
        longest = max(len(features) for features, _ in chosen)
        features = np.zeros((len(chosen), longest, chosen[0][0].shape[1]), np.float32)
        boxes = np.zeros((len(chosen), longest, 7), np.float32)
        inside = np.zeros((len(chosen), longest), np.bool_)
        for row, (one, box) in enumerate(chosen):
            features[row, : len(one)], boxes[row, : len(one)], inside[row, : len(one)] = one, box, True
        return features, boxes, inside


# Token limit of a caption, start and end included.
LIMIT = 60


class RegionEmbedding(torch.nn.Module):
    """Embedding of regions; parameters have the names of the original."""

    def __init__(self, regions: int, width: int, dropout: float) -> None:
        super().__init__()
        self.img_linear, self.img_layer_norm = torch.nn.Linear(regions, width), torch.nn.LayerNorm(width, eps=1e-12)
        self.pos_linear, self.pos_layer_norm = torch.nn.Linear(7, width), torch.nn.LayerNorm(width, eps=1e-12)
        self.mask_embedding = torch.nn.Embedding(2, regions, padding_idx=0)
        self.LayerNorm = torch.nn.LayerNorm(width, eps=1e-12)
        self.dropout = torch.nn.Dropout(dropout)

    def forward(self, features: torch.Tensor, boxes: torch.Tensor, kind: torch.Tensor) -> torch.Tensor:
        """Embed features b × n × 2048 and boxes b × n × 7."""
        states = self.img_layer_norm(self.img_linear(features)) + self.pos_layer_norm(self.pos_linear(boxes)) + kind
        regions: torch.Tensor = self.dropout(self.LayerNorm(states))
        return regions


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
        text_mask: torch.Tensor,
        features: torch.Tensor,
        boxes: torch.Tensor,
        region_mask: torch.Tensor,
    ) -> torch.Tensor:
        """Return the logits of n captions with n images."""
        kind = self.bert.embeddings.token_type_embeddings.weight[1]
        states = torch.cat([self.bert.embeddings(input_ids=ids), self.img_embeddings(features, boxes, kind)], dim=1)
        there = torch.cat([text_mask, region_mask], dim=1)[:, None, None, :]
        mask = torch.zeros(there.shape, dtype=states.dtype, device=states.device)
        mask = mask.masked_fill(~there, torch.finfo(states.dtype).min)
        states = self.bert.encoder(states, attention_mask=mask.expand(-1, 1, states.shape[1], -1)).last_hidden_state
        logits: torch.Tensor = self.rank_output(self.bert.pooler(states))[:, 0]
        return logits


class Uniter(Backbone):
    """UNITER with a rank head; see :class:`captious.models.crossencoders.Backbone`."""

    name = "uniter"

    def __init__(self, module: UniterModule, tokenizer: SubwordTokenizer, folder: str | None = None) -> None:
        self.module, self.tokenizer = module, tokenizer
        # Directory of the region features.
        self.folder = folder
        self.limit = tokenizer.limit
        self.device = next(module.parameters()).device

    @property
    def scale(self) -> torch.Tensor:
        """Norm of the rank head."""
        norm: torch.Tensor = self.module.rank_output.weight.norm()
        return norm

    @property
    def input_recipe(self) -> str:
        """Tokenizer as text."""
        return self.tokenizer.text

    def files(self, paths: Sequence[ImageSource]) -> list[ImageSource]:
        """Return the region file of each image: the file of the same name in the folder."""
        if self.folder is None:
            raise InputError("umic on uniter needs region features: regions=FOLDER with an .npz file for each image")
        if not Path(self.folder).is_dir():
            raise InputError(f"{self.folder}: no such folder of region features")
        return [str(Path(self.folder) / f"{Path(str(path)).stem}.npz") for path in paths]

    def pictures(self, paths: Sequence[ImageSource]) -> Regions:
        """Prepare images for `logits`."""
        return Regions.of([Path(str(path)) for path in self.files(paths)], self.module.regions)

    def texts(self, texts: Sequence[str], keep: bool = True) -> TokenIds:
        """Prepare captions for `logits`."""
        return TokenIds.of(self.tokenizer([" ".join(text.split()) for text in texts]), self.limit, self.device)

    def logits(self, pictures: Any, texts: Any) -> torch.Tensor:
        """Return the logits; the regions of an image are repeated for its captions."""
        ids, inside = texts
        count = ids.shape[1]
        features, boxes, region_mask = (
            torch.from_numpy(one).to(self.device).repeat_interleave(count, dim=0) for one in pictures
        )
        flat = self.module(ids.flatten(0, 1), inside.flatten(0, 1), features, boxes, region_mask)
        logits: torch.Tensor = flat.reshape(-1, count).float()
        return logits

    def save(self, folder: str | Path) -> None:
        """Write the weights under the original's names, the configuration and the vocabulary."""
        target = Path(folder)
        state = self.module.state_dict()
        save_state(target / "model.safetensors", {_to_original_name(key): tensor for key, tensor in state.items()})
        self.module.config.save_pretrained(target)
        self.tokenizer.save(target)
        mark(folder, self, {"regions": self.module.regions})


def load_uniter(folder: str | Path, regions: str | None = None) -> Uniter:
    """Load UNITER from a folder with ``config.json``, the vocabulary and weights (``.safetensors`` or ``.pt``)."""
    folder = Path(folder)
    settings = read_json(folder / "config.json", "that of UNITER next to its weights")
    config = require("transformers", "clip").BertConfig.from_dict(settings)
    state = {_to_module_name(key): one.float() for key, one in _read_weights(folder).items()}
    first = state.get("img_embeddings.img_linear.weight")
    if first is None:
        raise InputError(f"{folder}: contains no uniter.img_embeddings.img_linear.weight: not the weights of a UNITER")
    module = UniterModule(config, int(first.shape[1]))
    if "rank_output.weight" not in state and "itm_output.weight" in state:
        state |= {f"rank_output.{part}": state[f"itm_output.{part}"][1:] for part in ("weight", "bias")}
    wanted = module.state_dict()
    differ = sorted(key for key in wanted if key not in state or state[key].shape != wanted[key].shape)
    if differ:
        raise InputError(
            f"{folder}: weights of another model: {len(differ)} of {len(wanted)} tensors are missing or of another "
            f"shape, such as {_to_original_name(differ[0])}"
        )
    module.load_state_dict({key: state[key] for key in wanted})
    tokenizer = read_wordpiece(folder, min(LIMIT, int(config.max_position_embeddings)))
    return Uniter(module.to(resolve_device(get_runtime().device)).eval(), tokenizer, regions)


def _read_weights(folder: Path) -> Mapping[str, Any]:
    if (folder / "model.safetensors").is_file():
        return read_state(folder / "model.safetensors")
    files = sorted(path for path in folder.iterdir() if path.suffix in (".pt", ".pth", ".bin"))
    if len(files) != 1:
        raise InputError(f"{folder}: {len(files)} files of weights, expected model.safetensors or one .pt file")
    return read_state(files[0])


def _to_module_name(key: str) -> str:
    """Convert a tensor name of the original to that of the module here.

    >>> _to_module_name("uniter.encoder.layer.0.output.LayerNorm.gamma")
    'bert.encoder.layer.0.output.LayerNorm.weight'
    >>> _to_module_name("uniter.img_embeddings.LayerNorm.bias")
    'img_embeddings.LayerNorm.bias'
    """
    key = key.removeprefix("module.").replace(".gamma", ".weight").replace(".beta", ".bias")
    if key.startswith("uniter.img_embeddings."):
        return key.removeprefix("uniter.")
    return f"bert.{key.removeprefix('uniter.')}" if key.startswith("uniter.") else key


def _to_original_name(key: str) -> str:
    """Convert a tensor name here to that of the original."""
    if key.startswith("img_embeddings."):
        return f"uniter.{key}"
    return f"uniter.{key.removeprefix('bert.')}" if key.startswith("bert.") else key
