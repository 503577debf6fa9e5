"""Device and precision of a model, and the digest of its weights."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

from captious.errors import InputError, require

if TYPE_CHECKING:
    import torch


def resolve_device(name: str) -> torch.device:
    """Return the torch device of a name: ``auto`` takes a GPU if there is one.

    >>> resolve_device("cpu")
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
        count = torch.cuda.device_count() if torch.cuda.is_available() else 0
        if not count:
            raise InputError(f"device {name!r}: torch finds no GPU here; pass device='cpu' or device='auto'")
        if (device.index or 0) >= count:
            raise InputError(f"device {name!r}: torch finds {count} GPU{'s' * (count > 1)} here, numbered from 0")
    elif device.type == "mps":
        if not torch.backends.mps.is_available():
            raise InputError(f"device {name!r}: torch finds none here; pass device='cpu' or device='auto'")
    elif device.type != "cpu":
        raise InputError(f"device {name!r}: expected auto, cpu, cuda or a number such as cuda:1")
    return device  # type: ignore[no-any-return]


def resolve_precision(device: torch.device, precision: str) -> str:
    """Return the precision of a runtime: ``auto`` is fp32 on a CPU and fp16 on a GPU."""
    if precision == "auto":
        return "fp32" if device.type == "cpu" else "fp16"
    if precision not in ("fp32", "bf16", "fp16"):
        raise InputError(f"precision {precision!r}: expected auto, fp32, bf16 or fp16")
    return precision


def get_torch_dtype(precision: str) -> Any:
    """Return the torch type of a precision."""
    torch = require("torch", "clip")
    return {"fp32": torch.float32, "bf16": torch.bfloat16, "fp16": torch.float16}[precision]


@contextmanager
def use_tf32() -> Iterator[None]:
    """Multiply in TF32 on a GPU inside the block: factors with three decimal digits, sums in float32."""
    matmul = require("torch", "clip").backends.cuda.matmul
    before = matmul.allow_tf32
    matmul.allow_tf32 = True
    try:
        yield
    finally:
        matmul.allow_tf32 = before


@contextmanager
def quiet() -> Iterator[None]:
    """Switch off progress bars and warnings of ``transformers`` inside the block."""
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


def hash_weights(module: Any, dtypes: bool = False) -> bytes:
    """Hash every tensor in the order of names; ``dtypes`` includes their types, for models of any type."""
    torch = require("torch", "clip")
    state = hashlib.blake2b(digest_size=16)
    for key, tensor in sorted(module.state_dict().items()):
        state.update(f"{key}{tuple(tensor.shape)}{tensor.dtype if dtypes else ''}".encode())
        state.update(memoryview(tensor.detach().cpu().contiguous().reshape(-1).view(torch.uint8).numpy()))
    return state.digest()
