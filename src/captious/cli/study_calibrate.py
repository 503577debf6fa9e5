"""``captious study calibrate``: metrics in units of people's ratings."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Annotated

import click

from captious._core.files import refuse_existing, refuse_unwritable
from captious.cli.params import Omit, Rare
from captious.cli.session import Session
from captious.cli.study_inputs import NOT_WITH_RUNS, UNUSED, RatedRuns, find_recipe
from captious.options import Resampling
from captious.study.study_options import StudyInput

SUFFIX = ".cal"


def calibrate(
    study_input: Annotated[StudyInput, NOT_WITH_RUNS],
    runs: RatedRuns = (),
    session: Annotated[
        Session,
        UNUSED,
        Omit("samples", "seed", "interval"),
        Rare("language", "missing", "endpoint", "id_column", "candidate_column"),
    ] = Session(resampling=Resampling(level=0.9)),
) -> None:
    """Fit people's ratings by a metric, or by several, for the metric calibrated(FILE.cal).

    One metric gets a line or a curve that never falls, several a ridge regression. The error is that of images which
    the fit did not see. --out FILE.cal writes a file that makes a metric of score, view, keep and rewards: the rating
    that people would give, with a prediction interval (--level, 0.9 by default). Its mean is not an estimate of what
    people would say of a system: captious study estimate computes that. With runs, --metrics chooses some of theirs.

    Example: captious study calibrate ratings.jsonl runs/* --metrics spice -o spice.cal
    Example: captious study calibrate ratings.jsonl -r refs.json --metrics bleu,rouge,meteor -o text.cal
    Example: captious score preds.json -r refs.json --metrics "calibrated(spice.cal)"
    """
    from captious.study import calibrate as fit
    from captious.study import load_ratings, load_scores
    from captious.study.scores import choose_scores

    out, level = session.output.out, session.resampling.level
    is_file = out is not None and str(out).endswith(SUFFIX)
    if out is not None and is_file:
        refuse_existing(out, session.output.overwrite)
        refuse_unwritable(Path(out))
        session = replace(session, output=replace(session.output, out=None))
    with session.working() as step:
        ratings, recipe = load_ratings(find_recipe(study_input, session.reading), session.reading)
        wanted = replace(study_input, scores=runs, metrics=() if runs else study_input.metrics)
        scores = load_scores(ratings, recipe, wanted, session.reading.missing, step)
        scores = choose_scores(scores, study_input.metrics if runs else (), ratings.name)
        result = fit(ratings, scores, level=level, progress=step)
        if out is not None and is_file:
            result.calibration.save(out)
    session.deliver(result)
    if is_file:
        click.echo(f"written: {out}; use it as calibrated({out})", err=True)
