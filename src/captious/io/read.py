"""``captious.read``: one or two sources to one CaptionSet, joined by id."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Literal

from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.io.formats import name_of, rows_of
from captious.io.join import Columns, Complain, Gathered, gather_candidates, gather_references, refuse

Missing = Literal["error", "skip"]


def read(
    source: Any,
    references: Any = None,
    *,
    missing: Missing = "error",
    several: bool = False,
    columns: Columns | None = None,
    format: str | None = None,
) -> CaptionSet:
    """Read candidates and references into a CaptionSet.

    Parameters
    ----------
    source
        Candidates, with or without their references: a path (COCO results, ``{id: caption}``, JSONL, CSV, TSV, Parquet,
        any of them gzipped), ``-`` for standard input, a dict, a pandas frame or an Arrow table.
    references
        References by id, in any of the same forms; COCO annotations too. They win over references in ``source``.
    missing
        What to do with ids that one side lacks: ``error`` names them, ``skip`` leaves them out and says so in the
        signature of every number.
    several
        Rows with the same id are several candidates of one item instead of a mistake.
    columns
        Names of the columns to use, where they are not the usual ones.
    format
        ``json``, ``jsonl``, ``csv``, ``tsv`` or ``parquet``, where the name of the source does not say it.

    >>> read({1: "a dog"}, references={"1": ["a dog runs"], "2": ["a cat"]}, missing="skip").skipped
    1
    """
    if missing not in ("error", "skip"):
        raise InputError(f"missing={missing!r}, expected error or skip")
    if isinstance(source, str) and source == references == "-":
        raise InputError("both candidates and references from standard input, expected at most one of them")
    columns = columns or Columns()
    name = name_of(source)
    found = gather_candidates(rows_of(source, format), columns, several)
    if not found.candidates:
        raise InputError(f"{name}: holds no captions")
    if references is None:
        return assemble(found, None, name, missing)
    given = gather_references(rows_of(references), columns)
    if not given.references:
        raise InputError(f"{name_of(references)}: holds no captions")
    return assemble(found, given, name, missing, name_of(references))


def assemble(
    found: Gathered,
    given: Gathered | None,
    name: str,
    missing: Missing = "error",
    references_name: str = "references",
    complain: Complain = refuse,
) -> CaptionSet:
    """Join gathered candidates and references by id; the order of items is that of the candidates."""
    references = given.references if given is not None else found.references
    keys: Collection[str] = found.candidates.keys()
    lonely = [key for key in keys if not references.get(key)] if references else []
    unused = [key for key in references if key not in found.candidates]
    if missing == "error":
        if lonely:
            complain(f"{name}: {_some(lonely)} without references in {references_name}; {_SKIP}")
        if unused:
            complain(f"{references_name}: {_some(unused)} without a candidate in {name}; {_SKIP}")
    if lonely:
        without = set(lonely)
        keys = [key for key in keys if key not in without]
    if not keys:
        complain(f"{name}: no id is also in {references_name}, such as {', '.join(list(found.candidates)[:3])}")
    fields = [{**(given.fields.get(key, {}) if given else {}), **found.fields.get(key, {})} for key in keys]
    names = dict.fromkeys(column for kept in fields for column in kept)
    return CaptionSet(
        ids=tuple(keys),
        candidates=Ragged.of([found.candidates[key] for key in keys]),
        references=Ragged.of([references.get(key, ()) for key in keys]),
        columns={column: tuple(kept.get(column) for kept in fields) for column in names},
        name=name,
        skipped=len(lonely) + len(unused),
    )


_SKIP = "use --missing skip to leave them out"


def _some(ids: Iterable[str]) -> str:
    listed = list(ids)
    more = ", …" if len(listed) > 5 else ""
    return f"{len(listed)} {'id' if len(listed) == 1 else 'ids'} ({', '.join(listed[:5])}{more})"
