"""``captious idf``: named, hashed document-frequency corpora."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captious.cli import options as o

if TYPE_CHECKING:
    from captious.text.idf import DocumentFrequency

app = typer.Typer(help="Document-frequency corpora for CIDEr: build, import, list.", no_args_is_help=True)

File = Annotated[Path | None, typer.Option("--out", "-o", help="File to write, such as my.idf.")]
Name = Annotated[str | None, typer.Option("--name", help="Keep it under this name, for cider(idf=NAME).")]


@app.command()
def build(
    captions: Annotated[str, typer.Argument(help="Captions by id: every format that references come in.")],
    out: File = None,
    name: Name = None,
    tokenizer: Annotated[str, typer.Option("--tokenizer", help="ptb, 13a, whitespace or plain.")] = "ptb",
    id_column: o.IdColumn = None,
    references_column: o.ReferencesColumn = None,
    overwrite: o.Overwrite = False,
) -> None:
    """Count in how many items each n-gram occurs. The captions of one id are one item."""
    from captious.captions import CaptionSet
    from captious.errors import InputError
    from captious.io.formats import rows_of
    from captious.io.join import Columns, gather_references
    from captious.text.idf import DocumentFrequency

    path = _target(out, name, overwrite)
    found = gather_references(rows_of(captions), Columns(id=id_column, references=references_column)).references
    if not found:
        raise InputError(f"{captions}: holds no captions")
    corpus = CaptionSet.of(dict.fromkeys(found, ()), found, name=captions)
    _keep(DocumentFrequency.of(corpus, tokenizer, name or path.stem), path)


@app.command("import")
def import_(
    pickle: Annotated[Path, typer.Argument(help="A pickled table of document frequencies, such as coco-val-df.p.")],
    out: File = None,
    name: Name = None,
    items: Annotated[
        int | None, typer.Option("--items", min=1, help="Items counted, where the file does not say.")
    ] = None,
    overwrite: o.Overwrite = False,
) -> None:
    """Take over the pickled idf table of CIDEr's reference code; the pickle is read without running anything in it."""
    from captious.text.idf import from_pickle

    path = _target(out, name, overwrite)
    _keep(from_pickle(pickle, name or path.stem, items), path)


@app.command("list")
def list_(as_json: o.AsJson = False) -> None:
    """The corpora kept under a name."""
    from captious.errors import InputError
    from captious.text.idf import load, named, named_path

    rows = {}
    for name in named():
        try:
            rows[name] = str(load(named_path(name)))
        except InputError as error:
            rows[name] = f"unusable: {error}"
    if as_json:
        typer.echo(json.dumps(rows, indent=2))
        return
    for name, signature in rows.items():
        typer.echo(f"{name}\t{signature}")
    if not rows:
        typer.echo("no corpus is named yet: captious idf build captions.jsonl --name NAME", err=True)


def _target(out: Path | None, name: str | None, overwrite: bool) -> Path:
    from captious.errors import InputError
    from captious.text.idf import named_path

    if (out is None) == (name is None):
        raise InputError("expected either --out FILE or --name NAME")
    if name is not None and not name.replace("-", "").replace("_", "").isalnum():
        raise InputError(f"--name {name}: expected letters, digits, - and _")
    path = out if out is not None else named_path(str(name))
    if path.exists() and not overwrite:
        raise InputError(f"{path}: is there already; add --overwrite to replace it")
    return path


def _keep(corpus: DocumentFrequency, path: Path) -> None:
    from captious.text.idf import save

    save(corpus, path)
    sizes = ", ".join(f"{len(counts):,}" for counts in corpus.counts)
    typer.echo(f"{path}: {corpus} ({corpus.items:,} items; n-grams of orders 1 to 4: {sizes})")
