"""Dense captions of videos: their events checked, and arranged as one item for each video, paragraph or event."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import PurePath
from typing import Any, NamedTuple

from captious.io._dense_layouts import FILE
from captious.io.columns import (
    DURATION_COLUMN,
    EVENT_COLUMN,
    REFERENCE_EVENT_COLUMN,
    REFERENCE_FILE_COLUMN,
    SENTENCE_COLUMN,
    WITHOUT_PREDICTION_COLUMN,
)
from captious.io.join import (
    SKIP_ONE,
    Changes,
    Complain,
    Gathered,
    clean_text,
    describe_value,
    format_first,
    get_row_id,
    is_readable,
)
from captious.io.rows import Piece, Row, RowBlock
from captious.options import Events, Reading

Times = list[list[float]]
# densevid_eval scores at most this many events of a video; more are warned about.
SCORED_EVENTS = 1000
# Seconds by which an event may end after its video: annotators round, and headers of videos differ.
SLACK = 0.5
# Largest time of an event in seconds. Times since 1970, which some files have, are about 1.8e9.
LATEST = 1e12
LETTERS = "letters"


def gather_events(
    rows: Iterable[Piece], reading: Reading, complain: Complain, changes: Changes, references: bool
) -> Gathered:
    """Collect the sentences and times of each video; those of several files of references follow each other."""
    gathered = Gathered(changes=changes, aligned=False)
    files: dict[str, int] = {}
    odd_durations: list[str] = []
    skips = reading.missing == "skip"
    for row in _iterate(rows):
        report = partial(changes.leave_out, where=row.where) if skips else complain
        key = get_row_id(row, None, report)
        events = _check_events(row, report, changes)
        if key is None or events is None:
            changes.lost |= {row.where if key is None else key} if skips and not references else set()
            continue
        texts, times = events
        number = files.setdefault(str(row.fields.get(FILE, "references")), len(files))
        fields = gathered.fields.setdefault(key, {})
        if references:
            gathered.references.setdefault(key, []).extend(texts)
            fields.setdefault(REFERENCE_EVENT_COLUMN, []).extend(times)
            fields.setdefault(REFERENCE_FILE_COLUMN, []).extend([number] * len(texts))
        elif key in gathered.candidates:
            report(f"{row.where}: occurs more than once, expected one list of events for each video{SKIP_ONE}")
            continue
        else:
            gathered.candidates[key] = texts
            gathered.first_rows[key] = row.where
            fields[EVENT_COLUMN] = times
        duration: Any = row.fields.get(DURATION_COLUMN)
        if _is_number(duration) and duration >= 0:
            fields.setdefault(DURATION_COLUMN, float(duration))
        elif duration is not None:
            odd_durations.append(row.where)
    if odd_durations:
        examples = format_first(odd_durations)
        changes.remarks.append(f"durations that are no seconds are ignored: {len(odd_durations):,} ({examples})")
    gathered.event_files = tuple(files) or ("",)
    gathered.candidate_column = gathered.references_column = "sentences with times"
    return gathered


def _iterate(pieces: Iterable[Piece]) -> Iterator[Row]:
    """Yield the rows of pieces, which are rows or blocks of rows."""
    for piece in pieces:
        if isinstance(piece, RowBlock):
            yield from piece
        else:
            yield piece


def _check_events(row: Row, complain: Complain, changes: Changes) -> tuple[list[str], Times] | None:
    """Return the sentences and times of a video; at the first invalid event complain and return None."""
    texts, times = row.fields.get("captions"), row.fields.get(EVENT_COLUMN)
    if not isinstance(texts, list) or not isinstance(times, list):
        complain(f"{row.where}: no list of sentences with their times, expected one{SKIP_ONE}")
        return None
    if len(texts) != len(times):
        first = min(len(texts), len(times)) + 1
        missing = "no timestamp" if len(texts) > len(times) else "no sentence"
        complain(f"{row.where}: {len(times)} times and {len(texts)} sentences: event {first} has {missing}{SKIP_ONE}")
        return None
    for number, (text, time) in enumerate(zip(texts, times, strict=True), start=1):
        problem = f"has {describe_value(text)} as its sentence, expected a string" if not isinstance(text, str) else ""
        if problem := problem or _find_problem(time):
            complain(f"{row.where}: event {number} {problem}{SKIP_ONE}")
            return None
    if not all(map(is_readable, texts)):
        texts = list(map(clean_text, texts))
        changes.cleaned.append(row.where)
    return texts, [[float(start), float(end)] for start, end in times]


def _find_problem(time: Any) -> str:
    """Return what is wrong with the times of an event; empty if nothing is."""
    if not isinstance(time, (list, tuple)) or len(time) != 2 or not all(map(_is_number, time)):
        return f"has the times {str(time)[:40]}, expected two numbers of seconds"
    start, end = time
    if start < 0:
        return f"starts at {start:g}, expected seconds from 0"
    return f"ends ({end:g}) before it starts ({start:g})" if end < start else ""


def _is_number(value: Any) -> bool:
    """Return True for a plausible number of seconds, which excludes whole numbers that no float can store."""
    return isinstance(value, (int, float)) and not isinstance(value, bool) and abs(value) <= LATEST


class Arranged(NamedTuple):
    """Dense captions as items, with the entries of signatures, the tokenizer and the remarks that follow."""

    candidates: Gathered
    others: Gathered | None
    settings: Mapping[str, str]
    """Entries of signatures."""
    tokenizer: str
    remarks: list[str]


def arrange_events(
    candidates: Gathered,
    others: Gathered | None,
    reading: Reading,
    name: str,
    references_name: str,
    complain: Complain,
) -> Arranged:
    """Arrange dense captions as items of ``reading.events``: videos, paragraphs or segments.

    ``others`` are the references. Videos without predictions are completed or complained about.
    """
    mode: Events = "video" if reading.events is None else reading.events
    _refuse_plain_texts(candidates, others, mode, name, references_name, complain)
    if reading.missing == "zero" and mode == "segment":
        complain(
            f"{name}: a video without predictions has no segment that could count 0; pass "
            "reading=Reading(missing='skip')"
        )
    others, remarks = _match_prefixes(candidates, others, name, references_name)
    remarks += _describe_events(candidates, others, name, references_name)
    settings: dict[str, str] = {"events": mode}
    if others is not None:
        if others.event_files:
            settings["files"] = _name_files(others.event_files)
        candidates, more_remarks = _complete_missing(candidates, others, reading, name, references_name, complain)
        remarks += more_remarks
    arrangements: dict[Events, Callable[[Gathered, Gathered | None], tuple[Gathered, Gathered | None, list[str]]]] = {
        "video": lambda ours, theirs: (ours, theirs, []),
        "paragraph": _join_paragraphs,
        "segment": _split_segments,
    }
    candidates, others, more_remarks = arrangements[mode](candidates, others)
    if others is not None and not others.references:
        complain(f"{references_name}: no event has the times of a segment in {name}, expected equal starts and ends")
    tokenizer = LETTERS if mode == "paragraph" and reading.paragraph_text == LETTERS else ""
    return Arranged(candidates, others, settings, tokenizer, remarks + more_remarks)


def _refuse_plain_texts(
    candidates: Gathered, others: Gathered | None, mode: str, name: str, references_name: str, complain: Complain
) -> None:
    """Complain about captions without times, unless they are paragraphs."""
    plain = [(name, candidates), *([(references_name, others)] if others is not None else [])]
    for source, gathered in plain if mode != "paragraph" else ():
        if not gathered.event_files:
            complain(
                f"{source}: has texts without times, expected sentences with the start and the end of each; pass "
                "reading=Reading(events='paragraph') if each text describes a whole video"
            )


def _match_prefixes(
    candidates: Gathered, others: Gathered | None, name: str, references_name: str
) -> tuple[Gathered | None, list[str]]:
    """Remove ``v_`` before the ids of ActivityNet if only one side has it."""
    if others is None:
        return None, []
    predicted, referenced = candidates.candidates.keys(), others.references.keys()
    for gathered, keys, opposite, source in (
        (candidates, predicted, referenced, name),
        (others, referenced, predicted, references_name),
    ):
        if not all(key.startswith("v_") for key in keys) or all(key.startswith("v_") for key in opposite):
            continue
        if len(opposite & {key[2:] for key in keys}) <= len(opposite & keys):
            continue
        remark = f"{source}: 'v_' was removed from its {len(keys):,} ids, because those of the other file begin without"
        for table in ("candidates", "references", "fields", "first_rows"):
            setattr(gathered, table, {key.removeprefix("v_"): value for key, value in getattr(gathered, table).items()})
        gathered.joined = None
        return others, [remark]
    return others, []


def _name_files(files: Sequence[str]) -> str:
    """Name the files of references for a signature: without folders, and with a number if a name repeats."""
    names: list[str] = []
    for file in files:
        name = re.sub(r"[|+\s]", "_", PurePath(file).name) or "references"
        names.append(f"{name}-{names.count(name) + 1}" if name in names else name)
    return "+".join(names)


def _complete_missing(
    candidates: Gathered, others: Gathered, reading: Reading, name: str, references_name: str, complain: Complain
) -> tuple[Gathered, list[str]]:
    """Add videos without predictions as items that count 0 (``missing="zero"``), or complain about them."""
    absent = [key for key in others.references if key not in candidates.candidates]
    if absent and reading.missing == "error" and len(absent) < len(others.references):
        complain(
            f"{name}: {len(absent):,} ids ({format_first(absent)}) of {references_name} without predictions: pass "
            "reading=Reading(missing='zero') (as densevid_eval) or reading=Reading(missing='skip')"
        )
    if reading.missing != "zero":
        return candidates, []
    dense = bool(candidates.event_files)
    nothing: dict[str, Any] = {WITHOUT_PREDICTION_COLUMN: True, **({EVENT_COLUMN: []} if dense else {})}
    candidates = replace(
        candidates,
        candidates={**candidates.candidates, **{key: [] if dense else [""] for key in absent}},
        fields={**candidates.fields, **{key: dict(nothing) for key in absent}},
    )
    return candidates, [f"{name}: videos without predictions, which count 0: {len(absent):,}"] if absent else []


def _join_paragraphs(candidates: Gathered, others: Gathered | None) -> tuple[Gathered, Gathered | None, list[str]]:
    """Join the sentences of each video, and those of each file of references, in the order of the file."""
    if candidates.event_files:
        fields = {
            key: {
                SENTENCE_COLUMN: texts,
                **{name: value for name, value in candidates.fields.get(key, {}).items() if name != EVENT_COLUMN},
            }
            for key, texts in candidates.candidates.items()
        }
        texts = {key: [_join_sentences(texts)] for key, texts in candidates.candidates.items()}
        candidates = replace(candidates, candidates=texts, fields=fields, candidate_column="sentences, joined")
    if others is not None and others.event_files:
        references = {}
        for key, sentences in others.references.items():
            by_file: dict[int, list[str]] = {}
            for file, text in zip(others.fields[key][REFERENCE_FILE_COLUMN], sentences, strict=True):
                by_file.setdefault(file, []).append(text)
            references[key] = [_join_sentences(by_file[file]) for file in sorted(by_file)]
        durations = {
            key: {name: value for name, value in own.items() if name == DURATION_COLUMN}
            for key, own in others.fields.items()
        }
        others = replace(
            others, references=references, fields=durations, joined=None, references_column="sentences, joined"
        )
    return candidates, others, []


def _join_sentences(sentences: Iterable[str]) -> str:
    return " ".join(sentence.strip() for sentence in sentences)


def _split_segments(candidates: Gathered, others: Gathered | None) -> tuple[Gathered, Gathered | None, list[str]]:
    """Make an item of each predicted event; its references are the sentences of events with the same times."""
    texts, references, fields = dict[str, list[str]](), dict[str, list[str]](), dict[str, dict[str, Any]]()
    predicted = 0
    for video, sentences in candidates.candidates.items():
        candidate_fields = candidates.fields.get(video, {})
        reference_fields = {} if others is None else others.fields.get(video, {})
        by_times: dict[tuple[int, int], list[str]] = {}
        if others is not None:
            reference_times = reference_fields.get(REFERENCE_EVENT_COLUMN, ())
            for times, text in zip(reference_times, others.references.get(video, ()), strict=True):
                by_times.setdefault(_round_times(times), []).append(text)
        video_fields = {"video_id": video}
        duration = candidate_fields.get(DURATION_COLUMN, reference_fields.get(DURATION_COLUMN))
        if duration is not None:
            video_fields[DURATION_COLUMN] = duration
        matched_times = set()
        for number, (times, text) in enumerate(zip(candidate_fields[EVENT_COLUMN], sentences, strict=True), start=1):
            key, rounded = f"{video}#{number}", _round_times(times)
            texts[key] = [text]
            fields[key] = {**video_fields, "start": times[0], "end": times[1]}
            if rounded in by_times:
                references[key] = by_times[rounded]
                matched_times.add(rounded)
        predicted += sum(len(by_times[times]) for times in matched_times)
    candidates = replace(candidates, candidates=texts, fields=fields, first_rows={})
    if others is None:
        return candidates, None, []
    total = sum(map(len, others.references.values()))
    others = replace(others, references=references, fields={}, joined=None)
    remark = f"reference events without a predicted segment of the same times: {total - predicted:,} of {total:,}"
    return candidates, others, [remark] if predicted < total else []


def _round_times(times: Sequence[float]) -> tuple[int, int]:
    """Round to hundredths of a second: files of the same times store them in half or single precision."""
    return round(100 * times[0]), round(100 * times[1])


def _describe_events(candidates: Gathered, others: Gathered | None, name: str, references_name: str) -> list[str]:
    """Return a sentence for each kind of odd event of a side."""
    durations = {key: own.get(DURATION_COLUMN) for key, own in candidates.fields.items()}
    if others is not None:
        durations |= {
            key: own[DURATION_COLUMN] for key, own in others.fields.items() if own.get(DURATION_COLUMN) is not None
        }
    remarks = []
    for gathered, column, source in (
        (candidates, EVENT_COLUMN, name),
        (others, REFERENCE_EVENT_COLUMN, references_name),
    ):
        if gathered is None or not gathered.event_files:
            continue
        late, empty, many = list[str](), list[str](), list[str]()
        distinct, number = set[tuple[float, float]](), 0
        for key, own in gathered.fields.items():
            times = own.get(column, ())
            number += len(times)
            distinct.update((start, end) for start, end in times)
            duration = durations.get(key)
            late += [key for _, end in times if duration is not None and end > duration + SLACK]
            empty += [key for start, end in times if start == end]
            many += [key] * (len(times) > SCORED_EVENTS)
        kinds = (
            (late, f"events that end more than {SLACK:g} s after their video"),
            (empty, "events with the same start and end, which overlap with nothing"),
            (
                many,
                f"videos with more than {SCORED_EVENTS:,} events, of which densecap takes the first {SCORED_EVENTS:,}",
            ),
        )
        for keys, what in kinds:
            if keys:
                first = format_first(list(dict.fromkeys(keys)))
                remarks.append(f"{source}: {what}: {len(keys):,} ({first})")
        if len(distinct) == 1 and number > 1:
            remarks.append(f"{source}: all {number:,} events have the same start and end")
    return remarks
