"""Sizes of files and folders in bytes, as people write them: ``500MB``."""

from __future__ import annotations

import re

from captious.errors import InputError

_UNITS = {"": 1, "K": 10**3, "M": 10**6, "G": 10**9, "T": 10**12}


def parse_size(text: str) -> int:
    """Parse a size such as ``2GB`` to bytes.

    >>> parse_size("2GB"), parse_size("1.5 MB"), parse_size("0")
    (2000000000, 1500000, 0)
    """
    match = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([KMGT]?)(i?)B?\s*", text, re.IGNORECASE)
    if match is None:
        raise InputError(f"{text!r} is not a size, expected such as 500MB or 2GB")
    number, unit, binary = match[1], match[2].upper(), match[3]
    size = float(number) * (1024 ** "KMGT".index(unit) * 1024 if binary and unit else _UNITS[unit])
    if size >= 2**63:
        raise InputError(f"{text[:40]!r} is larger than any disk, expected such as 500MB or 2GB")
    return int(size)


def format_size(size: float) -> str:
    """Format bytes with a unit.

    >>> format_size(999), format_size(2_345_000_000)
    ('999 B', '2.3 GB')
    """
    for unit in ("B", "kB", "MB", "GB"):
        if size < 1000:
            return f"{size:.0f} B" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1000
    return f"{size:.1f} TB"
