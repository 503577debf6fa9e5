"""The images of a training as the model wants them, prepared once and kept in memory where they fit."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np

from captious.encoders.encoder import Pixels
from captious.encoders.pictures import open_picture
from captious.training.schedule import Rows

SHARE = 0.4
"""Of the free memory that prepared images may take."""
Report = Callable[[str, int, int], None]


class Album:
    """Images by number: from memory, or opened and prepared each time where all together are too large."""

    def __init__(
        self,
        paths: Sequence[Path],
        encoder: Any,
        workers: int = 0,
        keep: bool | None = None,
        report: Report | None = None,
    ) -> None:
        self.paths = list(paths)
        self._encoder = encoder
        self._pool = ThreadPoolExecutor(workers or min(32, os.cpu_count() or 1), thread_name_prefix="images")
        self._kept: Pixels | None = None
        first = self._open(0)
        self.kept = first.nbytes * len(self.paths) < SHARE * _free() if keep is None else keep
        if self.kept:
            self._kept = np.empty((len(self.paths), *first.shape), dtype=np.uint8)
            for done, pixels in enumerate(self._opened(range(len(self.paths))), start=1):
                self._kept[done - 1] = pixels
                if report is not None and (done % 64 == 0 or done == len(self.paths)):
                    report("images", done, len(self.paths))

    def __len__(self) -> int:
        return len(self.paths)

    @property
    def nbytes(self) -> int:
        """Memory the images take."""
        return 0 if self._kept is None else self._kept.nbytes

    def pixels(self, rows: Rows) -> Pixels:
        """Images by number, stacked."""
        if self._kept is not None:
            return self._kept[rows]
        return np.stack(list(self._opened(rows.tolist())))

    def _opened(self, rows: Sequence[int]) -> Iterator[Pixels]:
        return self._pool.map(self._open, rows)

    def _open(self, row: int) -> Pixels:
        pixels: Pixels = self._encoder.prepare(open_picture(self.paths[row]))
        return pixels


def _free() -> int:
    try:
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (ValueError, OSError, AttributeError):
        return 8 * 2**30
