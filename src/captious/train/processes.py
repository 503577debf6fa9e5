"""Several processes that train one model, started by ``torchrun``; with one process every function is trivial.

``accelerate`` brings the processes together and gives each its device; what a loss needs of the others is asked of
``torch.distributed`` itself.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from captious.errors import InputError, require
from captious.models.devices import resolve_device

torch = require("torch", "clip")

Tensor = Any


@contextmanager
def accelerated(device: str, precision: str) -> Iterator[Any]:
    """An ``accelerate.Accelerator`` for the length of a training: processes, device, mixed precision, checkpoints."""
    accelerate = require("accelerate", "clip")
    asked = resolve_device(device)
    mixed = ("bf16" if asked.type == "cuda" else "fp32") if precision == "auto" else precision
    if mixed == "fp16" and asked.type == "cpu":
        raise InputError("precision='fp16' needs a GPU, expected fp32 or bf16 on a CPU")
    joined = _several()
    try:
        yield accelerate.Accelerator(cpu=asked.type == "cpu", mixed_precision="no" if mixed == "fp32" else mixed)
    finally:
        accelerate.state.AcceleratorState._reset_state(reset_partial_state=True)  # the next may differ
        if _several() and not joined:
            torch.distributed.destroy_process_group()


def device_of(accelerator: Any, asked: str) -> str:
    """The device of this process: with ``torchrun`` on GPUs, each process has its own."""
    return str(accelerator.device) if world() > 1 and asked in ("auto", "cuda") else asked


def rank() -> int:
    """Index of this process; 0 writes files and speaks."""
    return int(torch.distributed.get_rank()) if _several() else 0


def world() -> int:
    """Number of processes that train together."""
    return int(torch.distributed.get_world_size()) if _several() else 1


def first_here() -> bool:
    """Whether this is the first process, also before and after they are together."""
    return int(os.environ.get("RANK", "0")) == 0


def gathered(rows: Tensor, wanted: bool = True) -> Tensor:
    """The rows of all processes, one below the other; gradients flow back to each."""
    if not wanted or world() == 1:
        return rows
    return torch.cat(torch.distributed.nn.functional.all_gather(rows.contiguous()))


def mean(value: Tensor, wanted: bool = True) -> Tensor:
    """The mean over processes of a number without gradient."""
    if not wanted or world() == 1:
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total / world()


def anyone(flag: bool, device: Any) -> bool:
    """Whether the flag is set in any process."""
    return flag if world() == 1 else bool(mean(torch.tensor(float(flag), device=device)).item() > 0)


def wait() -> None:
    """Go on only when all processes are here."""
    if world() > 1:
        torch.distributed.barrier()


def _several() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())
