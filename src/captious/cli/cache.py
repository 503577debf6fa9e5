"""``captious cache``: features and compiled tables that are kept, and making room."""

from __future__ import annotations

import json
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any

import typer

from captious.cli import options as o

if TYPE_CHECKING:
    from captious.models.store import Holding

app = typer.Typer(help="Features and compiled tables that are kept, and making room.", invoke_without_command=True)

Check = Annotated[bool, typer.Option("--check", help="Read every row, to find damage that shows only on use.")]


@app.callback()
def list_(context: typer.Context, check: Check = False, as_json: o.AsJson = False) -> None:
    """Vectors of images and texts by encoder, and METEOR's tables, with the room they take and their last use."""
    if context.invoked_subcommand is not None:
        return
    from captious._files import data_folder
    from captious.metrics.meteor.resources import compiled_files
    from captious.models import store as pruning

    found, tables = pruning.holdings(pruning.cache_root(), check), compiled_files()
    if as_json:
        facts = {
            "home": str(data_folder()),
            "folder": str(pruning.cache_root()),
            "limit": pruning.size_limit(),
            "holdings": [_facts(it) for it in found],
            "tables": [{"path": str(path), "bytes": path.stat().st_size} for path in tables],
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    _print(found)
    for path in tables:
        typer.echo(f"{path}: {pruning.show_size(path.stat().st_size)}, METEOR's compiled tables")


@app.command()
def prune(
    keep: Annotated[str | None, typer.Option("--keep", help="Size to shrink to, such as 2GB: least used go.")] = None,
    encoder: Annotated[str | None, typer.Option("--encoder", help="Name or fingerprint of one encoder.")] = None,
    damaged: Annotated[bool, typer.Option("--damaged", help="Files that are skipped.")] = False,
    everything: Annotated[bool, typer.Option("--all", help="Everything, METEOR's compiled tables too.")] = False,
    as_json: o.AsJson = False,
) -> None:
    """Remove features; runs that are at work keep what they read, and anything removed is made again when needed."""
    from captious.errors import InputError, nearest
    from captious.metrics.meteor.resources import compiled_files
    from captious.models import store as pruning

    if (keep is not None) + (encoder is not None) + damaged + everything != 1:
        raise InputError("expected one of --keep SIZE, --encoder NAME, --damaged, --all")
    root = pruning.cache_root()
    before = pruning.holdings(root)
    if keep is not None:
        pruning.shrink(root, pruning.parse_size(keep))
    elif damaged:
        pruning.remove_damaged(root)
    elif encoder is not None:
        names = {name for it in before for name in (it.encoder, it.fingerprint) if name}
        if encoder not in names:
            known = ", ".join(sorted({it.encoder for it in before if it.encoder})) or "none"
            raise InputError(f"the cache holds nothing of {encoder!r}, known: {known}{nearest(encoder, names)}")
        pruning.remove(root, lambda it: encoder in (it.encoder, it.fingerprint))
    else:
        pruning.remove(root, lambda it: True)
        for path in compiled_files():
            path.unlink()
    after = pruning.holdings(root)
    sizes = {name: sum(it.bytes for it in held) for name, held in (("before", before), ("after", after))}
    if as_json:
        typer.echo(json.dumps({"folder": str(root), **sizes}, indent=2))
    else:
        typer.echo(f"{root}: {pruning.show_size(sizes['before'])} before, {pruning.show_size(sizes['after'])} now")


def _facts(holding: Holding) -> dict[str, Any]:
    return {
        "encoder": holding.encoder,
        "fingerprint": holding.fingerprint,
        "kind": holding.kind,
        "rows": holding.rows,
        "segments": holding.segments,
        "bytes": holding.bytes,
        "used": datetime.fromtimestamp(holding.used).isoformat(timespec="seconds"),
        "damaged": holding.damaged,
    }


def _print(found: list[Holding]) -> None:
    from rich.table import Table
    from rich.text import Text

    from captious.models import store as pruning
    from captious.render.terminal import output, warn

    total = sum(holding.bytes for holding in found)
    title = f"{pruning.cache_root()}: {pruning.show_size(total)} of {pruning.show_size(pruning.size_limit())}"
    table = Table(title=Text(title), title_justify="left")
    for column in ("encoder", "fingerprint", "of", "rows", "files", "size", "last used"):
        table.add_column(column, justify="right" if column in ("rows", "files", "size") else "left")
    for holding in found:
        used = datetime.fromtimestamp(holding.used).strftime("%Y-%m-%d %H:%M")
        counts = (f"{holding.rows:,}", str(holding.segments), pruning.show_size(holding.bytes))
        table.add_row(
            Text(holding.encoder or "any: files seen"), holding.fingerprint, Text(holding.kind), *counts, used
        )
    output().print(table)
    warn([f"{holding.folder.name}/{name} {why}" for holding in found for name, why in holding.damaged.items()])
