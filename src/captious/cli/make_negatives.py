"""``captious make negatives``: wrong captions of five kinds (UMIC)."""

from __future__ import annotations

from dataclasses import replace
from typing import Annotated

import click

from captious._core.files import refuse_existing
from captious.cli.params import Only
from captious.cli.session import Encoder, ImageFeatures, Legacy, Look, Session, Tagger, deliver
from captious.errors import InputError
from captious.options import Argument, Option, Resampling


def negatives(
    captions: Annotated[str, Argument("Captions by image id, in every format of references.")],
    session: Annotated[
        Session, Only("out", "overwrite", "json", "images", "id_column", "references_column", "seed")
    ] = Session(resampling=Resampling(seed=0)),
    kinds: Annotated[tuple[str, ...], Option("Kinds of wrong captions.", flags=("-k",), metavar="KINDS")] = (
        *("hard", "random", "substitute", "shuffle", "repeat"),
    ),
    encoder: Encoder = "",
    image_features: ImageFeatures = None,
    look: Look = 0,
    tagger: Tagger = "captious",
    legacy: Legacy = False,
) -> None:
    """Make wrong captions of five kinds, each with what was changed: UMIC learns from them.

    Similar images, for hard negatives, are found by --images with --encoder, or by --image-features.

    Example: captious make negatives captions.jsonl --look 20
    """
    from captious._core.languages import refuse_other_than_english
    from captious.edits.lexicon import CaptionCorpus
    from captious.io.formats import read_rows
    from captious.io.join import gather_references
    from captious.syntax.tagging import find_tagger
    from captious.train.negative_records import NegativeSample, write_negatives
    from captious.train.negatives import check_kinds, make_negatives
    from captious.train.similar_images import compute_image_vectors

    output, reading, seed = session.output, session.reading, session.resampling.seed
    wanted, tag = check_kinds(kinds), find_tagger(tagger)
    if output.out is None and not look and not output.json:
        raise InputError("nothing to do with the negatives: expected --out FILE, --look NUMBER or --json")
    if "hard" not in wanted and (reading.images or encoder or image_features):
        raise InputError("--images, --encoder and --image-features are for hard negatives; add hard to --kinds")
    refuse_existing(output.out, output.overwrite)
    # The file is written below, so neither the session nor `deliver` should write it.
    with replace(session, output=replace(output, out=None)).working() as step:
        gathered = gather_references(read_rows(captions), reading).references
        if not gathered:
            raise InputError(f"{captions}: contains no captions")
        corpus = CaptionCorpus.of(gathered, captions)
        refuse_other_than_english(captions, "negatives are made", corpus.texts)
        vectors, warnings = None, tuple[str, ...]()
        if "hard" in wanted:
            vectors, warnings = compute_image_vectors(corpus, reading.images, encoder, image_features)
        step("making wrong captions")
        wrong = make_negatives(corpus, wanted, seed=seed, features=vectors, tagger=tag, legacy=legacy)
        if output.out is not None:
            step("writing")
            write_negatives(wrong, output.out)
    deliver(NegativeSample(wrong, look, seed, warnings), replace(output, out=None))
    if output.out is not None:
        click.echo(f"written: {output.out}", err=True)
