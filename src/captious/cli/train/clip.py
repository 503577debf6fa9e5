"""``captious train clip``: images against captions."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.train import shared as t
from captious.cli.train.running import run


def clip(
    data: t.Data,
    out: t.Out,
    images: o.Images = None,
    base: t.Base = None,
    new: Annotated[str | None, typer.Option("--new", help="Start from nothing: mini.")] = None,
    vision: Annotated[str | None, typer.Option("--vision", help="New heads on this image model, and …")] = None,
    text: Annotated[str | None, typer.Option("--text", help="… on this text model: folders or hub ids.")] = None,
    heads: Annotated[str, typer.Option("--heads", help="Of those: residual or linear.")] = "residual",
    lock: t.Lock = "",
    image_features: t.Known = None,
    validate: t.Validate = None,
    validate_every: t.ValidateEvery = None,
    epochs: t.Epochs = None,
    batch: t.Batch = None,
    accumulate: t.Accumulate = None,
    lr: t.Rate = None,
    head_lr: t.HeadRate = None,
    augment: t.Augment = None,
    captions: Annotated[int, typer.Option("--captions", min=1, help="Of each image in a step, all right.")] = 1,
    soften: Annotated[
        float, typer.Option("--soften", min=0, max=1, help="Share of targets that follows how near captions are.")
    ] = 0.0,
    warmup: t.Warmup = None,
    weight_decay: t.Decay = None,
    clip: t.Clip = None,
    gather: t.Gather = None,
    precision: t.Precision = "auto",
    device: t.Device = "auto",
    workers: t.Workers = None,
    save_every: t.SaveEvery = None,
    seed: t.Seed = None,
    missing: o.OnMissing = o.Missing.error,
    resume: t.Resume = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """Contrast of images and captions, both directions; one caption of each image per epoch, or several.

    Example: captious train clip --data train.jsonl --images photos/ --new mini --out my-clip/
    """
    from captious.train.run import Choices

    run("clip", locals(), Choices(per_image=captions, soften=soften, image_features=image_features))
