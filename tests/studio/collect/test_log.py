"""The log: nothing is lost, counted twice, given to one rater twice, or changed after the fact."""

import sqlite3
from collections import Counter
from datetime import timedelta

import pytest

sa = pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")

from tests.studio.logs import (
    LEASE,
    START,
    answer,
    assert_whole,
    in_parallel,
    later,
    make_plan,
    make_tasks,
    work_through,
)

from captious.errors import InputError, UnknownKey
from captious.studio.collect import _database_tables as tables
from captious.studio.collect._database import DatabaseAway
from captious.studio.collect._events import FAR
from captious.studio.collect.log import StudyLog, find_database, open_log
from captious.studio.collect.rating_tasks import Task
from captious.studio.collect.study_plan import Checks, Source


@pytest.fixture
def begin(database, tmp_path):
    """``begin(tasks=3, raters=2, **plan)`` gives the log of a new study, or another `StudyLog` of the same."""
    logs = []

    def start(tasks=3, raters=2, gold=0, **options):
        log = StudyLog.open(database)
        logs.append(log)
        log.begin(make_plan(tmp_path, **options), make_tasks(tasks, gold))
        log.add_raters([f"hash{number}" for number in range(raters)])
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
        assert log.explain_no_page(rater) == "finished"
    assert all(slot.done for slot in log.slots()) and len(log.answers()) == 6
    (third,) = log.add_raters(["another"])
    assert log.next_page(third.id, START) is None and log.explain_no_page(third.id) == "full"
    assert_whole(log)


def test_a_plan_that_was_edited_is_refused(begin, database, tmp_path):
    log = begin()
    assert log.plan() == StudyLog.open(database).plan()
    with pytest.raises(InputError, match=r"study\.toml: was edited after the study began"):
        StudyLog.open(database).begin(make_plan(tmp_path, overlap=5), make_tasks(3))
    assert open_log(tmp_path / "study.toml", database).tasks() == log.tasks()


def test_tasks_are_those_of_the_beginning(begin, database, tmp_path):
    tasks = begin(tasks=3).tasks()
    again = StudyLog.open(database)
    again.begin(make_plan(tmp_path), make_tasks(9))  # the caption files were edited, the plan was not
    assert again.tasks() == tasks and again.task("im2") == tasks["im2"] and again.task("im8") is None


def test_a_task_that_is_there_twice_is_refused_and_nothing_is_stored(database, tmp_path):
    log = StudyLog.open(database)
    with pytest.raises(InputError, match="task 'im0' occurs twice"):
        log.begin(make_plan(tmp_path), make_tasks(2) + make_tasks(1))
    assert not log.begun


def test_a_task_that_json_cannot_hold_is_refused(database, tmp_path):
    with pytest.raises(InputError, match=r"study\.toml: task 'im9' has a value that the database cannot keep"):
        StudyLog.open(database).begin(make_plan(tmp_path), [Task("im9", fields={"seed": float("nan")})])


def test_a_database_without_a_study_is_refused(tmp_path):
    path = tmp_path / "study.toml"
    assert find_database(path) == str(tmp_path / "study.db")
    with pytest.raises(InputError, match=r"study\.toml: no such study"):
        open_log(path)
    assert list(tmp_path.iterdir()) == []
    path.write_text('title = "Dogs"\nkind = "yesno"\ntasks = "tasks.jsonl"\n')
    with pytest.raises(InputError, match=r"study\.db: contains no study yet; serve .*study\.toml first"):
        open_log(path)
    assert list(tmp_path.iterdir()) == [path]


def test_a_database_of_something_else_is_refused(tmp_path):
    with sqlite3.connect(tmp_path / "other.db") as other:
        other.execute("CREATE TABLE songs (title TEXT)")
    with pytest.raises(InputError, match=r"other\.db: is not a database of a study"):
        StudyLog.open(tmp_path / "other.db")
    with pytest.raises(InputError, match="mysql://…: expected a file of SQLite, or postgresql"):
        StudyLog.open("mysql://host/study")


def test_a_database_of_a_newer_captious_is_refused(begin, database):
    log = begin()
    log.database.write(lambda connection: connection.execute(tables.version.insert().values(version=99)))
    with pytest.raises(InputError, match=r"was written by a newer captious \(version 99 of its tables; this one knows"):
        StudyLog.open(database)


def test_an_older_database_is_brought_up_to_date(begin, database, monkeypatch):
    tasks = begin().tasks()

    def second(connection):
        connection.exec_driver_sql("ALTER TABLE rater ADD COLUMN note TEXT")

    monkeypatch.setattr(tables, "MIGRATIONS", (*tables.MIGRATIONS, second))
    monkeypatch.setattr("captious.studio.collect.log.MIGRATIONS", tables.MIGRATIONS)
    for _ in range(2):  # the second time there is nothing to do
        newer = StudyLog.open(database)
        assert newer.tasks() == tasks and newer._read_version() == len(tables.MIGRATIONS)
        with newer.database.reading() as connection:
            assert connection.exec_driver_sql("SELECT note FROM rater WHERE number > 0").all() == [(None,), (None,)]


def test_gold_comes_after_every_so_many_and_repeats_near_the_end(begin):
    log = begin(tasks=6, gold=2, per_rater=6, checks=Checks(every=2, repeat=2))
    purposes = []
    while page := log.next_page("r1", START):
        assert page.total == 6 + 2 + 2
        purposes.append(page.purpose)
        answer(log, "r1", page)
    assert purposes == ["work", "work", "gold", "work", "work", "gold", "work", "repeat", "work", "repeat"]
    assert len({(one.task, one.purpose) for one in log.answers()}) == 10
    assert sum(slot.done for slot in log.slots()) == 6  # gold and repeats fill no slot
    assert_whole(log)


def test_a_rater_who_changes_an_answer_keeps_both_and_the_last_counts(begin):
    log = begin()
    first = log.next_page("r1", START)
    answer(log, "r1", first, "first", rating=2)
    second = log.next_page("r1", START)
    back = log.find_task_page("r1", first.task.id)
    assert (back.order, back.number, back.answer) == (first.order, 1, {"rating": 2})
    assert answer(log, "r1", back, "second", rating=5).new
    assert [event.body["answer"]["rating"] for event in log.events() if event.kind == "answered"] == [2, 5]
    assert [(one.task, one.answer) for one in log.answers()] == [(first.task.id, {"rating": 5})]
    assert log.next_page("r1", START) == second
    assert log.history("r1") == [(first.task.id, "work"), (second.task.id, "work")]
    assert log.find_task_page("r1", "im9") is None and sum(slot.done for slot in log.slots()) == 1
    assert_whole(log)


def test_the_same_key_ten_times_in_parallel_stores_once(begin):
    logs = [begin(), begin()]  # two servers
    page = logs[0].next_page("r1", START)
    results = in_parallel(*(lambda log=logs[i % 2]: answer(log, "r1", page, "key") for i in range(10)))
    assert sum(result.new for result in results) == 1
    assert {result.seq for result in results} == {logs[0].answers()[0].seq}
    assert [event.kind for event in logs[1].events()] == ["opened", "answered"]
    assert_whole(logs[0])


def test_the_same_key_with_another_body_stores_both(begin):
    log = begin()
    page = log.next_page("r1", START)
    assert answer(log, "r1", page, "key", rating=2, seconds=4.0).new
    assert not answer(log, "r1", page, "key", rating=2, seconds=4.1).new  # a click and its repetition
    changed = answer(log, "r1", page, "key", rating=5)
    assert changed.new and answer(log, "r1", page, "key", rating=5).seq == changed.seq
    keys = [event.key for event in log.events() if event.kind == "answered"]
    assert keys[0] == "key" and keys[1].startswith("key~") and len(keys) == 2
    assert [one.answer for one in log.answers()] == [{"rating": 5}]


def test_a_key_of_another_rater_takes_nothing_away(begin):
    log = begin()
    pages = {rater: log.next_page(rater, START) for rater in ("r1", "r2")}
    assert all(answer(log, rater, page, "stolen").new for rater, page in pages.items())
    assert {one.rater for one in log.answers()} == {"r1", "r2"}
    assert_whole(log)


def test_only_pages_that_a_rater_opened_can_be_answered(begin):
    log = begin()
    page = log.next_page("r1", START)
    with pytest.raises(InputError, match="rater r2 has not opened task"):
        answer(log, "r2", page)
    with pytest.raises(InputError, match=r"rater r1 has not opened task .* for gold"):
        log.record("r1", "answered", "key", page.task.id, {"answer": {}, "purpose": "gold"})
    with pytest.raises(InputError, match="expected up to 200 letters"):
        answer(log, "r1", page, "a\0b")
    for unknown in ("r7", "me", "r1; --"):
        with pytest.raises(UnknownKey, match="there is no rater"):
            log.next_page(unknown)
    assert len(list(log.events())) == 1


def test_an_answer_after_its_lease(begin):
    log = begin(tasks=1, overlap=1, raters=3)
    first = log.next_page("r1", START)
    assert (log.count_leases(later(599)), log.count_leases(later(600))) == (1, 0)
    assert log.next_page("r2", later(599)) is None and log.explain_no_page("r2") == "wait"
    second = log.next_page("r2", later(601))
    assert second.task == first.task
    late = answer(log, "r1", first, now=later(700))
    assert late.new and late.late and answer(log, "r1", first, now=later(701)).late
    assert not answer(log, "r2", second, now=later(701)).late
    assert [(one.rater, one.late) for one in log.answers()] == [("r1", True), ("r2", False)]
    assert_whole(log)


def test_an_answer_after_its_lease_is_not_late_while_its_task_needs_answers(begin):
    log = begin(tasks=1, overlap=2, raters=3)
    pages = {"r1": log.next_page("r1", START), "r2": log.next_page("r2", later(601))}  # r2 has the place of r1
    assert not answer(log, "r1", pages["r1"], now=later(700)).late  # there is a second place
    assert not answer(log, "r2", pages["r2"], now=later(2000)).late  # nobody took it
    assert log.next_page("r3", later(2000)) is None and log.explain_no_page("r3") == "full"
    assert_whole(log)


def test_a_rater_who_comes_back_goes_on_with_the_same_page_if_nobody_took_it(begin):
    log = begin(tasks=2, overlap=1, raters=3)
    page = log.next_page("r1", START)
    assert log.next_page("r1", later(5000)) == page
    assert log.next_page("r2", later(5001)).task != page.task  # the lease began again
    assert log.next_page("r3", later(5599)) is None
    assert log.next_page("r3", later(5600)).task == page.task
    assert log.next_page("r1", later(5600)) is None  # nothing is left that r1 has not had
    assert_whole(log)


def test_a_rater_may_leave_at_every_page_and_the_study_ends_with_all_answers(begin):
    """Each of these leaves one page later than the one before; then the others finish."""
    log = begin(tasks=4, overlap=2, raters=6, per_rater=4)
    for number, rater in enumerate(("r1", "r2", "r3", "r4")):
        assert len(work_through(log, rater, later(number), most=number)) <= number
        log.next_page(rater, later(number))
    now = later(LEASE + 10)
    for rater in ("r5", "r6"):
        work_through(log, rater, now)
    assert all(slot.done for slot in log.slots())
    assert Counter(one.task for one in log.answers()) == {f"im{i}": 2 for i in range(4)}
    assert_whole(log)


def test_a_clock_that_is_set_back_ten_minutes(begin):
    log = begin(tasks=3, overlap=1, raters=3)
    first = log.next_page("r1", START)
    second = log.next_page("r2", later(-600))
    assert second.task != first.task and log.next_page("r1", later(-599)) == first
    answer(log, "r1", first, now=later(-598))
    events = list(log.events())
    assert [event.seq for event in events] == sorted(event.seq for event in events)
    assert events[2].at < events[0].at and log.answers()[0].seconds == 0.0
    leases = {slot.rater: slot.lease for slot in log.slots() if slot.lease}
    assert leases == {"r2": later(-600 + LEASE)} and leases["r2"] > later(-600)
    assert_whole(log)


def test_a_clock_that_was_far_ahead_does_not_keep_a_task_forever(begin):
    log = begin(tasks=1, overlap=1)
    page = log.next_page("r1", START + timedelta(days=365))
    assert log.next_page("r2", START).task == page.task
    assert timedelta(hours=1) == FAR and answer(log, "r1", page).late
    assert_whole(log)


def test_exclusion_frees_slots_and_reinstatement_takes_back_what_is_free(begin):
    log = begin(tasks=2, overlap=1, raters=3)
    mine = work_through(log, "r1")
    log.exclude("r1", "too fast")
    assert log.raters()[0].excluded and log.next_page("r1") is None and log.explain_no_page("r1") == "excluded"
    assert [slot.done for slot in log.slots()] == [False, False]
    assert [one.excluded for one in log.answers()] == [True, True]
    (taken,) = work_through(log, "r2", most=1)
    log.reinstate("r1", "a mistake of ours")
    assert {slot.task: slot.rater for slot in log.slots()} == {task: "r2" if task == taken else "r1" for task in mine}
    assert not log.raters()[0].excluded and len(log.answers()) == 3
    assert_whole(log)
    for action, message in ((log.reinstate, "is not excluded"), (log.release, "has no task open")):
        with pytest.raises(InputError, match=f"rater r1 {message}"):
            action("r1", "again")
    assert [event.body.get("reason") for event in log.events(rater="r1")][-2:] == ["too fast", "a mistake of ours"]


def test_release_skip_and_return_free_the_open_page(begin):
    log = begin(tasks=4, overlap=1, raters=5)
    for rater in ("r1", "r2", "r3"):
        log.next_page(rater, START)
    pages = {rater: log.history(rater)[0][0] for rater in ("r1", "r2", "r3")}
    log.release("r1", "asked for it", START)
    log.record("r2", "skipped", "skip", pages["r2"], now=START)
    log.record("r3", "returned", "return", now=START)
    assert all(slot.rater is None for slot in log.slots())
    assert pages["r1"] != log.next_page("r1", START).task.id and pages["r2"] != log.next_page("r2", START).task.id
    assert log.next_page("r3", START) is None and log.raters()[2].finished
    assert_whole(log)


def test_raters_are_found_by_token_and_by_identity(begin):
    log = begin(raters=0)
    ann, bob = log.add_raters(["a", "b"], ["Ann", "Bob"])
    assert (ann.id, bob.id) == ("r1", "r2") and log.add_raters(["b", "c"])[0].id == "r2"
    assert log.find_rater_by_token("a") == ann and log.find_rater_by_token("x") is None
    person = {"PROLIFIC_PID": "5f\0", "STUDY_ID": "s", "SESSION_ID": "1"}
    found = in_parallel(*(lambda: log.find_rater_by_identity("prolific", "5f\0", person) for _ in range(4)))
    assert {rater.id for rater in found} == {found[0].id} and found[0].id not in ("r1", "r2", "r3")
    assert log.find_rater_by_identity("prolific", "5f\0", {**person, "SESSION_ID": "2"}).id == found[0].id
    worker = log.find_rater_by_identity("another", "5f", {"workerId": "5f"})
    log.record(found[0].id, "consented", "yes")
    assert log.find_rater_by_identity("prolific", "5f\0", person).consented
    log.forget("r1")
    log.forget(found[0].id)
    assert log.identities() == {"r2": {"name": "Bob"}, worker.id: {"workerId": "5f"}}
    assert [rater.id for rater in log.raters()] == ["r1", "r2", "r3", found[0].id, worker.id]
    assert_whole(log)


def test_who_has_never_answered_keeps_a_slot_from_nobody(begin):
    log = begin(tasks=3, overlap=1, raters=6, per_rater=3, source=Source("open"))
    held = [log.next_page(f"r{number}", later(number)).task.id for number in (1, 2, 3)]  # nothing is free any more
    newcomer = log.next_page("r4", later(10))
    assert newcomer.task.id == held[0]  # that of the one who came first
    assert not answer(log, "r4", newcomer, now=later(11)).late
    following = log.next_page("r4", later(12))  # who has answered keeps the next one
    assert following.task.id == held[1]
    assert log.next_page("r5", later(13)).task.id == held[2]
    assert log.next_page("r6", later(14)).task.id == held[2]
    first = log.find_task_page("r3", held[2])
    assert not answer(log, "r3", first, now=later(15)).late  # an answer goes before those who only look
    assert answer(log, "r2", log.find_task_page("r2", held[1]), now=later(16)).late  # r4 has it, who works
    assert log.next_page("r6", later(17)) is None
    assert_whole(log)


def test_raters_with_a_link_keep_their_slot_from_the_start(begin):
    log = begin(tasks=1, overlap=1, raters=2)
    assert log.next_page("r1", START) is not None and log.next_page("r2", START) is None


def test_visits_of_a_platform_are_kept_by_hash_and_forgotten(begin):
    log = begin(raters=0)
    rater = log.find_rater_by_identity("prolific", "5f", {"PROLIFIC_PID": "5f"})
    for number in (1, 2):
        log.begin_visit(rater.id, f"hash{number}", {"PROLIFIC_PID": "5f", "SESSION_ID": str(number)})
    found, visit = log.find_visit("hash2")
    assert found == rater and visit.parameters["SESSION_ID"] == "2"
    assert visit.person == log.find_visit("hash1")[1].person == "hash1"
    assert log.find_visit("hash3") is None
    log.forget(rater.id)
    assert log.find_visit("hash1") is None and log.find_visit("hash2") is None
    assert_whole(log)


def test_many_threads_of_two_servers_fill_every_slot_once(begin):
    logs = [begin(tasks=12, overlap=3, raters=8, per_rater=12), begin(tasks=12, overlap=3, raters=8, per_rater=12)]
    calls = [lambda rater=f"r{i + 1}", log=logs[i % 2]: work_through(log, rater) for i in range(8)]
    tasks = in_parallel(*calls)
    assert all(len(set(mine)) == len(mine) for mine in tasks)
    assert Counter(task for mine in tasks for task in mine) == {f"im{i}": 3 for i in range(12)}
    assert not any(one.late for one in logs[0].answers())
    assert_whole(logs[0])


CHANGES = (
    "UPDATE event SET body = '{}'",
    "DELETE FROM event",
    "UPDATE task SET payload = '{}'",
    "DELETE FROM task",
    "UPDATE study SET toml = ''",
    "DELETE FROM study",
)


@pytest.mark.parametrize("change", CHANGES)
def test_frozen_tables_refuse_changes(begin, change):
    log = begin()
    log.next_page("r1", START)
    with pytest.raises(sa.exc.DatabaseError, match="are never"):
        log.database.write(lambda connection: connection.exec_driver_sql(change))
    assert_whole(log)


def test_sqlite_refuses_replacement_also_through_a_foreign_connection(tmp_path):
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(make_plan(tmp_path), make_tasks(2))
    log.add_raters(["a"])
    log.next_page("r1", START)
    (event,) = log.events()
    foreign = sqlite3.connect(tmp_path / "study.db", isolation_level=None)
    assert foreign.execute("PRAGMA recursive_triggers").fetchone() == (0,)
    columns = "seq, key, at, study, rater, n, task, kind, body"
    for values in (
        f"({event.seq}, 'new', '', '', 9, 9, NULL, 'answered', '{{}}')",
        f"(NULL, '{event.key}', '', '', 9, 9, NULL, 'answered', '{{}}')",
        "(NULL, 'new', '', '', 1, 1, NULL, 'answered', '{}')",
    ):
        with pytest.raises(sqlite3.IntegrityError, match="rows of event are never replaced"):
            foreign.execute(f"INSERT OR REPLACE INTO event ({columns}) VALUES {values}")
    for table in ("task", "study"):
        with pytest.raises(sqlite3.IntegrityError, match=f"rows of {table} are never replaced"):
            foreign.execute(f"INSERT OR REPLACE INTO {table} SELECT * FROM {table}")
    foreign.close()
    assert list(log.events()) == [event]
    assert_whole(log)


def test_postgresql_refuses_truncation(postgres, tmp_path):
    log = StudyLog.open(postgres)
    log.begin(make_plan(tmp_path), make_tasks(2))
    for table in ("event", "task", "study"):
        for role in ("origin", "replica"):  # a superuser's way around ordinary triggers

            def truncate(connection, table=table, role=role):
                connection.exec_driver_sql(f"SET LOCAL session_replication_role = {role}")
                connection.exec_driver_sql(f"TRUNCATE {table}")

            with pytest.raises(sa.exc.DatabaseError, match=f"rows of {table} are never"):
                log.database.write(truncate)
    log.close()


def test_the_next_task_is_found_through_an_index(tmp_path):
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(make_plan(tmp_path), make_tasks(50))
    with log.database.reading() as connection:
        sql = str(tables.NEXT_SLOT.compile(log.database.engine)).replace("\n", " ")
        steps = [row[-1] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {sql}", (0, "", "", 1, 1, 0))]
    assert any("USING INDEX slot_next (done=?)" in step for step in steps), steps
    assert any("USING COVERING INDEX event_rater_task (rater=? AND task=?)" in step for step in steps), steps
    assert not any("TEMP B-TREE" in step for step in steps), steps


def test_a_full_disk_confirms_nothing_and_passes(tmp_path):
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(make_plan(tmp_path), make_tasks(5))
    log.add_raters(["a"])
    page = log.next_page("r1")
    restricted = {"pages": 10}

    def restrict(connection, _):
        connection.execute(f"PRAGMA max_page_count={restricted['pages']}")

    sa.event.listen(log.database.engine, "connect", restrict)
    log.close()
    with pytest.raises(DatabaseAway, match="full") as error:
        answer(log, "r1", page, comment="long " * 2000)
    assert error.value.filename == str(tmp_path / "study.db")
    assert log.answers() == []
    restricted["pages"] = 100_000
    log.close()
    assert answer(log, "r1", page, comment="long " * 2000).new
    assert_whole(log)


def test_a_page_that_is_open_needs_no_turn_at_writing(begin):
    log = begin()
    page = log.next_page("r1", START)
    answer(log, "r1", page)
    second = log.next_page("r1", START)
    assert (page.previous, second.previous) == ("", page.name)
    log.find_task_page("r1", second.task.id)  # as every request does: what the rater did is read
    count = len(list(log.events()))

    def refuse(change):
        raise AssertionError("a reload wrote")

    write, log.database.write = log.database.write, refuse
    assert log.next_page("r1", START) == second
    with pytest.raises(AssertionError, match="a reload wrote"):  # the lease has ended, so it begins again
        log.next_page("r1", later(LEASE + 1))
    log.database.write = write
    assert len(list(log.events())) == count


def test_an_exclusion_by_another_process_counts_at_once(begin, database):
    log = begin()
    assert not log.find_rater_by_token("hash0").excluded
    log.next_page("r1", START)
    other = StudyLog.open(database)
    other.exclude("r1", "failed the checks")
    assert log.find_rater_by_token("hash0").excluded and log.next_page("r1", START) is None
    assert log.find_rater_by_token("hash9") is None


def test_a_read_only_database_confirms_nothing_and_passes(begin):
    log = begin()
    page = log.next_page("r1", START)
    setting = ["PRAGMA query_only=1" if log.database.sqlite else "SET default_transaction_read_only = on"]

    def restrict(connection, _):
        if setting:
            connection.execute(setting[0])
            if not log.database.sqlite:
                connection.commit()

    sa.event.listen(log.database.engine, "connect", restrict)
    log.close()
    for attempt in (lambda: answer(log, "r1", page), lambda: log.next_page("r2"), lambda: log.exclude("r1", "why")):
        with pytest.raises(DatabaseAway, match=r"read-?only"):
            attempt()
    assert log.answers() == [] and log.find_task_page("r1", page.task.id) is not None  # reading goes on
    setting.clear()
    log.close()
    assert answer(log, "r1", page).new
    assert_whole(log)


def test_a_server_that_is_down(postgres, tmp_path):
    url = sa.make_url(postgres).set(port=1, password="secret")
    with pytest.raises(DatabaseAway) as error:
        StudyLog.open(url.render_as_string(hide_password=False))
    assert "secret" not in str(error.value)


def test_a_file_that_is_no_database(tmp_path):
    (tmp_path / "study.db").write_text("not a database, but a text that is long enough to be looked at" * 30)
    with pytest.raises(DatabaseAway, match="file is not a database"):
        StudyLog.open(tmp_path / "study.db")
