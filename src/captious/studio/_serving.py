"""The web server of a study or of the explorer: a port, and uvicorn that slow clients cannot hold up.

Uvicorn waits without end for the head of a request, for its body, and for a client that reads nothing. Here each has a
time, the number of connections has a bound, and the same error is logged once a minute.
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

HEAD, BODY, READ = 10.0, 30.0, 30.0
"""Seconds for the head of a request and for its body, and seconds in which a client must have read something."""
LEAST_READ = 32_768
"""Bytes that a client must read in that time, where so many wait for it."""
ACCEPTED = 64
"""Connections that the event loop accepts before it does anything else."""
SPARE = 384
"""File descriptors that are not for connections: the database, images, and what is accepted and not counted yet."""
FEWEST, MOST = 64, 4096
"""Bounds of the number of connections."""


def open_listener(host: str, port: int) -> socket.socket:
    """A socket bound to an address; port 0 is any free one.

    It says that it is TCP: asyncio sends small answers at once (TCP_NODELAY) only where it knows that, and a browser
    would wait 40 ms for each otherwise.
    """
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    try:
        listener.bind((host, port))
        listener.listen(1024)  # who is early waits until the server answers
    except OSError as error:
        listener.close()
        reason = error.strerror or str(error)
        raise InputError(f"{host}:{port} cannot be listened on ({reason}): pass port=0 for a free one") from error
    return listener


def compute_connection_limit() -> int:
    """How many connections one process may have, by the number of files that it may open."""
    try:
        import resource
    except ImportError:  # Windows
        return FEWEST * 8
    soft, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    return MOST if soft == resource.RLIM_INFINITY else max(FEWEST, min(MOST, soft - SPARE))


class Connection(AutoHTTPProtocol):  # type: ignore[valid-type,misc]
    """A connection that knows since when it waits for its client."""

    most = MOST

    def connection_made(self, transport: Any) -> None:
        """Take the connection; where there are too many, close the one that has waited longest for a request."""
        self.since = time.monotonic()
        """When the client began to owe a request, or the rest of one."""
        self.unread, self.unread_since = 0, self.since
        super().connection_made(transport)
        if len(self.connections) > self.most:
            open_ones = [one for one in self.connections if not one.transport.is_closing()]
            if len(open_ones) > self.most:
                idle = [one for one in open_ones if isinstance(one, Connection) and one.is_idle]
                min(idle, key=lambda one: one.since).transport.abort()  # this one too is idle

    def data_received(self, data: bytes) -> None:
        """Take what the client sent; the body of a request has a time of its own."""
        before = self.cycle
        super().data_received(data)
        if self.cycle is not before:
            self.since = time.monotonic()

    def on_response_complete(self) -> None:
        """Wait for the next request from now on."""
        self.since = time.monotonic()
        super().on_response_complete()

    @property
    def is_idle(self) -> bool:
        """Whether no request is being answered."""
        return self.cycle is None or self.cycle.response_complete

    def is_too_slow(self, now: float) -> bool:
        """Whether the client has had its time."""
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
    """Uvicorn that looks after its connections every second."""

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Begin to listen. The event loop accepts few connections at a time, and the system lets many wait."""
        await super().startup(sockets)
        for one in sockets or ():
            with contextlib.suppress(OSError):
                one.listen(1024)

    async def on_tick(self, counter: int) -> bool:
        """Close connections whose clients are too slow."""
        if counter % 10 == 0:
            now = time.monotonic()
            for one in list(self.server_state.connections):
                if isinstance(one, Connection) and one.is_too_slow(now):
                    one.transport.abort()
        return await super().on_tick(counter)


def make_server(app: App, proxied: bool = False, patience: int = 5) -> Server:
    """A server of an app; ``patience`` are the seconds that requests under way have at the end."""
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
    """Lets the same error of a logger through once a minute, with the number of those that it held back."""

    def __init__(self, seconds: float = 60.0, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__()
        self.seconds, self._clock = seconds, clock
        self._last: dict[tuple[str, ...], float] = {}
        self._held: dict[tuple[str, ...], int] = {}

    def filter(self, record: logging.LogRecord) -> bool:
        """Whether a record is logged."""
        key, now = _make_error_key(record), self._clock()
        if now - self._last.get(key, -self.seconds) < self.seconds:
            self._held[key] = self._held.get(key, 0) + 1
            return False
        if len(self._last) > 1000:
            self._last.clear()
        self._last[key] = now
        if held := self._held.pop(key, 0):
            record.msg = f"{record.msg} ({held:,} more since the last such line)"
        return True


def _make_error_key(record: logging.LogRecord) -> tuple[str, ...]:
    """A key of records of the same error: the first line of the message, and where an exception was raised."""
    raised = record.exc_info[1] if isinstance(record.exc_info, tuple) else None
    trace = None if raised is None else raised.__traceback__
    while trace is not None and trace.tb_next is not None:
        trace = trace.tb_next
    place = f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}" if trace else ""
    return str(record.msg).partition("\n")[0], type(raised).__name__, place


def limit_repeats(logger: logging.Logger) -> None:
    """Have a logger repeat itself once a minute at most."""
    if not any(isinstance(one, Repeats) for one in logger.filters):
        logger.addFilter(Repeats())
