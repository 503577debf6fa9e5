"""Photographs: a fusion on an encoder of lab/benchmarks/photographs.py, trained on Flickr8k outside the test split.

An encoder knows its own training images too well: nearly every cosine there is right already, and what a fusion learns
from them does not hold elsewhere. So it is trained on four fifths of the dev split, which the encoder has not seen.
On the other fifth the best epoch is taken by ranking accuracy, and the best learning rate by a stand-in for people:
Kendall's tau with the CIDEr-D of captions put to other images. The test images are looked at once, by the best model.
Everything is printed by `captious` commands, beside the same encoder's CLIPScore.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path

import numpy as np
from photographs import Command, Runner, write_data

from captious import CaptionSet, evaluate
from captious.options import Resampling

RATES = ("5e-4", "1e-3")
SMALL = ("--backbone", "fusion(width=64,dropout=0.4)", "--batch-size", "128", "--draws", "2")
"""Eight hundred images teach no more."""
PARTS = 5
"""One of so many parts of the dev split is kept to choose by."""
TRIED, KEPT = 30, 3
"""Captions of other images tried with each image; as many of the nearest and of the others are rated."""


def run(out: Path, flickr: Path, encoder: str, device: str, items: int, epochs: int, seed: int) -> None:
    """Train, choose on dev, judge on test; ``items`` limits each split for a trial."""
    out = out.resolve()
    captious = Runner(f"{sys.executable} -m captious", out)
    write_data(flickr, out, items)
    lines = (out / "dev.jsonl").read_text(encoding="utf-8").splitlines(keepends=True)
    order = np.random.default_rng(seed).permutation(len(lines))
    for name, part in (("choose", order[::PARTS]), ("learn", np.setdiff1d(order, order[::PARTS]))):
        (out / f"{name}.jsonl").write_text("".join(lines[place] for place in part), encoding="utf-8")
    images = str(flickr / "images")
    where = ("--images", images, "--device", device)
    start = ("train", "umic", str(out / "learn.jsonl"), *where, "--encoder", encoder, *SMALL)
    start = (*start, "--epochs", str(epochs), "--seed", str(seed), "--validate", str(out / "choose.jsonl"))
    captious(*((*start, "--lr", rate, "--out", str(out / f"umic-{rate}")) for rate in RATES))
    plain = f'clipscore(weights={encoder},value=raw,prefix="")'
    model = _chosen(captious, out, where, plain, seed)
    ranked = _ranked(model, out / "test.jsonl", images, device)
    print(f"Ranking accuracy on the test images in per cent\n\n{ranked}", flush=True)
    if items:
        print("a trial: people's ratings are of all test images, and are left out")
        return
    people = ("study", "run", "flickr8k-expert", "--data", str(flickr), *where)
    captious((*people, "--metrics", f"{plain},umic(weights={model})"))


def _chosen(captious: Runner, out: Path, where: Command, plain: str, seed: int) -> Path:
    """The best model of the rate that agrees best with CIDEr-D."""
    ratings = _stand_in(out / "choose.jsonl", out / "ratings.jsonl", seed)
    metrics = ",".join((plain, *(f"umic(weights={out / f'umic-{rate}' / 'best'})" for rate in RATES)))
    judged = ("study", "run", str(ratings), "--rating", "cider", "--group", "image", "--statistic", "tau_b", *where)
    (found,) = captious((*judged, "--metrics", metrics, "--json"))
    taus = {row["metric"]: row["statistics"]["tau_b"]["value"] for row in json.loads(found)["metrics"]}
    for name, tau in taus.items():
        print(f"tau-b with CIDEr-D: {100 * tau:.2f} {name}")
    best = max(RATES, key=lambda rate: taus[next(name for name in taus if f"umic-{rate}" in name)])
    print(f"taken: umic-{best}\n", flush=True)
    return out / f"umic-{best}" / "best"


def _stand_in(source: Path, out: Path, seed: int) -> Path:
    """Images with captions of other images, rated by CIDEr-D against the image's own five: near ones and any."""
    rows = [json.loads(line) for line in source.read_text(encoding="utf-8").splitlines()]
    rng = np.random.default_rng(seed)
    tried = min(TRIED, len(rows) - 1)
    others = [(number + 1 + rng.choice(len(rows) - 1, tried, replace=False)) % len(rows) for number in range(len(rows))]
    pairs = [
        (row, str(rng.choice(rows[other]["captions"]))) for row, far in zip(rows, others, strict=True) for other in far
    ]
    captions = {str(number): caption for number, (_, caption) in enumerate(pairs)}
    references = {str(number): row["captions"] for number, (row, _) in enumerate(pairs)}
    found = evaluate(CaptionSet.of(captions, references), "cider", resampling=Resampling(samples=0))["cider"].items
    ratings = np.array([found[key] for key in captions]).reshape(len(rows), tried)
    ranks = np.argsort(-ratings, axis=1)
    kept = (
        np.hstack([ranks[:, :KEPT], rng.permuted(ranks[:, KEPT:], axis=1)[:, :KEPT]])
        + tried * np.arange(len(rows))[:, None]
    )
    written = [
        {"id": str(place), "image": pairs[place][0]["id"], "caption": pairs[place][1], "cider": ratings.flat[place]}
        for place in kept.ravel().tolist()
    ]
    out.write_text("".join(json.dumps(row) + "\n" for row in written), encoding="utf-8")
    return out


def _ranked(model: Path, data: Path, images: str, device: str) -> str:
    """Before training, which is the encoder's cosine, and after."""
    from umic_drawn import accuracies

    from captious.models.crossencoders import open_backbone
    from captious.models.features import image_features
    from captious.options import Runtime, using
    from captious.train.data import read_examples
    from captious.train.negatives import KINDS
    from captious.train.umic import Accuracy, distinct, prepared

    with using(Runtime(device=device)):
        after = open_backbone(model)
        examples = distinct(read_examples(data, images)[0])
        vectors = image_features(after.encoder, [one.image for one in examples])
        made = prepared(examples, KINDS, 1, 1, vectors.rows[vectors.index], data.name)
        pictures, texts = after.pictures(made.paths), after.texts(made.texts, keep=False)
        judge = Accuracy(after, pictures, texts, made.table)
        found = judge()
        head = after.module.head
        head.weight.data.zero_()
        head.bias.data.zero_()
        before = judge()
    steps = json.loads((model.parent / "captious-training.json").read_text(encoding="utf-8"))["steps"]
    return accuracies([{"step": 0, "validation": before}, {"step": steps, "validation": found}]) + "\n"
