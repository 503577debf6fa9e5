"""Image preparation: an opened image becomes a square of pixels, rounded exactly as in each metric's reference.

OpenAI's CLIP, and with it CLIPScore, PAC-S, LongCLIP and SPECS, resizes and crops in the image's own mode and converts
to RGB last (``crop-first``): a palette image is then resized to the nearest pixel, an image with alpha weighted by it.
``transformers`` converts first (``rgb-first``) and rounds the crop's offset down; torchvision rounds half to even.
Polos converts first and then does as OpenAI (``rgb-then-crop``).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, get_args

import numpy as np

from captious._core.files import load_json
from captious.errors import InputError
from captious.models._model_folders import write_json
from captious.models.encoder import Pixels

if TYPE_CHECKING:
    from PIL.Image import Image


Order = Literal["crop-first", "rgb-first", "rgb-then-crop"]
CLIP_MEAN = (0.48145466, 0.4578275, 0.40821073)
CLIP_STD = (0.26862954, 0.26130258, 0.27577711)
# Filters by Pillow's number, which configuration files contain.
RESAMPLES = ("nearest", "lanczos", "bilinear", "bicubic", "box", "hamming")


@dataclass(frozen=True)
class ImagePreprocessing:
    """Shorter side to ``size``, center square of ``crop``, RGB; ``squash`` resizes both sides to ``size`` instead.

    >>> ImagePreprocessing().compute_size(640, 427), ImagePreprocessing().offset(335)
    ((335, 224), 56)
    """

    size: int = 224
    crop: int = 224
    resample: str = "bicubic"
    mean: tuple[float, float, float] = CLIP_MEAN
    std: tuple[float, float, float] = CLIP_STD
    order: Order = "crop-first"
    squash: bool = False

    def __post_init__(self) -> None:
        if self.resample not in RESAMPLES:
            raise InputError(f"resample={self.resample!r}: expected one of {', '.join(RESAMPLES)}")
        if self.order not in get_args(Order):
            raise InputError(f"order={self.order!r}: expected crop-first or rgb-first")
        if not 0 < self.crop <= self.size:
            raise InputError(f"image crop {self.crop} of size {self.size}: expected a crop from 1 to the size")

    @property
    def text(self) -> str:
        """Every option that can change a pixel, as one string."""
        return json.dumps(asdict(self), sort_keys=True)

    def compute_size(self, width: int, height: int) -> tuple[int, int]:
        """Return width and height after resizing; the longer side is truncated, not rounded."""
        if self.squash:
            return self.size, self.size
        short, long = sorted((width, height))
        longer = int(self.size * long / short)
        return (self.size, longer) if width <= height else (longer, self.size)

    def offset(self, side: int) -> int:
        """Return the start of the crop on a side."""
        return (side - self.crop) // 2 if self.order == "rgb-first" else round((side - self.crop) / 2)

    def prepare(self, picture: Image) -> Pixels:
        """Return the pixels of an opened image: crop × crop × 3."""
        from PIL import Image

        if self.order != "crop-first":
            picture = picture.convert("RGB")
        size = self.compute_size(*picture.size)
        if size != picture.size:
            picture = picture.resize(size, Image.Resampling[self.resample.upper()])
        if size != (self.crop, self.crop):
            left, top = self.offset(size[0]), self.offset(size[1])
            picture = picture.crop((left, top, left + self.crop, top + self.crop))
        return np.asarray(picture.convert("RGB"))

    @classmethod
    def read(
        cls, folder: str | Path, fallback: ImagePreprocessing | None = None, order: Order = "rgb-first"
    ) -> ImagePreprocessing:
        """Read ``preprocessor_config.json`` (or ``processor_config.json``) of a model folder; else return ``fallback``.

        ``order`` is the default for files that captious did not write, which do not specify it.
        """
        for name in ("preprocessor_config.json", "processor_config.json"):
            path = Path(folder) / name
            if path.is_file():
                try:
                    config = load_json(path)
                    return _from_config(config.get("image_processor", config), order)
                except (ValueError, TypeError, AttributeError, LookupError) as error:
                    raise InputError(f"{path}: does not describe an image preparation ({error})") from None
        if fallback is None:
            raise InputError(f"{folder}: has no preprocessor_config.json, which says how images are prepared")
        return fallback

    def save(self, folder: str | Path) -> None:
        """Write ``preprocessor_config.json`` as ``transformers`` reads it; ``captious_order`` stores the order."""
        edge: dict[str, int] = (
            {"height": self.size, "width": self.size} if self.squash else {"shortest_edge": self.size}
        )
        written = {
            "image_processor_type": "CLIPImageProcessor",
            "do_convert_rgb": True,
            "do_resize": True,
            "size": edge,
            "resample": RESAMPLES.index(self.resample),
            "do_center_crop": True,
            "crop_size": {"height": self.crop, "width": self.crop},
            "do_rescale": True,
            "rescale_factor": 1 / 255,
            "do_normalize": True,
            "image_mean": list(self.mean),
            "image_std": list(self.std),
            "captious_order": self.order,
        }
        write_json(Path(folder) / "preprocessor_config.json", written)


def _from_config(config: Mapping[str, Any], order: Order) -> ImagePreprocessing:
    size = config.get("size", 224)
    squash = isinstance(size, Mapping) and "shortest_edge" not in size
    edge = _parse_side(size)
    cropped = config.get("do_center_crop", not squash)
    normal = config.get("do_normalize", True)
    return ImagePreprocessing(
        size=edge,
        crop=_parse_side(config.get("crop_size", edge)) if cropped else edge,
        resample=RESAMPLES[config.get("resample", 3)],
        mean=_parse_color(config.get("image_mean", CLIP_MEAN)) if normal else (0.0, 0.0, 0.0),
        std=_parse_color(config.get("image_std", CLIP_STD)) if normal else (1.0, 1.0, 1.0),
        order=config.get("captious_order", order),
        squash=squash,
    )


def _parse_side(size: object) -> int:
    """Return the side of a square, in any notation."""
    if isinstance(size, Mapping):
        if "shortest_edge" in size:
            return int(size["shortest_edge"])
        if size["height"] != size["width"]:
            raise ValueError(f"{size['height']} x {size['width']} pixels, expected a square")
        return int(size["height"])
    return int(str(size))


def _parse_color(values: Any) -> tuple[float, float, float]:
    red, green, blue = (float(value) for value in values)
    return red, green, blue
