"""The plan of a study: what raters are asked, how often, and who they are; the contents of ``study.toml``."""

from __future__ import annotations

import importlib
import math
import re
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from functools import cached_property
from keyword import iskeyword
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from captious._files import digest, expanded, read_regular
from captious.errors import InputError, nearest
from captious.io.columns import (
    CANDIDATE_COLUMNS,
    GROUP_COLUMNS,
    ITEM_COLUMNS,
    RATER_COLUMNS,
    RATING_COLUMNS,
    REFERENCE_COLUMNS,
    SYSTEM_COLUMNS,
)
from captious.options import SEED
from captious.studio.formula import MEAN, Formula, read_formula

KindName = Literal["ratings", "ranking", "pairs", "yesno", "labels"]
SourceName = Literal["links", "open", "prolific", "mturk"]
Merge = Literal["majority", "unanimous", "relic"]


@dataclass(frozen=True)
class Aspect:
    """One scale on which every caption of a page is rated."""

    name: str
    question: str
    scale: tuple[float, ...] = (1, 5)
    """The lowest and the highest point, in whole steps; or all points, such as -1, -0.5, -0.1, 0."""
    ends: tuple[str, ...] = ()
    """Words for the lowest and the highest point."""
    faults: tuple[str, ...] = ()
    """Typical faults, shown to the rater in a foldable list."""

    @property
    def label(self) -> str:
        """What the scale is called on the page: the words of the question before a colon, else the name.

        >>> Aspect("P", "Precision: how much is right?").label, Aspect("word_choice", "Are the words right?").label
        ('Precision', 'word choice')
        """
        before, colon, _ = self.question.partition(":")
        return before.strip() if colon else self.name.replace("_", " ")

    @cached_property
    def points(self) -> tuple[float, ...]:
        """The points of the scale, from the lowest to the highest.

        >>> Aspect("overall", "How good?").points, Aspect("fluency", "", (-1, -0.5, 0)).points
        ((1, 2, 3, 4, 5), (-1, -0.5, 0))
        """
        if len(self.scale) == 2 and all(float(end).is_integer() for end in self.scale):
            return tuple(range(int(self.scale[0]), int(self.scale[1]) + 1))
        return self.scale


@dataclass(frozen=True)
class LabelOption:
    """One of the labels of a labels study, and the key that chooses it."""

    name: str
    key: str = ""
    """One character; the number of the label where the file does not say it."""
    text: str = ""
    """What the rater reads; the name where it is empty."""


@dataclass(frozen=True)
class Checks:
    """Tasks whose answer is known, tasks shown twice, and what is flagged. Nothing is ever rejected by itself."""

    gold: str | None = None
    """File of items with the expected answer or range: of the study, or with captions of their own."""
    every: int = 12
    """One gold task after so many others."""
    repeat: int = 0
    """Tasks of a rater that are shown to the same rater again."""
    flag_failed: int = 2
    """Gold tasks failed, from which on a rater is flagged."""
    flag_seconds: float = 3.0
    """A median time a task below it is flagged."""


@dataclass(frozen=True)
class Source:
    """Where raters come from, and the codes that end their visit."""

    name: SourceName = "links"
    done: str | None = None
    """Completion code."""
    full: str | None = None
    """Code for those who come when nothing is left to do."""
    keys: str | None = None
    """File of Prolific's public keys; with it, only visitors whose address Prolific signed may enter."""


@dataclass(frozen=True)
class Plan:
    """A study as its TOML file says it. File names are relative to the folder of the file."""

    path: Path
    title: str
    kind: KindName
    captions: tuple[str, ...] = ()
    """Files of captions; a file is a system unless its rows have a column ``system``. ``NAME=FILE`` names it."""
    references: str | None = None
    images: str | None = None
    """Folder of the images."""
    tasks: str | None = None
    """File of ready tasks instead of captions: those of ``captious probe entities``, sets to rank, images to label."""
    ids: str | tuple[str, ...] = ()
    """Items to ask about, or a file with one id a line; all of them where it is empty."""
    items: int | None = None
    """So many items, drawn by the seed; all of them where it is None."""
    missing: Literal["error", "skip"] = "error"
    """Items that a file of captions, the references or the images lack: an error, or left out."""
    distinct: bool = False
    """Only items whose captions all differ, in more than case and punctuation."""
    show_references: bool = False
    together: int = 1
    """Captions of one item that are rated on one page."""
    overlap: int = 3
    """Answers per task, of as many raters."""
    per_rater: int = 40
    """Tasks of one rater, gold and repeated ones not counted."""
    lease: float = 1200.0
    """Seconds that a task is kept for a rater who opened it."""
    instructions: str = ""
    """Plain text: paragraphs, and lines that start with a hyphen."""
    consent: str = ""
    """Plain text of the page before the first task; no page where it is empty."""
    question: str = ""
    """What is asked of a ranking, a pair, a list or a label; an aspect has its own question."""
    aspects: tuple[Aspect, ...] = ()
    overall: str | None = None
    """``mean``, or a formula of aspects such as ``(P + R) / 2 + fluency``; no overall rating where it is None."""
    ties: bool = False
    """Whether a ranking may have ties, or a pair may be called equal."""
    both_bad: bool = False
    """Whether a pair has a separate box for "both are bad"."""
    cannot_judge: bool = False
    """Whether a scale, a thing of a list or a label may be left with "cannot judge"."""
    best: Literal["first", "last"] = "first"
    """Which end of a ranking is the best; exports always give the best the highest rank."""
    options: tuple[LabelOption, ...] = ()
    label: str = "label"
    """What the label is called in exports, such as age."""
    merge: Merge = "majority"
    votes: int = 1
    """Least number of votes for a merged label."""
    seconds: float = 20.0
    """Expected time a task, for the estimate of minutes and cost."""
    pay: float | None = None
    """Pay an hour, for the estimate of cost."""
    seed: int = SEED
    checks: Checks = field(default_factory=Checks)
    source: Source = field(default_factory=Source)
    text: str = ""
    """The TOML itself; the study keeps a frozen copy."""
    digest: str = ""
    """Of the text; recorded with every event, so that an edited file cannot pass for the one that was shown."""

    @property
    def summary(self) -> str:
        """The first paragraph of the instructions, which stays in sight."""
        return self.instructions.partition("\n\n")[0]

    @property
    def details(self) -> str:
        """The rest of the instructions, which can be folded away."""
        return self.instructions.partition("\n\n")[2].strip()

    def file(self, name: str) -> Path:
        """The path of a file that the plan names: relative to the folder of the plan."""
        return self.path.parent / expanded(name)

    @cached_property
    def formula(self) -> Formula | None:
        """How the overall rating follows from the aspects; None where people give it, or where there is none."""
        return read_formula(self.overall, [aspect.name for aspect in self.aspects]) if self.overall else None


def read_plan(path: str | Path) -> Plan:
    """The plan of a TOML file. A mistake is one line that names the file, the key, what was found and expected."""
    path = Path(path)
    try:
        content = read_regular(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such study, expected a file that captious studio new wrote") from None
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror})") from None
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8") from None
    return parse_plan(text, path)


def parse_plan(text: str, path: Path) -> Plan:
    """The plan of a text in TOML; ``path`` is where its files lie, and what messages call it."""
    parser = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")
    try:
        table = parser.loads(text.replace("\r\n", "\n"))
    except (ValueError, RecursionError) as error:
        reason = str(error).splitlines()[0][:120] if str(error) else "it is nested too deeply"
        raise InputError(f"{path}: not a study in TOML ({reason})") from None
    where = str(path)
    _refuse_unknown(table, _keys(Plan), where)
    table["aspects"] = _tables(table, "aspects", Aspect, where)
    table["options"] = _with_keys(_tables(table, "options", LabelOption, where))
    table["checks"] = _checks(_table(table, "checks", where), f"{where}: [checks]")
    table["source"] = _built(Source, _table(table, "source", where), f"{where}: [source]")
    for name in ("instructions", "consent"):
        if isinstance(table.get(name), str):
            table[name] = table[name].strip()
    if "lease" in table:
        table["lease"] = _seconds(table["lease"], where)
    plan = _built(Plan, {**table, "path": path, "text": text, "digest": digest(text.encode())}, where)
    _check(plan, table, where)
    return plan


Built = TypeVar("Built")
_UNWRITTEN = ("path", "text", "digest", "flag_failed", "flag_seconds")
"""Fields that are no key of the file."""
REQUIRED: dict[type, tuple[str, ...]] = {
    Plan: ("title", "kind"),
    Aspect: ("name", "question"),
    LabelOption: ("name",),
}
"""Keys that a table must have."""
BOUNDS: dict[str, tuple[float, float]] = {
    "items": (1, 10_000_000),
    "together": (1, 20),
    "overlap": (1, 1000),
    "per_rater": (1, 100_000),
    "votes": (1, 1000),
    "seconds": (0.1, 86_400),
    "pay": (0, 1_000_000),
    "seed": (0, 2**63 - 1),
    "every": (1, 100_000),
    "repeat": (0, 1000),
    "flag.failed": (1, 100_000),
    "flag.seconds": (0, 86_400),
}
"""Least and greatest values."""
_FORMS = {
    "title": "a line of text",
    "captions": 'a list of files, such as ["preds/a.jsonl", "preds/b.jsonl"]',
    "references": "the name of a file",
    "images": "the name of a folder",
    "tasks": "the name of a file",
    "gold": "the name of a file",
    "keys": "the name of a file",
    "ids": 'a list of ids in quotation marks, or the name of a file with one a line, such as "ids.txt"',
    "scale": "the lowest and the highest point, such as [1, 5], or all points",
    "ends": 'words for both ends, such as ["very bad", "very good"]',
    "faults": "a list of texts",
    "overall": "'mean' or a formula such as '(P + R) / 2'",
    "aspects": "a table for each scale, that is a line [[aspects]] before its name and question",
    "options": "a table for each label, that is a line [[options]] before its name and key",
    "checks": "a table, that is a line [checks] before its keys",
    "source": "a table, that is a line [source] before its keys",
    "flag": "such as { failed = 2, seconds = 3 }",
}
KINDS_OF_KEY: dict[str, tuple[KindName, ...]] = {
    "aspects": ("ratings",),
    "overall": ("ratings",),
    "together": ("ratings",),
    "question": ("ranking", "pairs", "yesno", "labels"),
    "ties": ("ranking", "pairs"),
    "best": ("ranking",),
    "both_bad": ("pairs",),
    "cannot_judge": ("ratings", "yesno", "labels"),
    "distinct": ("ratings", "ranking", "pairs"),
    "captions": ("ratings", "ranking", "pairs", "labels"),
    "options": ("labels",),
    "label": ("labels",),
    "merge": ("labels",),
    "votes": ("labels",),
}
"""Keys that only some kinds of task have."""
EXPORTED = frozenset(
    (
        *("preferred", "category", "both_bad", "rank", "seconds", "late", "comment", MEAN),
        *(*CANDIDATE_COLUMNS, *GROUP_COLUMNS, *ITEM_COLUMNS),
        *(*RATER_COLUMNS, *RATING_COLUMNS, *REFERENCE_COLUMNS, *SYSTEM_COLUMNS),
    )
)
"""Columns that have a meaning in exports, which no aspect and no label may be called."""
RESERVED_KEYS = "u?"
"""Keys of the page itself: back, help."""


def _keys(kind: Any) -> list[str]:
    names = [one.name for one in fields(kind) if one.name not in _UNWRITTEN]
    return [*names, "flag"] if kind is Checks else names


def _refuse_unknown(table: Mapping[str, Any], keys: Sequence[str], where: str) -> None:
    for name in table:
        if name not in keys:
            shown = name if name.isprintable() else ascii(name)
            raise InputError(f"{where}: unknown key {shown[:60]}, known: {', '.join(keys)}{nearest(name, keys)}")


def _tables(table: Mapping[str, Any], name: str, kind: type[Built], where: str) -> tuple[Built, ...]:
    entries = table.get(name, [])
    if not isinstance(entries, list) or not all(isinstance(entry, dict) for entry in entries):
        raise InputError(f"{where}: {name} = {_short(entries)}, expected {_FORMS[name]}")
    return tuple(_built(kind, entry, f"{where}: [[{name}]] {number}") for number, entry in enumerate(entries, 1))


def _table(table: Mapping[str, Any], name: str, where: str) -> dict[str, Any]:
    inner = table.get(name, {})
    if not isinstance(inner, dict):
        raise InputError(f"{where}: [{name}] is {_short(inner)}, expected {_FORMS[name]}")
    return inner


def _built(kind: type[Built], table: dict[str, Any], where: str) -> Built:
    """A dataclass of the keys of a table, each of the type and within the bounds that it must have."""
    _refuse_unknown(table, [*_keys(kind), *_UNWRITTEN], where)
    hints = get_type_hints(kind)
    values = {name: _value(name, value, hints[name], where) for name, value in table.items()}
    for name in REQUIRED.get(kind, ()):
        if not str(values.get(name, "")).strip():
            raise InputError(f"{where}: no {name}, expected {_form(name, hints[name])}")
    return kind(**values)


def _value(name: str, value: Any, hint: Any, where: str) -> Any:
    value = tuple(value) if isinstance(value, list) else value
    if not _fits(value, hint):
        choices = get_args(hint) if get_origin(hint) is Literal else ()
        hinted = nearest(str(value), choices) if choices else ""
        raise InputError(f"{where}: {name} = {_short(value)}, expected {_form(name, hint)}{hinted}")
    if name in BOUNDS and value is not None:
        low, high = BOUNDS[name]
        if not low <= value <= high:
            raise InputError(f"{where}: {name} = {value}, expected a number from {low:,} to {high:,}")
    return value


def _form(name: str, hint: Any) -> str:
    """What a key takes, in words."""
    if name in _FORMS:
        return _FORMS[name]
    kinds = get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)
    if get_origin(kinds[0]) is Literal:
        return "one of " + ", ".join(get_args(kinds[0]))
    return {int: "a whole number", float: "a number", bool: "true or false"}.get(kinds[0], "a text in quotation marks")


def _short(value: Any) -> str:
    """A value in a message, as TOML writes it."""
    if isinstance(value, bool):
        return str(value).lower()
    shown = ascii(value) if not str(value).isprintable() else repr(list(value) if isinstance(value, tuple) else value)
    return shown if len(shown) <= 60 else f"{shown[:57]}…"


def _fits(value: Any, hint: Any) -> bool:
    """Whether a value is of the type that a field declares."""
    if get_origin(hint) in (Union, UnionType):
        return any(_fits(value, part) for part in get_args(hint))
    if get_origin(hint) is tuple:
        inner = get_args(hint)[0]
        return isinstance(value, tuple) and all(_fits(part, inner) for part in value)
    if get_origin(hint) is Literal:
        return isinstance(value, str) and value in get_args(hint)
    if isinstance(value, bool) or hint is bool:
        return isinstance(value, bool) and hint is bool
    return isinstance(value, (int, float)) and math.isfinite(value) if hint is float else isinstance(value, hint)


_LEASE = re.compile(r"(\d+(?:\.\d+)?) *(s|sec|seconds?|min|minutes?|h|hours?)")
_UNITS = {"s": 1, "m": 60, "h": 3600}
LEASES = (10.0, 7 * 86_400.0)
"""Shortest and longest lease, in seconds."""


def _seconds(value: Any, where: str) -> float:
    match = _LEASE.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = float(match[1]) * _UNITS[match[2][0]] if match else math.nan
    if not LEASES[0] <= seconds <= LEASES[1]:
        raise InputError(f'{where}: lease = {_short(value)}, expected a time from 10 s to 168 h, such as "20 min"')
    return seconds


def _checks(table: dict[str, Any], where: str) -> Checks:
    _refuse_unknown(table, _keys(Checks), where)
    flag = table.get("flag", {})
    if not isinstance(flag, dict):
        raise InputError(f"{where}: flag = {_short(flag)}, expected {_FORMS['flag']}")
    _refuse_unknown(flag, ("failed", "seconds"), f"{where}: flag")
    hints = get_type_hints(Checks)
    flags = {
        f"flag_{name}": _value(f"flag.{name}", value, hints[f"flag_{name}"], where) for name, value in flag.items()
    }
    return _built(Checks, {**{name: value for name, value in table.items() if name != "flag"}, **flags}, where)


def _with_keys(options: tuple[LabelOption, ...]) -> tuple[LabelOption, ...]:
    return tuple(replace(option, key=option.key or str(number)) for number, option in enumerate(options, 1))


def _check(plan: Plan, table: Mapping[str, Any], where: str) -> None:
    """Refuse keys that contradict each other."""
    for name, kinds in KINDS_OF_KEY.items():
        if table.get(name) and plan.kind not in kinds:
            raise InputError(f"{where}: {name} is for kind {' or '.join(kinds)}, and kind is {plan.kind}")
    if not plan.title.isprintable():
        raise InputError(f"{where}: title = {_short(plan.title)}, expected {_FORMS['title']}")
    if plan.captions and plan.tasks:
        raise InputError(f"{where}: both captions and tasks, expected one of them")
    if not plan.captions and not plan.tasks and not (plan.kind == "labels" and plan.images):
        needed = {"yesno": "tasks", "labels": "tasks, captions or images"}.get(plan.kind, "captions or tasks")
        raise InputError(f"{where}: nothing to ask about, expected {needed}")
    ids = plan.ids if isinstance(plan.ids, str) else None
    files = [*(("captions", one) for one in plan.captions), ("references", plan.references), ("images", plan.images)]
    others = (("tasks", plan.tasks), ("ids", ids), ("gold", plan.checks.gold), ("keys", plan.source.keys))
    for name, file in (*files, *others):
        if file is not None and (not file or "\0" in file):
            raise InputError(f"{where}: {name} has the file {_short(file)}, expected {_FORMS[name]}")
    if plan.kind == "ratings":
        _check_aspects(plan, where)
    if plan.kind == "labels":
        _check_options(plan, where)
    _check_source(plan.source, f"{where}: [source]")


def _check_aspects(plan: Plan, where: str) -> None:
    if not plan.aspects:
        raise InputError(f"{where}: no aspects, expected {_FORMS['aspects']}")
    names = [aspect.name for aspect in plan.aspects]
    for number, aspect in enumerate(plan.aspects, 1):
        place = f"{where}: [[aspects]] {number}"
        _check_name(aspect.name, f"{place}: name")
        if aspect.name in names[: number - 1]:
            raise InputError(f"{place}: name = {aspect.name!r} is there already, expected another")
        if len(aspect.scale) < 2 or list(aspect.scale) != sorted({*aspect.scale}):
            raise InputError(f"{place}: scale = {_short(aspect.scale)}, expected {_FORMS['scale']}, in rising order")
        if aspect.scale[-1] - aspect.scale[0] > MOST_POINTS or len(aspect.points) > MOST_POINTS:
            raise InputError(f"{place}: scale = {_short(aspect.scale)}, expected at most {MOST_POINTS} points")
        if len(aspect.ends) not in (0, 2):
            raise InputError(f"{place}: ends = {_short(aspect.ends)}, expected {_FORMS['ends']}")
    try:
        plan.formula  # noqa: B018  # reads the formula
    except InputError as error:
        raise InputError(f"{where}: overall = {error}") from None


MOST_POINTS = 101
"""Of a scale."""


def _check_name(name: str, where: str) -> None:
    if not name.isidentifier() or iskeyword(name):
        raise InputError(f"{where} = {_short(name)}, expected a word of letters, digits and _, such as fluency")
    if name in EXPORTED:
        raise InputError(f"{where} = {name!r}, which is a column of the export already; expected another word")


def _check_options(plan: Plan, where: str) -> None:
    _check_name(plan.label, f"{where}: label")
    if len(plan.options) < 2:
        raise InputError(f"{where}: {len(plan.options)} options, expected at least two, each {_FORMS['options'][2:]}")
    for number, option in enumerate(plan.options, 1):
        place, earlier = f"{where}: [[options]] {number}", plan.options[: number - 1]
        if option.name in [one.name for one in earlier] or option.name == CANNOT:
            raise InputError(f"{place}: name = {option.name!r} is taken, expected another")
        if len(option.key) != 1 or not option.key.isprintable() or option.key.isspace():
            raise InputError(f"{place}: key = {_short(option.key)}, expected one character")
        if option.key in RESERVED_KEYS:
            raise InputError(f"{place}: key = {option.key!r} goes back or shows the help, expected another")
        if option.key in [one.key for one in earlier]:
            raise InputError(f"{place}: key = {option.key!r} chooses another label already, expected another")
    if plan.merge == "relic" and "none" not in [option.name for option in plan.options]:
        raise InputError(f"{where}: merge = 'relic', which needs a label none; expected one in [[options]]")


CANNOT = "cannot"
"""Value of a form field for "cannot judge"."""
_CODE = re.compile(r"[A-Za-z0-9_-]{1,64}")


def _check_source(source: Source, where: str) -> None:
    for name in ("done", "full"):
        code = getattr(source, name)
        if code is not None and not _CODE.fullmatch(code):
            raise InputError(f"{where}: {name} = {_short(code)}, expected a code of letters, digits, - and _")
    if source.name == "prolific" and source.done is None:
        raise InputError(f"{where}: name = 'prolific' without done, expected the completion code of the study there")
    if source.keys is not None and source.name != "prolific":
        raise InputError(
            f"{where}: keys is for name = 'prolific', and name is {source.name!r}: nobody else signs entries"
        )
