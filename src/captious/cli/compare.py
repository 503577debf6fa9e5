"""``captious compare``: is one captioner really better than another?"""

from __future__ import annotations

from collections import Counter
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captious.cli import options as o
from captious.options import LEVEL, PERMUTATIONS, SAMPLES, SEED

if TYPE_CHECKING:
    from captious.comparison import Comparison


class Test(str, Enum):
    """The paired test behind the p-values."""

    randomization = "randomization"
    bootstrap = "bootstrap"


def compare(
    systems: Annotated[list[str], typer.Argument(help="Files of captions, the baseline first.")],
    references: o.References = None,
    metrics: o.Metrics = "bleu,rouge,cider",
    test: Annotated[Test, typer.Option("--test", help="Paired test.")] = Test.randomization,
    every_pair: Annotated[
        bool, typer.Option("--every-pair", help="Test all pairs, not only against the first.")
    ] = False,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    latex: o.AsLatex = False,
    images: o.Images = None,
    missing: o.OnMissing = o.Missing.error,
    several: o.Several = False,
    samples: o.Samples = SAMPLES,
    shuffles: Annotated[
        int, typer.Option("--shuffles", min=1, help="Shuffles of the randomization test.")
    ] = PERMUTATIONS,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    id_column: o.IdColumn = None,
    candidate_column: o.CandidateColumn = None,
    references_column: o.ReferencesColumn = None,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
    upright: o.Upright = False,
) -> None:
    """Compare systems on the same items with paired tests, Holm-adjusted over the systems.

    Example: captious compare a.json b.json c.json --references refs.json
    """
    from captious import comparison
    from captious._files import refuse_occupied
    from captious.errors import InputError
    from captious.metrics.registry import parse_all
    from captious.report.run import save_comparison

    wanted = parse_all(metrics)
    if samples < 1:
        raise InputError("--samples 0: comparing needs resamples for its intervals, expected at least 1")
    if out is not None:
        refuse_occupied(out, overwrite)
    with o.encoding(device, batch, precision, no_cache, upright) as step:
        columns = (id_column, candidate_column, references_column)
        sets = {
            name: o.load(path, references, missing, several, images, columns)
            for name, path in zip(names(systems), systems, strict=True)
        }
        result = comparison.compare(
            sets,
            wanted,
            test=test.value,
            every_pair=every_pair,
            samples=samples,
            shuffles=shuffles,
            seed=seed,
            level=level,
            missing=missing.value,
            progress=step,
        )
        if out is not None:
            step("writing")
            save_comparison(result, out, overwrite)
    _show(result, as_json, latex)
    if out is not None:
        typer.echo(f"written: {out / 'report.html'}", err=True)


def _show(result: Comparison, as_json: bool, latex: bool) -> None:
    """Warnings on standard error, then the comparison in the form asked for."""
    from captious.report import latex as tex
    from captious.report import terminal
    from captious.report.run import dumped
    from captious.report.summary import summarize_comparison

    remarks = [text for report in result.reports.values() for text in report.warnings]
    terminal.warn(list(dict.fromkeys([*result.warnings, *remarks])))
    if as_json:
        typer.echo(dumped(summarize_comparison(result)), nl=False)
    elif latex:
        typer.echo(tex.comparison_table(result), nl=False)
    else:
        terminal.print_comparison(result)


def _stem(path: str) -> str:
    """The name of a file less the endings that say its format."""
    from captious.io.formats import FORMATS

    name = Path(path).name
    while (suffix := Path(name).suffix.lower()) and suffix in {".gz", *FORMATS}:
        name = Path(name).stem
    return name or path


def names(paths: list[str]) -> list[str]:
    """What to call systems: the file's name, with its folder or a number where names repeat.

    >>> names(["runs/a.json", "runs/b.v2.jsonl.gz", "old/a.json"])
    ['runs-a', 'b.v2', 'old-a']
    """
    stems = [_stem(path) for path in paths]
    repeated = {stem for stem, number in Counter(stems).items() if number > 1}
    named = [
        f"{Path(path).parent.name}-{stem}" if stem in repeated else stem
        for path, stem in zip(paths, stems, strict=True)
    ]
    seen: Counter[str] = Counter()
    for index, name in enumerate(named):
        seen[name] += 1
        if seen[name] > 1:
            named[index] = f"{name}-{seen[name]}"
    return named
