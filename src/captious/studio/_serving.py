"""Web server of a study or of the explorer: a listening socket, and uvicorn with timeouts for slow clients.

Uvicorn waits without a timeout for the head of a request, for its body, and for a client that reads nothing. Here each
of them has a timeout, the number of connections is limited, and the same error is logged once a minute.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import socket
import time
from collections.abc import Callable
from typing import Any

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from captious.errors import InputError
from captious.studio.access import App

# Timeouts in seconds: for the head of a request, for its body, and for a client that reads nothing of a response.
HEAD, BODY, READ = 10.0, 30.0, 30.0
# Bytes that a client must read within READ, if that many are in the write buffer.
LEAST_READ = 32_768
# Connections that the event loop accepts in one iteration.
ACCEPTED = 64
# File descriptors reserved for the database, images, and connections that are accepted but not counted yet.
SPARE = 384
# Bounds of the number of connections.
FEWEST, MOST = 64, 4096


def open_listener(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address; port 0 is any free one.

    The socket is created with IPPROTO_TCP, because asyncio sets TCP_NODELAY only on sockets of that protocol.
    Without it, a browser waits 40 ms for each small response.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)  # early connections wait in the queue until the server runs
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise InputError(f"{host}:{port} cannot be listened on ({reason}): pass port=0 for a free one") from error
    return listener


def compute_connection_limit() -> int:
    """Return how many connections one process may have, from its limit on open files."""
    try:
        import resource
    except ImportError:  # Windows
        return FEWEST * 8
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(FEWEST, min(MOST, soft - SPARE))


class Connection(AutoHTTPProtocol):  # type: ignore[valid-type,misc]
    """A connection with the time since which it waits for its client."""

    most = MOST

    def connection_made(self, transport: Any) -> None:
        """Add the connection; if there are too many, close the one that has waited longest for a request."""
        # The time since which the server waits for a request, or for the rest of one.
        self.since = time.monotonic()
        self.unread, self.unread_since = 0, self.since
        super().connection_made(transport)
        if len(self.connections) > self.most:
            connections = [one for one in self.connections if not one.transport.is_closing()]
            if len(connections) > self.most:
                idle = [one for one in connections if isinstance(one, Connection) and one.is_idle]
                min(idle, key=lambda one: one.since).transport.abort()  # never empty: this connection is idle too

    def data_received(self, data: bytes) -> None:
        """Pass on the data; the timeout of a body begins with its request."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.since = time.monotonic()

    def on_response_complete(self) -> None:
        """Start the timeout of the next request."""
        self.since = time.monotonic()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def is_too_slow(self, now: float) -> bool:
        """Return True if one of the timeouts of the client has passed."""
        if self.transport is None:
            return False
        waiting = self.transport.get_write_buffer_size()
        if waiting == 0 or waiting <= self.unread - LEAST_READ or waiting > self.unread:
            self.unread, self.unread_since = waiting, now
        if waiting and now - self.unread_since > READ:
            return True
        if self.is_idle:
            return now - self.since > HEAD
        return self.cycle.more_body and now - self.since > BODY


class Server(uvicorn.Server):
    """Uvicorn that closes slow connections every second."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to listen, with a long queue in the kernel, since the event loop accepts few connections at a time."""
        await super().startup(sockets)
        for one in sockets or ():
            with contextlib.suppress(OSError):
                one.listen(1024)

    async def on_tick(self, counter: int) -> bool:
        """Close the connections of clients that are too slow."""
        if counter % 10 == 0:
            now = time.monotonic()
            for one in list(self.server_state.connections):
                if isinstance(one, Connection) and one.is_too_slow(now):
                    one.transport.abort()
        return await super().on_tick(counter)


def make_server(app: App, proxied: bool = False, patience: int = 5) -> Server:
    """Make the server of an app; `patience` is the time in seconds that open requests have at shutdown."""
    for name in ("asyncio", "uvicorn.error"):
        limit_repeats(logging.getLogger(name))
    protocol: type[asyncio.Protocol] = type("Connection", (Connection,), {"most": compute_connection_limit()})
    config = uvicorn.Config(
        app,
        http=protocol,
        ws="none",
        proxy_headers=proxied,
        access_log=False,
        log_config=None,
        log_level="error",
        server_header=False,
        lifespan="off",
        backlog=ACCEPTED,
        timeout_graceful_shutdown=patience,
    )
    return Server(config)


class Repeats(logging.Filter):
    """Logging filter that passes the same error once a minute, with the number of those that it dropped."""

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.seconds, self._clock = seconds, clock
        self._last: dict[tuple[str, ...], float] = {}
        self._dropped: dict[tuple[str, ...], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Return True if a record is to be logged."""
        key, now = _make_error_key(record), self._clock()
        if now - self._last.get(key, -self.seconds) < self.seconds:
            self._dropped[key] = self._dropped.get(key, 0) + 1
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[key] = now
        if dropped := self._dropped.pop(key, 0):
            record.msg = f"{record.msg} ({dropped:,} more since the last such line)"
        return True


def _make_error_key(record: logging.LogRecord) -> tuple[str, ...]:
    """Return a key that is equal for records of the same error: first line of the message, and where it was raised."""
    raised = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    trace = None if raised is None else raised.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    return str(record.msg).partition("\n")[0], type(raised).__name__, place


def limit_repeats(logger: logging.Logger) -> None:
    """Add a `Repeats` filter to a logger, once."""
    if not any(isinstance(one, Repeats) for one in logger.filters):
        logger.addFilter(Repeats())
