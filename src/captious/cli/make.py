"""``captious make``: data from data: detail units, scene graphs, idf corpora, objects, edited captions, pictures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious._core.files import refuse_existing, whole_file
from captious.cli.params import Only, command
from captious.cli.session import (
    EditNames,
    Encoder,
    Grammar,
    ImageFeatures,
    Imagination,
    Items,
    Legacy,
    Look,
    ObjectVocabulary,
    Out,
    Session,
    Tagger,
    Tokenizer,
    deliver,
)
from captious.errors import InputError
from captious.options import Argument, LemmaRule, Option, Resampling

if TYPE_CHECKING:
    from captious.captions import CaptionSet
    from captious.io.rows import Row

app = typer.Typer(no_args_is_help=True)


@command(app)
def units(
    session: Annotated[Session, Only("out", "overwrite", "json", "candidate_column")],
    caption: Annotated[str | None, Argument("A caption; leave it out with --file.")] = None,
    file: Annotated[
        str | None,
        Option("Captions: JSONL, CSV, TSV, Parquet, …; - for standard input.", flags=("-f",), metavar="FILE"),
    ] = None,
    grammar: Grammar = "code",
    legacy: Legacy = False,
    auxiliaries: Annotated[bool, Option("No cut after is, are, has, …: fewer bad cuts, unlike the original.")] = False,
    surface: Annotated[bool, Option("Units as written in the caption, not tokenized.")] = False,
    tagger: Tagger = "captious",
    tags: Annotated[bool, Option("Show the tag of every word and the phrases found.")] = False,
) -> None:
    """Cut captions into detail units, the phrases that each add something (SPECS).

    Example: captious make units "A cat is lying under a blanket with fringed edges."
    """
    from captious.syntax.units import CutRules

    output = session.output
    if (caption is None) == (file is None):
        raise InputError("expected either a caption or --file with captions")
    if caption is not None and os.path.isfile(caption):  # noqa: PTH113 - it bears names as long as captions
        raise InputError(f"{caption}: is a file, not a caption; give it as --file {caption}")
    if file is None and output.out is not None:
        raise InputError("--out is for --file; a single caption is printed")
    if file is not None and tags:
        raise InputError("--tags shows one caption, not a file of them; leave it out")
    how = {"grammar": grammar, "legacy": legacy, "tagger": tagger, "text": "surface" if surface else "tokens"}
    rules = CutRules(auxiliaries=auxiliaries)
    if caption is not None:
        _print_units(caption, how, rules, tags, output.json)
        return
    refuse_existing(output.out, output.overwrite)
    lines = list(_rows_with_units(str(file), session.reading.candidate_column, how, rules))
    if output.out is None:
        typer.echo("\n".join(lines))
        return
    with whole_file(output.out) as draft:
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    typer.echo(f"{output.out}: {len(lines):,} rows", err=True)


def _print_units(caption: str, how: dict[str, Any], rules: Any, tags: bool, as_json: bool) -> None:
    from rich.text import Text

    from captious._core.languages import refuse_other_than_english
    from captious.render.terminal import output
    from captious.syntax.chunking import bracketed
    from captious.syntax.tagging import tag_texts
    from captious.syntax.units import units as cut

    refuse_other_than_english("caption", "detail units are made", [caption])
    parts = cut(caption, rules=rules, **how)
    tagged = [
        (sentence.tokens, marks, bracketed(sentence.tokens, marks, how["grammar"]))
        for sentence, marks in (tag_texts([caption], how["tagger"])[0] if tags else ())
    ]
    if as_json:
        content = {"caption": caption, "units": parts, **how, "auxiliaries": rules.auxiliaries}
        if tags:
            content["tagged"] = [{"tokens": words, "tags": marks, "phrases": text} for words, marks, text in tagged]
        typer.echo(json.dumps(content, ensure_ascii=False, indent=2))
        return
    colors = ("cyan", "green", "magenta", "yellow", "blue")
    colored = [Text(part, style=colors[number % len(colors)]) for number, part in enumerate(parts)]
    console = output()
    for words, marks, text in tagged:
        console.print(Text(" ".join(map("/".join, zip(words, marks, strict=True))), style="dim"), soft_wrap=True)
        console.print(Text(text, style="dim"), soft_wrap=True)
    console.print(Text(" | ", style="bold").join(colored), soft_wrap=True)
    for number, part in enumerate(colored, 1):
        console.print(Text(f"{number:>3}  ").append_text(part), soft_wrap=True)


def _rows_with_units(source: str, column: str | None, how: dict[str, Any], rules: Any) -> Iterator[str]:
    """The rows of a file as JSON, each with the units of its caption or of each of its captions."""
    from captious._core.languages import refuse_other_than_english
    from captious.io.formats import name_of, rows_of
    from captious.render.progress import display
    from captious.syntax.units import units as cut

    with display() as shown:
        rows = list(rows_of(source))
        captions = [_captions(row, column) for row in rows]
        texts = [text for own in captions for text in ([own] if isinstance(own, str) else own)]
        refuse_other_than_english(name_of(source), "detail units are made", texts)
        shown.step(f"cutting {len(texts):,} captions")
        parts = iter(cut(texts, rules=rules, **how))
    if not rows:
        raise InputError(f"{name_of(source)}: contains no captions")
    if blank := sum(not text.strip() for text in texts) + sum(not own for own in captions if not isinstance(own, str)):
        typer.echo(f"warning: {blank:,} empty captions have no units", err=True)
    for row, own in zip(rows, captions, strict=True):
        units = next(parts) if isinstance(own, str) else list(islice(parts, len(own)))
        yield json.dumps({**row.fields, "units": units}, ensure_ascii=False, default=str)


def _captions(row: Row, column: str | None) -> str | list[str]:
    """The caption of a row, or all of its captions."""
    from captious.io.columns import CANDIDATE_COLUMNS

    names = (column,) if column else CANDIDATE_COLUMNS
    name = next((name for name in names if name in row.fields), None)
    if name is None:
        present = ", ".join(map(str, row.fields)) or "none"
        raise InputError(f"{row.where}: no caption: found columns {present}, expected {' or '.join(names)}")
    value: str | list[str] = row.fields[name]
    for text in value if isinstance(value, list) else [value]:
        if not isinstance(text, str):
            raise InputError(f"{row.where}: {name} is {text!r}, expected a string")
    return value


@command(app)
def graphs(
    captions: Annotated[str, Argument("Captions by id, in the formats of captious score; '-' for standard input.")],
    session: Annotated[
        Session,
        Only(
            *("references", "missing", "several", "format", "id_column", "references_id_column", "candidate_column"),
            "unpack_limit",
            *("references_column", "out", "overwrite", "json", "cache"),
        ),
    ],
    parser: Annotated[str, Option("spaCy model that parses: name or folder.", metavar="MODEL")] = "en_core_web_sm",
) -> None:
    """Parse captions into scene graphs: objects, attributes, relations. With references, show what SPICE matches.

    The first captions are printed. --out graphs.jsonl has the tuples of all; --out FOLDER also has a page of drawings.

    Example: captious make graphs preds.json --out graphs.jsonl
    Example: captious make graphs preds.json --references refs.json --out graphs/
    """
    from captious.metrics.spice.listing import scene_graphs

    output = session.output
    lines = output.out if output.out is not None and Path(output.out).suffix.lower() == ".jsonl" else None
    if lines is not None:
        refuse_existing(lines, output.overwrite)
        session = replace(session, output=replace(output, out=None))
    with session.working() as step:
        result = scene_graphs(session.read(captions), parser, step)
        if lines is not None:
            step("writing")
            result.save_lines(lines)
    session.deliver(result)
    if lines is not None:
        typer.echo(f"written: {lines}", err=True)


@command(app)
def idf(
    source: Annotated[
        str, Argument("Captions by id, in every format of references; or a pickle, such as coco-val-df.p.")
    ],
    session: Annotated[Session, Only("out", "overwrite", "id_column", "references_column", "language")],
    name: Annotated[str | None, Option("Store it under this name, for cider(idf=NAME).", metavar="NAME")] = None,
    tokenizer: Tokenizer | None = None,
    items: Items | None = None,
) -> None:
    """Count in how many items each n-gram occurs, for CIDEr. The captions of one id are one item.

    A pickled table of CIDEr's reference code can be imported instead; nothing in the pickle is executed. If it does not
    say how many items it counts, pass --items. --tokenizer defaults to that of --language, or ptb. For a pickle it
    names the tokens of the table: whitespace for the tables of self-critical training, which have UNK as a word.

    Example: captious make idf captions.jsonl --name mine
    Example: captious make idf captions-zh.jsonl --name zh --language zh
    Example: captious make idf coco-train-words.p --name coco-train --tokenizer whitespace
    """
    from captious._core.languages import AUTO, chosen_tokenizer
    from captious.captions import CaptionSet
    from captious.io.formats import rows_of
    from captious.io.join import gather_references, in_language
    from captious.text.idf import DocumentFrequency, from_pickle, named_path

    out, reading = session.output.out, session.reading
    if (out is None) == (name is None):
        raise InputError("expected either --out FILE or --name NAME")
    if name is not None and not name.replace("-", "").replace("_", "").isalnum():
        raise InputError(f"--name {name}: expected letters, digits, - and _")
    path = Path(out) if out is not None else named_path(str(name))
    refuse_existing(path, session.output.overwrite)
    if _is_pickle(source):
        if reading.id_column or reading.references_column:
            raise InputError(f"{source}: is a pickle of counts; leave out the names of columns")
        corpus = from_pickle(source, name or path.stem, items, tokenizer, reading.language or "")
    else:
        if items is not None:
            raise InputError(f"{source}: is not a pickle, its items are counted; leave out --items")
        references = gather_references(rows_of(source), reading).references
        if not references:
            raise InputError(f"{source}: contains no captions")
        captions = CaptionSet.of(dict.fromkeys(references, ()), references, name=source)
        captions = in_language(captions, reading.language)
        corpus = DocumentFrequency.of(captions, tokenizer or AUTO, name or path.stem)
    corpus.save(path)
    typer.echo(f"{path}: {corpus} ({corpus.items:,} items; {len(corpus.counts):,} n-grams of orders 1 to 4)")
    label = corpus.tokenizer.partition(".")[0]
    if label != chosen_tokenizer(AUTO, corpus.language):
        typer.echo(f"its tokens are those of {label}: write cider(idf={name or path},tokenizer={label})", err=True)
    elif corpus.language:
        typer.echo(f"it is for captions in the same language: cider(idf={name or path}) with --language", err=True)


@command(app)
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
    typer.echo(f"{out}: {len(table.rows):,} images; objects of an image: {facts}")


@command(app)
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
    from captious.io.formats import rows_of
    from captious.io.join import gather_references
    from captious.syntax.tagging import tagger_named
    from captious.train.negative_records import NegativeSample, write_negatives
    from captious.train.negatives import check_kinds, make_negatives
    from captious.train.similar_images import image_vectors

    output, reading, seed = session.output, session.reading, session.resampling.seed
    wanted, tag = check_kinds(kinds), tagger_named(tagger)
    if output.out is None and not look and not output.json:
        raise InputError("nothing to do with the negatives: expected --out FILE, --look NUMBER or --json")
    if "hard" not in wanted and (reading.images or encoder or image_features):
        raise InputError("--images, --encoder and --image-features are for hard negatives; add hard to --kinds")
    refuse_existing(output.out, output.overwrite)
    with replace(session, output=replace(output, out=None)).working() as step:
        gathered = gather_references(rows_of(captions), reading).references
        if not gathered:
            raise InputError(f"{captions}: contains no captions")
        corpus = CaptionCorpus.of(gathered, captions)
        refuse_other_than_english(captions, "negatives are made", corpus.texts)
        hard = (reading.images, encoder, image_features) if "hard" in wanted else None
        vectors, warnings = image_vectors(corpus, *hard) if hard else (None, ())
        step("making wrong captions")
        wrong = make_negatives(corpus, wanted, seed=seed, features=vectors, tagger=tag, legacy=legacy)
        if output.out is not None:
            step("writing")
            write_negatives(wrong, output.out)
    deliver(NegativeSample(wrong, look, seed, warnings), replace(output, out=None))
    if output.out is not None:
        typer.echo(f"written: {output.out}", err=True)


@command(app)
def edits(
    captions: Annotated[str, Argument("Captions by id, in the formats of captious score; '-' for standard input.")],
    session: Annotated[
        Session,
        Only(
            *("references", "missing", "several", "format", "id_column", "references_id_column", "candidate_column"),
            "unpack_limit",
            *("references_column", "out", "overwrite", "json", "seed"),
        ),
    ],
    edits: EditNames = ("all",),
    copies: Annotated[int, Option("Edited captions of each kind, for each caption.", min=1, max=1000)] = 1,
    look: Look = 0,
    vocabulary: ObjectVocabulary = "coco-repaired",
) -> None:
    """Change captions on purpose: wrong, damaged, harmless or padded, each with what was changed.

    Inserted objects are absent from the image according to its references and the column objects.

    The name of a group means all its edits, and a TOML file contains your own; captious probe stress --list prints
    the names.

    Example: captious make edits preds.jsonl -r refs.json --edits inject,negate --out edited.jsonl
    """
    from captious.edits.table import edit_captions, find_edits

    output = session.output
    wanted = find_edits(edits)
    if output.out is None and not look and not output.json:
        raise InputError("nothing to do with the edits: expected --out FILE, --look NUMBER or --json")
    refuse_existing(output.out, output.overwrite)
    with replace(session, output=replace(output, out=None)).working() as step:
        texts = session.read(captions)
        step("editing")
        result = edit_captions(
            texts, wanted, seed=session.resampling.seed, copies=copies, vocabulary=vocabulary, look=look
        )
        if output.out is not None:
            step("writing")
            result.save_lines(output.out)
    deliver(result, replace(output, out=None))
    if output.out is not None:
        typer.echo(f"written: {output.out}", err=True)


@command(app)
def pictures(
    texts: Annotated[str, Argument("Texts by id, with or without references and ratings; '-' for standard input.")],
    out: Out,
    session: Annotated[Session, Only("references", "overwrite", "json", "device", "batch", "precision", "cache")],
    metric: Imagination = "imagine",
    most: Annotated[int, Option("Texts on the page.", min=1)] = 100,
    rating: Annotated[str | None, Option("Column of the ratings.", metavar="NAME")] = None,
    compile: Annotated[bool, Option("Compile the model first, for many pictures on a GPU.")] = False,
) -> None:
    """Paint texts into a gallery: pictures by seed, similarity to the reference, disagreement with people (ImaginE).

    Example: captious make pictures ratings.jsonl --references references.json --out gallery/
    """
    from captious.probes.pictures import paint

    session = replace(session, output=replace(session.output, out=out))
    with session.working() as step:
        captions, ratings = _rated_texts(texts, session, rating)
        result = paint(captions, metric, ratings, most=most, compile=compile, progress=step)
    session.deliver(result)


def _rated_texts(texts: str, session: Session, rating: str | None) -> tuple[CaptionSet, Any]:
    """Texts, and the mean rating of each where the rows have ratings."""
    from captious.io.columns import RATING_COLUMNS
    from captious.io.formats import rows_of
    from captious.study.ratings import open_ratings
    from captious.study.recipes import Layout

    first = next(iter(rows_of(texts)), None) if texts != "-" else None
    columns = () if first is None else tuple(first.fields)
    if rating is None and not any(name in columns for name in RATING_COLUMNS):
        return session.read(texts), None
    ratings = open_ratings(texts, session.reading.references, columns=Layout(texts, rating=rating))
    if ratings.captions is None:
        raise InputError(f"{texts}: ratings without captions")
    return ratings.captions, ratings.mean


def _is_pickle(source: str) -> bool:
    """Whether a file is a pickle: by its name, or by the first bytes of protocol 2 and later."""
    path = Path(source)
    if path.suffix in (".p", ".pkl", ".pickle"):
        return True
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(2) in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
