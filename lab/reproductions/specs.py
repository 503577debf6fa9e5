"""SPECS on drawn scenes, ours beside the paper: how captious-mini is trained, and what it knows about unseen scenes.

    python -m lab.reproductions specs --quick          # 100 scenes, the two models in the package: a minute, offline
    python -m lab.reproductions specs --models drawn   # 400 scenes, and what train wrote: the other loss weights
    python -m lab.reproductions specs train --out drawn     # on a GPU, some five minutes; prints the commands it runs

SPECS on photographs: `photographs.py`. The paper's models and data are not at hand, so its numbers are of photographs
and long captions, ours of drawn scenes: what can be compared is what the training does.

Scenes to train on come from seed 1000; choices were made on those of seed 1; those to measure on come from seed 3, the
demo's from seed 0.
"""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import numpy as np
from lab.reproductions.beside import Beside, Row, arguments, show
from lab.toy import Sample, make, write
from lab.toy.captions import Unit, judge, long_caption, units
from lab.toy.sample import CAPTIONERS, SLOPPY, misremembered
from lab.toy.scenes import Scene, scenes, stream

from captious import CaptionSet
from captious.metrics.clip.clipscore import ClipScore
from captious.metrics.clip.longclip import LongClip
from captious.metrics.clip.specs import Specs
from captious.metrics.contract import Metric
from captious.models._preprocess import ImagePreprocessing
from captious.models.clip import TorchEncoder
from captious.models.cost import cost
from captious.models.mini import export_half
from captious.options import Resampling, Runtime, using
from captious.probes import probe_hubness, probe_retrieval, probe_specificity, read_details
from captious.probes.specificity import Details
from captious.stats.bootstrap import Estimate, compute_observed, draw_bootstrap
from captious.stats.correlation import WithinImage
from captious.stats.kendall import Kendall

TRAIN_SEED, TEST_SEED, ITEMS, FEWER = 1000, 3, 40_000, 20_000
# Loss weights and folders: the published recipe, two others, and the one that is shipped, whose wrong units are those
# of the scene itself, one fact changed.
VARIANTS = {"1:8:0.8": "specs", "1:8:0.6": "specs-8-06", "1:1:1": "specs-1-1", "1:1:1 given": "specs-given"}
SHIPPED = "1:1:1 given"
MINI, MINI_SPECS = "captious-mini", "captious-mini-specs"


# SR_pos, SR_neg and their average on sDCI: LongCLIP* and SPEC of Table 1, and an ablation of Table 5.
PUBLISHED_RATES = {
    MINI: (58.64, 77.03, 67.83),
    "specs 1:8:0.8": (95.37, 90.37, 92.87),
    "specs 1:8:0.6": (85.85, 82.33, 84.09),
}
# Table 3, text to image and image to text: COCO for short captions, Urban-1k for long ones; LongCLIP* and SPEC.
PUBLISHED_RECALL = {
    "short": {MINI: (35.50, 52.44), "specs 1:8:0.8": (22.72, 4.48)},
    "long": {MINI: (77.00, 75.80), "specs 1:8:0.8": (69.80, 0.30)},
}
# Table 2; LongCLIP is released as a ViT-B/16, the paper's number is that of a ViT-B/32.
PUBLISHED_GFLOPS = {"CLIPScore": 14.8, "SPECS": 28.1, "LongCLIP": 28.1}
NO_MODEL = "not run: no --models; `specs train` makes it, on a GPU in minutes"
NOTES = (
    "Published: photographs (sDCI, COCO, Urban-1k), a ViT-B/32; ours: drawn scenes, 1.9 million "
    "parameters. captious-mini is the model before the training, as LongCLIP* is the paper's. captious-mini-specs was "
    "trained with weights 1:1:1 on units of the scene itself with one fact changed (`--negatives given`), the others "
    "on units of other scenes, as the paper's.",
    "Wrong picture: the same texts with the picture of another scene. A metric that only looks at the picture has 50 "
    "there. Skewness of N_10: how unevenly captions are the nearest of images; a hub is near to many.",
)


def recipe(out: Path, items: int = ITEMS, fewer: int = FEWER, epochs: int = 22, specs_epochs: int = 14) -> list[str]:
    """The commands that make captious-mini and captious-mini-specs; the last four do not need each other."""
    drawn = f"--images {out}/scenes/images"
    rates = f"--batch-size 400 --accumulate 1 --lr 5e-4 --warmup-steps 40 --clip-norm 1 --epochs {specs_epochs}"
    commands = [
        f"{sys.executable} -m lab.toy training --items {items} --seed {TRAIN_SEED} --out {out}/scenes",
        f"captious train clip {out}/scenes/train.jsonl {drawn} --new mini --out {out}/clip"
        f" --batch-size 512 --lr 1e-3 --warmup-steps 200 --epochs {epochs}",
        f"head -n {fewer} {out}/scenes/train.jsonl > {out}/fewer.jsonl",
    ]
    for name, folder in VARIANTS.items():
        weights, _, source = name.partition(" ")
        commands.append(
            f"captious train specs {out}/fewer.jsonl {drawn} --base {out}/clip --out {out}/{folder}"
            f" --loss-weights {weights.replace(':', ',')} {rates}" + (f" --negatives {source}" if source else "")
        )
    return commands


def train(out: Path, items: int, fewer: int, epochs: int, specs_epochs: int) -> None:
    """Run the recipe, the specificity trainings side by side, and write what is shipped: the weights in float16."""
    out.mkdir(parents=True, exist_ok=True)
    commands = recipe(out, items, fewer, epochs, specs_epochs)
    for command in commands[: -len(VARIANTS)]:
        _wait([_started(command)])
    _wait([_started(command) for command in commands[-len(VARIANTS) :]])
    for folder, name in (("clip", MINI), (VARIANTS[SHIPPED], MINI_SPECS)):
        export_half(out / folder, out / name)


def _started(command: str) -> tuple[str, float, subprocess.Popen[bytes]]:
    print(f"$ {command}", flush=True)
    ours = f"{sys.executable} -c 'from captious.cli.app import main; main()'"
    run = command.replace("captious", ours, 1) if command.startswith("captious ") else command
    return command, time.perf_counter(), subprocess.Popen(run, shell=True)


def _wait(running: Sequence[tuple[str, float, subprocess.Popen[bytes]]]) -> None:
    for command, start, process in running:
        if process.wait():
            raise SystemExit(f"failed: {command}")
        print(f"  {time.perf_counter() - start:.0f} s", flush=True)


def measure(items: int, models: Path | None, quick: bool) -> Beside:
    """What the encoders know about unseen scenes, beside the paper's numbers."""
    sample = make(items, TEST_SEED)
    unseen = _unseen(sample)
    named: dict[str, LongClip | Specs] = {MINI: LongClip(weights=MINI), MINI_SPECS: Specs(weights=MINI_SPECS)}
    others = {f"specs {name}": folder for name, folder in VARIANTS.items() if name != SHIPPED}
    if models is not None:
        named |= {name: Specs(weights=str(models / folder)) for name, folder in others.items()}
        others = {}
    with tempfile.TemporaryDirectory() as place, using(Runtime(device="cpu")):
        folder = write(sample, Path(place) / "sample")
        rows = [*_rates(folder, unseen, named), *_retrieval(folder, sample, unseen, named)]
        rows += _correlations(folder, sample, unseen, named)
    rows += _missing(others)
    rows += [Row("Table 2, GFLOPs", "all metrics", note="not run: left out by --quick")] if quick else _cost()
    scenes_used = (
        f"{len(unseen)} scenes of seed {TEST_SEED}; {items - len(unseen)} more, which training met too, are left out."
    )
    return Beside("SPECS, Tables 1, 2, 3 and 5, on drawn scenes", rows, (scenes_used, *NOTES))


def _missing(names: Mapping[str, str]) -> Iterator[Row]:
    """The published numbers of models that are not at hand."""
    for name in names:
        published = PUBLISHED_RATES.get(name, (None, None, None))
        yield Row("Tables 1 and 5, average of SR_pos and SR_neg, %", name, published=published[2], note=NO_MODEL)
    grid = "not run: on drawn scenes; on photographs: python -m lab.reproductions grid"
    yield Row("Table 5", "other weights, learning rates, losses, shuffle rates", note=grid)
    yield Row("Table 2", "correlations on DeCapBench", note="not run: its ratings and photographs are not at hand")
    yield Row("Table 3", "classification", note="not run: ImageNet and CIFAR are not at hand")
    texts = (
        "not run: the data are photographs; SugarCrepe++'s texts alone: captious probe compositionality --text-model"
    )
    yield Row("Tables 4 and 7", "ARO, SugarCrepe++", note=texts)


def _cost() -> Iterator[Row]:
    """Counted on the architectures of the default weights; the weights themselves are not needed."""
    import torch
    import transformers

    for metric, patch, limit in ((ClipScore(), 32, 77), (Specs(), 32, 248), (LongClip(), 16, 248)):
        shape = {"vision_config": {"patch_size": patch}, "text_config": {"max_position_embeddings": limit}}
        meta = torch.device("meta")
        with meta:
            module = transformers.CLIPModel(transformers.CLIPConfig(**shape)).eval()
        encoder = TorchEncoder(
            metric.name, "", "fp32", 512, limit, module, cast(Any, None), ImagePreprocessing(), meta, True
        )
        counted = cost(encoder)
        note = f"ViT-B/{patch}, {limit} tokens, {counted.parameters:,} parameters"
        published = PUBLISHED_GFLOPS[metric.label]
        yield Row(
            "Table 2, GFLOPs of an image and a text", metric.label, counted.flops / 1e9, None, None, published, note
        )


def _unseen(sample: Sample) -> list[Scene]:
    """The scenes whose content does not occur in the training set."""

    def content(scene: Scene) -> str:
        return f"{scene.setting} {sorted(map(str, scene.things))}"

    known = {content(scene) for scene in scenes(ITEMS, TRAIN_SEED)}
    return [scene for scene in sample.scenes() if content(scene) not in known]


def _rates(folder: Path, unseen: list[Scene], named: dict[str, LongClip | Specs]) -> Iterator[Row]:
    """Wrong details as in the paper, and harder ones; as a control, the same texts under another scene's picture."""
    ids = {scene.id for scene in unseen}
    long = [json.loads(line) for line in (folder / "long.jsonl").read_text(encoding="utf-8").splitlines()]
    rows = [row for row in long if row["id"] in ids]
    bare = [{"id": row["id"], "units": row["units"]} for row in rows]
    sources: dict[str, Details] = {}
    for name, chosen in (("", bare), ("one fact changed", rows)):
        path = folder / f"{name or 'other scenes'}.jsonl"
        path.write_text("".join(json.dumps(row) + "\n" for row in chosen), encoding="utf-8")
        sources[name] = read_details(path, folder / "images")
    paths = sources[""].paths
    turned = dict(zip(paths, [*list(paths.values())[1:], next(iter(paths.values()))], strict=True))
    sources["wrong picture"] = replace(sources[""], paths=turned)
    for source, details in sources.items():
        rates = probe_specificity(details, list(named.values())).rows
        for index, part in enumerate(("SR_pos", "SR_neg", "average of both")):
            what = f"{'Tables 1 and 5' if not source else source[0].upper() + source[1:]}, {part}, %"
            for name, one in zip(named, rates, strict=True):
                published = PUBLISHED_RATES.get(name, (None, None, None))[index] if not source else None
                estimate = (one.positive, one.negative, one.average)[index]
                yield Row.of(what, name, estimate, published, more={"steps": one.steps})


def _retrieval(folder: Path, sample: Sample, unseen: list[Scene], named: dict[str, LongClip | Specs]) -> Iterator[Row]:
    """Recall at 1 both ways, and hubs among the long captions."""
    texts = {
        "short": {scene.id: sample.references_of(scene)[0] for scene in unseen},
        "long": {scene.id: sample.detailed(scene)["caption"] for scene in unseen},
    }
    images = {"image": [str(folder / "images" / f"{scene.id}.png") for scene in unseen]}
    weights = [str(metric.weights) for metric in named.values()]
    for kind, captions in texts.items():
        described = CaptionSet.of(captions, dict.fromkeys(captions, ()), images, kind)
        recalls = probe_retrieval(described, weights).rows
        for index, direction in enumerate((f"{kind} caption to image", f"image to {kind} caption")):
            for name, one in zip(named, recalls[index::2], strict=True):
                published = PUBLISHED_RECALL[kind].get(name, (None, None))[index]
                yield Row.of(f"Table 3, {direction}, R@1, %", name, one.recall[0], published)
        if kind == "long":
            for name, hubs in zip(named, probe_hubness(described, weights).rows[1::2], strict=True):
                note = f"the worst of {hubs.gallery} captions is among the 10 nearest of {hubs.most} images"
                yield Row.of("Hubness of long captions, skewness of N_10", name, hubs.skewness, note=note, scale=1.0)


def _correlations(
    folder: Path, sample: Sample, unseen: list[Scene], named: dict[str, LongClip | Specs]
) -> Iterator[Row]:
    """Over all captions; within the four captions of a scene in the note."""
    ids = {scene.id for scene in unseen}
    short = [row for scene in unseen for row in sample.rated(scene)]
    metrics: dict[str, Metric] = {f"CLIPScore, {MINI}": ClipScore(weights=MINI)}
    metrics |= {f"{metric.label}, {name.removeprefix('specs ')}": metric for name, metric in named.items()}
    for kind, rated in (("short", short), ("long", [row for row in long_captions(sample) if row["id"] in ids])):
        quality = np.array([row["quality"] for row in rated])
        scene = np.unique([row["id"] for row in rated], return_inverse=True)[1]
        texts = {str(index): row["caption"] for index, row in enumerate(rated)}
        images = [str(folder / "images" / f"{row['id']}.png") for row in rated]
        captions = CaptionSet.of(texts, dict.fromkeys(texts, ()), {"image": images}, kind)
        for name, metric in metrics.items():
            values = metric.measure(captions).values
            both = (Kendall.of(values, quality, cluster=scene), WithinImage.of(values, quality, scene, len(unseen)))
            draws = draw_bootstrap(both, len(unseen), Resampling())
            over_all, within = (
                Estimate.of(compute_observed(statistic, len(unseen))[key], drawn[key])
                for statistic, drawn, key in zip(both, draws, ("tau_b", "sample_tau"), strict=True)
            )
            note = f"within a scene {100 * within.value:.1f} ({100 * within.low:.1f} – {100 * within.high:.1f})"
            yield Row.of(f"τ-b × 100 with the true quality, {kind} captions", name, over_all, note=note)


def long_captions(sample: Sample) -> list[dict[str, Any]]:
    """For every scene and captioner a long caption and its quality, F½ of truth and coverage."""
    all_scenes = list(sample.scenes())
    rows = []
    for place, scene in enumerate(all_scenes):
        for name in CAPTIONERS:
            said = _said(name, scene, all_scenes[place - 1], sample.seed)
            verdict = judge([fact for unit in said for fact in unit.facts], scene)
            rows.append({"id": scene.id, "captioner": name, "caption": long_caption(said), "quality": verdict.quality})
    return rows


def _said(name: str, scene: Scene, other: Scene, seed: int) -> list[Unit]:
    """The expert tells all, the solid one half of it, the sloppy one errs, the parrot tells of another scene."""
    rng = stream(seed, scene.id, f"{name} long")
    if name == "solid":
        scene = replace(scene, things=scene.things[: (len(scene.things) + 1) // 2])
    elif name == "parrot" and rng.random() < CAPTIONERS[name].stock:
        scene = other
    elif name in ("sloppy", "parrot"):
        scene = misremembered(scene, SLOPPY, rng)
    return units(scene, rng)


def main() -> None:
    parser = arguments("specs", __doc__, "100 scenes, no counting of operations")
    parser.add_argument("what", choices=["measure", "train"], nargs="?", default="measure")
    parser.add_argument("--items", type=int, help="scenes to train on (40,000) or to measure on (400)")
    parser.add_argument("--fewer", type=int, default=FEWER, help="of them for the specificity training")
    parser.add_argument("--epochs", type=int, default=22)
    parser.add_argument("--specs-epochs", type=int, default=14)
    parser.add_argument("--models", type=Path, help="what train wrote, to measure all loss weights")
    args = parser.parse_args()
    started = time.perf_counter()
    if args.what == "train":
        train(args.out or Path("drawn"), args.items or ITEMS, args.fewer, args.epochs, args.specs_epochs)
    else:
        items = args.items or (100 if args.quick else 400)
        show(measure(items, args.models, args.quick), "specs", args.out, started)


if __name__ == "__main__":
    main()
