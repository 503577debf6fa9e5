"""Arrays in safetensors files, with NumPy alone: a length, a JSON header, the bytes."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError
from captious.files import whole_file

Arrays = dict[str, npt.NDArray[np.float32]]

_TYPES = {"F16": "<f2", "F32": "<f4", "F64": "<f8"}


def read_tensors(path: str | Path) -> Arrays:
    """Every floating-point array of a file, in float32; whole numbers (position ids of old files) are left out."""
    content = Path(path).read_bytes()
    try:
        start = 8 + int.from_bytes(content[:8], "little")
        header: dict[str, Any] = json.loads(content[8:start])
        header.pop("__metadata__", None)
        return {
            name: _floats(content[start:], **entry)
            for name, entry in header.items()
            if entry["dtype"] in (*_TYPES, "BF16")
        }
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise InputError(f"{path}: not a whole safetensors file ({error})") from error


def _floats(content: bytes, dtype: str, shape: list[int], data_offsets: list[int]) -> npt.NDArray[np.float32]:
    begin, end = data_offsets
    if end > len(content):
        raise ValueError(f"it ends {end - len(content)} bytes early")
    if dtype == "BF16":  # the upper half of a float32
        upper = np.frombuffer(content[begin:end], "<u2").astype(np.uint32)
        return (upper << 16).view(np.float32).reshape(shape)
    return np.frombuffer(content[begin:end], _TYPES[dtype]).astype(np.float32).reshape(shape)


def write_tensors(path: str | Path, arrays: Mapping[str, npt.NDArray[np.float32]], half: bool = False) -> None:
    """Write arrays in float32, or in float16 with ``half``: as many bytes again saved, three digits kept."""
    kind, kept = ("F16", "<f2") if half else ("F32", "<f4")
    header: dict[str, Any] = {"__metadata__": {"format": "pt"}}
    parts: list[bytes] = []
    offset = 0
    for name in sorted(arrays):
        part = np.ascontiguousarray(arrays[name], kept).tobytes()
        shape = list(np.shape(arrays[name]))
        header[name] = {"dtype": kind, "shape": shape, "data_offsets": [offset, offset + len(part)]}
        offset += len(part)
        parts.append(part)
    text = json.dumps(header, separators=(",", ":")).encode()
    text += b" " * (-len(text) % 8)
    with whole_file(path) as draft:
        draft.write_bytes(len(text).to_bytes(8, "little") + text + b"".join(parts))
