"""Interface of a painter (text and seed in, picture out), and functions to load painters and cache pictures."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, fields
from importlib import import_module
from importlib.metadata import entry_points
from math import isfinite
from typing import NamedTuple, Protocol

import numpy as np

from captious._core.types import Bools, Floats32, Ints, Ints32
from captious.errors import InputError
from captious.models.encoder import Encoder, Features, Pixels
from captious.models.features import find_distinct, normalize_rows
from captious.models.hub import ModelRegistry, find_local, get_file_stats
from captious.models.pipeline import OomBackoff, make_image_start
from captious.models.segments import FeatureSpace, as_keys, hash_text
from captious.models.store import open_store
from captious.options import get_runtime

GUIDED = "guided:"
_ATTRIBUTE = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
# Reasons for a missing picture, by code; 0 means no fault. Codes are stored: append new ones.
FAULTS = (
    "",
    "the painter gave a black picture (a safety filter?)",
    "the painter gave a picture that is not finite",
    "the text says nothing that this painter can draw",
)
BLACK, NOT_FINITE, NOTHING = 1, 2, 3


class Prompt(NamedTuple):
    """A text to paint under a seed."""

    text: str
    seed: int


class PaintedBatch(NamedTuple):
    """Pictures of some prompts, by index; a code above 0 means that there is no picture."""

    indices: list[int]
    pixels: Pixels
    """number × height × width × 3."""
    codes: Ints32


class Painter(Protocol):
    """Text-to-image model: equal text and seed give an equal picture, whatever else is in the batch."""

    @property
    def name(self) -> str:
        """Name in signatures."""

    @property
    def fingerprint(self) -> str:
        """Twelve hexadecimal digits over everything that moves a pixel: weights, settings, precision."""

    @property
    def settings(self) -> str:
        """Settings in readable form."""

    @property
    def shape(self) -> tuple[int, int, int]:
        """Height, width and 3."""

    @property
    def cache_pictures(self) -> bool:
        """True if pictures are cached on disk; vectors always are."""

    def exceeds_limit(self, texts: Sequence[str]) -> Bools:
        """Return a mask of the texts that are longer than the token limit."""

    def paint(self, prompts: Sequence[Prompt]) -> Iterator[PaintedBatch]:
        """Yield pictures of all prompts in batches, in any order."""


@dataclass(frozen=True)
class PainterOptions:
    """Options of a painter; None is the painter's default."""

    steps: int | None = None
    guidance: float | None = None
    scheduler: str | None = None
    size: int | None = None
    guide: str | None = None
    """Weights of the encoder that guides a ``guided:`` painter."""
    safety: bool = False
    """Keep the safety checker of a pipeline that has one."""
    compile: bool = False
    """Compile the model: takes minutes, then paints faster; only on a GPU."""

    def refuse(self, painter: str, *accepted: str) -> None:
        """Raise InputError if an option is set that the painter does not accept, or has an invalid value."""
        for field in fields(self):
            if field.name not in accepted and getattr(self, field.name) != field.default:
                takes = ", ".join(accepted) or "none"
                raise InputError(f"painter {painter!r} has no option {field.name}, it takes: {takes}")
        for name in ("steps", "size"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise InputError(f"painter {painter!r}: {name} is {value}, expected a whole number above 0")
        if self.guidance is not None and not isfinite(self.guidance):
            raise InputError(f"painter {painter!r}: guidance is {self.guidance}, expected a finite number")


_LOADED: ModelRegistry[Painter] = ModelRegistry(limit=2)


def load_painter(name: str, options: PainterOptions | None = None) -> Painter:
    """Load the painter of a name on the device of the current runtime, once per process.

    A ``diffusers`` pipeline by folder or hub id, ``guided:`` before a decoder's folder or hub id, or
    ``module:attribute`` of Python code that `allow_painter` allowed: a function that makes a painter of
    `PainterOptions`.
    """
    runtime, options = get_runtime(), options or PainterOptions()
    path = None if _ATTRIBUTE.fullmatch(name) else find_local(name.removeprefix(GUIDED))
    key = (name, get_file_stats(path), options, runtime.device, runtime.precision)
    return _LOADED.get(key, lambda: _load(name, options))


def _load(name: str, options: PainterOptions) -> Painter:
    if not name:
        raise InputError("no painter named: expected a text-to-image pipeline by folder or hub id")
    if name.startswith(GUIDED):
        from captious.models._guided import load_guided

        return load_guided(name.removeprefix(GUIDED), options)
    if _ATTRIBUTE.fullmatch(name):
        return _from_module(name, options)
    from captious.models._diffusion import open_pipeline

    return open_pipeline(name, options)


# Environment variable with the painters that may be imported, as `module:attribute`, separated by commas.
ALLOWED = "CAPTIOUS_PAINTERS"


def allow_painter(name: str) -> None:
    """Allow ``module:attribute`` to be imported and called if a metric names it as its painter.

    The name of a metric may come from a file, a page or another person, so it never runs code by itself. Processes that
    this one starts inherit the permission. An installed package allows its painters by an entry point of the group
    ``captious.painters``.
    """
    if not _ATTRIBUTE.fullmatch(name):
        raise InputError(f"painter {name!r}: expected module:attribute of Python code")
    os.environ[ALLOWED] = ",".join(dict.fromkeys([*_list_allowed(), name]))


def _list_allowed() -> list[str]:
    return [name.strip() for name in os.environ.get(ALLOWED, "").split(",") if name.strip()]


def _is_allowed(name: str) -> bool:
    return name in _list_allowed() or any(point.value == name for point in entry_points(group="captious.painters"))


def _from_module(name: str, options: PainterOptions) -> Painter:
    if not _is_allowed(name):
        raise InputError(
            f"painter {name!r}: is Python code, which a metric's name does not run by itself; call "
            f"captious.models.allow_painter({name!r}), or set {ALLOWED}={name}"
        )
    module, _, attribute = name.partition(":")
    try:
        factory: Callable[[PainterOptions], Painter] = getattr(import_module(module), attribute)
    except (ImportError, AttributeError) as error:
        raise InputError(f"painter {name!r}: {error}; is its folder on PYTHONPATH?") from None
    return factory(options)


def as_pixels(values: Floats32) -> tuple[Pixels, Ints32]:
    """Convert pictures with values from 0 to 1 to bytes; also return the code of each.

    >>> pixels, codes = as_pixels(np.array([0.0, 0.5, np.nan], np.float32).reshape(3, 1, 1, 1))
    >>> pixels.reshape(-1).tolist(), codes.tolist()
    ([0, 128, 0], [1, 0, 2])
    """
    finite = np.logical_and.reduce(np.isfinite(values), axis=(1, 2, 3))
    pixels = (np.where(finite[:, None, None, None], values, 0.0).clip(0, 1) * 255).round().astype(np.uint8)
    black = pixels.max(axis=(1, 2, 3), initial=0) == 0
    return pixels, np.select([~finite, black], [NOT_FINITE, BLACK], 0).astype(np.int32)


# Bytes of cached pictures that are read at a time.
CHUNK_BYTES = 64 << 20


@dataclass(frozen=True)
class Imagined:
    """Vectors of the pictures of n texts under s seeds."""

    rows: Features
    """u × d, of unit length."""
    index: Ints
    """n × s: row of each picture, −1 if there is none."""
    codes: Ints32
    """n × s: code of each picture, an index of ``FAULTS``."""

    def fault(self, text: int) -> str:
        """Return why a text has no picture under some seed; empty if it has all."""
        wrong = self.codes[text][self.codes[text] > 0]
        return FAULTS[int(wrong[0])] if len(wrong) else ""


def imagine(painter: Painter, encoder: Encoder, texts: Sequence[str], seeds: Sequence[int]) -> Imagined:
    """Return vectors of the pictures of texts: from the cache, else from cached pictures, else painted."""
    distinct, text_of = find_distinct(texts)
    prompts = [Prompt(text, seed) for text in distinct for seed in seeds]
    keys = as_keys(hash_prompt(prompt) for prompt in prompts)
    store = open_store(
        FeatureSpace(encoder.name, encoder.fingerprint, f"painted-{painter.fingerprint}", (encoder.dimension,))
    )
    rows, codes, cached = store.gather(keys)
    todo = np.flatnonzero(~cached).tolist()
    if todo:
        pace = OomBackoff(get_runtime().log)
        try:
            for batch in get_pictures(painter, [prompts[index] for index in todo]):
                indices = [todo[index] for index in batch.indices]
                vectors, wrong = _encode_pictures(encoder, batch, pace)
                store.put(keys[indices], vectors, wrong)
        finally:
            store.flush()
        rows, codes, cached = store.gather(keys)
    store.settle()
    usable = cached & (codes == 0)
    index = np.where(usable, np.cumsum(usable) - 1, -1).reshape(len(distinct), len(seeds))
    return Imagined(rows[usable], index[text_of], codes.reshape(index.shape)[text_of])


def get_pictures(painter: Painter, prompts: Sequence[Prompt]) -> Iterator[PaintedBatch]:
    """Yield pictures of distinct prompts in batches: cached ones first, the others are painted and cached."""
    runtime = get_runtime()
    store = open_store(FeatureSpace(painter.name, painter.fingerprint, "pictures", painter.shape, "uint8"))
    keys = as_keys(hash_prompt(prompt) for prompt in prompts)
    step = max(1, CHUNK_BYTES // int(np.prod(painter.shape)))
    todo: list[int] = []
    for start in range(0, len(prompts), step):
        pixels, codes, cached = store.gather(keys[start : start + step])
        here = np.flatnonzero(cached)
        if len(here):
            yield PaintedBatch((start + here).tolist(), pixels[here], codes[here])
        todo += (start + np.flatnonzero(~cached)).tolist()
    done = len(prompts) - len(todo)
    try:  # all at once, so that the painter's batches are full
        for batch in painter.paint([prompts[index] for index in todo]):
            indices = [todo[index] for index in batch.indices]
            if painter.cache_pictures:
                store.put(keys[indices], batch.pixels, batch.codes)
            done += len(indices)
            runtime.progress("pictures", done, len(prompts))
            yield PaintedBatch(indices, batch.pixels, batch.codes)
    finally:
        store.flush()
    store.settle()


def list_pictures(painter: Painter, prompts: Sequence[Prompt]) -> tuple[list[Pixels], list[int]]:
    """Return the pictures and codes in the order of the prompts; equal prompts are painted once."""
    distinct = list(dict.fromkeys(prompts))
    painted: dict[Prompt, tuple[Pixels, int]] = {}
    for batch in get_pictures(painter, distinct):
        for index, pixels, code in zip(batch.indices, batch.pixels, batch.codes.tolist(), strict=True):
            painted[distinct[index]] = (pixels, code)
    return [painted[prompt][0] for prompt in prompts], [painted[prompt][1] for prompt in prompts]


def hash_prompt(prompt: Prompt) -> bytes:
    """Return the key of a text and a seed; the painter's fingerprint is part of the folder name."""
    return hash_text(f"{prompt.seed}\0{prompt.text}")


def _encode_pictures(encoder: Encoder, batch: PaintedBatch, pace: OomBackoff) -> tuple[Features, Ints32]:
    """Return unit vectors; zeros and a code if there is no picture, or the encoder's output is not finite."""
    from PIL import Image

    codes = batch.codes.copy()
    vectors = np.zeros((len(codes), encoder.dimension), np.float32)
    good = np.flatnonzero(codes == 0)
    size = get_runtime().batch
    for start in range(0, len(good), size):
        part = good[start : start + size]
        prepared = [encoder.prepare(Image.fromarray(batch.pixels[index])) for index in part]
        unit, finite = normalize_rows(pace.start(make_image_start(encoder), prepared)())
        vectors[part[finite]] = unit[finite]
        codes[part[~finite]] = NOT_FINITE
    return vectors, codes
