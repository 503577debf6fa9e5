"""``captious make objects``: the table of the objects in images (CHAIR)."""

from __future__ import annotations

from typing import Annotated

import click

from captious._core.files import refuse_existing
from captious.cli.params import Only
from captious.cli.session import ObjectVocabulary, Out, Session, Tagger
from captious.options import Argument, LemmaRule, Option


def objects(
    annotations: Annotated[
        tuple[str, ...],
        Argument("COCO's instances_*.json, and captions_*.json for human captions; several splits are allowed."),
    ],
    out: Out,
    session: Annotated[Session, Only("overwrite")],
    vocabulary: ObjectVocabulary = "coco",
    lemmas: Annotated[
        tuple[LemmaRule, ...],
        Option("How words of captions are reduced: singularize, wordnet, spacy.", metavar="NAMES"),
    ] = ("singularize", "wordnet"),
    tagger: Tagger = "captious",
) -> None:
    """Make the table of the objects in images, for CHAIR: annotated ones, and those that human captions name.

    Example: captious make objects instances_val2014.json captions_val2014.json --out objects.parquet
    """
    from captious.metrics.hallucination.truth import build_table

    refuse_existing(out, session.output.overwrite)
    with session.working() as step:
        table = build_table(annotations, vocabulary, lemmas, tagger, step)
    table.save(out)
    means = {name: sum(map(len, lists)) / len(lists) for name, lists in table.sources.items()}
    facts = ", ".join(f"{name} {mean:.2f}" for name, mean in means.items())
    click.echo(f"{out}: {len(table.rows):,} images; objects of an image: {facts}")
