"""A cache filled by an encoder that costs nothing, and a fresh process that scores from it."""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from encoder_parts import timed
from PIL import Image

from captious.models.encoder import Tokens
from captious.models.features import cosines, image_features, text_features
from captious.options import Runtime, using


class Numbers:
    """An encoder that costs nothing, to fill a cache."""

    name, fingerprint, precision, dimension, limit = "numbers", "0123456789ab", "fp32", 512, 77

    def prepare(self, picture: Any) -> np.ndarray:
        return np.asarray(picture.convert("RGB"))

    def tokenize(self, texts: list[str]) -> Tokens:
        return Tokens(np.array([[hash(text) % 9973] for text in texts]), np.full(len(texts), 12))

    def image_features(self, pixels: np.ndarray) -> np.ndarray:
        return np.random.default_rng(0).normal(size=(len(pixels), 512)).astype(np.float32)

    def text_features(self, ids: np.ndarray) -> np.ndarray:
        return np.random.default_rng(int(ids[0, 0])).normal(size=(len(ids), 512)).astype(np.float32)


def pairs(folder: str, number: int, images: int) -> tuple[list[str], list[str]]:
    paths = [f"{folder}/images/{place}.png" for place in range(images)]
    texts = [f"a caption of some ten words with the number {place} in it" for place in range(number)]
    return [paths[place % images] for place in range(number)], texts


def warm(args: argparse.Namespace) -> None:
    """Fill a cache, then score from it in a fresh process."""
    if args.folder:
        warm_run(args)
        return
    with tempfile.TemporaryDirectory() as folder:
        environment = {**os.environ, "CAPTIOUS_HOME": f"{folder}/home"}
        os.environ["CAPTIOUS_HOME"] = f"{folder}/home"
        Path(folder, "images").mkdir()
        small = Path(folder, "small.png")
        Image.new("RGB", (2, 2)).save(small)
        content = small.read_bytes()
        paths, texts = pairs(folder, args.pairs, args.images)
        for place, path in enumerate(dict.fromkeys(paths)):
            Path(path).write_bytes(content + place.to_bytes(8, "little"))
        time.sleep(3)  # files that changed a moment ago are not remembered
        times: dict[str, float] = {}
        with using(Runtime(batch=4096)), timed(times, "fill"):
            image_features(Numbers(), paths)
            text_features(Numbers(), texts)
        size = sum(path.stat().st_size for path in Path(folder, "home").rglob("*.arrow")) / 1e9
        print(
            f"{args.pairs:,} captions and {args.images:,} images put in {times['fill']:.0f} s, {size:.2f} GB",
            flush=True,
        )
        command = [sys.executable, str(Path(__file__).with_name("encoders.py")), "warm", "--folder", folder]
        command += ["--pairs", str(args.pairs), "--images", str(args.images)]
        subprocess.run(command, env=environment, check=True)


def warm_run(args: argparse.Namespace) -> None:
    import resource

    paths, texts = pairs(args.folder, args.pairs, args.images)
    times: dict[str, float] = {}
    work: dict[str, float] = {}
    network = Numbers()
    network.image_features = network.text_features = None  # type: ignore[method-assign,assignment]
    with timed(times, "all", work), using(Runtime()):
        with timed(times, "images: state of files, keys, rows", work):
            images = image_features(network, paths)
        with timed(times, "texts: keys, rows", work):
            words = text_features(network, texts)
        with timed(times, "cosines", work):
            values = cosines(images, words)
    assert np.isfinite(values).all() and len(values) == args.pairs
    cores, load = len(os.sched_getaffinity(0)), os.getloadavg()[0]
    print(f"\n| {args.pairs:,} pairs from a warm cache, {cores} cores, load {load:.0f} | s | CPU s |\n|---|---|---|")
    for what, seconds in times.items():
        print(f"| {what} | {seconds:.2f} | {work[what]:.2f} |")
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6:.1f} GB")
