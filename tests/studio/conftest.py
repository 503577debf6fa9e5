"""A tab, a PostgreSQL and a server for the tests of the studio; a test skips with the reason if one is absent."""

import threading

import pytest
from lab.postgres import PostgreSQL, missing
from tests.waiting import SECONDS, until


@pytest.fixture(scope="session")
def postgres_server():
    """One PostgreSQL for all tests of this process."""
    pytest.importorskip("psycopg", reason="psycopg is not installed: pip install 'captious[studio-postgres]'")
    if missing():
        pytest.skip(missing())
    with PostgreSQL() as server:
        yield server


@pytest.fixture
def postgres(postgres_server):
    """The address of an empty PostgreSQL database."""
    url = postgres_server.database()
    yield url
    postgres_server.drop(url)


@pytest.fixture(params=["sqlite", "postgres"])
def database(request, tmp_path):
    """The address of an empty database: the test runs on SQLite and on PostgreSQL."""
    if request.param == "sqlite":
        return f"sqlite:///{tmp_path / 'study.sqlite'}"
    return request.getfixturevalue("postgres")


@pytest.fixture
def page(chromium):
    """An empty tab with its own cookies. A script error on any page it opens fails the test."""
    context = chromium.new_context()
    tab = context.new_page()
    errors = []
    tab.on("pageerror", lambda error: errors.append(str(error)))
    yield tab
    context.close()
    assert errors == []


@pytest.fixture
def serve():
    """``serve(app)`` answers on a free port of the loopback until the test ends; gives ``http://127.0.0.1:port``."""
    uvicorn = pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'captious[studio]'")
    running = []

    def start(app):
        server = uvicorn.Server(uvicorn.Config(app, host="127.0.0.1", port=0, log_level="warning", lifespan="off"))
        thread = threading.Thread(target=server.run, daemon=True)
        thread.start()
        running.append((server, thread))
        until(lambda: server.started or not thread.is_alive(), "the start of the server")
        assert server.started
        return f"http://127.0.0.1:{server.servers[0].sockets[0].getsockname()[1]}"

    yield start
    for server, _ in running:
        server.should_exit = server.force_exit = True
    for _, thread in running:
        thread.join(SECONDS)
