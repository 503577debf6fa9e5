"""Distributed training by several processes, started by ``torchrun``; with one process every function is trivial.

``accelerate`` sets up the processes and their devices; losses use ``torch.distributed`` directly.
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
def open_accelerator(device: str, precision: str) -> Iterator[Any]:
    """Yield an ``accelerate.Accelerator`` for one training: processes, device, mixed precision, checkpoints."""
    accelerate = require("accelerate", "clip")
    asked = resolve_device(device)
    mixed = ("bf16" if asked.type == "cuda" else "fp32") if precision == "auto" else precision
    if mixed == "fp16" and asked.type == "cpu":
        raise InputError("precision='fp16' needs a GPU, expected fp32 or bf16 on a CPU")
    was_distributed = _is_distributed()
    try:
        yield accelerate.Accelerator(cpu=asked.type == "cpu", mixed_precision="no" if mixed == "fp32" else mixed)
    finally:
        accelerate.state.AcceleratorState._reset_state(
            reset_partial_state=True
        )  # the next training may use another device or precision
        if _is_distributed() and not was_distributed:
            torch.distributed.destroy_process_group()


def get_device(accelerator: Any, asked: str) -> str:
    """Return the device of this process: with ``torchrun`` on GPUs, each process has its own."""
    return str(accelerator.device) if get_world_size() > 1 and asked in ("auto", "cuda") else asked


def get_rank() -> int:
    """Return the index of this process; process 0 writes files and messages."""
    return int(torch.distributed.get_rank()) if _is_distributed() else 0


def get_world_size() -> int:
    """Return the number of training processes."""
    return int(torch.distributed.get_world_size()) if _is_distributed() else 1


def is_first_process() -> bool:
    """Return True in the first process, also before the process group is set up."""
    return int(os.environ.get("RANK", "0")) == 0


def gather_rows(rows: Tensor, wanted: bool = True) -> Tensor:
    """Concatenate the rows of all processes, with gradients; return those of this process unless ``wanted``."""
    if not wanted or get_world_size() == 1:
        return rows
    return torch.cat(torch.distributed.nn.functional.all_gather(rows.contiguous()))


def compute_mean(value: Tensor, wanted: bool = True) -> Tensor:
    """Return the mean of a number over processes, without gradient."""
    if not wanted or get_world_size() == 1:
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total / get_world_size()


def is_set_anywhere(flag: bool, device: Any) -> bool:
    """Return True if the flag is set in any process."""
    return flag if get_world_size() == 1 else bool(compute_mean(torch.tensor(float(flag), device=device)).item() > 0)


def wait() -> None:
    """Wait for all processes."""
    if get_world_size() > 1:
        torch.distributed.barrier()


def _is_distributed() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())
