"""Scores of captions with their images: logits in batches, each pair once, kept in the feature cache like features."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from captious.encoders import memo
from captious.encoders.devices import number_type, precision_on
from captious.encoders.pictures import Unreadable, read_picture
from captious.encoders.runtime import current
from captious.encoders.segments import Space, as_keys, key_of
from captious.encoders.stores import open_store
from captious.extras import require
from captious.umic.backbone import Backbone, called

Floats = npt.NDArray[np.float64]
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
