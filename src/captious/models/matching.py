"""Loading a pretrained image–text matching model of ``transformers``, and its head as a rank head."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._files import digest
from captious._typing import Ints
from captious.errors import InputError, require
from captious.io.images import Unreadable, open_picture
from captious.models.crossencoders import Ids
from captious.models.devices import device_called, quiet, weights_digest
from captious.models.encoder import Pixels
from captious.models.hub import find
from captious.models.preprocess import Preparation
from captious.models.states import SHARE, free_memory
from captious.models.tokenizers import Tokenizer, tokenizer_of
from captious.options import current

if TYPE_CHECKING:
    from PIL.Image import Image


RANK = "rank.safetensors"


def pretrained(place: str | Path, kind: str, model: str) -> tuple[Any, Path, set[str], Mapping[str, Any]]:
    """A model by folder or hub id: itself, its folder, the keys its file lacks, and the tensors of the file.

    ``kind`` is the ``model_type`` it must be of, ``model`` its class in ``transformers``.
    """
    transformers = require("transformers", "clip")
    folder = find(str(place))
    try:
        config = transformers.AutoConfig.from_pretrained(folder, local_files_only=True)
    except Exception as error:  # the library raises many kinds
        raise InputError(f"{folder}: is no model of transformers ({_line(error)})") from None
    if config.model_type != kind:
        raise InputError(f"{folder}: holds a model of type {config.model_type!r}, expected {kind!r}")
    try:
        with quiet():
            module, report = getattr(transformers, model).from_pretrained(
                folder, output_loading_info=True, local_files_only=True
            )
    except Exception as error:
        raise InputError(f"{folder}: cannot be loaded by transformers ({_line(error)})") from None
    return module, folder, set(report["missing_keys"]), _tensors(folder)


def refuse_missing(folder: Path, missing: set[str]) -> None:
    """Every weight must come from the file."""
    if missing:
        raise InputError(f"{folder}: its weights lack {len(missing)} tensors, such as {min(missing)}")


def positive_row(head: Any, weight: Any, bias: Any) -> None:
    """Start a rank head from the row of a two-way matching head that stands for a match."""
    torch = require("torch", "clip")
    with torch.no_grad():
        head.weight.copy_(weight[1:])
        head.bias.copy_(bias[1:])


def placed(module: Any) -> Any:
    """The model on the device of the runtime, for use."""
    return module.float().to(device_called(current().device)).eval()


def _tensors(folder: Path) -> Mapping[str, Any]:
    """The tensors of a folder's file, for those that the model's class has no place for."""
    path = folder / "model.safetensors"
    if path.is_file():
        return require("safetensors.torch", "clip").load_file(str(path))  # type: ignore[no-any-return]
    path = folder / "pytorch_model.bin"
    if path.is_file():
        return require("torch", "clip").load(path, map_location="cpu", weights_only=True)  # type: ignore[no-any-return]
    return {}


def _line(error: Exception) -> str:
    return " ".join(str(error).split())[:200]


Prepare = Callable[["Image"], Pixels]


@dataclass(frozen=True, eq=False)
class Shown:
    """Prepared images by number; ``kept`` has None for those that cannot be used, and is empty where none are kept."""

    paths: Sequence[str]
    prepare: Prepare
    upright: bool = False
    kept: list[Pixels | None] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[str], prepare: Prepare) -> Shown:
        """Open all images to see which cannot be used; where they are too many to be kept, each again in its turn."""
        runtime = current()
        shown = cls(paths, prepare, runtime.upright)
        size, total, keep = 0, 0, True
        with ThreadPoolExecutor(runtime.workers or min(32, os.cpu_count() or 1)) as pool:
            for number, found in enumerate(pool.map(shown.look, paths)):
                if isinstance(found, str):
                    shown.faults[number] = found
                else:
                    size, total = size + found.nbytes, total + 1
                runtime.progress("images", number + 1, len(paths))
                if keep:
                    shown.kept.append(None if isinstance(found, str) else found)
                    keep = total != 32 or size / total * len(paths) <= SHARE * free_memory()
        if not keep:
            shown.kept.clear()
        return shown

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: Ints) -> list[Pixels]:
        """Pixels of some images; one that cannot be opened is an error."""
        found = [self.kept[row] if self.kept else self.look(self.paths[row]) for row in rows.tolist()]
        for row, one in zip(rows.tolist(), found, strict=True):
            if one is None or isinstance(one, str):
                raise Unreadable(one or self.faults[row])
        return [one for one in found if one is not None and not isinstance(one, str)]

    def look(self, path: str) -> Pixels | str:
        """An image prepared, or why that cannot be."""
        try:
            return self.prepare(open_picture(path, self.upright))
        except Unreadable as error:
            return str(error)


if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
else:
    torch = require("torch", "clip")

DEFAULT = "dandelin/vilt-b32-finetuned-coco"
ITM = "itm_score.fc"
LONGER = 1333 / 800
"""The longer side is at most so many times the shorter, as in ViLT's own preparation."""


@dataclass(eq=False)
class Vilt:
    """See :class:`captious.models.crossencoders.Backbone`."""

    module: Any = field(repr=False)
    tokenizer: Tokenizer = field(repr=False)
    name: str = "vilt"
    sealed: str = ""
    """Its fingerprint, where it will not change any more."""

    def __post_init__(self) -> None:
        self.device = self.module.device
        self.limit = self.tokenizer.limit
        self.side, self.patch = int(self.module.config.image_size), int(self.module.config.patch_size)

    @property
    def scale(self) -> torch.Tensor:
        """The length of the rank head."""
        length: torch.Tensor = self.module.rank_output.weight.norm()
        return length

    @property
    def reads(self) -> str:
        """Tokenizer and image size."""
        return f"{self.tokenizer.text} {self.side}"

    @property
    def fingerprint(self) -> str:
        """Of all weights and what comes before them."""
        return self.sealed or digest(weights_digest(self.module), self.reads.encode())

    def prepare(self, picture: Image) -> Pixels:
        """The shorter side to the model's, the longer in proportion, both cut to whole patches."""
        from PIL import Image

        width, height = picture.size
        factor = self.side / min(width, height)
        most = int(self.side * LONGER)
        factor = min(factor, most / max(width, height))
        size = [max(self.patch, int(side * factor + 0.5) // self.patch * self.patch) for side in (width, height)]
        return np.asarray(picture.convert("RGB").resize((size[0], size[1]), Image.Resampling.BICUBIC))

    def pictures(self, paths: Sequence[str]) -> Shown:
        """Lay images out."""
        return Shown.of(paths, self.prepare)

    def texts(self, texts: Sequence[str], keep: bool = True) -> Ids:
        """Lay captions out."""
        return Ids.of(self.tokenizer(texts), self.limit, self.device)

    def logits(self, pictures: list[Pixels], texts: tuple[Any, Any]) -> torch.Tensor:
        """Patches of an image are embedded once and repeated for its captions."""
        ids, inside = texts
        count = ids.shape[1]
        patches, seen = self._patches(pictures)
        found = self.module(
            input_ids=ids.flatten(0, 1),
            attention_mask=inside.flatten(0, 1).long(),
            image_embeds=patches.repeat_interleave(count, dim=0),
            pixel_mask=seen.repeat_interleave(count, dim=0),
        )
        logits: torch.Tensor = found.logits[:, 0].unflatten(0, (-1, count))
        return logits.float()

    def _patches(self, pictures: list[Pixels]) -> tuple[torch.Tensor, torch.Tensor]:
        """Embedded patches with their positions, and which are there.

        The library does the same but shuffles the patches, so that sums differ in their last digits from call to call.
        """
        embeddings = self.module.vilt.embeddings
        grids = [(one.shape[0] // self.patch, one.shape[1] // self.patch) for one in pictures]
        height, width = (max(sides) for sides in zip(*grids, strict=True))
        pixels = np.full((len(pictures), height * self.patch, width * self.patch, 3), 127, np.uint8)
        for row, one in zip(pixels, pictures, strict=True):
            row[: one.shape[0], : one.shape[1]] = one
        there = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float() / 127.5 - 1
        patches = embeddings.patch_embeddings(there)
        table = embeddings.position_embeddings
        side = self.side // self.patch
        square = table[:, 1:].transpose(1, 2).unflatten(2, (side, side))
        places = [
            torch.nn.functional.pad(_stretched(square, grid), (0, width - grid[1], 0, height - grid[0]))
            for grid in grids
        ]
        states = (patches + torch.cat(places)).flatten(2).transpose(1, 2)
        first = (embeddings.cls_token + table[:, :1]).expand(len(pictures), -1, -1)
        states = embeddings.dropout(torch.cat([first, states], dim=1))
        seen = torch.zeros(len(pictures), height, width, dtype=torch.long, device=self.device)
        for row, (high, wide) in zip(seen, grids, strict=True):
            row[:high, :wide] = 1
        return states, torch.nn.functional.pad(seen.flatten(1), (1, 0), value=1)

    def save(self, folder: str | Path) -> None:
        """The model in ``transformers``' layout in ``model/``."""
        from captious.models.crossencoders import mark

        target = Path(folder) / "model"
        target.mkdir(parents=True, exist_ok=True)
        with quiet():
            self.module.save_pretrained(target)
        self.tokenizer.save(target)
        mark(folder, self, {})


def load_vilt(place: str | Path) -> Vilt:
    """A ViLT for retrieval, or one with a matching head, whose positive row becomes the rank head."""
    module, folder, missing, tensors = pretrained(place, "vilt", "ViltForImageAndTextRetrieval")
    if f"{ITM}.weight" in tensors and "rank_output.weight" in missing:
        positive_row(module.rank_output, tensors[f"{ITM}.weight"], tensors[f"{ITM}.bias"])
        missing -= {"rank_output.weight", "rank_output.bias"}
    refuse_missing(folder, missing)
    tokenizer = tokenizer_of(folder, int(module.config.max_position_embeddings))
    return Vilt(placed(module), tokenizer)


def _stretched(square: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    return torch.nn.functional.interpolate(square, size=grid, mode="bilinear", align_corners=True)


if TYPE_CHECKING:
    import torch
else:
    torch = require("torch", "clip")

BLIP_DEFAULT = "Salesforce/blip-itm-base-coco"
CONTRAST = ("vision_proj", "text_proj", "itm_head")
"""Parts of the library's model that a rank head does without."""


@dataclass(eq=False)
class Blip:
    """See :class:`captious.models.crossencoders.Backbone`."""

    module: Any = field(repr=False)
    """``transformers``' model, with a ``rank`` head of one output besides."""
    tokenizer: Tokenizer = field(repr=False)
    preparation: Preparation
    name: str = "blip"
    sealed: str = ""
    """Its fingerprint, where it will not change any more."""

    def __post_init__(self) -> None:
        self.device = self.module.device
        self.limit = self.tokenizer.limit
        for part in CONTRAST:  # would be counted as learning, and never hear of a loss
            getattr(self.module, part).requires_grad_(False)

    @property
    def scale(self) -> torch.Tensor:
        """The length of the rank head."""
        length: torch.Tensor = self.module.rank.weight.norm()
        return length

    @property
    def reads(self) -> str:
        """Tokenizer and image preparation."""
        return f"{self.tokenizer.text} {self.preparation.text}"

    @property
    def fingerprint(self) -> str:
        """Of all weights and what comes before them."""
        return self.sealed or digest(weights_digest(self.module), self.reads.encode())

    def pictures(self, paths: Sequence[str]) -> Shown:
        """Lay images out."""
        return Shown.of(paths, self.preparation.prepare)

    def texts(self, texts: Sequence[str], keep: bool = True) -> Ids:
        """Lay captions out."""
        return Ids.of(self.tokenizer(texts), self.limit, self.device)

    def logits(self, pictures: list[Pixels], texts: tuple[Any, Any]) -> torch.Tensor:
        """An image is encoded once for all its captions."""
        ids, inside = texts
        count = ids.shape[1]
        mean, std = (torch.tensor(three, device=self.device) for three in (self.preparation.mean, self.preparation.std))
        pixels = torch.from_numpy(np.stack(pictures)).to(self.device).float() / 255
        normal = ((pixels - mean) / std).permute(0, 3, 1, 2).contiguous()
        image = self.module.vision_model(pixel_values=normal).last_hidden_state.repeat_interleave(count, dim=0)
        found = self.module.text_encoder(
            input_ids=ids.flatten(0, 1),
            attention_mask=inside.flatten(0, 1).long(),
            encoder_hidden_states=image,
            encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.long, device=self.device),
        )
        logits: torch.Tensor = self.module.rank(found.last_hidden_state[:, 0])[:, 0].unflatten(0, (-1, count))
        return logits.float()

    def save(self, folder: str | Path) -> None:
        """The model in ``transformers``' layout in ``model/``, the rank head beside it there."""
        from captious.models.crossencoders import mark

        target = Path(folder) / "model"
        target.mkdir(parents=True, exist_ok=True)
        state = {key: one for key, one in self.module.state_dict().items() if not key.startswith("rank.")}
        with quiet():
            self.module.save_pretrained(target, state_dict=state)
        rank = {key: one.detach().cpu().contiguous() for key, one in self.module.rank.state_dict().items()}
        require("safetensors.torch", "clip").save_file(rank, str(target / RANK))
        self.tokenizer.save(target)
        self.preparation.save(target)
        mark(folder, self, {})


def load_blip(place: str | Path) -> Blip:
    """A BLIP for retrieval; its rank head is its own where it was trained here, else the positive row for a match."""
    from captious.models.crossencoders import fill, read_state

    module, folder, missing, _ = pretrained(place, "blip", "BlipForImageTextRetrieval")
    refuse_missing(folder, missing)
    module.rank = torch.nn.Linear(module.config.text_config.hidden_size, 1)
    if (folder / RANK).is_file():
        fill(module.rank, read_state(folder / RANK), str(folder / RANK))
    else:
        positive_row(module.rank, module.itm_head.weight, module.itm_head.bias)
    tokenizer = tokenizer_of(folder, int(module.config.text_config.max_position_embeddings))
    side = int(module.config.vision_config.image_size)
    usual = Preparation(size=side, crop=side, order="rgb-first", squash=True)
    return Blip(placed(module), tokenizer, Preparation.read(folder, usual))
