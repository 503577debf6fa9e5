"""A PostgreSQL of its own in a temporary folder, for tests and benchmarks: Debian's programs, a free port, fsync on."""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import Any

# How long a start or a stop may take on a busy machine.
SECONDS = 60
# Who runs the server when root starts it: PostgreSQL refuses root.
ACCOUNTS = ("postgres", "nobody")


def programs() -> Path | None:
    """The folder of ``initdb`` and ``postgres``: on the path, or the newest of Debian's; None without one."""
    on_path = shutil.which("initdb")
    if on_path:
        return Path(on_path).resolve().parent
    folders = [path.parent for path in Path("/usr/lib/postgresql").glob("*/bin/initdb")]
    return max(folders, key=lambda folder: int(folder.parent.name), default=None)


def missing() -> str | None:
    """Why no server can be started here, or None."""
    if programs() is None:
        return "PostgreSQL is not installed (Debian: apt-get install postgresql)"
    if os.geteuid() == 0 and _account() is None:
        return "PostgreSQL refuses to run as root, and there is neither a user postgres nor nobody"
    return None


class PostgreSQL:
    """A server process with its own data folder, on the loopback only. ``with PostgreSQL() as server: ...``"""

    def __init__(self) -> None:
        """Make the data folder and start the server; the one superuser is ``captious``, without a password."""
        reason = missing()
        if reason:
            raise RuntimeError(reason)
        self.folder = Path(tempfile.mkdtemp(prefix="captious-postgres-"))
        account = _account() if os.geteuid() == 0 else None
        self._as: dict[str, Any] = {"cwd": self.folder}
        if account:
            os.chown(self.folder, account.pw_uid, account.pw_gid)
            self._as |= {"user": account.pw_uid, "group": account.pw_gid, "extra_groups": []}
        self.port = free_port()
        self.process: subprocess.Popen[bytes] | None = None
        self._names = count(1)
        self._call("initdb", "--auth=trust", "--username=captious", "--encoding=UTF8", "--no-locale", "-D", "data")
        self.start()

    def __enter__(self) -> PostgreSQL:
        """This server."""
        return self

    def __exit__(self, *exception: object) -> None:
        """Stop the server and remove its folder."""
        self.stop()
        shutil.rmtree(self.folder, ignore_errors=True)

    def start(self) -> None:
        """Start on the port and the data of before; returns when the server answers."""
        settings = {
            "listen_addresses": "127.0.0.1",
            "port": self.port,
            "unix_socket_directories": self.folder,
            "fsync": "on",
            "max_connections": 100,
            "shared_buffers": "32MB",
        }
        options = [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]
        with (self.folder / "log").open("ab") as log:
            self.process = subprocess.Popen(
                [self._program("postgres"), "-D", "data", *options], stdout=log, stderr=log, **self._as
            )
        deadline = time.monotonic() + SECONDS
        while not self.answers():
            if self.process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"PostgreSQL did not start:\n{(self.folder / 'log').read_text()[-2000:]}")
            time.sleep(0.05)

    def answers(self) -> bool:
        """Whether the server accepts connections."""
        ready = [self._program("pg_isready"), "--quiet", "--host=127.0.0.1", f"--port={self.port}"]
        return subprocess.run(ready, check=False, **self._as).returncode == 0

    def kill(self) -> None:
        """SIGKILL to the server and its children, as when the machine's memory runs out."""
        assert self.process is not None
        listed = Path(f"/proc/{self.process.pid}/task/{self.process.pid}/children")  # Linux
        children = listed.read_text(encoding="utf-8").split() if listed.exists() else []
        self.process.kill()
        for pid in map(int, children):
            with suppress(ProcessLookupError):  # ended meanwhile
                os.kill(pid, signal.SIGKILL)
        self.process.wait(SECONDS)

    def stop(self) -> None:
        """Close all connections and stop."""
        if self.process is None or self.process.poll() is not None:
            return
        self.process.send_signal(signal.SIGINT)  # "fast shutdown"
        try:
            self.process.wait(SECONDS)
        except subprocess.TimeoutExpired:
            self.process.send_signal(signal.SIGQUIT)  # "immediate shutdown", which ends the children too
            self.process.wait(SECONDS)

    def database(self) -> str:
        """The address of a new, empty database."""
        name = f"study{next(self._names)}"
        self._sql(f"CREATE DATABASE {name}")
        return f"postgresql://captious@127.0.0.1:{self.port}/{name}"

    def drop(self, url: str) -> None:
        """Remove a database, whoever is connected to it."""
        self._sql(f"DROP DATABASE {url.rpartition('/')[2]} WITH (FORCE)")

    def read_only(self, url: str, refuse: bool) -> None:
        """Refuse all writes to a database, or take them again; whoever is connected must connect anew."""
        name = url.rpartition("/")[2]
        self._sql(f"ALTER DATABASE {name} SET default_transaction_read_only = {'on' if refuse else 'off'}")
        self._sql(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    def _sql(self, statement: str) -> None:
        host = ("--host=127.0.0.1", f"--port={self.port}", "--username=captious")
        self._call("psql", *host, "--quiet", "--no-psqlrc", "--dbname=postgres", f"--command={statement}")

    def _program(self, name: str) -> str:
        folder = programs()
        assert folder is not None
        return str(folder / name)

    def _call(self, name: str, *arguments: str) -> None:
        done = subprocess.run(
            [self._program(name), *arguments], capture_output=True, text=True, check=False, **self._as
        )
        if done.returncode:
            raise RuntimeError(f"{name} failed: {done.stderr[-2000:]}")


def free_port() -> int:
    """A port of the loopback that nobody uses now."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


def _account() -> pwd.struct_passwd | None:
    known = {entry.pw_name: entry for entry in pwd.getpwall()}
    return next((known[name] for name in ACCOUNTS if name in known), None)
