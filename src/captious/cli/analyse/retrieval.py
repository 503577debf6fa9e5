"""``captious analyse retrieval``: recall of images by captions and of captions by images."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.analyse import shared as s
from captious.options import LEVEL, SAMPLES, SEED


def retrieval(
    captions: Annotated[str, typer.Argument(help="Captions by image: COCO annotations, JSON, JSONL, CSV, Parquet.")],
    images: o.Images = None,
    encoder: s.Encoders = s.DEFAULT,
    prefix: s.Prefix = "",
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
    """Recall at 1, 5 and 10 both ways, several captions per image, intervals over images.

    Example: captious analyse retrieval captions.jsonl --images photos/ --encoder captious-mini,captious-mini-specs
    """
    from captious._files import refuse_occupied
    from captious.options import Resampling
    from captious.probes.retrieval import retrieval as recalls
    from captious.probes.retrieval import retrieval_finding
    from captious.probes.vectors import read_pictured

    how = Resampling(samples, seed, level)
    if out is not None:
        refuse_occupied(out, overwrite)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        given = read_pictured(captions, images)
        spaces, notes = s.spaces(given, encoder, prefix, step)
        found = [one for space in spaces for one in recalls(space, how)]
    s.deliver(retrieval_finding(given.name, found, notes, how), out, overwrite, as_json)
