"""``captious score``: every number for one file of captions."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.options import LEVEL, SAMPLES, SEED


def score(
    predictions: Annotated[str, typer.Argument(help="Candidate captions; '-' for standard input.")],
    references: o.References = None,
    metrics: o.Metrics = "bleu,rouge,cider",
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    latex: o.AsLatex = False,
    worst: Annotated[int, typer.Option("--worst", min=0, help="Also print so many worst items.")] = 0,
    images: o.Images = None,
    missing: o.OnMissing = o.Missing.error,
    several: o.Several = False,
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    id_column: o.IdColumn = None,
    candidate_column: o.CandidateColumn = None,
    references_column: o.ReferencesColumn = None,
    format: o.Format = None,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """Score captions: a table with intervals, and with --out everything about the run.

    Example: captious score preds.json --references refs.json
    Example: captious score preds.json --images photos/ --metrics "clipscore,specs"
    """
    from captious._files import refuse_occupied
    from captious.evaluation import evaluate
    from captious.metrics.registry import parse_all
    from captious.report import latex as tex
    from captious.report import terminal
    from captious.report.run import dumped, save
    from captious.report.summary import summarize

    wanted = parse_all(metrics)
    if out is not None:
        refuse_occupied(out, overwrite)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        columns = (id_column, candidate_column, references_column)
        captions = o.load(predictions, references, missing, several, images, columns, format)
        report = evaluate(captions, wanted, samples=samples, seed=seed, level=level, progress=step)
        if out is not None:
            step("writing")
            save(report, out, overwrite)
    terminal.warn(report.warnings)
    if as_json:
        typer.echo(dumped(summarize(report)), nl=False)
    elif latex:
        typer.echo(tex.run_table(report), nl=False)
    else:
        terminal.print_run(report)
        if worst:
            terminal.print_worst(report, worst)
    if out is not None:
        typer.echo(f"written: {out / 'report.html'}", err=True)
