"""Copies of arrays between host memory and a GPU that overlap with computation.

A GPU copies by itself only from pinned memory; torch reuses such memory after the copy. Copies to the device
have their own stream, for which the computing stream waits.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious.errors import require
from captious.models.encoder import Features

if TYPE_CHECKING:
    import torch

# Threads that stack the rows of a batch.
STACKING = 4


def copy_pinned(array: npt.NDArray[Any], device: torch.device) -> npt.NDArray[Any]:
    """Copy an array to pinned memory; to plain memory, which transfers slower, if no pinned memory is left."""
    try:
        copy: npt.NDArray[Any] = _allocate(array.shape, array.dtype, device).numpy()
    except RuntimeError:
        return np.copy(array)
    np.copyto(copy, array)
    return copy


def send(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """Copy rows of equal shape to the device as one tensor."""
    first = np.asarray(rows[0])
    together = _allocate((len(rows), *first.shape), first.dtype, device)
    if isinstance(rows, np.ndarray):
        together.numpy()[...] = rows
    else:
        _stack(rows, together.numpy())
    (tensor,) = send_each([together], device)
    return tensor


def _stack(rows: Sequence[npt.NDArray[Any]], out: npt.NDArray[Any]) -> None:
    """Stack rows with several threads: one thread copies a batch of images no faster than a GPU encodes it."""
    share = -(-len(rows) // STACKING)

    def fill(start: int) -> None:
        np.stack(rows[start : start + share], out=out[start : start + share])

    list(_get_stackers().map(fill, range(0, len(rows), share)))


@cache
def _get_stackers() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(STACKING)


def send_each(arrays: Sequence[torch.Tensor], device: torch.device) -> list[torch.Tensor]:
    """Copy tensors in pinned memory to the device, each as its own tensor."""
    if device.type != "cuda":
        return list(arrays)
    torch = require("torch", "clip")
    computing, copying = torch.cuda.current_stream(device), get_stream("copies", device)
    with torch.cuda.stream(copying):
        tensors = [array.to(device, non_blocking=True) for array in arrays]
    computing.wait_stream(copying)
    for tensor in tensors:  # so that the allocator does not reuse the memory while the computing stream reads it
        tensor.record_stream(computing)
    return tensors


def launch(compute: Callable[[], torch.Tensor]) -> Callable[[], Features]:
    """Start a computation on the device; return a function that waits for the result."""
    torch = require("torch", "clip")
    with torch.inference_mode():
        features = compute().float()
        back = _allocate(features.shape, np.float32, features.device)
        back.copy_(features, non_blocking=True)
        if not features.is_cuda:
            return back.numpy
        arrived = torch.cuda.Event()
        arrived.record(torch.cuda.current_stream(features.device))

    def fetch() -> Features:
        arrived.synchronize()
        return back.numpy().copy()  # type: ignore[no-any-return]

    return fetch


def _allocate(shape: Sequence[int], dtype: npt.DTypeLike, device: torch.device) -> torch.Tensor:
    """Allocate host memory, pinned if the device is a GPU."""
    torch = require("torch", "clip")
    kind = torch.from_numpy(np.empty(0, dtype)).dtype
    return torch.empty(tuple(shape), dtype=kind, pin_memory=device.type == "cuda")  # type: ignore[no-any-return]


@cache
def get_stream(purpose: str, device: torch.device) -> Any:
    """Return the stream of a device for one purpose; it has its own memory pool."""
    return require("torch", "clip").cuda.Stream(device)
