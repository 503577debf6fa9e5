"""The explorer on a port of this computer, and the link that opens it."""

from __future__ import annotations

import socket
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from captious.errors import require
from captious.render import Document
from captious.studio.access import App, Rules, make_token

HOST = "127.0.0.1"


@dataclass(frozen=True)
class ExplorerServer:
    """An explorer whose port is already bound, so that its link is known before it serves."""

    app: App
    listener: socket.socket
    link: str
    """URL of the explorer, with the token."""
    warnings: tuple[str, ...] = ()
    """Warnings about the runs, such as images that are not found."""

    @classmethod
    def of(
        cls,
        runs: Sequence[str | Path] | Mapping[str, str | Path],
        ratings: str | Path | None = None,
        images: str | Path | None = None,
        host: str = HOST,
        port: int = 0,
        audio: str | Path | None = None,
        videos: str | Path | None = None,
        report: Callable[[], Document] | None = None,
    ) -> ExplorerServer:
        """Make a server of these runs; port 0 is any free one. With a report, the link opens the report's page."""
        for library in ("starlette", "uvicorn", "duckdb"):
            require(library, "studio")
        import pyarrow

        from captious.studio._serving import open_listener
        from captious.studio.explore._explorer_app import build_app
        from captious.studio.explore._page import REPORT
        from captious.studio.explore.explorer_table import open_table

        table = open_table(runs, ratings, images, audio, videos)
        pyarrow.default_memory_pool().release_unused()  # loading needs a third more memory than serving
        listener = open_listener(host, port)
        token = make_token()
        app = build_app(table, token, Rules.of_server(host), report)
        name = f"[{host}]" if ":" in host else host
        first = REPORT if report else ""
        return cls(app, listener, f"http://{name}:{listener.getsockname()[1]}/{first}?token={token}", table.warnings)

    def run(self) -> None:
        """Serve until Ctrl-C."""
        from captious.studio._serving import make_server

        try:
            make_server(self.app, patience=2).run(sockets=[self.listener])
        except KeyboardInterrupt:  # uvicorn has shut down, then raises it again
            pass
        finally:
            self.listener.close()
