"""Arrays from host memory to a GPU and back, while the GPU computes what came before.

A GPU copies by itself only from pinned memory; torch hands such memory out again once it was read. Copies to the device
have a stream of their own, which the computing one waits for.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious.errors import require
from captious.models.encoder import Features

if TYPE_CHECKING:
    import torch

Rows = Sequence[npt.NDArray[Any]] | npt.NDArray[Any]


def pinned(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """A copy of an array in pinned memory."""
    copy = _pinned_like(array, array.shape)
    np.copyto(copy.numpy(), array)
    return copy.numpy()


def send(rows: Rows, device: torch.device) -> torch.Tensor:
    """Rows of equal shape as one tensor on the device."""
    together = _pinned_like(rows[0], (len(rows), *rows[0].shape))
    if isinstance(rows, np.ndarray):
        together.numpy()[...] = rows
    else:
        np.stack(rows, out=together.numpy())
    (tensor,) = send_each([together], device)
    return tensor


def send_each(arrays: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Tensors in pinned memory, each on the device."""
    torch = require("torch", "clip")
    computing = torch.cuda.current_stream(device)
    with _copying(device, computing):
        tensors = [array.to(device, non_blocking=True) for array in arrays]
    for tensor in tensors:
        tensor.record_stream(computing)
    return tensors


def launch(compute: Callable[[], torch.Tensor]) -> Callable[[], Features]:
    """Begin to compute on the device; the function that is returned waits for the result."""
    torch = require("torch", "clip")
    with torch.inference_mode():
        features = compute().float()
        back = torch.empty(features.shape, dtype=torch.float32, pin_memory=True)
        back.copy_(features, non_blocking=True)
        arrived = torch.cuda.Event()
        arrived.record()

    def fetch() -> Features:
        arrived.synchronize()
        return back.numpy().copy()  # type: ignore[no-any-return]

    return fetch


def _pinned_like(array: npt.NDArray[Any], shape: tuple[int, ...]) -> torch.Tensor:
    torch = require("torch", "clip")
    kind = torch.from_numpy(np.empty(0, array.dtype)).dtype
    return torch.empty(shape, dtype=kind, pin_memory=True)  # type: ignore[no-any-return]


@contextmanager
def _copying(device: torch.device, computing: Any) -> Iterator[None]:
    """A block whose copies the computing stream waits for."""
    stream = _copy_stream(device)
    with require("torch", "clip").cuda.stream(stream):
        yield
    computing.wait_stream(stream)


@cache
def _copy_stream(device: torch.device) -> Any:
    return require("torch", "clip").cuda.Stream(device)
