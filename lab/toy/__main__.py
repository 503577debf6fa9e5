"""``python -m lab.toy``: samples of any size, and scenes to train encoders on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from captious.cli.app import run
from captious.cli.commands import CommandGroup, command
from captious.cli.params import Only
from captious.options import Option, Output
from captious.render.progress import display
from lab.toy.clips import write_clips
from lab.toy.sample import make, write
from lab.toy.training import write_training

app = CommandGroup("toy", __doc__ or "")

Items = Annotated[int, Option("How many scenes.", min=1)]
Seed = Annotated[int, Option("The same seed gives the same scenes.", min=0)]
Size = Annotated[int, Option("Side of the pictures in pixels.", min=32)]
Folder = Annotated[Output, Only("out", "overwrite")]


@command(app)
def sample(
    items: Items = 60,
    seed: Seed = 0,
    output: Folder = Output(out="toy-sample"),
    bias: Annotated[float, Option("Planted bias of the model's captions, 0 to 1.")] = 0.5,
    human_bias: Annotated[float, Option("Planted bias of the references, 0 to 1.")] = 0.25,
    images: Annotated[bool, Option("Leave the pictures out.")] = True,
    size: Size = 160,
) -> None:
    """A sample: references, captions of four captioners, long and styled ones, ratings, planted bias, pictures."""
    out = Path(str(output.out))
    with display(every=10) as shown:
        write(
            make(items, seed, bias, human_bias),
            out,
            images=images,
            size=size,
            overwrite=output.overwrite,
            progress=lambda done: shown.advance("drawing", done, items),
        )
    click.echo(
        f"written: {out}\nnext: captious score {out}/predictions/expert.json --references {out}/references.json"
        + (f" --images {out}/images" if images else "")
    )


@command(app)
def training(
    items: Items = 40_000,
    seed: Seed = 1000,
    output: Folder = Output(out="toy-training"),
    size: Size = 96,
    workers: Annotated[int, Option("Processes; 0: one per core.", min=0)] = 0,
) -> None:
    """Scenes to train on: pictures, short captions, and long ones with right and wrong detail units.

    Take another seed than that of the scenes to be tested on.
    """
    out = Path(str(output.out))
    with display(every=10) as shown:
        write_training(
            out, items, seed, size, workers, output.overwrite, lambda done: shown.advance("drawing", done, items)
        )
    click.echo(
        f"written: {out}\nnext: captious train clip {out}/train.jsonl --images {out}/images --new mini --out my-clip"
    )


@command(app)
def clips(
    out: Annotated[Path, Option("Folder to write.", metavar="FOLDER")] = Path("docs/clips"), size: Size = 160
) -> None:
    """Short clips of scenes in which a thing moves, for the guide to videos; needs PyAV."""
    write_clips(out, size)
    click.echo(f"written: {out}")


if __name__ == "__main__":
    run(app, "python -m lab.toy")
