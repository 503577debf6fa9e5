"""Subjects of a study: items with their captions by system, or ready rows, read from the files of a plan."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from captious.captions import VIDEO
from captious.errors import InputError, format_suggestion
from captious.io.columns import (
    AUDIO_COLUMN,
    CAPTION_LIST_COLUMNS,
    ID_COLUMNS,
    IMAGE_COLUMNS,
    REFERENCE_COLUMNS,
    VIDEO_COLUMNS,
)
from captious.io.formats import name_files, read_rows, read_text
from captious.io.images import ImageFolder, SoundFolder
from captious.io.join import (
    Complain,
    Gathered,
    check_text,
    describe_value,
    format_first,
    gather_candidates,
    gather_references,
)
from captious.io.rows import Row
from captious.io.videos import VideoFolder
from captious.options import Reading
from captious.studio.collect.study_plan import Plan
from captious.study.rating_files import BATCH, PROBABILITY, STRATUM

# The column with a caption's system, if a file has several.
SYSTEM = "system"
# The stratum of items that were drawn from all of them.
ALL = "all"
# Columns that say how an item was drawn.
DRAWING = (PROBABILITY, STRATUM, BATCH)
SEVERAL = Reading(several=True)
# File endings that are tried first: a set lookup instead of a search of the folder.
USUAL_ENDINGS = (".jpg", ".png", ".wav", ".mp4", ".webm")
# Columns with the file of an item, and names for messages: fields of `Subject` have the same names as the columns.
MEDIA_COLUMNS = ("image", AUDIO_COLUMN, VIDEO)
MEDIA = {"image": ("image", "an image"), "sound": (AUDIO_COLUMN, "a sound"), "video": (VIDEO, "a video")}
SKIP = "; write missing = 'skip' to leave them out"


@dataclass(frozen=True, slots=True)
class Subject:
    """One item that raters are asked about: an image, a sound, a video or a text, with its captions."""

    id: str
    image: str | None = None
    """File name inside the folder of images."""
    captions: tuple[tuple[str, str], ...] = ()
    """System and text of each."""
    references: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    heading: str = ""
    fields: Mapping[str, Any] = field(default_factory=dict)
    audio: str | None = None
    """File name inside the folder of sounds."""
    video: str | None = None
    """File name inside the folder of videos."""

    def has_distinct_captions(self) -> bool:
        """Return True if all captions differ in more than case, white space and punctuation.

        >>> Subject("7", captions=(("a", "A dog."), ("b", "a dog"))).has_distinct_captions()
        False
        """
        texts = [normalize_words(text) for _, text in self.captions]
        return len({*texts}) == len(texts)


def normalize_words(text: str) -> str:
    """Return the words of a text in lower case, without punctuation; the text itself if it has no words.

    >>> normalize_words("A dog,  and a cat.")
    'a dog and a cat'
    """
    return " ".join(_WORD.findall(text.casefold())) or text.strip()


_WORD = re.compile(r"\w+")


def read_subjects(plan: Plan, complain: Complain) -> list[Subject]:
    """Read all subjects of a plan, in the order of its files."""
    if plan.captions:
        subjects = _read_captioned(plan, complain)
    elif plan.tasks is not None:
        subjects = read_ready(plan, read_rows(str(plan.file(plan.tasks))), complain)
    else:
        subjects = _list_files(plan)
    twice = _find_repeated([subject.id for subject in subjects])
    if twice:
        complain(f"{plan.tasks or plan.images}: {_format_ids(twice)} more than once, expected one row for each id")
    return _select_subjects(plan, _add_references(plan, subjects, complain), complain)


def _list_files(plan: Plan) -> list[Subject]:
    """Return a subject for every file of the folder of images, or of videos."""
    if plan.images is None and plan.videos is not None:
        return [Subject(Path(name).stem, video=name) for name in VideoFolder(plan.file(plan.videos)).names]
    return [Subject(Path(name).stem, name) for name in ImageFolder(plan.file(plan.images or "")).names]


def _add_references(plan: Plan, subjects: list[Subject], complain: Complain) -> list[Subject]:
    """Add the references of the plan's file; subjects without any are dropped or an error."""
    if plan.references is not None:
        rows = read_rows(str(plan.file(plan.references)), role="references")
        references = gather_references(rows, complain=complain).references
        subjects = [replace(one, references=tuple(references.get(one.id, one.references))) for one in subjects]
    if plan.references is None and not plan.show_references:
        return subjects
    missing_ids = [subject.id for subject in subjects if not subject.references]
    if missing_ids and plan.missing == "error":
        where = plan.file(plan.references) if plan.references is not None else f"{plan.path}: show_references = true"
        complain(f"{where}: {_format_ids(missing_ids)} without references, expected some for every item{SKIP}")
    return [subject for subject in subjects if subject.references]


def _select_subjects(plan: Plan, subjects: list[Subject], complain: Complain) -> list[Subject]:
    """Select the subjects of the plan: by id, with distinct captions, by stratum, sampled with the seed."""
    ids = _read_ids(plan)
    if ids:
        known = {subject.id for subject in subjects}
        unknown = [key for key in ids if key not in known]
        if unknown:
            suggestion = format_suggestion(unknown[0], list(known)[:1000])
            complain(f"{plan.path}: ids: {_format_ids(unknown)} not in the files{suggestion}")
        subjects = [_note_drawing(subject, ids[subject.id]) for subject in subjects if subject.id in ids]
    if plan.without:
        left_out = {key for name in plan.without for key in _read_lines(plan.file(name))}
        subjects = [subject for subject in subjects if subject.id not in left_out]
    if plan.distinct:
        subjects = [subject for subject in subjects if subject.has_distinct_captions()]
    if plan.stratum:
        subjects = _sample_strata(plan, subjects, complain)
    if plan.items is not None:
        if len(subjects) < plan.items:
            differing = " whose captions differ" if plan.distinct else ""
            complain(f"{plan.path}: items = {plan.items}, expected at most the {len(subjects)} there are{differing}")
        drawn = np.random.default_rng(plan.seed).permutation(len(subjects))[: plan.items]
        chance = min(1.0, plan.items / max(len(subjects), 1))
        subjects = [_draw(subjects[index], chance) for index in sorted(drawn.tolist())]
    return subjects


def _sample_strata(plan: Plan, subjects: list[Subject], complain: Complain) -> list[Subject]:
    """Sample the subjects of every stratum up to its quota, with the seed."""
    missing_ids = [subject.id for subject in subjects if subject.fields.get(plan.stratum) in (None, "")]
    if missing_ids:
        complain(f"{plan.path}: stratum = {plan.stratum!r}: {_format_ids(missing_ids)} without a value in that column")
    if not plan.quotas:
        return subjects
    drawn = np.random.default_rng(plan.seed).permutation(len(subjects)).tolist()
    kept: dict[int, Subject] = {}
    for name, number in plan.quotas.items():
        group = [index for index in drawn if str(subjects[index].fields.get(plan.stratum)) == name]
        if len(group) < number:
            complain(f"{plan.path}: quotas: {name} = {number}, expected at most the {len(group)} items there are")
        chance = min(1.0, number / max(len(group), 1))
        kept |= {index: _draw(subjects[index], chance, name) for index in group[:number]}
    return [kept[index] for index in sorted(kept)]


def _note_drawing(subject: Subject, drawing: Mapping[str, Any]) -> Subject:
    """Return a subject with the columns that say how it was drawn; the export has them, and `study estimate` uses them.

    A column of the files with the same name stays.
    """
    return replace(subject, fields={**drawing, **subject.fields})


def _draw(subject: Subject, chance: float, stratum: str = ALL) -> Subject:
    return replace(subject, fields=note_chance(subject.fields, chance, stratum))


def note_chance(fields: Mapping[str, Any], chance: float, stratum: str = ALL) -> dict[str, Any]:
    """Return the columns of an item with the chance of its drawing; if it had been drawn before, that of both.

    >>> note_chance({"scene": "indoor"}, 0.1)
    {'scene': 'indoor', 'probability': 0.1, 'stratum': 'all', 'batch': 1}
    """
    earlier = fields.get(PROBABILITY, 1.0)
    both = earlier * chance if isinstance(earlier, (int, float)) else earlier
    strata = dict.fromkeys(str(one) for one in (fields.get(STRATUM, stratum), stratum))
    names = [one for one in strata if one != ALL or len(strata) == 1]
    return {**fields, PROBABILITY: both, STRATUM: " / ".join(names), BATCH: fields.get(BATCH, 1)}


def _read_ids(plan: Plan) -> dict[str, dict[str, Any]]:
    """Read the ids to ask about, each with how it was drawn if the file is that of ``captious study choose``."""
    if isinstance(plan.ids, str) and plan.ids.endswith(".jsonl"):
        rows = [row.fields for row in read_rows(str(plan.file(plan.ids)), role="ids")]
        missing = next((row for row in rows if row.get("id") in (None, "")), None)
        if missing is not None or not rows:
            raise InputError(f"{plan.file(plan.ids)}: a row without id, expected the file of captious study choose")
        drawn = {str(row["id"]): {name: row[name] for name in DRAWING if name in row} for row in rows}
        return {id: {PROBABILITY: None, **drawing} for id, drawing in drawn.items()}
    ids = _read_lines(plan.file(plan.ids)) if isinstance(plan.ids, str) else plan.ids
    # No probability: items were picked by hand, and `study estimate` warns that they may not represent the others.
    return {id: {PROBABILITY: None} for id in ids}


def _read_lines(path: Path) -> tuple[str, ...]:
    """Read a file of ids, one per line."""
    lines = (line.strip() for line in read_text(path).splitlines())
    ids = tuple(line for line in lines if line)
    if not ids:
        raise InputError(f"{path}: contains no ids, expected one per line")
    return ids


def _read_captioned(plan: Plan, complain: Complain) -> list[Subject]:
    """Read the items with the captions of every system."""
    systems = _read_systems(plan, complain)
    ids = list(dict.fromkeys(key for gathered in systems.values() for key in gathered.candidates))
    if plan.kind in ("ranking", "pairs") or plan.together > 1:
        ids = _find_shared_ids(plan, systems, ids, complain)
        if len(systems) < 2:
            complain(f"{plan.path}: only captions of {', '.join(systems)}, expected at least two systems")
    if plan.kind == "ranking" and len(systems) > MOST_CAPTIONS:
        raise InputError(f"{plan.path}: captions of {len(systems)} systems to rank, expected at most {MOST_CAPTIONS}")
    images, sounds, videos = open_media(plan, complain)
    captions = [(name, gathered.candidates, gathered.fields) for name, gathered in systems.items()]
    subjects = []
    for key in ids:
        references = next((gathered.references[key] for gathered in systems.values() if key in gathered.references), ())
        columns = [fields[key] for _, texts, fields in captions if texts.get(key) and fields.get(key)]
        named, sound, clip = (_find_file_name(columns, name) for name in MEDIA_COLUMNS)
        subjects.append(
            Subject(
                key,
                images.find(named, key),
                tuple([(name, texts[key][0]) for name, texts, _ in captions if texts.get(key)]),
                tuple(references),
                fields=_find_common_columns(columns) if columns else {},
                audio=sounds.find(sound, key),
                video=videos.find(clip, key),
            )
        )
    return videos.report(sounds.report(images.report(subjects)))


def _find_file_name(columns: Iterable[Mapping[str, Any]], name: str) -> str:
    """Return the file name in a column of the first row that has one."""
    return str(next((fields[name] for fields in columns if fields.get(name)), ""))


def _read_systems(plan: Plan, complain: Complain) -> dict[str, Gathered]:
    """Read the captions of each system: of each file, or of each value of its column ``system``."""
    systems: dict[str, Gathered] = {}
    for name, file in name_files(plan.captions, plan.path.parent).items():
        for system, rows in _group_by_system(name, list(read_rows(str(plan.file(file)))), complain).items():
            gathered = gather_candidates(rows, SEVERAL, complain)
            for key, texts in gathered.candidates.items():
                if len(texts) > 1:
                    where = gathered.find_first_row(key)
                    complain(f"{where}: {len(texts)} captions of {system} for id {key!r}, expected one")
            if system in systems:
                complain(f"{plan.file(file)}: system {system!r} is already in an earlier file, expected another name")
            if not gathered.candidates:
                complain(f"{plan.file(file)}: contains no captions")
            systems[system] = gathered
    return systems


def _group_by_system(name: str, rows: list[Row], complain: Complain) -> dict[str, list[Row]]:
    if not any(SYSTEM in row.fields for row in rows):
        return {name: rows}
    systems: dict[str, list[Row]] = {}
    ids = [row.fields.get("id") for row in rows]
    by_image = len({*map(str, ids)}) == len(ids) and any(
        row.fields.get(name) for row in rows for name in (*IMAGE_COLUMNS, *VIDEO_COLUMNS[:2])
    )
    for row in rows:
        system = row.fields.get(SYSTEM)
        if not isinstance(system, str) or not system.strip():
            complain(f"{row.where}: system is {system!r}, expected the name of the system that wrote the caption")
            continue
        if by_image:  # every caption has its own id, so captions are joined by image instead
            row.fields.pop("id", None)
        del row.fields[SYSTEM]
        systems.setdefault(system, []).append(row)
    return systems


def _find_shared_ids(plan: Plan, systems: Mapping[str, Gathered], ids: list[str], complain: Complain) -> list[str]:
    """Return the ids that every system has; others are an error unless the plan skips them."""
    for name, gathered in systems.items():
        missing_ids = [key for key in ids if key not in gathered.candidates]
        if missing_ids and plan.missing == "error":
            complain(f"{plan.path}: captions: {name} has no caption for {_format_ids(missing_ids)} of the others{SKIP}")
    shared = [key for key in ids if all(gathered.candidates.get(key) for gathered in systems.values())]
    if ids and not shared:
        complain(f"{plan.path}: captions: no id is in all of {', '.join(systems)}")
    return shared


def _find_common_columns(columns: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Return the columns of an item that are equal in the files of all systems."""
    first, *others = columns
    return {
        str(name): _convert_value(value)
        for name, value in first.items()
        if name not in MEDIA_COLUMNS and all(name in other and other[name] == value for other in others)
    }


def _convert_value(value: Any) -> Any:
    """Convert a value to one that JSON can store."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if value is None or isinstance(value, (str, int, float)):
        return value
    if isinstance(value, Mapping):
        return {str(key): _convert_value(part) for key, part in value.items()}
    if isinstance(value, (list, tuple, np.ndarray)):
        return [_convert_value(part) for part in value]
    return str(value)


def open_media(plan: Plan, complain: Complain) -> tuple[_Media, _Media, _Media]:
    """Open the folders of images, of sounds and of videos of a plan."""
    images = None if plan.images is None else ImageFolder(plan.file(plan.images))
    sounds = None if plan.audio is None else SoundFolder(plan.file(plan.audio))
    videos = None if plan.videos is None else VideoFolder(plan.file(plan.videos))
    return _Media(plan, images, complain), _Media(plan, sounds, complain), _Media(plan, videos, complain)


class _Media:
    """The images, sounds or videos of a plan; missing files, and files outside the folder, are reported together."""

    def __init__(self, plan: Plan, folder: ImageFolder | None, complain: Complain) -> None:
        self.complain, self.skips, self.folder = complain, plan.missing == "skip", folder
        self.missing: list[str] = []
        self.outside: list[str] = []
        if self.folder is not None:
            self.root = os.path.realpath(self.folder.path)
            with os.scandir(self.folder.path) as entries:
                links = {entry.name for entry in entries if entry.is_symlink()}
            self.plain = {name for name in self.folder.names if name not in links}

    def find(self, name: str, key: str) -> str | None:
        """Return the name of an item's file inside the folder; None if the study has no such folder."""
        if self.folder is None:
            return None
        for usual in (name or key, *(f"{name or key}{ending}" for ending in USUAL_ENDINGS)):
            if usual in self.plain:
                return usual
        path = self.folder.find(name, key)
        if path is None or path.suffix.lower() not in self.folder.suffixes:
            self.missing.append(name or key)
            return None
        if not os.path.realpath(path).startswith(self.root + os.sep) or ".." in path.parts:
            self.outside.append(str(path))
            return None
        return path.relative_to(self.folder.path).as_posix()

    def report(self, subjects: list[Subject]) -> list[Subject]:
        """Report every file that was not found, or drop the items without one."""
        if self.folder is None:
            return subjects
        what = self.folder.what
        column, a_file = MEDIA[what]
        if self.outside:
            complaint = f"{self.outside[0]}: is outside the folder of {what}s; copy it there"
            self.complain(complaint + (f" ({len(self.outside)} such)" if len(self.outside) > 1 else ""))
        if self.missing and not self.skips:
            where = self.folder.path
            self.complain(f"{where}: {_format_ids(self.missing)} without {a_file}, expected one for every item{SKIP}")
        if not self.skips:
            return subjects
        return [subject for subject in subjects if getattr(subject, column) is not None]


THINGS = ("things", "entities")
HEADINGS = ("heading", "style", "text")
TEXTS = ("caption", "candidate")
LISTS = CAPTION_LIST_COLUMNS
# Columns that make a gold row a separate task, not one about an item of the study.
OWN = (*LISTS, *TEXTS, *THINGS)
# Columns with answers or settings, which are not stored with a task.
ANSWERS = ("rater", "seen", "question", "rank", "ranks", "expected")
# Maximum numbers of captions and of things on one page.
MOST_CAPTIONS, MOST_THINGS = 20, 100


def read_ready(plan: Plan, rows: Iterable[Row], complain: Complain) -> list[Subject]:
    """Make subjects of ready rows, such as those of ``captious probe entities``, sets to rank, or images to label."""
    media = open_media(plan, complain)
    rows = _join_sets(rows) if plan.kind == "ranking" else rows
    subjects = [subject for row in rows if (subject := _make_subject(row, media, complain)) is not None]
    for files in media:
        subjects = files.report(subjects)
    return subjects


def find_row_id(row: Row) -> str:
    """Return the id of a ready row; raise `InputError` if it has none."""
    names = ("task", "set", *ID_COLUMNS, "picture", "style")
    key = next((row.fields[name] for name in names if row.fields.get(name)), None)
    if not isinstance(key, (str, int)) or isinstance(key, bool) or not str(key).strip():
        raise InputError(f"{row.where}: no id, expected one of {', '.join(('task', *ID_COLUMNS))}")
    return str(key)


def _make_subject(row: Row, media: tuple[_Media, _Media, _Media], complain: Complain) -> Subject | None:
    values = row.fields
    named = next((values[name] for name in ("picture", *IMAGE_COLUMNS) if values.get(name)), "")
    try:
        key = find_row_id(row)
    except InputError as error:
        complain(str(error))
        return None
    try:
        captions = _parse_captions(values)
        references = _parse_list(values, REFERENCE_COLUMNS)
        things = _parse_list(values, THINGS)
        heading = next((values[name] for name in HEADINGS if values.get(name)), "")
        _check_content(captions, things, heading)
    except InputError as error:
        complain(f"{row.where}: {error}")
        return None
    for text in (key, heading, *references, *things, *(text for _, text in captions)):
        if check_text(text, row.where, "a text", complain) is None:
            return None
    used = {*LISTS, *TEXTS, *REFERENCE_COLUMNS, *THINGS, *ANSWERS}
    fields = {str(name): _convert_value(value) for name, value in values.items() if name not in used}
    image, sound, video = (
        files.find(str(name or named), key)
        for files, name in zip(media, (named, values.get(AUDIO_COLUMN), _find_video_name(values)), strict=True)
    )
    return Subject(key, image, captions, references, things, heading, fields, sound, video)


def _find_video_name(values: Mapping[str, Any]) -> Any:
    """Return the file name in a column of videos; a column `clip` may also be a score."""
    return next((values[name] for name in VIDEO_COLUMNS if isinstance(values.get(name), str) and values[name]), None)


def _parse_captions(values: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    name = next((name for name in (*LISTS, *TEXTS) if values.get(name) is not None), None)
    captions = values[name] if name is not None else ()
    if isinstance(captions, str):
        captions = {str(values.get(SYSTEM) or ""): captions}
    if not isinstance(captions, (Mapping, list, tuple, np.ndarray)):
        raise InputError(f"{name} is {describe_value(captions)}, expected a text, a list, or a text for each system")
    pairs = list(captions.items()) if isinstance(captions, Mapping) else [("", text) for text in captions]
    for _, text in pairs:
        if not isinstance(text, str):
            raise InputError(f"{name}: {str(text)[:40]!r}, expected texts: a list, or one for each system")
    return tuple((str(system), text) for system, text in pairs)


def _parse_list(values: Mapping[str, Any], names: Sequence[str]) -> tuple[str, ...]:
    name = next((name for name in names if values.get(name) is not None), None)
    entries = values[name] if name is not None else ()
    entries = [entries] if isinstance(entries, str) else entries
    if not isinstance(entries, (list, tuple, np.ndarray)) or not all(isinstance(entry, str) for entry in entries):
        raise InputError(f"{name} is {str(entries)[:40]!r}, expected a list of texts")
    return tuple(entries)


def _check_content(captions: Sequence[Any], things: Sequence[str], heading: Any) -> None:
    if len(captions) > MOST_CAPTIONS or len(things) > MOST_THINGS:
        raise InputError(
            f"{len(captions)} captions and {len(things)} things, expected at most {MOST_CAPTIONS} and {MOST_THINGS}"
        )
    if twice := _find_repeated(things):
        raise InputError(f"{twice[0]!r} is asked for more than once, expected every thing once")
    if "" in (thing.strip() for thing in things):
        raise InputError("an empty thing to ask for, expected a word")
    if not isinstance(heading, str):
        raise InputError(f"the text above the question is {str(heading)[:40]!r}, expected a text")


def _join_sets(rows: Iterable[Row]) -> list[Row]:
    """Join rows of one caption each by their set or style; keep rows that have a list of captions."""
    joined: dict[str, Row] = {}
    for number, row in enumerate(rows):
        text = next((row.fields[name] for name in TEXTS if isinstance(row.fields.get(name), str)), None)
        key = row.fields.get("set") or row.fields.get("style")
        if text is None or not isinstance(key, (str, int)):
            joined[f"\0{number}"] = row
            continue
        fields = {name: value for name, value in row.fields.items() if name not in (*TEXTS, SYSTEM, "id")}
        first = joined.setdefault(str(key), Row(row.where, {**fields, "set": key, LISTS[0]: {}}))
        captions = first.fields[LISTS[0]]
        captions[str(row.fields.get(SYSTEM) or len(captions) + 1)] = text
    return list(joined.values())


def _find_repeated(names: Sequence[str]) -> list[str]:
    """Return the names that occur more than once."""
    seen, repeated = set[str](), dict[str, None]()
    for name in names:
        if name in seen:
            repeated[name] = None
        seen.add(name)
    return list(repeated)


def _format_ids(ids: Sequence[str]) -> str:
    return f"{len(ids):,} {'id' if len(ids) == 1 else 'ids'} ({format_first(ids)})"
