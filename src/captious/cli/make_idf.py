"""``captious make idf``: document frequencies of n-grams (CIDEr), or of a model's tokens (EMScore)."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import click

from captious._core.files import refuse_existing
from captious.cli.params import Only
from captious.cli.session import Items, Session, Tokenizer
from captious.errors import InputError
from captious.options import Argument, Option, Reading


def idf(
    source: Annotated[
        str, Argument("Captions by id, in every format of references; or a pickle, such as coco-val-df.p.")
    ],
    session: Annotated[Session, Only("out", "overwrite", "id_column", "references_column", "language")],
    name: Annotated[str | None, Option("Store it under this name, for cider(idf=NAME).", metavar="NAME")] = None,
    tokenizer: Tokenizer | None = None,
    items: Items | None = None,
    tokens: Annotated[
        str | None, Option("Count the tokens of this encoder, for emscore(idf=NAME).", metavar="WEIGHTS")
    ] = None,
) -> None:
    """Count in how many items each n-gram occurs, for CIDEr. The captions of one id are one item.

    With --tokens WEIGHTS it is counted in how many captions each token of an encoder occurs, for EMScore; there every
    caption counts by itself.

    A pickled table of CIDEr's reference code can be imported instead; nothing in the pickle is executed. If it does not
    say how many items it counts, pass --items. --tokenizer defaults to that of --language, or ptb. For a pickle it
    names the tokens of the table: whitespace for the tables of self-critical training, which have UNK as a word.

    Example: captious make idf captions.jsonl --name mine
    Example: captious make idf captions-zh.jsonl --name zh --language zh
    Example: captious make idf coco-train-words.p --name coco-train --tokenizer whitespace
    Example: captious make idf vatex-train.json --name vatex --tokens openai/clip-vit-base-patch32
    """
    from captious._core.languages import AUTO, choose_tokenizer
    from captious.captions import CaptionSet
    from captious.io.formats import read_rows
    from captious.io.join import gather_references, set_language
    from captious.text.idf import DocumentFrequency, from_pickle, get_named_path
    from captious.text.token_frequencies import get_named_path as get_token_path

    out, reading = session.output.out, session.reading
    if (out is None) == (name is None):
        raise InputError("expected either --out FILE or --name NAME")
    if name is not None and not name.replace("-", "").replace("_", "").isalnum():
        raise InputError(f"--name {name}: expected letters, digits, - and _")
    path = Path(out) if out is not None else (get_token_path if tokens else get_named_path)(str(name))
    refuse_existing(path, session.output.overwrite)
    if tokens:
        if tokenizer or items is not None or _is_pickle(source):
            raise InputError(
                f"--tokens {tokens}: counts captions of a file; leave out --tokenizer, --items and pickles"
            )
        _count_tokens(source, tokens, path, str(name or path), reading)
        return
    if _is_pickle(source):
        if reading.id_column or reading.references_column:
            raise InputError(f"{source}: is a pickle of counts; leave out the names of columns")
        corpus = from_pickle(source, name or path.stem, items, tokenizer, reading.language or "")
    else:
        if items is not None:
            raise InputError(f"{source}: is not a pickle, its items are counted; leave out --items")
        references = gather_references(read_rows(source), reading).references
        if not references:
            raise InputError(f"{source}: contains no captions")
        captions = CaptionSet.of(dict.fromkeys(references, ()), references, name=source)
        captions = set_language(captions, reading.language)
        corpus = DocumentFrequency.of(captions, tokenizer or AUTO, name or path.stem)
    corpus.save(path)
    click.echo(f"{path}: {corpus} ({corpus.items:,} items; {len(corpus.counts):,} n-grams of orders 1 to 4)")
    label = corpus.tokenizer.partition(".")[0]
    if label != choose_tokenizer(AUTO, corpus.language):
        click.echo(f"its tokens are those of {label}: write cider(idf={name or path},tokenizer={label})", err=True)
    elif corpus.language:
        click.echo(f"it is for captions in the same language: cider(idf={name or path}) with --language", err=True)


def _count_tokens(source: str, weights: str, path: Path, name: str, reading: Reading) -> None:
    """Count the tokens of all captions of a file, and write them."""
    from captious.io.formats import read_rows
    from captious.io.join import gather_references
    from captious.metrics.clip.emscore import count_token_frequency
    from captious.models.loading import load

    references = gather_references(read_rows(source), reading).references
    texts = [text for own in references.values() for text in own if text.strip()]
    if not texts:
        raise InputError(f"{source}: contains no captions")
    corpus = count_token_frequency(load(weights), texts)
    corpus.save(path)
    number = len(corpus.counts)
    click.echo(f"{path}: {corpus} ({corpus.documents:,} captions; {number:,} tokens): emscore({weights},idf={name})")


def _is_pickle(source: str) -> bool:
    """Return True if a file is a pickle: by its name, or by the first bytes of protocol 2 and later."""
    path = Path(source)
    if path.suffix in (".p", ".pkl", ".pickle"):
        return True
    if not path.is_file():
        return False
    with path.open("rb") as stream:
        return stream.read(2) in (b"\x80\x02", b"\x80\x03", b"\x80\x04", b"\x80\x05")
