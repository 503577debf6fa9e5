"""Layouts of dense captions: files with the sentences of each video and their times, as one row for each video.

A row has the sentences in ``captions``, [start, end] of each in ``events`` and the name of its file in ``file``; if the
file names it, also the length of the video in ``duration``. `captious.io._dense_events` checks the values.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Set
from itertools import chain
from numbers import Real
from typing import Any

from captious._core.numbers import parse_number
from captious.errors import InputError
from captious.io.columns import CANDIDATE_COLUMNS, DURATION_COLUMN, EVENT_COLUMN
from captious.io.rows import Piece, Row, RowBlock, describe_value

# Columns of a table with one event per row.
VIDEO_ID, START, END = "video_id", "start", "end"
# Names of the times and the sentence of one event, in the files of ActivityNet Captions and of YouCook2.
TIMES, SENTENCE = ("timestamp", "segment"), "sentence"
FILE = "file"


def is_dense(row: Row) -> bool:
    """Return True for a row of this module: a video with its sentences and their times."""
    return FILE in row.fields and EVENT_COLUMN in row.fields and row.keyed


def read_dense_document(document: Mapping[Any, Any], name: str) -> Iterator[Row] | None:
    """Return the rows of a JSON document of dense captions; None if it has another layout."""
    videos: Any = document
    for key in ("results", "database"):
        if isinstance(document.get(key), Mapping):
            videos = document[key]
    if _are_texts(videos.values()):
        return None
    if any(map(_is_list_of_events, videos.values())):
        return _read_lists(videos, name)
    if videos is not document and videos and not any(videos.values()):  # every video has an empty list
        return _read_lists(videos, name) if all(isinstance(value, list) for value in videos.values()) else None
    if any(isinstance(value, Mapping) and {"timestamps", "sentences"} <= value.keys() for value in videos.values()):
        return _read_parallel_lists(videos, name)
    return None


def _are_texts(values: Collection[Any]) -> bool:
    """Return True for the plain layouts, captions or lists of captions by id, without a call per value."""
    types = set(map(type, values))
    return types == {str} or (types == {list} and set(map(type, chain.from_iterable(values))) == {str})


def _is_list_of_events(value: Any) -> bool:
    """Return True for the events of a video in a file of lists, or in YouCook2's database."""
    events = value.get("annotations") if isinstance(value, Mapping) else value
    return isinstance(events, list) and any(map(_is_event, events[:3]))


def _is_event(entry: Any) -> bool:
    return isinstance(entry, Mapping) and SENTENCE in entry and not entry.keys().isdisjoint(TIMES)


def _read_lists(videos: Mapping[Any, Any], name: str) -> Iterator[Row]:
    """Yield the videos of ``{video: [{"sentence", "timestamp"}]}`` or of YouCook2's database."""
    for key, value in videos.items():
        about = value if isinstance(value, Mapping) else {}
        entries = about.get("annotations") if isinstance(value, Mapping) else value
        if not isinstance(entries, list):
            yield _make_row(name, key, None, None, None)
            continue
        events = [entry if isinstance(entry, Mapping) else {} for entry in entries]
        times = [next((event[one] for one in TIMES if one in event), None) for event in events]
        yield _make_row(name, key, [event.get(SENTENCE) for event in events], times, about.get(DURATION_COLUMN))


def _read_parallel_lists(videos: Mapping[Any, Any], name: str) -> Iterator[Row]:
    """Yield the videos of ``{video: {"duration", "timestamps", "sentences"}}``."""
    for key, value in videos.items():
        value = value if isinstance(value, Mapping) else {}
        yield _make_row(name, key, value.get("sentences"), value.get("timestamps"), value.get(DURATION_COLUMN))


def _make_row(name: str, key: Any, sentences: Any, times: Any, duration: Any) -> Row:
    fields = {"id": key, "captions": sentences, EVENT_COLUMN: times, FILE: name}
    if duration is not None:
        fields[DURATION_COLUMN] = duration
    return Row(f"{name}: id {key!r}", fields, keyed=True)


def group_event_rows(pieces: Iterable[Piece], name: str) -> Iterator[Piece]:
    """Group a table with the columns ``video_id``, ``start``, ``end`` and a caption by video; pass others on."""
    pieces = iter(pieces)
    first = next(pieces, None)
    if first is None:
        return
    row = first if isinstance(first, Row) else next(iter(first), None)
    column = "" if row is None else _find_event_column(row.fields.keys())
    pieces = chain([first], pieces)
    if not column:
        yield from pieces
        return
    videos: dict[Any, tuple[list[Any], list[Any], list[Any]]] = {}
    for piece in pieces:
        for row in piece if isinstance(piece, RowBlock) else [piece]:
            fields = row.fields
            if not isinstance(fields.get(VIDEO_ID), (str, Real)):
                found = describe_value(fields.get(VIDEO_ID))
                raise InputError(f"{row.where}: {VIDEO_ID} is {found}, expected a string or a whole number")
            texts, times, durations = videos.setdefault(fields.get(VIDEO_ID), ([], [], []))
            texts.append(fields.get(column))
            times.append([_convert_number(fields.get(START)), _convert_number(fields.get(END))])
            durations.append(_convert_number(fields.get(DURATION_COLUMN)))
    for key, (texts, times, durations) in videos.items():
        yield _make_row(name, key, texts, times, durations[0])


def _find_event_column(names: Set[str]) -> str:
    """Return the column of the sentences of a table of events; empty for a table with any further column."""
    texts = names & {*CANDIDATE_COLUMNS, SENTENCE}
    others = names - texts - {VIDEO_ID, START, END, DURATION_COLUMN}
    return next(iter(texts)) if {VIDEO_ID, START, END} <= names and len(texts) == 1 and not others else ""


def _convert_number(value: Any) -> Any:
    """Convert a text of a CSV file to a number; other values are checked later."""
    try:
        return parse_number(value) if isinstance(value, str) and value.strip() else value
    except ValueError:
        return value
