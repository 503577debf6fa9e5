"""``captious demo``: the main job on the embedded sample."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captious.cli import options as o


def demo(
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("demo-report"),
    overwrite: o.Overwrite = False,
    items: Annotated[int, typer.Option("--items", min=2, help="How many scenes.")] = 60,
    seed: Annotated[int, typer.Option("--seed", help="Seed of the sample.")] = 0,
) -> None:
    """Draw the sample, score its four captioners, test their differences, and write the HTML report.

    CLIPScore and SPECS look at the pictures through captious-mini, an encoder of drawn scenes that needs no torch.
    """
    from captious import comparison, read, samples
    from captious._files import whole_folder
    from captious.metrics.clip.clipscore import ClipScore
    from captious.metrics.clip.specs import Specs
    from captious.metrics.registry import DEFAULT, parse_all
    from captious.options import Runtime
    from captious.report import terminal
    from captious.report.run import write_comparison

    with whole_folder(out, overwrite) as draft, terminal.steps() as step:
        step("drawing the sample")
        folder = samples.write(samples.make(items, seed), draft / "sample")
        systems = {
            name: read(folder / "predictions" / f"{name}.json", folder / "references.json", folder / "images")
            for name in ("parrot", "sloppy", "solid", "expert")
        }
        pictured = ClipScore(weights="captious-mini"), Specs(weights="captious-mini-specs")
        # The pictures are drawn anew by every demo: nothing of them is worth keeping.
        plain = Runtime(device="cpu", cache=False)
        result = comparison.compare(systems, [*parse_all(DEFAULT), *pictured], progress=step, runtime=plain)
        step("writing")
        write_comparison(result, draft)
    terminal.print_comparison(result)
    typer.echo(
        "\nBy construction parrot < sloppy < solid < expert: see which metrics put them in that order.\n"
        f"Look at the captions, worst first:  {out / 'report.html'}\n"
        f"Score your own:                     captious score preds.json --references refs.json\n"
        "With your photographs:              captious score preds.json --images photos/ --metrics clipscore,specs"
    )
