"""Where a model runs and how finely it computes there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from captious.errors import InputError
from captious.extras import require

if TYPE_CHECKING:
    import torch


def device_called(name: str) -> torch.device:
    """The device of a runtime: ``auto`` takes a GPU where there is one.

    >>> device_called("cpu")
    device(type='cpu')
    """
    torch = require("torch", "clip")
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")  # type: ignore[no-any-return]
    try:
        device = torch.device(name)
    except RuntimeError:
        raise InputError(f"device {name!r}: expected auto, cpu, cuda or a number such as cuda:1") from None
    if device.type == "cuda":
        there = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not there:
            raise InputError(f"device {name!r}: torch finds no GPU here; take --device cpu or auto")
        if (device.index or 0) >= there:
            raise InputError(f"device {name!r}: torch finds {there} GPU{'s' * (there > 1)} here, numbered from 0")
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise InputError(f"device {name!r}: torch finds none here; take --device cpu or auto")
    elif device.type != "cpu":
        raise InputError(f"device {name!r}: expected auto, cpu, cuda or a number such as cuda:1")
    return device  # type: ignore[no-any-return]


def precision_on(device: torch.device, asked: str) -> str:
    """``auto`` is fp32 on a CPU and fp16 on a GPU."""
    if asked == "auto":
        return "fp32" if device.type == "cpu" else "fp16"
    if asked not in ("fp32", "bf16", "fp16"):
        raise InputError(f"precision {asked!r}: expected auto, fp32, bf16 or fp16")
    return asked


def number_type(precision: str) -> Any:
    """The torch type of a precision."""
    torch = require("torch", "clip")
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


@contextmanager
def quiet() -> Iterator[None]:
    """No bars and no advice from ``transformers`` inside the block: captious says itself what a person should know."""
    logging = require("transformers", "clip").utils.logging
    level, bars = logging.get_verbosity(), logging.is_progress_bar_enabled()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(level)
        if bars:
            logging.enable_progress_bar()
