"""UMIC's speed, two ratios: training from cached states against encoding anew, and scoring against CLIPScore.

    python lab/benchmarks/umic.py speed [--device cuda] [--encoder NAME]

Both sides of a ratio run in turn in one process. "Anew" is given its images decoded, resized and in memory, and its
captions tokenized: what is timed is the encoder, not the disk. `--encoder random-b32` makes a CLIP of ViT-B/32's size
with random weights, for machines that reach no hub.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from lab.toy import make, write
from measure import table

from captious import CaptionSet
from captious.io.images import open_image
from captious.metrics.clip.clipscore import ClipScore
from captious.metrics.umic import Umic
from captious.models.crossencoders import pad_ragged
from captious.models.fusion import Fusion, make_fusion
from captious.models.hidden_states import HiddenStates
from captious.options import Runtime, using
from captious.train._data import Example
from captious.train._loop import make_optimizer
from captious.train._umic import RankingObjective, compute_losses, prepare_corpus, sort_examples
from captious.train.training_options import UmicOptions

STEPS, ROUNDS = {"cuda": 20, "cpu": 2}, 3


def run(out: Path, encoder: str, device: str, items: int, batch: int) -> None:
    """Print both ratios."""
    sample = make(items, seed=3)
    folder = write(sample, out / "scenes")
    scenes = list(sample.scenes())
    paths = [folder / "images" / f"{scene.id}.png" for scene in scenes]
    said = [tuple(sample.references_of(scene)) for scene in scenes]
    if encoder == "random-b32":
        encoder = str(random_b32(out / "random-b32", [text for texts in said for text in texts]))
    with using(Runtime(device=device)):
        backbone = make_fusion(encoder)
        where = torch.cuda.get_device_name() if backbone.device.type == "cuda" else f"{torch.get_num_threads()} threads"
        size = sum(one.numel() for one in backbone.module.parameters())
        encodes = f"{backbone.encoder.name} in {backbone.encoder.precision}"
        print(f"{encodes} on {backbone.device} ({where}); a fusion of {size:,} parameters, {len(paths)} images\n")
        examples = [Example(str(scene.id), path, texts) for scene, path, texts in zip(scenes, paths, said, strict=True)]
        print(training(backbone, sort_examples(examples), batch))
        print("\n" + scoring(backbone, paths, [texts[0] for texts in said], encoder, out / "model"))


def training(backbone: Fusion, examples: list[Example], batch: int) -> str:
    """Samples (a caption with five negatives) a second, forward, backward and optimizer step."""
    made = prepare_corpus(examples, ("hard", "random", "substitute", "shuffle", "repeat"), 1, seed=0)
    pictures = backbone.pictures(made.paths)
    goal = RankingObjective(backbone, pictures, backbone.texts(made.texts, keep=False), made.table)
    encoder, inside = backbone.encoder, HiddenStates(backbone.encoder)
    pixels = np.stack([encoder.prepare(open_image(path)) for path in map(Path, made.paths)])
    tokens = encoder.tokenize(made.texts)
    counts = np.minimum(tokens.lengths, encoder.limit)
    rng = np.random.default_rng(0)
    batch = min(batch, len(goal))
    optimize = make_optimizer(backbone.module, replace(UmicOptions.published, lr=1e-5), backbone.device.type)

    def cached(rows: Any) -> Any:
        return goal.batch(rows, 0)

    def anew(rows: Any) -> Any:
        numbers, there = made.table.rows(rows, 0)
        with torch.no_grad():
            states, image = inside.encode_images(encoder.pixels_to_tensor(pixels[made.table.image[rows]]))
            longest = int(counts[numbers].max())
            ids = torch.from_numpy(tokens.ids[numbers.ravel(), :longest]).to(backbone.device)
            read, text = inside.encode_texts(ids)
        unit = torch.nn.functional.normalize
        _, mask = pad_ragged(np.zeros_like(counts), counts, numbers)
        texts = (
            read.unflatten(0, numbers.shape),
            torch.from_numpy(mask).to(backbone.device),
            unit(text.float(), dim=-1).unflatten(0, numbers.shape),
        )
        held = torch.from_numpy(there).to(backbone.device)
        return type(goal.batch(rows[:1], 0))((states, unit(image.float(), dim=-1)), texts, held)

    def step(lay: Callable[[Any], Any]) -> None:
        laid = lay(rng.choice(len(goal), batch, replace=False))
        half = backbone.device.type == "cuda"
        with torch.autocast(backbone.device.type, dtype=torch.bfloat16, enabled=half):
            logits = backbone.logits(laid.images, laid.texts)
        compute_losses(torch.sigmoid(logits.float()), laid.extra, 0.2)["loss"].backward()
        torch.nn.utils.clip_grad_norm_(backbone.module.parameters(), 2.0)
        optimize.step()
        optimize.zero_grad(set_to_none=True)

    backbone.module.train()
    steps = STEPS[backbone.device.type]
    speeds: dict[str, list[float]] = {"from cached states": [], "encoding anew": []}
    for _ in range(ROUNDS):
        for name, lay in (("from cached states", cached), ("encoding anew", anew)):
            seconds = _seconds(lambda lay=lay: [step(lay) for _ in range(steps)], backbone.device.type)
            speeds[name].append(steps * batch / seconds)
    ratio = statistics.median(a / b for a, b in zip(*speeds.values(), strict=True))
    rows = [["training", "samples a second"]]
    rows += [[name, f"{statistics.median(values):,.0f}"] for name, values in speeds.items()]
    return table([*rows, ["ratio (wanted: 5)", f"{ratio:.1f}"]])


def scoring(backbone: Fusion, paths: list[Path], texts: list[str], encoder: str, folder: Path) -> str:
    """Pairs a second: captions that are new, so that both metrics encode them, and everything known already."""
    folder.mkdir(parents=True, exist_ok=True)
    clip = ClipScore(weights=encoder, value="raw", prefix="")

    def measured(metric: Any, mark: str) -> float:
        named = {str(number): f"{text} {mark}".strip() for number, text in enumerate(texts)}
        captions = CaptionSet.of(named, dict.fromkeys(named, ()), {"image": list(map(str, paths))})
        return len(texts) / _seconds(lambda: metric.measure(captions), backbone.device.type)

    cases = ("images cached, captions new", "states cached, scores not", "all cached")
    rates: dict[tuple[str, str], list[float]] = {}
    measured(clip, "")
    for number in range(ROUNDS + 1):
        with torch.no_grad():
            backbone.module.shift.fill_(number + 1.0)  # other weights: no score is known
        backbone.save(folder)
        ours = Umic(weights=str(folder))
        ours.load()
        for case, mark in zip(cases, (f"and {number}", "", ""), strict=True):
            for name, metric in (("CLIPScore", clip), ("umic-fusion", ours)):
                # Marks differ between the two, so that neither finds captions the other has encoded.
                rate = measured(metric, f"{mark} {name}" if mark else "")
                if number:  # the first round opens files and starts threads
                    rates.setdefault((case, name), []).append(rate)
    rows = [["scoring", "CLIPScore, pairs a second", "umic-fusion, pairs a second", "times CLIPScore's time"]]
    for case in cases:
        pairs = zip(rates[case, "CLIPScore"], rates[case, "umic-fusion"], strict=True)
        ratio = statistics.median(a / b for a, b in pairs)
        shown = [f"{statistics.median(rates[case, name]):,.0f}" for name in ("CLIPScore", "umic-fusion")]
        rows.append([case, *shown, f"{ratio:.2f}"])
    return table(rows)


def random_b32(folder: Path, texts: list[str]) -> Path:
    """A CLIP of ViT-B/32's size that has learnt nothing and knows these words."""
    import transformers

    from captious.models._model_tokenizers import read_tokenizer
    from captious.models._preprocess import ImagePreprocessing
    from captious.models.clip import wrap
    from captious.models.mini import WordTokenizer

    folder.mkdir(parents=True, exist_ok=True)
    WordTokenizer.from_texts(texts, 77).save(folder)
    tokenizer = read_tokenizer(folder, 77)
    ends = {"bos_token_id": tokenizer.start, "eos_token_id": tokenizer.end, "pad_token_id": tokenizer.pad}
    config = transformers.CLIPConfig(text_config={**ends, "vocab_size": tokenizer.backend.get_vocab_size()})
    torch.manual_seed(0)
    wrap(transformers.CLIPModel(config), tokenizer, ImagePreprocessing(), "random-b32", "cpu", "fp32").save(folder)
    return folder


def _seconds(job: Callable[[], Any], device: str) -> float:
    if device == "cuda":
        torch.cuda.synchronize()
    started = time.perf_counter()
    job()
    if device == "cuda":
        torch.cuda.synchronize()
    return time.perf_counter() - started


def main() -> None:
    """Measure both."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["speed"], nargs="?")
    parser.add_argument("--items", type=int, default=2000, help="images")
    parser.add_argument("--encoder", default="captious-mini")
    parser.add_argument("--device", default="auto")
    parser.add_argument("--out", type=Path, default=None, help="where models go; a temporary folder by default")
    parser.add_argument("--batch", type=int, default=256)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        run(given.out or Path(folder), given.encoder, given.device, given.items, given.batch)


if __name__ == "__main__":
    main()
