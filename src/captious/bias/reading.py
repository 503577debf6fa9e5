"""Files to what an audit needs: per captioner, images with label, model caption and the first human captions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious.bias.splits import classes_of
from captious.errors import InputError, nearest
from captious.readers.gather import Columns, Gathered, gather_candidates, gather_references
from captious.readers.rows import name_of, rows_of

HUMANS = 5


@dataclass(frozen=True, eq=False)
class Subject:
    """One captioner: images with label, caption and equally many human captions; ``notes`` say what was left out."""

    name: str
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    captions: tuple[str, ...]
    humans: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        labels: Mapping[str, Any],
        captions: Mapping[str, str],
        humans: Mapping[str, Sequence[str]],
        number: int | None = None,
    ) -> Subject:
        """Join by id. Images without a label are left out and counted; images without human captions are an error.

        ``number`` human captions are used of each image, and images with fewer are left out; by default five, or as
        many as every image has.
        """
        found = {str(key): labels.get(key) for key in captions}
        kept = [key for key in map(str, captions) if found[key] is not None and str(found[key]).strip()]
        texts = {str(key): text for key, text in captions.items()}
        given = {str(key): list(several) for key, several in humans.items()}
        notes = []
        if len(kept) < len(texts):
            notes.append(f"{name}: {_some(set(texts) - set(kept))} without a label left out")
        without = [key for key in kept if not given.get(key)]
        if without:
            raise InputError(f"{name}: {_some(without)} without human captions, expected references for every image")
        counts = Counter(len(given[key]) for key in kept)
        used = number or min(HUMANS, min(counts, default=HUMANS))
        short = [key for key in kept if len(given[key]) < used]
        if short:
            notes.append(f"{name}: {_some(short)} with fewer than {used} human captions left out")
            kept = [key for key in kept if len(given[key]) >= used]
        if len(counts) > 1:
            shown = ", ".join(f"{count} × {length}" for length, count in sorted(counts.items()))
            notes.append(f"{name}: images have unequal numbers of human captions ({shown}); the first {used} are used")
        return cls(
            name,
            tuple(kept),
            tuple(str(found[key]).strip() for key in kept),
            tuple(texts[key] for key in kept),
            tuple(tuple(given[key][:used]) for key in kept),
            tuple(notes),
        ).checked()

    def checked(self) -> Subject:
        """The subject itself, if its labels can be learned."""
        classes_of(self.labels, self.name)
        return self


def read_subjects(
    sources: Sequence[str | Path],
    references: str | Path | None,
    label: str,
    columns: Columns | None = None,
    captions: Sequence[str] = (),
    number: int | None = None,
) -> list[Subject]:
    """One subject per file, or per caption column where several are named; labels may stand in either file."""
    columns = columns or Columns()
    people = (
        gather_references(rows_of(references), Columns(columns.id, None, columns.references)) if references else None
    )
    subjects = []
    for source in sources:
        for column in captions or (columns.candidate,):
            rows = gather_candidates(rows_of(source), Columns(columns.id, column, columns.references), several=False)
            name = column if captions and column else Path(name_of(source)).name.split(".")[0]
            subjects.append(_subject(name, name_of(source), rows, people, label, number))
    names = [subject.name for subject in subjects]
    if repeated := [name for name in names if names.count(name) > 1]:
        raise InputError(f"two captioners are called {repeated[0]!r}: give the files different names")
    return subjects


def _subject(
    name: str, source: str, rows: Gathered, people: Gathered | None, label: str, number: int | None
) -> Subject:
    if not rows.candidates:
        raise InputError(f"{source}: holds no captions")
    humans = (people or rows).references
    if not humans:
        raise InputError(f"{source}: no human captions: give --references FILE, or rows with references")
    labels = {key: _label(key, label, rows, people) for key in rows.candidates}
    if all(value is None for value in labels.values()):
        known = sorted({column for part in (rows, people) if part for row in part.fields.values() for column in row})
        hint = nearest(label, known)
        raise InputError(f"{source}: no column {label!r} for the labels, found {', '.join(known) or 'none'}{hint}")
    captions = {key: texts[0] for key, texts in rows.candidates.items()}
    return Subject.of(name, labels, captions, humans, number)


def _label(key: str, label: str, rows: Gathered, people: Gathered | None) -> Any:
    for part in (rows, people):
        value = part.fields.get(key, {}).get(label) if part else None
        if value is not None:
            return value
    return None


def _some(keys: Sequence[str] | set[str]) -> str:
    listed = sorted(keys)
    more = ", …" if len(listed) > 5 else ""
    return f"{len(listed)} {'image' if len(listed) == 1 else 'images'} ({', '.join(listed[:5])}{more})"
