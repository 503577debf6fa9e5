"""``captious analyse hubness``: are a few vectors near to everything?"""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.analyse import shared as s
from captious.options import LEVEL, SAMPLES, SEED


def hubness(
    captions: Annotated[str, typer.Argument(help="Captions by image: COCO annotations, JSON, JSONL, CSV, Parquet.")],
    images: o.Images = None,
    encoder: s.Encoders = s.DEFAULT,
    prefix: s.Prefix = "",
    k: Annotated[int, typer.Option("--k", min=1, help="How many nearest count.")] = 10,
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
    """Skewness of the k-occurrences both ways, and the worst hubs.

    Example: captious analyse hubness captions.jsonl --images photos/ --encoder captious-mini,captious-mini-specs
    """
    from captious._files import refuse_occupied
    from captious.options import Resampling
    from captious.probes.hubness import hubness as hubs
    from captious.probes.hubness import hubness_finding
    from captious.probes.vectors import read_pictured

    how = Resampling(samples, seed, level)
    if out is not None:
        refuse_occupied(out, overwrite)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        given = read_pictured(captions, images)
        spaces, notes = s.spaces(given, encoder, prefix, step)
        found = [one for space in spaces for one in hubs(space, k, how)]
    s.deliver(hubness_finding(given.name, found, notes, how), out, overwrite, as_json)
