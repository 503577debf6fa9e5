"""``captious train``: make an encoder, or a better one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o

if TYPE_CHECKING:
    from captious.training.assembly import Choices, Name
    from captious.training.run import Outcome

app = typer.Typer(help="Train encoders: clip, longclip, specs.", no_args_is_help=True)

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


@app.command()
def clip(
    data: Data,
    out: Out,
    images: o.Images = None,
    base: Base = None,
    new: Annotated[str | None, typer.Option("--new", help="Start from nothing: mini.")] = None,
    vision: Annotated[str | None, typer.Option("--vision", help="New heads on this image model, and …")] = None,
    text: Annotated[str | None, typer.Option("--text", help="… on this text model: folders or hub ids.")] = None,
    heads: Annotated[str, typer.Option("--heads", help="Of those: residual or linear.")] = "residual",
    lock: Lock = "",
    image_features: Known = None,
    validate: Validate = None,
    validate_every: ValidateEvery = None,
    epochs: Epochs = None,
    batch: Batch = None,
    accumulate: Accumulate = None,
    lr: Rate = None,
    head_lr: HeadRate = None,
    augment: Augment = None,
    captions: Annotated[int, typer.Option("--captions", min=1, help="Of each image in a step, all right.")] = 1,
    soften: Annotated[
        float, typer.Option("--soften", min=0, max=1, help="Share of targets that follows how near captions are.")
    ] = 0.0,
    warmup: Warmup = None,
    weight_decay: Decay = None,
    clip: Clip = None,
    gather: Gather = None,
    precision: Precision = "auto",
    device: Device = "auto",
    workers: Workers = None,
    save_every: SaveEvery = None,
    seed: Seed = None,
    missing: o.OnMissing = o.Missing.error,
    resume: Resume = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """Contrast of images and captions, both directions; one caption of each image per epoch, or several.

    Example: captious train clip --data train.jsonl --images photos/ --new mini --out my-clip/
    """
    from captious.training.assembly import Choices

    _run("clip", locals(), Choices(per_image=captions, soften=soften, image_features=image_features))


@app.command()
def longclip(
    data: Data,
    out: Out,
    images: o.Images = None,
    base: Base = "openai/clip-vit-base-patch32",
    lock: Lock = "",
    validate: Validate = None,
    validate_every: ValidateEvery = None,
    epochs: Epochs = None,
    batch: Batch = None,
    accumulate: Accumulate = None,
    together: Together = None,
    lr: Rate = None,
    warmup: Warmup = None,
    weight_decay: Decay = None,
    clip: Clip = None,
    gather: Gather = None,
    components: Annotated[int, typer.Option("--components", min=1, help="Of the image, for first sentences.")] = 32,
    smoothing: Annotated[float, typer.Option("--smoothing", min=0, max=1, help="Of labels.")] = 0.1,
    frozen_positions: Positions = None,
    precision: Precision = "auto",
    device: Device = "auto",
    workers: Workers = None,
    save_every: SaveEvery = None,
    seed: Seed = None,
    missing: o.OnMissing = o.Missing.error,
    resume: Resume = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """The LongCLIP stage: room for 248 tokens, long captions against images, first sentences against coarse ones.

    Example: captious train longclip --data long.jsonl --images photos/ --out my-longclip/
    """
    from captious.training.assembly import Choices

    _run("longclip", locals(), Choices(components=components, smoothing=smoothing, scale=4.6052))


@app.command()
def specs(
    data: Data,
    out: Out,
    base: Base,
    images: o.Images = None,
    weights: Annotated[str, typer.Option("--weights", help="Of contrast, positive and negative hinge.")] = "1,8,0.8",
    margin: Annotated[str, typer.Option("--margin", help="code, paper, or a number in logit units.")] = "code",
    shuffle: Annotated[
        float, typer.Option("--shuffle", min=0, max=1, help="Share of negatives with words mixed.")
    ] = 0.9,
    shuffle_rows: Annotated[
        bool, typer.Option("--shuffle-rows", help="Mix those of the first rows, as published, not by a coin.")
    ] = False,
    negatives: Annotated[
        str, typer.Option("--negatives", help="dataset, epoch (drawn anew), batch, or given (wrong_units).")
    ] = "dataset",
    contrast: Annotated[
        str, typer.Option("--contrast", help="text-to-image, as published, or both.")
    ] = "text-to-image",
    grammar: Annotated[
        str, typer.Option("--grammar", help="Of detail units, where rows have none: code, paper.")
    ] = "code",
    lock: Lock = "",
    image_features: Known = None,
    validate: Validate = None,
    validate_every: ValidateEvery = None,
    epochs: Epochs = None,
    batch: Batch = None,
    accumulate: Accumulate = None,
    together: Together = None,
    lr: Rate = None,
    warmup: Warmup = None,
    weight_decay: Decay = None,
    clip: Clip = None,
    gather: Gather = None,
    head_lr: HeadRate = None,
    augment: Augment = None,
    frozen_positions: Positions = None,
    precision: Precision = "auto",
    device: Device = "auto",
    workers: Workers = None,
    save_every: SaveEvery = None,
    seed: Seed = None,
    missing: o.OnMissing = o.Missing.error,
    resume: Resume = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """Specificity: a right detail more must raise the score, a wrong one must lower it.

    Example: captious train specs --data long.jsonl --images photos/ --base my-longclip/ --out my-specs/
    """
    from captious.errors import InputError, nearest
    from captious.training.assembly import Choices
    from captious.training.specs import weights_of
    from captious.training.triplets import SOURCES

    if negatives not in SOURCES:
        raise InputError(f"--negatives {negatives}: expected {', '.join(SOURCES)}{nearest(negatives, SOURCES)}")
    choices = Choices(
        weights=weights_of(weights),
        margin=margin,
        negatives=negatives,  # type: ignore[arg-type]
        shuffle=shuffle,
        shuffle_rows=shuffle_rows,
        contrast=contrast,
        grammar=grammar,
        image_features=image_features,
    )
    _run("specs", locals(), choices)


def _run(name: Name, given: dict[str, Any], choices: Choices) -> None:
    """Train as the options say, with progress on standard error."""
    from captious.report import terminal
    from captious.training.run import Job, train
    from captious.training.settings import chosen
    from captious.training.show import outcome_lines, progress

    given["lock"] = tuple(part.strip() for part in given["lock"].split(",") if part.strip())
    new, towers = given.get("new"), (given.get("vision"), given.get("text"))
    job = Job(
        name,
        given["data"],
        given["out"],
        chosen(name, new is not None, towers != (None, None), **given),
        images=given["images"],
        base=given["base"],
        new=new,
        towers=towers,
        heads=given.get("heads", "residual"),
        choices=choices,
        validate=given["validate"],
        resume=given["resume"],
        overwrite=given["overwrite"],
        skip_missing=given["missing"] is o.Missing.skip,
    )
    with progress() as (report, say):
        outcome = train(job, report, say)
    _tell(outcome, given["as_json"], outcome_lines(outcome), terminal.messages())
    if not outcome.finished:
        raise typer.Exit(130)


def _tell(outcome: Outcome, as_json: bool, lines: list[str], console: Any) -> None:
    from captious.training import processes

    if not processes.first_here():
        return
    if as_json:
        record = {**vars(outcome), "folder": str(outcome.folder), "best": outcome.best and str(outcome.best)}
        typer.echo(json.dumps(record, indent=2))
    else:
        typer.echo("\n".join(lines))
    if not outcome.finished:
        console.print(
            f"stopped after step {outcome.steps} of {outcome.of}; the same command with --resume goes on from there",
            highlight=False,
        )
