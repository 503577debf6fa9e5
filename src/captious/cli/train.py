"""``captious train``: an encoder or a learned metric of your own."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import click

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Omit, Only
from captious.cli.session import Session, deliver
from captious.options import Runtime
from captious.train.training_options import (
    ClipOptions,
    LongClipOptions,
    ObjectiveOptions,
    Settings,
    SpecsOptions,
    Training,
    UmicOptions,
)

app = CommandGroup("train")

Shared = Annotated[Session, Only("images", "missing", "device", "precision", "workers", "overwrite", "json")]
# Seconds between lines of progress if standard error is a file.
EVERY = 30.0


@command(app)
def clip(training: Training, session: Shared, options: ClipOptions, settings: Settings = ClipOptions.published) -> None:
    """Train by contrast of images and captions, in both directions; one caption of each image per epoch, or several.

    Example: captious train clip train.jsonl --images photos/ --new mini --out my-clip/
    """
    _train(training, session, options, settings)


@command(app)
def longclip(
    training: Annotated[Training, Omit("image_features")],
    session: Shared,
    options: LongClipOptions,
    settings: Annotated[Settings, Omit("head_lr", "augment")] = LongClipOptions.published,
) -> None:
    """Train the LongCLIP stage: up to 248 tokens, long captions against images, first sentences too.

    Example: captious train longclip long.jsonl --images photos/ --base openai/clip-vit-base-patch32 --out my-longclip/
    """
    _train(training, session, options, settings)


@command(app)
def specs(
    training: Training, session: Shared, options: SpecsOptions, settings: Settings = SpecsOptions.published
) -> None:
    """Specificity: an additional right detail must raise the score, a wrong one must lower it.

    Example: captious train specs long.jsonl --images photos/ --base my-longclip/ --out my-specs/
    """
    _train(training, session, options, settings)


@command(app)
def umic(
    training: Annotated[Training, Omit("base", "image_features")],
    session: Shared,
    options: UmicOptions,
    settings: Annotated[Settings, Omit("lock", "head_lr", "augment", "warmup_steps")] = UmicOptions.published,
) -> None:
    """UMIC: learn to rank a true caption above five kinds of wrong ones.

    Example: captious train umic captions.jsonl --images photos/ --encoder captious-mini --out my-umic/
    """
    _train(training, session, options, settings)


def _train(training: Training, session: Session, options: ObjectiveOptions, settings: Settings) -> None:
    """Train with progress on standard error; exit with 130 if the training was interrupted."""
    from captious.render.progress import display
    from captious.train.distributed import is_first_process
    from captious.train.run import train

    reading, output = session.reading, session.output
    training = replace(training, images=reading.images, missing=reading.missing, overwrite=output.overwrite)
    with display(EVERY) as shown:
        runtime: Runtime = replace(session.runtime, progress=shown.advance, log=shown.log)
        trained = train(training, options, settings, runtime)
    if is_first_process():
        deliver(trained, replace(output, out=None))
    if not trained.finished:
        if is_first_process():
            where = f"stopped after step {trained.steps} of {trained.of}"
            click.echo(
                f"{where}; captious train {options.name} --resume --out {trained.folder} goes on from there", err=True
            )
        raise click.exceptions.Exit(130)
