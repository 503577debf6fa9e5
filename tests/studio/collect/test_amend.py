"""Amendments and pauses: what may change in a study, what becomes of answers and leases, and kills in the middle."""

import json
import os
import random
import subprocess
import sys
import tempfile
from dataclasses import fields, replace
from datetime import timedelta
from fnmatch import fnmatchcase
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

for extra in ("sqlalchemy", "starlette", "jinja2"):
    pytest.importorskip(extra, reason=f"{extra} is not installed: pip install 'captious[studio]'")

from tests.studio.collect.test_interleavings import ACTIONS, MEMORY, PLAN, RATERS, UNSHRUNK, Play, play
from tests.studio.logs import LEASE, START, answer, assert_rebuilt, assert_whole, later
from tests.studio.logs import make_plan as small_plan
from tests.studio.logs import make_tasks as small_tasks

from captious.errors import InputError, UnknownKey
from captious.studio.collect._database_tables import to_json
from captious.studio.collect.amend import FILES, FREE, GROWING, MEANING, _flatten_plan, amend_study
from captious.studio.collect.log import StudyLog, open_log, open_study
from captious.studio.collect.study_plan import Aspect, LabelOption, Plan, read_plan
from captious.studio.collect.verify import verify

TOML = """title = "Dgos"
kind = "ratings"
captions = ["a.jsonl", "b.jsonl"]
together = 2
overlap = 2
per_rater = 3
lease = "10 min"
[[aspects]]
name = "overall"
question = "How good?"
[checks]
gold = "gold.jsonl"
every = 2
"""


def write_captions(folder, number):
    """Two systems about so many items, each with captions of its own."""
    for system in "ab":
        rows = [{"id": f"im{item}", "caption": f"{system} says {item}"} for item in range(number)]
        (folder / f"{system}.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    gold = {"id": "check", "captions": ["good", "bad"], "expected": [[4, 5], [1, 2]]}
    (folder / "gold.jsonl").write_text(json.dumps(gold) + "\n")


@pytest.fixture
def study(tmp_path):
    """The file of a study of five items and one gold task, which has begun."""
    write_captions(tmp_path, 5)
    path = tmp_path / "study.toml"
    path.write_text(TOML)
    _, log = open_study(path)
    log.add_raters(["one", "two"])
    log.close()
    return path


@pytest.fixture
def log(study):
    """Its log."""
    log = open_log(study)
    yield log
    log.close()


def edit(study, *changes):
    text = study.read_text()
    for old, new in changes:
        assert text.count(old) == 1
        text = text.replace(old, new)
    study.write_text(text)


def rate(log, rater, most=1000, rating=3):
    """Answer page after page as a form would; gives the items."""
    items = []
    while len(items) < most and (page := log.next_page(rater)):
        ratings = {choice.id: {"overall": rating} for choice in page.task.choices}
        body = {"answer": {"ratings": ratings}, "order": list(page.order), "purpose": page.purpose}
        log.record(rater, "answered", f"{rater}/{page.name}", page.task.id, body)
        items.append(page.task.item)
    return items


# What may change


def test_texts_items_overlap_and_lease_are_amended_and_answers_stay(study, log):
    rate(log, "r1", 2)
    before = log.answers()
    edit(
        study,
        ("Dgos", "Dogs"),
        ("overlap = 2", "overlap = 3"),
        ('"10 min"', '"20 min"'),
        ("per_rater = 3", "per_rater = 9"),
    )
    write_captions(study.parent, 7)
    amendment, unread = amend_study(log, study, " a typo,\n and more ")
    assert amendment.why == "a typo, and more" and unread == ""
    assert amendment.lines == [
        "title: Dgos → Dogs",
        "overlap: 2 → 3",
        "per_rater: 3 → 9",
        "lease: 600 → 1200 s",
        "tasks: 6 → 8",
    ]
    plan = log.plan()
    assert (plan.title, plan.overlap, plan.lease) == ("Dogs", 3, 1200.0) and plan.digest == read_plan(study).digest
    assert log.answers() == before
    items = [task.item for task in log.tasks().values()]
    assert items[5] == "check" and {*items[6:]} == {"im5", "im6"}  # behind those that were there
    assert len(log.slots()) == 7 * 3  # seven items that are not gold, three answers each
    for rater in ("r1", "r2"):
        rate(log, rater)
    (third,) = log.add_raters(["three"])
    assert len({*rate(log, third.id)}) == 8
    assert all(slot.done for slot in log.slots())
    assert_whole(log)
    digests = [event.kind for event in log.events() if event.rater == "owner"]
    assert digests == ["amended"]


def test_another_process_follows_at_once_and_addresses_stay(study, log):
    from captious.studio.collect.sessions import get_study_name

    server = open_log(study)
    name = get_study_name(server.plan())
    rate(server, "r1", 1)
    edit(study, ("Dgos", "Dogs"), ("per_rater = 3", "per_rater = 5"))
    amend_study(log, study, "a typo")
    assert server.plan().title == "Dgos"  # it has not asked yet
    page = server.next_page("r1")
    assert server.plan().title == "Dogs" and page.total == 6  # five tasks and the gold one
    assert get_study_name(server.plan()) == name != server.plan().digest[:8]
    server.close()


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            ('"How good?"', '"How good?"\nscale = [1, 7]'),
            r"aspects\.overall\.scale was \[1, 5\] and is \[1, 7\], which",
        ),
        (('name = "overall"', 'name = "fluency"'), r'aspects was \["overall"\] and is \["fluency"\]'),
        (("together = 2", "together = 1"), "together was 2 and is 1, which no amendment may change: raters saw other"),
        (("overlap = 2", "overlap = 1"), "overlap was 2 and is 1, expected no less: answers that were given"),
        (('"10 min"', '"5 min"'), r"lease was 600\.0 and is 300\.0, expected no less: open pages are kept"),
        (("together = 2", "together = 2\nshow_references = true"), "show_references was false and is true"),
        (("together = 2", "together = 2\ncannot_judge = true"), "cannot_judge was false and is true"),
        (("together = 2", 'together = 2\nids = ["im1"]'), r"4 items of the study \(.*\) are not in its files any more"),
        (("together = 2", "together = 2\nitems = 3"), "items = 3, expected at least the 5 of the study"),
        (("together = 2", "together = 2\nitems = 9"), "items = 9, expected at most the 5 there are"),
    ],
)
def test_what_would_change_the_meaning_of_answers_is_refused(study, log, change, message):
    edit(study, change)
    with pytest.raises(InputError, match=message) as refused:
        amend_study(log, study, "a try")
    assert "\n" not in str(refused.value)
    assert log.digest == log.plan().origin and log.now.history.amendments == ()
    if "no amendment may change" in str(refused.value):
        assert f"captious studio new {study.with_name('study-2.toml')} --rest-of {study}" in str(refused.value)


def test_a_changed_kind_is_refused(study, log):
    study.write_text('title = "Dogs"\nkind = "pairs"\ncaptions = ["a.jsonl", "b.jsonl"]\nquestion = "Better?"\n')
    with pytest.raises(InputError, match='kind was "ratings" and is "pairs", which no amendment may change'):
        amend_study(log, study, "a try")


def test_captions_and_expected_answers_that_changed_are_refused(study, log):
    edit(study, ("Dgos", "Dogs"))
    text = (study.parent / "a.jsonl").read_text()
    (study.parent / "a.jsonl").write_text(text.replace("a says 3", "a says three"))
    with pytest.raises(InputError, match="item 'im3' has other captions in the files than raters judge"):
        amend_study(log, study, "a typo")
    (study.parent / "a.jsonl").write_text(text)
    gold = (study.parent / "gold.jsonl").read_text()
    (study.parent / "gold.jsonl").write_text(gold.replace("[4, 5]", "[3, 5]"))
    with pytest.raises(InputError, match="item 'check' has other expected answers"):
        amend_study(log, study, "a typo")


def test_files_that_are_gone_do_not_stop_a_typo(study, log):
    (study.parent / "a.jsonl").unlink()
    edit(study, ("Dgos", "Dogs"))
    amendment, unread = amend_study(log, study, "a typo")
    assert amendment.lines == ["title: Dgos → Dogs"] and "a.jsonl" in unread
    edit(study, ('"a.jsonl", "b.jsonl"', '"b.jsonl", "c.jsonl"'))
    with pytest.raises(InputError, match=r"c\.jsonl"):
        amend_study(log, study, "others")


def test_nothing_new_is_refused_and_comments_are_kept(study, log):
    with pytest.raises(InputError, match="is the text of the study, and its files have no new items"):
        amend_study(log, study, "a try")
    with pytest.raises(InputError, match="expected the reason in 1 to 500 characters"):
        amend_study(log, study, "  ")
    study.write_text(f"# A remark.\n{study.read_text()}")
    assert amend_study(log, study, "a remark")[0].lines == ["comments: as they were → edited"]
    assert log.plan().text.startswith("# A remark.") and verify(log).problems == ()


def test_more_items_are_drawn_from_those_that_are_not_there(tmp_path):
    write_captions(tmp_path, 9)
    path = tmp_path / "study.toml"
    path.write_text(TOML.replace("together = 2", "together = 2\nitems = 4"))
    _, log = open_study(path)
    before = {task.item for task in log.tasks().values()}
    write_captions(tmp_path, 20)  # the draw of four out of twenty would be another one
    edit(path, ("items = 4", "items = 9"))
    amend_study(log, path, "more")
    after = {task.item for task in log.tasks().values()}
    assert before < after and len(after) == 10 and verify(log).problems == ()  # nine and the gold one
    log.close()


def test_higher_quotas_add_items_of_their_group(tmp_path):
    rows = [{"id": f"im{item}", "caption": f"says {item}", "scene": "in" if item % 2 else "out"} for item in range(12)]
    (tmp_path / "a.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    text = 'title = "Dogs"\nkind = "ratings"\ncaptions = ["a.jsonl"]\nstratum = "scene"\nquotas = { in = 2, out = 3 }\n'
    path = tmp_path / "study.toml"
    path.write_text(f'{text}[[aspects]]\nname = "overall"\nquestion = "How good?"\n', encoding="utf-8")
    _, log = open_study(path)
    before = {task.item for task in log.tasks().values()}
    edit(path, ("in = 2", "in = 4"))
    assert amend_study(log, path, "more")[0].lines == ["quotas.in: 2 → 4", "tasks: 5 → 7"]
    assert before < {task.item for task in log.tasks().values()} and verify(log).problems == ()
    edit(path, ('stratum = "scene"', 'stratum = "caption"'), ("in = 4, out = 3", "says = 1"))
    with pytest.raises(InputError, match=r"stratum was .* which no amendment may change: tasks were shared out by it"):
        amend_study(log, path, "other groups")
    log.close()


def test_every_key_of_a_plan_is_free_growing_or_fixed():
    """Whoever adds a key decides what an amendment may do to it."""
    known = (*FREE, *GROWING, *FILES, *MEANING)
    plan = Plan(Path("x"), "t", "ratings", aspects=(Aspect("a", "q"),), options=(LabelOption("o"),), quotas={"x": 1})
    hidden = {one.name for one in fields(Plan) if one.metadata.get("hidden")}
    keys = [key for key in _flatten_plan(plan) if key not in hidden]
    assert [key for key in keys if not any(fnmatchcase(key, name) for name in known)] == []
    assert to_json(plan).keys() >= {one.name for one in fields(Plan)} - {"origin"}


def test_two_amendments_at_once(study, log):
    other = open_log(study)
    old = other.plan()
    edit(study, ("Dgos", "Dogs"))
    amend_study(log, study, "a typo")
    with pytest.raises(InputError, match="was amended meanwhile by somebody else"):
        other.amend(replace(old, title="Cats", digest="x"), [], "mine", [], old.digest)
    assert other.plan().title == "Dogs"
    other.close()


# Who goes on


def test_who_has_finished_with_a_link_and_no_code_goes_on_with_new_items(study, log):
    edit(study, ("per_rater = 3", "per_rater = 9"))
    amend_study(log, study, "more each")
    assert len(rate(log, "r1")) == 6
    log.record("r1", "finished", "r1.finished")
    assert log.explain_no_page("r1") == "finished" and log.raters()[0].finished
    write_captions(study.parent, 7)
    amend_study(log, study, "two more")
    assert not log.raters()[0].finished and sorted(rate(log, "r1")) == ["im5", "im6"]
    assert log.explain_no_page("r1") == "finished"
    assert_whole(log)


def test_who_has_a_completion_code_has_finished_for_good(tmp_path):
    write_captions(tmp_path, 2)
    path = tmp_path / "study.toml"
    path.write_text(f'{TOML}[source]\ndone = "C1"\n')
    _, log = open_study(path)
    log.add_raters(["one"])
    rate(log, "r1")
    log.record("r1", "finished", "r1.finished")
    write_captions(tmp_path, 7)
    amend_study(log, path, "more")
    assert log.next_page("r1") is None and log.explain_no_page("r1") == "finished"
    log.close()


# Pauses


@pytest.fixture
def begin(database, tmp_path):
    """``begin(tasks)``: a log on SQLite and on PostgreSQL, with two raters."""
    logs = []

    def start(tasks=3, **options):
        log = StudyLog.open(database)
        logs.append(log)
        log.begin(small_plan(tmp_path, **options), small_tasks(tasks))
        log.add_raters(["one", "two"])
        return log

    yield start
    for log in logs:
        log.close()


def test_a_pause_gives_nobody_a_task_and_leases_stop(begin):
    log = begin(1, overlap=1)
    page = log.next_page("r1", START)
    log.pause("lunch", "Back at two.", later(LEASE - 1))
    assert log.next_page("r1", later(LEASE - 1)) is None and log.explain_no_page("r1") == "paused"
    assert log.count_leases(later(9 * LEASE)) == 1  # it would have ended
    with pytest.raises(InputError, match="the study is paused already"):
        log.pause("again")
    log.resume(later(10 * LEASE))
    with pytest.raises(InputError, match="the study is not paused"):
        log.resume()
    assert [slot.lease for slot in log.slots()] == [later(10 * LEASE + 1)]  # a second was left
    assert log.next_page("r2", later(10 * LEASE)) is None
    assert log.next_page("r1", later(10 * LEASE)).name == page.name
    assert log.next_page("r2", later(10 * LEASE + 1)).task.id == page.task.id
    assert_whole(log)


def test_an_answer_of_an_open_page_is_stored_during_a_pause(begin):
    log = begin(2, overlap=1)
    page = log.next_page("r1", START)
    other = log.next_page("r2", START)
    log.pause("lunch", now=later(1))
    recorded = answer(log, "r1", page, now=later(2 * LEASE))
    assert recorded.new and not recorded.late
    log.resume(later(3 * LEASE))
    assert log.next_page("r2", later(3 * LEASE)).name == other.name
    assert log.next_page("r1", later(3 * LEASE)) is None  # the other task is kept for the other rater
    assert_whole(log)


def test_the_owner_is_no_rater(begin):
    log = begin()
    log.pause("lunch", now=START)
    assert log.list_rater_ids() == ["r1", "r2"] and [rater.id for rater in log.raters()] == ["r1", "r2"]
    for name in ("owner", "r0", "r01"):
        with pytest.raises(UnknownKey, match="there is no rater"):
            log.exclude(name, "a try")
    (event,) = log.events()
    assert (event.rater, event.n, event.kind) == ("owner", 1, "paused")


# Any order, with amendments and pauses among it

STEP = st.tuples(
    st.sampled_from((*ACTIONS, "pause", "resume", "amend")), st.sampled_from(RATERS), st.integers(-600, 900)
)


class AmendedPlay(Play):
    """A play whose owner also amends and pauses, through one server or the other."""

    def step(self, action, rater, seconds):
        log = self.log_of(rater)
        if action not in ("pause", "resume", "amend"):
            before = log.next_page(rater, self.now) if log.read_updates().history.paused else None
            assert before is None, "a page was given during a pause"
            super().step(action, rater, seconds)
            return
        self.now += timedelta(seconds=seconds)
        try:
            if action == "amend":
                self.amend(log)
            else:
                getattr(log, action)(*(["a reason"] if action == "pause" else []), now=self.now)
        except InputError as error:
            assert "paused" in str(error)

    def amend(self, log):
        plan = log.read_updates().plan
        number = len(log.tasks())
        lease = plan.lease + 60
        new = replace(plan, overlap=plan.overlap + 1, per_rater=plan.per_rater + 1, lease=lease, digest="")
        changes = [
            {"key": "overlap", "from": plan.overlap, "to": new.overlap},
            {"key": "lease", "from": plan.lease, "to": lease},
            {"key": "tasks", "from": number, "to": number + 1},
        ]
        log.amend(new, [replace(small_tasks(1)[0], id=f"new{number}")], "more", changes, plan.digest, self.now)

    def check(self):
        assert_rebuilt(self.logs[0])
        assert_rebuilt(self.logs[1])
        stored = [event for event in self.logs[0].events() if event.kind == "answered"]
        assert len(stored) == self.answers == len({event.key for event in stored})

    def finish(self):
        if self.logs[1].read_updates().history.paused:
            self.logs[1].resume(self.now)
        super().finish()


@settings(max_examples=15, phases=UNSHRUNK)
@given(plan=PLAN, steps=st.lists(STEP, max_size=25))
def test_any_order_of_events_with_amendments_and_pauses(plan, steps):
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        play(Path(folder) / "study.db", Path(folder), plan, steps, AmendedPlay)


def test_any_order_of_amendments_on_postgresql(postgres_server, tmp_path):
    steps = [("amend", "r1", 5), ("answer", "r1", 5), ("pause", "r2", 5), ("answer", "r1", 700), ("resume", "r1", 5)]
    rng = random.Random(3)
    acts = [(rng.choice((*ACTIONS, "pause", "resume", "amend")), rng.choice(RATERS), 30) for _ in range(12)]
    url = postgres_server.database()
    try:
        play(url, tmp_path, {"tasks": 3, "gold": 1, "overlap": 1, "per_rater": 3}, [*steps, *acts], AmendedPlay)
    finally:
        postgres_server.drop(url)


# Kills

KILLED = """
import json, os, signal, sys
from pathlib import Path
import sqlalchemy as sa
from captious.studio.collect.amend import amend_study
from captious.studio.collect.log import open_log
from captious.studio.collect.verify import verify
from tests.studio.collect.test_amend import rate

path = Path(sys.argv[1])
database = path.with_suffix(".db")
content = database.read_bytes()
events = ("before_cursor_execute", "after_cursor_execute", "commit")


def amend(last):
    log, seen = open_log(path), 0

    def count(*_):
        nonlocal seen
        seen += 1
        if seen == last:
            os.kill(os.getpid(), signal.SIGKILL)

    log.tasks()
    for name in events:
        sa.event.listen(log.database.engine, name, count)
    amend_study(log, path, "a typo and more")
    os._exit(0)


for last in range(1, 200):
    for file in path.parent.glob("study.db*"):
        file.unlink()
    database.write_bytes(content)
    child = os.fork()
    if child == 0:
        amend(last)
    killed = os.WIFSIGNALED(os.waitpid(child, 0)[1])
    log = open_log(path)
    plan, answers = log.plan(), [[one.rater, one.task, one.answer] for one in log.answers()]
    found = [plan.title, plan.overlap, len(log.tasks()), len(log.slots())]
    problems = list(verify(log).problems)
    rate(log, "r1")  # the study goes on either way
    problems += verify(log).problems
    log.close()
    print(json.dumps({"killed": killed, "found": found, "answers": answers, "problems": problems}))
    if not killed:
        break
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no SIGKILL")
def test_a_kill_at_any_statement_of_an_amendment_leaves_the_old_plan_or_the_new(study, log):
    rate(log, "r1", 2)
    log.next_page("r2")
    answers = [[one.rater, one.task, one.answer] for one in log.answers()]
    log.close()
    edit(study, ("Dgos", "Dogs"), ("overlap = 2", "overlap = 4"))
    write_captions(study.parent, 8)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    command = [sys.executable, "-c", KILLED, str(study)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    outcomes = [json.loads(line) for line in done.stdout.splitlines()]
    # Six tasks of which one is gold, two answers each; then three items more, and four answers each.
    old, new = ["Dgos", 2, 6, 5 * 2], ["Dogs", 4, 9, 8 * 4]
    found = [one["found"] for one in outcomes]
    first = found.index(new)
    assert found == [old] * first + [new] * (len(found) - first)
    assert first > 10 and [one["killed"] for one in outcomes] == [True] * (len(found) - 1) + [False]
    assert all(one["answers"] == answers and one["problems"] == [] for one in outcomes)


def test_more_items_have_the_chance_of_the_larger_sample(tmp_path):
    """Two of five items, then four: an item was drawn now or before with a chance of 4 / 5."""
    write_captions(tmp_path, 5)
    path = tmp_path / "study.toml"
    path.write_text(TOML.replace("overlap = 2", "overlap = 2\nitems = 2"))
    _, log = open_study(path)
    drawn = {task.item: task.fields.get("probability") for task in log.tasks().values() if task.gold is None}
    assert list(drawn.values()) == [2 / 5] * 2
    path.write_text(TOML.replace("overlap = 2", "overlap = 2\nitems = 4"))
    amend_study(log, path, "more items")
    tasks = [task for task in log.tasks().values() if task.gold is None]
    added = [task.fields["probability"] for task in tasks if task.item not in drawn]
    assert added == [4 / 5] * 2
    # All have one stratum, of which `study estimate` takes the largest chance: the sample is a random one of all.
    assert {(task.fields["stratum"], task.fields["batch"]) for task in tasks} == {("all", 1)}
    log.close()
