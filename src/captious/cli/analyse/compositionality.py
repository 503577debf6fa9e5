"""``captious analyse compositionality``: word order and minimal pairs."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.analyse import shared as s
from captious.options import LEVEL, SAMPLES, SEED


def compositionality(
    pairs: Annotated[
        list[str], typer.Argument(help="Files of image, caption and negative (caption2 too); or of captions alone.")
    ],
    images: o.Images = None,
    metrics: o.Metrics = "clipscore,specs",
    kinds: Annotated[
        str | None, typer.Option("--kinds", help="Of captions alone: perturbations, by default the four of ARO.")
    ] = None,
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
    """Pair files as in SugarCrepe, with caption2 as in SugarCrepe++; captions alone get ARO's order tests.

    Example: captious analyse compositionality swap_obj.json swap_att.json --images photos/ --metrics clipscore,specs
    """
    from captious._files import refuse_occupied
    from captious.metrics.registry import parse_all
    from captious.options import Resampling
    from captious.probes.compositionality import ARO, contests_finding, judge, read_contests

    wanted, how = parse_all(metrics), Resampling(samples, seed, level)
    if out is not None:
        refuse_occupied(out, overwrite)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        given = read_contests(pairs, images, kinds=s.names(kinds) if kinds else ARO, seed=seed)
        found = judge(given, wanted, how, step)
    s.deliver(contests_finding(given, found, how), out, overwrite, as_json)
