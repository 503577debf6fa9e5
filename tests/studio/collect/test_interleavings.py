"""Raters, owners and clocks in any order, through two servers: the log stays whole, the study reaches its target."""

import random
import tempfile
from collections import Counter
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")

from tests.studio.logs import LEASE, START, answer, assert_rebuilt, assert_whole, make_plan, make_tasks, work_through

from captious.errors import InputError
from captious.studio.collect.log import StudyLog
from captious.studio.collect.study_plan import Checks, Source

# An example takes a second, so that shrinking would take minutes.
UNSHRUNK = [Phase.explicit, Phase.reuse, Phase.generate]
# A folder in memory, where there is one: these tests write thousands of transactions.
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
RATERS = ["r1", "r2", "r3", "r4"]
ACTIONS = (
    "open",
    "answer",
    "answer",
    "answer",
    "leave",
    "change",
    "skip",
    "return",
    "exclude",
    "reinstate",
    "release",
    "tell",
)
STEP = st.tuples(st.sampled_from(ACTIONS), st.sampled_from(RATERS), st.integers(-600, 900))
PLAN = st.fixed_dictionaries(
    {
        "tasks": st.integers(1, 5),
        "gold": st.integers(0, 2),
        "practice": st.integers(0, 2),
        "stratum": st.sampled_from(["", "scene"]),
        "overlap": st.integers(1, 3),
        "per_rater": st.integers(1, 5),
        "checks": st.builds(Checks, every=st.integers(1, 3), repeat=st.integers(0, 2)),
    }
)


class Play:
    """Raters who act one after the other, each through one of two servers of the same database."""

    def __init__(self, address, folder, tasks, gold, practice=0, **options):
        plan = make_plan(folder, **options)
        self.logs = [StudyLog.open(address), StudyLog.open(address)]
        for log in self.logs:
            log.begin(plan, make_tasks(tasks, gold, practice))
        self.logs[0].add_raters(RATERS)
        self.now = START
        # The page that each rater looks at, which others may have taken meanwhile.
        self.pages = {}
        self.answers = 0

    def log_of(self, rater):
        return self.logs[int(rater[1:]) % 2]

    def step(self, action, rater, seconds):
        """One step; the clock of the servers moves, at times backward."""
        self.now += timedelta(seconds=seconds)
        log, page = self.log_of(rater), self.pages.get(rater)
        if action == "open":
            self.open(log, rater)
        elif action == "answer":
            page = page or self.open(log, rater)
            if page is not None:
                del self.pages[rater]
                self.record(log, rater, page)
        elif action == "leave":
            self.pages.pop(rater, None)
        elif action == "change" and log.history(rater):
            task, purpose = log.history(rater)[0]
            self.record(log, rater, log.find_task_page(rater, task, purpose))
        elif action in ("skip", "return") and page is not None:
            kind = {"skip": "skipped", "return": "returned"}[action]
            log.record(rater, kind, f"{action}{self.answers}/{rater}", page.task.id, now=self.now)
        elif action == "tell":  # who is screened out has ended, whatever was open
            body = {"when": "before", "answers": {}, "screened": ["age"] if seconds > 600 else []}
            log.record(rater, "surveyed", f"{rater}.surveyed", body=body, now=self.now)
        elif action in ("exclude", "reinstate", "release"):
            try:
                getattr(log, action)(rater, "a reason", self.now)
            except InputError as error:
                assert str(error).startswith(f"rater {rater} ")  # it would change nothing

    def open(self, log, rater):
        before = set(log.history(rater))
        page = log.next_page(rater, self.now)
        if page is not None:
            assert not any(one.id == rater and one.screened for one in log.raters()), "screened out, and given a page"
            key = (page.task.id, page.purpose)
            assert key not in before or log.find_task_page(rater, *key).answer is None, "a page was given twice"
            self.pages[rater] = page
        return page

    def record(self, log, rater, page):
        self.answers += 1
        recorded = answer(log, rater, page, f"{rater}/{self.answers}", self.now, rating=self.answers)
        assert recorded.new

    def check(self):
        """What holds after every step."""
        assert_rebuilt(self.logs[0])
        events = list(self.logs[0].events())
        assert sum(event.kind == "answered" for event in events) == self.answers
        last = {(e.rater, e.task, e.body["purpose"]): e.body["answer"] for e in events if e.kind == "answered"}
        answers = self.logs[1].answers()
        assert {(one.rater, one.task, one.purpose): one.answer for one in answers} == last
        assert all(one.seconds >= 0 for one in answers)
        opened = {(event.task, event.body["place"]): event.at for event in events if event.kind == "opened"}
        for slot in self.logs[0].slots():
            assert slot.lease is None or slot.lease - opened[slot.task, slot.place] == timedelta(seconds=LEASE)

    def finish(self):
        """Everybody leaves; raters who come after the leases bring every task to its target, and not beyond."""
        log, number = self.logs[0], 0
        for out in [rater.id for rater in log.raters() if rater.excluded]:
            log.reinstate(out, "a reason", self.now)
        self.now = max((slot.lease for slot in log.slots() if slot.lease), default=self.now)
        while not all(slot.done for slot in log.slots()):
            number += 1
            assert number < 50
            (rater,) = log.add_raters([f"late{number}"])
            self.answers += len(work_through(log, rater.id, self.now))
        held = {(slot.task, slot.rater) for slot in log.slots()}
        surplus = [one for one in log.answers() if one.purpose == "work" and (one.task, one.rater) not in held]
        excluded = {event.rater for event in log.events() if event.kind == "excluded"}
        assert all(one.late or one.rater in excluded for one in surplus), "the target was exceeded by others"
        self.check()
        assert_whole(log)


def play(address, folder, plan, steps, kind=Play):
    """Take the steps on a study; every one leaves it whole, and it can be finished after the last."""
    game = kind(address, folder, **plan)
    try:
        for step in steps:
            game.step(*step)
            game.check()
        game.finish()
    finally:
        for log in game.logs:
            log.close()


@settings(max_examples=15, phases=UNSHRUNK)
@given(plan=PLAN, steps=st.lists(STEP, max_size=20))
def test_any_order_of_events_on_sqlite(plan, steps):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        play(Path(folder) / "study.db", Path(folder), plan, steps)


def test_any_order_of_events_on_postgresql(postgres_server, tmp_path):
    @settings(max_examples=4, phases=UNSHRUNK)
    @given(plan=PLAN, source=st.sampled_from(["links", "open"]), steps=st.lists(STEP, min_size=10, max_size=15))
    def run(plan, source, steps):
        url = postgres_server.database()
        try:
            play(url, tmp_path, {**plan, "source": Source(source)}, steps)
        finally:
            postgres_server.drop(url)

    run()


@settings(max_examples=15, phases=UNSHRUNK)
@given(plan=PLAN, steps=st.lists(STEP, max_size=20))
def test_any_order_of_events_where_anyone_may_enter(plan, steps):
    """Raters who have never answered lose their slots to others, and the log stays whole."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        play(Path(folder) / "study.db", Path(folder), {**plan, "source": Source("open")}, steps)


@settings(max_examples=4, phases=UNSHRUNK)
@given(turns=st.lists(st.integers(0, 11), min_size=60, max_size=60))
def test_a_rater_gets_the_task_with_the_fewest_answers(turns):
    """Of those that the rater has not had."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        log, raters = new_study(folder, tasks=9, raters=12, per_rater=9)
        for turn in turns:
            had, counts = {task for task, _ in log.history(raters[turn])}, taken(log)
            page = log.next_page(raters[turn], START)
            if page is not None:
                assert counts[page.task.id] == min(count for task, count in counts.items() if task not in had)
                answer(log, raters[turn], page)
        log.close()


@pytest.mark.parametrize("seed", [1, 2])
def test_tasks_fill_evenly(seed, tmp_path):
    """While raters come and go on in any order, no task is more than one answer ahead of another."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        log, raters = new_study(folder, tasks=40, raters=12, per_rater=10)
        turns = [rater for rater in raters for _ in range(10)]  # 12 · 10 = 40 tasks · 3 answers
        random.Random(seed).shuffle(turns)
        for rater in turns:
            answer(log, rater, log.next_page(rater, START))
            counts = taken(log).values()
            assert max(counts) - min(counts) <= 1
        assert set(taken(log).values()) == {3}
        log.close()


def new_study(folder, tasks, raters, per_rater):
    log = StudyLog.open(Path(folder) / "study.db")
    log.begin(make_plan(Path(folder), overlap=3, per_rater=per_rater), make_tasks(tasks))
    return log, [rater.id for rater in log.add_raters([str(number) for number in range(raters)])]


def taken(log):
    """The number of answers of each task, given or being given."""
    counts = Counter({slot.task: 0 for slot in log.slots()})
    counts.update(slot.task for slot in log.slots() if slot.rater)
    return counts
