"""DINOv2-S features of a photograph by place: a 7 × 7 grid beside the CLS token, for a decoder to attend over.

    python lab/reproductions/parts.py --packages SITE-PACKAGES --out parts/ --side 98 --whole
    python -m lab.captioners.grid --data ../shared/data --model parts/dinov2-small --out grid.npz

The paper's captioners attend over 7 × 7 vectors of a ResNeXt. Here the whole picture is squeezed into a square of
98 pixels, which DINOv2 sees as 7 × 7 patches. At more pixels the patches of a cell are averaged. Some eight minutes
on two cores. The file has the form of the shared features: ``ids``, ``features`` (int8), ``scale`` of each dimension.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from PIL import Image

# Cells of the grid in a row.
SIDE = 7


def cells(tokens: torch.Tensor) -> torch.Tensor:
    """CLS and the means of square cells, from CLS and the patches of a square.

    >>> cells(torch.arange(197.0).reshape(1, 197, 1))[0, :3, 0].tolist()  # patches 1, 2, 15, 16; then 3, 4, 17, 18
    [0.0, 8.5, 10.5]
    """
    images, number, width = tokens.shape
    patches = round((number - 1) ** 0.5)
    cell = patches // SIDE
    square = tokens[:, 1:].reshape(images, SIDE, cell, SIDE, cell, width).mean(dim=(2, 4))
    return torch.cat([tokens[:, :1], square.reshape(images, SIDE * SIDE, width)], dim=1)


def compress(features: npt.NDArray[np.float32]) -> tuple[npt.NDArray[np.int8], npt.NDArray[np.float32]]:
    """Features as int8 and the scale of each dimension; the largest of a thousand values may be cut off."""
    flat = np.abs(features).reshape(-1, features.shape[-1])
    scale = np.maximum(np.quantile(flat, 0.999, axis=0), 1e-6).astype(np.float32) / 127
    return np.clip(np.rint(features / scale), -127, 127).astype(np.int8), scale


@torch.inference_mode()
def encode(model: Any, processor: Any, paths: list[Path], batch: int = 16) -> npt.NDArray[np.float32]:
    """The cells of every image."""
    rows = []
    for start in range(0, len(paths), batch):
        images = [Image.open(path).convert("RGB") for path in paths[start : start + batch]]
        pixels = processor(images, return_tensors="pt")["pixel_values"]
        rows.append(cells(model(pixels).last_hidden_state).numpy())
        if start % (20 * batch) == 0:
            print(f"{start:,} of {len(paths):,} images", flush=True)
    return np.concatenate(rows)


def main() -> None:
    from transformers import BitImageProcessor, Dinov2Model

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with style/ and flickr8k/")
    parser.add_argument("--model", type=Path, required=True, help="DINOv2-S as parts.py writes it")
    parser.add_argument("--out", type=Path, default=Path("gpu/grid.npz"))
    args = parser.parse_args()
    lines = (args.data / "style" / "flickrstyle.jsonl").read_text(encoding="utf-8").splitlines()
    ids = sorted({json.loads(line)["id"] for line in lines})
    paths = [args.data / "flickr8k" / "images" / f"{Path(key).stem}.webp" for key in ids]
    model = Dinov2Model.from_pretrained(args.model).eval()
    features, scale = compress(encode(model, BitImageProcessor.from_pretrained(args.model), paths))
    args.out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(args.out, ids=np.array(ids), features=features, scale=scale)
    print(f"{args.out}: {len(ids):,} images, {features.shape[1]} vectors each, {args.out.stat().st_size / 1e6:.0f} MB")


if __name__ == "__main__":
    main()
