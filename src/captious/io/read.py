"""``captious.read``: one or two sources to one CaptionSet, joined by id."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from captious.captions import CaptionSet
from captious.errors import InputError
from captious.io.formats import name_of, rows_of
from captious.io.join import gather_candidates, gather_references, join
from captious.options import Reading


def read(
    source: Any, references: Any = None, images: str | Path | None = None, reading: Reading = Reading()
) -> CaptionSet:
    """Read candidates and references into a CaptionSet.

    Parameters
    ----------
    source
        Candidates, with or without their references: a path (COCO results, ``{id: caption}``, JSONL, CSV, TSV, Parquet,
        any of them gzipped), ``-`` for standard input, a dict, a list of records, a pandas frame or an Arrow table.
    references
        References by id, in any of the same forms; COCO annotations too. They win over references in ``source``.
    images
        Folder of the images, found by file name or id; their paths become the column ``image``.
    reading
        Ids that one side lacks, several candidates of an item, names of columns, format. It may hold references and
        images as well.

    >>> captions = read({1: "a dog"}, {"1": ["a dog runs"], "2": ["a cat"]}, reading=Reading(missing="skip"))
    >>> captions.ids, captions.skipped
    (('1',), 1)
    """
    reading = combined(reading, references, images)
    refuse_unused(reading)
    name = name_of(source)
    if name == name_of(reading.references) == "standard input":
        raise InputError("both candidates and references from standard input, expected at most one of them")
    candidates = gather_candidates(rows_of(source, reading.format), reading)
    if not candidates.candidates:
        raise InputError(f"{name}: holds no captions")
    if reading.references is None:
        return join(candidates, None, reading, name)
    others = gather_references(rows_of(reading.references), reading)
    if not others.references:
        raise InputError(f"{name_of(reading.references)}: holds no captions")
    return join(candidates, others, reading, name)


def refuse_unused(reading: Reading) -> None:
    """A column of a file that is not there cannot be meant."""
    if reading.references is None and reading.references_id_column is not None:
        raise InputError(
            "references_id_column=... names a column of references, and there are none; pass references=..."
        )


def combined(reading: Reading, references: Any, images: str | Path | None) -> Reading:
    """The reading with the references and images that are passed on their own."""
    if references is not None:
        reading = replace(reading, references=references)
    return reading if images is None else replace(reading, images=images)
