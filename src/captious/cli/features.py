"""``captious features``: fill the feature cache ahead of scoring."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from captious.cli import options as o

if TYPE_CHECKING:
    from captious.models.encoder import Encoder
    from captious.models.features import Encoded

app = typer.Typer(help="Vectors of images and texts: fill the cache ahead.", no_args_is_help=True)
SHOWN = 5


@app.callback()
def features() -> None:
    """Vectors of images and texts: fill the cache ahead."""


@app.command()
def build(
    images: Annotated[Path, typer.Argument(help="Folder of images; those in its subfolders count.")],
    encoder: Annotated[str, typer.Option("--encoder", help="Hub id, folder, checkpoint or captious-mini.")],
    captions: Annotated[str | None, typer.Option("--captions", help="Captions to encode too, by id.")] = None,
    prefix: Annotated[str, typer.Option("--prefix", help='Put before captions, as "A photo depicts ".')] = "",
    device: o.Device = "auto",
    batch: o.Batch = o.BATCH,
    precision: o.Precision = o.AUTO,
    upright: o.Upright = False,
    as_json: o.AsJson = False,
) -> None:
    """Encode every image of a folder, and captions where a file is given; what is in the cache is left as it is."""
    from captious.models.features import image_features, text_features
    from captious.models.load import load

    _check_cache()
    paths = image_files(images)
    texts = [prefix + text for text in _texts(captions)] if captions is not None else []
    with o.encoding(device, batch, precision, no_cache=False, upright=upright) as step:
        step("loading")
        model = load(encoder)
        seen = image_features(model, paths)
        read = text_features(model, texts)
    _report(model, seen, read, as_json)


def _check_cache() -> None:
    """Filling a cache that keeps nothing would look like success."""
    from captious.errors import InputError
    from captious.models import store as pruning

    root = pruning.cache_root()
    if not pruning.size_limit():
        raise InputError("the cache is switched off (CAPTIOUS_CACHE_LIMIT is 0): there is nothing to fill")
    try:
        root.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise InputError(f"{root}: cannot be made ({error.strerror}); set CAPTIOUS_HOME to a folder of yours") from None


def image_files(folder: Path) -> list[str]:
    """The images in a folder and its subfolders."""
    from captious.errors import InputError
    from captious.io.images import SUFFIXES

    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder of images")
    found = sorted(str(path) for path in folder.rglob("*") if path.suffix.lower() in SUFFIXES and path.is_file())
    if not found:
        raise InputError(f"{folder}: holds no images, expected files ending in {', '.join(sorted(SUFFIXES))}")
    return found


def _texts(source: str) -> list[str]:
    from captious.io.columns import CANDIDATE_COLUMNS
    from captious.io.formats import rows_of
    from captious.io.join import gather_candidates, gather_references
    from captious.options import Reading

    rows = list(rows_of(source))
    if any(name in row.fields for row in rows[:1] for name in CANDIDATE_COLUMNS):
        found = gather_candidates(rows, Reading(several=True))
    else:
        found = gather_references(rows)
    return [text for held in (found.candidates, found.references) for texts in held.values() for text in texts]


def _report(encoder: Encoder, seen: Encoded, read: Encoded, as_json: bool) -> None:
    from captious.render.terminal import warn

    cut = int((read.lengths > encoder.limit).sum())
    if as_json:
        facts = {
            "encoder": encoder.name,
            "fingerprint": encoder.fingerprint,
            "precision": encoder.precision,
            "images": len(seen),
            "distinct_images": len(seen.rows),
            "captions": len(read),
            "distinct_captions": len(read.rows),
            "truncated": cut,
            "unreadable": list(seen.faults.values()),
        }
        typer.echo(json.dumps(facts, indent=2))
        return
    images = f"{len(seen):,} images, {len(seen.rows):,} distinct"
    captions = f"{len(read):,} captions, {len(read.rows):,} distinct, {cut:,} longer than {encoder.limit} tokens"
    typer.echo(f"{encoder.name}#{encoder.fingerprint} ({encoder.precision}): {images}; {captions}")
    lines = list(seen.faults.values())
    warn([*lines[:SHOWN], *([f"and {len(lines) - SHOWN} more images without vectors"] if len(lines) > SHOWN else [])])
