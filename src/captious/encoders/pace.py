"""Batches that fit: where memory runs out, the batch is halved and stays so."""

from __future__ import annotations

import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Features
from captious.errors import InputError

Fetch = Callable[[], Features]
"""Waits for a batch and gives its vectors."""
Start = Callable[[Any], Fetch]
"""Begins to compute a batch."""


@dataclass
class Pace:
    """How large a batch may be, found out by trying."""

    log: Callable[[str], None]
    most: int = sys.maxsize

    def start(self, begin: Start, items: Sequence[Any] | npt.NDArray[Any]) -> Fetch:
        """Begin a batch, in parts where memory runs out."""
        if len(items) <= self.most:
            try:
                return begin(items)
            except (RuntimeError, MemoryError) as error:
                if not out_of_memory(error):
                    raise
                if len(items) == 1:
                    line = " ".join(str(error).split())[:120]
                    raise InputError(f"even a batch of 1 does not fit into memory ({line})") from None
            # Outside the handler: the error's traceback holds what the batch had taken.
            self.most = len(items) // 2
            self.log(f"out of memory with a batch of {len(items)}: going on with {self.most}")
            _free()
        step = self.most  # a part may lower it further
        parts = [self.start(begin, items[at : at + step]) for at in range(0, len(items), step)]
        return lambda: np.concatenate([fetch() for fetch in parts])


def out_of_memory(error: BaseException) -> bool:
    """Whether an error says that memory ran out, on whichever device.

    >>> out_of_memory(RuntimeError("CUDA error: out of memory")), out_of_memory(RuntimeError("shape mismatch"))
    (True, False)
    """
    text = str(error).lower()
    return isinstance(error, MemoryError) or "out of memory" in text or "can't allocate memory" in text


def _free() -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_available():
        torch.cuda.empty_cache()
