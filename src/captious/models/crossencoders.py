"""What judges an image with captions: the protocol of a backbone, and captions as ragged rows of token ids.

A backbone lays images and captions out once (states of a frozen encoder, pixels, regions, token ids), and then gives a
logit for any image with any of the captions. The score is the logit's sigmoid.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from captious._typing import Bools, Floats, Ints
from captious._version import __version__
from captious.errors import InputError, require
from captious.io.images import Unreadable, read_picture
from captious.models import store as memo
from captious.models._segments import Space, as_keys, key_of
from captious.models.devices import number_type, precision_on
from captious.models.encoder import Tokens
from captious.models.registry import ModelRegistry
from captious.models.store import open_store
from captious.options import current

if TYPE_CHECKING:
    import torch


NAMES = ("fusion", "vilt", "blip", "uniter")
ORIGINAL = "uniter"
"""Only this one may be called UMIC."""


def called(backbone: str) -> str:
    """What a metric on this backbone is called.

    >>> called("fusion"), called("uniter")
    ('umic-fusion', 'umic')
    """
    return "umic" if backbone == ORIGINAL else f"umic-{backbone}"


class Pictures(Protocol):
    """Images laid out."""

    @property
    def faults(self) -> Mapping[int, str]:
        """Why an image cannot be used, by its place."""

    def __len__(self) -> int:
        """How many there are."""

    def take(self, rows: Ints) -> Any:
        """A batch of b images; may run in any thread."""


class Texts(Protocol):
    """Captions laid out."""

    @property
    def lengths(self) -> Ints:
        """Tokens of each before it was cut at the limit."""

    def take(self, rows: Ints) -> Any:
        """A batch of b × k captions, k for each of b images; may run in any thread."""


class Backbone(Protocol):
    """A model that gives logits. ``module``, ``device`` and ``save`` are what a training asks for."""

    name: str
    module: Any
    device: torch.device
    limit: int
    """Tokens of a caption that are read."""

    @property
    def fingerprint(self) -> str:
        """Twelve digits over weights and all that comes before them."""

    @property
    def scale(self) -> torch.Tensor:
        """One number for the log: what the logit is multiplied by."""

    @property
    def reads(self) -> str:
        """How it comes to its input, for cached scores: image preparation, frozen encoder, prefix."""

    def pictures(self, paths: Sequence[str]) -> Pictures:
        """Lay images out."""

    def texts(self, texts: Sequence[str], keep: bool = True) -> Texts:
        """Lay captions out; ``keep`` is for those that will be asked for again in other runs."""

    def logits(self, pictures: Any, texts: Any) -> torch.Tensor:
        """Of each image with each of its captions, b × k."""

    def save(self, folder: str | Path) -> None:
        """Write all files, for :func:`captious.models.crossencoders.load_backbone`."""


@dataclass(frozen=True, eq=False)
class Ids:
    """Captions as token ids one after another."""

    flat: Ints
    starts: Ints
    counts: Ints
    lengths: Ints
    device: Any

    @classmethod
    def of(cls, tokens: Tokens, limit: int, device: Any) -> Ids:
        """From a padded batch."""
        counts = np.minimum(tokens.lengths, limit)
        inside = np.arange(tokens.ids.shape[1]) < counts[:, None]
        return cls(tokens.ids[inside], np.cumsum(counts) - counts, counts, tokens.lengths, device)

    def take(self, rows: Ints) -> tuple[Any, Any]:
        """Ids and mask, b × k × longest."""
        places, inside = self.places(rows)
        torch = require("torch", "clip")
        ids = np.where(inside, self._padded[places], 0)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(inside).to(self.device)

    def places(self, rows: Ints) -> tuple[Ints, Bools]:
        """Where the tokens of captions stand, and which of a padded row are there."""
        return spread(self.starts, self.counts, rows)

    @cached_property
    def _padded(self) -> Ints:
        return np.append(self.flat, 0)


def spread(starts: Ints, counts: Ints, rows: Ints) -> tuple[Ints, Bools]:
    """Places of ragged rows as a padded array, and what of it is inside; outside it points to the first place.

    >>> places, inside = spread(np.array([0, 2]), np.array([2, 3]), np.array([[1], [0]]))
    >>> places.tolist(), inside[1].tolist()
    ([[[2, 3, 4]], [[0, 1, 0]]], [[True, True, False]])
    """
    longest = int(counts[rows].max(initial=1))
    steps = np.arange(longest)
    inside = steps < counts[rows][..., None]
    return np.where(inside, starts[rows][..., None] + steps, 0), inside


def parameters(backbone: Backbone) -> int:
    """How many numbers the model has learnt, those of a frozen encoder not counted."""
    return sum(one.numel() for one in backbone.module.parameters())


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
        from captious.models.fusion import load_fusion

        return load_fusion(place, record)
    if kind in ("vilt", "blip") and not (place / "model").is_dir():
        raise InputError(f"{place}: has no folder model, though {MARKER} says that it is {called(kind)}")
    if kind == "vilt":
        from captious.models.matching import load_vilt

        return load_vilt(place / "model")
    if kind == "blip":
        from captious.models.matching import load_blip

        return load_blip(place / "model")
    from captious.models.uniter import load_uniter

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


IMAGES = 512
"""Images laid out at a time."""


@dataclass(frozen=True, eq=False)
class Judged:
    """One logit per pair, NaN where ``faults`` says why the image cannot be used, by pair."""

    logits: Floats
    faults: dict[int, str]

    @property
    def scores(self) -> Floats:
        """Sigmoids."""
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-self.logits)), dtype=np.float64)


def judge(backbone: Backbone, paths: Sequence[str], texts: Sequence[str]) -> Judged:
    """Logits of pairs of an image file and a caption; those met before come from the cache."""
    runtime = current()
    precision = precision_on(backbone.device, runtime.precision)
    upright = " upright" if runtime.upright else ""
    space = Space(called(backbone.name), backbone.fingerprint, f"scores-{precision}{upright.strip()}", (1,))
    store = open_store(space)
    numbers = {path: place for place, path in enumerate(dict.fromkeys(paths))}
    distinct = list(numbers)
    image = np.fromiter(map(numbers.__getitem__, paths), np.int64, len(paths))
    contents = content_keys(_looked_at(backbone, distinct))
    pairs: dict[tuple[int, str], int] = {}
    for place, text in zip(image.tolist(), texts, strict=True):
        pairs.setdefault((place, text), len(pairs))
    which = np.array([pairs[pair] for pair in zip(image.tolist(), texts, strict=True)], np.int64)
    keys = as_keys(_pair_key(contents[place], text) for place, text in pairs)
    rows, _, found = store.gather(keys)
    logits = np.full(len(pairs), np.nan)
    logits[found] = rows[found, 0]
    todo = [(place, text, number) for (place, text), number in pairs.items() if not found[number]]
    faults: dict[int, str] = {}
    if todo:
        fresh, faults = _computed(backbone, distinct, [pair[:2] for pair in todo], precision)
        numbers_todo = np.array([pair[2] for pair in todo])
        logits[numbers_todo] = fresh
        keep = numbers_todo[[contents[place] is not None for place, _, _ in todo] & np.isfinite(fresh)]
        store.put(keys[keep], logits[keep, None].astype(np.float32))
    store.settle()
    broken = {place: faults[int(one)] for place, one in enumerate(image.tolist()) if int(one) in faults}
    return Judged(logits[which], broken)


def _computed(
    backbone: Backbone, paths: list[str], pairs: Sequence[tuple[int, str]], precision: str
) -> tuple[Floats, dict[int, str]]:
    """Logits of pairs of an image's number and a caption, and faults by image; images are laid out part by part."""
    torch = require("torch", "clip")
    runtime = current()
    owner = np.array([place for place, _ in pairs], np.int64)
    values, faults = np.full(len(pairs), np.nan), {}
    shown = np.unique(owner)
    done = 0
    half = precision != "fp32" and backbone.device.type == "cuda"
    was = backbone.module.training
    backbone.module.eval()
    for start in range(0, len(shown), IMAGES):
        some = shown[start : start + IMAGES]
        pictures = backbone.pictures([paths[one] for one in some.tolist()])
        faults.update({int(some[place]): why for place, why in pictures.faults.items()})
        rows = np.flatnonzero((owner >= some[0]) & (owner <= some[-1]))
        rows = rows[[int(one) not in faults for one in owner[rows]]] if len(rows) else rows
        if not len(rows):
            continue
        texts = backbone.texts([pairs[row][1] for row in rows.tolist()])
        order = np.argsort(texts.lengths, kind="stable")
        with (
            torch.inference_mode(),
            torch.autocast(backbone.device.type, dtype=number_type(precision), enabled=half),
        ):
            for at in range(0, len(order), runtime.batch):
                part = order[at : at + runtime.batch]
                images = np.searchsorted(some, owner[rows[part]])
                found = backbone.logits(pictures.take(images), texts.take(part[:, None]))
                values[rows[part]] = found[:, 0].float().cpu().numpy()
                done += len(part)
                runtime.progress("captions judged", done, len(pairs))
    backbone.module.train(was)
    return values, faults


def content_keys(paths: Sequence[str]) -> list[bytes | None]:
    """The key of each file's content, from memory where the file has not changed; None where it cannot be read."""
    seen = open_store(memo.SPACE)
    marks = [memo.mark(path) for path in paths]
    contents = memo.recall(seen, marks)
    new = [place for place, key in enumerate(contents) if key is None]
    for place in new:
        try:
            contents[place] = key_of(read_picture(paths[place]))
        except Unreadable:
            continue
    known = [(marks[place], key) for place in new if (key := contents[place]) is not None]
    memo.remember(seen, [mark for mark, _ in known], [key for _, key in known])
    seen.settle()
    return contents


def _looked_at(backbone: Backbone, paths: list[str]) -> list[str]:
    """The files that are read for images: regions for uniter."""
    files = getattr(backbone, "files", None)
    return [str(path) for path in files(paths)] if files is not None else [str(Path(path)) for path in paths]


def _pair_key(content: bytes | None, text: str) -> bytes:
    return key_of((content or b"") + b"\0" + text.encode("utf-8", "surrogatepass"))
