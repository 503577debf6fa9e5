"""``captious studio status``, ``exclude``, ``reinstate``, ``release``, ``simulate`` and ``demo``, as typed."""

import json
import os
import re
import signal
import subprocess
import sys
import urllib.request
from datetime import datetime, timedelta, timezone

import pytest

pytest.importorskip("starlette", reason="starlette is not installed: pip install 'captious[studio]'")

from captious.cli.app import main
from captious.data import DEMO
from captious.studio.collect.log import open_study

PLAN = f"""title = "Dogs"
kind = "ratings"
captions = {json.dumps([str(DEMO / "predictions" / f"{name}.json") for name in ("parrot", "expert")])}
references = {json.dumps(str(DEMO / "references.json"))}
together = 2
overlap = 2
per_rater = 4
items = 8
[[aspects]]
name = "overall"
question = "How good?"
"""


@pytest.fixture
def study(tmp_path, monkeypatch):
    """A study of eight pages that nobody has answered, in the present folder."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "study.toml").write_text(PLAN)
    return tmp_path / "study.toml"


@pytest.fixture
def captious(monkeypatch, capsys):
    """``captious("studio status …")`` gives the exit code, and what was printed to both streams."""

    def run(line, *words):
        monkeypatch.setattr(sys, "argv", ["captious", *line.split(), *words])
        with pytest.raises(SystemExit) as end:
            main()
        printed = capsys.readouterr()
        return end.value.code or 0, printed.out, printed.err

    return run


def test_a_study_is_simulated_watched_and_mended(study, captious):
    code, out, err = captious("studio simulate study.toml --raters 4 --share careful=0.5,lazy=0.5 --json")
    data = json.loads(out)
    assert code == 0 and "4 of 4 raters are simulated" in err
    assert {row["bot"]: row["raters"] for row in data["simulated"]} == {"careful": 2, "lazy": 2}
    assert data["coverage"]["answers"] == 16

    code, out, _ = captious("studio status study.toml --json --samples 50 --metrics rouge")
    status = json.loads(out)
    assert status["coverage"]["places"] == [8, 8] and status["metrics"]["metrics"]["ROUGE-L"]["value"]
    code, out, _ = captious("studio status study.toml --samples 20")
    assert "2 or more" in out and "100 %" in out and "Agreement so far" in out

    assert captious("studio exclude study.toml --rater r2 --reason", "too fast") == (0, "r2 is excluded\n", "")
    status = json.loads(captious("studio status study.toml --json --samples 0")[1])
    assert status["coverage"]["answers"] == 12
    excluded = next(rater for rater in status["raters"] if rater["id"] == "r2")
    assert (excluded["state"], excluded["reason"]) == ("excluded", "too fast")
    code, _, err = captious("studio exclude study.toml --rater r2 --reason again")
    assert (code, err) == (2, "captious: rater r2 is excluded already\n")
    assert captious("studio reinstate study.toml --rater r2 --reason mistake --json")[0] == 0
    assert json.loads(captious("studio status study.toml --json --samples 0")[1])["coverage"]["answers"] == 16


def test_a_study_whose_file_was_edited_or_is_gone_is_read_from_the_database(study, captious):
    captious("studio simulate study.toml --raters 4")
    text = study.read_text()
    study.write_text(text.replace("Dogs", "Cats") + "scale = [1, 9]\n")
    code, out, err = captious("studio serve study.toml")
    assert code == 2 and out == "" and len(err.splitlines()) == 1
    assert "was edited after the study began; run captious studio amend study.toml --why" in err
    for gone in (False, True):
        if gone:
            study.unlink()
        status = json.loads(captious("studio status study.toml --json --samples 0")[1])
        assert status["coverage"]["answers"] == 16
        assert captious("studio verify study.toml")[0] == 0
        assert captious(f"studio export study.toml --out export{gone}")[0] == 0
        assert (study.parent / f"export{gone}" / "study.toml").read_text() == text
    code, out, _ = captious("studio show study.toml --original")
    assert (code, out) == (0, text)
    study.write_bytes(out.encode())
    assert open_study(study)[0].title == "Dogs"


def test_a_study_is_amended_paused_and_shown(study, captious):
    captious("studio simulate study.toml --raters 2 --share careful=1")
    study.write_text(
        PLAN.replace("Dogs", "Dogs?").replace("overlap = 2", "overlap = 3").replace("items = 8", "items = 9")
    )
    code, out, err = captious("studio amend study.toml --why", "a question")
    assert (code, err) == (0, "")
    assert out == ("study.toml is amended\n  title: Dogs → Dogs?\n  items: 8 → 9\n  overlap: 2 → 3\n  tasks: 8 → 9\n")
    assert captious("studio pause study.toml --message Later.")[1].startswith("study.toml is paused; resume it with:")
    assert "the study is paused" in captious("studio status study.toml --samples 0")[2]
    assert json.loads(captious("studio show study.toml --json")[1])["paused"]
    assert captious("studio resume study.toml") == (0, "study.toml goes on\n", "")
    assert "running" in captious("studio show study.toml")[1]
    account = json.loads(captious("studio show study.toml --json")[1])
    assert account["changes"][0]["difference"][2] == "overlap: 2 → 3" and not account["paused"]
    code, out, _ = captious("studio export study.toml --out export")
    assert "amended after 8 answers: title: Dogs → Dogs?; items: 8 → 9" in " ".join(out.split())
    rows = [json.loads(line) for line in (study.parent / "export" / "changes.jsonl").read_text().splitlines()]
    assert [(row["kind"], row["answers"]) for row in rows] == [("amended", 8), ("paused", 8), ("resumed", 8)]
    assert rows[0]["why"] == "a question" and captious("studio verify study.toml")[0] == 0
    assert captious("studio amend study.toml --why again")[0] == 2


def test_the_way_out_of_a_refused_amendment_is_a_study_of_the_rest(study, captious):
    _, log = open_study(study)
    log.add_raters(["one"])
    judged = []
    for _ in range(3):
        page = log.next_page("r1")
        ratings = {choice: {"overall": 3} for choice in page.order}
        log.record("r1", "answered", page.name, page.task.id, {"answer": {"ratings": ratings}})
        judged.append(page.task.item)
    items = {task.item for task in log.tasks().values()}
    log.close()
    study.write_text(f"{PLAN}scale = [1, 9]\n")
    code, _, err = captious("studio amend study.toml --why", "a finer scale")
    command = re.search(r"captious (studio new study-2\.toml --rest-of study\.toml);", err)[1]
    assert code == 2 and "aspects.overall.scale was [1, 5] and is [1, 9]" in err
    code, out, err = captious(command)
    assert (code, err) == (0, "") and out.startswith("study-2.toml: the 5 items that nobody has judged")
    plan, second = open_study(study.with_name("study-2.toml"))
    rest = {task.item for task in second.tasks().values()}
    second.close()
    assert plan.aspects[0].scale == (1, 9) and rest == items - {*judged}
    unjudged = captious("studio show study.toml --unjudged")[1].split()
    assert {*unjudged} == items - {*judged}


def test_release_frees_what_a_rater_or_nobody_has_open_any_more(study, captious):
    _, log = open_study(study)
    log.add_raters(["one", "two"])
    log.next_page("r2")
    log.next_page("r1", datetime.now(timezone.utc) - timedelta(minutes=30))  # 10 minutes over the lease
    assert captious("studio release study.toml")[1] == "open tasks released of r1\n"
    assert captious("studio release study.toml")[1] == "no open task whose time has run out\n"
    assert json.loads(captious("studio release study.toml --rater r2 --json")[1])["raters"] == ["r2"]
    assert [event.kind for event in log.events()][-2:] == ["released", "released"]
    assert not any(slot.lease for slot in log.slots())
    log.close()


def test_release_suspicious_frees_what_a_silent_crowd_has_open(study, captious):
    _, log = open_study(study)
    log.add_raters([str(number) for number in range(13)])
    now = datetime.now(timezone.utc)
    for number in range(1, 14):
        at = now - timedelta(minutes=5) if number <= 1 else now - timedelta(minutes=2 * (number == 2))
        log.record(f"r{number}", "joined", f"j{number}", now=at)
        page = log.next_page(f"r{number}", at)
        if number == 1:
            body = {"answer": {}, "order": list(page.order)}
            log.record("r1", "answered", "a1", page.task.id, body, at)
            log.next_page("r1", at)
    held = {slot.rater for slot in log.slots() if slot.lease}
    assert {"r1", "r2"} < held and len(held) > 10
    result = json.loads(captious("studio release study.toml --suspicious --json")[1])
    assert {*result["raters"]} == held - {"r1", "r2"}  # r1 has answered, r2 came alone and has not had ten times 20 s
    reasons = {event.body["reason"] for event in log.events() if event.kind == "released"}
    assert reasons == {"one of 11 who joined within minutes and have answered nothing"}
    assert {slot.rater for slot in log.slots() if slot.lease} == {"r1", "r2"}
    assert captious("studio release study.toml --suspicious")[1] == "no open task of a suspicious rater\n"
    code, _, err = captious("studio release study.toml --suspicious --rater r1")
    assert code == 2 and "exclude each other" in err
    log.close()


def test_who_is_silent_for_long_is_suspicious(study, captious):
    _, log = open_study(study)
    log.add_raters(["one"])
    log.next_page("r1", datetime.now(timezone.utc) - timedelta(seconds=201))  # of 20 s a task, and 20 min of lease
    assert captious("studio release study.toml --suspicious")[1] == "open tasks released of r1\n"
    log.close()


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("status study.toml", "study.db: contains no study yet; serve study.toml first"),
        ("status nothing.toml", "nothing.toml: no such study, expected a file that captious studio new wrote"),
        ("simulate study.toml --share careful", "--share careful: expected a kind and its share, such as careful=0.5"),
        ("exclude study.toml --rater r1", "Missing option"),
        (
            "new s.toml --kind yesno --captions a.json",
            "not about captions; pass --tasks",
        ),
        ("new s.toml --kind ratings --rest-of study.toml", "--rest-of takes everything from the other study"),
        ("amend study.toml", "Missing option"),
        ("resume nothing.toml", "nothing.toml: no such study"),
    ],
)
def test_mistakes_are_one_line(line, message, study, captious):
    code, out, err = captious(f"studio {line}")
    assert code == 2 and out == "" and message in err and len(err.splitlines()) == 1


def test_a_database_that_is_none_is_one_line_without_control_characters(study, captious, tmp_path):
    (tmp_path / "study.db").symlink_to("study.db")
    code, out, err = captious("studio status study.toml")
    assert (code, out, len(err.splitlines())) == (2, "", 1) and "study.db" in err
    (tmp_path / "study.db").unlink()
    captious("studio simulate study.toml --raters 1")
    content = (tmp_path / "study.db").read_bytes()
    (tmp_path / "study.db").write_bytes(content.replace(b"CREATE TABLE event", b"CREATE \x1b[3\x07 event"))
    code, out, err = captious("studio status study.toml")
    assert (code, out, len(err.splitlines())) == (2, "", 1) and "\x1b" not in err and "\x07" not in err


def test_the_demo_prints_two_links_that_open_and_ends_with_ctrl_c(tmp_path):
    command = [sys.executable, "-m", "captious", "studio", "demo", "--port", "0", "--no-browser"]
    environment = {**os.environ, "TMPDIR": str(tmp_path)}
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment)
    try:
        lines = [process.stdout.readline() for _ in range(4)]
        rate, owner = (re.search(r"http://\S+", line)[0] for line in lines[1:3])
        for link, text in ((rate, "I agree"), (owner, "20 of 21 raters are simulated")):
            opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
            assert text in opener.open(link, timeout=60).read().decode()
        process.send_signal(signal.SIGINT)
        assert process.wait(60) == 0 and not any(tmp_path.iterdir())
    finally:
        process.kill()
        process.communicate()
