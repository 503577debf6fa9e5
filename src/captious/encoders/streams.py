"""Starting a batch without waiting for it.

A torch encoder on a GPU gets its bytes from pinned memory, and its vectors come back while the next batch is prepared.
Every other encoder computes at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from captious.encoders.encoder import Encoder, Features
from captious.encoders.pace import Fetch, Start
from captious.extras import require

if TYPE_CHECKING:
    import torch

IN_FLIGHT = 2
"""Batches a GPU may have before it."""


def on_gpu(encoder: Encoder) -> bool:
    """Whether an encoder computes on a GPU, through torch."""
    device = str(getattr(encoder, "device", "cpu"))
    return device.startswith("cuda") and hasattr(encoder, "image_tensor") and hasattr(encoder, "text_tensor")


def image_start(encoder: Encoder) -> Start:
    """Begins batches of prepared images, given as a list."""
    if on_gpu(encoder):
        torch_encoder: Any = encoder
        return lambda pixels: _launch(
            lambda: torch_encoder.image_tensor(torch_encoder.pixels_to_tensor(_sent(pixels, torch_encoder.device)))
        )
    return lambda pixels: _done(encoder.image_features(np.stack(pixels)))


def text_start(encoder: Encoder) -> Start:
    """Begins batches of token ids."""
    if on_gpu(encoder):
        torch_encoder: Any = encoder
        return lambda ids: _launch(lambda: torch_encoder.text_tensor(_sent(ids, torch_encoder.device)))
    return lambda ids: _done(encoder.text_features(ids))


def _done(features: Features) -> Fetch:
    return lambda: features


def _pinned(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any]) -> torch.Tensor:
    """Rows in memory that the GPU reads by itself; torch hands such memory out again once it was read."""
    torch = require("torch", "clip")
    kind = torch.from_numpy(np.empty(0, rows[0].dtype)).dtype
    held = torch.empty((len(rows), *rows[0].shape), dtype=kind, pin_memory=True)
    if isinstance(rows, np.ndarray):
        held.numpy()[...] = rows
    else:
        np.stack(rows, out=held.numpy())
    return held  # type: ignore[no-any-return]


def _sent(rows: Sequence[npt.NDArray[Any]] | npt.NDArray[Any], device: torch.device) -> torch.Tensor:
    """Rows on the device; they travel while the device computes the batch before."""
    torch = require("torch", "clip")
    held, lane, main = _pinned(rows), _lane(device), torch.cuda.current_stream(device)
    with torch.cuda.stream(lane):
        there = held.to(device, non_blocking=True)
    main.wait_stream(lane)
    there.record_stream(main)
    return there


@cache
def _lane(device: torch.device) -> Any:
    return require("torch", "clip").cuda.Stream(device)


def _launch(compute: Callable[[], torch.Tensor]) -> Fetch:
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
