"""``captious train umic``: a metric that ranks true captions above wrong ones, of your own."""

from __future__ import annotations

from typing import Annotated

import typer

from captious.cli import options as o
from captious.cli.train import shared as t

ALL = "hard,random,substitute,shuffle,repeat"


def umic(
    data: t.Data,
    out: t.Out,
    images: o.Images = None,
    backbone: Annotated[
        str, typer.Option("--backbone", help="fusion, vilt, blip; or a folder or hub id of one to go on from.")
    ] = "fusion",
    encoder: Annotated[str, typer.Option("--encoder", help="Encoder under a fusion; CLIP ViT-B/32 if none.")] = "",
    regions: Annotated[str | None, typer.Option("--regions", help="Region features, for a UNITER backbone.")] = None,
    kinds: Annotated[str, typer.Option("--kinds", "-k", help="Of negatives, with commas between.")] = ALL,
    margin: Annotated[float, typer.Option("--margin", help="Between a true caption's score and a wrong one's.")] = 0.2,
    draws: Annotated[
        int, typer.Option("--draws", min=0, help="Sets of negatives, taken in turn by epochs; 0: new ones in each.")
    ] = 3,
    width: Annotated[int, typer.Option("--width", min=8, help="Of a fusion.")] = 256,
    layers: Annotated[int, typer.Option("--layers", min=1, help="Of a fusion.")] = 2,
    dropout: Annotated[float, typer.Option("--dropout", min=0, max=0.9, help="Of a fusion.")] = 0.1,
    prefix: Annotated[str, typer.Option("--prefix", help="Put before every caption, for a fusion.")] = "",
    validate: t.Validate = None,
    hold_out: Annotated[
        float, typer.Option("--hold-out", min=0, max=0.9, help="Share of images to validate on, without --validate.")
    ] = 0.05,
    validate_every: t.ValidateEvery = None,
    early_stop: Annotated[
        int, typer.Option("--early-stop", min=0, help="End after so many validations without a new best.")
    ] = 0,
    epochs: t.Epochs = None,
    batch: Annotated[int | None, typer.Option("--batch", min=1, help="Captions per process and step.")] = None,
    accumulate: t.Accumulate = None,
    lr: t.Rate = None,
    warmup: Annotated[float, typer.Option("--warmup", min=0, max=0.2, help="Share of all steps.")] = 0.1,
    weight_decay: t.Decay = None,
    clip: t.Clip = None,
    precision: t.Precision = "auto",
    device: t.Device = "auto",
    workers: t.Workers = None,
    save_every: t.SaveEvery = None,
    seed: t.Seed = None,
    missing: o.OnMissing = o.Missing.error,
    resume: t.Resume = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """UMIC: learn to rank a true caption above five kinds of wrong ones.

    Example: captious train umic --data captions.jsonl --images photos/ --encoder captious-mini --out my-umic/
    """
    from dataclasses import fields, replace

    from captious.train.negatives import check
    from captious.train.schedule import Settings
    from captious.train.show import progress
    from captious.train.umic import NEW_RATE, SETTINGS, Job, train

    given = locals()
    names = {field.name for field in fields(Settings)} - {"warmup"}
    wanted = {name: value for name, value in given.items() if name in names and value is not None}
    usual = {"lr": NEW_RATE} if backbone == "fusion" else {}
    job = Job(
        data,
        out,
        replace(SETTINGS, **{**usual, **wanted}),
        images=images,
        backbone=backbone,
        encoder=encoder,
        regions=regions,
        kinds=check(kinds.split(",")),
        margin=margin,
        draws=draws,
        warmup=warmup,
        sizes={"width": width, "layers": layers, "dropout": dropout} if backbone == "fusion" else {},
        prefix=prefix,
        validate=validate,
        hold_out=hold_out,
        early_stop=early_stop,
        resume=resume,
        overwrite=overwrite,
        skip_missing=missing is o.Missing.skip,
    )
    with progress() as (report, say):
        outcome = train(job, report, say)
    t.finish(outcome, as_json)
