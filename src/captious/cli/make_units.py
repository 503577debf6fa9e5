"""``captious make units``: detail units of captions (SPECS)."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING, Annotated, Any

import click

from captious._core.files import refuse_existing, write_atomically
from captious.cli.params import Only
from captious.cli.session import Grammar, Legacy, Session, Tagger
from captious.errors import InputError
from captious.options import Argument, Option

if TYPE_CHECKING:
    from captious.io.rows import Row


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
    if caption is not None and os.path.isfile(caption):  # noqa: PTH113 - Path raises OSError for names as long as captions
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
    lines = list(_add_units(str(file), session.reading.candidate_column, how, rules))
    if output.out is None:
        click.echo("\n".join(lines))
        return
    with write_atomically(output.out) as draft:
        draft.write_text("\n".join(lines) + "\n", encoding="utf-8", newline="\n")
    click.echo(f"{output.out}: {len(lines):,} rows", err=True)


def _print_units(caption: str, how: dict[str, Any], rules: Any, tags: bool, as_json: bool) -> None:
    from rich.text import Text

    from captious._core.languages import refuse_other_than_english
    from captious.render.terminal import make_stdout_console
    from captious.syntax.chunking import format_chunks
    from captious.syntax.tagging import tag_texts
    from captious.syntax.units import units as cut

    refuse_other_than_english("caption", "detail units are made", [caption])
    parts = cut(caption, rules=rules, **how)
    tagged = [
        (sentence.tokens, marks, format_chunks(sentence.tokens, marks, how["grammar"]))
        for sentence, marks in (tag_texts([caption], how["tagger"])[0] if tags else ())
    ]
    if as_json:
        content = {"caption": caption, "units": parts, **how, "auxiliaries": rules.auxiliaries}
        if tags:
            content["tagged"] = [{"tokens": words, "tags": marks, "phrases": text} for words, marks, text in tagged]
        click.echo(json.dumps(content, ensure_ascii=False, indent=2))
        return
    colors = ("cyan", "green", "magenta", "yellow", "blue")
    colored = [Text(part, style=colors[number % len(colors)]) for number, part in enumerate(parts)]
    console = make_stdout_console()
    for words, marks, text in tagged:
        console.print(Text(" ".join(map("/".join, zip(words, marks, strict=True))), style="dim"), soft_wrap=True)
        console.print(Text(text, style="dim"), soft_wrap=True)
    console.print(Text(" | ", style="bold").join(colored), soft_wrap=True)
    for number, part in enumerate(colored, 1):
        console.print(Text(f"{number:>3}  ").append_text(part), soft_wrap=True)


def _add_units(source: str, column: str | None, how: dict[str, Any], rules: Any) -> Iterator[str]:
    """Yield the rows of a file as JSON, each with the units of its caption or of each of its captions."""
    from captious._core.languages import refuse_other_than_english
    from captious.io.formats import get_name, read_rows
    from captious.render.progress import display
    from captious.syntax.units import units as cut

    with display() as shown:
        rows = list(read_rows(source))
        captions = [_get_captions(row, column) for row in rows]
        texts = [text for own in captions for text in ([own] if isinstance(own, str) else own)]
        refuse_other_than_english(get_name(source), "detail units are made", texts)
        shown.step(f"cutting {len(texts):,} captions")
        parts = iter(cut(texts, rules=rules, **how))
    if not rows:
        raise InputError(f"{get_name(source)}: contains no captions")
    if blank := sum(not text.strip() for text in texts) + sum(not own for own in captions if not isinstance(own, str)):
        click.echo(f"warning: {blank:,} empty captions have no units", err=True)
    for row, own in zip(rows, captions, strict=True):
        units = next(parts) if isinstance(own, str) else list(islice(parts, len(own)))
        yield json.dumps({**row.fields, "units": units}, ensure_ascii=False, default=str)


def _get_captions(row: Row, column: str | None) -> str | list[str]:
    """Return the caption of a row, or the list of its captions."""
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
