"""``captious samples``: the demo set's generator."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from captious.cli import options as o

app = typer.Typer(help="Drawn scenes with captions, captioners of known quality, styles, ratings and planted bias.")


@app.command()
def make(
    items: Annotated[int, typer.Option("--items", help="How many scenes.")] = 60,
    seed: Annotated[int, typer.Option("--seed", help="The same seed gives the same sample.")] = 0,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("captious-sample"),
    bias: Annotated[float, typer.Option("--bias", help="Planted bias of the model's captions, 0 to 1.")] = 0.5,
    human_bias: Annotated[float, typer.Option("--human-bias", help="Planted bias of the references, 0 to 1.")] = 0.25,
    images: Annotated[bool, typer.Option("--images/--no-images", help="Draw the pictures.")] = True,
    size: Annotated[int, typer.Option("--size", min=32, help="Side of the pictures in pixels.")] = 160,
    overwrite: o.Overwrite = False,
) -> None:
    """Make a sample: references, predictions of four captioners, long and styled captions, ratings, bias, pictures."""
    from captious import samples
    from captious.render.progress import display

    with display() as (step, _, _):
        step(f"making {items} scenes")
        folder = samples.write(
            samples.make(items, seed, bias, human_bias), out, images=images, size=size, overwrite=overwrite
        )
    typer.echo(f"written: {folder}")


@app.command()
def training(
    items: Annotated[int, typer.Option("--items", help="How many scenes.")] = 40_000,
    seed: Annotated[int, typer.Option("--seed", help="Another one than that of the scenes to be tested on.")] = 1000,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder to write.")] = Path("captious-drawn"),
    size: Annotated[int, typer.Option("--size", min=32, help="Side of the pictures in pixels.")] = 96,
    workers: Annotated[int, typer.Option("--workers", min=0, help="Processes; 0: one per core.")] = 0,
    overwrite: o.Overwrite = False,
) -> None:
    """Scenes for captious train: pictures, short captions, and long ones with right and wrong detail units."""
    from captious.render.progress import display
    from captious.samples.training import write_training

    with display() as (step, _, _):
        step(f"drawing {items} scenes")
        folder = write_training(out, items, seed, size, workers, overwrite)
    typer.echo(f"written: {folder}")


@app.callback()
def options() -> None:
    """Drawn scenes with captions, captioners of known quality, styles, ratings and planted bias."""
