"""A rater's browser for load and fault runs: HTTP/1.1 on asyncio streams, cookies, forms; little CPU a request."""

from __future__ import annotations

import asyncio
import contextlib
import html
import json
import random
import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import urlencode, urljoin, urlsplit

# A request that takes longer has failed.
SECONDS = 60
# Seconds that an idle connection is used again; uvicorn closes it after five.
KEPT = 4
FORM = "application/x-www-form-urlencoded"


class Broken(Exception):
    """The connection was refused, cut or silent: nothing is known of what the server did."""


@dataclass(frozen=True)
class Response:
    """Status, headers (lower case) and body of an answer, and the seconds it took."""

    status: int
    headers: Mapping[str, str]
    body: bytes
    seconds: float

    @property
    def text(self) -> str:
        """The body as UTF-8."""
        return self.body.decode("utf-8", "replace")


@dataclass
class Browser:
    """One person's browser: a connection that is kept open, and cookies."""

    address: str
    """``http://127.0.0.1:port``"""
    cookies: dict[str, str] = field(default_factory=dict)
    _reader: asyncio.StreamReader | None = None
    _writer: asyncio.StreamWriter | None = None
    _last: float = 0.0

    async def get(self, path: str) -> Response:
        """A page, redirects not followed."""
        return await self.request("GET", path)

    async def post(self, path: str, form: Mapping[str, str]) -> Response:
        """A form sent, redirects not followed."""
        return await self.request("POST", path, urlencode(form).encode())

    async def send(self, path: str, data: Mapping[str, object]) -> Response:
        """JSON sent by a script."""
        return await self.request("POST", path, json.dumps(data).encode(), "application/json")

    async def follow(self, path: str) -> Response:
        """A page after all redirects, and the seconds of all of them."""
        seconds = 0.0
        for _ in range(6):
            response = await self.get(path)
            seconds += response.seconds
            if response.status not in (302, 303, 307):
                return replace(response, seconds=seconds)
            path = local(urljoin(self.address + path, response.headers["location"]))
        raise Broken(f"{path} redirects without end")

    async def request(self, method: str, path: str, body: bytes = b"", content: str = FORM) -> Response:
        """One request; `Broken` if no whole answer comes back."""
        started = time.perf_counter()
        idle, self._last = started - self._last, started
        if idle > KEPT:
            await self.close()  # the server may be closing it at this moment
        try:
            exchange = self._exchange(self._head(method, path, body, content) + body)
            status, headers, payload = await asyncio.wait_for(exchange, SECONDS)
        except (OSError, EOFError, ValueError, asyncio.TimeoutError) as error:
            await self.close()
            raise Broken(f"{method} {path}: {error!r}") from error
        return Response(status, headers, payload, time.perf_counter() - started)

    async def close(self) -> None:
        """Cut the connection; the cookies stay."""
        if self._writer is not None:
            self._writer.close()
            with contextlib.suppress(OSError):
                await self._writer.wait_closed()
        self._reader = self._writer = None

    async def _exchange(self, message: bytes) -> tuple[int, dict[str, str], bytes]:
        if self._reader is None or self._writer is None:
            parts = urlsplit(self.address)
            self._reader, self._writer = await asyncio.open_connection(parts.hostname, parts.port)
        self._writer.write(message)
        await self._writer.drain()
        head = (await self._reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
        headers: dict[str, str] = {}
        for line in filter(None, head[1:]):
            name, _, value = line.partition(":")
            if name.lower() == "set-cookie":
                cookie, _, text = value.split(";")[0].strip().partition("=")
                self.cookies[cookie] = text
            headers[name.lower()] = value.strip()
        status = int(head[0].split()[1])
        payload = b"" if status in (204, 304) else await self._payload(headers)
        if headers.get("connection", "").lower() == "close":
            await self.close()
        return status, headers, payload

    async def _payload(self, headers: Mapping[str, str]) -> bytes:
        assert self._reader is not None
        if headers.get("transfer-encoding", "").lower() != "chunked":
            return await self._reader.readexactly(int(headers.get("content-length", 0)))
        chunks = []
        while size := int((await self._reader.readuntil(b"\r\n")).split(b";")[0], 16):
            chunks.append(await self._reader.readexactly(size))
            await self._reader.readexactly(2)
        await self._reader.readuntil(b"\r\n")
        return b"".join(chunks)

    def _head(self, method: str, path: str, body: bytes, content: str) -> bytes:
        lines = [
            f"{method} {path} HTTP/1.1",
            f"Host: {urlsplit(self.address).netloc}",
            "User-Agent: captious-lab",
            "Accept: text/html",
        ]
        if self.cookies:
            lines.append("Cookie: " + "; ".join(f"{name}={value}" for name, value in self.cookies.items()))
        if method == "POST":
            lines += [
                f"Origin: {self.address}",
                "Sec-Fetch-Site: same-origin",
                f"Content-Type: {content}",
                f"Content-Length: {len(body)}",
            ]
        return ("\r\n".join(lines) + "\r\n\r\n").encode()


def local(url: str) -> str:
    """Path and query of an address, for a server that names itself by another one."""
    parts = urlsplit(url)
    return (parts.path or "/") + (f"?{parts.query}" if parts.query else "")


TAG = re.compile(r"<(input|img|link|script)\b([^>]*)>", re.IGNORECASE)
ATTRIBUTE = re.compile(r"""([\w:-]+)(?:\s*=\s*(?:"([^"]*)"|'([^']*)'|([^\s>]+)))?""")


def tags(text: str) -> Iterator[tuple[str, dict[str, str]]]:
    """Inputs, images, styles and scripts of a page, with their attributes."""
    for tag, attributes in TAG.findall(text):
        values = {name.lower(): html.unescape(a or b or c) for name, a, b, c in ATTRIBUTE.findall(attributes)}
        yield tag.lower(), values


@dataclass(frozen=True)
class TaskPage:
    """What a rater's page holds, read from its HTML as a browser reads it."""

    hidden: dict[str, str]
    """Hidden fields of the form: key, csrf, task and so on."""
    choices: dict[str, list[str]]
    """Values that each group of radio buttons offers."""
    images: list[str]
    files: list[str]
    """Scripts and styles."""

    @classmethod
    def read(cls, text: str) -> TaskPage:
        """The fields of the page's form, and what the page loads."""
        hidden: dict[str, str] = {}
        choices: dict[str, list[str]] = {}
        images, files = [], []
        for tag, values in tags(text):
            if tag == "img":
                images.append(values["src"])
            elif tag in ("script", "link"):
                files += [values[name] for name in ("src", "href") if name in values]
            elif values.get("type") == "hidden":
                hidden[values["name"]] = values.get("value", "")
            elif values.get("type") == "radio":
                choices.setdefault(values["name"], []).append(values.get("value", ""))
        return cls(hidden, choices, images, files)

    @property
    def key(self) -> str:
        """The page's own key: an answer sent twice with it is stored once."""
        return self.hidden.get("key", "")

    def answered(self, rng: random.Random) -> dict[str, str]:
        """The form with a random choice in every group."""
        return {**self.hidden, **{name: rng.choice(values) for name, values in self.choices.items()}}
