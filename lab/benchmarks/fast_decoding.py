"""How far `decode=fast` moves scores of photographs: exact and fast decoding, the same encoder, the same captions.

    python lab/benchmarks/fast_decoding.py pack --model photographs/locked --flickr DATA/flickr8k --out pack/
    python lab/benchmarks/fast_decoding.py compare --pack pack/          # on a GPU

``pack`` needs an encoder of `lab/reproductions/photographs.py`. It writes the image tower with eight bits a weight,
vectors of captions, and photographs of Flickr8k's test split as JPEG files; a GPU machine needs nothing else.
``compare`` scores each photograph with its own captions and with those of another one.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
from PIL import Image
from safetensors.numpy import load_file, save_file
from scipy.stats import kendalltau, spearmanr

from captious.models.dual import load_dual
from captious.models.features import image_features, text_features
from captious.options import Runtime, using

WEIGHTS = "vision/model.safetensors"


def pack(args: argparse.Namespace) -> None:
    """Write the encoder without its text tower, the vectors of captions, and the photographs."""
    from transformers import BertConfig, BertModel

    encoder = load_dual(args.model, runtime=Runtime(device="cpu"))
    rows = [json.loads(line) for line in (args.flickr / "captions.jsonl").read_text(encoding="utf-8").splitlines()]
    test = set((args.flickr / "test_ids.txt").read_text().split())
    chosen = [row for row in rows if row["id"] in test][: args.images]
    (args.out / "images").mkdir(parents=True)
    for row in chosen:
        name = Path(row["id"]).stem
        Image.open(args.flickr / "images" / f"{name}.webp").convert("RGB").save(
            args.out / "images" / f"{name}.jpg", quality=90
        )
    with using(Runtime(device="cpu", cache=False)):
        texts = text_features(encoder, [text for row in chosen for text in row["references"]])
    names = [Path(row["id"]).stem for row in chosen]
    vectors = texts.rows[texts.index].reshape(len(chosen), -1, encoder.dimension)
    np.savez(args.out / "texts.npz", names=names, vectors=vectors.astype(np.float16))
    small = BertConfig(hidden_size=384, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=8)
    encoder.module.text_model = BertModel(small, add_pooling_layer=False)
    encoder.module.half()
    encoder.save(args.out / "encoder")
    weights = args.out / "encoder" / WEIGHTS
    np.savez_compressed(args.out / "vision.npz", **dict(in_bytes(load_file(weights))))
    weights.unlink()


def in_bytes(tensors: dict[str, np.ndarray]) -> Iterator[tuple[str, np.ndarray]]:
    """Weights as whole numbers up to 127, and what to multiply each row with."""
    for name, tensor in tensors.items():
        rows = tensor.astype(np.float32).reshape(len(tensor), -1)
        scale = np.maximum(np.abs(rows).max(axis=1, keepdims=True), 1e-8) / 127
        yield name, np.round(rows / scale).astype(np.int8).reshape(tensor.shape)
        yield f"{name}/scale", scale


def unpack(folder: Path) -> None:
    """Write the weights of the image tower where the encoder's folder lacks them."""
    with np.load(folder / "vision.npz") as stored:
        tensors = {
            name: (stored[name].reshape(len(stored[name]), -1) * stored[f"{name}/scale"]).reshape(stored[name].shape)
            for name in stored.files
            if not name.endswith("/scale")
        }
    save_file({name: tensor.astype(np.float32) for name, tensor in tensors.items()}, folder / "encoder" / WEIGHTS)


def compare(args: argparse.Namespace) -> None:
    """Print the largest and the mean change of a score, and the correlations of ranks."""
    unpack(args.pack)
    encoder = load_dual(args.pack / "encoder", runtime=Runtime(device=args.device))
    with np.load(args.pack / "texts.npz") as stored:
        names, vectors = stored["names"].tolist(), stored["vectors"].astype(np.float32)
    paths = [str(args.pack / "images" / f"{name}.jpg") for name in names]
    captions = np.concatenate([vectors, np.roll(vectors, 1, axis=0)], axis=1)  # five of its own, five of another
    scores = {}
    for decode in ("exact", "fast"):
        with using(Runtime(device=args.device, cache=False, decode=decode)):
            images = image_features(encoder, paths)
        assert not images.faults
        rows = images.rows[images.index]
        scores[decode] = 2.5 * np.clip(np.einsum("nkd,nd->nk", captions, rows), 0, None)
    exact, fast = scores["exact"], scores["fast"]
    change = np.abs(fast - exact)
    own, other = exact[:, : exact.shape[1] // 2].mean(), exact[:, exact.shape[1] // 2 :].mean()
    print(f"{len(names)} photographs, {exact.size:,} scores: {own:.3f} own captions, {other:.3f} those of another")
    print(f"change of a score: largest {change.max():.1e}, mean {change.mean():.1e}; of the mean score ", end="")
    print(f"{abs(fast.mean() - exact.mean()):.1e}")
    rho, tau = spearmanr(exact, fast, axis=None).statistic, kendalltau(exact, fast).statistic
    print(f"rank correlation: Spearman {rho:.6f}, Kendall {tau:.5f}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    packing = commands.add_parser("pack")
    packing.add_argument("--model", type=Path, required=True)
    packing.add_argument("--flickr", type=Path, required=True)
    packing.add_argument("--images", type=int, default=1000)
    packing.add_argument("--out", type=Path, required=True)
    packing.set_defaults(run=pack)
    comparing = commands.add_parser("compare")
    comparing.add_argument("--pack", type=Path, required=True)
    comparing.add_argument("--device", default="cuda")
    comparing.set_defaults(run=compare)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
