"""Slow clients: a server closes what waits too long, keeps the number of connections in bounds, and logs once."""

import contextlib
import logging
import re
import socket
import subprocess
import sys
import threading
import urllib.request
from types import SimpleNamespace

import pytest

pytest.importorskip("uvicorn", reason="uvicorn is not installed: pip install 'captious[studio]'")
from tests.studio.test_server import toml  # noqa: F401
from tests.waiting import until

from captious.errors import InputError
from captious.studio import _serving as serving
from captious.studio._serving import Repeats, make_server, open_listener

HELLO = b"GET /%s HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n"
# Bytes of an answer that no buffer between server and client holds.
LARGE = 8_000_000


async def app(scope, receive, send):
    """Says hello, reads a body to its end, or sends much."""
    if scope["method"] == "POST":
        while (message := await receive()).get("more_body"):
            pass
        if message["type"] == "http.disconnect":
            return
    body = b"x" * LARGE if scope["path"] == "/large" else b"hello"
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
    await send({"type": "http.response.body", "body": body})


@pytest.fixture
def patience():
    """Seconds for which the server waits for anything."""
    return 0.5


@pytest.fixture
def server(monkeypatch, patience):
    """A running server that has room for four connections, and its port."""
    monkeypatch.setattr(serving, "compute_connection_limit", lambda: 4)
    for name in ("HEAD", "BODY", "READ"):
        monkeypatch.setattr(serving, name, patience)
    listener = open_listener("127.0.0.1", 0)
    server = make_server(app)
    thread = threading.Thread(target=server.run, args=([listener],), daemon=True)
    thread.start()
    yield server, listener.getsockname()[1]
    server.should_exit = True
    thread.join(60)


@pytest.fixture
def port(server):
    return server[1]


@contextlib.contextmanager
def client(port, data=b""):
    with socket.create_connection(("127.0.0.1", port), timeout=60) as one:
        one.sendall(data)
        yield one


def closed(one):
    """Wait until the server has closed a connection; gives what it sent before."""
    received = b""
    with contextlib.suppress(ConnectionError):
        while data := one.recv(65536):
            received += data
    return received


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: ",
        b"POST / HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: 10\r\n\r\nabc",
    ],
    ids=["nothing", "half a head", "half a body"],
)
def test_a_request_that_does_not_end_is_closed(port, data):
    with client(port, data) as one:
        assert closed(one) == b""


def test_who_sends_a_byte_at_a_time_has_no_more_time(port):
    with client(port, b"GET / HTTP/1.1\r\n") as one:
        one.settimeout(0.1)
        for _ in range(600):
            try:
                one.sendall(b"x")
                if one.recv(100) == b"":
                    break
            except TimeoutError:
                continue
            except ConnectionError:
                break
        else:
            pytest.fail("still open after a minute")


def test_who_reads_nothing_is_closed(server, port):
    state = server[0].server_state
    with client(port, HELLO % b"large") as one:
        until(lambda: state.total_requests == 1 and not state.connections, "the end of the connection")
        assert len(closed(one)) < LARGE


@pytest.mark.parametrize("patience", [30.0])
def test_a_quick_client_gets_everything(port):
    with client(port, HELLO % b"large") as one:
        assert len(closed(one)) > LARGE
    with client(port, HELLO % b"") as one:
        assert closed(one).endswith(b"hello")


@pytest.mark.parametrize("patience", [2.0])  # a request comes well within it, also on a busy machine
def test_a_crowd_of_silent_connections_gives_way(port):
    with contextlib.ExitStack() as stack:
        silent = [stack.enter_context(client(port)) for _ in range(12)]
        with client(port, HELLO % b"") as one:
            assert closed(one).endswith(b"hello")
        assert [closed(other) for other in silent] == [b""] * 12


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no limit of open files")
def test_more_slow_connections_than_descriptors_stop_nothing_and_fill_no_log(toml):  # noqa: F811
    limited = "import resource, runpy, sys; resource.setrlimit(resource.RLIMIT_NOFILE, (448, 448)); "
    run = f"sys.argv = ['captious', 'studio', 'serve', {str(toml)!r}, '--port', '0']; "
    command = [sys.executable, "-c", limited + run + "runpy.run_module('captious', run_name='__main__')"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        try:
            port = int(re.search(r":(\d+)/owner", "".join(server.stdout.readline() for _ in range(5)))[1])
            with contextlib.ExitStack() as stack:
                for _ in range(600):
                    stack.enter_context(client(port, b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "))
                for _ in range(3):
                    with urllib.request.urlopen(f"http://127.0.0.1:{port}/health", timeout=60) as reply:
                        assert reply.status == 200
        finally:
            server.terminate()
            _, complaints = server.communicate(timeout=60)
    assert len(complaints) < 2000, complaints[:2000]


def test_the_same_error_is_logged_once_a_minute():
    now = [0.0]
    repeats = Repeats(clock=lambda: now[0])

    def log(message, error=None):
        record = logging.LogRecord("uvicorn.error", 40, "file", 1, message, (), error and (type(error), error, None))
        return record.getMessage() if repeats.filter(record) else None

    assert log("socket.accept() out of system resource\nsocket: 1") is not None
    assert [log(f"socket.accept() out of system resource\nsocket: {number}") for number in range(1000)] == [None] * 1000
    assert log("Exception in ASGI application", ValueError()) and log("Exception in ASGI application", KeyError())
    now[0] = 61.0
    assert log("socket.accept() out of system resource").endswith("(1,000 more since the last such line)")


def test_the_bound_follows_the_number_of_files(monkeypatch):
    resource = pytest.importorskip("resource")
    for soft, most in ((1024, 640), (400, 64), (10**6, 4096), (resource.RLIM_INFINITY, 4096)):
        monkeypatch.setitem(
            sys.modules,
            "resource",
            SimpleNamespace(
                getrlimit=lambda _, soft=soft: (soft, soft),
                RLIMIT_NOFILE=resource.RLIMIT_NOFILE,
                RLIM_INFINITY=resource.RLIM_INFINITY,
            ),
        )
        assert serving.compute_connection_limit() == most


def test_small_answers_are_sent_at_once():
    """Asyncio sets TCP_NODELAY only on sockets that say they are TCP."""
    with open_listener("127.0.0.1", 0) as listener:
        assert listener.proto == socket.IPPROTO_TCP and listener.getsockname()[1] > 0


def test_a_port_that_is_taken_is_refused_in_one_line():
    with open_listener("127.0.0.1", 0) as listener:
        listener.listen()
        port = listener.getsockname()[1]
        with pytest.raises(InputError, match=rf"127.0.0.1:{port} cannot be listened on .*pass port=0"):
            open_listener("127.0.0.1", port)
