"""``captious analyse classification``: zero-shot, by the names of the classes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.analyse import shared as s
from captious.options import LEVEL, SAMPLES, SEED


def classification(
    labels: Annotated[str, typer.Argument(help="Rows of an image and its label.")],
    images: o.Images = None,
    encoder: s.Encoders = s.DEFAULT,
    classes: Annotated[
        Path | None, typer.Option("--classes", help="File of class names, one a line; else the labels that occur.")
    ] = None,
    templates: Annotated[
        Path | None, typer.Option("--templates", help="File of templates, one a line, each with {} for the name.")
    ] = None,
    label_column: Annotated[str | None, typer.Option("--label", help="Column of the label.")] = None,
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """Accuracy at 1 and 5 of the nearest class name, with intervals over images.

    Example: captious analyse classification labels.csv --images photos/ --encoder captious-mini
    """
    from captious._files import refuse_occupied
    from captious.models import load as loading
    from captious.options import Resampling
    from captious.probes.classification import (
        TEMPLATES,
        classification_finding,
        classify,
        read_labeled,
        read_templates,
    )

    how = Resampling(samples, seed, level)
    if out is not None:
        refuse_occupied(out, overwrite)
    wording = read_templates(templates) if templates is not None else list(TEMPLATES)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        given = read_labeled(labels, images, classes, label_column)
        found = []
        for name in s.names(encoder):
            step(name)
            found.append(classify(given, loading.load(name), how, wording))
    s.deliver(classification_finding(given, found, wording, how), out, overwrite, as_json)
