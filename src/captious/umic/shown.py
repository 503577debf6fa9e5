"""Images as pixels for backbones that look for themselves: opened by threads, kept where they fit into memory."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from captious.encoders.encoder import Pixels
from captious.encoders.pictures import Unreadable, open_picture
from captious.encoders.runtime import current
from captious.umic.backbone import Ints
from captious.umic.stored import SHARE, free_memory

if TYPE_CHECKING:
    from PIL.Image import Image

Prepare = Callable[["Image"], Pixels]


@dataclass(frozen=True, eq=False)
class Shown:
    """Prepared images by number; ``kept`` has None for those that cannot be used, and is empty where none are kept."""

    paths: Sequence[str]
    prepare: Prepare
    upright: bool = False
    kept: list[Pixels | None] = field(default_factory=list)
    faults: dict[int, str] = field(default_factory=dict)

    @classmethod
    def of(cls, paths: Sequence[str], prepare: Prepare) -> Shown:
        """Open all images to see which cannot be used; where they are too many to be kept, each again in its turn."""
        runtime = current()
        shown = cls(paths, prepare, runtime.upright)
        size, total, keep = 0, 0, True
        with ThreadPoolExecutor(runtime.workers or min(32, os.cpu_count() or 1)) as pool:
            for number, found in enumerate(pool.map(shown.look, paths)):
                if isinstance(found, str):
                    shown.faults[number] = found
                else:
                    size, total = size + found.nbytes, total + 1
                runtime.progress("images", number + 1, len(paths))
                if keep:
                    shown.kept.append(None if isinstance(found, str) else found)
                    keep = total != 32 or size / total * len(paths) <= SHARE * free_memory()
        if not keep:
            shown.kept.clear()
        return shown

    def __len__(self) -> int:
        return len(self.paths)

    def take(self, rows: Ints) -> list[Pixels]:
        """Pixels of some images; one that cannot be opened is an error."""
        found = [self.kept[row] if self.kept else self.look(self.paths[row]) for row in rows.tolist()]
        for row, one in zip(rows.tolist(), found, strict=True):
            if one is None or isinstance(one, str):
                raise Unreadable(one or self.faults[row])
        return [one for one in found if one is not None and not isinstance(one, str)]

    def look(self, path: str) -> Pixels | str:
        """An image prepared, or why that cannot be."""
        try:
            return self.prepare(open_picture(path, self.upright))
        except Unreadable as error:
            return str(error)
