"""``captious train specs``: an encoder that notices single details."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.train import shared as t
from captious.cli.train.running import run


def specs(
    data: t.Data,
    out: t.Out,
    base: t.Base,
    images: o.Images = None,
    weights: Annotated[str, typer.Option("--weights", help="Of contrast, positive and negative hinge.")] = "1,8,0.8",
    margin: Annotated[str, typer.Option("--margin", help="code, paper, or a number in logit units.")] = "code",
    shuffle: Annotated[
        float, typer.Option("--shuffle", min=0, max=1, help="Share of negatives with words mixed.")
    ] = 0.9,
    shuffle_rows: Annotated[
        bool, typer.Option("--shuffle-rows", help="Mix those of the first rows, as published, not by a coin.")
    ] = False,
    negatives: Annotated[
        str, typer.Option("--negatives", help="dataset, epoch (drawn anew), batch, or given (wrong_units).")
    ] = "dataset",
    contrast: Annotated[
        str, typer.Option("--contrast", help="text-to-image, as published, or both.")
    ] = "text-to-image",
    grammar: o.Grammar = o.Grammars.code,
    lock: t.Lock = "",
    image_features: t.Known = None,
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
    head_lr: t.HeadRate = None,
    augment: t.Augment = None,
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
    """Specificity: a right detail more must raise the score, a wrong one must lower it.

    Example: captious train specs --data long.jsonl --images photos/ --base my-longclip/ --out my-specs/
    """
    from captious.errors import InputError, nearest
    from captious.train.run import Choices
    from captious.train.specs import SOURCES, weights_of

    if negatives not in SOURCES:
        raise InputError(f"--negatives {negatives}: expected {', '.join(SOURCES)}{nearest(negatives, SOURCES)}")
    choices = Choices(
        weights=weights_of(weights),
        margin=margin,
        negatives=negatives,  # type: ignore[arg-type]
        shuffle=shuffle,
        shuffle_rows=shuffle_rows,
        contrast=contrast,
        grammar=grammar.value,
        image_features=image_features,
    )
    run("specs", locals(), choices)
