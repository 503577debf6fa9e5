"""Drawn scenes: ranking accuracy by kind of negative on unseen scenes, and agreement with the true quality."""

from __future__ import annotations

import json
import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from lab.toy import Sample, make, write
from lab.toy.scenes import Scene, scenes
from measure import table

from captious import CaptionSet
from captious.metrics.clip.clipscore import ClipScore
from captious.metrics.contract import Metric
from captious.metrics.umic import Umic
from captious.options import Resampling, Runtime, using
from captious.stats.bootstrap import Estimate, bootstrap, observed
from captious.stats.correlation import Within
from captious.stats.kendall import Kendall
from captious.train.options import Training, UmicOptions
from captious.train.run import train

MINI = "captious-mini"
TRAIN_SEED, TEST_SEED, TEST_ITEMS = 2, 1, 400
MINI_SEED, MINI_ITEMS = 1000, 40_000


def run(out: Path, items: int, epochs: int, seed: int = 0) -> None:
    """Train on some scenes, measure on others."""
    learnt, test = make(items, TRAIN_SEED), make(TEST_ITEMS, TEST_SEED)
    known = {_content(scene) for scene in learnt.scenes()}
    known |= {_content(scene) for scene in scenes(MINI_ITEMS, MINI_SEED)}
    unseen = [scene for scene in test.scenes() if _content(scene) not in known]
    train_data = _written(out / "train", learnt, list(learnt.scenes()))
    test_data = _written(out / "test", test, unseen)
    print(
        f"{items} scenes to train on ({5 * items} captions); {len(unseen)} of {TEST_ITEMS} test scenes are in neither "
        "this training nor the encoder's\n"
    )
    started = time.perf_counter()
    training = Training(out / "model", str(train_data), validate=str(test_data))
    options = UmicOptions("fusion(width=128,layers=2)", MINI, draws=min(epochs, 2))
    settings = replace(UmicOptions.published, epochs=epochs, lr=1e-3, seed=seed)
    outcome = train(training, options, settings, Runtime(device="cpu", log=print))
    seconds = time.perf_counter() - started
    print(f"\ntrained in {seconds:.0f} s: {outcome.steps} steps of {settings.batch_size} captions\n")
    print("Ranking accuracy on unseen scenes in per cent\n\n" + accuracies(outcome.validations))
    print("\nKendall's tau-b with the true quality of the simulated captioners, 95 % intervals over scenes\n")
    metrics: dict[str, Metric] = {
        'CLIPScore, captious-mini, prefix=""': ClipScore(weights=MINI, value="raw", prefix=""),
        "CLIPScore, captious-mini": ClipScore(weights=MINI, value="raw"),
        "umic-fusion over captious-mini": Umic(weights=str(training.out)),
    }
    rated = [row for scene in unseen for row in test.rated(scene)]
    print(correlations(rated, out / "test" / "scenes" / "images", metrics))


def accuracies(validations: Sequence[dict[str, Any]]) -> str:
    """One row per validation, from before the first step to after the last."""
    names = list(validations[0]["validation"])
    rows = [["after step", *names]]
    rows += [[str(one["step"]), *(f"{one['validation'][name]:.1f}" for name in names)] for one in validations]
    return table(rows)


def correlations(rated: list[dict[str, Any]], images: Path, metrics: dict[str, Metric]) -> str:
    """Over all captions, and within the captions of a scene; the last rows are differences to the last metric."""
    quality = np.array([row["quality"] for row in rated])
    scene = np.unique([row["id"] for row in rated], return_inverse=True)[1]
    clusters = int(scene.max()) + 1
    texts = {str(place): row["caption"] for place, row in enumerate(rated)}
    paths = [str(images / f"{row['id']}.png") for row in rated]
    captions = CaptionSet.of(texts, dict.fromkeys(texts, ()), {"image": paths}, "captioners")
    kinds = ("tau_b", "sample_tau")
    values, drawn = {}, {}
    with using(Runtime(device="cpu")):
        for name, metric in metrics.items():
            scores = metric.measure(captions).values
            both = (Kendall.of(scores, quality, cluster=scene), Within.of(scores, quality, scene, clusters))
            values[name] = [observed(one, clusters)[kind] for one, kind in zip(both, kinds, strict=True)]
            drawn[name] = [one[kind] for one, kind in zip(bootstrap(both, clusters, Resampling()), kinds, strict=True)]
    rows = [["metric", "all captions", "within a scene"]]
    rows += [[name, *map(_estimate, values[name], drawn[name])] for name in metrics]
    last = list(metrics)[-1]
    for name in list(metrics)[:-1]:
        gains = [a - b for a, b in zip(values[last], values[name], strict=True)]
        spread = [a - b for a, b in zip(drawn[last], drawn[name], strict=True)]
        rows.append([f"{last} − {name}", *map(_estimate, gains, spread)])
    return table(rows)


def _estimate(value: float, draws: Any) -> str:
    one = Estimate.of(value, draws)
    return f"{one.value:.3f} ({one.low:.3f}–{one.high:.3f})"


def _content(scene: Scene) -> str:
    return f"{scene.setting} {sorted(map(str, scene.things))}"


def _written(folder: Path, sample: Sample, chosen: list[Scene]) -> Path:
    """Pictures, and five captions of each chosen scene."""
    folder.mkdir(parents=True, exist_ok=True)
    write(sample, folder / "scenes")
    rows = [
        {
            "id": scene.id,
            "image": str(folder / "scenes" / "images" / f"{scene.id}.png"),
            "captions": sample.references_of(scene),
        }
        for scene in chosen
    ]
    path = folder / "captions.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path
