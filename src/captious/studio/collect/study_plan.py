"""Plan of a study: questions, overlap, checks and source of raters; the contents of ``study.toml``."""

from __future__ import annotations

import math
import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from keyword import iskeyword
from pathlib import Path
from typing import Any, Literal

from captious._core.files import digest, expand_home
from captious._core.records import describe_expected, format_value, parse_record, parse_toml, read_text, rule
from captious.errors import InputError
from captious.io.columns import (
    CANDIDATE_COLUMNS,
    GROUP_COLUMNS,
    ITEM_COLUMNS,
    PAIR_SYSTEM_COLUMNS,
    RATER_COLUMNS,
    RATING_COLUMNS,
    REFERENCE_COLUMNS,
    SYSTEM_COLUMNS,
)
from captious.options import SEED
from captious.runs.filters import Formula, parse_formula
from captious.studio.collect._panels import PRESETS, Outcome, RaterPanel, check_code, check_panel, fill_in_preset
from captious.studio.collect._wording import Wording, check_language, check_words, read_words

KindName = Literal["ratings", "ranking", "pairs", "yesno", "labels"]
SourceName = Literal["links", "open"]
Merge = Literal["majority", "unanimous", "relic"]
# Level of measurement of a scale: differences between its points are only an order, or also a distance.
Measurement = Literal["ordinal", "interval"]
# Value of the key `overall` for the mean of all aspects.
MEAN = "mean"


@dataclass(frozen=True)
class Aspect:
    """One scale on which every caption of a page is rated."""

    name: str
    question: str
    scale: tuple[float, ...] = field(
        default=(1, 5), metadata=rule("the lowest and the highest point, such as [1, 5], or all points")
    )
    """The lowest and the highest point, in whole steps; or all points, such as -1, -0.5, -0.1, 0."""
    ends: tuple[str, ...] = field(default=(), metadata=rule('words for both ends, such as ["very bad", "very good"]'))
    """Words for the lowest and the highest point."""
    faults: tuple[str, ...] = field(default=(), metadata=rule("a list of texts"))
    """Typical faults, shown to the rater in a foldable list."""

    @property
    def label(self) -> str:
        """The name of the scale on the page: the words of the question before a colon, else the name.

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
    """The character that chooses it; the number of the label where the file does not say it."""
    text: str = ""
    """The text that the rater reads; if it is empty, the name."""


@dataclass(frozen=True)
class SurveyQuestion:
    """A question about the rater, asked once: before the first task or after the last one."""

    name: str
    """The column of the export."""
    question: str
    kind: Literal["choice", "number", "text"] = "choice"
    when: Literal["before", "after"] = "before"
    options: tuple[str, ...] = field(default=(), metadata=rule('a list of texts, such as ["yes", "no"]'))
    """The options of a choice."""
    low: float = 0
    high: float = 1_000_000
    """Least and greatest number that is accepted."""
    optional: bool = False
    screen_out: tuple[str, ...] = field(
        default=(), metadata=rule('a list of options, or of numbers such as ["below 18", "above 80"]')
    )
    """Answers that end the visit before the first task."""

    def screens_out(self, answer: str | float | None) -> bool:
        """Return True if an answer ends the visit.

        >>> age = SurveyQuestion("age", "How old are you?", "number", screen_out=("below 18",))
        >>> age.screens_out(17), age.screens_out(18), age.screens_out(None)
        (True, False, False)
        """
        if isinstance(answer, (int, float)):
            bounds = [(side, float(bound)) for side, bound in (one.split() for one in self.screen_out)]
            return any(answer < bound if side == "below" else answer > bound for side, bound in bounds)
        return answer in self.screen_out


@dataclass(frozen=True)
class Thresholds:
    """Thresholds above or below which a rater is flagged for the owner."""

    failed: int = field(default=2, metadata=rule(low=1, high=100_000))
    """A rater who failed this number of gold tasks is flagged."""
    seconds: float = field(default=3.0, metadata=rule(low=0, high=86_400))
    """A rater whose median time a task is below it is flagged."""


@dataclass(frozen=True)
class Looks:
    """Looks at the result that are planned before the study starts, so that all of them together keep their error."""

    planned: int = field(default=0, metadata=rule(low=0, high=10_000_000))
    """Rated images at the end of the study; 0 if no looks are planned."""
    number: int = field(default=5, metadata=rule(low=1, high=100))
    """Number of looks, at equal steps."""


@dataclass(frozen=True)
class Checks:
    """Gold tasks, repeated tasks, and thresholds of flags. Nothing is ever rejected automatically."""

    gold: str | None = field(default=None, metadata=rule("the name of a file"))
    """File of items with the expected answer or range: of the study, or with captions of their own."""
    every: int = field(default=12, metadata=rule(low=1, high=100_000))
    """One gold task after this number of others."""
    repeat: int = field(default=0, metadata=rule(low=0, high=1000))
    """Tasks of a rater that are shown to the same rater again."""
    flag: Thresholds = field(default_factory=Thresholds, metadata=rule("a table such as { failed = 2, seconds = 3 }"))
    at: tuple[int, ...] = field(default=(), metadata=rule("a list of rising numbers, such as [3, 10, 25]"))
    """Instead of ``every``: a gold task after these numbers of others."""


@dataclass(frozen=True)
class Source:
    """How raters come who are not sent by a panel, and the codes at the end of their visit."""

    name: SourceName = "links"
    done: str | None = None
    """Completion code for those who did their tasks."""
    full: str | None = None
    """Code for those who come when nothing is left to do."""
    excluded: str = ""
    """Plain text for a rater whom the owner has excluded; polite words of the studio where it is empty."""
    screened: str | None = None
    """Code for those whose answers to the questions before the first task screen them out."""


@dataclass(frozen=True)
class Participants:
    """Who may take part, for the form of a panel and for the paper. The studio itself asks nobody for it."""

    countries: tuple[str, ...] = field(default=(), metadata=rule('a list such as ["IE", "NZ"]'))
    """Countries of residence, by code or name."""
    languages: tuple[str, ...] = field(default=(), metadata=rule('a list such as ["English"]'))
    approval: float | None = field(default=None, metadata=rule(low=0, high=100))
    """Share of earlier submissions that were approved, in percent, which raters must exceed."""
    submissions: int | None = field(default=None, metadata=rule(low=0, high=10_000_000))
    """Number of earlier submissions, which raters must exceed."""
    others: tuple[str, ...] = field(default=(), metadata=rule('a list such as ["at least 18 years old"]'))
    """Further conditions, in words."""
    currency: str = ""
    """Currency of the hourly pay, such as USD."""


@dataclass(frozen=True)
class Plan:
    """A study as its TOML file describes it. File names are relative to the folder of the file."""

    path: Path = field(metadata=rule(hidden=True))
    title: str = field(metadata=rule("a line of text"))
    kind: KindName
    captions: tuple[str, ...] = field(
        default=(), metadata=rule('a list of files, such as ["preds/a.jsonl", "preds/b.jsonl"]')
    )
    """Files of captions; a file is a system unless its rows have a column ``system``. ``NAME=FILE`` names it."""
    references: str | None = field(default=None, metadata=rule("the name of a file"))
    images: str | None = field(default=None, metadata=rule("the name of a folder"))
    """Folder of the images."""
    audio: str | None = field(default=None, metadata=rule("the name of a folder"))
    """Folder of the sounds, which the pages play."""
    videos: str | None = field(default=None, metadata=rule("the name of a folder"))
    """Folder of the videos, which the pages play."""
    must_watch: bool = False
    """Whether the answers open only after the video of a task has been played once to its end."""
    tasks: str | None = field(default=None, metadata=rule("the name of a file"))
    """File of ready tasks instead of captions: those of ``captious probe entities``, sets to rank, images to label."""
    ids: str | tuple[str, ...] = field(
        default=(),
        metadata=rule('a list of ids in quotation marks, or the name of a file with one per line, such as "ids.txt"'),
    )
    """Items to ask about, or a file with one id per line; all of them where it is empty."""
    without: tuple[str, ...] = field(default=(), metadata=rule("a list of files with one id per line"))
    """Files of ids that are left out, such as those of the images that a metric was trained on."""
    items: int | None = field(default=None, metadata=rule(low=1, high=10_000_000))
    """Number of items, drawn by the seed; None for all of them."""
    stratum: str = ""
    """The column of the files by which items are grouped; every rater's tasks are spread over the groups."""
    quotas: Mapping[str, int] = field(
        default_factory=dict, metadata=rule("a table of groups and numbers, such as { indoor = 100, outdoor = 50 }")
    )
    """Number of items of each group, drawn by the seed; groups that are not named are left out."""
    missing: Literal["error", "skip"] = "error"
    """Items without a caption, references or an image: an error, or left out."""
    distinct: bool = False
    """Only items whose captions all differ, in more than case and punctuation."""
    show_references: bool = False
    together: int = field(default=1, metadata=rule(low=1, high=20))
    """Captions of one item that are rated on one page."""
    overlap: int = field(default=3, metadata=rule(low=1, high=1000))
    """Answers per task, of as many raters."""
    per_rater: int = field(default=40, metadata=rule(low=1, high=100_000))
    """Tasks of one rater, gold and repeated ones not counted."""
    lease: float = 1200.0
    """Seconds that a task is kept for a rater who opened it."""
    limit: float | None = None
    """Seconds within which raters are asked to answer a task; a slower answer is flagged, but counts."""
    practice: str | None = field(default=None, metadata=rule("the name of a file"))
    """File of tasks with the expected answer and an explanation, which raters do first and which do not count."""
    questions: tuple[SurveyQuestion, ...] = field(
        default=(),
        metadata=rule("a table for each one, that is a line [[questions]] before its name and question"),
    )
    """Questions about the rater."""
    language: str = field(default="en", metadata=rule('a tag such as "de" or "pt-BR"'))
    """The language of the pages. The texts of the study itself are the owner's."""
    words: str | Mapping[str, str] = field(
        default_factory=dict, metadata=rule("the name of a file, or a table, that is a line [words] before its names")
    )
    """The owner's own words of the pages, or their file; a study that has begun keeps the words themselves."""
    instructions: str = ""
    """Markdown: paragraphs, lists, ``**bold**``, ``*italics*``, and images of the folder: ``![alt](name.jpg)``."""
    consent: str = ""
    """Markdown of the page before the first task; no page where it is empty."""
    question: str = ""
    """What is asked of a ranking, a pair, a list or a label; an aspect has its own question."""
    aspects: tuple[Aspect, ...] = field(
        default=(), metadata=rule("a table for each scale, that is a line [[aspects]] before its name and question")
    )
    measurement: Measurement | None = None
    """Level of measurement of ratings and ranks, for agreement; ordinal where it is None."""
    overall: str | None = field(default=None, metadata=rule("'mean' or a formula such as '(P + R) / 2'"))
    """``mean``, or a formula of aspects such as ``(P + R) / 2 + fluency``; no overall rating where it is None."""
    ties: bool = False
    """Whether a ranking may have ties, or a pair may be called equal."""
    both_bad: bool = False
    """Whether a pair has a separate box for "both are bad"."""
    cannot_judge: bool = False
    """Whether a scale, a thing of a list or a label may be left with "cannot judge"."""
    best: Literal["first", "last"] = "first"
    """Which end of a ranking is the best; exports always give the best the highest rank."""
    options: tuple[LabelOption, ...] = field(
        default=(), metadata=rule("a table for each label, that is a line [[options]] before its name and key")
    )
    label: str = "label"
    """The name of the label in exports, such as age."""
    merge: Merge = "majority"
    votes: int = field(default=1, metadata=rule(low=1, high=1000))
    """Least number of votes for a merged label."""
    seconds: float = field(default=20.0, metadata=rule(low=0.1, high=86_400))
    """Expected time a task, for the estimate of minutes and cost."""
    pay: float | None = field(default=None, metadata=rule(low=0, high=1_000_000))
    """Pay an hour, for the estimate of cost."""
    seed: int = field(default=SEED, metadata=rule(low=0, high=2**63 - 1))
    checks: Checks = field(default_factory=Checks, metadata=rule("a table, that is a line [checks] before its keys"))
    looks: Looks = field(default_factory=Looks, metadata=rule("a table, that is a line [looks] before its keys"))
    source: Source = field(default_factory=Source, metadata=rule("a table, that is a line [source] before its keys"))
    panel: RaterPanel | None = field(default=None, metadata=rule("a table, that is a line [panel] before its keys"))
    """The panel that sends raters; None if they have links of the studio."""
    participants: Participants = field(
        default_factory=Participants, metadata=rule("a table, that is a line [participants] before its keys")
    )
    text: str = field(default="", metadata=rule(hidden=True))
    """The TOML itself; the study keeps a frozen copy."""
    digest: str = field(default="", metadata=rule(hidden=True))
    """Digest of the text, recorded with every event: an edited file cannot pass for the one that was shown."""
    origin: str = field(default="", compare=False, metadata=rule(hidden=True))
    """Digest of the text with which the study began; it names the study in addresses, also after an amendment."""

    @property
    def has_personal_links(self) -> bool:
        """Whether every rater has a link of their own."""
        return self.panel is None and self.source.name == "links"

    @property
    def is_open(self) -> bool:
        """Whether anybody with the study's address may take part."""
        return self.panel is None and self.source.name == "open"

    @property
    def entrance(self) -> str:
        """The way in which raters come: links, open, or the name of the panel."""
        return self.source.name if self.panel is None else self.panel.title

    @property
    def excluded_text(self) -> str:
        """The owner's text for excluded raters; empty if there is none."""
        return self.source.excluded if self.panel is None else self.panel.excluded

    def find_end(self, outcome: Outcome, parameters: Mapping[str, str]) -> tuple[str, str]:
        """Return the code that a rater is shown at the end, and the panel's address to return to; either may be empty.

        `parameters` are those with which the panel sent the rater.
        """
        if self.panel is not None:
            return self.panel.find_end(outcome, parameters)
        codes = {"completed": self.source.done, "screened": self.source.screened, "full": self.source.full}
        return codes[outcome] or "", ""

    @property
    def summary(self) -> str:
        """The first paragraph of the instructions, which is always visible."""
        return self.instructions.partition("\n\n")[0]

    @property
    def details(self) -> str:
        """The rest of the instructions, which can be folded."""
        return self.instructions.partition("\n\n")[2].strip()

    @cached_property
    def own_words(self) -> Mapping[str, str]:
        """The owner's own texts of the pages."""
        return read_words(self.file(self.words)) if isinstance(self.words, str) else self.words

    @cached_property
    def wording(self) -> Wording:
        """The texts of the pages, in the language of the study."""
        return Wording.of(self.language, self.own_words)

    def file(self, name: str) -> Path:
        """Return the path of a file of the plan, which is relative to the folder of the plan."""
        return self.path.parent / expand_home(name)

    @cached_property
    def formula(self) -> Formula | None:
        """The formula of the overall rating; None if people give it, or if there is none."""
        names = [aspect.name for aspect in self.aspects]
        if self.overall == MEAN:
            total = " + ".join(f"`{name}`" for name in names)
            return replace(parse_formula(f"({total}) / {len(names)}", names), text=MEAN)
        return parse_formula(self.overall, names) if self.overall else None


def read_plan(path: str | Path) -> Plan:
    """Read the plan of a TOML file. An error is one line with the file, the key, the value and what was expected."""
    path = Path(path)
    return parse_plan(read_text(path, "study", ", expected a file that captious studio new wrote"), path)


def parse_plan(text: str, path: Path) -> Plan:
    """Parse the TOML text of a plan; ``path`` is used for its files and in messages."""
    where = str(path)
    table = parse_toml(text, where, "study")
    given: dict[str, Any] = {"path": path, "text": text, "digest": digest(text.encode())}
    given |= {name: _parse_duration(name, table[name], where) for name in ("lease", "limit") if name in table}
    source = table.get("source")
    if isinstance(source, dict) and source.get("name") in PRESETS:
        raise InputError(f"{where}: [source]: name = {source['name']!r}: describe a panel in a table [panel] instead")
    if "quotas" in table:
        given["quotas"] = _parse_quotas(table["quotas"], where)
    if "words" in table:
        given["words"] = _parse_words(table["words"], where)
    plan = parse_record(Plan, table, where, **given)
    plan = replace(
        plan,
        instructions=plan.instructions.strip(),
        consent=plan.consent.strip(),
        options=tuple(replace(option, key=option.key or str(number)) for number, option in enumerate(plan.options, 1)),
        panel=plan.panel and fill_in_preset(plan.panel),
    )
    _check(plan, table, where)
    return plan


# Keys that only some kinds of task have.
KINDS_OF_KEY: dict[str, tuple[KindName, ...]] = {
    "aspects": ("ratings",),
    "measurement": ("ratings", "ranking"),
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
# Columns of exports, which may not be names of aspects or labels.
EXPORTED = frozenset(
    (
        *("preferred", "category", "both_bad", "rank", "seconds", "over_limit", "late", "comment", MEAN),
        *(*CANDIDATE_COLUMNS, *GROUP_COLUMNS, *ITEM_COLUMNS),
        *(*RATER_COLUMNS, *RATING_COLUMNS, *REFERENCE_COLUMNS, *SYSTEM_COLUMNS, *PAIR_SYSTEM_COLUMNS),
    )
)
# Keyboard keys of the page itself: back, help.
RESERVED_KEYS = "u?"


_LEASE = re.compile(r"(\d+(?:\.\d+)?) *(s|sec|seconds?|min|minutes?|h|hours?)")
_UNITS = {"s": 1, "m": 60, "h": 3600}
# Shortest and longest lease, in seconds.
LEASES = (10.0, 7 * 86_400.0)


def _parse_duration(name: str, value: Any, where: str) -> float:
    match = _LEASE.fullmatch(value.strip()) if isinstance(value, str) else None
    seconds = float(match[1]) * _UNITS[match[2][0]] if match else math.nan
    if not LEASES[0] <= seconds <= LEASES[1]:
        raise InputError(
            f'{where}: {name} = {format_value(value)}, expected a time from 10 s to 168 h, such as "20 min"'
        )
    return seconds


def _parse_quotas(value: Any, where: str) -> Mapping[str, int]:
    if not isinstance(value, dict) or not all(
        isinstance(number, int) and not isinstance(number, bool) and number > 0 for number in value.values()
    ):
        raise InputError(f"{where}: quotas = {format_value(value)}, expected {describe_expected(Plan, 'quotas')}")
    return value


def _parse_words(value: Any, where: str) -> str | Mapping[str, str]:
    if isinstance(value, dict):
        return check_words(value, f"{where}: [words]")
    if not isinstance(value, str) or not value or "\0" in value:
        raise InputError(f"{where}: words = {format_value(value)}, expected {describe_expected(Plan, 'words')}")
    return value


def _check(plan: Plan, table: Mapping[str, Any], where: str) -> None:
    """Raise `InputError` for keys that contradict each other."""
    for name, kinds in KINDS_OF_KEY.items():
        if table.get(name) and plan.kind not in kinds:
            raise InputError(f"{where}: {name} is for kind {' or '.join(kinds)}, and kind is {plan.kind}")
    if not plan.title.isprintable():
        raise InputError(f"{where}: title = {format_value(plan.title)}, expected {describe_expected(Plan, 'title')}")
    if plan.quotas and not plan.stratum:
        raise InputError(f"{where}: quotas without stratum, expected the column that has {', '.join(plan.quotas)}")
    if plan.quotas and plan.items is not None:
        raise InputError(f"{where}: both quotas and items, expected one of them")
    check_language(plan.language, plan.words, where)
    if plan.captions and plan.tasks:
        raise InputError(f"{where}: both captions and tasks, expected one of them")
    if plan.must_watch and plan.videos is None:
        raise InputError(f"{where}: must_watch without videos, expected the folder of the videos to watch")
    if not plan.captions and not plan.tasks and not (plan.kind == "labels" and (plan.images or plan.videos)):
        needed = {"yesno": "tasks", "labels": "tasks, captions, images or videos"}.get(plan.kind, "captions or tasks")
        raise InputError(f"{where}: nothing to ask about, expected {needed}")
    ids = plan.ids if isinstance(plan.ids, str) else None
    files = [*(("captions", one) for one in plan.captions), ("references", plan.references), ("images", plan.images)]
    keys = plan.panel.keys if plan.panel else None
    others = (("tasks", plan.tasks), ("ids", ids), ("gold", plan.checks.gold), ("keys", keys))
    media = (("audio", plan.audio), ("videos", plan.videos))
    for name, file in (*files, *media, *others, ("practice", plan.practice)):
        if file is not None and (not file or "\0" in file):
            form = describe_expected({"gold": Checks, "keys": RaterPanel}.get(name, Plan), name)
            raise InputError(f"{where}: {name} has the file {format_value(file)}, expected {form}")
    if plan.kind == "ratings":
        _check_aspects(plan, where)
    if plan.kind == "labels":
        _check_options(plan, where)
    _check_questions(plan.questions, where)
    at = plan.checks.at
    if list(at) != sorted({*at}) or any(number < 1 for number in at):
        raise InputError(f"{where}: [checks]: at = {format_value(at)}, expected {describe_expected(Checks, 'at')}")
    for name in ("done", "full", "screened"):
        check_code(name, getattr(plan.source, name), f"{where}: [source]")
    if plan.panel is not None:
        if "source" in table:
            raise InputError(f"{where}: both [source] and [panel], expected one of them")
        check_panel(plan.panel, f"{where}: [panel]")


def _check_questions(questions: Sequence[SurveyQuestion], where: str) -> None:
    names: set[str] = set()
    for number, one in enumerate(questions, 1):
        place = f"{where}: [[questions]] {number}"
        _check_name(one.name, f"{place}: name")
        if one.name in names or one.name in ("rater", "screened"):
            raise InputError(f"{place}: name = {one.name!r} is taken, expected another")
        names.add(one.name)
        if one.kind == "choice" and (len(one.options) < 2 or len({*one.options}) < len(one.options)):
            raise InputError(f"{place}: options = {format_value(one.options)}, expected at least two that differ")
        if one.kind != "choice" and one.options:
            raise InputError(f"{place}: options is for kind choice, and kind is {one.kind}")
        if one.low >= one.high:
            raise InputError(f"{place}: low = {one.low:g} and high = {one.high:g}, expected a low that is lower")
        _check_screen_out(one, place)


_BOUND = re.compile(r"(below|above) -?\d+(\.\d+)?")


def _check_screen_out(one: SurveyQuestion, place: str) -> None:
    if one.screen_out and one.when == "after":
        raise InputError(f"{place}: screen_out of a question after the tasks, expected when = 'before'")
    for answer in one.screen_out:
        fine = one.kind == "choice" and answer in one.options
        if not fine and not (one.kind == "number" and _BOUND.fullmatch(answer)):
            form = f"options: {', '.join(one.options)}" if one.options else "such as 'below 18', of a kind number"
            raise InputError(f"{place}: screen_out has {format_value(answer)}, expected {form}")
    if one.screen_out and {*one.screen_out} >= {*one.options} and one.options:
        raise InputError(f"{place}: screen_out has all options, expected some that let raters in")


def _check_aspects(plan: Plan, where: str) -> None:
    if not plan.aspects:
        raise InputError(f"{where}: no aspects, expected {describe_expected(Plan, 'aspects')}")
    names = [aspect.name for aspect in plan.aspects]
    for number, aspect in enumerate(plan.aspects, 1):
        place = f"{where}: [[aspects]] {number}"
        _check_name(aspect.name, f"{place}: name")
        if aspect.name in names[: number - 1]:
            raise InputError(f"{place}: name = {aspect.name!r} already exists, expected another")
        if len(aspect.scale) < 2 or list(aspect.scale) != sorted({*aspect.scale}):
            form = describe_expected(Aspect, "scale")
            raise InputError(f"{place}: scale = {format_value(aspect.scale)}, expected {form}, in rising order")
        if aspect.scale[-1] - aspect.scale[0] > MOST_POINTS or len(aspect.points) > MOST_POINTS:
            raise InputError(f"{place}: scale = {format_value(aspect.scale)}, expected at most {MOST_POINTS} points")
        if len(aspect.ends) not in (0, 2):
            raise InputError(
                f"{place}: ends = {format_value(aspect.ends)}, expected {describe_expected(Aspect, 'ends')}"
            )
    try:
        plan.formula  # noqa: B018  # parses the formula
    except InputError as error:
        raise InputError(f"{where}: overall = {plan.overall!r:.60}: {error}") from None
    rng = random.Random(0)
    drawn = ({aspect.name: rng.choice(aspect.points) for aspect in plan.aspects} for _ in range(100))
    if plan.formula is not None and all(plan.formula.of(ratings) is None for ratings in drawn):
        raise InputError(f"{where}: overall = {plan.overall!r} has no value for any ratings, expected one for most")


# Maximum number of points of a scale.
MOST_POINTS = 101


def _check_name(name: str, where: str) -> None:
    if not name.isidentifier() or iskeyword(name):
        raise InputError(f"{where} = {format_value(name)}, expected a word of letters, digits and _, such as fluency")
    if name in EXPORTED:
        raise InputError(f"{where} = {name!r}, which is a column of the export already; expected another word")


def _check_options(plan: Plan, where: str) -> None:
    _check_name(plan.label, f"{where}: label")
    if len(plan.options) < 2:
        form = describe_expected(Plan, "options")[2:]
        raise InputError(f"{where}: {len(plan.options)} options, expected at least two, each {form}")
    for number, option in enumerate(plan.options, 1):
        place, earlier = f"{where}: [[options]] {number}", plan.options[: number - 1]
        if option.name in [one.name for one in earlier] or option.name == CANNOT:
            raise InputError(f"{place}: name = {option.name!r} is taken, expected another")
        if len(option.key) != 1 or not option.key.isprintable() or option.key.isspace():
            raise InputError(f"{place}: key = {format_value(option.key)}, expected one character")
        if option.key in RESERVED_KEYS:
            raise InputError(f"{place}: key = {option.key!r} goes back or shows the help, expected another")
        if option.key in [one.key for one in earlier]:
            raise InputError(f"{place}: key = {option.key!r} chooses another label already, expected another")
    if plan.merge == "relic" and "none" not in [option.name for option in plan.options]:
        raise InputError(f"{where}: merge = 'relic', which needs a label none; expected one in [[options]]")


# Value of a form field for "cannot judge".
CANNOT = "cannot"
