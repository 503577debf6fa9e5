"""Region features of images as files: one ``.npz`` per image, in the layout of UNITER's feature dumps.

``features`` is regions × 2048, ``norm_bb`` their boxes relative to the image (x1, y1, x2, y2, width, height, perhaps
the area), ``conf`` how sure the detector was, most certain first. The number of regions is adaptive:
those above ``CERTAIN``, at least ``FEWEST`` and at most ``MOST``.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from zipfile import BadZipFile

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.umic.backbone import Ints

CERTAIN, FEWEST, MOST = 0.2, 10, 100
Floats = npt.NDArray[np.float32]


def read_regions(path: Path, width: int) -> tuple[Floats, Floats]:
    """Features and seven-number geometry of the regions of an image."""
    try:
        held = np.load(path, allow_pickle=False)
        if not isinstance(held, np.lib.npyio.NpzFile):
            raise ValueError("it is one array without a name")
        with held:
            arrays: dict[str, npt.NDArray[Any]] = {name: held[name] for name in held.files}
    except FileNotFoundError:
        raise InputError(f"{path}: no region features of this image") from None
    except (OSError, ValueError, EOFError, BadZipFile) as error:
        raise InputError(f"{path}: is not an .npz file of arrays ({str(error)[:80]})") from None
    if not {"features", "norm_bb"} <= arrays.keys():
        raise InputError(f"{path}: holds {', '.join(arrays) or 'nothing'}, expected the arrays features and norm_bb")
    features, boxes = arrays["features"], arrays["norm_bb"]
    if features.ndim != 2 or features.shape[1] != width or boxes.shape not in ((len(features), 6), (len(features), 7)):
        raise InputError(
            f"{path}: features of shape {features.shape} and norm_bb of shape {boxes.shape}, expected n × {width} and "
            "n × 6 or 7"
        )
    if not len(features):
        raise InputError(f"{path}: holds no region")
    if not all(one.dtype.kind in "fiu" and np.isfinite(one).all() for one in (features, boxes)):
        raise InputError(f"{path}: features or norm_bb hold what is no finite number")
    if "conf" in arrays and arrays["conf"].shape != (len(features),):
        raise InputError(f"{path}: conf of shape {arrays['conf'].shape}, expected one number for each region")
    if boxes.shape[1] == 6:
        boxes = np.concatenate([boxes, boxes[:, 4:5] * boxes[:, 5:6]], axis=1)
    number = how_many(arrays["conf"]) if "conf" in arrays else MOST
    return features[:number].astype(np.float32), boxes[:number].astype(np.float32)


def how_many(confidence: npt.NDArray[Any]) -> int:
    """How many regions to use.

    >>> how_many(np.array([0.9] * 40 + [0.1] * 60)), how_many(np.array([0.9] + [0.1] * 60))
    (40, 10)
    """
    return int(np.clip((confidence > CERTAIN).sum(), FEWEST, MOST))


@dataclass(frozen=True, eq=False)
class Regions:
    """Images by number as regions, in memory."""

    features: list[Floats | None]
    boxes: list[Floats | None]
    faults: dict[int, str]

    @classmethod
    def of(cls, files: Sequence[Path], width: int) -> Regions:
        """Read all files; what is wrong with one becomes a fault."""
        features: list[Floats | None] = []
        boxes: list[Floats | None] = []
        faults: dict[int, str] = {}
        for number, path in enumerate(files):
            try:
                found: tuple[Floats | None, Floats | None] = read_regions(path, width)
            except InputError as error:
                faults[number], found = str(error), (None, None)
            features.append(found[0])
            boxes.append(found[1])
        return cls(features, boxes, faults)

    def __len__(self) -> int:
        return len(self.features)

    def take(self, rows: Ints) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
        """Padded features and boxes, and which regions are there."""
        chosen: list[Floats] = []
        placed: list[Floats] = []
        for row in rows.tolist():
            one, box = self.features[row], self.boxes[row]
            if one is None or box is None:
                raise InputError(self.faults[row])
            chosen.append(one)
            placed.append(box)
        longest = max(map(len, chosen))
        features = np.zeros((len(chosen), longest, chosen[0].shape[1]), np.float32)
        boxes = np.zeros((len(chosen), longest, 7), np.float32)
        inside = np.zeros((len(chosen), longest), np.bool_)
        for number, (one, box) in enumerate(zip(chosen, placed, strict=True)):
            features[number, : len(one)], boxes[number, : len(one)], inside[number, : len(one)] = one, box, True
        return features, boxes, inside
