"""ViLT and BLIP as backbones of UMIC: pretrained image–text matching models of ``transformers``.

The row of the matching head for a match becomes the rank head. ViLT is one stream over caption tokens and
raw patches, the nearest thing to UNITER without regions. BLIP is a text encoder that attends to the image in every
layer.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from captious._core.types import Ints
from captious.captions import ImageSource
from captious.errors import InputError, require
from captious.io.images import UnreadableImage, open_image
from captious.models._model_folders import fill, load_pretrained, read_json, read_state, refuse_missing, save_state
from captious.models._model_tokenizers import SubwordTokenizer, read_tokenizer
from captious.models._preprocess import ImagePreprocessing
from captious.models.crossencoders import Backbone, TokenIds, mark
from captious.models.devices import quiet, resolve_device
from captious.models.encoder import Pixels
from captious.models.hub import find
from captious.models.token_rows import SHARE, get_free_memory
from captious.options import get_runtime

if TYPE_CHECKING:
    import torch
    from PIL.Image import Image
else:
    torch = require("torch", "clip")

RANK = "rank.safetensors"


def load_transformers_model(
    weights: str | Path, kind: str, model: str
) -> tuple[Any, Path, set[str], Mapping[str, Any]]:
    """Load a model by folder or hub id; return it with its folder, the missing keys, and the tensors of the file.

    ``kind`` is the ``model_type`` it must be of, ``model`` its class in ``transformers``.
    """
    folder = find(str(weights))
    model_type = read_json(folder / "config.json").get("model_type")
    if model_type != kind:
        raise InputError(f"{folder}: contains a model of type {model_type!r}, expected {kind!r}")
    module, report = load_pretrained(folder, model)
    files = [folder / name for name in ("model.safetensors", "pytorch_model.bin") if (folder / name).is_file()]
    return module, folder, set(report["missing_keys"]), read_state(files[0]) if files else {}


def copy_positive_row(head: Any, weight: Any, bias: Any) -> None:
    """Initialize a rank head from the row of a two-way matching head that means a match."""
    with torch.no_grad():
        head.weight.copy_(weight[1:])
        head.bias.copy_(bias[1:])


def move_to_device(module: Any) -> Any:
    """Return the model in fp32 on the device of the runtime, in evaluation mode."""
    return module.float().to(resolve_device(get_runtime().device)).eval()


@dataclass(frozen=True, eq=False)
class PixelStore:
    """Prepared images by index, in memory if all of them fit, else opened again for every batch."""

    paths: Sequence[ImageSource]
    prepare: Callable[[Image], Pixels]
    upright: bool = False
    pixels: list[Pixels | None] = field(default_factory=list)
    """Pixels of each image, None if it cannot be used; an empty list if the images do not fit into memory."""
    faults: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[ImageSource], prepare: Callable[[Image], Pixels]) -> PixelStore:
        """Open all images once, to find those that cannot be used."""
        runtime = get_runtime()
        store = cls(paths, prepare, runtime.upright)
        size, usable, keep = 0, 0, True
        with ThreadPoolExecutor(runtime.workers or min(32, os.cpu_count() or 1)) as pool:
            for index, image in enumerate(pool.map(store.open, paths)):
                if isinstance(image, str):
                    store.faults[index] = image
                else:
                    size, usable = size + image.nbytes, usable + 1
                runtime.progress("images", index + 1, len(paths))
                if keep:
                    store.pixels.append(None if isinstance(image, str) else image)
                    keep = usable != 32 or size / usable * len(paths) <= SHARE * get_free_memory()
        if not keep:
            store.pixels.clear()
        return store

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: Ints) -> list[Pixels]:
        """Return the pixels of some images; raise UnreadableImage if one cannot be opened."""
        images = []
        for row in rows.tolist():
            image = self.pixels[row] if self.pixels else self.open(self.paths[row])
            if image is None or isinstance(image, str):
                raise UnreadableImage(image or self.faults[row])
            images.append(image)
        return images

    def open(self, path: ImageSource) -> Pixels | str:
        """Return a prepared image, or the reason why it cannot be used."""
        try:
            return self.prepare(open_image(path, self.upright))
        except UnreadableImage as error:
            return str(error)


# Default weights for training, by backbone.
DEFAULTS = {"vilt": "dandelin/vilt-b32-finetuned-coco", "blip": "Salesforce/blip-itm-base-coco"}
ITM = "itm_score.fc"
# Largest ratio of the longer to the shorter side, as in ViLT's own preparation.
LONGER = 1333 / 800


class _Matching(Backbone):
    """Base class of ViLT and BLIP: they read token ids and pixels, and end in a rank head with one output."""

    tokenizer: SubwordTokenizer
    head: Any

    def __init__(self, module: Any, tokenizer: SubwordTokenizer, head: Any) -> None:
        self.module, self.tokenizer, self.head = module, tokenizer, head
        self.device, self.limit = module.device, tokenizer.limit

    @property
    def scale(self) -> torch.Tensor:
        """Norm of the rank head."""
        norm: torch.Tensor = self.head.weight.norm()
        return norm

    def prepare(self, picture: Image) -> Pixels:
        """Resize an image to the size of the model."""
        raise NotImplementedError

    def pictures(self, paths: Sequence[ImageSource]) -> PixelStore:
        """Prepare images for `logits`."""
        return PixelStore.of(paths, self.prepare)

    def texts(self, texts: Sequence[str], keep: bool = True) -> TokenIds:
        """Prepare captions for `logits`."""
        return TokenIds.of(self.tokenizer(texts), self.limit, self.device)

    def save(self, folder: str | Path) -> None:
        """Write the model in the layout of ``transformers`` under ``model/``."""
        target = Path(folder) / "model"
        target.mkdir(parents=True, exist_ok=True)
        self.save_module(target)
        self.tokenizer.save(target)
        mark(folder, self, {})

    def save_module(self, target: Path) -> None:
        """Write the weights."""
        with quiet():
            self.module.save_pretrained(target)


class Vilt(_Matching):
    """ViLT for retrieval; see :class:`captious.models.crossencoders.Backbone`."""

    name = "vilt"

    def __init__(self, module: Any, tokenizer: SubwordTokenizer) -> None:
        super().__init__(module, tokenizer, module.rank_output)
        self.side, self.patch = int(module.config.image_size), int(module.config.patch_size)

    @property
    def input_recipe(self) -> str:
        """Tokenizer and image size."""
        return f"{self.tokenizer.text} {self.side}"

    def prepare(self, picture: Image) -> Pixels:
        """Resize the shorter side to the model's, the longer in proportion, both truncated to whole patches."""
        from PIL import Image

        width, height = picture.size
        factor = self.side / min(width, height)
        most = int(self.side * LONGER)
        factor = min(factor, most / max(width, height))
        size = [max(self.patch, int(side * factor + 0.5) // self.patch * self.patch) for side in (width, height)]
        return np.asarray(picture.convert("RGB").resize((size[0], size[1]), Image.Resampling.BICUBIC))

    def logits(self, pictures: list[Pixels], texts: tuple[Any, Any]) -> torch.Tensor:
        """Return the logits; patches of an image are embedded once and repeated for its captions."""
        ids, inside = texts
        count = ids.shape[1]
        patches, mask = self._embed_patches(pictures)
        output = self.module(
            input_ids=ids.flatten(0, 1),
            attention_mask=inside.flatten(0, 1).long(),
            image_embeds=patches.repeat_interleave(count, dim=0),
            pixel_mask=mask.repeat_interleave(count, dim=0),
        )
        logits: torch.Tensor = output.logits[:, 0].unflatten(0, (-1, count))
        return logits.float()

    def _embed_patches(self, pictures: list[Pixels]) -> tuple[torch.Tensor, torch.Tensor]:
        """Embed patches with their positions; also return the mask of patches that are no padding.

        The library does the same but shuffles the patches, so that sums differ in their last digits from call to call.
        """
        embeddings = self.module.vilt.embeddings
        grids = [(one.shape[0] // self.patch, one.shape[1] // self.patch) for one in pictures]
        height, width = (max(sides) for sides in zip(*grids, strict=True))
        pixels = np.full((len(pictures), height * self.patch, width * self.patch, 3), 127, np.uint8)
        for row, one in zip(pixels, pictures, strict=True):
            row[: one.shape[0], : one.shape[1]] = one
        normal = torch.from_numpy(pixels).to(self.device).permute(0, 3, 1, 2).float() / 127.5 - 1
        patches = embeddings.patch_embeddings(normal)
        table = embeddings.position_embeddings
        side = self.side // self.patch
        square = table[:, 1:].transpose(1, 2).unflatten(2, (side, side))
        positions = [
            torch.nn.functional.pad(_resize_positions(square, grid), (0, width - grid[1], 0, height - grid[0]))
            for grid in grids
        ]
        states = (patches + torch.cat(positions)).flatten(2).transpose(1, 2)
        first = (embeddings.cls_token + table[:, :1]).expand(len(pictures), -1, -1)
        states = embeddings.dropout(torch.cat([first, states], dim=1))
        mask = torch.zeros(len(pictures), height, width, dtype=torch.long, device=self.device)
        for row, (high, wide) in zip(mask, grids, strict=True):
            row[:high, :wide] = 1
        return states, torch.nn.functional.pad(mask.flatten(1), (1, 0), value=1)


def load_vilt(weights: str | Path) -> Vilt:
    """Load a ViLT for retrieval, or one with a matching head, whose positive row becomes the rank head."""
    module, folder, missing, tensors = load_transformers_model(weights, "vilt", "ViltForImageAndTextRetrieval")
    if f"{ITM}.weight" in tensors and "rank_output.weight" in missing:
        copy_positive_row(module.rank_output, tensors[f"{ITM}.weight"], tensors[f"{ITM}.bias"])
        missing -= {"rank_output.weight", "rank_output.bias"}
    refuse_missing(folder, [*missing])
    tokenizer = read_tokenizer(folder, int(module.config.max_position_embeddings))
    return Vilt(move_to_device(module), tokenizer)


def _resize_positions(square: torch.Tensor, grid: tuple[int, int]) -> torch.Tensor:
    return torch.nn.functional.interpolate(square, size=grid, mode="bilinear", align_corners=True)


# Heads of the library's model that the rank head replaces.
CONTRAST = ("vision_proj", "text_proj", "itm_head")


class Blip(_Matching):
    """BLIP for retrieval with an additional ``rank`` head of one output; see ``Backbone``."""

    name = "blip"

    def __init__(self, module: Any, tokenizer: SubwordTokenizer, preparation: ImagePreprocessing) -> None:
        super().__init__(module, tokenizer, module.rank)
        self.preparation = preparation
        for part in CONTRAST:  # they get no gradient, so they must not count as trainable
            getattr(self.module, part).requires_grad_(False)

    @property
    def input_recipe(self) -> str:
        """Tokenizer and image preparation."""
        return f"{self.tokenizer.text} {self.preparation.text}"

    def prepare(self, picture: Image) -> Pixels:
        """Resize an image to the size of the model."""
        return self.preparation.prepare(picture)

    def logits(self, pictures: list[Pixels], texts: tuple[Any, Any]) -> torch.Tensor:
        """Return the logits; an image is encoded once for all its captions."""
        ids, inside = texts
        count = ids.shape[1]
        mean, std = (torch.tensor(three, device=self.device) for three in (self.preparation.mean, self.preparation.std))
        pixels = torch.from_numpy(np.stack(pictures)).to(self.device).float() / 255
        normal = ((pixels - mean) / std).permute(0, 3, 1, 2).contiguous()
        image = self.module.vision_model(pixel_values=normal).last_hidden_state.repeat_interleave(count, dim=0)
        output = self.module.text_encoder(
            input_ids=ids.flatten(0, 1),
            attention_mask=inside.flatten(0, 1).long(),
            encoder_hidden_states=image,
            encoder_attention_mask=torch.ones(image.shape[:2], dtype=torch.long, device=self.device),
        )
        logits: torch.Tensor = self.module.rank(output.last_hidden_state[:, 0])[:, 0].unflatten(0, (-1, count))
        return logits.float()

    def save_module(self, target: Path) -> None:
        """Write the weights; the rank head has its own file."""
        state = {key: tensor for key, tensor in self.module.state_dict().items() if not key.startswith("rank.")}
        with quiet():
            self.module.save_pretrained(target, state_dict=state)
        save_state(target / RANK, self.module.rank.state_dict())
        self.preparation.save(target)


def load_blip(weights: str | Path) -> Blip:
    """Load a BLIP for retrieval; its rank head is the one trained here, else the positive row of the matching head."""
    module, folder, missing, _ = load_transformers_model(weights, "blip", "BlipForImageTextRetrieval")
    refuse_missing(folder, [*missing])
    module.rank = torch.nn.Linear(module.config.text_config.hidden_size, 1)
    if (folder / RANK).is_file():
        fill(module.rank, read_state(folder / RANK), folder / RANK)
    else:
        copy_positive_row(module.rank, module.itm_head.weight, module.itm_head.bias)
    tokenizer = read_tokenizer(folder, int(module.config.text_config.max_position_embeddings))
    side = int(module.config.vision_config.image_size)
    usual = ImagePreprocessing(size=side, crop=side, order="rgb-first", squash=True)
    return Blip(move_to_device(module), tokenizer, ImagePreprocessing.read(folder, usual))


LOADERS: dict[str, Callable[[str | Path], Backbone]] = {"vilt": load_vilt, "blip": load_blip}
