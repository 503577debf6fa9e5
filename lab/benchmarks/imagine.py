"""How fast pictures are painted, and scored from a warm cache.

    PYTHONPATH=. python lab/benchmarks/imagine.py warm                        # 10,000 pairs from a warm cache
    PYTHONPATH=. python lab/benchmarks/imagine.py speed                       # on a GPU: Stable Diffusion 1's shapes
    PYTHONPATH=. python lab/benchmarks/imagine.py speed --tiny --device cpu   # the same code on a toy

`speed` has random weights. What ImaginE shows is in lab/reproductions/imagine.py.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from imagine_speed import PICTURES, SEEDS, speed
from measure import table

from captious import CaptionSet
from captious.metrics.imagine import compare_pictures
from captious.models.encoder import Tokens
from captious.models.features import text_features
from captious.models.painters import Prompt, hash_prompt
from captious.models.segments import FeatureSpace, as_keys
from captious.models.store import close_stores, open_store
from captious.options import Runtime, using


class _Stored:
    """Painter and encoder of CLIP ViT-B/32's width whose vectors are random and already stored; painting fails."""

    name, fingerprint, settings, shape, kept = "stored", "feedfeedfeed", "size=512", (512, 512, 3), True
    precision, dimension, limit = "fp32", 512, 77

    def exceeds_limit(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        return np.zeros(len(texts), np.bool_)

    def tokenize(self, texts: Sequence[str]) -> Tokens:
        return Tokens(np.zeros((len(texts), 2), np.int64), np.full(len(texts), 2))

    def text_features(self, ids: npt.NDArray[np.int64]) -> npt.NDArray[np.float32]:
        return np.random.default_rng(0).normal(size=(len(ids), self.dimension)).astype(np.float32)

    def paint(self, prompts: Sequence[Prompt]) -> None:
        raise AssertionError("a warm cache paints nothing")


def warm(pairs: int) -> None:
    """Scoring pairs of different texts from vectors on disk: nothing is painted, encoded or kept in memory."""
    texts = [f"text number {number}" for number in range(2 * pairs)]
    captions = CaptionSet.of(
        dict(enumerate(texts[:pairs])), {place: [text] for place, text in enumerate(texts[pairs:])}
    )
    stored: Any = _Stored()
    store = open_store(
        FeatureSpace(stored.name, stored.fingerprint, f"painted-{stored.fingerprint}", (stored.dimension,))
    )
    rng, seeds = np.random.default_rng(1), tuple(range(SEEDS))
    keys = as_keys(hash_prompt(Prompt(text, seed)) for text in texts for seed in seeds)
    rows = rng.normal(size=(len(keys), stored.dimension)).astype(np.float32)
    store.put(keys, rows / np.linalg.norm(rows, axis=1, keepdims=True))
    store.settle()
    text_features(stored, texts)
    times = []
    for kind in ("image", "text&image"):
        close_stores()
        start = time.perf_counter()
        found = compare_pictures(captions, captions.references, stored, stored, kind, (seeds, seeds))
        times.append([kind, f"{time.perf_counter() - start:.2f} s"])
        assert not np.isnan(found.values).any()
    print(f"{pairs:,} pairs of different texts, {SEEDS} seeds, {stored.dimension} numbers each, {os.cpu_count()} cores")
    print(table([["kind", "time"], *times]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("warm", "speed"))
    parser.add_argument("--pairs", type=int, default=10_000)
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--texts", type=int, default=64)
    parser.add_argument("--steps", type=int, default=50)
    parser.add_argument("--ways", default="", help=f"of speed, such as batch,compiled; there are {', '.join(PICTURES)}")
    options = parser.parse_args()
    if "CAPTIOUS_HOME" not in os.environ:
        os.environ["CAPTIOUS_HOME"] = tempfile.mkdtemp()
    if options.what == "speed":
        speed(options.device, options.tiny, options.texts, options.steps, options.ways)
        return
    with using(Runtime(device="cpu", log=print)):
        warm(options.pairs)


if __name__ == "__main__":
    main()
