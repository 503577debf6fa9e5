"""Numbers that people write in files and options: plain decimal digits, and nothing else that Python would take."""

from __future__ import annotations

import re

_NUMBER = re.compile(r"[+-]?(?:(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:e[+-]?[0-9]+)?|nan|inf(?:inity)?)", re.IGNORECASE)
_WHOLE = re.compile(r"[+-]?[0-9]+")


def parse_number(text: str) -> float:
    """Return the number that a text is, or raise a ValueError.

    Python's ``float`` also takes ``1_000`` and the digits of other scripts. In a table such a cell is nearly always a
    name, a date or a mistake, so it must not become a rating.

    >>> parse_number(" -1.5e3 "), parse_number("nan")
    (-1500.0, nan)
    >>> parse_number("1_000")
    Traceback (most recent call last):
    ValueError: '1_000' is not a number
    """
    return float(_match(_NUMBER, text))


def parse_whole(text: str) -> int:
    """Return the whole number that a text is, or raise a ValueError."""
    return int(_match(_WHOLE, text))


def _match(pattern: re.Pattern[str], text: str) -> str:
    written = text.strip()
    if not pattern.fullmatch(written):
        raise ValueError(f"{written[:40]!r} is not a number")
    return written
