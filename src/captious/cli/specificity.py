"""``captious specificity``: does a score rise with a right detail and fall with a wrong one?"""

from __future__ import annotations

from enum import Enum
from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.analyse.shared import deliver
from captious.options import LEVEL, SAMPLES, SEED


class Counting(str, Enum):
    """How steps become a rate."""

    pooled = "pooled"
    macro = "macro"
    legacy = "legacy"


def specificity(
    pairs: Annotated[
        str, typer.Argument(help="Rows of units and wrong_units, or of captions to be cut; see the docs.")
    ],
    images: o.Images = None,
    references: o.References = None,
    metrics: o.Metrics = "clipscore,specs",
    counting: Annotated[Counting, typer.Option("--counting", help="pooled, macro, or the authors' code.")] = (
        Counting.pooled
    ),
    fitting: Annotated[
        bool, typer.Option("--fitting", help="Only as far as all texts fit every metric's encoder.")
    ] = False,
    control: Annotated[
        bool, typer.Option("--control", help="Also against wrong images: what the words alone give away.")
    ] = False,
    grammar: o.Grammar = o.Grammars.code,
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
    """Specificity Rates SR_pos and SR_neg of metrics, with intervals over images.

    Example: captious specificity pairs.jsonl --images photos/ --metrics clipscore,specs
    """
    from captious._files import refuse_occupied
    from captious.metrics.clip.encoded import EncodedMetric
    from captious.metrics.clip.specs import Specs, SpecsRouted
    from captious.metrics.registry import parse_all
    from captious.options import Resampling
    from captious.probes.specificity import read_details, specificity_finding
    from captious.probes.specificity import specificity as rates

    wanted, how = parse_all(metrics), Resampling(samples, seed, level)
    if out is not None:
        refuse_occupied(out, overwrite)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        details = read_details(pairs, images, references, seed=seed, grammar=grammar.value)
        for metric in wanted if fitting else ():
            if isinstance(metric, EncodedMetric):
                details = details.within(metric.encoder(), metric.prefix)
            elif isinstance(metric, SpecsRouted):  # its short encoder reads short captions only
                details = details.within(Specs(metric.long).encoder())
        found = rates(details, wanted, counting=counting.value, how=how, control=control, progress=step)
    deliver(specificity_finding(details, found, counting.value, how), out, overwrite, as_json)
