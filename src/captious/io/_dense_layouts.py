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

# Keys of the videos in a document that has more.
VIDEO_KEYS = ("results", "database")
# Columns of a table with one event per row.
VIDEO_ID, START, END = "video_id", "start", "end"
# Names of the times and the sentence of one event, in the files of ActivityNet Captions and of YouCook2.
TIMES, SENTENCES = ("timestamp", "segment"), ("sentence", "caption")
# Names of times that other programs write, which are no reason to read a file as captions of images.
OTHER_TIMES = {"timestamps", "segments", "time", "times", "start_time", "end_time", "begin"}
FILE = "file"


def is_dense(row: Row) -> bool:
    """Return True for a row of this module: a video with its sentences and their times."""
    return FILE in row.fields and EVENT_COLUMN in row.fields and row.keyed


def read_dense_document(document: Mapping[Any, Any], name: str) -> Iterator[Row] | None:
    """Return the rows of a JSON document of dense captions; None if it has another layout.

    Raise InputError if its videos have lists of events under other names.
    """
    videos: Any = document
    for key in VIDEO_KEYS:
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
    _refuse_other_names(videos, name, videos is not document)
    return None


def _are_texts(values: Collection[Any]) -> bool:
    """Return True for the plain layouts, captions or lists of captions by id, without a call per value."""
    types = set(map(type, values))
    return types == {str} or (types == {list} and set(map(type, chain.from_iterable(values))) == {str})


def _refuse_other_names(videos: Mapping[Any, Any], name: str, is_wrapped: bool) -> None:
    """Raise InputError for a file of videos without a sentence and times, by the names that its events have instead."""
    for key, value in videos.items():
        events = value.get("annotations") if isinstance(value, Mapping) and is_wrapped else value
        if not isinstance(events, list) or not events or not isinstance(events[0], Mapping):
            continue
        names = events[0].keys()
        # A list of captions or of questions about an image may have a time too, such as that of its request.
        is_other = not is_wrapped and not names.isdisjoint({"caption", "question"})
        if not is_other and (is_wrapped or not names.isdisjoint({*TIMES, START, END, *OTHER_TIMES})):
            found = ", ".join(map(str, names)) or "nothing"
            raise InputError(
                f"{name}: id {key!r}: an event has {found[:100]}, expected sentence and timestamp, the start and the "
                "end in seconds"
            )
        return
    if is_wrapped and not videos:
        raise InputError(f"{name}: contains no videos, expected sentences with their times for each")


def _is_list_of_events(value: Any) -> bool:
    """Return True for the events of a video in a file of lists, or in YouCook2's database."""
    events = value.get("annotations") if isinstance(value, Mapping) else value
    return isinstance(events, list) and any(map(_is_event, events[:3]))


def _is_event(entry: Any) -> bool:
    return isinstance(entry, Mapping) and not entry.keys().isdisjoint(SENTENCES) and bool(_find_times(entry.keys()))


def _find_times(names: Set[str]) -> Set[str]:
    """Return the fields of the times of an event: its start and its end, or one that is a list of both."""
    return {START, END} if {START, END} <= names else names & {*TIMES}


def _read_lists(videos: Mapping[Any, Any], name: str) -> Iterator[Row]:
    """Yield the videos of ``{video: [{"sentence", "timestamp"}]}`` or of YouCook2's database."""
    for key, value in videos.items():
        about = value if isinstance(value, Mapping) else {}
        entries = about.get("annotations") if isinstance(value, Mapping) else value
        if not isinstance(entries, list):
            yield _make_row(name, key, None, None, None)
            continue
        events = [entry if isinstance(entry, Mapping) else {} for entry in entries]
        sentences = [_get_first(event, SENTENCES) for event in events]
        yield _make_row(name, key, sentences, list(map(_get_times, events)), about.get(DURATION_COLUMN))


def _get_first(event: Mapping[str, Any], names: Iterable[str]) -> Any:
    """Return the first field of an event that has one of these names."""
    return next((event[name] for name in names if name in event), None)


def _get_times(event: Mapping[str, Any]) -> Any:
    """Return the start and the end of an event; texts of a CSV file become numbers."""
    if START in event and END in event:
        return [_convert_number(event[START]), _convert_number(event[END])]
    return _get_first(event, TIMES)


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


def group_event_rows(pieces: Iterable[Piece], name: str, always: bool = False) -> Iterator[Piece]:
    """Group a table with the columns ``video_id``, ``start``, ``end`` and a caption by video; pass others on.

    ``timestamp``, a list of both, replaces ``start`` and ``end``. A table with further columns is one of
    events only if the user says so (``always``): otherwise its rows are items, each a part of a video.
    """
    pieces = iter(pieces)
    first = next(pieces, None)
    if first is None:
        return
    row = first if isinstance(first, Row) else next(iter(first), None)
    column = "" if row is None else _find_event_column(row.fields.keys(), always)
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
            times.append(_get_times(fields))
            durations.append(_convert_number(fields.get(DURATION_COLUMN)))
    for key, (texts, times, durations) in videos.items():
        yield _make_row(name, key, texts, times, durations[0])


def has_event_columns(names: Set[str]) -> bool:
    """Return True for the columns of a table of events, which may have more."""
    return bool(_find_event_column(names, always=True))


def _find_event_column(names: Set[str], always: bool) -> str:
    """Return the column of the sentences of a table of events; empty for any other table."""
    texts = [name for name in (SENTENCES[0], *CANDIDATE_COLUMNS) if name in names]
    times = _find_times(names)
    others = names - {*texts, *times, VIDEO_ID, DURATION_COLUMN}
    has_all = VIDEO_ID in names and bool(times) and bool(texts)
    return texts[0] if has_all and (always or (len(texts) == 1 and not others)) else ""


def _convert_number(value: Any) -> Any:
    """Convert a text of a CSV file to a number; other values are checked later."""
    try:
        return parse_number(value) if isinstance(value, str) and value.strip() else value
    except ValueError:
        return value
