"""``captious study choose``: which images people should rate next."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from captious.cli.params import Only
from captious.cli.session import Out, Session
from captious.cli.study_estimate import AuxiliaryMetrics, CaptionRuns
from captious.options import Option


def choose(
    runs: CaptionRuns,
    session: Annotated[Session, Only("missing", "seed", "overwrite", "json")],
    out: Out,
    next: Annotated[int, Option("Number of images to draw.", min=1)] = 50,
    using: AuxiliaryMetrics = None,
    ratings: Annotated[Path | None, Option("Ratings so far; the next batch follows.", metavar="FILE")] = None,
    allocate: Annotated[
        Literal["proportional", "neyman"], Option("More where ratings vary more: neyman.", rare=True)
    ] = "proportional",
    strata: Annotated[int, Option("Number of strata.", min=1, max=100, rare=True)] = 5,
) -> None:
    """Draw the images that people should rate next, at random in strata of a metric, with their probabilities.

    The file is the ids of a study: ids = "next.jsonl" in the study file, or captious studio new --ids next.jsonl. The
    export has the probabilities, and captious study estimate uses them.

    Example: captious study choose runs/oscar runs/sat --using spice --next 50 --out next.jsonl
    Example: captious study choose runs/* --using spice --next 50 --ratings export/ --out more.jsonl
    """
    from captious.study import choose as choose_next

    with session.working() as step:
        step("choose")
        result = choose_next(
            runs,
            next,
            using=using,
            ratings=ratings,
            allocation=allocate,
            strata=strata,
            seed=session.resampling.seed,
            missing=session.reading.missing,
        )
        result.write(out, session.output.overwrite)
    session.deliver(result)
