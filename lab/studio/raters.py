"""Simulated raters over HTTP: they open their link, load the image, rate and save, sometimes twice."""

from __future__ import annotations

import asyncio
import random
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from lab.studio.browser import Broken, Browser, Response, TaskPage, local

# A form that was saved leads to the next page.
SAVED = 303


@dataclass
class Tally:
    """What raters saw: seconds by kind of request, errors, and every answer that the server confirmed."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    errors: list[str] = field(default_factory=list)
    confirmed: dict[str, dict[str, str]] = field(default_factory=dict)
    """Forms by key."""
    repeats: int = 0
    """Answers that were sent a second time."""
    outages: int = 0
    """Requests that failed while a server or its database was down, and were sent again."""

    def percentiles(self, name: str) -> tuple[float, float, float]:
        """Median, 95th and 99th percentile in milliseconds."""
        ordered = sorted(self.seconds[name]) or [float("nan")]
        half, most, nearly_all = (1000 * ordered[int(share * (len(ordered) - 1))] for share in (0.5, 0.95, 0.99))
        return half, most, nearly_all


@dataclass
class Rater:
    """One person. ``patient`` ones send again what failed, as the page's outbox does; others count it as an error."""

    link: str
    address: Callable[[], str]
    """Where to send the next request: another server where the first was killed."""
    tally: Tally
    rng: random.Random
    patient: bool = False
    browser: Browser = field(init=False)
    finished: bool = False

    def __post_init__(self) -> None:
        self.browser = Browser(self.address())

    async def open(self) -> TaskPage | None:
        """Follow the personal link to the first task, and load the page's files once."""
        page = await self.page("open", self.link)
        for path in page.files if page else ():
            await self.ask("file", partial(self.browser.get, local(path)))
        return page

    async def page(self, name: str = "next", path: str = "/task") -> TaskPage | None:
        """The page of the next task and its image; None if there is nothing left to do."""
        response = await self.ask(name, partial(self.browser.follow, path))
        if response is None:
            return None
        page = TaskPage.read(response.text)
        if response.status != 200 or not page.key:
            self.finished = True
            return None
        for image in page.images:
            await self.ask("image", partial(self.browser.get, local(image)))
        return page

    async def save(self, page: TaskPage, repeated: bool = False) -> bool:
        """Send an answer, or send it twice; whether it was confirmed."""
        form = page.answered(self.rng)
        send = partial(self.browser.post, "/task", form)
        response = await self.ask("answer", send)
        if response is None:
            return False
        if response.status != SAVED:
            self.tally.errors.append(f"answer: {response.status} {response.text[:200]}")
            return False
        self.tally.confirmed[page.key] = form
        if repeated:
            self.tally.repeats += 1
            await self.ask("answer", send)
        return True

    async def work(self, enough: Callable[[], bool], pause: float, repeated: float = 0.1) -> None:
        """Rate task after task until it is enough; a share of the answers is sent twice."""
        page = await self.open()
        while page and not enough():
            await asyncio.sleep(pause * self.rng.uniform(0.6, 1.4))
            if not await self.save(page, self.rng.random() < repeated) and not self.patient:
                break
            page = await self.page()
        await self.browser.close()

    async def ask(self, name: str, request: Callable[[], Awaitable[Response]]) -> Response | None:
        """One request, timed. Patient raters repeat it for a minute; None if it failed for good."""
        for _ in range(600 if self.patient else 1):
            self.browser.address = self.address()
            try:
                response = await request()
            except Broken as error:
                problem = str(error)
            else:
                if response.status < 500 and response.status != 429:
                    self.tally.seconds[name].append(response.seconds)
                    return response
                problem = f"{name}: {response.status}"
            if not self.patient:
                break
            self.tally.outages += 1
            await self.browser.close()
            await asyncio.sleep(0.1)
        self.tally.errors.append(problem)
        return None


def after(seconds: float) -> Callable[[], bool]:
    """Whether so many seconds have passed since now."""
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() > end


@dataclass(frozen=True)
class Audit:
    """The log of a study against what raters were told."""

    answers: int
    """Answers in the log."""
    missing: int
    """Confirmed answers that are not there."""
    changed: int
    """Confirmed answers whose values are not those that were sent."""
    over: int
    """Tasks with more answers in time than their target."""
    twice: int
    """Tasks that one rater answered in two pages."""

    @property
    def faults(self) -> int:
        """All of them."""
        return self.missing + self.changed + self.over + self.twice


def audit(database: str, tallies: Iterable[Tally], overlap: int) -> Audit:
    """Read the whole log and compare it with the forms that were confirmed."""
    from captious.studio.collect.log import StudyLog

    log = StudyLog.open(database)
    # The server puts the rater before the key of a form: r7.4f0c…
    events = {event.key.partition(".")[2]: event for event in log.events() if event.kind == "answered"}
    log.close()
    confirmed = {key: form for tally in tallies for key, form in tally.confirmed.items()}
    stored = {key: events[key] for key in confirmed if key in events}
    work = [event for event in events.values() if event.body.get("purpose", "work") == "work"]
    raters = Counter(event.task for event in work if not event.body.get("late"))
    pairs = Counter((event.rater, event.task) for event in work)
    return Audit(
        answers=len(events),
        missing=len(confirmed) - len(stored),
        changed=sum(ratings(confirmed[key]) != stored_ratings(event.body) for key, event in stored.items()),
        over=sum(count > overlap for count in raters.values()),
        twice=sum(count > 1 for count in pairs.values()),
    )


def ratings(form: dict[str, str]) -> list[int]:
    """The numbers of a form, smallest first."""
    return sorted(int(value) for name, value in form.items() if name.startswith("rating:"))


def stored_ratings(body: Mapping[str, Any]) -> list[int]:
    """The numbers of an answer of the log, smallest first."""
    return sorted(value for aspects in body["answer"]["ratings"].values() for value in aspects.values())
