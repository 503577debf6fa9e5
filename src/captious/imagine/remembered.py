"""A pipeline's fingerprint from an earlier run, so that a repeated study loads no weights unless a picture is missing.

It is kept under the state of every file of the folder (:mod:`captious.encoders.memo`), the options and the precision,
which are all that a fingerprint follows. A file that changed a moment ago, or a hub id, is loaded again.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.encoders import memo
from captious.encoders.devices import device_called, precision_on, quiet
from captious.encoders.places import local
from captious.encoders.runtime import current
from captious.errors import InputError
from captious.extras import require
from captious.files import data_folder, digest, whole_file
from captious.imagine.diffusion import TOKENISERS, Diffusion, beyond, load_diffusion
from captious.imagine.painters import Options, Painted, Painter, Wish

FORMAT = "2"
"""Of what is kept; another one wherever the fingerprint is made otherwise."""


@dataclass(eq=False)
class Remembered:
    """See :class:`captious.imagine.painters.Painter`: a pipeline that is loaded when the first picture is wanted."""

    name: str
    fingerprint: str
    settings: str
    shape: tuple[int, int, int]
    folder: Path
    load: Callable[[], Diffusion] = field(repr=False)
    kept: bool = True

    @cached_property
    def painter(self) -> Diffusion:
        """The pipeline itself."""
        found = self.load()
        if found.fingerprint != self.fingerprint:
            raise InputError(f"painter {self.name!r}: {self.folder} changed while it was in use; run it again")
        return found

    @cached_property
    def tokenisers(self) -> list[Any]:
        """Those of the pipeline, without the rest of it."""
        index = json.loads((self.folder / "model_index.json").read_text(encoding="utf-8"))
        named = {part: index[part] for part in TOKENISERS if index.get(part, [None])[0]}
        if any(library != "transformers" for library, _ in named.values()):
            return [getattr(self.painter.pipeline, part) for part in named]
        library = require("transformers", "imagine")
        with quiet():
            return [getattr(library, kind).from_pretrained(self.folder / part) for part, (_, kind) in named.items()]

    def cut(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """As the pipeline says, by its tokenisers alone."""
        return beyond(self.tokenisers, texts)

    def paint(self, wishes: Sequence[Wish]) -> Iterator[Painted]:
        """As the pipeline does."""
        if wishes:
            yield from self.painter.paint(wishes)


def remembered(name: str, options: Options) -> Painter:
    """The pipeline of a folder or hub id: from memory where nothing changed, else loaded and remembered."""
    place, mark = local(name), _mark(name, options)
    if place is None or mark is None:
        return load_diffusion(name, options)
    path = data_folder() / "painters" / f"{mark}.json"
    with suppress(OSError, ValueError, TypeError, KeyError):  # absent or damaged: loaded again
        known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        known["shape"] = tuple(known["shape"])
        return Remembered(**known, folder=place, load=lambda: load_diffusion(name, options))
    found = load_diffusion(name, options)
    facts = {key: getattr(found, key) for key in ("name", "fingerprint", "settings", "shape")}
    with suppress(OSError), whole_file(path) as draft:  # a full disk costs the next run a load
        draft.write_text(json.dumps(facts), encoding="utf-8")
    return found


def _mark(name: str, options: Options) -> str | None:
    """The state of everything that a fingerprint follows; none where a file may yet change unseen."""
    place, runtime = local(name), current()
    if place is None or not runtime.cache:
        return None
    entries = sorted(place.rglob("*"))
    if any(entry.is_symlink() and entry.is_dir() for entry in entries):  # rglob does not look inside
        return None
    files = [memo.mark(str(entry)) for entry in entries if not entry.is_dir()]
    known = [file for file in files if file is not None]
    if not known or len(known) < len(files):
        return None
    how = {**asdict(options), "precision": precision_on(device_called(runtime.device), runtime.precision)}
    return digest(FORMAT.encode(), json.dumps(how, sort_keys=True).encode(), *known)
