"""``captious negatives``: wrong captions to train on, and to look at before one does."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o

if TYPE_CHECKING:
    from captious.train.negatives import Corpus

ALL = "hard,random,substitute,shuffle,repeat"


def negatives(
    captions: Annotated[str, typer.Argument(help="Captions by image id: every format that references come in.")],
    kinds: Annotated[str, typer.Option("--kinds", "-k", help="Which, with commas between.")] = ALL,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="File to write, such as neg.jsonl.")] = None,
    images: o.Images = None,
    encoder: Annotated[str, typer.Option("--encoder", help="Encoder that says which images look alike.")] = "",
    features: Annotated[
        Path | None, typer.Option("--features", help="Vectors instead: an .npz with ids, features and perhaps scale.")
    ] = None,
    seed: Annotated[int, typer.Option("--seed", min=0, help="Seed of all draws.")] = 0,
    per: Annotated[int, typer.Option("--per", min=1, max=65536, help="Negatives of each kind for a caption.")] = 1,
    look: Annotated[int, typer.Option("--look", min=0, help="Print so many of each kind, changes marked.")] = 0,
    tagger: Annotated[str, typer.Option("--tagger", help="captious or spacy.")] = "captious",
    legacy: Annotated[bool, typer.Option("--legacy", help="Count as changed what the original UMIC counted.")] = False,
    overwrite: o.Overwrite = False,
    as_json: o.AsJson = False,
    id_column: o.IdColumn = None,
    references_column: o.ReferencesColumn = None,
) -> None:
    """Make wrong captions of five kinds, each with what was done to it.

    Example: captious negatives captions.jsonl --look 20
    """
    from captious.errors import InputError
    from captious.render import terminal
    from captious.render.progress import display
    from captious.syntax.tagging import tagger_named
    from captious.train import _negatives_show as show
    from captious.train.negatives import Corpus, check, row, save
    from captious.train.negatives import negatives as make

    wanted = check(kinds.split(","))
    if out is None and not look and not as_json:
        raise InputError("nothing to do with the negatives: expected --out FILE, --look NUMBER or --json")
    if out is not None and out.exists() and not overwrite:
        raise InputError(f"{out}: is there already; add --overwrite to replace it")
    named = tagger_named(tagger)
    with display() as (step, _, _):
        found = _read(captions, id_column, references_column)
        corpus = Corpus.of(found, captions)
        vectors, notes = _vectors(corpus, images, encoder, features) if "hard" in wanted else (None, [])
        made = make(
            corpus,
            wanted,
            seed=seed,
            per=per,
            features=vectors,
            tagger=named,
            legacy=legacy,
            progress=lambda what, done, total: step(f"{what} {done:,}/{total:,}" if total > 1 else what),
        )
        if out is not None:
            step("writing")
            save(made, out)
    terminal.warn(notes)
    chosen = show.sample(made, look, seed)
    if as_json:
        facts = {"captions": len(corpus), "images": len(corpus.ids), "seed": seed, "per": per, "counts": made.counts()}
        looked = {kind: [row(made, number) for number in rows.tolist()] for kind, rows in chosen.items()}
        typer.echo(json.dumps({**facts, "look": looked} if look else facts, ensure_ascii=False, indent=2))
    elif look:
        for kind, rows in chosen.items():
            terminal.output().print(show.look(made, kind, rows))
    terminal.messages().print(show.summary_table(made))
    if out is not None:
        typer.echo(f"written: {out}", err=True)


def _read(captions: str, id_column: str | None, references_column: str | None) -> dict[str, list[str]]:
    from captious.errors import InputError
    from captious.io.formats import rows_of
    from captious.io.join import Columns, gather_references

    found = gather_references(rows_of(captions), Columns(id=id_column, references=references_column))
    if not found.references:
        raise InputError(f"{captions}: holds no captions")
    return found.references


def _vectors(corpus: Corpus, images: Path | None, encoder: str, features: Path | None) -> tuple[Any, list[str]]:
    """Vectors of the images in the order of the corpus, from a file or an encoder; and what to say about them."""
    from captious.errors import InputError
    from captious.train._negatives_show import encoded, read_vectors

    if features is not None and (images is not None or encoder):
        raise InputError("--features as well as --images or --encoder, expected one way to find images that look alike")
    if (images is None) != (not encoder):
        raise InputError("--images and --encoder go together, to find images that look alike; expected both or neither")
    if features is not None:
        rows, missing = read_vectors(corpus, features)
    elif images is not None:
        rows, missing = encoded(corpus, images, encoder)
    else:
        return None, [
            "hard negatives by captions alone: --images with --encoder, or --features, add images that look alike"
        ]
    if not missing:
        return rows, []
    first = next(iter(missing.items()))
    return rows, [
        f"{len(missing)} images without a vector are alike by captions alone, such as {first[0]} ({first[1]})"
    ]
