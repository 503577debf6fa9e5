"""The programs that the tests of the studio run on: each works here, or its tests skip with the reason."""

import urllib.request
from types import SimpleNamespace

import pytest
from tests.studio.hostile import HOSTILE, ran


async def app(scope, receive, send):
    """Answers every request with a page that holds one script."""
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": message["type"] + ".complete"})
            if message["type"] == "lifespan.shutdown":
                return
    headers = [(b"content-type", b"text/html")]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": b"<title>served</title><script>window.hostile = 1</script>"})


def test_a_browser_opens_a_served_page_and_sees_that_a_script_ran(serve, page):
    page.goto(serve(app))
    assert page.title() == "served"
    assert ran(page)


def test_a_page_without_hostile_scripts_is_not_accused(page):
    page.set_content("<p>a dog</p>")
    assert not ran(page)


def test_two_served_apps_have_addresses_of_their_own(serve):
    first, second = serve(app), serve(app)
    assert first != second
    for address in (first, second):
        with urllib.request.urlopen(address, timeout=60) as answer:
            assert b"served" in answer.read()


def test_a_database_is_empty_and_takes_a_table(database):
    sqlalchemy = pytest.importorskip("sqlalchemy")
    engine = sqlalchemy.create_engine(database.replace("postgresql://", "postgresql+psycopg://"))
    assert sqlalchemy.inspect(engine).get_table_names() == []
    with engine.begin() as connection:
        connection.execute(sqlalchemy.text("CREATE TABLE event (seq INTEGER)"))
    assert sqlalchemy.inspect(engine).get_table_names() == ["event"]
    engine.dispose()


def test_postgresql_writes_to_disk_and_survives_a_kill():
    from lab.postgres import PostgreSQL, missing

    psycopg = pytest.importorskip("psycopg")
    if missing():
        pytest.skip(missing())
    with PostgreSQL() as server:
        url = server.database()
        with psycopg.connect(url) as connection:
            assert connection.execute("SHOW fsync").fetchone() == ("on",)
            connection.execute("CREATE TABLE event (seq INTEGER)")
            connection.execute("INSERT INTO event VALUES (7)")
        server.kill()
        assert not server.answers()
        server.start()
        with psycopg.connect(url) as connection:
            assert connection.execute("SELECT seq FROM event").fetchall() == [(7,)]
    assert not server.folder.exists()


def test_without_postgresql_the_reason_says_what_to_install(monkeypatch):
    from lab import postgres

    monkeypatch.setattr(postgres, "programs", lambda: None)
    assert postgres.missing() == "PostgreSQL is not installed (Debian: apt-get install postgresql)"


def test_there_are_forty_hostile_captions_and_no_two_are_the_same():
    assert len(HOSTILE) == len(set(HOSTILE)) == 40


def test_a_polluted_prototype_counts_as_a_script_that_ran():
    page = SimpleNamespace(evaluate=lambda script: "({}).hostile" in script)
    assert ran(page)
