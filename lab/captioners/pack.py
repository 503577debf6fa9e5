"""FlickrStyle in one small file that travels to a GPU: captions, splits, neighbours and image features.

    python -m lab.captioners.pack --data ../shared/data --grid grid.npz --out flickrstyle.npz   # 49 regions
    python -m lab.captioners.pack --data ../shared/data --out flickrstyle.npz                   # 2 vectors

Each image has a pooled vector (DINOv2-S: CLS token and mean patch, from the shared features) and the regions that
``grid.py`` computes. Without ``--grid`` its regions are the two halves of the pooled vector. That leaves an attention
next to nothing to choose from.

The paper's dense captions come from DenseCap, whose weights are not at hand. Here an image borrows five captions: one
factual caption of Flickr8k from each of its five nearest training images, by the pooled vectors, never its own.

Features are stored as rounded principal components over places and channels, as JPEG stores pixels: the 49 regions of
7,000 images take 5 MB in place of 263.
"""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

STYLES = ("humorous", "romantic")
SPLITS = ("train", "validation", "test")
# Dimensions of a DINOv2-S vector.
WIDTH = 384
# Captions that an image borrows from its neighbours.
DENSE = 5
# Principal components of the pooled vectors that neighbours are found by.
WHITE = 256
# Unit in which principal components are rounded, as a share of the features' standard deviation.
STEP = 1.6

Floats32 = npt.NDArray[np.float32]


def split_of(key: str) -> str:
    """Return the split of an image, by a hash of its id: a seventh to test on, a tenth of the rest to validate.

    >>> [split_of(key) for key in ("1007320043_627395c3d8.jpg", "1009434119_febe49276a.jpg")]
    ['train', 'train']
    """
    share = int.from_bytes(hashlib.blake2b(key.encode(), digest_size=4).digest(), "big") / 2**32
    return "test" if share < 1 / 7 else "validation" if share < 1 / 7 + 6 / 70 else "train"


def read_captions(data: Path) -> dict[str, dict[str, str]]:
    """Return the caption of each style, by image; images are sorted by id."""
    lines = (data / "style" / "flickrstyle.jsonl").read_text(encoding="utf-8").splitlines()
    captions: dict[str, dict[str, str]] = {}
    for row in map(json.loads, lines):
        captions.setdefault(row["id"], {})[row["style"]] = row["caption"]
    return dict(sorted(captions.items()))


def read_factual(data: Path) -> dict[str, list[str]]:
    """Return the five factual captions of Flickr8k, by image."""
    lines = (data / "flickr8k" / "captions.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["id"]: row["references"] for row in map(json.loads, lines)}


def read_features(path: Path, ids: list[str]) -> Floats32:
    """Return the vectors of each image, from the shared features or a grid: int8 with the scale of each dimension."""
    with np.load(path) as stored:
        row = {str(key): index for index, key in enumerate(stored["ids"])}
        features = stored["features"][[row[key] for key in ids]] * stored["scale"].astype(np.float32)
    return features.reshape(len(ids), -1, WIDTH).astype(np.float32)


def find_neighbours(pooled: Floats32, training: npt.NDArray[np.intp]) -> npt.NDArray[np.intp]:
    """Return the nearest training images of each image by the cosine of their vectors, itself left out.

    >>> find_neighbours(np.array([[1.0, 0.0], [0.9, 0.1], [0.0, 1.0], [0.1, 1.0]]), np.array([0, 1, 2]))[[0, 3], :2]
    array([[1, 2],
           [2, 1]])
    """
    units = pooled / np.linalg.norm(pooled, axis=1, keepdims=True)
    cosines = units @ units[training].T
    cosines[training, np.arange(len(training))] = -np.inf
    return training[np.argsort(-cosines, axis=1, kind="stable")[:, :DENSE]]


def whiten(pooled: Floats32, training: npt.NDArray[np.intp]) -> Floats32:
    """Return the principal components of vectors over training images, each with a variance of 1.

    Unlike the vectors' own cosines, which follow a few large dimensions, theirs find images with similar captions.
    """
    centered = pooled - pooled[training].mean(axis=0)
    values, vectors = np.linalg.eigh(np.cov(centered[training].T))
    kept = min(WHITE, len(training) // 8)
    whitened: Floats32 = (centered @ vectors[:, -kept:] / np.sqrt(values[-kept:])).astype(np.float32)
    return whitened


def compress(features: Floats32, step: float = STEP) -> dict[str, npt.NDArray[Any]]:
    """Return rounded principal components of features (images × places × channels), with what restores them.

    Components over places and over channels are found apart. One that varies by less than half of a step is left out.
    """
    mean = features.mean(axis=0)
    centered = features - mean
    places = _find_components(np.einsum("nic,njc->ij", centered, centered, optimize=True))
    channels = _find_components(np.einsum("nic,nid->cd", centered, centered, optimize=True))
    components = (places.T @ centered @ channels).reshape(len(features), -1)
    unit = step * float(centered.std())
    kept = np.flatnonzero(components.std(axis=0) > unit / 2)
    return {
        # One component after the other: neighbouring numbers are alike, and the file becomes smaller.
        "components": np.rint(components[:, kept].T / unit).clip(-32767, 32767).astype(np.int16),
        "kept": kept,
        "unit": np.array(unit),
        "mean": mean.astype(np.float16),
        "places": places.astype(np.float16),
        # Channels after the last one that is kept are never used.
        "channels": channels[:, : (kept % mean.shape[1]).max() + 1].astype(np.float16),
    }


def _find_components(covariance: Floats32) -> Floats32:
    return np.ascontiguousarray(np.linalg.eigh(covariance.astype(np.float64))[1][:, ::-1], dtype=np.float32)


def restore(stored: Mapping[str, npt.NDArray[Any]], prefix: str) -> Floats32:
    """Return the features that `compress` stored."""
    part = {name[len(prefix) :]: stored[name] for name in stored if name.startswith(prefix)}
    places, channels = (part[name].astype(np.float32) for name in ("places", "channels"))
    place, channel = np.divmod(part["kept"], part["mean"].shape[1])
    components = np.zeros((part["components"].shape[1], len(places), channels.shape[1]), dtype=np.float32)
    components[:, place, channel] = part["components"].T * np.float32(part["unit"])
    return places @ components @ channels.T + part["mean"].astype(np.float32)


def pack(data: Path, out: Path, grid: Path | None = None, images: int = 0, step: float = STEP) -> None:
    """Write the file, of all images or of the first ones, and print how much of the features it keeps."""
    captions, factual = read_captions(data), read_factual(data)
    ids = list(captions)[: images or None]
    pooled = read_features(data / "flickr8k" / "dinov2_small.npz", ids)
    # The first vector of a grid is the CLS token, which the pooled vector has at more pixels.
    regions = read_features(grid, ids)[:, 1:] if grid else pooled
    splits = [split_of(key) for key in ids]
    training = np.flatnonzero(np.array(splits) == "train")
    neighbours = find_neighbours(whiten(pooled.reshape(len(ids), -1), training), training)
    rows = [
        {"id": key, "split": split, **captions[key], "neighbours": near.tolist()}
        # Only training images lend captions; those of a test image never travel.
        | ({"factual": factual[key]} if split == "train" else {})
        for key, split, near in zip(ids, splits, neighbours, strict=True)
    ]
    stored: dict[str, npt.NDArray[Any]] = {"rows": np.frombuffer(json.dumps(rows).encode(), np.uint8)}
    # One pooled vector is small enough to be rounded less.
    for name, features, unit in (("regions_", regions, step), ("pooled_", pooled.reshape(len(ids), 1, -1), step / 2)):
        part = {name + key: value for key, value in compress(features, unit).items()}
        error = np.square(restore(part, name) - features).mean() / np.square(features - features.mean(axis=0)).mean()
        print(f"{name[:-1]}: {1 - error:.0%} of the variance in {len(part[name + 'kept'])} components")
        stored |= part
    out.parent.mkdir(parents=True, exist_ok=True)
    np.savez_compressed(out, allow_pickle=False, **stored)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, required=True, help="folder with style/ and flickr8k/")
    parser.add_argument("--grid", type=Path, help="features by place, as grid.py writes them")
    parser.add_argument("--images", type=int, default=0, help="only the first so many images")
    parser.add_argument("--step", type=float, default=STEP, help="rounding, as a share of the standard deviation")
    parser.add_argument("--out", type=Path, required=True)
    args = parser.parse_args()
    pack(args.data, args.out, args.grid, args.images, args.step)
    print(f"{args.out}: {args.out.stat().st_size / 1e6:.1f} MB")


if __name__ == "__main__":
    main()
