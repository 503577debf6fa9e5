"""As much of a browser as simulated raters need: requests, cookies, redirects and forms."""

from __future__ import annotations

import asyncio
import http.client
import re
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from html import unescape
from typing import Any, NamedTuple
from urllib.parse import urlencode, urlsplit

from captious.errors import InputError
from captious.studio.access import App

REQUESTS, PATIENCE = 100, 0.1
"""Redirects and further attempts of a bot before it gives up, and seconds before an attempt."""


class Reply(NamedTuple):
    """An answer of the server."""

    status: int
    headers: Mapping[str, str]
    cookies: tuple[str, ...]
    """The Set-Cookie headers."""
    body: bytes


Send = Callable[[str, str, Mapping[str, str], bytes], Reply]
"""Method, path with query, headers and body to a reply."""


class InProcess:
    """Requests to an app in this process, without a socket. A thread of its own runs the event loop of the app."""

    def __init__(self, app: App) -> None:
        self._app = app
        self._loop = asyncio.new_event_loop()
        self._closed = self._loop.create_future()

    def __enter__(self) -> Send:
        threading.Thread(target=self._loop.run_until_complete, args=(self._closed,), daemon=True).start()
        return self.send

    def __exit__(self, *_: object) -> None:
        self._loop.call_soon_threadsafe(self._closed.set_result, None)

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        """One request and its reply."""
        return asyncio.run_coroutine_threadsafe(self._call(method, target, headers, body), self._loop).result()

    async def _call(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        address = urlsplit(target)
        sent = [(name.encode(), value.encode()) for name, value in {"host": "localhost", **headers}.items()]
        scope = {
            "type": "http",
            "asgi": {"version": "3.0"},
            "http_version": "1.1",
            "method": method,
            "scheme": "http",
            "path": address.path,
            "raw_path": address.path.encode(),
            "query_string": address.query.encode(),
            "root_path": "",
            "headers": sent,
            "client": ("127.0.0.1", 1),
            "server": ("localhost", 80),
        }
        messages: list[Any] = []

        async def receive() -> Any:
            return {"type": "http.request", "body": body, "more_body": False}

        async def keep(message: Any) -> None:
            messages.append(message)

        await self._app(scope, receive, keep)
        pairs = [(name.decode().lower(), value.decode()) for name, value in messages[0].get("headers", ())]
        content = b"".join(message.get("body", b"") for message in messages[1:])
        return Reply(messages[0]["status"], dict(pairs), _cookies(pairs), content)


def over_http(url: str) -> Send:
    """Requests to a server."""
    address = urlsplit(url)
    if address.scheme not in ("http", "https") or not address.hostname:
        raise InputError(f"url={url}: expected the address of a server, such as http://127.0.0.1:8000")
    connect = http.client.HTTPSConnection if address.scheme == "https" else http.client.HTTPConnection
    connection = connect(address.hostname, address.port, timeout=30)

    def send(method: str, target: str, headers: Mapping[str, str], body: bytes) -> Reply:
        try:
            connection.request(method, target, body or None, dict(headers))
            answer = connection.getresponse()
            content = answer.read()
        except (OSError, http.client.HTTPException) as error:
            raise InputError(f"{url}: no server answers there ({error})") from None
        pairs = [(name.lower(), value) for name, value in answer.getheaders()]
        return Reply(answer.status, dict(pairs), _cookies(pairs), content)

    return send


def _cookies(pairs: Sequence[tuple[str, str]]) -> tuple[str, ...]:
    return tuple(value for name, value in pairs if name == "set-cookie")


class Form:
    """The first form of a page that is sent: its address, its hidden fields, and the values that each field takes."""

    def __init__(self, page: str) -> None:
        form = _FORM.search(page)
        self.action = _attributes(form[1]).get("action", "") if form else ""
        self.hidden: dict[str, str] = {}
        self.values: dict[str, set[str]] = {}
        for match in _FIELD.finditer(form[2] if form else ""):
            attributes = _attributes(match[1])
            name, value = attributes.get("name", ""), attributes.get("value", "")
            self.values.setdefault(name, set()).add(value)
            if attributes.get("type") == "hidden":
                self.hidden[name] = value


_FORM = re.compile(r'<form\b([^>]*\bmethod="post"[^>]*)>(.*?)</form>', re.DOTALL)
_FIELD = re.compile(r"<(?:input|button)\b([^>]*)>")
_ATTRIBUTE = re.compile(r'([\w-]+)="([^"]*)"')


def _attributes(text: str) -> dict[str, str]:
    return {name: unescape(value) for name, value in _ATTRIBUTE.findall(text)}


@dataclass
class Browser:
    """Cookies and redirects, as far as the pages of raters need them."""

    send: Send
    path: str = ""
    page: str = ""
    requests: int = 0
    _jar: dict[str, str] = field(default_factory=dict)

    def open(self, target: str, form: Mapping[str, str] | None = None) -> None:
        """Ask for a page, or send a form, and follow where it leads."""
        for _ in range(REQUESTS):
            reply = self._request(target, form)
            if reply.status == 429:  # faster than the server takes from one person
                time.sleep(PATIENCE)
            elif reply.status in (302, 303, 307):
                target, form = reply.headers["location"], None
            else:
                break
        self.path, self.page = urlsplit(target).path, reply.body.decode("utf-8", "replace")
        if reply.status >= 400:
            title = " ".join(self.page.partition("<title>")[2].partition("</title>")[0].split())
            raise InputError(f"the page {self.path} answered a simulated rater with {reply.status} {title}")

    def _request(self, target: str, form: Mapping[str, str] | None) -> Reply:
        self.requests += 1
        headers = {"accept": "text/html"}
        if self._jar:
            headers["cookie"] = "; ".join(f"{name}={value}" for name, value in self._jar.items())
        body = b""
        if form is not None:
            body = urlencode(form).encode()
            headers |= {"content-type": "application/x-www-form-urlencoded", "content-length": str(len(body))}
            headers |= {"sec-fetch-site": "same-origin"}
        reply = self.send("GET" if form is None else "POST", target, headers, body)
        for cookie in reply.cookies:
            name, _, value = cookie.partition(";")[0].partition("=")
            self._jar[name.strip()] = value.strip()
        return reply
