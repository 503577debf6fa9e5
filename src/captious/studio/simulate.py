"""Simulated raters who fill in a study through its pages as browsers do: to try a study before people see it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from typing import Any

import numpy as np

from captious._random import keys_of
from captious.errors import InputError, nearest, require
from captious.options import SEED, choices_of
from captious.render import Column, Document, Result, Table
from captious.render.document import Value
from captious.studio.access import App, Limit, Rules, new_token, token_hash
from captious.studio.bots import BOTS, COMMENTS, REMARKS, SHARES, BotName, Judge, qualities
from captious.studio.browser import Browser, Form, InProcess, over_http
from captious.studio.kinds import kind_of
from captious.studio.log import Log
from captious.studio.plan import Plan
from captious.studio.standing import SIMULATED, Standing
from captious.studio.tally import study_standing
from captious.studio.tasks import build_tasks


@dataclass(frozen=True, repr=False)
class Simulation(Result):
    """What simulated raters did, and which of them the flags found."""

    bots: Mapping[str, BotName]
    """The kind of every rater."""
    requests: int
    standing: Standing

    def __repr__(self) -> str:
        return f"<Simulation: {len(self.bots)} raters, {self.standing.coverage.answers} answers>"

    def document(self) -> Document:
        """A row per kind of bot, then the standing of the study."""
        standing = self.standing.document()
        sections = [self._table(), *standing.sections]
        data = {"simulated": self._rows(), "requests": self.requests, **standing.data}
        return Document(
            f"{self.standing.title}: simulated",
            standing.about,
            sections,
            standing.warnings,
            standing.notes,
            (),
            data,
            "simulation",
        )

    def _rows(self) -> list[dict[str, Any]]:
        by_id = {rater.id: rater for rater in self.standing.raters}
        rows = []
        for name in BOTS:
            raters = [by_id[rater] for rater, bot in self.bots.items() if bot == name]
            if raters:
                alphas = [rater.agreement.alpha for rater in raters if rater.agreement.tasks]
                rows.append(
                    {
                        "bot": name,
                        "raters": len(raters),
                        "tasks": sum(rater.tasks for rater in raters),
                        "agreement": float(np.mean(alphas)) if alphas else float("nan"),
                        "flagged": sum(bool(rater.flags) for rater in raters),
                        "flags": dict(Counter(flag.name for rater in raters for flag in rater.flags)),
                    }
                )
        return rows

    def _table(self) -> Table:
        columns: list[Column | str] = ["raters who are", Column("number"), Column("tasks")]
        columns += [Column("agreement", decimals=2), Column("flagged"), "flags"]
        rows: list[list[Value]] = [
            [
                *(row["bot"], row["raters"], row["tasks"], row["agreement"], row["flagged"]),
                ", ".join(f"{name} {number}" for name, number in row["flags"].items()),
            ]
            for row in self._rows()
        ]
        note = f"{self.requests:,} requests to the pages of raters; agreement: mean part in alpha"
        return Table("simulated", "Simulated raters, and what the flags found", columns, rows, note)


def simulate_raters(
    plan: Plan,
    log: Log,
    *,
    raters: int = 20,
    share: Mapping[str, float] | None = None,
    seed: int = SEED,
    url: str | None = None,
    ratings: Any = None,
    progress: Callable[[str], None] | None = None,
) -> Simulation:
    """Let simulated raters answer a study that has no answer of a person.

    Parameters
    ----------
    plan, log
        The study; a log that has not begun is begun.
    raters, share
        How many, and the share of each kind: careful, noisy, random, lazy, leaving.
    seed
        Of everything random; without a server the same seed gives the same answers.
    url
        Address of a server of the same study. Without it the pages are asked for in this process.
    ratings
        Known ratings of the captions, in any form that ``captious.correlate`` takes. Careful raters follow them.
        Without them CIDEr stands for quality, and without references the length of a caption.
    progress
        Called with the name of each step as it begins.
    """
    begun = log.begun
    if begun:
        refuse_real(log)
    names = _crowd(raters, share or SHARES)
    step = progress or (lambda name: None)
    step("quality")
    tasks = log.tasks() if begun else {task.id: task for task in build_tasks(plan)}
    judge = Judge(plan, qualities(plan, tasks, ratings), seed)
    remote = None if url is None else over_http(url)
    if not begun:  # now that nothing is wrong with the arguments
        log.begin(plan, list(tasks.values()))
    tokens = [new_token() for _ in names]
    people = log.add_raters([token_hash(token) for token in tokens])
    step("answers")
    with InProcess(app_of(plan, log)) if remote is None else nullcontext(remote) as send:
        visits = []
        for person, token, name in zip(people, tokens, names, strict=True):
            log.record(person.id, "joined", f"simulated-{person.id}", body={SIMULATED: name})
            visits.append(Visit(person.id, name, Browser(send), token, log, judge, seed))
        _run(visits, seed)
    step("standing")
    bots = {visit.rater: visit.name for visit in visits}
    return Simulation(bots, sum(visit.browser.requests for visit in visits), study_standing(log))


def _run(visits: Sequence[Visit], seed: int) -> None:
    """Let everybody go on in random order, until all are done, have left, or wait for tasks that others hold."""
    rng = np.random.default_rng(seed)
    active, waiting = list(visits), []
    while active:
        answers = sum(visit.answers for visit in visits)
        while active:
            visit = active[int(rng.integers(len(active)))]
            if not visit.go_on():
                active.remove(visit)
                waiting += [visit] if visit.waits else []
        if sum(visit.answers for visit in visits) > answers:
            active, waiting = waiting, []


def app_of(plan: Plan, log: Log) -> App:
    """The pages of a study, for bots in this process."""
    require("starlette", "studio")
    from captious.studio.app import build_app

    unlimited = Limit(1_000_000, seconds=1)  # bots are as fast as the server
    return build_app(plan, log, Rules(), "http://localhost", new_token(), unlimited)


def refuse_real(log: Log) -> None:
    """Simulated answers never go into a study that has answers of people."""
    bots: set[str] = set()
    for event in log.events():
        if SIMULATED in event.body:
            bots.add(event.rater)
        elif event.kind == "answered" and event.rater not in bots:
            raise InputError(
                f"{log.name}: rater {event.rater} has answered this study, expected one without answers of people; "
                "simulate it in a copy, with a database of its own"
            )


def _crowd(raters: int, share: Mapping[str, float]) -> list[BotName]:
    """The kind of every rater: whole numbers as near to the shares as can be, well mixed."""
    kinds = choices_of(BotName)
    for name, part in share.items():
        if name not in kinds:
            raise InputError(f"share: {name!r}, expected {', '.join(kinds)}{nearest(name, kinds)}")
        if not 0 <= part < float("inf"):
            raise InputError(f"share: {name}={part:g}, expected a number from 0 to 1")
    total = sum(share.values())
    if raters < 1 or total <= 0:
        raise InputError(f"raters={raters}, share={dict(share)}: expected at least one rater")
    ends = np.cumsum(list(share.values())) / total * raters
    names: list[BotName] = []
    for name, end in zip(share, ends, strict=True):
        names += [name] * (round(float(end)) - len(names))  # type: ignore[list-item]
    return [names[index] for index in np.random.default_rng(0).permutation(len(names))]


def read_share(written: Sequence[str]) -> dict[str, float]:
    """Shares as they are written: ``careful=0.5``.

    >>> read_share(["careful=0.5", "random=0.5"])
    {'careful': 0.5, 'random': 0.5}
    """
    share = {}
    for part in written:
        name, _, number = part.partition("=")
        try:
            share[name.strip()] = float(number)
        except ValueError:
            raise InputError(f"share={part}: expected a kind and its share, such as careful=0.5") from None
    return share


class Visit:
    """One bot on its way through the study."""

    def __init__(
        self, rater: str, name: BotName, browser: Browser, token: str, log: Log, judge: Judge, seed: int
    ) -> None:
        self.rater, self.name, self.browser = rater, name, browser
        self._log, self._judge = log, judge
        self._link = f"/r/{token}"
        self._form: Form | None = None
        self.answers = 0
        self._rng = np.random.default_rng(int(keys_of([f"bot/{rater}"], seed)[0]))
        most = max(2, judge.plan.per_rater)
        self._left = int(self._rng.integers(1, most)) if name == "leaving" else None

    def go_on(self) -> bool:
        """Do the next thing; False where there is none, where the bot leaves, or where it must wait for others."""
        form = self._form
        if form is None or self.waits:
            self._open("/task" if form else self._link)
        elif self.browser.path == "/consent":
            self._open(form.action, {**form.hidden, "agree": "yes"})
        elif self.browser.path != "/task" or self._left == self.answers:
            return False
        else:
            self._open(form.action, self._answer(form))
            self.answers += 1
        return not self.waits

    @property
    def waits(self) -> bool:
        """Whether the page says that others hold what is left."""
        return self.browser.path == "/task" and self._form is not None and not self._form.action

    def _open(self, target: str, fields: Mapping[str, str] | None = None) -> None:
        self.browser.open(target, fields)
        self._form = Form(self.browser.page)

    def _answer(self, form: Form) -> dict[str, str]:
        """The fields of the open page, filled in."""
        page = self._log.next_page(self.rater)
        if page is None:
            raise InputError(f"rater {self.rater} has a page, but no open task")
        plan = self._judge.plan
        answer = self._judge.answer(self.name, page, self._rng)
        fields = kind_of(plan).form(plan, page.task, page.order, answer)
        lacking = [name for name, value in fields.items() if value not in form.values.get(name, ())]
        if lacking:
            raise InputError(f"the page of task {page.task.id!r} has no field {lacking[0]}")
        if self.name == "careful" and self._rng.random() < REMARKS:
            fields["comment"] = str(self._rng.choice(COMMENTS))
        seconds = BOTS[self.name].seconds * float(np.exp(0.4 * self._rng.normal()))
        return {**form.hidden, **fields, "seconds": f"{seconds:.1f}"}
