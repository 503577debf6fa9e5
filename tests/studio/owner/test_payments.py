"""Who is to be paid: statuses of raters whom a panel sends, and the tables for it."""

import csv
import io
import json
import stat
import sys
from datetime import timedelta

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")
from tests.studio.collect.test_rater_pages import Fields, browser, filled
from tests.studio.owner.test_owner_pages import browser as owner_browser
from tests.studio.studies import Study, prolific

from captious.studio.collect.sessions import get_study_name
from captious.studio.collect.study_plan import Checks, Thresholds
from captious.studio.owner._payments import list_payments
from captious.studio.owner.export import export_study
from captious.studio.owner.raters import compute_rater_progress

NOW = timedelta(0)


def arrive(study, person, agree="yes"):
    """A person whom Prolific sends; gives the browser and the page after the consent."""
    client = browser(study)
    page = client.get(f"/s/{get_study_name(study.plan)}?PROLIFIC_PID={person}&STUDY_ID=s&SESSION_ID=sub-{person}")
    token = Fields(page.text).hidden["csrf"]
    return client, client.post("/consent", data={"agree": agree, "csrf": token})


def rate(client, page, number=1000, **changes):
    """Answer so many pages; gives the last page."""
    while number and 'name="key"' in page.text:
        page = client.post("/task", data=filled(page.text, **changes))
        number -= 1
    return page


@pytest.fixture
def study(tmp_path):
    """Three people work, one fails a check, others decline, leave, are excluded or come when nothing is left."""
    checks = Checks(gold="gold.jsonl", every=2, flag=Thresholds(failed=1, seconds=0))
    study = Study(
        tmp_path,
        "labels",
        number=4,
        overlap=4,
        per_rater=3,
        gold=["t4"],
        consent="Do you agree?",
        panel=prolific(),
        checks=checks,
        pay=12.0,
    )
    rate(*arrive(study, "good"), label="old", seconds="30")
    rate(*arrive(study, "wrong"), label="young", seconds="60")  # the expected label of the check is old
    arrive(study, "no", agree="no")
    rate(*arrive(study, "silly"), number=1, label="none")
    rate(*arrive(study, "early"), number=1, label="old")  # and leaves
    study.log.exclude("r4", "always none")
    rate(*arrive(study, "third"), label="old", seconds="30")
    rate(*arrive(study, "rest"), label="old", seconds="30")
    return study


def rows_of(study, later=NOW):
    events = list(study.log.events())
    raters = compute_rater_progress(
        study.plan, study.log.tasks(), events, study.log.list_rater_ids(), now=events[-1].at + later
    )
    return {one.person: one for one in list_payments(study.plan, raters, study.log.identities())}


def test_everybody_has_a_status_and_a_suggestion(study):
    arrive(study, "late")
    rows = rows_of(study)
    assert {person: (one.status, one.action) for person, one in rows.items()} == {
        "good": ("done", "approve"),
        "wrong": ("done", "look"),
        "no": ("declined", "ask to return"),
        "silly": ("excluded", "look"),
        "early": ("working", "wait"),
        "third": ("done", "approve"),
        "rest": ("done", "approve"),  # told that others have open what is left, and given the code
        "late": ("came when full", "approve"),
    }
    assert rows["wrong"].reason == "failed 1 of 1 checks" and rows["silly"].reason == "excluded: always none"
    assert (rows["good"].passed, rows["good"].failed, rows["good"].others["SESSION_ID"]) == (1, 0, "sub-good")
    assert rows["good"].minutes == pytest.approx(4 * 0.5)  # three tasks and a check, half a minute each
    assert rows["good"].pay == pytest.approx(12 * 2 / 60)


def test_who_is_silent_for_longer_than_a_task_is_kept_has_left(study):
    lease = timedelta(seconds=study.plan.lease)
    assert rows_of(study, 0.9 * lease)["early"].status == "working"
    gone = rows_of(study, 1.1 * lease)["early"]
    assert (gone.status, gone.action, gone.reason) == ("left", "look", "left after 1 task of 3")
    last = list(study.log.events())[-1].at
    study.log.pause("lunch", now=last + 0.1 * lease)
    assert rows_of(study, 5 * lease)["early"].status == "working"  # time stands still
    study.log.resume(last + 5.1 * lease)
    assert rows_of(study, 0.8 * lease)["early"].status == "working"  # 0.9 of the lease in all, without the pause
    assert rows_of(study, 1.1 * lease)["early"].status == "left"


def test_who_declines_and_agrees_later_is_at_work(study):
    client, page = arrive(study, "hesitant", agree="no")
    assert "You did not agree" in page.text and rows_of(study)["hesitant"].status == "declined"
    token = Fields(client.get("/consent").text).hidden["csrf"]
    study.log.release("r5", "makes room")
    assert 'name="key"' in client.post("/consent", data={"agree": "yes", "csrf": token}).text
    assert rows_of(study)["hesitant"].status == "working"


def test_the_files_for_a_panel(study, tmp_path):
    plain = export_study(study.log, tmp_path / "plain")
    assert not any("pay" in name for name in plain.rows)
    assert not any(b"sub-good" in path.read_bytes() for path in (tmp_path / "plain").iterdir())
    result = export_study(study.log, tmp_path / "paid", payments=True)
    assert result.rows["payments.csv"] == 7 and result.rows["approve.txt"] == 3
    assert (tmp_path / "paid" / "approve.txt").read_text() == "good\nthird\nrest\n"
    rows = list(csv.DictReader((tmp_path / "paid" / "payments.csv").open()))
    assert rows[0] == {
        "rater": "r1",
        "participant": "good",
        "STUDY_ID": "s",
        "SESSION_ID": "sub-good",
        "status": "done",
        "tasks": "3",
        "minutes": "2.0",
        "checks_passed": "1",
        "checks_failed": "0",
        "pay": "0.4",
        "suggested": "approve",
        "reason": "did all tasks",
    }
    if sys.platform != "win32":
        assert stat.S_IMODE((tmp_path / "paid" / "payments.csv").stat().st_mode) == 0o600


def test_the_export_says_who_was_asked_for_and_who_came(study, tmp_path):
    export_study(study.log, tmp_path / "out")
    who = json.loads((tmp_path / "out" / "participants.json").read_text())
    # silly is excluded, no and late never answered; good, wrong, early, third and rest did.
    assert (who["took_part"], who["excluded"], who["simulated"]) == (5, 1, 0)
    assert who["requested"]["pay per hour"] == "12.00" and who["requested"]["panel"] == "Prolific"


def test_the_owner_sees_the_table_and_takes_the_files(study):
    client = owner_browser(study)
    page = client.get("/owner").text
    table = page[page.index('id="payments"') : page.index('id="changes"')]
    assert ">good<" in table and "did not agree to take part" in table and "ask to return" in table
    listed = list(csv.DictReader(io.StringIO(client.get("/owner/export/payments.csv").text)))
    assert [row["status"] for row in listed] == ["done", "done", "declined", "excluded", "working", "done", "done"]
    assert client.get("/owner/export/approve.txt").text.splitlines() == ["good", "third", "rest"]
    assert b"payments" not in client.get("/owner/export.zip").content
    assert "1 at work" in page and "4 done" in page


def test_the_command(study, run, tmp_path):
    out = tmp_path / "paid"
    study.log.close()
    code, printed, _ = run("studio", "export", tmp_path / "study.toml", "--out", out, "--payments", "--json")
    assert code == 0 and json.loads(printed)["rows"]["payments.csv"] == 7 and (out / "payments.csv").is_file()
