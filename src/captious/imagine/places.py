"""Where pipelines and decoders are: a folder, the user's own, the hub's cache, the hub; what to say if nowhere."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from captious.encoders.devices import quiet
from captious.encoders.places import REPOSITORY, local, weights_folder
from captious.errors import InputError
from captious.extras import require

T = TypeVar("T")
EXTRA = "imagine"


def diffusers() -> Any:
    """The library, without its advice."""
    require("torch", EXTRA)
    with quiet():
        library = require("diffusers", EXTRA)
        library.utils.logging.set_verbosity_error()
        library.utils.logging.disable_progress_bar()
    return library


def opened(name: str, index: str, load: Callable[[str, bool], T]) -> T:
    """What ``load`` makes of a folder with the file ``index``, or of a hub id: from the hub's cache, else the hub.

    ``load`` gets the place and whether it must stay offline.
    """
    place = local(name)
    if place is not None:
        if not (place / index).is_file():
            raise InputError(f"painter {name!r}: {place} has no {index}, expected a folder in the layout of diffusers")
        return _loaded(name, lambda: load(str(place), True))
    if name.startswith(".") or not REPOSITORY.fullmatch(name):
        raise InputError(
            f"painter {name!r}: no such folder, expected one, a hub id (owner/name), guided:DECODER or drawn"
        )
    try:
        return load(name, True)
    except (OSError, ValueError):  # not in the cache, or not whole
        pass
    try:
        return load(name, False)
    except (OSError, ValueError) as error:
        if f"has no {index}" in str(error) or "does not appear to have a file" in str(error):
            raise InputError(f"painter {name!r}: the hub repository has no {index}") from None
        raise InputError(
            f"painter {name!r}: not on this machine, and the hub cannot be reached or has no such repository; download "
            f"huggingface.co/{name} whole, put it at {weights_folder() / name}/, or anywhere and give its path as "
            "painter; painter=drawn needs nothing"
        ) from None


def class_of(folder: Path) -> str:
    """The class that a folder's config.json names."""
    try:
        found = json.loads((folder / "config.json").read_text(encoding="utf-8"))
        return str(found["_class_name"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{folder}: its config.json does not say of which class the model is ({error})") from None


def _loaded(name: str, load: Callable[[], T]) -> T:
    try:
        return load()
    except (OSError, ValueError, KeyError, RuntimeError, AttributeError, TypeError) as error:
        line = " ".join(str(error).split())[:160]
        raise InputError(f"painter {name!r}: cannot be loaded ({line})") from None
