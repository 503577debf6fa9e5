"""``verify`` finds what was damaged behind the log's back; a backup is the same study."""

import json
import sqlite3
import sys

import pytest

pytest.importorskip("sqlalchemy", reason="sqlalchemy is not installed: pip install 'captious[studio]'")

from tests.studio.logs import START, answer, make_plan, make_tasks, work_through

from captious.cli.app import build_app, run
from captious.errors import InputError
from captious.studio.collect.log import StudyLog
from captious.studio.collect.rating_tasks import build_tasks
from captious.studio.collect.study_plan import read_plan
from captious.studio.collect.verify import back_up, verify

TOML = 'title = "Dogs"\nkind = "ratings"\ncaptions = ["a.jsonl"]\n[[aspects]]\nname = "overall"\nquestion = "Good?"\n'


@pytest.fixture
def study(tmp_path):
    """The TOML file of a study with two answers and an open page."""
    (tmp_path / "a.jsonl").write_text("".join(json.dumps({"id": f"{i}", "caption": "a dog"}) + "\n" for i in range(3)))
    (tmp_path / "study.toml").write_text(TOML)
    plan = read_plan(tmp_path / "study.toml")
    log = StudyLog.open(tmp_path / "study.db")
    log.begin(plan, build_tasks(plan))
    log.add_raters(["a", "b"])
    for rater in ("r1", "r2"):
        answer(log, rater, log.next_page(rater, START))
    log.next_page("r1", START)
    log.close()
    return plan.path


def problems_after(study, *statements):
    """What is wrong after somebody changed the file with other tools."""
    with sqlite3.connect(study.with_suffix(".db")) as connection:
        for statement in statements:
            connection.execute(statement)
    connection.close()
    log = StudyLog.open(study.with_suffix(".db"))
    result = verify(log)
    log.close()
    return {one.name: one.problems for one in result.examined if one.problems}


def test_a_whole_database_has_no_problem(study):
    assert problems_after(study) == {}


def test_an_event_that_was_removed(study):
    problems = problems_after(study, "DROP TRIGGER event_no_delete", "DELETE FROM event WHERE rater = 1 AND n = 2")
    assert problems["triggers"] == ("trigger event_no_delete is missing, so that rows could have been changed",)
    assert problems["numbers of events"] == ("r1: event 2 of 3 is missing",)
    (slot,) = problems["slots as the log says"]
    assert "is done by r1, and the log says kept for r1 until 2026-03-01 12:20:00" in slot


def test_the_last_event_that_was_removed(study):
    problems = problems_after(study, "DROP TRIGGER event_no_delete", "DELETE FROM event WHERE rater = 1 AND n = 3")
    assert problems["numbers of events"] == ("r1: event 3 of 3 is missing",)


def test_events_that_were_made_up(study):
    columns = "key, at, study, rater, n, task, kind, body"
    made_up = f"INSERT INTO event ({columns}) SELECT 'x' || n, at, 'other', 9, n, 'no task', kind, body FROM event"
    problems = problems_after(study, f"{made_up} WHERE rater = 2")
    assert problems["numbers of events"] == ("r9: has 2 events, and is no rater of the study",)
    assert problems["plan"] == (f"2 events belong to a plan of digest other, not to {read_plan(study).digest}",)
    assert problems["tasks of events"][0].endswith("of r9: task 'no task' does not exist")


def test_slots_tasks_and_plans_that_were_changed(study):
    problems = problems_after(
        study,
        "UPDATE slot SET rater = 2, done = 1 WHERE rater IS NULL",
        "DROP TRIGGER task_no_update",
        "UPDATE task SET payload = replace(payload, 'a dog', 'a cat')",
        "DROP TRIGGER study_no_update",
        "UPDATE study SET toml = toml || '#'",
    )
    assert len(problems["slots as the log says"]) == 6 and problems["slots as the log says"][-1] == "… and 1 more"
    assert problems["tasks"] == ("the 3 tasks are not those that the study had when the study began",)
    assert f"and had {read_plan(study).digest} when the study began" in problems["plan"][0]


def test_events_that_are_no_json(study):
    problems = problems_after(study, "DROP TRIGGER event_no_update", "UPDATE event SET body = '{' WHERE seq = 2")
    assert problems["tasks of events"] == (
        "cannot be examined (event 2 is damaged in the database; see captious studio verify)",
    )


def test_pages_of_the_file_that_were_overwritten(study):
    path = study.with_suffix(".db")
    content = bytearray(path.read_bytes())
    content[5 * 4096 : 7 * 4096] = b"\0" * (2 * 4096)
    path.write_bytes(content)
    log = StudyLog.open(path)
    result = verify(log)
    log.close()
    assert result.examined[0].name == "file" and "malformed" in " ".join(result.problems)
    assert result.examined[0].problems


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no modes of files")
def test_answers_of_people_are_for_the_owner_alone(study):
    log = StudyLog.open(study.with_suffix(".db"))
    log.add_raters(["c"])
    back_up(log, study.with_name("copy.db"))
    files = [*study.parent.glob("study.db*"), study.with_name("copy.db")]
    assert len(files) >= 3 and {path.stat().st_mode & 0o777 for path in files} == {0o600}
    log.close()


@pytest.mark.parametrize("database", ["sqlite"], indirect=True)
def test_a_backup_is_the_same_study_while_raters_go_on(database, tmp_path):
    log = StudyLog.open(database)
    log.begin(make_plan(tmp_path), make_tasks(3))
    log.add_raters(["a", "b"])
    work_through(log, "r1")
    assert back_up(log, tmp_path / "copy.db") == (tmp_path / "copy.db").stat().st_size
    copy = StudyLog.open(tmp_path / "copy.db")
    assert list(copy.events()) == list(log.events()) and verify(copy).problems == ()
    work_through(log, "r2")
    assert len(copy.answers()) == 3 and len(work_through(copy, "r2")) == 3  # the copy can go on by itself
    with pytest.raises(InputError, match=r"copy\.db: already exists"):
        back_up(log, tmp_path / "copy.db")
    assert sorted(path.name for path in tmp_path.glob(".*")) == []


def test_a_backup_of_postgresql_is_read_by_psql(postgres_server, postgres, tmp_path):
    log = StudyLog.open(postgres)
    log.begin(make_plan(tmp_path), make_tasks(3))
    log.add_raters(["a"])
    work_through(log, "r1")
    try:
        size = back_up(log, tmp_path / "copy.sql")
    except InputError as error:
        pytest.skip(str(error))
    text = (tmp_path / "copy.sql").read_text()
    assert size == len(text.encode()) and text.count('"rating": 3') == 3 and "event_no_truncate" in text
    log.close()


def test_a_backup_of_postgresql_without_pg_dump(postgres, tmp_path, monkeypatch):
    log = StudyLog.open(postgres)
    log.begin(make_plan(tmp_path), make_tasks(1))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="pg_dump is not installed"):
        back_up(log, tmp_path / "copy.sql")
    assert not (tmp_path / "copy.sql").exists()
    log.close()


def captious(monkeypatch, *arguments):
    monkeypatch.setattr("sys.argv", ["captious", "studio", *map(str, arguments)])
    with pytest.raises(SystemExit) as exit:
        run(build_app())
    return exit.value.code


def test_the_commands(study, monkeypatch, capsys):
    assert captious(monkeypatch, "verify", study) == 0
    assert "nothing is missing, and nothing was changed" in capsys.readouterr().out
    copy = study.with_name("copy.db")
    assert captious(monkeypatch, "backup", study, "--out", copy) == 0
    assert capsys.readouterr().out.strip() == f"{copy}: {copy.stat().st_size:,} bytes"
    assert captious(monkeypatch, "verify", study, "--db", copy, "--json") == 0
    assert json.loads(capsys.readouterr().out)["rows"] == {"task": 3, "rater": 2, "event": 5, "slot": 9}
    problems_after(study, "UPDATE slot SET done = 1 WHERE done = 0")
    assert captious(monkeypatch, "verify", study) == 2
    assert "and the log says free" in capsys.readouterr().out.replace("\n", " ")
    study.write_text(TOML.replace("Dogs", "Cats"))  # the database is what is examined, not the file
    assert captious(monkeypatch, "verify", study, "--db", copy) == 0
    study.unlink()
    assert captious(monkeypatch, "verify", study, "--db", copy) == 0
