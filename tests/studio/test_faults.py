"""Real server processes over HTTP, killed, starved and asked twice: what was confirmed is there, once."""

import asyncio
import random
import resource
import sqlite3
from collections import Counter
from contextlib import ExitStack

import pytest
from lab.postgres import PostgreSQL, missing
from lab.studio.browser import Browser, TaskPage
from lab.studio.raters import Rater, Tally, audit
from lab.studio.serving import Server, captious, invite, write_study

for extra in ("starlette", "uvicorn", "jinja2", "sqlalchemy"):
    pytest.importorskip(extra, reason=f"{extra} is not installed: pip install 'captious[studio]'")

from captious.studio.collect.log import StudyLog  # after the check that its library is there

# No test waits longer; a busy machine needs a small part of it.
SECONDS = 300
needs_limits = pytest.mark.skipif(not hasattr(resource, "prlimit"), reason="only Linux sets limits of another process")


def wait(job):
    """A coroutine to its end, in bounded time."""
    return asyncio.run(asyncio.wait_for(job, SECONDS))


def people(links, servers, tally, patient=False):
    """A rater a link; each goes to the first server that is alive."""

    def address():
        return next((server for server in servers if server.process.poll() is None), servers[0]).address

    return [Rater(link, address, tally, random.Random(number), patient) for number, link in enumerate(links)]


def answers(database, key):
    """The answers of the log that a page's key names."""
    log = StudyLog.open(database)
    events = [event for event in log.events() if event.kind == "answered" and key in event.key]
    log.close()
    return events


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """A server of 40 tasks on SQLite, for tests that leave it running."""
    study = write_study(tmp_path_factory.mktemp("small"), tasks=40, systems=2)
    database = f"sqlite:///{study.parent / 'study.db'}"
    with Server(study, database) as server:
        yield server


@pytest.fixture
def one(small):
    """A new rater of the small study."""
    (link,) = invite(small.study, 1, small.database)
    (rater,) = people([link], [small], Tally())
    return rater


def test_one_answer_sent_ten_times_in_parallel_is_stored_once(small, one):
    async def press():
        page = await one.open()
        form = page.answered(one.rng)
        tabs = [Browser(small.address, dict(one.browser.cookies)) for _ in range(10)]
        responses = await asyncio.gather(*(tab.post("/task", form) for tab in tabs))
        return page.key, {response.status for response in responses}

    key, statuses = wait(press())
    assert 303 in statuses and statuses <= {303, 429}  # 429: five answers a second
    assert len(answers(small.database, key)) == 1


def test_a_double_click_and_a_reload_store_once_and_go_on_to_the_next_task(small, one):
    async def press():
        page = await one.open()
        assert await one.save(page, repeated=True)
        return page, await one.page(), await one.page()

    page, following, reloaded = wait(press())
    assert one.tally.errors == [] and len(answers(small.database, page.key)) == 1
    assert following.hidden["page"] == reloaded.hidden["page"] != page.hidden["page"]


def test_a_second_device_resumes_the_same_task_and_two_answers_are_both_kept(small, one):
    async def press():
        page = await one.open()
        (other,) = people([one.link], [small], Tally())
        second = await other.open()
        assert await one.save(page) and await other.save(second)
        return page, second

    page, second = wait(press())
    assert page.hidden["page"] == second.hidden["page"] and page.key != second.key
    assert len(answers(small.database, page.key)) == len(answers(small.database, second.key)) == 1


def test_a_kill_of_the_server_loses_no_confirmed_answer(tmp_path):
    study = write_study(tmp_path, tasks=300, systems=2)
    database = f"sqlite:///{tmp_path / 'study.db'}"
    tally = Tally()
    with Server(study, database) as server:
        links = invite(study, 8, database)

        async def kills():
            raters = people(links, [server], tally, patient=True)
            jobs = [asyncio.create_task(rater.work(lambda: len(tally.confirmed) >= 60, 0.3)) for rater in raters]
            for number in (15, 30):
                while len(tally.confirmed) < number:
                    await asyncio.sleep(0.01)
                server.kill()
                await asyncio.to_thread(server.start)
            await asyncio.gather(*jobs)

        wait(kills())
    check = audit(database, [tally], overlap=3)
    assert tally.errors == [] and tally.outages > 0
    assert len(tally.confirmed) >= 60 and check.faults == 0
    captious("studio", "verify", study, "--db", database)
    with sqlite3.connect(tmp_path / "study.db") as connection:
        assert connection.execute("PRAGMA integrity_check").fetchone() == ("ok",)


@pytest.fixture
def own_postgres():
    """A PostgreSQL that the test may kill."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'captious[studio-postgres]'")
    if missing():
        pytest.skip(missing())
    with PostgreSQL() as server:
        yield server


def test_a_kill_of_postgresql_loses_nothing_and_the_server_goes_on_by_itself(tmp_path, own_postgres):
    study = write_study(tmp_path, tasks=300, systems=2)
    database = own_postgres.database()
    tally = Tally()
    with Server(study, database) as server:
        links = invite(study, 8, database)

        async def kills():
            raters = people(links, [server], tally, patient=True)
            jobs = [asyncio.create_task(rater.work(lambda: len(tally.confirmed) >= 40, 0.3)) for rater in raters]
            while len(tally.confirmed) < 15:
                await asyncio.sleep(0.01)
            own_postgres.kill()
            failed = tally.outages
            while tally.outages < failed + 8:  # requests do arrive while the database is away
                await asyncio.sleep(0.01)
            assert not await asyncio.to_thread(server.answers)
            await asyncio.to_thread(own_postgres.start)
            await asyncio.gather(*jobs)

        wait(kills())
        printed = server.log.read_text()
    assert tally.errors == [] and len(tally.confirmed) >= 40
    assert audit(database, [tally], overlap=3).faults == 0
    captious("studio", "verify", study, "--db", database)
    assert "Traceback" not in printed
    assert len(printed.splitlines()) < 30  # one line an outage, not one a request


def test_of_two_servers_one_is_killed_and_the_other_goes_on(tmp_path, postgres):
    # 20 tasks for 3 raters each: the 12 raters compete for the last ones.
    study = write_study(tmp_path, tasks=20, systems=2)
    tally = Tally()
    with ExitStack() as stack:
        first, second = (stack.enter_context(Server(study, postgres)) for _ in range(2))
        links = invite(study, 12, postgres)

        async def kills():
            raters = [*people(links[:6], [first, second], tally, True), *people(links[6:], [second], tally, True)]
            jobs = [asyncio.create_task(rater.work(lambda: False, 0.25)) for rater in raters]
            while len(tally.confirmed) < 20:
                await asyncio.sleep(0.01)
            first.kill()
            await asyncio.gather(*jobs)

        wait(kills())
    check = audit(postgres, [tally], overlap=3)
    assert tally.errors == [] and check.faults == 0
    # Nobody left, so every task has its three answers and no more.
    assert len(tally.confirmed) == check.answers == 60
    captious("studio", "verify", study, "--db", postgres)


def refused(raters, pages):
    """Everybody sends an answer that cannot be stored; statuses, and the last page's text."""

    async def send():
        responses = [
            await rater.browser.post("/task", page.answered(rater.rng))
            for rater, page in zip(raters, pages, strict=True)
        ]
        for rater in raters:
            await rater.browser.close()
        return Counter(response.status for response in responses), responses[-1].text

    return wait(send())


def open_pages(raters):
    async def pages():
        opened = [await rater.open() for rater in raters]
        for rater in raters:
            await rater.browser.close()
        return opened

    return wait(pages())


def save_all(raters, pages):
    async def save():
        return [await rater.save(page) for rater, page in zip(raters, pages, strict=True)]

    return wait(save())


@needs_limits
def test_a_full_disk_confirms_nothing_and_is_over_when_there_is_room(tmp_path):
    study = write_study(tmp_path, tasks=20, systems=1)
    database = f"sqlite:///{tmp_path / 'study.db'}"
    tally = Tally()
    with Server(study, database) as server:
        raters = people(invite(study, 4, database), [server], tally)
        pages = open_pages(raters)
        _, highest = resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE)
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (0, highest))  # no file takes a byte more
        statuses, text = refused(raters, pages)
        assert statuses == {503: 4} and "cannot be saved" in text
        resource.prlimit(server.process.pid, resource.RLIMIT_FSIZE, (highest, highest))
        assert save_all(raters, pages) == [True] * 4
    check = audit(database, [tally], overlap=3)
    assert check.answers == 4 and check.faults == 0
    captious("studio", "verify", study, "--db", database)


def test_a_read_only_database_confirms_nothing_and_is_over_when_it_takes_writes(tmp_path, postgres_server, postgres):
    study = write_study(tmp_path, tasks=20, systems=1)
    tally = Tally()
    with Server(study, postgres) as server:
        raters = people(invite(study, 4, postgres), [server], tally)
        pages = open_pages(raters)
        postgres_server.read_only(postgres, True)
        statuses, text = refused(raters, pages)
        assert statuses == {503: 4} and "cannot be saved" in text
        postgres_server.read_only(postgres, False)
        assert save_all(raters, pages) == [True] * 4
    assert audit(postgres, [tally], overlap=3).answers == 4


def test_an_answer_whose_task_was_given_on_is_kept_and_marked_late(tmp_path):
    study = write_study(tmp_path, tasks=1, systems=1, overlap=1)
    database = f"sqlite:///{tmp_path / 'study.db'}"
    tally = Tally()
    with Server(study, database) as server:
        slow, quick = people(invite(study, 2, database), [server], tally)

        async def rate():
            forgotten = await slow.open()
            assert await quick.open() is None  # the task is kept for the slow one
            log = StudyLog.open(database)
            log.release("r1", "left the room")
            log.close()
            page = await quick.page()
            assert await quick.save(page) and await slow.save(forgotten)
            return forgotten.key, page.key

        late, in_time = wait(rate())
    assert tally.errors == [] and audit(database, [tally], overlap=1).faults == 0
    assert [event.body["late"] for event in answers(database, in_time)] == [False]
    assert [event.body["late"] for event in answers(database, late)] == [True]


def test_a_study_is_amended_and_paused_while_people_rate(tmp_path):
    """A typo, ten more items, overlap 3 to 5, and a pause in the middle; the server runs on, and nothing is lost."""
    study = write_study(tmp_path / "more", tasks=30, systems=2)
    more = {path.name: path.read_text() for path in study.parent.glob("*.jsonl")}
    for path in study.parent.glob("*.jsonl"):
        path.write_text("".join(line for line in more[path.name].splitlines(True)[:20]))
    study.write_text(study.read_text().replace("How good", "How godo").replace("per_rater = 30", "per_rater = 40"))
    database = f"sqlite:///{study.parent / 'study.db'}"
    tally = Tally()

    async def rate(links, enough=lambda: False):
        raters = people(links, [server], tally, patient=True)
        await asyncio.gather(*(rater.work(enough, 0.2) for rater in raters))

    async def read(link):
        rater = people([link], [server], Tally())[0]
        page = await rater.ask("open", lambda: rater.browser.follow(rater.link))
        await rater.browser.close()
        return page.text

    with Server(study, database) as server:
        links = invite(study, 5, database)
        wait(rate(links[:3], lambda: len(tally.confirmed) >= 30))
        before = len(tally.confirmed)
        captious("studio", "pause", study, "--message", "We go on at two.")
        assert "We go on at two." in wait(read(links[0]))
        assert "How godo" in study.read_text()
        study.write_text(study.read_text().replace("How godo", "How good").replace("overlap = 3", "overlap = 5"))
        for path in study.parent.glob("*.jsonl"):
            path.write_text(more[path.name])
        printed = captious("studio", "amend", study, "--why", "a typo, ten more items, five answers each")
        assert "overlap: 3 → 5" in printed and "tasks: 20 → 30" in printed and "How godo? → How good" not in printed
        captious("studio", "resume", study)
        assert "How good is the caption?" in wait(read(links[0]))
        wait(rate(links))
    check = audit(database, [tally], overlap=5)
    assert tally.errors == [] and check.faults == 0 and before >= 30
    assert len(tally.confirmed) == check.answers == 30 * 5
    captious("studio", "verify", study, "--db", database)


def test_a_study_edited_after_it_began_is_refused_in_one_line(tmp_path, run):
    study = write_study(tmp_path, tasks=5)
    assert len(invite(study, 1, str(tmp_path / "study.db"))) == 1
    study.write_text(study.read_text().replace("Load", "Another title"))
    before = sorted(path.name for path in tmp_path.iterdir())
    for command in (("serve", study, "--port", 0), ("invite", study, "--raters", 1)):
        code, printed, error = run("studio", *command)
        assert code == 2 and printed == "" and "study.toml: was edited after the study began" in error
        assert len(error.splitlines()) == 1
        assert sorted(path.name for path in tmp_path.iterdir()) == before  # SQLite's files beside its own are gone


def test_the_lab_reads_a_form_as_a_browser_does():
    text = (
        '<form method=post><input type=hidden name=key value=\'k1\'><input type="hidden" name=csrf value="a&amp;b">'
        "<input type=radio name='rating:0:overall' value=1><input type=radio name='rating:0:overall' value=2></form>"
        "<img alt='' src='/image/t/0'><link rel=stylesheet href=/x.css><script type=module src=/x.js></script>"
    )
    page = TaskPage.read(text)
    assert page.key == "k1" and page.hidden["csrf"] == "a&b" and page.choices == {"rating:0:overall": ["1", "2"]}
    assert page.images == ["/image/t/0"] and page.files == ["/x.css", "/x.js"]
