"""Image–text scoring: end to end against a plain loop, the encoder alone against a compiled forward, and a warm cache.

    python lab/benchmarks/encoders.py score [--items 10000]      # on a GPU; makes its own JPEG files
    python lab/benchmarks/encoders.py warm [--pairs 1000000]     # on a CPU

The model is of ViT-B/32's shape with random weights, the same for every row of a table. The plain loop does what
CLIPScore's reference does: one process, Pillow, batches of 64, texts padded to 77, the model in fp16 on a GPU.
"""

from __future__ import annotations

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from encoder_parts import captions, encoder, make_picture, model, plain, timed
from encoders_warm import warm

from captious.models import decoding, pipeline
from captious.models import store as stores
from captious.models._gpu.resizing import DecodeOnly
from captious.models.features import cosines, image_features, text_features
from captious.models.pipeline import OomBackoff, image_start, text_start
from captious.options import Runtime, using


def ours(network: Any, paths: list[str], texts: list[str]) -> np.ndarray:
    return 2.5 * np.clip(cosines(image_features(network, paths), text_features(network, texts)), 0, None)


def score(args: argparse.Namespace) -> None:
    import torch

    device = "cuda" if torch.cuda.is_available() else "cpu"
    cores = len(os.sched_getaffinity(0))
    print(f"torch {torch.__version__}, {torch.cuda.get_device_name() if device == 'cuda' else 'cpu'}, {cores} cores")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["CAPTIOUS_HOME"] = f"{folder}/home"
        times: dict[str, float] = {}
        with timed(times, "make"), ProcessPoolExecutor() as pool:
            tasks = [(seed, f"{folder}/{seed}.jpg") for seed in range(args.items)]
            paths = list(pool.map(make_picture, tasks, chunksize=50))
        size = sum(Path(path).stat().st_size for path in paths) / len(paths) / 1000
        print(f"{args.items} JPEG files of {size:.0f} kB on average, made in {times['make']:.0f} s", flush=True)
        texts = captions(args.items)
        network = encoder(device, "auto", args.tiny)
        with using(Runtime(cache=False, batch=args.batch)):  # warm the device up, outside every measurement
            image_features(network, paths[: 2 * args.batch])
            text_features(network, texts[: 2 * args.batch])
        stores.close_stores()
        end_to_end(args, network, paths, texts, device, cores)
        if device == "cuda" and not args.quick:
            alone(args)
            differences(args, paths[:1024], texts[:1024])


def end_to_end(
    args: argparse.Namespace, network: Any, paths: list[str], texts: list[str], device: str, cores: int
) -> None:
    times: dict[str, float] = {}
    with using(Runtime(batch=args.batch)):
        with timed(times, "captious, cold"):
            values = ours(network, paths, texts)
        with timed(times, "  of it, texts alone"):
            list(pipeline.text_batches(network, texts))
        stores.close_stores()
        with timed(times, "captious, from the cache"):
            again = ours(network, paths, texts)
        assert np.array_equal(values, again)
    if device == "cuda":
        with using(Runtime(batch=args.batch, decode="fast")):
            image_features(network, paths[: 2 * args.batch])  # the decoder takes a moment when first used
            with timed(times, "captious, cold, decode=fast"):
                fast = ours(network, paths, texts)
        print(f"decode=fast moves a score by at most {np.abs(fast - values).max():.1e}", flush=True)
    with using(Runtime(batch=args.batch)):
        by_cores = {
            (1, "decode and resize"): None,
            (cores, "decode and resize"): None,
            (cores, "decode"): DecodeOnly(network.preparation),
        }
        for (threads, what), preparation in by_cores.items():
            some = paths[: max(1, len(paths) // 16) * min(threads, 16)]
            ready = patch.object(decoding.DecodingProcess, "has_started", lambda self: True)  # wait for the start
            with ready, decoding.file_decoder(network, False, threads, preparation) as decode:
                runs = [some[at : at + pipeline.RUN] for at in range(0, len(some), pipeline.RUN)]
                list(pipeline.ahead(lambda run, f=decode: f(run, lambda key: False), runs[:threads], threads, 99))
                start = time.perf_counter()
                for _ in pipeline.ahead(lambda run, f=decode: f(run, decoding.always), runs, threads, 99):
                    pass
            speed = len(some) / (time.perf_counter() - start)
            print(f"{what} alone, {threads} cores: {speed:,.0f} images/s", flush=True)
    bare = model(args.tiny).to(device)
    bare = bare.half() if device == "cuda" else bare
    count = min(args.plain or args.items, args.items)
    plain(bare, network.tokenize, paths[:64], texts[:64], device)
    with timed(times, "plain loop"):
        expected = plain(bare, network.tokenize, paths[:count], texts[:count], device)
    times["plain loop"] *= args.items / count
    note = "" if count == args.items else f" (timed on {count:,}, scaled)"
    print(f"\n| {args.items:,} images and captions | s | times faster than the plain loop{note} |\n|---|---|---|")
    for what, seconds in times.items():
        print(f"| {what} | {seconds:.2f} | {times['plain loop'] / seconds:.1f} |")
    print(
        f"largest difference of a score from the plain loop's: {np.abs(values[:count] - expected).max():.1e}",
        flush=True,
    )


def rate(step: Callable[[int], Any], batch: int, steps: int) -> float:
    """Items per second, the device waited for at the end."""
    import torch

    for place in range(3):
        step(place)
    torch.cuda.synchronize()
    best = 0.0
    for _ in range(3):
        start = time.perf_counter()
        for place in range(steps):
            step(place)
        torch.cuda.synchronize()
        best = max(best, batch * steps / (time.perf_counter() - start))
    return best


def alone(args: argparse.Namespace) -> None:
    """Prepared images and token ids in host memory to vectors in host memory, against a forward on the device."""
    import torch

    network = encoder("cuda", "auto", args.tiny)
    bare = model(args.tiny).to("cuda", torch.bfloat16)
    chance = np.random.default_rng(2)
    batch = args.batch
    pixels = [list(chance.integers(0, 256, (batch, 224, 224, 3), dtype=np.uint8)) for _ in range(4)]
    tokens = [network.tokenize(captions(4 * batch)).ids for _ in range(4)]
    moved = [torch.randn(batch, 3, 224, 224, device="cuda", dtype=torch.bfloat16) for _ in range(4)]
    ids = [torch.from_numpy(part).cuda() for part in tokens]
    tables = {}
    with torch.inference_mode():
        for name, plain_step, size in (
            ("images", lambda place: bare.get_image_features(pixel_values=moved[place % 4]), batch),
            ("texts", lambda place: bare.get_text_features(input_ids=ids[place % 4]), 4 * batch),
        ):
            compiled = torch.compile(_step(bare, name), dynamic=False)
            source = moved if name == "images" else ids
            start = time.perf_counter()
            compiled(source[0])
            print(f"compiled for {name} in {time.perf_counter() - start:.0f} s", flush=True)
            fast = rate(lambda place, f=compiled, s=source: f(s[place % 4]), size, 40)
            eager = rate(plain_step, size, 40)
            begin, host = (image_start, pixels) if name == "images" else (text_start, tokens)
            full = rate(_pipelined(begin(network), host), size, 40)
            there = torch.from_numpy(np.stack(pixels[0])).cuda() if name == "images" else ids[0]
            device = rate(lambda place, t=there, n=name: _on_device(network, n, t), size, 40)
            tables[name] = (fast, eager, device, full)
    print(f"\n| encoder alone, batch {batch} | compiled bf16 | eager | captious | ratio | host to host | ratio |")
    print("|---|---|---|---|---|---|---|")
    tables["pairs"] = tuple(1 / sum(1 / row[place] for row in tables.values()) for place in range(4))
    for name, (fast, eager, device, full) in tables.items():
        first = f"| {name}/s | {fast:,.0f} | {eager:,.0f} | {device:,.0f} | {device / fast:.2f} "
        print(f"{first}| {full:,.0f} | {full / fast:.2f} |", flush=True)


def _on_device(network: Any, name: str, batch: Any) -> Any:
    if name == "images":
        return network.image_tensor(network.pixels_to_tensor(batch)).float()
    return network.text_tensor(batch).float()


def _step(bare: Any, name: str) -> Callable[[Any], Any]:
    if name == "images":
        return lambda pixels: bare.get_image_features(pixel_values=pixels)
    return lambda ids: bare.get_text_features(input_ids=ids)


def _pipelined(begin: Any, host: list[Any]) -> Callable[[int], None]:
    """Batches as the pipeline runs them: two in flight."""
    pace, waiting = OomBackoff(print), []

    def step(place: int) -> None:
        waiting.append(pace.start(begin, host[place % 4]))
        if len(waiting) > 2:
            waiting.pop(0)()

    return step


def differences(args: argparse.Namespace, paths: list[str], texts: list[str]) -> None:
    """How far reduced precision moves a score."""
    found = {}
    for precision in ("fp32", "fp16", "bf16"):
        network = encoder("cuda", precision, args.tiny)
        with using(Runtime(cache=False, batch=args.batch)):
            found[precision] = cosines(image_features(network, paths), text_features(network, texts))
    print("\n| precision | largest difference of a cosine from fp32 | mean |\n|---|---|---|")
    for precision in ("fp16", "bf16"):
        gaps = np.abs(found[precision] - found["fp32"])
        print(f"| {precision} | {gaps.max():.1e} | {gaps.mean():.1e} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = parser.add_subparsers(required=True)
    scoring = commands.add_parser("score")
    scoring.add_argument("--items", type=int, default=10_000)
    scoring.add_argument("--batch", type=int, default=256)
    scoring.add_argument("--plain", type=int, default=0, help="time the plain loop on so many items and scale")
    scoring.add_argument("--quick", action="store_true", help="end to end alone")
    scoring.add_argument("--tiny", action="store_true", help="one layer, for a try on a CPU")
    scoring.set_defaults(run=score)
    warming = commands.add_parser("warm")
    warming.add_argument("--pairs", type=int, default=1_000_000)
    warming.add_argument("--images", type=int, default=100_000)
    warming.add_argument("--folder", default="", help=argparse.SUPPRESS)
    warming.set_defaults(run=warm)
    args = parser.parse_args()
    args.run(args)


if __name__ == "__main__":
    main()
