"""``captious train longclip``: room for long captions."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.train import shared as t
from captious.cli.train.running import run


def longclip(
    data: t.Data,
    out: t.Out,
    images: o.Images = None,
    base: t.Base = "openai/clip-vit-base-patch32",
    lock: t.Lock = "",
    validate: t.Validate = None,
    validate_every: t.ValidateEvery = None,
    epochs: t.Epochs = None,
    batch: t.Batch = None,
    accumulate: t.Accumulate = None,
    together: t.Together = None,
    lr: t.Rate = None,
    warmup: t.Warmup = None,
    weight_decay: t.Decay = None,
    clip: t.Clip = None,
    gather: t.Gather = None,
    components: Annotated[int, typer.Option("--components", min=1, help="Of the image, for first sentences.")] = 32,
    smoothing: Annotated[float, typer.Option("--smoothing", min=0, max=1, help="Of labels.")] = 0.1,
    frozen_positions: t.Positions = None,
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
    """The LongCLIP stage: room for 248 tokens, long captions against images, first sentences against coarse ones.

    Example: captious train longclip --data long.jsonl --images photos/ --out my-longclip/
    """
    from captious.train.run import Choices

    run("longclip", locals(), Choices(components=components, smoothing=smoothing, scale=4.6052))
