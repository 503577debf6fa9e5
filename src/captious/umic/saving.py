"""A trained model as a folder: ``captious-umic.json`` says which backbone it is, the other files are the backbone's."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from captious._version import __version__
from captious.encoders.registry import ModelRegistry
from captious.encoders.runtime import current
from captious.errors import InputError
from captious.extras import require
from captious.umic.backbone import NAMES, Backbone, called, parameters

MARKER = "captious-umic.json"
FORMAT = 1

_LOADED: ModelRegistry[Backbone] = ModelRegistry(limit=2)


def mark(folder: str | Path, backbone: Backbone, record: dict[str, Any]) -> None:
    """Write what the folder is; the last file to be written."""
    content = {
        "kind": "umic",
        "format": FORMAT,
        "backbone": backbone.name,
        "called": called(backbone.name),
        "parameters": parameters(backbone),
        "captious": __version__,
        **record,
    }
    (Path(folder) / MARKER).write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")


def read_marker(folder: str | Path) -> dict[str, Any]:
    """What a folder says it is."""
    place = Path(folder)
    path = place / MARKER
    if not place.is_dir():
        raise InputError(f"{place}: no such folder, expected one that captious train umic wrote")
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        raise InputError(f"{place}: has no {MARKER}, expected a folder that captious train umic wrote") from None
    except (OSError, ValueError) as error:
        raise InputError(f"{path}: cannot be read as JSON ({error})") from None
    if not isinstance(found, dict) or found.get("kind") != "umic" or found.get("format") != FORMAT:
        raise InputError(f"{path}: is not of a UMIC model in format {FORMAT}")
    if found.get("backbone") not in NAMES:
        raise InputError(f"{path}: backbone {found.get('backbone')!r}, expected one of {', '.join(NAMES)}")
    lacking = [key for key in ("encoder", "shape") if not isinstance(found.get(key), dict)]
    if found["backbone"] == "fusion" and lacking:
        raise InputError(f"{path}: lacks {' and '.join(lacking)}, expected what captious train umic wrote")
    return found


def load_backbone(folder: str | Path, regions: str | None = None) -> Backbone:
    """The model of a folder on the device of the runtime in force, loaded once per process.

    ``regions`` is the folder of region features, for ``uniter``.
    """
    place, runtime = Path(folder), current()
    read_marker(place)
    stamps = [(path.name, path.stat().st_mtime_ns, path.stat().st_size) for path in sorted(place.iterdir())]
    key = (str(place.resolve()), tuple(stamps), runtime.device, runtime.precision, regions)

    def load() -> Backbone:
        backbone: Any = open_backbone(place, regions)
        backbone.sealed = backbone.fingerprint
        return backbone  # type: ignore[no-any-return]

    return _LOADED.get(key, load)


def open_backbone(folder: str | Path, regions: str | None = None) -> Backbone:
    """A fresh copy, which may be trained."""
    place = Path(folder)
    record = read_marker(place)
    kind = record["backbone"]
    if regions is not None and kind != "uniter":
        raise InputError(f"{place}: is {called(kind)}, which looks at images itself; regions are for uniter")
    if kind == "fusion":
        from captious.umic.fusion import load_fusion

        return load_fusion(place, record)
    if kind in ("vilt", "blip") and not (place / "model").is_dir():
        raise InputError(f"{place}: has no folder model, though {MARKER} says that it is {called(kind)}")
    if kind == "vilt":
        from captious.umic.vilt import load_vilt

        return load_vilt(place / "model")
    if kind == "blip":
        from captious.umic.blip import load_blip

        return load_blip(place / "model")
    from captious.umic.uniter import load_uniter

    return load_uniter(place, regions)


def read_state(path: Path) -> dict[str, Any]:
    """The tensors of a file."""
    try:
        found: dict[str, Any] = require("safetensors.torch", "clip").load_file(str(path))
    except Exception as error:  # missing, truncated, of another kind: the library has its own classes
        raise InputError(f"{path}: cannot be read ({' '.join(str(error).split())[:200]})") from None
    return found


def fill(module: Any, state: dict[str, Any], where: str) -> None:
    """Put tensors into a module that must have exactly these."""
    wanted = {key: tuple(one.shape) for key, one in module.state_dict().items()}
    given = {key: tuple(one.shape) for key, one in state.items()}
    if given != wanted:
        differ = sorted(key for key in given.keys() | wanted.keys() if given.get(key) != wanted.get(key))
        shown = ", ".join(f"{key} {given.get(key, 'missing')} for {wanted.get(key, 'nothing')}" for key in differ[:2])
        raise InputError(
            f"{where}: weights of another model: {len(differ)} of {len(wanted)} tensors differ, such as {shown}"
        )
    module.load_state_dict(state)
