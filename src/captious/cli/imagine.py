"""``captious imagine``: pictures of texts to look at, what they depend on, and whether raters see what texts name."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o
from captious.options import LEVEL, SAMPLES, SEED

if TYPE_CHECKING:
    from captious.captions import CaptionSet
    from captious.models.encoder import Encoder
    from captious.models.painters import Painter

app = typer.Typer(help="Texts judged by the pictures they paint (ImaginE).", no_args_is_help=True)

Texts = Annotated[str, typer.Argument(help="Texts by id, with or without references and ratings; '-' for stdin.")]
PainterName = Annotated[
    str, typer.Option("--painter", help="drawn, a diffusers pipeline by folder or hub id, or guided:DECODER.")
]
Seeds = Annotated[int, typer.Option("--seeds", min=1, help="Pictures of each text.")]
Weights = Annotated[str, typer.Option("--encoder", help="Encoder; captious-mini for drawn, else CLIP ViT-B/32.")]
Steps = Annotated[int | None, typer.Option("--steps", min=1, help="Steps of the painter.")]
Guidance = Annotated[float | None, typer.Option("--guidance", help="Guidance of a pipeline.")]
Scheduler = Annotated[str | None, typer.Option("--scheduler", help="Such as DDIMScheduler.")]
Size = Annotated[int | None, typer.Option("--size", min=1, help="Side of the pictures in pixels.")]
Guide = Annotated[str | None, typer.Option("--guide", help="Encoder that guides a guided: painter.")]
Safety = Annotated[bool, typer.Option("--safety", help="Keep a pipeline's safety checker.")]
Compile = Annotated[bool, typer.Option("--compile", help="On a GPU: compile first, for many pictures.")]
Tagger = Annotated[str, typer.Option("--tagger", help="captious or spacy.")]
DEFAULT = "drawn"


@app.command()
def paint(
    texts: Texts,
    out: Annotated[Path, typer.Option("--out", "-o", help="Folder of the gallery.")],
    references: o.References = None,
    painter: PainterName = DEFAULT,
    seeds: Seeds = 5,
    encoder: Weights = "",
    most: Annotated[int, typer.Option("--most", min=1, help="Texts on the page.")] = 100,
    rating: Annotated[str | None, typer.Option("--rating", help="Column of the ratings.")] = None,
    steps: Steps = None,
    guidance: Guidance = None,
    scheduler: Scheduler = None,
    size: Size = None,
    guide: Guide = None,
    safety: Safety = False,
    compile: Compile = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
) -> None:
    """Paint texts and write a gallery: pictures by seed, likeness to the reference, disagreement with people.

    Example: captious imagine paint ratings.jsonl --references references.json --painter drawn --out gallery/
    """
    from captious._files import refuse_occupied
    from captious.models.painters import Options, load_painter
    from captious.probes import pictures as gallery
    from captious.probes.finding import plain_name

    refuse_occupied(out, overwrite, gallery.MARKER)
    options = Options(steps, guidance, scheduler, size, guide, safety, compile)
    with o.encoding(device, batch, precision, no_cache, False) as step:
        captions, human = _read(texts, references, rating)
        empty = sum(not any(text.strip() for text in captions.candidates[item][:1]) for item in range(len(captions)))
        step("loading the painter")
        found = load_painter(painter, options)
        judge = _encoder(encoder, painter) if captions.references.counts.any() else None
        step("painting")
        shown = gallery.entries(captions, found, judge, range(seeds), human, most)
        signature = _signature(found, judge, seeds)
        missing = gallery.save(
            shown, found, range(seeds), out, f"{plain_name(captions.name)}: imagined", signature, overwrite
        )
    if as_json:
        facts = {
            "gallery": str(out),
            "texts": len(shown),
            "empty": empty,
            "unpainted": missing,
            "signature": signature,
        }
        typer.echo(json.dumps(facts, indent=2))
    else:
        left = f", {empty:,} empty ones left out" if empty else ""
        typer.echo(f"{len(shown):,} texts{left}, {missing:,} pictures could not be painted\n{signature}")
    typer.echo(f"written: {out / 'index.html'}", err=True)


@app.command()
def tags(
    texts: Texts,
    painter: PainterName = DEFAULT,
    seeds: Seeds = 5,
    encoder: Weights = "",
    tagger: Tagger = "captious",
    penn: Annotated[bool, typer.Option("--penn", help="Penn tags instead of Universal ones.")] = False,
    steps: Steps = None,
    guidance: Guidance = None,
    scheduler: Scheduler = None,
    size: Size = None,
    guide: Guide = None,
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    no_cache: o.NoCache = False,
) -> None:
    """Which parts of speech the pictures depend on: each word taken out, the rest painted again (Figures 5 and 7).

    Example: captious imagine tags captions.jsonl --painter drawn --out tags/
    """
    from captious._files import refuse_occupied
    from captious.cli.analyse.shared import deliver
    from captious.errors import InputError
    from captious.models.painters import Options, load_painter
    from captious.options import Resampling
    from captious.probes.pictures import influence_finding, influences, universal

    how = Resampling(samples, seed, level)
    if out is not None:
        refuse_occupied(out, overwrite)
    with o.encoding(device, batch, precision, no_cache, False) as step:
        captions, _ = _read(texts, None, None)
        given = list(dict.fromkeys(text for text in captions.candidates.values if text.strip()))
        if not given:
            raise InputError(f"{captions.name}: every text is empty")
        found, judge = (
            load_painter(painter, Options(steps, guidance, scheduler, size, guide)),
            _encoder(encoder, painter),
        )
        step("painting")
        grouping = (lambda token, tag: tag if tag.isalpha() else "") if penn else universal
        influence, base, missing = influences(given, found, judge, seeds, grouping, tagger, how)
        signature = _signature(found, judge, seeds)
        finding = influence_finding(captions.name, influence, base, missing, signature, how)
    deliver(finding, out, overwrite, as_json)


@app.command()
def entities(
    gallery: Annotated[Path, typer.Argument(help="Folder that captious imagine paint wrote.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="JSONL of tasks to write.")],
    tagger: Tagger = "captious",
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """Tasks for raters: which of the things that a text names can they see in its picture (Table 5).

    Raters copy the file, fill in ``rater`` and ``seen``, and ``captious imagine recall`` scores it.
    """
    from captious._files import whole_file
    from captious.errors import InputError
    from captious.probes.entities import tasks

    if out.exists() and not overwrite:
        raise InputError(f"{out}: is there already; add --overwrite to replace it")
    rows = tasks(gallery, tagger)
    with whole_file(out) as draft:
        draft.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")
    facts = {"tasks": len(rows), "entities": sum(len(row["entities"]) for row in rows), "file": str(out)}
    typer.echo(
        json.dumps(facts, indent=2) if as_json else f"{out}: {len(rows):,} pictures, {facts['entities']:,} questions"
    )


@app.command()
def recall(
    answers: Annotated[list[str], typer.Argument(help="Filled-in tasks, of one or more raters and painters.")],
    samples: o.Samples = SAMPLES,
    seed: o.Seed = SEED,
    level: o.Level = LEVEL,
    out: o.Out = None,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
) -> None:
    """Entity recall by painter from what raters saw, with intervals over texts."""
    from captious.cli.analyse.shared import deliver
    from captious.options import Resampling
    from captious.probes.entities import read_answers, recall_finding
    from captious.probes.entities import recall as recalled

    how = Resampling(samples, seed, level)
    found = recalled(read_answers(answers), how)
    deliver(recall_finding(", ".join(answers), found, how), out, overwrite, as_json)


def _read(texts: str, references: str | None, rating: str | None) -> tuple[CaptionSet, Any]:
    """Texts, and the mean rating of each where the rows have ratings."""
    from captious.errors import InputError
    from captious.io.columns import RATING_COLUMNS
    from captious.io.formats import rows_of
    from captious.io.read import read
    from captious.study.ratings import open_ratings
    from captious.study.recipes import Layout

    first = next(iter(rows_of(texts)), None) if texts != "-" else None
    columns = () if first is None else tuple(first.fields)
    if rating is not None or any(name in columns for name in RATING_COLUMNS):
        ratings = open_ratings(texts, references, columns=Layout(texts, rating=rating))
        if ratings.captions is None:
            raise InputError(f"{texts}: ratings without captions")
        return ratings.captions, ratings.mean
    return read(texts, references), None


def _encoder(weights: str, painter: str) -> Encoder:
    from captious.metrics.imagine import Imagine

    return Imagine(painter=painter, weights=weights).encoder()


def _signature(painter: Painter, encoder: Encoder | None, seeds: int) -> str:
    from captious.models.encoder import encoder_id

    told = f"painter:{painter.name}#{painter.fingerprint}|settings:{painter.settings}|seeds:0-{seeds - 1}"
    return told if encoder is None else f"{told}|encoder:{encoder_id(encoder)}"
