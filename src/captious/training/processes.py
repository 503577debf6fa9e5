"""Several processes that train one model, started by ``torchrun``; with one process everything here does nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from captious.extras import require

torch = require("torch", "clip")

Tensor = Any


def rank() -> int:
    """Which of the processes this is; 0 writes files and speaks."""
    return int(torch.distributed.get_rank()) if _several() else 0


def world() -> int:
    """How many processes train together."""
    return int(torch.distributed.get_world_size()) if _several() else 1


def first_here() -> bool:
    """Whether this is the first process, also before they have joined."""
    return int(os.environ.get("RANK", "0")) == 0


def device(asked: str) -> str:
    """The device of this process: with ``torchrun`` on GPUs, each process takes its own."""
    local = os.environ.get("LOCAL_RANK")
    if local is None or asked not in ("auto", "cuda") or not torch.cuda.is_available():
        return asked
    return f"cuda:{local}"


@contextmanager
def together(on: str) -> Iterator[None]:
    """Join the processes that ``torchrun`` started, if it did, for the length of the block."""
    if int(os.environ.get("WORLD_SIZE", "1")) == 1 or _several():
        yield
        return
    torch.distributed.init_process_group("nccl" if on.startswith("cuda") else "gloo")
    try:
        yield
    finally:
        torch.distributed.destroy_process_group()


def gathered(rows: Tensor, wanted: bool = True) -> Tensor:
    """The rows of all processes one below the other, with the gradient finding its way back to each."""
    return _function().apply(rows) if wanted and world() > 1 else rows


def mean(value: Tensor, wanted: bool = True) -> Tensor:
    """The mean over processes of a number without gradient."""
    if not wanted or world() == 1:
        return value
    total = value.clone()
    torch.distributed.all_reduce(total)
    return total / world()


def everyones(value: Any) -> list[Any]:
    """One object of each process, known to all."""
    if world() == 1:
        return [value]
    found: list[Any] = [None] * world()
    torch.distributed.all_gather_object(found, value)
    return found


def anyone(flag: bool, on: str) -> bool:
    """Whether the flag is set in any process."""
    if world() == 1:
        return flag
    raised = torch.tensor(float(flag), device=on)
    torch.distributed.all_reduce(raised)
    return bool(raised.item() > 0)


def wait() -> None:
    """Go on only when all processes are here."""
    if world() > 1:
        torch.distributed.barrier()


def _several() -> bool:
    return bool(torch.distributed.is_available() and torch.distributed.is_initialized())


_FUNCTION: Any = None


def _function() -> Any:
    """An all-gather whose gradient sums what every process asks of these rows."""
    global _FUNCTION
    if _FUNCTION is None:

        def forward(context: Any, rows: Tensor) -> Tensor:
            parts = [torch.empty_like(rows) for _ in range(world())]
            torch.distributed.all_gather(parts, rows.contiguous())
            context.size = len(rows)
            return torch.cat(parts)

        def backward(context: Any, slope: Tensor) -> Tensor:
            slope = slope.contiguous()
            torch.distributed.all_reduce(slope)
            return slope[rank() * context.size : (rank() + 1) * context.size]

        body = {"forward": staticmethod(forward), "backward": staticmethod(backward)}
        _FUNCTION = type("Gathered", (torch.autograd.Function,), body)
    return _FUNCTION
