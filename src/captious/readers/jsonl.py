"""JSON Lines: one record a line."""

from __future__ import annotations

import json
from collections.abc import Iterator

from captious.errors import InputError
from captious.readers.rows import Row, text_of


def rows(content: bytes, name: str) -> Iterator[Row]:
    """Rows of a JSON Lines file; blank lines are passed over."""
    for number, line in enumerate(text_of(content, name).split("\n"), start=1):
        if not line.strip():
            continue
        where = f"{name}: row {number}"
        try:
            record = json.loads(line)
        except json.JSONDecodeError as error:
            raise InputError(f"{where} column {error.colno}: not valid JSON ({error.msg}): {line[:60]!r}") from None
        except (ValueError, RecursionError) as error:
            raise InputError(f"{where}: not JSON that can be read ({str(error)[:80]})") from None
        if not isinstance(record, dict):
            raise InputError(f'{where}: is {type(record).__name__}, expected an object such as {{"id": …}}')
        yield Row(where, record)
