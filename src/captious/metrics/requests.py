"""Requested metrics: written forms, metric values, or lists of both, as the public functions take them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from os import PathLike
from typing import Any

from captious._core.notation import split_specs
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import Metric, refuse_undeclared
from captious.metrics.registry import ALL, DEFAULT, parse_all

Specs = str | Metric | Iterable[str | Metric]
# Other libraries take references as second argument, so a user may have passed them there.
NAMED = "; pass references by name, references=..."


def check_specs(specs: Any) -> list[str | Metric]:
    """Return metrics and written metrics as a list; raise InputError if one cannot be parsed."""
    entries = _list_entries(specs)
    _parse_entries(entries)
    return entries


def choose_metrics(specs: Any) -> list[str | Metric]:
    """Parse written metrics once; ``all`` is kept as text, because its meaning depends on the captions."""
    entries = _list_entries(specs)
    parsed = _parse_entries(entries)
    texts = [part for entry in entries if isinstance(entry, str) for part in split_specs(entry)]
    return entries if any(text.lower() == ALL for text in texts) else list(parsed)


def _list_entries(specs: Any) -> list[str | Metric]:
    captions = isinstance(specs, (Mapping, CaptionSet, PathLike)) or hasattr(specs, "shape")
    if captions or not isinstance(specs, (str, Metric, Iterable)):
        hint = NAMED if captions else ""
        raise InputError(f"metrics: {type(specs).__name__}, expected written metrics such as {DEFAULT!r}{hint}")
    entries = [specs] if isinstance(specs, (str, Metric)) else list(specs)
    for entry in entries:
        if not isinstance(entry, (str, Metric)):
            hint = NAMED if isinstance(entry, (list, tuple, Mapping)) else ""
            raise InputError(
                f"metrics: contains {type(entry).__name__}, expected written metrics such as {DEFAULT!r}{hint}"
            )
    return entries


def _parse_entries(entries: Sequence[str | Metric]) -> list[Metric]:
    """Parse written metrics; the error hints at ``references=`` if an entry looks like a caption or a file name."""
    metrics = [entry for entry in entries if isinstance(entry, Metric)]
    if metrics and len(metrics) == len(entries):
        for metric in metrics:
            refuse_undeclared(metric)
        return list(dict.fromkeys(metrics))
    try:
        return parse_all(entries)
    except InputError as error:
        texts = [entry for entry in entries if isinstance(entry, str)]
        # Other libraries take references as second argument: a caption or a file name was meant for them.
        meant = any(re.search(r"^[^(,]*\w \w|\.(?:jsonl?|csv|tsv|parquet|gz)$", text) for text in texts)
        if not meant or "commas stand between" in str(error):
            raise
        raise InputError(f"{error}{NAMED}") from None
