"""``captious cache``: what captious stores on this machine (features, idf corpora, tables, replies), and removal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import click

from captious.cli.commands import CommandGroup, command
from captious.cli.params import Only
from captious.cli.session import Encoder, Prefix, Session
from captious.errors import InputError, format_suggestion
from captious.options import Argument, Option, get_runtime, using

if TYPE_CHECKING:
    from captious.models.store import StoreInfo
    from captious.render.document import Table

app = CommandGroup("cache")
# Number of unusable images that `fill` names in its warnings.
SHOWN = 5


@command(app)
def show(
    session: Annotated[Session, Only("json")],
    check: Annotated[bool, Option("Read every row, to find all damage.")] = False,
) -> None:
    """List features by encoder, idf corpora, METEOR's tables and replies of chat models, with their sizes."""
    from captious._core.files import get_data_folder
    from captious.models.store import get_cache_root, get_size_limit, list_stores
    from captious.render.document import Document

    stores = list_stores(get_cache_root(), check)
    corpora, tables, replies = _list_corpora(), _list_meteor_tables(), _list_replies()
    damaged = [f"{store.folder.name}/{name} {why}" for store in stores for name, why in store.damaged.items()]
    unusable = [f"{row['path']}: {row['unusable']}" for row in (*corpora, *tables, *replies) if "unusable" in row]
    session.deliver(
        Document(
            title=str(get_data_folder()),
            sections=_build_sections(stores, corpora, tables, replies),
            warnings=[*damaged, *unusable],
            data={
                "home": str(get_data_folder()),
                "folder": str(get_cache_root()),
                "limit": get_size_limit(),
                "features": [_collect_facts(store) for store in stores],
                "corpora": corpora,
                "tables": tables,
                "replies": replies,
            },
            name="cache",
        )
    )


def _build_sections(stores: list[StoreInfo], *files: list[dict[str, Any]]) -> list[Table]:
    """Build the table of features, and one table for each nonempty list of files.

    The lists are idf corpora, METEOR's tables and replies, in this order.
    """
    from captious._core.sizes import format_size
    from captious.models.store import get_size_limit
    from captious.render.document import Column, Table

    size = Column("size", kind="text")
    rows = [
        (
            store.encoder or "any: files seen",  # the index of files serves every encoder
            store.fingerprint,
            store.kind,
            store.rows,
            store.segments,
            format_size(store.bytes),
            datetime.fromtimestamp(store.used).strftime("%Y-%m-%d %H:%M"),
        )
        for store in stores
    ]
    columns = ("encoder", "fingerprint", "of", Column("rows"), Column("files"), size, "last used")
    total = f"{format_size(sum(store.bytes for store in stores))} of {format_size(get_size_limit())}"
    sections = [Table("features", f"Features: {total}", columns, rows)]
    titles = {"idf": "idf corpora", "meteor": "METEOR's tables", "replies": "Replies of chat models"}
    for (key, title), entries in zip(titles.items(), files, strict=True):
        lines = [(row["name"], row.get("content", "unusable"), format_size(row["bytes"])) for row in entries]
        if lines:
            sections.append(Table(key, title, ("name", "content", size), lines))
    return sections


def _collect_facts(store: StoreInfo) -> dict[str, Any]:
    """Return the fields of a store for JSON: without its folder, and with the time of last use in ISO format."""
    facts = asdict(store)
    del facts["folder"]
    return {**facts, "used": datetime.fromtimestamp(store.used).isoformat(timespec="seconds")}


def _list_corpora() -> list[dict[str, Any]]:
    from captious.text.idf import get_named_path, list_names, load

    return [_describe_file(name, get_named_path(name), lambda path: str(load(path))) for name in list_names()]


def _list_meteor_tables() -> list[dict[str, Any]]:
    from captious.metrics.meteor import resources
    from captious.metrics.meteor.engine import MODULES

    def describe(path: Path) -> str:
        tables = resources.load(str(path))
        modules = [module for module in MODULES if module != "paraphrase" or tables.has_paraphrases]
        return f"{'+'.join(modules)}#{tables.hash(modules)}"

    added = [resources.get_added_file()] if resources.get_added_file().exists() else []
    return [_describe_file(path.name, path, describe) for path in (*added, *resources.list_compiled_files())]


def _list_replies() -> list[dict[str, Any]]:
    from captious.models.chat.replies import ReplyStore, get_default_path

    path = get_default_path()
    return [_describe_file(path.name, path, lambda path: f"{len(ReplyStore(path)):,} replies")] if path.exists() else []


def _describe_file(name: str, path: Path, describe: Callable[[Path], str]) -> dict[str, Any]:
    """Return name, path and size of a file with its content, as `describe` formats it, or with the reason why it is
    unusable.
    """
    row = {"name": name, "path": str(path), "bytes": path.stat().st_size}
    try:
        return {**row, "content": describe(path)}
    except InputError as error:
        return {**row, "unusable": str(error)}


@command(app)
def fill(
    images: Annotated[Path, Argument("Folder of images, including its subfolders.")],
    session: Annotated[Session, Only("device", "batch", "precision", "workers", "upright", "json")],
    encoder: Encoder,
    captions: Annotated[str | None, Option("Captions to encode as well, by id.", metavar="FILE")] = None,
    prefix: Prefix = "",
) -> None:
    """Encode every image of a folder before scoring, and captions if a file is given.

    Entries that are already in the cache are not changed.

    Example: captious cache fill photos/ --encoder openai/clip-vit-base-patch32
    """
    from captious.models import loading
    from captious.models.features import image_features, text_features
    from captious.models.store import require_disk
    from captious.render.document import Document, Text

    require_disk()
    paths = _list_images(images)
    texts = [prefix + text for text in _read_texts(captions)] if captions is not None else []
    with session.working() as step:
        step("loading")
        model = loading.load(encoder)
        pictures = image_features(model, paths)
        features = text_features(model, texts)
    counts = {
        "images": len(pictures),
        "distinct_images": len(pictures.rows),
        "captions": len(features),
        "distinct_captions": len(features.rows),
        "truncated": int((features.lengths > model.limit).sum()),
    }
    text = "{:,} images, {:,} distinct; {:,} captions, {:,} distinct, {:,} longer than {} tokens"
    faults = list(pictures.faults.values())
    more = [f"and {len(faults) - SHOWN} more images without vectors"] if len(faults) > SHOWN else []
    session.deliver(
        Document(
            title=f"{model.name}#{model.fingerprint} ({model.precision})",
            sections=[Text((text.format(*counts.values(), model.limit),))],
            warnings=[*faults[:SHOWN], *more],
            data={
                "encoder": model.name,
                "fingerprint": model.fingerprint,
                "precision": model.precision,
                **counts,
                "unreadable": faults,
            },
            name="fill",
        )
    )


def _list_images(folder: Path) -> list[str]:
    from captious.io.images import SUFFIXES

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of images")
    paths = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and not path.is_dir())
    if not paths:
        raise InputError(f"{folder}: contains no images, expected files ending in {', '.join(sorted(SUFFIXES))}")
    return paths


def _read_texts(source: str) -> list[str]:
    """Read all captions of a file: candidates with their references, or only references if there is no candidate
    column.
    """
    from captious.io.columns import CANDIDATE_COLUMNS
    from captious.io.formats import get_name, read_rows
    from captious.io.join import gather_candidates, gather_references
    from captious.options import Reading

    rows = list(read_rows(source))
    if any(name in row.fields for row in rows[:1] for name in CANDIDATE_COLUMNS):
        captions = gather_candidates(rows, Reading(several=True))
    else:
        captions = gather_references(rows)
    if not captions.candidates and not captions.references:
        raise InputError(f"{get_name(source)}: contains no captions")
    return [
        text for column in (captions.candidates, captions.references) for texts in column.values() for text in texts
    ]


@command(app)
def prune(
    session: Annotated[Session, Only("json")],
    keep: Annotated[
        str | None, Option("Target size, such as 2GB; removes the least recently used.", metavar="SIZE")
    ] = None,
    encoder: Annotated[str | None, Option("Name or fingerprint of one encoder.", metavar="NAME")] = None,
    damaged: Annotated[bool, Option("Remove damaged files, which are skipped.")] = False,
    all: Annotated[bool, Option("Remove every feature, and METEOR's compiled tables.")] = False,
) -> None:
    """Remove stored features. Active runs are not affected, and removed features are computed again when needed.

    idf corpora and tables that were added stay, because captious cannot compute them again.
    """
    from captious._core.sizes import format_size, parse_size
    from captious.metrics.meteor.resources import list_compiled_files
    from captious.models import store
    from captious.render.document import Document, Text

    if (keep is not None) + (encoder is not None) + damaged + all != 1:
        raise InputError("expected one of --keep SIZE, --encoder NAME, --damaged, --all")
    root = store.get_cache_root()
    before = store.list_stores(root)
    if keep is not None:
        store.shrink(root, parse_size(keep))
    elif damaged:
        store.remove_damaged(root)
    elif encoder is not None:
        names = {name for info in before for name in (info.encoder, info.fingerprint) if name}
        if encoder not in names:
            encoders = ", ".join(sorted({info.encoder for info in before if info.encoder})) or "none"
            raise InputError(
                f"the cache has no features of {encoder!r}, only of {encoders}{format_suggestion(encoder, names)}"
            )
        store.remove(root, lambda info: encoder in (info.encoder, info.fingerprint))
    else:
        store.remove(root, lambda info: True)
        for path in list_compiled_files():
            path.unlink()
    bytes_before, bytes_after = (sum(info.bytes for info in infos) for infos in (before, store.list_stores(root)))
    session.deliver(
        Document(
            title=str(root),
            sections=[Text((f"{format_size(bytes_before)} before, {format_size(bytes_after)} now",))],
            data={"folder": str(root), "before": bytes_before, "after": bytes_after},
            name="prune",
        )
    )


@command(app)
def add(
    name: Annotated[str, Argument("Name of the tables: meteor.")],
    path: Annotated[Path, Argument("Folder with meteor-1.5.jar and data/paraphrase-en.gz.")],
) -> None:
    """Compile tables from your files and store them; the files are not needed afterwards."""
    from captious.metrics.meteor import resources
    from captious.render.progress import display

    if name != "meteor":
        raise InputError(f"no resource {name!r}, known: meteor{format_suggestion(name, ['meteor'])}")
    with display() as shown, using(replace(get_runtime(), progress=shown.advance)):
        shown.step("compiling METEOR's tables")
        target = resources.add(path)
    click.echo(f"written: {target}")
