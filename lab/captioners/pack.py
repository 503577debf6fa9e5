"""FlickrStyle in one small file that travels to a GPU: captions, splits and image features.

    python -m lab.captioners.pack --data ../shared/data --out gpu/flickrstyle.npz                       # 2 vectors
    python -m lab.captioners.pack --data ../shared/data --grid gpu/grid.npz --out gpu/flickrstyle.npz   # 17 vectors

Without ``--grid`` an image has two vectors, the shared features' CLS token and mean patch. That leaves an attention
next to nothing to choose from; ``grid.py`` computes a grid.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from pathlib import Path

import numpy as np
import numpy.typing as npt

STYLES = ("humorous", "romantic")
SPLITS = ("train", "validation", "test")
# Of a DINOv2-S vector.
WIDTH = 384


def split_of(key: str) -> str:
    """The split of an image, by a hash of its id: a seventh to test on, a tenth of the rest to validate, as the paper.

    >>> [split_of(key) for key in ("1007320043_627395c3d8.jpg", "1009434119_febe49276a.jpg")]
    ['train', 'train']
    """
    share = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big") / 2**32
    return "test" if share < 1 / 7 else "validation" if share < 1 / 7 + 6 / 70 else "train"


def read_captions(data: Path) -> dict[str, dict[str, str]]:
    """The caption of each style, by image; images are sorted by id."""
    lines = (data / "style" / "flickrstyle.jsonl").read_text(encoding="utf-8").splitlines()
    captions: dict[str, dict[str, str]] = {}
    for row in map(json.loads, lines):
        captions.setdefault(row["id"], {})[row["style"]] = row["caption"]
    return dict(sorted(captions.items()))


def read_features(path: Path, ids: list[str]) -> npt.NDArray[np.float16]:
    """Vectors of each image, from the shared features or a grid: both are int8 with the scale of each dimension."""
    with np.load(path) as stored:
        row = {str(key): index for index, key in enumerate(stored["ids"])}
        features = stored["features"][[row[key] for key in ids]] * stored["scale"]
    return features.reshape(len(ids), -1, WIDTH).astype(np.float16)


def pack(data: Path, out: Path, grid: Path | None = None, images: int = 0) -> None:
    """Write the file, of all images or of the first ones."""
    captions = read_captions(data)
    ids = list(captions)[: images or None]
    features = read_features(grid or data / "flickr8k" / "dinov2_small.npz", ids)
    # A grid travels as int8, which it was made of; float16 would double it.
    scale = np.abs(features.reshape(-1, WIDTH)).max(axis=0).astype(np.float32) / 127
    stored = {"features": features} if grid is None else {"features": np.rint(features / scale).astype(np.int8)}
    texts = json.dumps([{"id": key, "split": split_of(key), **captions[key]} for key in ids]).encode()
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, **stored, scale=scale if grid else np.ones(WIDTH), rows=np.frombuffer(texts, np.uint8))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with style/ and flickr8k/")
    parser.add_argument("--grid", type=Path, help="features by place, as grid.py writes them")
    parser.add_argument("--images", type=int, default=0, help="only the first so many images")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    pack(args.data, args.out, args.grid, args.images)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
