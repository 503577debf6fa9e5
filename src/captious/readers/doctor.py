"""The input doctor: everything that is wrong with a user's files, in one go, before any number."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.readers.checks import Finding, check
from captious.readers.gather import Columns, Gathered, gather_candidates, gather_references
from captious.readers.images import with_images
from captious.readers.read import assemble
from captious.readers.rows import Row, name_of, rows_of

FIRST = 5
"""So many complaints of one kind are listed, the rest counted."""


def examine(
    source: Any,
    references: Any = None,
    *,
    images: str | Path | None = None,
    several: bool = False,
    columns: Columns | None = None,
) -> list[Finding]:
    """All findings about one or two sources; an empty list means that nothing is wrong."""
    columns = columns or Columns()
    complaints: list[str] = []
    found = gather_candidates(_rows(source, complaints), columns, several, complaints.append)
    given: Gathered | None = None
    if references is not None:
        given = gather_references(_rows(references, complaints), columns, complaints.append)
    findings = list(_folded(complaints))
    if not found.candidates:
        return findings or [Finding("error", f"{name_of(source)}: holds no captions")]
    joining: list[str] = []
    captions = assemble(found, given, name_of(source), "error", name_of(references), joining.append)
    findings += [Finding("error", message) for message in joining]
    if images is not None:
        try:
            captions = with_images(captions, images)
        except InputError as error:
            findings.append(Finding("error", str(error)))
    # The joining above has said which ids one side lacks.
    return findings + check(replace(captions, skipped=0))


def _rows(source: Any, complaints: list[str]) -> Iterator[Row]:
    """Rows up to the first that cannot be parsed at all; what stopped them is a complaint."""
    try:
        yield from rows_of(source)
    except InputError as error:
        complaints.append(str(error))


def _folded(complaints: list[str]) -> Iterator[Finding]:
    """The first complaints of each kind in full, the others as a number."""
    kinds: Counter[str] = Counter()
    for complaint in complaints:
        kind = complaint.rsplit(": ", 1)[-1].split("(", 1)[0]
        kinds[kind] += 1
        if kinds[kind] <= FIRST:
            yield Finding("error", complaint)
    for kind, number in kinds.items():
        if number > FIRST:
            yield Finding("error", f"… and {number - FIRST} more like: {kind.strip()}")
