"""Cross-encoders: models that read an image and a caption jointly and return one logit; UMIC is one of them.

A backbone prepares images and captions once (hidden states of a frozen encoder, pixels, regions, token ids) and then
computes the logit of any prepared image with any prepared caption. The score is the sigmoid of the logit. A trained
backbone is a directory: ``captious-umic.json`` names the backbone, the other files depend on it.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Protocol

import numpy as np

from captious._core.files import digest
from captious._core.types import Bools, Floats, Ints
from captious._version import __version__
from captious.captions import ImageSource
from captious.errors import InputError, require
from captious.io.images import UnreadableImage, read_image
from captious.models._model_folders import read_json, write_json
from captious.models.devices import get_torch_dtype, hash_weights, resolve_precision
from captious.models.encoder import Encoder, Tokens
from captious.models.features import find_distinct
from captious.models.hub import ModelRegistry, get_file_stats
from captious.models.segments import FeatureSpace, as_keys, hash_content
from captious.models.store import get_file_state, lookup, open_file_index, open_store, record
from captious.options import get_runtime

if TYPE_CHECKING:
    import torch


NAMES = ("fusion", "vilt", "blip", "uniter")
# The backbone of the paper; only its metric is named UMIC.
ORIGINAL = "uniter"


def get_metric_name(backbone: str) -> str:
    """Return the name of the metric on this backbone.

    >>> get_metric_name("fusion"), get_metric_name("uniter")
    ('umic-fusion', 'umic')
    """
    return "umic" if backbone == ORIGINAL else f"umic-{backbone}"


class LaidOutImages(Protocol):
    """Images that a backbone has prepared for `Backbone.logits`."""

    @property
    def faults(self) -> Mapping[int, str]:
        """Reasons by index why an image cannot be used."""

    def __len__(self) -> int:
        """Return the number of images."""

    def take(self, rows: Ints) -> Any:
        """Return a batch of b images; may run in any thread."""


class Texts(Protocol):
    """Captions that a backbone has prepared for `Backbone.logits`."""

    @property
    def lengths(self) -> Ints:
        """Number of tokens of each caption before truncation."""

    def take(self, rows: Ints) -> Any:
        """Return a batch of b × k captions, k for each of b images; may run in any thread."""


class Backbone(ABC):
    """A cross-encoder of images and texts. Training uses ``module``, ``device`` and ``save``."""

    name: ClassVar[str]
    module: Any
    device: torch.device
    limit: int
    """Token limit of a caption."""
    fixed_fingerprint: str = ""
    """The fingerprint of weights that are final, computed once; empty while they may change in training."""

    @property
    @abstractmethod
    def scale(self) -> torch.Tensor:
        """Factor of the logit, for the training log."""

    @property
    @abstractmethod
    def input_recipe(self) -> str:
        """The input processing as text, to be hashed: image preparation, frozen encoder, prefix, tokenizer."""

    @abstractmethod
    def pictures(self, paths: Sequence[ImageSource]) -> LaidOutImages:
        """Prepare images for `logits`."""

    @abstractmethod
    def texts(self, texts: Sequence[str], keep: bool = True) -> Texts:
        """Prepare captions for `logits`; ``keep`` caches results that other runs can reuse."""

    @abstractmethod
    def logits(self, pictures: Any, texts: Any) -> torch.Tensor:
        """Return the logits of each image with each of its captions, b × k."""

    @abstractmethod
    def save(self, folder: str | Path) -> None:
        """Write all files that :func:`load_backbone` reads."""

    @property
    def fingerprint(self) -> str:
        """Digest of the weights and of ``input_recipe``, twelve hexadecimal digits."""
        return self.fixed_fingerprint or digest(hash_weights(self.module), self.input_recipe.encode())

    @property
    def frozen_encoder(self) -> Encoder | None:
        """Encoder whose states the model reads; None if it reads images and tokens itself."""
        return None

    def count_tokens(self, texts: Sequence[str]) -> Ints:
        """Count the tokens of each caption before truncation."""
        return self.texts(texts).lengths

    def files(self, paths: Sequence[ImageSource]) -> list[ImageSource]:
        """Return the file that is read for each image."""
        return list(paths)


@dataclass(frozen=True, eq=False)
class TokenIds:
    """Token ids of captions, concatenated.

    ::

        flat    101 7 9 102 | 101 4 102 | 101 …
        starts  0             4           7
        counts  4             3
    """

    flat: Ints
    starts: Ints
    counts: Ints
    lengths: Ints
    device: Any

    @classmethod
    def of(cls, tokens: Tokens, limit: int, device: Any) -> TokenIds:
        """Concatenate the ids of a padded batch."""
        counts = np.minimum(tokens.lengths, limit)
        inside = np.arange(tokens.ids.shape[1]) < counts[:, None]
        return cls(tokens.ids[inside], np.cumsum(counts) - counts, counts, tokens.lengths, device)

    def take(self, rows: Ints) -> tuple[Any, Any]:
        """Return ids and mask of the captions ``rows`` (b × k), each b × k × longest."""
        indices, inside = pad_ragged(self.starts, self.counts, rows)
        torch = require("torch", "clip")
        ids = np.where(inside, self._padded[indices], 0)
        return torch.from_numpy(ids).to(self.device), torch.from_numpy(inside).to(self.device)

    @cached_property
    def _padded(self) -> Ints:
        # Padding points to index 0, which must exist even if no caption has a token.
        return np.append(self.flat, 0)


def pad_ragged(starts: Ints, counts: Ints, rows: Ints) -> tuple[Ints, Bools]:
    """Return indices of ragged rows as a padded array, and its mask; padding points to index 0.

    >>> indices, inside = pad_ragged(np.array([0, 2]), np.array([2, 3]), np.array([[1], [0]]))
    >>> indices.tolist(), inside[1].tolist()
    ([[[2, 3, 4]], [[0, 1, 0]]], [[True, True, False]])
    """
    longest = int(counts[rows].max(initial=1))
    steps = np.arange(longest)
    inside = steps < counts[rows][..., None]
    return np.where(inside, starts[rows][..., None] + steps, 0), inside


def count_parameters(backbone: Backbone) -> int:
    """Count the trained parameters, without those of a frozen encoder."""
    return sum(one.numel() for one in backbone.module.parameters())


MARKER = "captious-umic.json"
FORMAT = 1

_LOADED: ModelRegistry[Backbone] = ModelRegistry(limit=2)


def mark(folder: str | Path, backbone: Backbone, record: dict[str, Any]) -> None:
    """Write the marker file of a folder; it is written last."""
    content = {
        "kind": "umic",
        "format": FORMAT,
        "backbone": backbone.name,
        "called": get_metric_name(backbone.name),
        "parameters": count_parameters(backbone),
        "captious": __version__,
        **record,
    }
    write_json(Path(folder) / MARKER, content)


def read_marker(folder: str | Path) -> dict[str, Any]:
    """Read and check the marker file of a folder."""
    folder = Path(folder)
    path = folder / MARKER
    if not folder.is_dir():
        raise InputError(f"{folder}: no such folder, expected one that captious train umic wrote")
    record = read_json(path, "a folder that captious train umic wrote")
    if record.get("kind") != "umic" or record.get("format") != FORMAT:
        raise InputError(f"{path}: is not of a UMIC model in format {FORMAT}")
    if record.get("backbone") not in NAMES:
        raise InputError(f"{path}: backbone {record.get('backbone')!r}, expected one of {', '.join(NAMES)}")
    missing = [key for key in ("encoder", "shape") if not isinstance(record.get(key), dict)]
    if record["backbone"] == "fusion" and missing:
        raise InputError(f"{path}: has no {' and '.join(missing)}, expected what captious train umic wrote")
    return record


def load_backbone(folder: str | Path, regions: str | None = None) -> Backbone:
    """Load the model of a directory on the device of the current runtime, once per process.

    ``regions`` is the directory of region features, for ``uniter``.
    """
    folder, runtime = Path(folder), get_runtime()
    read_marker(folder)
    key = (str(folder.resolve()), get_file_stats(folder), runtime.device, runtime.precision, regions)

    def load() -> Backbone:
        backbone = open_backbone(folder, regions)
        backbone.fixed_fingerprint = backbone.fingerprint
        return backbone

    return _LOADED.get(key, load)


def open_backbone(folder: str | Path, regions: str | None = None) -> Backbone:
    """Load a fresh copy, which may be trained."""
    folder = Path(folder)
    record = read_marker(folder)
    kind = record["backbone"]
    if regions is not None and kind != "uniter":
        raise InputError(f"{folder}: is {get_metric_name(kind)}, which looks at images itself; regions are for uniter")
    if kind == "fusion":
        from captious.models.fusion import load_fusion

        return load_fusion(folder, record)
    if kind == "uniter":
        from captious.models.uniter import load_uniter

        return load_uniter(folder, regions)
    if not (folder / "model").is_dir():
        raise InputError(f"{folder}: has no folder model, but {MARKER} says that it is {get_metric_name(kind)}")
    from captious.models.image_text_matching import LOADERS

    return LOADERS[kind](folder / "model")


# Images prepared at a time.
IMAGES = 512


@dataclass(frozen=True, eq=False)
class PairLogits:
    """The logit of each pair of an image and a caption; NaN if the image is unusable."""

    logits: Floats
    faults: dict[int, str]
    """The reason why the image of a pair is unusable, by the index of the pair."""

    @property
    def scores(self) -> Floats:
        """Sigmoids of the logits."""
        with np.errstate(over="ignore"):
            return np.asarray(1 / (1 + np.exp(-self.logits)), dtype=np.float64)


def score_pairs(backbone: Backbone, paths: Sequence[ImageSource], texts: Sequence[str]) -> PairLogits:
    """Return the logits of pairs of an image and a caption; each distinct pair is computed once and cached."""
    runtime = get_runtime()
    precision = resolve_precision(backbone.device, runtime.precision)
    kind = f"scores-{precision}{'upright' if runtime.upright else ''}"
    store = open_store(FeatureSpace(get_metric_name(backbone.name), backbone.fingerprint, kind, (1,)))
    distinct, image = find_distinct(paths)
    contents = get_content_keys(backbone.files(distinct))
    pairs, pair_of = find_distinct(list(zip(image.tolist(), texts, strict=True)))
    keys = as_keys(_hash_pair(contents[index], text) for index, text in pairs)
    rows, _, cached = store.gather(keys)
    logits = np.full(len(pairs), np.nan)
    logits[cached] = rows[cached, 0]
    missing = np.flatnonzero(~cached)
    faults: dict[int, str] = {}
    if len(missing):
        missing_pairs = [pairs[row] for row in missing.tolist()]
        logits[missing], faults = _compute_logits(backbone, distinct, missing_pairs, precision)
        # Logits of unreadable images, and NaN, are not cached.
        has_image = np.array([contents[index] is not None for index, _ in missing_pairs])
        keep = missing[has_image & np.isfinite(logits[missing])]
        store.put(keys[keep], logits[keep, None].astype(np.float32))
    store.settle()
    # Faults are by image so far, the result has them by pair.
    by_pair = {row: faults[index] for row, index in enumerate(image.tolist()) if index in faults}
    return PairLogits(logits[pair_of], by_pair)


def _compute_logits(
    backbone: Backbone, paths: list[ImageSource], pairs: Sequence[tuple[int, str]], precision: str
) -> tuple[Floats, dict[int, str]]:
    """Compute the logits of pairs (index of an image, caption), and faults by index of the image.

    Images are prepared in parts; the captions of a part are batched by length, so that little is padded.
    """
    torch = require("torch", "clip")
    runtime = get_runtime()
    image_of_pair = np.array([index for index, _ in pairs], np.int64)
    logits, faults = np.full(len(pairs), np.nan), {}
    images = np.unique(image_of_pair)
    done = 0
    autocast = precision != "fp32" and backbone.device.type == "cuda"
    was_training = backbone.module.training
    backbone.module.eval()
    for start in range(0, len(images), IMAGES):
        part = images[start : start + IMAGES]
        pictures = backbone.pictures([paths[index] for index in part.tolist()])
        faults.update({int(part[position]): reason for position, reason in pictures.faults.items()})
        usable = np.array([int(index) for index in part if int(index) not in faults], np.int64)
        rows = np.flatnonzero(np.isin(image_of_pair, usable))
        if not len(rows):
            continue
        texts = backbone.texts([pairs[row][1] for row in rows.tolist()])
        by_length = np.argsort(texts.lengths, kind="stable")
        with (
            torch.inference_mode(),
            torch.autocast(backbone.device.type, dtype=get_torch_dtype(precision), enabled=autocast),
        ):
            for first in range(0, len(by_length), runtime.batch):
                batch = by_length[first : first + runtime.batch]
                # The position of each pair's image in `part`, which is sorted.
                positions = np.searchsorted(part, image_of_pair[rows[batch]])
                output = backbone.logits(pictures.take(positions), texts.take(batch[:, None]))
                logits[rows[batch]] = output[:, 0].float().cpu().numpy()
                done += len(batch)
                runtime.progress("captions judged", done, len(pairs))
    backbone.module.train(was_training)
    return logits, faults


def get_content_keys(paths: Sequence[ImageSource]) -> list[bytes | None]:
    """Return the key of each image's content, cached for unchanged files; None if a file cannot be read."""
    files = open_file_index()
    states = [get_file_state(path) for path in paths]
    contents = lookup(files, states)
    unknown = [index for index, key in enumerate(contents) if key is None]
    for index in unknown:
        try:
            contents[index] = hash_content(read_image(paths[index]))
        except UnreadableImage:
            continue
    keys = {index: key for index in unknown if (key := contents[index]) is not None}
    record(files, [states[index] for index in keys], list(keys.values()))
    files.settle()
    return contents


def _hash_pair(content: bytes | None, text: str) -> bytes:
    return hash_content((content or b"") + b"\0" + text.encode("utf-8", "surrogatepass"))
