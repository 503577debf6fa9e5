"""``captious segment``: a caption cut into detail units, or a file of captions."""

from __future__ import annotations

import json
import os
from enum import Enum
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o

if TYPE_CHECKING:
    from captious.io.formats import Row


class TaggerName(str, Enum):
    """Which tagger is asked."""

    captious = "captious"
    spacy = "spacy"


def segment(
    caption: Annotated[str | None, typer.Argument(help="A caption; leave it out with --file.")] = None,
    file: Annotated[
        str | None, typer.Option("--file", "-f", help="Captions: JSONL, CSV, TSV, Parquet, …; - for standard input.")
    ] = None,
    out: Annotated[Path | None, typer.Option("--out", "-o", help="With --file: JSONL to write; else printed.")] = None,
    grammar: o.Grammar = o.Grammars.code,
    legacy: Annotated[bool, typer.Option("--legacy", help="Cut one string, as the original does, quirks too.")] = False,
    auxiliaries: Annotated[
        bool, typer.Option("--auxiliaries", help="No cut behind is, are, has, …: not the original's, fewer bad cuts.")
    ] = False,
    surface: Annotated[bool, typer.Option("--surface", help="Units as they stand in the caption, not tokens.")] = False,
    tagger: Annotated[TaggerName, typer.Option("--tagger", help="Ours, or spaCy's en_core_web_sm.")] = (
        TaggerName.captious
    ),
    tags: Annotated[bool, typer.Option("--tags", help="Show the tag of every word and the phrases found.")] = False,
    caption_column: Annotated[str | None, typer.Option("--caption-column", help="Column of the captions.")] = None,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Replace a file that is there already.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Cut captions into detail units, the phrases that each add something (SPECS)."""
    from captious.errors import InputError

    if (caption is None) == (file is None):
        raise InputError("expected either a caption or --file with captions")
    if caption is not None and os.path.isfile(caption):  # noqa: PTH113 - it bears names as long as captions
        raise InputError(f"{caption}: is a file, not a caption; give it as --file {caption}")
    options: dict[str, Any] = {"grammar": grammar.value, "legacy": legacy, "tagger": tagger.value}
    options["text"] = "surface" if surface else "tokens"
    if file is not None:
        if tags:
            raise InputError("--tags shows one caption, not a file of them; leave it out")
        _many(file, out, overwrite, caption_column, options, auxiliaries)
    elif out is not None:
        raise InputError("--out is for --file; a single caption is printed")
    else:
        _one(caption or "", tags, as_json, options, auxiliaries)


def _one(caption: str, tags: bool, as_json: bool, options: dict[str, Any], auxiliaries: bool) -> None:
    from rich.text import Text

    from captious.render.terminal import output
    from captious.syntax.units import Rules, units

    found = units(caption, rules=Rules(auxiliaries=auxiliaries), **options)
    tagged = _tagged(caption, options) if tags else []
    if as_json:
        shown = {"tagged": [{"tokens": words, "tags": marks, "phrases": text} for words, marks, text in tagged]}
        content = {"caption": caption, "units": found, **options, "auxiliaries": auxiliaries, **(shown if tags else {})}
        typer.echo(json.dumps(content, ensure_ascii=False, indent=2))
        return
    colors = ("cyan", "green", "magenta", "yellow", "blue")
    painted = [Text(unit, style=colors[number % len(colors)]) for number, unit in enumerate(found)]
    console = output()
    for words, marks, text in tagged:
        console.print(Text(" ".join(map("/".join, zip(words, marks, strict=True))), style="dim"), soft_wrap=True)
        console.print(Text(text, style="dim"), soft_wrap=True)
    console.print(Text(" | ", style="bold").join(painted), soft_wrap=True)
    for number, unit in enumerate(painted, 1):
        console.print(Text(f"{number:>3}  ").append_text(unit), soft_wrap=True)


def _tagged(caption: str, options: dict[str, Any]) -> list[tuple[list[str], list[str], str]]:
    """Tokens, tags and bracketed phrases of each sentence."""
    from captious.syntax.chunking import bracketed
    from captious.syntax.sentences import sentences
    from captious.syntax.tagging import tagger_named

    words = [list(sentence.tokens) for sentence in sentences(caption)]
    marks = tagger_named(options["tagger"])(words)
    return [(one, two, bracketed(one, two, options["grammar"])) for one, two in zip(words, marks, strict=True)]


def _many(
    file: str, out: Path | None, overwrite: bool, column: str | None, options: dict[str, Any], auxiliaries: bool
) -> None:
    from captious._files import whole_file
    from captious.errors import InputError
    from captious.io.formats import name_of, rows_of
    from captious.render.progress import display
    from captious.syntax.units import Rules, units

    if out is not None and out.exists() and not overwrite:
        raise InputError(f"{out}: is there already; add --overwrite to replace it")
    with display() as (step, _, _):
        rows = list(rows_of(file))
        captions = [_captions(row, column) for row in rows]
        step(f"cutting {sum(map(len, captions)):,} captions")
        texts = [text for row in captions for text in row]
        found = iter(units(texts, rules=Rules(auxiliaries=auxiliaries), **options))
    lines = []
    for row, given in zip(rows, captions, strict=True):
        cut = list(islice(found, len(given)))
        single = isinstance(row.fields.get(_column(row, column)), str)
        lines.append(json.dumps({**row.fields, "units": cut[0] if single else cut}, ensure_ascii=False, default=str))
    if not lines:
        raise InputError(f"{name_of(file)}: holds no captions")
    if out is None:
        typer.echo("\n".join(lines))
        return
    with whole_file(out) as draft:
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8")
    typer.echo(f"{out}: {len(lines):,} rows", err=True)


def _column(row: Row, column: str | None) -> str:
    from captious.errors import InputError
    from captious.io.columns import CANDIDATE_COLUMNS

    names = (column,) if column else CANDIDATE_COLUMNS
    for name in names:
        if name in row.fields:
            return name
    found = ", ".join(map(str, row.fields)) or "none"
    raise InputError(f"{row.where}: no caption: found columns {found}, expected {' or '.join(names)}")


def _captions(row: Row, column: str | None) -> list[str]:
    from captious.errors import InputError

    name = _column(row, column)
    value = row.fields[name]
    texts = value if isinstance(value, list) else [value]
    for text in texts:
        if not isinstance(text, str):
            raise InputError(f"{row.where}: {name} is {text!r}, expected a string")
    return texts
