"""Result of ``captious studio check``: errors and warnings, effort, and detectable difference of a study."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import numpy as np

from captious.errors import InputError
from captious.io.check import Finding, Findings, fold_complaints, format_count
from captious.io.formats import describe_repeated_files
from captious.io.images import UnreadableImage, open_image
from captious.options import Resampling, get_runtime
from captious.render import Column, Document, Result, Section, Table, Text
from captious.render.answers import join_names
from captious.render.document import Value
from captious.studio.access import find_sound_file, find_video_file
from captious.studio.collect._events import count_gold_due, count_pages, count_work
from captious.studio.collect._signed import read_keys
from captious.studio.collect._subjects import normalize_words
from captious.studio.collect._texts import check_texts, render_page_text
from captious.studio.collect.rating_tasks import Task, build_tasks, count_gold
from captious.studio.collect.study_plan import Plan
from captious.study.metric_agreement.power import simulate_power

# Reading speed.
WORDS_A_SECOND = 4.0
# Minutes per rater above which ratings suffer from fatigue.
TIRED = 60.0
# Bytes of an image or a sound, and of a video, that is slow on a phone.
LARGE = 5_000_000
LARGE_VIDEO = 50_000_000
# Captions of the simulated study; the result is scaled by 1 / √captions for a larger one.
SIMULATED = 1000
SAMPLES = 200
# Phrases that reveal that a language model wrote the text.
_MACHINE = re.compile(
    r"\bas an ai\b|\blanguage model\b|\bi(?:'m| am) (?:unable|sorry)\b|\bi cannot (?:see|view)\b|"
    r"\b(?:chatgpt|gpt-?4|llava|blip-?2|claude|gemini)\b",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Effort:
    """Effort of a study, if every rater works at the expected pace and answers everything."""

    tasks: int
    """Tasks without the gold ones."""
    gold: int
    answers: int
    """Tasks times overlap."""
    raters: int
    pages: int
    """Pages of one rater: tasks, gold tasks and repeated ones."""
    minutes: float
    """Minutes of one rater."""
    hours: float
    """Hours of all raters together."""
    cost: float | None
    """Cost of all hours at the pay of the plan."""


@dataclass(frozen=True, repr=False)
class PlanCheck(Result):
    """Findings about a study, its effort and its power."""

    plan: Plan
    findings: Findings
    items: int
    systems: tuple[str, ...]
    captions: int
    effort: Effort
    detectable: float | None
    """The difference in tau-b between two metrics that would be found four times in five; None if none applies."""
    page: tuple[str, ...] = ()
    """The text of the page of the first task, line by line."""

    def __repr__(self) -> str:
        return f"<PlanCheck {self.plan.path}: {self.effort.tasks} tasks, {len(self.errors)} errors>"

    @property
    def errors(self) -> tuple[Finding, ...]:
        """The findings that must be corrected before the study begins."""
        return self.findings.errors

    def _describe_power(self) -> str:
        """Describe the size of the study, and the difference that it could detect, in a sentence."""
        parts = [_format_number(self.items, "item")]
        if self.captions:
            parts.append(_format_number(self.captions, "caption"))
        if self.systems:
            parts.append(_format_number(len(self.systems), "system"))
        about = ", ".join(parts)
        if self.detectable is None:
            return about
        return (
            f"{about}: a difference of {self.detectable:.3f} in tau-b between two metrics is found four times in five"
        )

    def document(self) -> Document:
        """Return the document of the findings, the effort and the detectable difference."""
        sections: list[Section] = [self.findings.text()]
        if self.effort.tasks:
            sections += [
                _make_effort_table(self.effort),
                Text([self._describe_power()]),
                build_form_table(self.plan, self.effort),
                Text(self.page, "What raters read"),
            ]
        notes = [
            f"a rater has {self.effort.pages} pages, checks and repeated tasks among them, {self.plan.seconds:g} s each"
        ]
        if self.detectable is not None:
            notes.append("the difference in tau is simulated; captious study power prints what is assumed")
        effort = {name: getattr(self.effort, name) for name in Effort.__dataclass_fields__}
        data = {
            "study": str(self.plan.path),
            "title": self.plan.title,
            "kind": self.plan.kind,
            "digest": self.plan.digest,
            "findings": self.findings.data(),
            "items": self.items,
            "systems": list(self.systems),
            "captions": self.captions,
            **effort,
            "detectable": self.detectable,
            "form": list_form(self.plan, self.effort),
            "page": list(self.page),
        }
        return Document(self.plan.title, f"{self.plan.path}: kind {self.plan.kind}", sections, notes=notes, data=data)


def check_plan(plan: Plan) -> PlanCheck:
    """Check a study: return all errors and warnings, the effort, and the detectable difference in tau."""
    complaints: list[str] = []
    tasks = build_tasks(plan, complaints.append)
    work = [task for task in tasks if task.gold is None]
    effort = estimate_effort(plan, len(work), count_gold(tasks), sum(task.is_practice for task in tasks))
    findings = [
        *fold_complaints(complaints),
        *_check_images(plan, tasks),
        *_check_players(plan, tasks, "sound"),
        *_check_players(plan, tasks, "video"),
        *_check_repeated_files(plan),
        *_check_duplicates(plan, tasks),
        *find_empty_captions(tasks),
        *_check_system_names(tasks),
        *_check_design(plan, tasks),
        *check_texts(plan, tasks, effort.minutes),
    ]
    choices = [choice for task in work for choice in task.choices]
    captions = len({(task.item, choice.system, choice.text) for task in work for choice in task.choices})
    return PlanCheck(
        plan,
        Findings(findings),
        len({task.item for task in work}),
        tuple(dict.fromkeys(choice.system for choice in choices if choice.system)),
        captions,
        effort,
        _estimate_detectable(plan, captions),
        tuple(render_page_text(plan, tasks)),
    )


def estimate_effort(plan: Plan, tasks: int, gold: int, practice: int = 0) -> Effort:
    """Estimate the effort of a study. A rater sees no task twice, so there are at least ``overlap`` raters."""
    share = count_work(plan, tasks)
    raters = max(plan.overlap, math.ceil(tasks * plan.overlap / share)) if share else 0
    pages = count_pages(plan, tasks, gold)
    minutes = (pages + practice) * plan.seconds / 60
    hours = raters * minutes / 60
    cost = None if plan.pay is None else hours * plan.pay
    return Effort(tasks, gold, tasks * plan.overlap, raters, pages, minutes, hours, cost)


def _make_effort_table(effort: Effort) -> Table:
    cells: list[tuple[Column, Value]] = [
        (Column("tasks"), effort.tasks),
        (Column("gold"), effort.gold),
        (Column("answers"), effort.answers),
        (Column("raters"), effort.raters),
        (Column("pages each"), effort.pages),
        (Column("minutes each", decimals=0), effort.minutes),
        (Column("hours", decimals=1), effort.hours),
    ]
    if effort.cost is not None:
        cells.append((Column("cost", decimals=0), effort.cost))
    return Table("effort", "What it takes", [column for column, _ in cells], [[value for _, value in cells]])


def list_form(plan: Plan, effort: Effort) -> dict[str, str | int | float]:
    """Return what a panel's own form asks for: how many raters, for how long and how much, and who may take part."""
    who, money = plan.participants, plan.participants.currency
    values: dict[str, str | int | float | None] = {
        "title": plan.title,
        "participants": effort.raters,
        "minutes": math.ceil(effort.minutes),
        "pay per hour": _format_money(plan.pay, money),
        "pay per participant": _format_money(None if plan.pay is None else plan.pay * effort.minutes / 60, money),
        "countries": ", ".join(who.countries),
        "languages": ", ".join(who.languages),
        "approval": None if who.approval is None else f"above {who.approval:g} %",
        "earlier submissions": None if who.submissions is None else f"more than {who.submissions:,}",
        "others": "; ".join(who.others),
    }
    if plan.panel is not None:
        values |= {
            "panel": plan.panel.title,
            "add to the address": plan.panel.query and f"?{plan.panel.query}",
            "raters return to": plan.panel.completed,
        }
    return {name: value for name, value in values.items() if value not in (None, "")}


def build_form_table(plan: Plan, effort: Effort) -> Table:
    """Build the table that an owner copies into the form of a panel."""
    form = list_form(plan, effort)
    missing = [name for name in ("countries", "languages", "approval") if name not in form]
    note = f"[participants] of the study file says nothing about {join_names(missing)}" if missing else ""
    rows: list[list[Value]] = [[name, value] for name, value in form.items()]
    return Table("form", "For the form of a panel, and for your paper", ["key", "value"], rows, note)


def _format_money(amount: float | None, currency: str) -> str:
    return "" if amount is None else f"{amount:.2f} {currency}".strip()


def _format_number(count: int, what: str) -> str:
    return f"{count:,} {what}{'' if count == 1 else 's'}"


def _estimate_detectable(plan: Plan, captions: int) -> float | None:
    """Estimate the difference in tau-b between two metrics that a study of ratings would detect."""
    if plan.kind != "ratings" or captions < 10:
        return None
    simulated = min(captions, SIMULATED)
    levels = max(len(aspect.points) for aspect in plan.aspects)
    power = simulate_power(
        0.03, simulated, raters=plan.overlap, levels=levels, resampling=Resampling(samples=SAMPLES, seed=plan.seed)
    )
    return power.detectable * math.sqrt(simulated / captions)


def _check_images(plan: Plan, tasks: Sequence[Task]) -> Iterator[Finding]:
    """Yield findings about images that cannot be shown, are large, or are shared."""
    if plan.images is None:
        return
    folder = plan.file(plan.images)
    items = {task.image: task.item for task in tasks if task.image is not None}
    with ThreadPoolExecutor(get_runtime().workers or None) as pool:
        reasons = list(pool.map(_find_image_error, [folder / image for image in items]))
    broken: dict[str, list[str]] = {}
    for image, reason in zip(items, reasons, strict=True):
        if reason:
            broken.setdefault(reason, []).append(items[image])
    for reason, ids in broken.items():
        yield Finding("error", f"{format_count(ids, 'image')}: {reason}")
    large = [item for image, item in items.items() if (folder / image).stat().st_size > LARGE]
    if large:
        yield Finding("warning", f"{format_count(large, 'image')} over {LARGE // 10**6} MB, slow on a phone")
    pairs = {(task.image, task.item) for task in tasks if task.image is not None and task.gold is None}
    shared = Counter(image for image, _ in pairs)
    several = sorted(item for image, item in pairs if shared[image] > 1)
    if several:
        yield Finding("note", f"{format_count(several, 'item')} that share an image with another")
    if plan.kind == "labels" and plan.captions == () and len(items) < len({task.item for task in tasks}):
        yield Finding("error", "items to label without an image, expected one for each")


def _check_players(plan: Plan, tasks: Sequence[Task], what: Literal["sound", "video"]) -> Iterator[Finding]:
    """Yield findings about sounds or videos that browsers do not play, or that are large."""
    name = plan.audio if what == "sound" else plan.videos
    if name is None:
        return
    folder, find_file = plan.file(name), find_sound_file if what == "sound" else find_video_file
    most = LARGE if what == "sound" else LARGE_VIDEO
    broken: dict[str, list[str]] = {}
    large: list[str] = []
    files = [(task.audio if what == "sound" else task.video, task.item) for task in tasks]
    for file, item in {file: item for file, item in files if file is not None}.items():
        try:
            path, _ = find_file(folder, file)
            large += [item] if path.stat().st_size > most else []
        except InputError as error:
            broken.setdefault(str(error), []).append(item)
    for reason, ids in broken.items():
        yield Finding("error", f"{format_count(ids, what)}: {reason}")
    if large:
        yield Finding("warning", f"{format_count(large, what)} over {most // 10**6} MB, slow on a phone")


def _find_image_error(path: Path) -> str:
    try:
        open_image(path)
    except UnreadableImage as error:
        return str(error).removeprefix(f"{path}: ")
    return ""


def _check_duplicates(plan: Plan, tasks: Sequence[Task]) -> Iterator[Finding]:
    """Yield a finding if pages have the same caption twice."""
    same = [task.item for task in tasks if len({normalize_words(one.text) for one in task.choices}) < len(task.choices)]
    if not same:
        return
    forced = plan.kind in ("ranking", "pairs") and not plan.ties
    number = f"{format_count(same, 'page')} with the same caption twice, but for case and punctuation"
    advice = "write distinct = true to leave them out" + (", or ties = true" if forced else "")
    yield Finding("error" if forced else "warning", f"{number}; {advice}")


def _check_repeated_files(plan: Plan) -> Iterator[Finding]:
    for line in describe_repeated_files(plan.captions, plan.path.parent):
        yield Finding("warning", f"{line}; raters would see the same captions as those of two systems")


def find_empty_captions(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Yield a warning if pages show an empty caption."""
    empty = [task.item for task in tasks if any(not choice.text.strip() for choice in task.choices)]
    if empty:
        yield Finding("warning", f"{format_count(empty, 'page')} with an empty caption; raters see that it is empty")


def _check_system_names(tasks: Sequence[Task]) -> Iterator[Finding]:
    """Yield a warning if captions tell who wrote them, because raters should be blind to it."""
    texts: dict[str, list[tuple[str, str]]] = {}
    for task in tasks:
        for choice in task.choices:
            texts.setdefault(choice.system, []).append((task.item, choice.text))
    named: list[str] = []
    for system, captions in texts.items():
        pattern = re.compile(rf"(?<!\w){re.escape(system)}(?!\w)", re.IGNORECASE) if len(system) > 2 else None
        others = (text for other, rest in texts.items() if other != system for _, text in rest)
        if pattern is not None and any(pattern.search(text) for text in others):
            pattern = None  # the name is an ordinary word, as other systems use it too
        named += [
            item for item, text in captions if (pattern is not None and pattern.search(text)) or _MACHINE.search(text)
        ]
    if named:
        yield Finding(
            "warning", f"{format_count(named, 'caption')} may tell which system wrote it; raters should not know"
        )


def _check_design(plan: Plan, tasks: Sequence[Task]) -> Iterable[Finding]:
    """Yield findings about the numbers of the plan: overlap, pace, gold tasks, codes."""
    work = [task for task in tasks if task.gold is None]
    gold = count_gold(tasks)
    if not work:
        return
    effort = estimate_effort(plan, len(work), gold)
    strata = Counter(str(task.fields.get(plan.stratum)) for task in work) if plan.stratum else Counter()
    if strata:
        groups = ", ".join(f"{name} {number:,}" for name, number in strata.most_common(12))
        yield Finding("note", f"tasks of every {plan.stratum}: {groups}")
    if len(strata) > plan.per_rater:
        yield Finding("warning", f"{len(strata)} groups by {plan.stratum}, and a rater has {plan.per_rater} tasks")
    if plan.overlap == 1:
        yield Finding("warning", "overlap = 1: how far raters agree cannot be computed")
    if plan.kind == "labels" and plan.votes > plan.overlap:
        yield Finding("error", f"votes = {plan.votes} and overlap = {plan.overlap}: no label could be merged")
    if effort.minutes > TIRED:
        yield Finding("warning", f"{effort.minutes:.0f} minutes per rater; lower per_rater, because people tire")
    words = float(np.median([_count_words(plan, task) for task in work]))
    if words / WORDS_A_SECOND > plan.seconds:
        reading = f"{words / WORDS_A_SECOND:.0f} s to read"
        yield Finding(
            "warning", f"the median page has {words:.0f} words, {reading}; seconds = {plan.seconds:g} is short"
        )
    room = count_gold_due(plan, count_work(plan, len(work)))
    if plan.checks.gold is not None and gold < room:
        distance = f"at = {list(plan.checks.at)}" if plan.checks.at else f"every = {plan.checks.every}"
        yield Finding("warning", f"{_format_number(gold, 'gold task')}, and {distance} has room for {room} a rater")
    if plan.checks.at and plan.checks.gold is None:
        yield Finding("warning", "at has distances of gold tasks, and there is no gold")
    if plan.checks.at and plan.checks.at[-1] > count_work(plan, len(work)):
        yield Finding("warning", f"at = {list(plan.checks.at)}, and a rater has {count_work(plan, len(work))} tasks")
    if plan.limit is not None and plan.limit < plan.seconds:
        yield Finding("warning", f"limit = {plan.limit:g} s is shorter than the expected seconds = {plan.seconds:g}")
    screening = [one.name for one in plan.questions if one.screen_out]
    if screening and plan.panel is not None and plan.panel.screened is None:
        yield Finding("warning", f"[panel] has no address screened for those whom {', '.join(screening)} screens out")
    silent = [task.item for task in tasks if task.is_practice and not task.explanation]
    if silent:
        yield Finding("warning", f"{format_count(silent, 'practice task')} without an explanation")
    if plan.checks.gold is not None and gold < plan.checks.flag.failed:
        yield Finding(
            "warning", f"{_format_number(gold, 'gold task')}: nobody can fail flag.failed = {plan.checks.flag.failed}"
        )
    if plan.panel is not None and plan.panel.full is None:
        yield Finding("warning", "[panel] has no address full: those who come too late would go without pay")
    yield from _check_entries(plan)
    unpaired = plan.kind == "ratings" and plan.together > 1 and any(len(task.choices) == 1 for task in work)
    if unpaired:
        yield Finding("note", f"some pages have only one caption, for together = {plan.together}")


def _check_entries(plan: Plan) -> Iterator[Finding]:
    """Yield findings about the ids with which a panel sends raters."""
    panel = plan.panel
    if panel is None:
        return
    if panel.keys is not None:
        try:
            read_keys(plan.file(panel.keys))
        except InputError as error:
            yield Finding("error", str(error))
    elif panel.name == "prolific":
        yield Finding("note", "[panel] has no keys: anyone who knows the address may enter under any Prolific id")
    else:
        yield Finding("note", f"ids of {panel.title} are not verified: compare those of the payments with its own list")


def _count_words(plan: Plan, task: Task) -> int:
    references = task.references if plan.show_references else ()
    return sum(len(text.split()) for text in (task.heading, *references, *(one.text for one in task.choices)))
