"""Options that the trainings share, and what they print at their end."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from captious.train.run import Outcome

Data = Annotated[str, typer.Option("--data", "-d", help="Rows with an id or image, and captions: JSONL, CSV, Parquet.")]
Out = Annotated[Path, typer.Option("--out", "-o", help="Folder of the model, its log and its checkpoint.")]
Base = Annotated[str | None, typer.Option("--base", "-b", help="Start from: a folder, a checkpoint file, a hub id.")]
Validate = Annotated[str | None, typer.Option("--validate", help="Rows to measure the model on while it learns.")]
ValidateEvery = Annotated[int | None, typer.Option("--validate-every", min=1, help="Steps; else after each epoch.")]
Lock = Annotated[
    str, typer.Option("--lock", help="Towers that do not learn: image, text, image,text; image:9 for nine layers.")
]
Epochs = Annotated[int | None, typer.Option("--epochs", min=1)]
Batch = Annotated[int | None, typer.Option("--batch", min=2, help="Examples per process and forward pass.")]
Accumulate = Annotated[int | None, typer.Option("--accumulate", min=1, help="Batches summed in one step.")]
Together = Annotated[
    int | None, typer.Option("--together", min=1, help="Of those, encoded at once; all on a GPU, one on a CPU.")
]
Rate = Annotated[float | None, typer.Option("--lr", help="Largest learning rate.")]
HeadRate = Annotated[float | None, typer.Option("--head-lr", min=0, help="Of projection heads, if another.")]
Augment = Annotated[float | None, typer.Option("--augment", help="Share of an image that a view of it may lose.")]
Known = Annotated[str | None, typer.Option("--image-features", help="Of a locked image tower, in .npz: ids, features.")]
Warmup = Annotated[int | None, typer.Option("--warmup", min=0, help="Steps until then.")]
Decay = Annotated[float | None, typer.Option("--weight-decay", min=0)]
Clip = Annotated[float | None, typer.Option("--clip", min=0, help="Longest gradient; 0 for any.")]
Precision = Annotated[str, typer.Option("--precision", help="auto (bf16 on a GPU), fp32, bf16 or fp16.")]
Device = Annotated[
    str, typer.Option("--device", help="auto, cpu, cuda or cuda:1; torchrun gives each process its own.")
]
Workers = Annotated[int | None, typer.Option("--workers", min=0, help="Threads that open images; 0: one per core.")]
SaveEvery = Annotated[int | None, typer.Option("--save-every", min=1, help="Steps between checkpoints.")]
Resume = Annotated[bool, typer.Option("--resume", help="Go on from the checkpoint in --out.")]
Gather = Annotated[bool | None, typer.Option("--gather/--local", help="Contrast over all processes, or within each.")]
Positions = Annotated[
    int | None, typer.Option("--frozen-positions", min=0, help="First rows of the position table that do not learn.")
]
Seed = Annotated[int | None, typer.Option("--seed", min=0, help="Seed of order and draws.")]


def finish(outcome: Outcome, as_json: bool) -> None:
    """Print what came of a training; the exit code of one that was stopped is 130."""
    from captious.render.terminal import messages
    from captious.train import loop as processes
    from captious.train.show import outcome_lines

    if processes.first_here():
        if as_json:
            record = {**vars(outcome), "folder": str(outcome.folder), "best": outcome.best and str(outcome.best)}
            typer.echo(json.dumps(record, indent=2))
        else:
            typer.echo("\n".join(outcome_lines(outcome)))
        if not outcome.finished:
            messages().print(
                f"stopped after step {outcome.steps} of {outcome.of}; the same command with --resume goes on from "
                "there",
                highlight=False,
            )
    if not outcome.finished:
        raise typer.Exit(130)
