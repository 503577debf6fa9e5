"""Real photographs: a fusion on an encoder of benchmarks/photographs.py, trained on Flickr8k outside the test split.

Everything is printed by `captious` commands: the training with its ranking accuracy by kind of negative on the test
images before and after, and Flickr8k-Expert with intervals beside the same encoder's CLIPScore. The number of epochs is
chosen on the dev split (`--early-stop`), so the test images are looked at once, by the best model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

from photographs import Runner, write_data


def run(out: Path, flickr: Path, encoder: str, device: str, items: int, epochs: int, seed: int) -> None:
    """Train, choose on dev, judge on test; ``items`` limits each split for a trial."""
    out = out.resolve()
    captious = Runner(f"{sys.executable} -m captious", out)
    write_data(flickr, out, items)
    images, model = str(flickr / "images"), out / "umic"
    where = ("--images", images, "--device", device)
    start = ("train", "umic", "--data", str(out / "train.jsonl"), *where, "--encoder", encoder)
    recipe = ("--epochs", str(epochs), "--batch", "128", "--draws", str(min(epochs, 4)), "--early-stop", "3")
    captious((*start, *recipe, "--seed", str(seed), "--validate", str(out / "dev.jsonl"), "--out", str(model)))
    print(
        "Ranking accuracy on the test images in per cent\n\n"
        + _ranked(model / "best", out / "test.jsonl", images, device)
    )
    if items:
        print("a trial: people's ratings are of all test images, and are left out")
        return
    plain = f'clipscore(weights={encoder},value=raw,prefix="")'
    metrics = f"{plain},umic(weights={model / 'best'})"
    captious(("study", "run", "flickr8k-expert", "--data", str(flickr), *where, "--metrics", metrics))


def _ranked(model: Path, data: Path, images: str, device: str) -> str:
    """Before training, which is the encoder's cosine, and after."""
    from captious.encoders.features import image_features
    from captious.encoders.runtime import Runtime, using
    from captious.training.data import read_examples
    from captious.training.negatives import KINDS, keyed, prepared
    from captious.training.ranking import Accuracy
    from captious.umic.saving import open_backbone
    from umic_drawn import accuracies

    with using(Runtime(device=device)):
        after = open_backbone(model)
        examples = keyed(read_examples(data, images)[0])
        vectors = image_features(after.encoder, [one.image for one in examples.values()])
        made = prepared(examples, KINDS, 1, 1, vectors.rows[vectors.index], data.name)
        pictures, texts = after.pictures([str(path) for path in made.paths]), after.texts(made.texts, keep=False)
        judge = Accuracy(after, pictures, texts, made.table)
        found = judge()
        head = after.module.head
        head.weight.data.zero_()
        head.bias.data.zero_()
        before = judge()
    steps = json.loads((model.parent / "captious-training.json").read_text(encoding="utf-8"))["steps"]
    return accuracies([{"step": 0, "validation": before}, {"step": steps, "validation": found}]) + "\n"
