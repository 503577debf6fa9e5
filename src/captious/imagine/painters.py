"""The protocol of a painter, text and seed in, picture out, and the one door to every painter."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields
from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Pixels
from captious.encoders.registry import ModelRegistry
from captious.encoders.runtime import current
from captious.errors import InputError

DRAWN, GUIDED = "drawn", "guided:"
FAULTS = (
    "",
    "the painter gave a black picture (a safety filter?)",
    "the painter gave a picture that is not finite",
    "the text says nothing that this painter can draw",
)
"""Why there is no picture, by code; 0 is a picture. Codes are stored, so new ones go to the end."""
BLACK, NOT_FINITE, NOTHING = 1, 2, 3


class Wish(NamedTuple):
    """What to paint."""

    text: str
    seed: int


class Painted(NamedTuple):
    """Pictures of the wishes at some places; those with a code above 0 are no pictures."""

    places: list[int]
    pixels: Pixels
    """number × height × width × 3."""
    codes: npt.NDArray[np.int32]


class Painter(Protocol):
    """Texts to pictures: the same text and seed give the same picture, whatever else is painted with it."""

    @property
    def name(self) -> str:
        """What signatures call it."""

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits over everything that moves a pixel: weights, settings, precision."""

    @property
    def settings(self) -> str:
        """The settings as people read them."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and 3."""

    @property
    def kept(self) -> bool:
        """Whether pictures are worth keeping on disk; vectors always are."""

    def cut(self, texts: Sequence[str]) -> npt.NDArray[np.bool_]:
        """Which texts are longer than the painter reads."""

    def paint(self, wishes: Sequence[Wish]) -> Iterator[Painted]:
        """Pictures of all wishes, some at a time, in any order."""


@dataclass(frozen=True)
class Options:
    """What can be set of a painter; None is the painter's own choice."""

    steps: int | None = None
    guidance: float | None = None
    scheduler: str | None = None
    size: int | None = None
    guide: str | None = None
    """Weights of the encoder that guides a ``guided:`` painter."""
    safety: bool = False
    """Keep the safety checker of a pipeline that has one."""
    compile: bool = False
    """Compile the model first: minutes, then faster; on a GPU alone."""

    def refuse(self, painter: str, *known: str) -> None:
        """Say which option the painter does not have."""
        for field in fields(self):
            if field.name not in known and getattr(self, field.name) != field.default:
                takes = ", ".join(known) or "none"
                raise InputError(f"painter {painter!r} has no option {field.name}, it takes: {takes}")
        for name in ("steps", "size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"painter {painter!r}: {name} is {value}, expected a whole number above 0")
        if self.guidance is not None and not isfinite(self.guidance):
            raise InputError(f"painter {painter!r}: guidance is {self.guidance}, expected a finite number")


_LOADED: ModelRegistry[Painter] = ModelRegistry(limit=2)


def load_painter(name: str, options: Options | None = None) -> Painter:
    """The painter of a name, on the device of the runtime in force, loaded once per process.

    ``drawn``, ``guided:`` before a decoder's folder or hub id, or a ``diffusers`` pipeline by folder or hub id.
    """
    runtime, options = current(), options or Options()
    key = (name, _stamp(name.removeprefix(GUIDED)), options, runtime.device, runtime.precision)
    return _LOADED.get(key, lambda: _load(name, options))


def _stamp(name: str) -> tuple[object, ...]:
    """Tells a folder from what stood there before."""
    from captious.encoders.places import local

    place = local(name) if name != DRAWN else None
    files = sorted(place.rglob("*")) if place is not None and place.is_dir() else []
    stats = [(str(file), file.stat()) for file in files if file.is_file()]
    return tuple((path, found.st_size, found.st_mtime_ns) for path, found in stats)


def _load(name: str, options: Options) -> Painter:
    if not name:
        raise InputError("no painter named: expected drawn, or a text-to-image pipeline by folder or hub id")
    if name == DRAWN:
        from captious.imagine.drawn import Drawn

        options.refuse(name, "size")
        return Drawn.of(options.size)
    if name.startswith(GUIDED):
        from captious.imagine.guided import load_guided

        return load_guided(name.removeprefix(GUIDED), options)
    from captious.imagine.remembered import remembered

    return remembered(name, options)


def as_pixels(values: npt.NDArray[np.float32]) -> tuple[Pixels, npt.NDArray[np.int32]]:
    """Pictures with values from 0 to 1 in bytes, and the code of each.

    >>> pixels, codes = as_pixels(np.array([0.0, 0.5, np.nan], np.float32).reshape(3, 1, 1, 1))
    >>> pixels.reshape(-1).tolist(), codes.tolist()
    ([0, 128, 0], [1, 0, 2])
    """
    finite = np.logical_and.reduce(np.isfinite(values), axis=(1, 2, 3))
    pixels = (np.where(finite[:, None, None, None], values, 0.0).clip(0, 1) * 255).round().astype(np.uint8)
    black = pixels.max(axis=(1, 2, 3), initial=0) == 0
    return pixels, np.select([~finite, black], [NOT_FINITE, BLACK], 0).astype(np.int32)
