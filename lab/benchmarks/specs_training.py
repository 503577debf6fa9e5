"""Samples per second of specificity training, against a straightforward implementation with the same batch.

The straightforward one calls ``model(image, text)`` for the full, base, positive and negative caption, each padded to
the limit, as published training code does; its batches lie ready on the device, which favors it. Ours is the real
loop with all that belongs to it: laying out batches in threads, log, schedule. Random weights, the shape of ViT-B/32
with 248 tokens; captions as long as ShareGPT4V's (143 tokens on average).
"""

from __future__ import annotations

import argparse
import copy
import statistics
import tempfile
import time
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from captious.models._model_tokenizers import read_tokenizer
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import wrap
from captious.models.mini import WordTokenizer
from captious.options import Runtime
from captious.train import _packing as packing
from captious.train._contrast import contrast as contrast_loss
from captious.train._data import Example, tokenize_texts
from captious.train._loop import Trainer
from captious.train._schedule import EpochPlan
from captious.train._specs import Margin, NegativeUnits, SpecsObjective, build_chains
from captious.train._towers import Towers, normalize
from captious.train.training_options import Settings

LIMIT = 248
B32 = {"hidden_size": 512, "intermediate_size": 2048, "num_attention_heads": 8, "num_hidden_layers": 12}
VISION = {"hidden_size": 768, "intermediate_size": 3072, "num_attention_heads": 12, "num_hidden_layers": 12}
SMALL = {"hidden_size": 64, "intermediate_size": 128, "num_attention_heads": 4, "num_hidden_layers": 2}


def captions(count: int, seed: int = 0) -> list[tuple[str, ...]]:
    """Units of five to twelve words; captions of 143 ± 45 words."""
    rng = np.random.default_rng(seed)
    made = []
    for _ in range(count):
        left = int(np.clip(rng.normal(143, 45), 30, LIMIT - 2))
        units = []
        while left > 0:
            size = min(left, int(rng.integers(5, 13)))
            units.append(" ".join(f"w{word}" for word in rng.integers(0, 4000, size)))
            left -= size
        made.append(tuple(units))
    return made


def encoder_of(units: list[tuple[str, ...]], device: str, small: bool) -> Any:
    from transformers import CLIPConfig, CLIPModel

    with tempfile.TemporaryDirectory() as folder:
        WordTokenizer.from_texts((" ".join(one) for one in units), LIMIT).save(Path(folder))
        tokenizer = read_tokenizer(Path(folder), LIMIT)
    side = 64 if small else 224
    frame = {"eos_token_id": tokenizer.end, "bos_token_id": tokenizer.start, "pad_token_id": tokenizer.pad}
    text = {**(SMALL if small else B32), **frame, "vocab_size": 49408, "max_position_embeddings": LIMIT}
    vision = {**(SMALL if small else VISION), "image_size": side, "patch_size": 32}
    config = CLIPConfig(text_config=text, vision_config=vision, projection_dim=512, logit_scale_init_value=4.6052)
    torch.manual_seed(0)
    return wrap(CLIPModel(config), tokenizer, ImagePreprocessing(size=side, crop=side), "random", device, "fp32")


class Noise:
    """Images of random pixels in memory."""

    def __init__(self, count: int, side: int) -> None:
        self.held = np.random.default_rng(1).integers(0, 256, (count, side, side, 3), dtype=np.uint8)

    def pixels(self, rows: np.ndarray) -> np.ndarray:
        return self.held[rows]


def objective_of(count: int, device: str, small: bool) -> SpecsObjective:
    units = captions(count)
    encoder = encoder_of(units, device, small)
    examples = [Example(str(n), Path(str(n)), (" ".join(one),), one) for n, one in enumerate(units)]
    found, rows = build_chains(examples, np.arange(count), NegativeUnits(), encoder)
    assert len(rows) == count
    full = tokenize_texts(encoder, [one.captions[0] for one in examples])
    return SpecsObjective(Towers(encoder, Noise(count, encoder.preparation.crop), ()), full, found)


def ready(objective: SpecsObjective, rows: np.ndarray, epoch: int) -> tuple[Any, list[Any]]:
    """A batch for the straightforward loop: normalized images, and four blocks of ids padded to the limit."""
    frame, encoder = objective.towers.frame, objective.towers.encoder
    triplets = objective.chains.make_triplets(rows, objective.chains.steps(rows, epoch), epoch)
    texts = [
        (frame.around(objective.full[row]), positive, base, negative)
        for row, (base, positive, negative) in zip(rows.tolist(), triplets, strict=True)
    ]
    blocks = []
    for number in range(4):
        table = np.full((len(rows), LIMIT), frame.pad, dtype=np.int64)
        for row, group in zip(table, texts, strict=True):
            row[: len(group[number])] = group[number]
        blocks.append(torch.from_numpy(table).to(encoder.device))
    return encoder.pixels_to_tensor(objective.towers.image_set.pixels(rows)), blocks


def pooled(found: Any) -> Any:
    return getattr(found, "pooler_output", found)


def plain_loss(model: Any, margin: Margin, images: Any, blocks: list[Any], once: bool) -> Any:
    """The published objective the plain way; ``once`` at least encodes the image once and the texts together."""
    if once:
        image = normalize(pooled(model.get_image_features(images)))
        texts = normalize(pooled(model.get_text_features(torch.cat(blocks)))).chunk(4)
        pairs = [(image, text) for text in texts]
    else:
        found = [model(pixel_values=images, input_ids=ids) for ids in blocks]
        pairs = [(normalize(one.image_embeds), normalize(one.text_embeds)) for one in found]
    scale = model.logit_scale.exp()
    contrast = contrast_loss(*pairs[0], scale, both=False)
    positive, base, negative = (scale * (image * text).sum(-1) for image, text in pairs[1:])
    first, second = margin.compute_hinges(base, positive, negative)
    return contrast + 8 * first + 0.8 * second


def plain(
    objective: SpecsObjective, batch: int, accumulate: int, steps: int, precision: Any, once: bool
) -> list[float]:
    """Seconds of each optimizer step of the straightforward loop."""
    encoder = objective.towers.encoder
    model, margin = encoder.module.train(), Margin()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=1e-2)
    count = len(objective) // batch
    batches = [ready(objective, np.arange(at * batch, (at + 1) * batch), 0) for at in range(min(count, 8))]
    taken = []
    for step in range(steps):
        _wait(encoder.device)
        start = time.perf_counter()
        for number in range(accumulate):
            images, blocks = batches[(step * accumulate + number) % len(batches)]
            with torch.autocast(encoder.device.type, dtype=precision, enabled=precision is not None):
                loss = plain_loss(model, margin, images, blocks, once) / accumulate
            loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        _wait(encoder.device)
        taken.append(time.perf_counter() - start)
    return taken


class Step:
    """What the loop asks of ``accelerate.Accelerator``, for one process, so that the step is timed without it."""

    def __init__(self, device: str, precision: Any) -> None:
        self.device, self.precision = device, precision

    def prepare_model(self, module: Any, device_placement: bool) -> Any:
        forward = module.forward

        def mixed(batch: Any) -> Any:
            with torch.autocast(self.device, dtype=self.precision, enabled=self.precision is not None):
                return forward(batch)

        module.forward = mixed
        return module

    def prepare_optimizer(self, optimizer: Any, device_placement: bool) -> Any:
        return optimizer

    def no_sync(self, module: Any) -> Any:
        return nullcontext()

    def backward(self, loss: Any) -> None:
        loss.backward()

    def clip_grad_norm_(self, parameters: list[Any], most: float) -> Any:
        return torch.nn.utils.clip_grad_norm_(parameters, most)


def ours(
    objective: SpecsObjective, batch: int, accumulate: int, steps: int, precision: Any, together: int
) -> list[float]:
    """Seconds of each optimizer step of the real loop; ``together`` of its batches are encoded at once."""
    stamps: list[float] = []
    objective.towers.encoder.module.zero_grad(set_to_none=True)

    def stamp(what: str, done: int, total: int) -> None:
        _wait(objective.towers.encoder.device)
        stamps.append(time.perf_counter())

    each = len(objective) // batch // accumulate
    epochs = -(-steps // each)
    settings = Settings(epochs, batch, accumulate, 1e-5, save_every=10**9, together=together)
    with tempfile.TemporaryDirectory() as folder:
        plan, step = EpochPlan(len(objective), batch, accumulate, epochs), Step(objective.model.device.type, precision)
        trainer = Trainer(objective, settings, plan, Path(folder), step, Runtime(progress=stamp))
        trainer._save = lambda: None  # type: ignore[method-assign]
        trainer.run()
    return np.diff(stamps)[:steps].tolist()


def agreement(objective: SpecsObjective, batch: int) -> float:
    """Largest difference of a loss, and of any gradient relative to its largest, in full precision."""
    model, rows = objective.towers.encoder.module, np.arange(batch)
    torch.backends.cuda.matmul.allow_tf32 = False
    found = []
    for kind in ("ours", "plain"):
        model.zero_grad()
        objective.margin = Margin()
        if kind == "ours":
            loss = objective.parts(objective.batch(rows, 0))["loss"]
        else:
            loss = plain_loss(model, Margin(), *ready(objective, rows, 0), once=False)
        loss.backward()
        found.append((loss.item(), {name: one.grad.clone() for name, one in model.named_parameters()}))
    (one, slopes), (other, expected) = found
    names = [name for name in expected if not name.endswith("k_proj.bias")]  # zero but for rounding
    worst = max(float((slopes[name] - expected[name]).abs().max() / expected[name].abs().max()) for name in names)
    return max(abs(one - other), worst)


def arithmetic(objective: SpecsObjective, batch: int) -> tuple[float, float]:
    """GFLOPs a sample of the forward pass, straightforward and ours, counted without computing anything."""
    from torch.utils.flop_counter import FlopCounterMode

    model = copy.deepcopy(objective.towers.encoder.module).to("meta")
    packed = objective.batch(np.arange(batch), 0).texts.packed.to("meta")
    usual = packing._make_bias
    packing._make_bias = lambda seen, hidden: torch.empty(seen.shape, device="meta")
    side = objective.towers.encoder.preparation.crop
    try:
        with FlopCounterMode(display=False) as image:
            model.get_image_features(torch.empty(batch, 3, side, side, device="meta"))
        with FlopCounterMode(display=False) as tree:
            packing.encode_packed(model, packed)
        with FlopCounterMode(display=False) as text:
            model.get_text_features(torch.empty(batch, LIMIT, dtype=torch.long, device="meta"))
    finally:
        packing._make_bias = usual
    one, shared, whole = (counted.get_total_flops() / batch / 1e9 for counted in (image, tree, text))
    return 4 * (one + whole), one + shared


def _wait(device: Any) -> None:
    if device.type == "cuda":
        torch.cuda.synchronize()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    parser.add_argument("--batch", type=int, default=100)
    parser.add_argument("--accumulate", type=int, default=4)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--precision", default="bf16" if torch.cuda.is_available() else "fp32")
    parser.add_argument("--small", action="store_true", help="a tiny model, to try the script on a CPU")
    given = parser.parse_args()
    objective = objective_of(given.batch * given.accumulate * 2, given.device, given.small)
    numbers = {"fp32": None, "bf16": torch.bfloat16, "fp16": torch.float16}[given.precision]
    print(f"largest difference of loss and gradients, fp32, 8 samples: {agreement(objective, 8):.1e}")
    first, second = arithmetic(objective, given.batch)
    print(f"arithmetic of the forward pass: {first:.1f} GFLOPs a sample, ours {second:.1f}, ratio {first / second:.2f}")
    laid = time.perf_counter()
    objective.batch(np.arange(given.batch), 0)
    laid = time.perf_counter() - laid
    shape = (objective, given.batch, given.accumulate, given.steps)
    runs = {
        "model(image, text) four times, padded to 248": lambda: plain(*shape, numbers, False),
        "image once, four texts padded to 248": lambda: plain(*shape, numbers, True),
        "captious: image once, shared beginnings, packed": lambda: ours(*shape, numbers, 1),
        "captious, the batches of a step encoded at once": lambda: ours(*shape, numbers, given.accumulate),
    }
    rows: list[tuple[str, float, float]] = []
    on_gpu = given.device.startswith("cuda")
    for name, run in runs.items():
        if on_gpu:
            torch.cuda.reset_peak_memory_stats()
        taken = run()[2:]
        peak = torch.cuda.max_memory_allocated() / 2**30 if on_gpu else float("nan")
        rows.append((name, given.batch * given.accumulate / statistics.median(taken), peak))
    print(f"{torch.cuda.get_device_name() if on_gpu else 'CPU'}, torch {torch.__version__}, {given.precision}")
    print(
        f"batch {given.batch} x {given.accumulate}, {given.steps - 2} steps, laid out in {1000 * laid:.1f} ms a batch\n"
    )
    print("| | samples a second | ratio | peak GiB |\n|---|---:|---:|---:|")
    for name, speed, peak in rows:
        print(f"| {name} | {speed:,.0f} | {speed / rows[0][1]:.2f} | {peak:.1f} |")


if __name__ == "__main__":
    main()
