"""``captious probe``: what encoders, painters and metrics can distinguish, and what captions invent."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated, Literal

import click

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Only
from captious.cli.session import (
    JUDGES,
    EditNames,
    Encoders,
    Grammar,
    Imagination,
    Items,
    Label,
    Metrics,
    ObjectVocabulary,
    Out,
    Prefix,
    Session,
    SystemFiles,
    Tagger,
)
from captious.errors import InputError
from captious.options import Argument, Option, Reading

app = CommandGroup("probe")
# Options of a session, by name: of results, of models and of judges.
RESULT = ("samples", "seed", "level", "out", "overwrite", "json", "latex", "csv")
MODELS = ("device", "batch", "precision", "cache", "workers", "upright")
# The options of a probe of images that needs no references.
ProbeSession = Annotated[Session, Only("images", *RESULT, *MODELS)]
Captions = Annotated[str, Argument("Captions by image: COCO annotations, JSON, JSONL, CSV, Parquet.")]
# Default where an image may have several captions.
SEVERAL = Session(Reading(several=True))
CLIP = ("openai/clip-vit-base-patch32",)
METRICS = ("clipscore", "specs")


@command(app)
def specificity(
    pairs: Annotated[str, Argument("Rows of units and wrong_units, or of captions to be cut; see the docs.")],
    session: Annotated[Session, Only("references", "images", *RESULT, *MODELS)],
    metrics: Metrics = METRICS,
    counting: Annotated[
        Literal["pooled", "macro", "legacy"],
        Option("Count all steps, the mean over captions, or as the authors' code."),
    ] = "pooled",
    fitting: Annotated[bool, Option("Use only texts that fit every metric's encoder.")] = False,
    control: Annotated[bool, Option("Also score with wrong images: what only the words reveal.")] = False,
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
def retrieval(
    captions: Captions, session: ProbeSession = SEVERAL, encoder: Encoders = CLIP, prefix: Prefix = ""
) -> None:
    """Recall at 1, 5 and 10 from captions to images and back, several captions per image.

    Example: captious probe retrieval captions.jsonl --images photos/ --encoder captious-mini,captious-mini-specs
    """
    from captious.probes.retrieval import probe_retrieval

    with session.working() as step:
        result = probe_retrieval(
            session.read_and_warn(captions), encoder, session.resampling, prefix=prefix, progress=step
        )
    session.deliver(result)


@command(app)
def hubness(
    captions: Captions,
    session: ProbeSession = SEVERAL,
    encoder: Encoders = CLIP,
    prefix: Prefix = "",
    k: Annotated[int, Option("Number of nearest neighbors.", min=1)] = 10,
) -> None:
    """Skewness of the k-occurrences in both directions, and the worst hubs: are a few vectors near everything?

    Example: captious probe hubness captions.jsonl --images photos/ --encoder captious-mini,captious-mini-specs
    """
    from captious.probes.hubness import probe_hubness

    with session.working() as step:
        result = probe_hubness(
            session.read_and_warn(captions), encoder, session.resampling, k=k, prefix=prefix, progress=step
        )
    session.deliver(result)


@command(app)
def classification(
    labels: Annotated[str, Argument("Rows of an image and its label.")],
    session: ProbeSession,
    encoder: Encoders = CLIP,
    classes: Annotated[
        Path | None, Option("File of class names, one per line; by default the labels in the data.", metavar="FILE")
    ] = None,
    templates: Annotated[
        Path | None, Option("File of templates, one per line, each with {} for the name.", metavar="FILE")
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
        tuple[str, ...], Argument("Files of image, caption and negative (caption2 too); or of captions only.")
    ],
    session: ProbeSession,
    metrics: Metrics = METRICS,
    perturbations: Annotated[
        tuple[str, ...] | None,
        Option("Word orders for captions without negatives; by default the four of ARO.", metavar="NAMES"),
    ] = None,
    text_model: Annotated[
        str | None,
        Option("Compare only the texts of SugarCrepe++, by this sentence encoder; needs no images.", metavar="MODEL"),
    ] = None,
    exclude: Annotated[
        str | None, Option("Categories that a second mean leaves out, one per line, as in ARO.", metavar="FILE")
    ] = None,
) -> None:
    """Right captions against wrong ones: pair files as in SugarCrepe (++), or ARO's word-order tests of captions.

    Example: captious probe compositionality swap_obj.json swap_att.json --images photos/ --metrics clipscore,specs
    Example: captious probe compositionality swap_obj.json --text-model all-MiniLM-L6-v2
    Example: captious probe compositionality visual_genome_relation.json --images images/ --exclude symmetric.txt
    """
    from captious.edits.orders import ARO
    from captious.metrics.registry import parse_all
    from captious.probes.compositionality import probe_compositionality, probe_texts, read_contests

    resampling = session.resampling
    if text_model is not None:
        with session.working() as step:
            step("encoding texts")
            texts = probe_texts(read_contests(pairs, text_only=True), text_model, resampling)
        session.deliver(texts)
        return
    parsed = parse_all(metrics)
    with session.working() as step:
        contests = read_contests(
            pairs,
            session.reading.images,
            perturbations=perturbations or ARO,
            seed=resampling.seed,
            exclude=exclude,
        )
        result = probe_compositionality(contests, parsed, resampling, step)
    session.deliver(result)


@command(app)
def hallucination(
    systems: SystemFiles,
    session: Annotated[
        Session,
        # `Only` takes names of options; the tuples just keep the lines short.
        Only(
            *("references", "images", "items", "missing", "several", "format", "id_column", "candidate_column"),
            "unpack_limit",
            *(*RESULT, "device", "batch", "precision", "cache"),
        ),
    ],
    metric: Annotated[
        str, Option('CHAIR with its parameters, such as "chair(objects=objects.parquet)".', metavar="METRIC")
    ] = "chair",
) -> None:
    """Which objects captions invent, with which real ones, where in the caption, and against its length (CHAIR).

    Systems are shown side by side, with paired tests against the first. The objects of the images come from a column of
    the captions, or from a table: captious make objects.

    Example: captious probe hallucination greedy.jsonl opera.jsonl --metric "chair(objects=objects.parquet)" --out page/
    """
    from captious.probes.hallucination import probe_hallucination

    with session.working() as step:
        captions = {name: session.read_and_warn(path) for name, path in systems.files().items()}
        result = probe_hallucination(
            captions, metric, session.resampling, missing=session.reading.missing, progress=step
        )
    session.deliver(result)


@command(app)
def stress(
    session: Annotated[
        Session,
        # `Only` takes names of options; the tuples just keep the lines short.
        Only(
            *("references", "images", "missing", "format", "id_column", "references_id_column", "candidate_column"),
            "unpack_limit",
            *("references_column", *RESULT, "interval", *MODELS, *JUDGES),
        ),
    ],
    captions: Annotated[str | None, Argument("Captions by id, in the formats of captious score.")] = None,
    metrics: Metrics = ("bleu(n=4)", "rouge", "cider"),
    edits: EditNames = ("all",),
    items: Items = 200,
    pairs: Annotated[
        tuple[str, ...], Option("Files of right and wrong captions.", flags=("-p",), metavar="FILES")
    ] = (),
    vocabulary: ObjectVocabulary = "coco-repaired",
    list_: Annotated[bool, Option("Only print the list of edits.")] = False,
) -> None:
    """Print the stress card of metrics: what wrong, damaged, harmless and padded captions do to each of them.

    The same items are drawn for all metrics. A card has a verdict for each edit, dose curves, exchange rates, and the
    captions on which a metric reacts worst; it has no overall score. --dry-run prints the requests to chat models.

    Example: captious probe stress preds.jsonl -r refs.json --images photos/ --metrics "cider,clipscore" --out card/
    Example: captious probe stress preds.jsonl -r refs.json --metrics "clair(gpt-4o-mini)" --items 50 --dry-run
    Example: captious probe stress --list
    """
    from captious.edits.edit_table import find_edits, list_edits
    from captious.metrics.registry import parse_all
    from captious.probes import plan_stress, run_stress

    if list_:
        session.deliver(list_edits())
        return
    if captions is None:
        raise InputError("no captions, expected a file, or --list")
    parsed, wanted, reading = parse_all(metrics), find_edits(edits), session.reading
    with session.working() as step:
        step("editing")
        test = plan_stress(
            session.read_and_warn(captions),
            wanted,
            items=items,
            seed=session.resampling.seed,
            pairs=pairs,
            images=reading.images,
            vocabulary=vocabulary,
        )
        result = None if session.runtime.judging.dry_run else run_stress(test, parsed, session.resampling, step)
    if result is None:
        session.deliver_plan(test.sets(), metrics)
    else:
        session.deliver(result)


@command(app)
def masking(
    texts: Annotated[str, Argument("Texts by id; '-' for standard input.")],
    session: Annotated[Session, Only(*RESULT, "device", "batch", "precision", "cache")],
    metric: Imagination = "imagine",
    tagger: Tagger = "captious",
) -> None:
    """Which parts of speech the pictures depend on: each word is removed and the rest painted again (ImaginE).

    Example: captious probe masking captions.jsonl --metric "imagine(seeds=2,steps=20)" --out masking/
    """
    from captious.probes.masking import probe_masking

    with session.working() as step:
        result = probe_masking(session.read_and_warn(texts), metric, session.resampling, tagger=tagger, progress=step)
    session.deliver(result)


@command(app)
def entities(
    gallery: Annotated[Path, Argument("Folder that captious make pictures wrote.")],
    out: Out,
    session: Annotated[Session, Only("overwrite", "json")],
    tagger: Tagger = "captious",
) -> None:
    """Tasks for raters: which of the things that a text names can they see in its picture?

    Raters copy the file and fill in "rater" and "seen"; captious probe recall scores it.
    """
    from captious._core.files import refuse_existing, write_atomically
    from captious.probes.entities import tasks
    from captious.render.exports import write_jsonl

    refuse_existing(out, session.output.overwrite)
    rows = tasks(gallery, tagger)
    with write_atomically(out) as draft:
        write_jsonl(draft, rows)
    questions = sum(len(row["entities"]) for row in rows)
    facts = {"tasks": len(rows), "entities": questions, "file": str(out)}
    click.echo(
        json.dumps(facts, indent=2)
        if session.output.json
        else f"{out}: {len(rows):,} pictures, {questions:,} questions"
    )


@command(app)
def recall(
    answers: Annotated[tuple[str, ...], Argument("Filled-in tasks, of one or more raters and painters.")],
    session: Annotated[Session, Only(*RESULT)],
) -> None:
    """Entity recall by painter from what raters saw, and how well raters agree.

    Example: captious probe recall mine.jsonl yours.jsonl --out recall/
    """
    from captious.probes.entities import read_answers
    from captious.probes.entities import recall as score

    with session.working():
        result = score(read_answers(answers), session.resampling, ", ".join(answers))
    session.deliver(result)
