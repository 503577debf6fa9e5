"""``captious probe``: what encoders, painters and metrics can tell apart, and what captions invent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import typer

from captious.cli.params import Only, command
from captious.cli.session import (
    Encoders,
    Grammar,
    Imagination,
    Label,
    Metrics,
    Out,
    Prefix,
    Session,
    SystemFiles,
    Tagger,
)
from captious.options import Argument, Option, Reading

app = typer.Typer(
    help="Encoders, painters, metrics and captions under test: details, retrieval, hubness, classes, word order, "
    "pictures, invented objects.",
    no_args_is_help=True,
)
RESULT = ("samples", "seed", "level", "out", "overwrite", "json", "latex", "csv")
MODELS = ("device", "batch", "precision", "cache", "workers", "upright")
Shown = Annotated[Session, Only("images", *RESULT, *MODELS)]
Captions = Annotated[str, Argument("Captions by image: COCO annotations, JSON, JSONL, CSV, Parquet.")]
SEVERAL = Session(Reading(several=True))
CLIP = ("openai/clip-vit-base-patch32",)
METRICS = ("clipscore", "specs")


@command(app)
def specificity(
    pairs: Annotated[str, Argument("Rows of units and wrong_units, or of captions to be cut; see the docs.")],
    session: Annotated[Session, Only("references", "images", *RESULT, *MODELS)],
    metrics: Metrics = METRICS,
    counting: Annotated[
        Literal["pooled", "macro", "legacy"], Option("All steps, the mean over captions, or the authors' code.")
    ] = "pooled",
    fitting: Annotated[bool, Option("Only as far as all texts fit every metric's encoder.")] = False,
    control: Annotated[bool, Option("Also against wrong images: what the words alone give away.")] = False,
    grammar: Grammar = "code",
) -> None:
    """Specificity Rates: does a score rise with a right detail and fall with a wrong one?

    Example: captious probe specificity pairs.jsonl --images photos/ --metrics clipscore,specs
    """
    from captious.metrics.registry import parse_all
    from captious.probes.specificity import probe_specificity, read_details

    parsed, reading, resampling = parse_all(metrics), session.reading, session.resampling
    with session.working() as step:
        details = read_details(pairs, reading.images, reading.references, seed=resampling.seed, grammar=grammar)
        result = probe_specificity(
            details, parsed, resampling, counting=counting, fitting=fitting, control=control, progress=step
        )
    session.deliver(result)


@command(app)
def retrieval(captions: Captions, session: Shown = SEVERAL, encoder: Encoders = CLIP, prefix: Prefix = "") -> None:
    """Recall at 1, 5 and 10 from captions to images and back, several captions per image.

    Example: captious probe retrieval captions.jsonl --images photos/ --encoder captious-mini,captious-mini-specs
    """
    from captious.probes.retrieval import probe_retrieval

    with session.working() as step:
        result = probe_retrieval(session.read(captions), encoder, session.resampling, prefix=prefix, progress=step)
    session.deliver(result)


@command(app)
def hubness(
    captions: Captions,
    session: Shown = SEVERAL,
    encoder: Encoders = CLIP,
    prefix: Prefix = "",
    k: Annotated[int, Option("How many nearest count.", min=1)] = 10,
) -> None:
    """Skewness of the k-occurrences both ways, and the worst hubs: are a few vectors near to everything?

    Example: captious probe hubness captions.jsonl --images photos/ --encoder captious-mini,captious-mini-specs
    """
    from captious.probes.hubness import probe_hubness

    with session.working() as step:
        result = probe_hubness(session.read(captions), encoder, session.resampling, k=k, prefix=prefix, progress=step)
    session.deliver(result)


@command(app)
def classification(
    labels: Annotated[str, Argument("Rows of an image and its label.")],
    session: Shown,
    encoder: Encoders = CLIP,
    classes: Annotated[
        Path | None, Option("File of class names, one a line; else the labels that occur.", metavar="FILE")
    ] = None,
    templates: Annotated[
        Path | None, Option("File of templates, one a line, each with {} for the name.", metavar="FILE")
    ] = None,
    label: Label | None = None,
) -> None:
    """Zero-shot accuracy at 1 and 5 of the nearest class name.

    Example: captious probe classification labels.csv --images photos/ --encoder captious-mini
    """
    from captious.probes.classification import TEMPLATES, probe_classification, read_labeled, read_templates

    with session.working() as step:
        wording = read_templates(templates) if templates is not None else TEMPLATES
        labeled = read_labeled(labels, session.reading.images, classes, label)
        result = probe_classification(labeled, encoder, session.resampling, templates=wording, progress=step)
    session.deliver(result)


@command(app)
def compositionality(
    pairs: Annotated[
        tuple[str, ...], Argument("Files of image, caption and negative (caption2 too); or of captions alone.")
    ],
    session: Shown,
    metrics: Metrics = METRICS,
    perturbations: Annotated[
        tuple[str, ...] | None, Option("Of captions alone: word orders, by default the four of ARO.", metavar="NAMES")
    ] = None,
) -> None:
    """Right captions against wrong ones: pair files as in SugarCrepe (++), captions alone with ARO's order tests.

    Example: captious probe compositionality swap_obj.json swap_att.json --images photos/ --metrics clipscore,specs
    """
    from captious.metrics.registry import parse_all
    from captious.probes.compositionality import ARO, probe_compositionality, read_contests

    parsed, resampling = parse_all(metrics), session.resampling
    with session.working() as step:
        contests = read_contests(
            pairs, session.reading.images, perturbations=perturbations or ARO, seed=resampling.seed
        )
        result = probe_compositionality(contests, parsed, resampling, step)
    session.deliver(result)


@command(app)
def hallucination(
    systems: SystemFiles,
    session: Annotated[
        Session,
        Only(
            *("references", "images", "items", "missing", "several", "format", "id_column", "candidate_column"),
            *(*RESULT, "device", "batch", "precision", "cache"),
        ),
    ],
    metric: Annotated[
        str, Option('CHAIR with its parameters, such as "chair(objects=objects.parquet)".', metavar="METRIC")
    ] = "chair",
) -> None:
    """Which objects captions invent, with which real ones, where in the caption, and against its length (CHAIR).

    Systems stand side by side, with paired tests against the first. The objects of the images come from a column of
    the captions, or from a table: captious make objects.

    Example: captious probe hallucination greedy.jsonl opera.jsonl --metric "chair(objects=objects.parquet)" --out page/
    """
    from captious.probes.hallucination import probe_hallucination

    with session.working() as step:
        captions = {name: session.read(path) for name, path in systems.files().items()}
        result = probe_hallucination(
            captions, metric, session.resampling, missing=session.reading.missing, progress=step
        )
    session.deliver(result)


@command(app)
def masking(
    texts: Annotated[str, Argument("Texts by id; '-' for standard input.")],
    session: Annotated[Session, Only(*RESULT, "device", "batch", "precision", "cache")],
    metric: Imagination = "imagine",
    tagger: Tagger = "captious",
) -> None:
    """Which parts of speech the pictures depend on: each word taken out, the rest painted again (ImaginE).

    Example: captious probe masking captions.jsonl --metric "imagine(seeds=2,steps=20)" --out masking/
    """
    from captious.probes.masking import probe_masking

    with session.working() as step:
        result = probe_masking(session.read(texts), metric, session.resampling, tagger=tagger, progress=step)
    session.deliver(result)


@command(app)
def entities(
    gallery: Annotated[Path, Argument("Folder that captious make pictures wrote.")],
    out: Out,
    session: Annotated[Session, Only("overwrite", "json")],
    tagger: Tagger = "captious",
) -> None:
    """Tasks for raters: which of the things that a text names can they see in its picture?

    Raters copy the file, fill in ``rater`` and ``seen``, and ``captious probe recall`` scores it.
    """
    from captious._files import refuse_existing, whole_file
    from captious.probes.entities import tasks
    from captious.render.tables import write_jsonl

    refuse_existing(out, session.output.overwrite)
    rows = tasks(gallery, tagger)
    with whole_file(out) as draft:
        write_jsonl(draft, rows)
    questions = sum(len(row["entities"]) for row in rows)
    facts = {"tasks": len(rows), "entities": questions, "file": str(out)}
    typer.echo(
        json.dumps(facts, indent=2)
        if session.output.json
        else f"{out}: {len(rows):,} pictures, {questions:,} questions"
    )


@command(app)
def recall(
    answers: Annotated[tuple[str, ...], Argument("Filled-in tasks, of one or more raters and painters.")],
    session: Annotated[Session, Only(*RESULT)],
) -> None:
    """Entity recall by painter from what raters saw, and how far raters agree.

    Example: captious probe recall mine.jsonl yours.jsonl --out recall/
    """
    from captious.probes.entities import read_answers
    from captious.probes.entities import recall as score

    with session.working():
        result = score(read_answers(answers), session.resampling, ", ".join(answers))
    session.deliver(result)
