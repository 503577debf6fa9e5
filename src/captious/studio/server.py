"""Server of a study: the database, the app and uvicorn, and the links of the owner and of raters."""

from __future__ import annotations

import logging
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from captious.errors import InputError, require
from captious.studio.access import App, Rules, read_owner_token
from captious.studio.collect.log import StudyLog
from captious.studio.collect.sessions import get_shared_link
from captious.studio.collect.study_plan import Plan

if TYPE_CHECKING:
    import uvicorn

HOST, PORT = "127.0.0.1", 8765
# Timeout of the start and the stop of a background server.
SECONDS = 60


@dataclass(frozen=True)
class StudyServer:
    """A study with an open port, so that its links are known before the server runs."""

    plan: Plan
    log: StudyLog
    app: App
    listener: socket.socket
    address: str
    """The public URL, without a slash at the end."""
    token: str
    """The owner's token."""
    proxied: bool = False
    """Whether the server is behind a proxy, whose headers with client addresses are trusted."""

    @classmethod
    def of(
        cls,
        plan: Plan,
        log: StudyLog,
        host: str = HOST,
        port: int = PORT,
        public_url: str | None = None,
        owner_token_file: Path | None = None,
        using: Sequence[str] = (),
    ) -> StudyServer:
        """Make the server of a study and open its port; port 0 is any free one.

        ``using`` are auxiliary metrics for the estimate on the owner's page, computed for the captions of the files.
        """
        require("jinja2", "studio")
        require("starlette", "studio")
        require("uvicorn", "studio")
        from captious.studio._serving import open_listener
        from captious.studio._study_app import build_app

        if using:
            from captious.studio.owner._looks import check_auxiliary

            using = check_auxiliary(plan, using)
        token = read_owner_token(owner_token_file)
        rules = Rules.of_server(host, public_url)
        listener = open_listener(host, port)
        name = f"[{host}]" if ":" in host else host
        address = (public_url or f"http://{name}:{listener.getsockname()[1]}").rstrip("/")
        app = build_app(plan, log, rules, address, token, using=using)
        return cls(plan, log, app, listener, address, token, public_url is not None)

    @property
    def owner_link(self) -> str:
        """The link to the owner's page, with the token."""
        return f"{self.address}/owner?token={self.token}"

    @property
    def rater_link(self) -> str:
        """The link that all raters share; empty if every rater has a personal link."""
        return get_shared_link(self.plan, self.address)

    def run(self) -> None:
        """Run the server until Ctrl-C; open requests are finished first."""
        self.log.store_address(self.address)
        try:
            self._make_server().run(sockets=[self.listener])
        except KeyboardInterrupt:  # uvicorn has stopped, and raises it again
            pass
        finally:
            self.close()

    @contextmanager
    def running(self) -> Iterator[str]:
        """Run the server in a thread while a `with` block runs; yield its address."""
        self.log.store_address(self.address)
        server = self._make_server()
        started = threading.Event()
        thread = threading.Thread(target=_run, args=(server, self.listener, started), daemon=True)
        thread.start()
        if not started.wait(SECONDS) or not thread.is_alive():
            raise InputError(f"{self.address}: the server did not start")
        try:
            yield self.address
        finally:
            server.should_exit = True
            thread.join(SECONDS)
            self.close()

    def close(self) -> None:
        """Close the port and the database."""
        self.listener.close()
        self.log.close()

    def _make_server(self) -> uvicorn.Server:
        from captious.studio._serving import make_server

        logging.basicConfig(format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
        return make_server(self.app, self.proxied)


def _run(server: uvicorn.Server, listener: socket.socket, started: threading.Event) -> None:
    startup = server.startup

    async def start_and_report(sockets: list[socket.socket] | None = None) -> None:
        await startup(sockets)
        started.set()

    server.startup = start_and_report  # type: ignore[method-assign]
    try:
        server.run(sockets=[listener])
    finally:
        started.set()
