"""Small studies for the tests of the log, and raters who work through them."""

import threading
from datetime import datetime, timedelta, timezone

from captious.studio.collect._events import compute_slots
from captious.studio.collect.rating_tasks import Choice, Task
from captious.studio.collect.study_plan import Plan
from captious.studio.collect.verify import verify

START = datetime(2026, 3, 1, 12, tzinfo=timezone.utc)
LEASE = 600.0


def later(seconds):
    """So many seconds after the start."""
    return START + timedelta(seconds=seconds)


def make_plan(folder, **options):
    """A small study of ratings."""
    options = {"overlap": 2, "per_rater": 4, "lease": LEASE, **options}
    return Plan(folder / "study.toml", "Captions", "ratings", **options)


def make_tasks(number, gold=0, practice=0):
    """Tasks of two captions each, tasks of gold, and tasks of practice."""
    choices = [(Choice(f"im{i}/a", "a dog"), Choice(f"im{i}/b", "a cat")) for i in range(number)]
    tasks = [Task(f"im{i}", choices=two, fields={"scene": "ab"[i % 2]}) for i, two in enumerate(choices)]
    tasks += [Task(f"gold{i}", gold={"ratings": {}}) for i in range(gold)]
    return tasks + [Task(f"p{i}", gold={"ratings": {}}) for i in range(1, practice + 1)]


def answer(log, rater, page, key=None, now=START, rating=3, **body):
    """Store an answer to a page."""
    body = {"answer": {"rating": rating}, "order": list(page.order), "purpose": page.purpose, **body}
    return log.record(rater, "answered", key or f"{rater}/{page.task.id}/{page.purpose}", page.task.id, body, now)


def work_through(log, rater, now=START, most=1000):
    """Answer page after page; gives their tasks."""
    tasks = []
    while len(tasks) < most and (page := log.next_page(rater, now)):
        answer(log, rater, page, now=now)
        tasks.append(page.task.id)
    return tasks


def assert_rebuilt(log):
    """The slots follow from the log."""
    log.read_updates()
    work = [task.id for task in log.tasks().values() if task.gold is None]
    assert compute_slots(log.plan(), work, log.events()) == {(slot.task, slot.place): slot for slot in log.slots()}


def assert_whole(log):
    """The slots follow from the log, and nothing else is wrong with the database."""
    assert_rebuilt(log)
    assert verify(log).problems == ()


def in_parallel(*calls):
    """The results of calls that begin at the same time, each in a thread."""
    barrier, results = threading.Barrier(len(calls)), [None] * len(calls)

    def run(index):
        barrier.wait()
        results[index] = calls[index]()

    threads = [threading.Thread(target=run, args=(index,)) for index in range(len(calls))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return results
