"""The log: nothing is lost, counted twice, given to one rater twice, or changed after the fact."""

from datetime import datetime, timedelta, timezone

import pytest

from captious.errors import InputError
from captious.studio.log import Log, database_of, open_log
from captious.studio.plan import Checks, Plan
from captious.studio.slots import rebuild
from captious.studio.tasks import Choice, Task

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)


def later(seconds):
    return START + timedelta(seconds=seconds)


def make_plan(folder, **options):
    return Plan(
        folder / "study.toml", "Captions", "ratings", **{"overlap": 2, "per_rater": 4, "lease": 600.0, **options}
    )


def make_tasks(number, gold=0):
    tasks = [Task(f"im{i}", choices=(Choice(f"im{i}/a", "a dog"), Choice(f"im{i}/b", "a cat"))) for i in range(number)]
    return tasks + [Task(f"gold{i}", gold={"ratings": {}}) for i in range(gold)]


def answer(log, rater, page, key=None, now=START, rating=3):
    body = {"answer": {"rating": rating}, "order": list(page.order), "purpose": page.purpose}
    return log.record(rater, "answered", key or f"{rater}/{page.task.id}/{page.purpose}", page.task.id, body, now)


def assert_rebuilt(log):
    work = [task.id for task in log.tasks().values() if task.gold is None]
    assert rebuild(log.plan(), work, log.events()) == {(slot.task, slot.place): slot for slot in log.slots()}


@pytest.fixture
def begin(database, tmp_path):
    """``begin(tasks=3, raters=2, **plan)`` gives the log of a new study."""
    logs = []

    def start(tasks=3, raters=2, gold=0, **options):
        log = Log.open(database)
        log.begin(make_plan(tmp_path, **options), make_tasks(tasks, gold))
        log.add_raters([f"hash{number}" for number in range(raters)])
        logs.append(log)
        return log

    yield start
    for log in logs:
        log.close()


def test_a_study_ends_when_every_task_has_its_answers(begin):
    log = begin()
    for rater in ("r1", "r2"):
        for number in (1, 2, 3):
            page = log.next_page(rater, START)
            assert (page.number, page.total) == (number, 3)
            assert log.next_page(rater, START) == page  # reload, another tab, another device
            recorded = answer(log, rater, page)
            assert recorded.new and not recorded.late
        assert log.next_page(rater, START) is None
        assert log.why_none(rater) == "finished"
    assert all(slot.done for slot in log.slots()) and len(log.answers()) == 6
    (third,) = log.add_raters(["another"])
    assert log.next_page(third.id, START) is None and log.why_none(third.id) == "full"
    assert_rebuilt(log)


def test_a_plan_that_was_edited_is_refused(begin, database, tmp_path):
    log = begin()
    assert log.plan() == Log.open(database).plan()
    with pytest.raises(InputError, match=r"study\.toml: was edited after the study began"):
        Log.open(database).begin(make_plan(tmp_path, overlap=5), make_tasks(3))
    assert open_log(make_plan(tmp_path), database).tasks() == log.tasks()


def test_a_database_without_a_study_is_refused(tmp_path):
    plan = make_plan(tmp_path)
    assert database_of(plan) == str(tmp_path / "study.db")
    with pytest.raises(InputError, match=r"study\.db: holds no study yet"):
        open_log(plan)
    assert list(tmp_path.iterdir()) == []


def test_gold_comes_after_every_so_many_and_repeats_near_the_end(begin):
    log = begin(tasks=6, gold=2, per_rater=6, checks=Checks(every=2, repeat=2))
    purposes = []
    while page := log.next_page("r1", START):
        assert page.total == 6 + 2 + 2
        purposes.append(page.purpose)
        answer(log, "r1", page)
    assert purposes == ["work", "work", "gold", "work", "work", "gold", "work", "repeat", "work", "repeat"]
    assert len({(one.task, one.purpose) for one in log.answers()}) == 10


def test_an_answer_after_its_lease(begin):
    log = begin(tasks=1, overlap=1, raters=3)
    first = log.next_page("r1", START)
    assert log.next_page("r2", later(599)) is None and log.why_none("r2") == "wait"
    second = log.next_page("r2", later(601))
    assert second.task == first.task
    late = answer(log, "r1", first, now=later(700))
    assert late.new and late.late
    assert not answer(log, "r2", second, now=later(701)).late
    assert [(one.rater, one.late) for one in log.answers()] == [("r1", True), ("r2", False)]
    assert_rebuilt(log)
