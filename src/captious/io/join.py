"""Grouping of rows by id, and joining of candidates with references.

Every complaint about a row goes through one callback. ``captious.read`` passes one that raises at the first complaint;
``captious.check`` passes one that collects them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache, partial
from itertools import chain
from numbers import Integral
from os import PathLike
from pathlib import PurePath
from typing import Any, NoReturn

import numpy as np

from captious._core.frame_rules import DEFAULT_FRAMES, FrameRule
from captious._core.languages import refuse_other_script
from captious.captions import VIDEO, CaptionSet, Origin, Ragged
from captious.errors import InputError
from captious.io._dense_layouts import has_event_columns, is_dense
from captious.io.columns import (
    AUDIO_COLUMN,
    AUDIO_SUFFIXES,
    CANDIDATE_COLUMNS,
    ID_COLUMNS,
    IMAGE_COLUMNS,
    REFERENCE_COLUMNS,
    STYLE_COLUMN,
    VECTOR_SUFFIXES,
    VIDEO_COLUMNS,
    VIDEO_SUFFIXES,
    choose_columns,
    choose_references_column,
    parse_image_number,
)
from captious.io.formats import get_name
from captious.io.printed import looks_printed, parse_printed_list
from captious.io.rows import Piece, Row, RowBlock, repair_text
from captious.options import Reading

Complain = Callable[[str], None]
REPEATED = "occurs more than once"
# Number of rows processed together, by column.
BLOCK = 10_000
# Largest number of columns named in a message.
SHOWN_COLUMNS = 12
_SKIP_ROW = ", or reading=Reading(missing='skip') to leave the row out"
_COLUMN_OPTIONS = {
    "id": f"; pass reading=Reading(id_column=...) if another column is the id{_SKIP_ROW}",
    "candidate caption": f"; pass reading=Reading(candidate_column=...) if another column is the caption{_SKIP_ROW}",
    "reference caption": f"; pass reading=Reading(references_column=...) if another column is the reference{_SKIP_ROW}",
}
# Number of rows used to guess the columns.
SAMPLE = 50
_SKIP = "pass reading=Reading(missing='skip') to leave them out"
_IN_BRACKETS = re.compile(r" \([^()]*\)")
SKIP_ONE = "; pass reading=Reading(missing='skip') to leave it out"


def refuse(message: str) -> NoReturn:
    """Raise the complaint as an InputError: the callback of `captious.read`."""
    raise InputError(message)


_DETAILS = re.compile(r" ?\(.*| ?: found .*|,? expected .*", re.DOTALL)
_VALUE = re.compile(r"'[^']*'|\"[^\"]*\"|-?\b\d[\d.e+-]*\b")


def generalize_complaint(complaint: str) -> str:
    """Return a complaint about a row without its values, so that complaints of one kind are counted together.

    >>> generalize_complaint("caption is null (None), expected a string")
    'caption is null'
    >>> generalize_complaint("id is 1.5, expected a string")
    'id is …'
    """
    return _VALUE.sub("…", _DETAILS.sub("", complaint))


@dataclass
class Changes:
    """The changes and omissions of reading, with their places."""

    cleaned: list[str] = field(default_factory=list)
    """Places of texts from which control characters or lone surrogates were removed."""
    left_out: dict[str, list[str]] = field(default_factory=dict)
    """Places of unusable rows and texts, by reason."""
    lost: set[str] = field(default_factory=set)
    """Ids of rows without a usable caption, or their places if they have no id."""
    remarks: list[str] = field(default_factory=list)

    def leave_out(self, complaint: str, where: str) -> None:
        """Record a complaint about a row instead of raising it."""
        reason = complaint.removeprefix(f"{where}: ").removesuffix(SKIP_ONE).partition(", expected ")[0]
        self.left_out.setdefault(_IN_BRACKETS.sub("", reason), []).append(where)

    def sentences(self, name: str) -> list[str]:
        """Return one sentence for each kind of change in a source."""
        sentences = list(self.remarks)
        if self.cleaned:
            number = f"{len(self.cleaned):,} text{'s' * (len(self.cleaned) != 1)}"
            sentences.append(
                f"{name}: control characters and halves of characters were removed from {number} "
                f"({_format_places(self.cleaned, name)})"
            )
        for reason, places in self.left_out.items():
            sentences.append(f"{name}: {len(places):,} left out: {reason} ({_format_places(places, name)})")
        return sentences


def _format_places(places: Sequence[str], name: str) -> str:
    return format_first([place.removeprefix(f"{name}: ") for place in places])


@dataclass
class Gathered:
    """Captions and other fields by id, in the order of first occurrence."""

    candidates: dict[str, list[str]] = field(default_factory=dict)
    references: dict[str, list[str]] = field(default_factory=dict)
    fields: dict[str, dict[str, Any]] = field(default_factory=dict)
    first_rows: dict[str, str] = field(default_factory=dict, compare=False)
    """Place of the first row of each candidate id; `find_first_row` adds those of ``blocks``."""
    blocks: list[tuple[Sequence[str], Sequence[Row]]] = field(default_factory=list, compare=False)
    """Blocks of candidates with their ids, whose places are computed on demand."""
    aligned: bool | None = None
    """Whether ids are line numbers; None for captions in memory that are matched by position, or without rows."""

    changes: Changes = field(default_factory=Changes, compare=False)
    candidate_column: str = field(default="", compare=False)
    """The candidate column, formatted for messages; likewise the references column below."""
    references_column: str = field(default="", compare=False)
    event_files: tuple[str, ...] = field(default=(), compare=False)
    """Names of the files if they are dense captions of videos, with times in ``fields``; otherwise empty."""
    joined: tuple[tuple[str, ...], Ragged] | None = field(default=None, compare=False)
    """The last result of `references_of`."""

    def references_of(self, ids: tuple[str, ...]) -> tuple[tuple[str, ...], Ragged]:
        """Return the ids and the references of items, cached, so that systems with the same items share both."""
        if self.joined is None or self.joined[0] != ids:
            self.joined = ids, Ragged.of([self.references.get(key, ()) for key in ids])
        return self.joined

    def find_first_row(self, key: str) -> str:
        """Return the place where the id of a candidate first occurs."""
        for keys, rows in self.blocks:
            self.first_rows.update((own, _get_place(rows, index)) for index, own in enumerate(keys))
        self.blocks.clear()
        return self.first_rows[key]


def gather_candidates(
    rows: Iterable[Piece],
    reading: Reading = Reading(),
    complain: Complain = refuse,
    notice: Callable[[Row], None] | None = None,
    changes: Changes | None = None,
) -> Gathered:
    """Collect candidates by id, and references if the same rows contain them.

    ``notice`` is called with a row before complaints about it; rows may then be read ahead of complaints about others.
    If missing ids are skipped and there is no ``notice``, an unusable row is left out and counted.
    """
    gathered, several = Gathered(changes=changes or Changes()), reading.several
    changes = gathered.changes
    skips = reading.missing == "skip" and notice is None
    in_blocks = complain is refuse or notice is not None
    sample, rows = _peek(rows, reading)
    if sample and is_dense(sample[0]):
        from captious.io._dense_events import gather_events

        return gather_events(rows, reading, complain, changes, references=False)
    reading = choose_columns([row.fields for row in sample], reading, complain, sample[0].where if sample else "")
    gathered.candidate_column = _describe_column(sample, reading.candidate_column, CANDIDATE_COLUMNS)
    gathered.references_column = _describe_column(sample, reading.references_column, REFERENCE_COLUMNS)
    usual = (lambda block: not several and _add_plain_candidates(gathered, block, reading)) if in_blocks else None
    for row in _filter_unusual(rows, usual):
        if notice is not None:
            notice(row)
        gathered.aligned = row.aligned
        row = _merge_numbered_columns(row, reading)
        own = partial(changes.leave_out, where=row.where) if skips else complain
        key = get_row_id(row, reading.id_column, own)
        text_column = _pick(row, reading.candidate_column, CANDIDATE_COLUMNS)
        reference_column = _pick(row, reading.references_column, REFERENCE_COLUMNS)
        if text_column is None:
            own(_explain_missing_column(row, "candidate caption", reading.candidate_column, CANDIDATE_COLUMNS))
        elif reading.references_column is not None and reference_column is None and reading.references is None:
            own(_explain_missing_column(row, "reference caption", reading.references_column, REFERENCE_COLUMNS))
            text_column = None
        if key is None or text_column is None:
            if skips:
                changes.lost.add(row.where if key is None else key)
            continue
        texts = _get_texts(row, text_column, "caption", own, changes)
        if not texts and skips:
            changes.lost.add(key)
            continue
        if key in gathered.candidates:
            if not several:
                complain(_explain_repeated_id(row, key, gathered.find_first_row(key), reading))
                continue
            gathered.candidates[key] += texts
        else:
            gathered.candidates[key] = texts
            gathered.first_rows[key] = row.where
        if reference_column is not None:
            references = _get_references(row, reference_column, own, changes)
            # Rollouts of one item repeat its references, which must not be added twice.
            if gathered.references.setdefault(key, references) != references:
                gathered.references[key] += references
        _add_fields(gathered, key, row, {text_column, reference_column, reading.id_column}, several)
    for fields in gathered.fields.values() if several else ():
        for name, values in fields.items():
            # A field with equal values in all rows of an item is a field of the item; otherwise a list by candidate.
            several_values = len(values) > 1 and not all(_is_same(value, values[0]) for value in values)
            fields[name] = values if several_values else values[0]
    return gathered


def _explain_repeated_id(row: Row, key: str, first: str, reading: Reading) -> str:
    """Return the message for an id that a row at ``first`` has already, with the options that may be meant."""
    styled = STYLE_COLUMN in row.fields and not reading.id_column
    ids = f"{_pick(row, None, ID_COLUMNS)},{STYLE_COLUMN}"
    instead = f"reading=Reading(id_column='{ids}') where each style is an item"
    swapped = "" if reading.references is None else "swap the two files if this one contains the references, "
    other = instead if styled else "reading=Reading(id_column=...) where another column is the id"
    if has_event_columns(row.fields.keys()):
        other = "reading=Reading(events='video') where each row is an event of a video"
    return (
        f"{row.where}: id {key!r} {REPEATED} (first at {first}), expected one row per id; {swapped}pass "
        f"reading=Reading(several=True) where an item has several candidates, {other}"
    )


def gather_references(
    rows: Iterable[Piece],
    reading: Reading = Reading(),
    complain: Complain = refuse,
    changes: Changes | None = None,
) -> Gathered:
    """Collect references by id; rows with the same id are combined.

    If the format defines the id, as COCO annotations do, the id column of the candidates is not required.
    """
    gathered, named = Gathered(changes=changes or Changes()), reading.references_id_column or reading.id_column
    changes, skips = gathered.changes, reading.missing == "skip"
    sample, rows = _peek(rows, reading)
    if sample and is_dense(sample[0]):
        from captious.io._dense_events import gather_events

        return gather_events(rows, reading, complain, changes, references=True)
    fields = [row.fields for row in sample]
    reading = choose_references_column(fields, reading, complain, sample[0].where if sample else "")
    gathered.references_column = _describe_column(
        sample, reading.references_column, REFERENCE_COLUMNS + CANDIDATE_COLUMNS
    )
    foreign = reading.references_id_column in (None, "image_id") and "," not in (named or "")
    usual = partial(_add_plain_references, gathered, named, foreign, reading) if complain is refuse else None
    for row in _filter_unusual(rows, usual):
        gathered.aligned = row.aligned
        row = _merge_numbered_columns(row, reading)
        own = partial(changes.leave_out, where=row.where) if skips else complain
        id_column = None if foreign and row.keyed and named not in row.fields else named
        key = get_row_id(row, id_column, own)
        column = _pick(row, reading.references_column, REFERENCE_COLUMNS + CANDIDATE_COLUMNS)
        if column is None:
            own(
                _explain_missing_column(
                    row, "reference caption", reading.references_column, (*REFERENCE_COLUMNS, "caption")
                )
            )
            continue
        if key is None:
            continue
        gathered.references.setdefault(key, []).extend(_get_references(row, column, own, changes))
        _add_fields(gathered, key, row, {column, id_column})
    return gathered


def select_caption_columns(columns: Sequence[str], reading: Reading) -> list[str]:
    """List the columns of a table that `gather_candidates` needs for ids and captions.

    All, if one is missing or several make a list: messages name all columns.

    >>> select_caption_columns(["key", "url", "caption", "width", "references"], Reading())
    ['key', 'caption', 'references']
    """
    row = Row("", dict.fromkeys(columns))
    ids = (reading.id_column or "").split(",") if reading.id_column not in row.fields else [reading.id_column or ""]
    wanted = [_pick(row, name.strip() or None, ID_COLUMNS) for name in ids]
    wanted.append(_pick(row, reading.candidate_column, CANDIDATE_COLUMNS))
    references = _pick(row, reading.references_column, REFERENCE_COLUMNS)
    missing = None in wanted or (references is None and reading.references_column is not None)
    if missing or _find_numbered_columns(tuple(columns)):
        return list(columns)
    # `choose_columns` needs the values of all possible columns.
    open_choice = reading.candidate_column is None or (references is None and reading.references is None)
    usual = CANDIDATE_COLUMNS if open_choice else ()
    return [name for name in columns if name in (*wanted, *usual, references, STYLE_COLUMN)]


def _peek(rows: Iterable[Piece], reading: Reading) -> tuple[list[Row], Iterable[Piece]]:
    """Return the first rows, and an iterator over all rows; an error in one of the first is raised by the iterator."""
    pieces, sample, rows = list[Piece](), list[Row](), iter(rows)
    try:
        while len(sample) < SAMPLE and (piece := next(rows, None)) is not None:
            pieces.append(piece)
            if isinstance(piece, RowBlock):
                sample += [piece[index] for index in range(min(len(piece), SAMPLE))]
            else:
                sample.append(piece)
    except InputError as error:
        rows = _fail(error)
    return [_merge_numbered_columns(row, reading) for row in sample], chain(pieces, rows)


def _fail(error: InputError) -> Iterator[Piece]:
    raise error
    yield


def _describe_column(sample: Sequence[Row], wanted: str | None, usual: Sequence[str]) -> str:
    """Describe the column that is read for a result; for formats without columns, how texts are matched."""
    # The first row with the column: a row without references may be left out.
    first = next((row for row in sample if _pick(row, wanted, usual) is not None), None)
    if first is None:
        return ""
    if not first.keyed or not {"id", "caption", "image"}.issuperset(first.fields):
        return f"`{_pick(first, wanted, usual)}`"
    return "by id" if first.aligned is False else "one per line" if first.aligned else "in their order"


def _filter_unusual(rows: Iterable[Piece], add_plain: Callable[[Sequence[Row]], bool] | None) -> Iterator[Row]:
    """Yield the rows that ``add_plain`` did not add: all rows of a block with one that needs a closer look.

    Without ``add_plain`` all rows are yielded one by one, so that complaints come in the order of the rows.
    """
    for block in _split_blocks(rows, BLOCK if add_plain else 1):
        if add_plain is None or not _are_alike(block) or not add_plain(block):
            yield from block


def _split_blocks(rows: Iterable[Piece], size: int) -> Iterator[Sequence[Row]]:
    """Yield lists of ``size`` rows; blocks are yielded as they are."""
    block: list[Row] = []
    try:
        for row in rows:
            if isinstance(row, RowBlock):
                yield from filter(None, (block, row))
                block = []
            else:
                block.append(row)  # yielded even if the next row raises
            if len(block) == size:
                yield block
                block = []
    except InputError:  # an unparsable row: first process the rows before it
        yield block
        raise
    yield block


def _get_column(rows: Sequence[Row], column: str) -> list[Any]:
    """Return the values of a column in rows with the same columns."""
    return rows.columns[column] if isinstance(rows, RowBlock) else [row.fields[column] for row in rows]


def _get_place(rows: Sequence[Row], index: int) -> str:
    return rows.place(index) if isinstance(rows, RowBlock) else rows[index].where


def _are_alike(rows: Sequence[Row]) -> bool:
    """Return True if rows have the same columns, none of them numbered, and the same kind of source."""
    if isinstance(rows, RowBlock) or not rows:
        return len(rows) > 0 and not _find_numbered_columns(tuple(rows[0].fields))
    first = rows[0]
    names, keyed = first.fields.keys(), first.keyed
    return not _find_numbered_columns(tuple(names)) and all(
        row.fields.keys() == names and row.keyed is keyed for row in rows
    )


def _add_plain_candidates(gathered: Gathered, rows: Sequence[Row], reading: Reading) -> bool:
    """Add a block of rows by column if all have new ids and plain texts; otherwise return False and add none."""
    text_column = _pick(rows[0], reading.candidate_column, CANDIDATE_COLUMNS)
    reference_column = _pick(rows[0], reading.references_column, REFERENCE_COLUMNS)
    if text_column is None or (reading.references_column is not None and reference_column is None):
        return False
    keys = _get_plain_keys(rows, reading.id_column)
    texts = _get_plain_texts(rows, text_column)
    references = [] if reference_column is None else _get_plain_texts(rows, reference_column)
    if keys is None or texts is None or references is None:
        return False
    if len(set(keys)) < len(keys) or not gathered.candidates.keys().isdisjoint(keys):
        return False
    gathered.aligned = rows[-1].aligned
    gathered.candidates.update(zip(keys, texts, strict=True))
    gathered.blocks.append((keys, rows))
    if reference_column is not None:
        gathered.references.update(zip(keys, references, strict=True))
    _add_further_fields(gathered, keys, rows, {text_column, reference_column, reading.id_column})
    return True


def _add_plain_references(
    gathered: Gathered, named: str | None, foreign: bool, reading: Reading, rows: Sequence[Row]
) -> bool:
    """Add a block of references by column if all have plain texts; otherwise return False and add none."""
    first = rows[0]
    id_column = None if foreign and first.keyed and named not in first.fields else named
    column = _pick(first, reading.references_column, REFERENCE_COLUMNS + CANDIDATE_COLUMNS)
    keys = None if column is None else _get_plain_keys(rows, id_column)
    if keys is None or column is None or (texts := _get_plain_texts(rows, column)) is None:
        return False
    gathered.aligned = rows[-1].aligned
    if gathered.references.keys().isdisjoint(keys) and len(set(keys)) == len(keys):
        gathered.references.update(zip(keys, texts, strict=True))
    else:
        for key, own in zip(keys, texts, strict=True):
            gathered.references.setdefault(key, []).extend(own)
    _add_further_fields(gathered, keys, rows, {column, id_column})
    return True


def _get_plain_keys(rows: Sequence[Row], column: str | None) -> list[str] | None:
    """Return the ids of a block if all are readable texts or integers, else None."""
    name = _pick(rows[0], column, ID_COLUMNS)
    if name is None:
        return None
    values = _get_column(rows, name)
    if not {str, int}.issuperset(map(type, values)):
        return None
    keys = list(map(str, values))
    return keys if "" not in keys and is_readable("\n".join(keys)) else None


def _get_plain_texts(rows: Sequence[Row], column: str) -> list[list[str]] | None:
    """Return the texts of a column if all cells are texts or lists of texts without peculiarities, else None."""
    cells = _get_column(rows, column)
    kinds = set(map(type, cells))
    if kinds == {str}:
        lists, flat = [[text] for text in cells], cells
    elif kinds == {list} and all(cells):
        lists, flat = list(map(list, cells)), list(chain.from_iterable(cells))
        if set(map(type, flat)) != {str}:
            return None
    else:
        return None
    joined = "\n".join(flat)
    return lists if is_readable(joined) and not _has_list(joined) else None


# Control characters except white space, which separates words like a space.
CONTROLS = bytes([*range(9), *range(14, 28), 127])
_CONTROL = re.compile(f"[{re.escape(CONTROLS.decode())}]")


def is_readable(text: str) -> bool:
    """Return True if a text contains no lone surrogate and no control character except white space."""
    try:
        content = text.encode()
    except UnicodeEncodeError:
        return False
    return len(content.translate(None, CONTROLS)) == len(content)


def clean_text(text: str) -> str:
    r"""Return the text without control characters and lone surrogates.

    >>> clean_text("a dog\0 and \ud83da cat"), clean_text("a \ud83d\ude00 face") == "a \U0001f600 face"
    ('a dog and a cat', True)
    """
    return _CONTROL.sub("", repair_text(text))


def _has_list(text: str) -> bool:
    """Return True if one of several texts, one per line, may be a printed list.

    >>> _has_list(" ['a cat', 'two cats']"), _has_list("array(['a cat'])"), _has_list("a cat (white)")
    (True, True, False)
    """
    for bracket, before in (("[", {""}), ("(", {"", "array"})):
        at = text.find(bracket)
        while at >= 0:
            if text[text.rfind("\n", 0, at) + 1 : at].lstrip() in before:
                return True
            at = text.find(bracket, at + 1)
    return False


def _add_further_fields(gathered: Gathered, keys: Sequence[str], rows: Sequence[Row], used: set[str | None]) -> None:
    """Add the columns of a block other than ids and captions."""
    columns = [column for column in rows[0].fields if column not in used and column not in ("id", "image_id")]
    if not columns:
        return
    new = gathered.fields.keys().isdisjoint(keys) and len(set(keys)) == len(keys)
    media = (_pick(rows[0], None, usual) for usual in (IMAGE_COLUMNS, VIDEO_COLUMNS))
    if not new or not set(columns).isdisjoint(media):  # the file may be a sound or a video
        for key, row in zip(keys, rows, strict=True):
            _add_fields(gathered, key, row, used)
        return
    values = zip(*(_get_column(rows, column) for column in columns), strict=True)
    gathered.fields.update((key, dict(zip(columns, own, strict=True))) for key, own in zip(keys, values, strict=True))


def gather_column(rows: Iterable[Row], column: str, reading: Reading = Reading()) -> dict[str, Any]:
    """Return the values of one column by id, without nulls. Raise InputError if an id has two different values."""
    values: dict[str, Any] = {}
    for row in rows:
        key = get_row_id(row, reading.id_column, refuse)
        if column not in row.fields:
            refuse(_explain_missing_column(row, "label", column, ()))
        value = row.fields[column]
        if isinstance(value, (list, dict)):
            refuse(f"{row.where}: {column} is {describe_value(value)}, expected a text or a number")
        if key is None or value is None:
            continue
        if not _is_same(values.setdefault(key, value), value):
            refuse(f"{row.where}: {column} of id {key!r} is {value!r}, an earlier row says {values[key]!r}")
    return values


def set_language(captions: CaptionSet, language: str | None, complain: Complain = refuse) -> CaptionSet:
    """Return the captions with their language, if given; complain if they are in another script."""
    if language is None:
        return captions
    try:
        refuse_other_script(language, (*captions.references.values, *captions.candidates.values), captions.name)
    except InputError as error:
        complain(str(error))
    return replace(captions, language=language)


def join(
    candidates: Gathered, others: Gathered | None, reading: Reading, name: str, complain: Complain = refuse
) -> CaptionSet:
    """Join candidates with the references of their ids, preferring those of ``others``; keep the candidates' order."""
    references_name = "references" if others is None else get_name(reading.references, "references")
    remarks: list[str] = []
    settings: Mapping[str, str] = {}
    tokenizer = ""
    if reading.events or candidates.event_files or (others is not None and others.event_files):
        from captious.io._dense_events import arrange_events

        arranged = arrange_events(candidates, others, reading, name, references_name, complain)
        candidates, others, settings, tokenizer, remarks = arranged
    elif reading.missing == "zero":
        complain(f"{name}: no events; reading=Reading(missing='zero') is for dense captions of videos, {_SKIP}")
    if others is not None and others.references.keys().isdisjoint(candidates.candidates):
        others, renamed = _join_by_file_name(candidates, others, references_name)
        remarks += renamed
    references = candidates.references if others is None else others.references
    keys: Collection[str] = candidates.candidates.keys()
    unmatched = [key for key in keys if not references.get(key)] if references else []
    unused = [key for key in references if key not in candidates.candidates]
    if others is not None and {candidates.aligned, others.aligned} == {True, False}:
        lines, table = (name, references_name) if candidates.aligned else (references_name, name)
        complain(
            f"{lines}: has a caption on each line and no ids, {table} has ids; expected lines in both, or ids in both"
        )
    elif references and references.keys().isdisjoint(keys):
        complain(_explain_disjoint_ids(list(keys), list(references), name, references_name))
    elif reading.missing == "error":
        # `arrange_events` has complained about references of dense captions.
        _complain_of_ids(unmatched, [] if "events" in settings else unused, name, references_name, complain)
    if unmatched:
        without = set(unmatched)
        keys = [key for key in keys if key not in without]
    columns = _merge_columns(keys, [candidates.fields, *([others.fields] if others else [])])
    _add_media(columns, keys, list(candidates.candidates), reading, complain)
    ids, joined = (candidates if others is None else others).references_of(tuple(keys))
    captions = CaptionSet(
        ids=ids,
        candidates=Ragged.of([candidates.candidates[key] for key in keys]),
        references=joined,
        columns=columns,
        name=name,
        skipped=len(unmatched) + len(candidates.changes.lost.union(unused)),
        origin=_make_origin(candidates, others, reading, name, references_name, remarks),
        settings=settings,
        tokenizer=tokenizer,
        frames=FrameRule.parse(reading.frames or DEFAULT_FRAMES),
    )
    if reading.videos is not None or reading.frames is not None:  # otherwise the videos may not be needed
        captions = _check_parts(captions, reading, complain)
    return set_language(captions, reading.language, complain)


def _check_parts(captions: CaptionSet, reading: Reading, complain: Complain) -> CaptionSet:
    """Complain about items whose ``start`` and ``end`` are no part of a video, or leave them out."""
    usable, faults = list[int](), Changes()
    for index in range(len(captions)):
        try:
            captions.find_clip(index)
        except InputError as error:
            if reading.missing != "skip":
                complain(f"{error}{SKIP_ONE}")
            faults.leave_out(str(error), f"{captions.name}: id {captions.ids[index]!r}")
        else:
            usable.append(index)
    if reading.missing != "skip" or len(usable) == len(captions):
        return captions
    remarks = (*captions.origin.remarks, *faults.sentences(captions.name))
    left_out = len(captions) - len(usable)
    origin = replace(captions.origin, left_out=captions.origin.left_out + left_out, remarks=remarks)
    return replace(captions.take(usable), skipped=captions.skipped + left_out, origin=origin)


def _complain_of_ids(
    unmatched: Sequence[str], unused: Sequence[str], name: str, references_name: str, complain: Complain
) -> None:
    """Complain about captions without references, and about references without a caption."""
    if unmatched:
        where = "" if references_name == "references" else f" in {references_name}"
        complain(f"{name}: {_format_ids(unmatched)} without references{where}; {_SKIP}")
    if unused:
        complain(f"{references_name}: {_format_ids(unused)} without a candidate in {name}; {_SKIP}")


def _add_media(
    columns: dict[str, Any], keys: Collection[str], listed: Sequence[str], reading: Reading, complain: Complain
) -> None:
    """Add the columns of images and videos that the reading names; ``listed`` are the ids that a list follows."""
    if reading.images is not None:
        from captious.io.images import match_images

        try:
            # In an id of several columns the first is the image.
            further = (reading.id_column or "").count(",")
            named = columns.get("image") or [key.rsplit(":", further)[0] for key in keys]
            columns["image"] = match_images(reading.images, tuple(keys), named, listed)
        except InputError as error:
            complain(str(error))
    if reading.videos is not None:
        from captious.io.videos import get_video_names, match_videos

        try:
            named = get_video_names(columns, len(keys))
            columns[VIDEO] = match_videos(reading.videos, tuple(keys), named, listed)
        except InputError as error:
            complain(str(error))


def _make_origin(
    candidates: Gathered,
    others: Gathered | None,
    reading: Reading,
    name: str,
    references_name: str,
    remarks: Sequence[str],
) -> Origin:
    """Describe which columns were read and what was changed."""
    changes = [candidates.changes.sentences(name), [] if others is None else others.changes.sentences(references_name)]
    references = candidates.references_column
    if others is not None:
        names = others.event_files if len(others.event_files) > 1 else (references_name,)
        file = "" if references_name == "references" else " and ".join(PurePath(name).name for name in names)
        column = others.references_column
        references = f"{column} of {file}" if column.startswith("`") and file else file or column
    return Origin(
        candidates.candidate_column,
        references,
        _describe_media(reading.images),
        _describe_media(reading.videos),
        len(candidates.changes.cleaned) + (0 if others is None else len(others.changes.cleaned)),
        len(candidates.changes.lost),
        (*chain.from_iterable(changes), *remarks),
    )


def _describe_media(source: Any) -> str:
    """Describe where images or videos were taken from; an empty string if that was not said."""
    if isinstance(source, (str, PathLike)):
        name = PurePath(source).name
        return f"file {name}" if name.lower().endswith(VECTOR_SUFFIXES) else f"folder {name}/"
    return "" if source is None else "in memory"


def _join_by_file_name(candidates: Gathered, others: Gathered, name: str) -> tuple[Gathered, list[str]]:
    """Rename the ids of the references to those of the candidates if both refer to the same image files.

    Users write ``COCO_val2014_000000391895.jpg`` if the annotations have the id 391895 and the file name.
    """
    by_alias: dict[str, str] = {}
    for key in others.references:
        for alias in _list_image_names(key, others.fields.get(key, {}).get("image")):
            by_alias[alias] = (
                key if by_alias.setdefault(alias, key) == key else ""
            )  # empty if two images share the alias
    ids: dict[str, str] = {}
    for key in candidates.candidates:
        aliases = _list_image_names(key, candidates.fields.get(key, {}).get("image"))
        if other := next((by_alias[alias] for alias in aliases if by_alias.get(alias)), ""):
            ids.setdefault(other, key)
    if not ids:
        return others, []
    own, other = next((key, other) for other, key in ids.items())
    remark = f"ids are joined by file name: {own!r} is {other!r} in {name}"
    renamed = {ids.get(key, key): texts for key, texts in others.references.items()}
    fields = {ids.get(key, key): values for key, values in others.fields.items()}
    return replace(others, references=renamed, fields=fields, joined=None), [remark]


def _list_image_names(key: str, image: Any) -> list[str]:
    """List possible names of an image: file without folder, without suffix, COCO number."""
    names = [key, *([image] if isinstance(image, str) else [])]
    files = [PurePath(name.replace("\\", "/")) for name in names]
    return list(
        dict.fromkeys([*names, *(f.name for f in files), *(f.stem for f in files), *map(parse_image_number, names)])
    )


def _explain_disjoint_ids(keys: Sequence[str], others: Sequence[str], name: str, other_name: str) -> str:
    """Return the message for candidates without any references, with ids of both sides."""
    return (
        f"{name}: none of its {_format_ids(keys, 3)} is in {other_name}, which has {_format_ids(others, 3)}; "
        "reading=Reading(id_column=...) and reading=Reading(references_id_column=...) name other columns; no names of "
        "image files match either"
    )


def _merge_columns(
    keys: Collection[str], sources: Sequence[Mapping[str, Mapping[str, Any]]]
) -> dict[str, tuple[Any, ...]]:
    """Convert the other fields of items to columns; the first source with a field takes precedence."""
    if not any(sources):
        return {}
    first, *further = [source for source in sources if source]
    none: Mapping[str, Any] = {}
    rows = [first.get(key, none) for key in keys]
    for source in further:
        rows = [{**source.get(key, none), **row} for key, row in zip(keys, rows, strict=True)]
    names = dict.fromkeys(chain.from_iterable(dict.fromkeys(map(tuple, rows))))
    return {name: tuple([row.get(name) for row in rows]) for name in names}


def _is_same(one: Any, other: Any) -> bool:
    """Return True if two values are equal; arrays only if they are the same object."""
    equal = one is other or one == other
    return equal is True or (isinstance(equal, np.bool_) and bool(equal))


def _add_fields(gathered: Gathered, key: str, row: Row, used: set[str | None], several: bool = False) -> None:
    image, video = _pick(row, None, IMAGE_COLUMNS), _find_video_column(row)
    for column, value in row.fields.items():
        if column in used or column in ("id", "image_id"):
            continue
        fields = gathered.fields.setdefault(key, {})
        name = VIDEO if column == video else column
        if column == image != video:
            name = AUDIO_COLUMN if _is_sound(row, value) else "image"
        if several and name in fields:
            fields[name].append(value)
        else:
            fields[name] = [value] if several else fields.get(name, value)


def _find_video_column(row: Row) -> str | None:
    """Return the column that names or contains the video of a row.

    A column `clip` may be a score, and `file_name` or `path` an image, so their values decide.
    """
    for column in ("video", "video_path"):
        if column in row.fields:
            return column
    for column in ("clip", *(name for name in IMAGE_COLUMNS[1:] if name != "image_path")):
        value = row.fields.get(column)
        if isinstance(value, str) and value.lower().endswith((*VIDEO_SUFFIXES, *VECTOR_SUFFIXES)):
            return column
        if column == "clip" and isinstance(value, (bytes, Mapping)):
            return column
    return None


def _is_sound(row: Row, value: Any) -> bool:
    """Return True if an image column names a sound file and the row has no audio column."""
    return isinstance(value, str) and value.lower().endswith(AUDIO_SUFFIXES) and AUDIO_COLUMN not in row.fields


# Numbered columns of audio captions, one caption each, which are merged into a list.
_NUMBERED = {
    "candidates": re.compile(r"mult_captions_predicted_\d+"),
    "references": re.compile(r"caption_(?:reference_)?\d+"),
}


@lru_cache(maxsize=64)
def _find_numbered_columns(columns: tuple[str, ...]) -> Mapping[str, tuple[str, ...]]:
    """Group the numbered columns by the list that they form."""
    lists = {what: tuple(filter(pattern.fullmatch, map(str, columns))) for what, pattern in _NUMBERED.items()}
    return {what: names for what, names in lists.items() if names}


def _merge_numbered_columns(row: Row, reading: Reading) -> Row:
    """Merge numbered columns, such as ``caption_1`` to ``caption_5`` of Clotho, into a list.

    A row that has the list already keeps its columns, and so does one whose caption column is given, unless the given
    name is the stem of the numbered columns: ``mult_captions_predicted``.
    """
    lists = _find_numbered_columns(tuple(row.fields))
    if not lists:
        return row
    named = {"candidates": reading.candidate_column, "references": reading.references_column}
    usual = {"candidates": CANDIDATE_COLUMNS, "references": REFERENCE_COLUMNS}
    fields = dict(row.fields)
    for what, columns in lists.items():
        stem = columns[0].rpartition("_")[0]
        unnamed = named[what] is None and reading.candidate_column not in columns
        if (named[what] == stem not in fields) or (unnamed and _pick(row, None, usual[what]) is None):
            texts = [fields.pop(name) for name in columns]
            fields[named[what] or what] = [text for text in texts if text is not None and text != ""]
    return row._replace(fields=fields)


def get_row_id(row: Row, column: str | None, complain: Complain) -> str | None:
    """Return the id of a row: the value of a column, or of several comma-separated columns, joined by colons.

    A column whose own name contains commas is one column.
    """
    if column is None or column in row.fields or "," not in column:
        return _get_key(row, column, complain)
    keys = [_get_key(row, name.strip(), complain) for name in column.split(",")]
    return None if None in keys else ":".join(map(str, keys))


def _get_key(row: Row, column: str | None, complain: Complain) -> str | None:
    name = _pick(row, column, ID_COLUMNS)
    if name is None or (
        name in (*IMAGE_COLUMNS, *VIDEO_COLUMNS) and not isinstance(row.fields[name], (str, int, float))
    ):
        complain(_explain_missing_column(row, "id", column, ID_COLUMNS))
        return None
    value = row.fields[name]
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    if isinstance(value, bool) or not isinstance(value, (str, Integral)) or value == "":
        complain(f"{row.where}: {name} is {value!r}, expected a string or a whole number{SKIP_ONE}")
        return None
    return check_text(str(value), row.where, name, complain, SKIP_ONE)


def _get_references(row: Row, column: str, complain: Complain, changes: Changes) -> list[str]:
    if isinstance(row.fields[column], (list, tuple, np.ndarray)) and not len(row.fields[column]):
        complain(f"{row.where}: the list of references is empty, expected at least one{SKIP_ONE}")
        return []
    return _get_texts(row, column, "reference", complain, changes)


def _get_texts(row: Row, column: str, what: str, complain: Complain, changes: Changes) -> list[str]:
    """Return the cleaned texts of a cell; complain about values that are no text."""
    value = row.fields[column]
    if isinstance(value, str):
        value = parse_printed_list(value) or [value]
    entries = list(value) if isinstance(value, (list, tuple, np.ndarray)) else [value]
    if entries and set(map(type, entries)) == {str} and _is_plain("\n".join(entries)):
        return entries  # fast path for nearly all cells
    for entry in entries:
        if not isinstance(entry, str):
            complain(f"{row.where}: {what} is {describe_value(entry)}, expected a string{SKIP_ONE}")
    if not entries:
        complain(f"{row.where}: {what} is an empty list, expected a string or a list of strings{SKIP_ONE}")
    texts = []
    for text in (str(entry) for entry in entries if isinstance(entry, str)):
        if _is_utf16(text):
            check_text(text, row.where, what, complain, SKIP_ONE)
            continue
        if not is_readable(text):
            text = clean_text(text)
            changes.cleaned.append(row.where)
        if not _refuse_printed(text, row.where, what, complain):
            texts.append(text)
    return texts


def _is_utf16(text: str) -> bool:
    """Return True if every other character is null, as in UTF-16 decoded as another encoding."""
    return len(text) > 2 and "\0" in (text[0], text[1]) and len(text) - 1 <= 2 * text.count("\0") <= len(text) + 1


def _is_plain(text: str) -> bool:
    """Return True if no caption, one per line, needs a closer look."""
    return text.isascii() and "'" not in text and '"' not in text and is_readable(text)


def _refuse_printed(text: str, where: str, what: str, complain: Complain) -> bool:
    """Complain about a printed list that cannot be parsed, such as a NumPy array; return True if there was one."""
    if printed := looks_printed(text):
        complain(
            f"{where}: {what} is a printed list ({text.strip()[:40]}…), expected a list of texts as JSON writes it; "
            "an array that NumPy prints has no commas, so convert it with .tolist() before it is written"
        )
    return printed


def check_text(text: str, where: str, what: str, complain: Complain, remedy: str = "") -> str | None:
    """Return the text; complain and return None if it contains a lone surrogate or a null character."""
    try:
        if not text.isascii():
            text.encode()
    except UnicodeEncodeError as error:
        complain(f"{where}: {what} contains half a character ({text[error.start]!r}), expected valid Unicode{remedy}")
        return None
    if "\0" in text:
        complain(
            f"{where}: {what} contains a null character, expected text; is it UTF-16, or the padding of a tar?{remedy}"
        )
        return None
    return text


def _pick(row: Row, wanted: str | None, usual: Sequence[str]) -> str | None:
    if wanted is not None:
        return wanted if wanted in row.fields else None
    for name in usual:  # a loop is faster than a generator, and this runs several times per row
        if name in row.fields:
            return name
    return None


def _explain_missing_column(row: Row, what: str, wanted: str | None, usual: Sequence[str]) -> str:
    expected = repr(wanted) if wanted is not None else f"one of {', '.join(usual)}"
    names = [str(name)[:60] for name in row.fields]
    more = f" and {len(names) - SHOWN_COLUMNS} more" if len(names) > SHOWN_COLUMNS else ""
    columns = f"{', '.join(names[:SHOWN_COLUMNS]) or 'none'}{more}"
    option = _COLUMN_OPTIONS.get(what, "") if wanted is None else ""
    return f"{row.where}: no {what}: found columns {columns}, expected {expected}{option}"


def describe_value(value: Any) -> str:
    """Format a value of the wrong type for a message: its type and first characters."""
    number = "a number"
    kinds = {type(None): "null", bool: "a boolean", int: number, float: number, list: "a list", dict: "an object"}
    return f"{kinds.get(type(value), type(value).__name__)} ({str(value)[:40]})"


def _format_ids(ids: Sequence[str], shown: int = 5) -> str:
    return f"{len(ids)} {'id' if len(ids) == 1 else 'ids'} ({format_first(ids, shown)})"


def format_first(ids: Sequence[str], shown: int = 5) -> str:
    """Format the first ids for a message."""
    return ", ".join(ids[:shown]) + (", …" if len(ids) > shown else "")
