"""Simulated raters who fill in a study through its pages as browsers do: to try a study before people see it."""

from __future__ import annotations

import asyncio
import http.client
import re
import threading
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any, Literal, NamedTuple
from urllib.parse import urlencode, urlsplit

import numpy as np

from captious._random import keys_of
from captious.errors import InputError, nearest, require
from captious.metrics.registry import parse
from captious.options import choices_of
from captious.render import Column, Document, Result, Table
from captious.render.document import Value
from captious.studio.access import App, Limit, Rules, new_token, token_hash
from captious.studio.events import Page
from captious.studio.kinds import kind_of
from captious.studio.kinds.kind import Answer
from captious.studio.log import Log
from captious.studio.plan import Plan
from captious.studio.running import captions_of
from captious.studio.standing import SIMULATED, Standing, study_standing
from captious.studio.tasks import Choice, Task
from captious.study.ratings import Preferences, as_ratings

BotName = Literal["careful", "noisy", "random", "lazy", "leaving"]
SHARES: Mapping[str, float] = {"careful": 0.6, "noisy": 0.15, "random": 0.1, "lazy": 0.1, "leaving": 0.05}
"""The crowd that is simulated unless another is asked for."""
REQUESTS, PATIENCE = 100, 0.1
"""Redirects and further attempts of a bot before it gives up, and seconds before an attempt."""


COMMENTS = (
    "The image is hard to see on my screen.",
    "Two of the captions say the same.",
    "One caption is right but says too little.",
    "I would have liked a half point here.",
)
REMARKS = 0.02
"""Share of the pages of careful bots with a comment."""


class Bot(NamedTuple):
    """How a kind of rater answers."""

    noise: float
    """Standard deviation of a judgment, where quality goes from 0 to 1; also the share of wrong yes/no answers."""
    seconds: float
    """Median time a task."""
    slips: float = 0.02
    """Share of gold tasks that are answered like any other."""


BOTS: Mapping[BotName, Bot] = {
    "careful": Bot(0.1, 14.0),
    "noisy": Bot(0.3, 9.0, 0.2),
    "random": Bot(0.0, 7.0),
    "lazy": Bot(0.0, 1.3),
    "leaving": Bot(0.1, 14.0),
}


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
    seed: int = 12345,
    url: str | None = None,
    ratings: Any = None,
    progress: Callable[[str], None] | None = None,
) -> Simulation:
    """Let simulated raters answer a study that has no answer of a person.

    Parameters
    ----------
    plan, log
        The study, whose log has begun.
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
    refuse_real(log)
    names = _crowd(raters, share or SHARES)
    step = progress or (lambda name: None)
    step("quality")
    tasks = log.tasks()
    judge = Judge(plan, qualities(plan, tasks, ratings), seed)
    server = InProcess(app_of(plan, log)) if url is None else None
    send = _over_http(url or "") if server is None else server.send
    tokens = [new_token() for _ in names]
    people = log.add_raters([token_hash(token) for token in tokens])
    visits = []
    for person, token, name in zip(people, tokens, names, strict=True):
        log.record(person.id, "joined", f"simulated-{person.id}", body={SIMULATED: name})
        visits.append(Visit(person.id, name, Browser(send), token, log, judge, seed))
    step("answers")
    _run(visits, seed)
    if server is not None:
        server.close()
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


def qualities(plan: Plan, tasks: Mapping[str, Task], ratings: Any = None) -> dict[str, float]:
    """How good every caption is, from 0 for the worst to 1 for the best, by task and choice."""
    captions = {f"{task.id}/{choice.id}": (task, choice) for task in tasks.values() for choice in task.choices}
    if not captions:
        return {}
    if ratings is not None:
        values = _known(ratings, captions)
    elif any(task.references for task in tasks.values()):
        cider = parse("cider").measure(captions_of(plan, tasks)).items
        values = {caption: cider.get(caption, float("nan")) for caption in captions}
    else:
        values = {caption: float(len(choice.text.split())) for caption, (_, choice) in captions.items()}
    ids = sorted(captions)
    numbers = np.nan_to_num(np.array([values[caption] for caption in ids]), nan=0.0)
    _, level, counts = np.unique(numbers, return_inverse=True, return_counts=True)
    below = np.cumsum(counts) - counts
    rank = below[level] + (counts[level] - 1) / 2
    return dict(zip(ids, (rank / max(len(ids) - 1, 1)).tolist(), strict=True))


def _known(ratings: Any, captions: Mapping[str, tuple[Task, Choice]]) -> dict[str, float]:
    """The mean rating of every caption, found by item and system, or else by its text."""
    people = as_ratings(ratings)
    if isinstance(people, Preferences):
        raise InputError(f"{people.name}: holds pairs, expected ratings of captions")
    by_id = dict(zip(people.ids, people.mean.tolist(), strict=True))
    texts = {} if people.captions is None else {one: people.captions[one].candidate for one in people.ids}
    by_text = {text: by_id[one] for one, text in texts.items()}
    values = {
        caption: by_id.get(f"{task.item}/{choice.system}", by_text.get(" ".join(choice.text.split())))
        for caption, (task, choice) in captions.items()
        if task.gold is None
    }
    lacking = [caption for caption, value in values.items() if value is None]
    if lacking:
        task, choice = captions[lacking[0]]
        some = f"{task.item}/{choice.system}"
        raise InputError(f"{people.name}: no rating of {len(lacking)} captions of the study, such as {some!r}")
    return {caption: float("nan") if (value := values.get(caption)) is None else value for caption in captions}


@dataclass
class Judge:
    """What bots answer, by kind of task."""

    plan: Plan
    quality: Mapping[str, float]
    seed: int

    def answer(self, name: BotName, page: Page, rng: np.random.Generator) -> Answer:
        """The answer of a kind of bot to a page."""
        if name == "random":
            return self.random(page.task, rng)
        if name == "lazy":
            return self.lazy(page)
        bot = BOTS[name]
        answer = self.perceived(page.task, bot.noise, rng)
        if page.task.gold is not None and rng.random() >= bot.slips:
            return self._passing(page.task, answer, rng)
        return answer

    def _passing(self, task: Task, answer: Answer, rng: np.random.Generator) -> Answer:
        """What somebody who looks would answer to a check."""
        kind = kind_of(self.plan)
        for _ in range(2000):
            if kind.passes(self.plan, task, answer):
                break
            answer = self.random(task, rng)
        return answer

    def perceived(self, task: Task, noise: float, rng: np.random.Generator) -> Answer:
        """What somebody answers who sees the quality with some noise."""
        plan = self.plan
        if plan.kind == "yesno":
            truth = {thing: self._share(f"{task.id}/{thing}") < 0.75 for thing in task.things}
            return {"seen": {thing: seen != (rng.random() < noise) for thing, seen in truth.items()}}
        if plan.kind == "labels":
            names = [option.name for option in plan.options]
            right = names[int(self._share(task.id) * len(names))]
            return {"label": right if rng.random() >= noise else names[int(rng.integers(len(names)))]}
        seen = {choice.id: self.quality[f"{task.id}/{choice.id}"] + noise * rng.normal() for choice in task.choices}
        if plan.kind == "pairs":
            return {"preferred": max(seen, key=lambda choice: seen[choice]), "both_bad": False}
        if plan.kind == "ranking":
            return {"ranks": {choice: rank for rank, choice in enumerate(sorted(seen, key=lambda one: seen[one]), 1)}}
        return {
            "ratings": {
                choice: {
                    aspect.name: _point(aspect.points, value + noise * rng.normal() / 2) for aspect in plan.aspects
                }
                for choice, value in seen.items()
            }
        }

    def random(self, task: Task, rng: np.random.Generator) -> Answer:
        """An answer that has nothing to do with the task."""
        plan = self.plan
        if plan.kind == "yesno":
            return {"seen": {thing: bool(rng.random() < 0.5) for thing in task.things}}
        if plan.kind == "labels":
            return {"label": plan.options[int(rng.integers(len(plan.options)))].name}
        ids = [choice.id for choice in task.choices]
        if plan.kind == "pairs":
            return {"preferred": ids[int(rng.integers(len(ids)))], "both_bad": False}
        if plan.kind == "ranking":
            return {"ranks": {ids[index]: rank for rank, index in enumerate(rng.permutation(len(ids)).tolist(), 1)}}
        return {
            "ratings": {
                choice: {aspect.name: _point(aspect.points, rng.random()) for aspect in plan.aspects} for choice in ids
            }
        }

    def lazy(self, page: Page) -> Answer:
        """The same click everywhere."""
        plan, task = self.plan, page.task
        if plan.kind == "yesno":
            return {"seen": dict.fromkeys(task.things, True)}
        if plan.kind == "labels":
            return {"label": plan.options[0].name}
        if plan.kind == "pairs":
            return {"preferred": page.order[0], "both_bad": False}
        if plan.kind == "ranking":
            return {"ranks": {choice: rank for rank, choice in enumerate(page.order, 1)}}
        return {
            "ratings": {
                choice.id: {aspect.name: _point(aspect.points, 0.7) for aspect in plan.aspects}
                for choice in task.choices
            }
        }

    def _share(self, name: str) -> float:
        """A number from 0 to 1 that belongs to a name: what is true of a picture, the same for all who look."""
        return float(np.random.default_rng(int(keys_of([name], self.seed)[0])).random())


def _point(points: Sequence[float], share: float) -> float:
    """The point of a scale nearest to a share of its way."""
    return points[min(max(round(share * (len(points) - 1)), 0), len(points) - 1)]


class Reply(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    cookies: tuple[str, ...]
    """The Set-Cookie headers."""
    body: bytes


Send = Callable[[str, str, Mapping[str, str], bytes], Reply]
"""Method, path with query, headers and body to a reply."""


class InProcess:
    """Requests to an app in this process, without a socket. A thread of its own runs the event loop of the app."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._closed = self._loop.create_future()
        threading.Thread(target=self._loop.run_until_complete, args=(self._closed,), daemon=True).start()

    def close(self) -> None:
        """End the thread."""
        self._loop.call_soon_threadsafe(self._closed.set_result, None)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """One request and its reply."""
        return asyncio.run_coroutine_threadsafe(self._call(method, target, headers, body), self._loop).result()

    async def _call(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        address = urlsplit(target)
        sent = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": address.path,
            "raw_path": address.path.encode(),
            "query_string": address.query.encode(),
            "root_path": "",
            "headers": sent,
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        messages: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Any) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        pairs = [(name.decode().lower(), value.decode()) for name, value in messages[0].get("headers", ())]
        content = b"".join(message.get("body", b"") for message in messages[1:])
        return Reply(messages[0]["status"], dict(pairs), _cookies(pairs), content)


def _over_http(url: str) -> Send:
    """Requests to a server."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise InputError(f"url={url}: expected the address of a server, such as http://127.0.0.1:8000")
    connect = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = connect(address.hostname, address.port, timeout=30)

    def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        try:
            connection.request(method, target, body or None, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"{url}: no server answers there ({error})") from None
        pairs = [(name.lower(), value) for name, value in answer.getheaders()]
        return Reply(answer.status, dict(pairs), _cookies(pairs), content)

    return send


def _cookies(pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(value for name, value in pairs if name == "set-cookie")


class Form:
    """The first form of a page that is sent: its address, its hidden fields, and the values that each field takes."""

    def __init__(self, page: str) -> None:
        form = _FORM.search(page)
        self.action = _attributes(form[1]).get("action", "") if form else ""
        self.hidden: dict[str, str] = {}
        self.values: dict[str, set[str]] = {}
        for match in _FIELD.finditer(form[2] if form else ""):
            attributes = _attributes(match[1])
            name, value = attributes.get("name", ""), attributes.get("value", "")
            self.values.setdefault(name, set()).add(value)
            if attributes.get("type") == "hidden":
                self.hidden[name] = value


_FORM = re.compile(r'<form\b([^>]*\bmethod="post"[^>]*)>(.*?)</form>', re.DOTALL)
_FIELD = re.compile(r"<(?:input|button)\b([^>]*)>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}


@dataclass
class Browser:
    """Cookies and redirects, as far as the pages of raters need them."""

    send: Send
    path: str = ""
    page: str = ""
    requests: int = 0
    _jar: dict[str, str] = field(default_factory=dict)

    def open(self, target: str, form: Mapping[str, str] | None = None) -> None:
        """Ask for a page, or send a form, and follow where it leads."""
        for _ in range(REQUESTS):
            reply = self._request(target, form)
            if reply.status == 429:  # faster than the server takes from one person
                time.sleep(PATIENCE)
            elif reply.status in (302, 303, 307):
                target, form = reply.headers["location"], None
            else:
                break
        self.path, self.page = urlsplit(target).path, reply.body.decode("utf-8", "replace")
        if reply.status >= 400:
            title = " ".join(self.page.partition("<title>")[2].partition("</title>")[0].split())
            raise InputError(f"the page {self.path} answered a simulated rater with {reply.status} {title}")

    def _request(self, target: str, form: Mapping[str, str] | None) -> Reply:
        self.requests += 1
        headers = {"accept": "text/html"}
        if self._jar:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self._jar.items())
        body = b""
        if form is not None:
            body = urlencode(form).encode()
            headers |= {"content-type": "application/x-www-form-urlencoded", "content-length": str(len(body))}
            headers |= {"sec-fetch-site": "same-origin"}
        reply = self.send("GET" if form is None else "POST", target, headers, body)
        for cookie in reply.cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            self._jar[name.strip()] = value.strip()
        return reply


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
