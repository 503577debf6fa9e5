"""Real photographs: a fusion on an encoder of benchmarks/photographs.py, trained on Flickr8k outside the test split.

Everything is printed by `captious` commands: the training with its ranking accuracy by kind of negative, and
Flickr8k-Expert with intervals beside the same encoder's CLIPScore. The number of epochs is chosen by ranking accuracy
on the dev split (`--early-stop`), the learning rate by a stand-in for people there: Kendall's tau with the CIDEr-D of
captions put to other images. So the test images are looked at once, by the best model.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np

from captious import CaptionSet, evaluate
from photographs import Command, Runner, write_data

RATES = ("1e-4", "3e-4", "1e-3")
PAIRS = 6
"""Captions of other dev images that each dev image is judged with."""


def run(out: Path, flickr: Path, encoder: str, device: str, items: int, epochs: int, seed: int) -> None:
    """Train, choose on dev, judge on test; ``items`` limits each split for a trial."""
    out = out.resolve()
    captious = Runner(f"{sys.executable} -m captious", out)
    write_data(flickr, out, items)
    images = str(flickr / "images")
    where = ("--images", images, "--device", device)
    start = ("train", "umic", "--data", str(out / "train.jsonl"), *where, "--encoder", encoder)
    recipe = ("--epochs", str(epochs), "--batch", "128", "--draws", str(min(epochs, 4)), "--early-stop", "3")
    recipe = (*recipe, "--seed", str(seed), "--validate", str(out / "dev.jsonl"))
    captious(*((*start, *recipe, "--lr", rate, "--out", str(out / f"umic-{rate}")) for rate in RATES))
    plain = f'clipscore(weights={encoder},value=raw,prefix="")'
    model = _chosen(captious, out, where, plain, seed)
    ranked = _ranked(model, out / "test.jsonl", images, device)
    print(f"Ranking accuracy on the test images in per cent\n\n{ranked}")
    if items:
        print("a trial: people's ratings are of all test images, and are left out")
        return
    people = ("study", "run", "flickr8k-expert", "--data", str(flickr), *where)
    captious((*people, "--metrics", f"{plain},umic(weights={model})"))


def _chosen(captious: Runner, out: Path, where: Command, plain: str, seed: int) -> Path:
    """The best model of the rate that agrees best with CIDEr-D on dev images."""
    ratings = _stand_in(out / "dev.jsonl", out / "dev_ratings.jsonl", seed)
    metrics = ",".join((plain, *(f"umic(weights={out / f'umic-{rate}' / 'best'})" for rate in RATES)))
    judged = ("study", "run", str(ratings), "--rating", "cider", "--group", "image", "--tau", "b", *where)
    (found,) = captious((*judged, "--metrics", metrics, "--json"))
    taus = {row["metric"]: row["statistics"]["tau_b"]["value"] for row in json.loads(found)["metrics"]}
    for name, tau in taus.items():
        print(f"dev, tau-b with CIDEr-D: {100 * tau:.2f} {name}")
    best = max(RATES, key=lambda rate: taus[next(name for name in taus if f"umic-{rate}" in name)])
    print(f"taken: umic-{best}\n", flush=True)
    return out / f"umic-{best}" / "best"


def _stand_in(dev: Path, out: Path, seed: int) -> Path:
    """Dev images with captions of other dev images, rated by CIDEr-D against the image's own five."""
    rows = [json.loads(line) for line in dev.read_text(encoding="utf-8").splitlines()]
    rng = np.random.default_rng(seed)
    pairs = [(one, rows[int(other)]) for one in rows for other in rng.integers(len(rows), size=PAIRS)]
    pairs = [(one, other) for one, other in pairs if one is not other]
    captions = {str(number): str(rng.choice(other["captions"])) for number, (_, other) in enumerate(pairs)}
    references = {str(number): one["captions"] for number, (one, _) in enumerate(pairs)}
    ratings = evaluate(CaptionSet.of(captions, references), "cider", samples=0)["cider"].items
    written = [
        {"id": key, "image": one["id"], "caption": captions[key], "cider": float(ratings[key])}
        for key, (one, _) in zip(captions, pairs, strict=True)
    ]
    out.write_text("".join(json.dumps(row) + "\n" for row in written), encoding="utf-8")
    return out


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
