"""A server that speaks the OpenAI protocol: one POST, tried again where that helps, as many at a time as it bears."""

from __future__ import annotations

import asyncio
import math
import os
import random
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from captious._files import SMALL, read_regular
from captious.errors import InputError, one_line, require

TRIES = 8
TRIES_TO_CONNECT = 3
"""Where no request has reached the server yet: a wrong address is said within seconds."""
SLOWEST = 60.0
"""Longest pause before another try, in seconds; a server's Retry-After may ask for up to two minutes."""
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
HOPELESS = frozenset({*range(300, 400), 401, 402, 403, 404, 405})
"""Status codes that every other request would get too: the run stops."""
NO_MONEY = ("insufficient_quota", "exceeded your current quota", "billing")
"""Words of a 429 that no waiting mends."""
NO_IMAGES = ("mmproj", "image input", "does not support image", "multimodal")
"""Words of servers that answer 500 to an image because their model has no eyes."""
OPTIONAL = ("max_tokens", "temperature", "seed")
"""What some models refuse to be told; asked again without it, which the response then records."""
REFUSED = ("unsupported", "not support", "unrecognized", "unknown", "extra", "not permitted", "not allowed")


class Unanswered(Exception):
    """One request has no reply, and repeating it will not help; others may still have one."""


class Stopped(InputError):
    """No request can be answered: the server is away, or it refuses the key or the model."""


class Endpoint:
    """Where requests go. Not more than `limit` of them are under way; the server's 429 halves it, success raises it."""

    def __init__(
        self, url: str, key: str = "", concurrency: int = 8, pause: float = 1.0, timeout: float = 300.0
    ) -> None:
        self.url = _checked(url)
        self.most, self.limit = concurrency, float(concurrency)
        self.pause, self.timeout = pause, timeout
        self.retries = 0
        self.without: tuple[str, ...] = ()
        """Parameters that the model refuses."""
        self._answered = 0
        self._key = key
        self._under_way = 0
        self._halved = -math.inf
        self._free: asyncio.Condition
        self._idle: list[Any] = []
        self._new_client: Callable[[], Any]

    async def __aenter__(self) -> Endpoint:
        httpx = require("httpx", "judge")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(max_connections=1, max_keepalive_connections=1)
        timeout = httpx.Timeout(self.timeout, connect=20.0)
        # Certificates take long to load, so all clients share them; without encryption there is nothing to verify.
        verify = httpx.create_ssl_context() if self.url.startswith("https:") else False
        self._new_client = partial(httpx.AsyncClient, verify=verify, headers=headers, limits=limits, timeout=timeout)
        self._free = asyncio.Condition()
        return self

    async def __aexit__(self, *error: object) -> None:
        for client in self._idle:
            await client.aclose()

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The response as the server sent it, with a list of what it refused to be told."""
        httpx = require("httpx", "judge")
        answered, tries, attempt = self._answered, TRIES, 0
        while True:
            wait: float | None = None
            without = self.without
            async with self._turn() as client:
                try:
                    answer = await client.post(f"{self.url}/chat/completions", json=_reduced(body, without))
                    if answer.status_code == 200:
                        self._answered += 1
                        self._faster()
                        return _decoded(answer) | ({"without": list(without)} if without else {})
                    if self._learned(answer, body, without):
                        continue
                    problem = self._problem(answer)
                    wait = retry_after(answer.headers.get("retry-after"))
                    if answer.status_code == 429:
                        self._slower()
                except (httpx.TransportError, httpx.DecodingError) as error:
                    problem = f"{self.url}: cannot be reached ({one_line(error) or type(error).__name__})"
                    if isinstance(error, httpx.ConnectError) and not self._answered:
                        tries = TRIES_TO_CONNECT
            attempt += 1
            if attempt >= tries:
                break
            self.retries += 1
            await asyncio.sleep(wait if wait is not None else self._backoff(attempt))
        if self._answered > answered:  # the server works: it is this request that it cannot bear
            raise Unanswered(f"{problem}, {attempt} times".removeprefix(f"{self.url}: "))
        raise Stopped(f"{problem}, {attempt} times; what was answered is stored, run again to go on")

    @asynccontextmanager
    async def _turn(self) -> AsyncIterator[Any]:
        """Wait until fewer requests than the limit are under way, and be one of them, with a connection of its own.

        httpx looks at all connections of a pool for each request, which with 16 takes longer than the request itself.
        """
        async with self._free:
            await self._free.wait_for(lambda: self._under_way < max(1, int(self.limit)))
            self._under_way += 1
        client = self._idle.pop() if self._idle else self._new_client()
        try:
            yield client
        finally:
            self._idle.append(client)
            async with self._free:
                self._under_way -= 1
                self._free.notify_all()

    def _learned(self, answer: Any, body: Mapping[str, Any], without: tuple[str, ...]) -> bool:
        """Whether the server refuses a parameter that it can do without, so that the request goes again at once."""
        words = _message(answer).lower()
        if answer.status_code not in (400, 422) or not any(word in words for word in REFUSED):
            return False
        refused = [name for name in OPTIONAL if name in body and name not in without and name in words]
        self.without = tuple(name for name in OPTIONAL if name in (*self.without, *refused))
        return bool(refused) or self.without != without

    def _problem(self, answer: Any) -> str:
        """What went wrong, where another try may help; otherwise an exception."""
        code, words = answer.status_code, self._without_key(_message(answer))
        problem = f"{self.url}: status {code} ({words})" if words else f"{self.url}: status {code}"
        if code in HOPELESS or (code == 429 and any(word in words.lower() for word in NO_MONEY)):
            hint = "; set OPENAI_API_KEY or pass key_file=..." if code == 401 else ""
            raise Stopped(f"{problem}{hint}")
        blind = code == 500 and any(word in words.lower() for word in NO_IMAGES)
        if code not in AGAIN or blind:
            raise Unanswered(f"status {code}: {words}" if words else f"status {code}")
        return problem

    def _backoff(self, attempt: int) -> float:
        """Exponential with jitter: all clients that a server sent away do not come back together."""
        return min(SLOWEST, self.pause * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)

    def _faster(self) -> None:
        self.limit = min(float(self.most), self.limit + 1 / self.limit)

    def _slower(self) -> None:
        """Halve the number under way; not for every one of the refusals that arrive together."""
        now = asyncio.get_running_loop().time()
        if now - self._halved > self.pause:
            self.limit, self._halved = max(1.0, self.limit / 2), now

    def _without_key(self, text: str) -> str:
        return text.replace(self._key, "…") if self._key else text


def read_key(file: str | Path | None) -> str:
    """The key from a file, or from the variable OPENAI_API_KEY; empty where the server wants none."""
    source: Any = file or "OPENAI_API_KEY"
    try:
        key = os.environ.get(source, "") if file is None else read_regular(file, SMALL).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: cannot be read ({one_line(error)}), expected a file with a key") from None
    key = key.strip()
    if (file and not key) or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{source}: expected a key, one word on one line")
    return key


def retry_after(header: str | None) -> float | None:
    """Seconds that a server asks for: a number, or a date.

    >>> retry_after("2.5"), retry_after("900"), retry_after(None), retry_after("soon")
    (2.5, 120.0, None, None)
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        from datetime import datetime, timezone

        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(timezone.utc)).total_seconds()
        except (TypeError, ValueError):
            return None
    return min(max(seconds, 0.0), 2 * SLOWEST) if seconds == seconds else None


def _checked(url: str) -> str:
    try:
        parts = urlsplit(url)
        right = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        right = False
    if not right or "@" in url or parts.query or not url.isprintable():
        shown = url.rpartition("@")[2]  # a password stands before it
        raise InputError(f"endpoint={shown}: expected an address such as http://127.0.0.1:8080/v1")
    return url.rstrip("/").removesuffix("/chat/completions")


def _reduced(body: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """The body less what the model refuses to be told; new models of OpenAI have another name for the length."""
    reduced = {name: value for name, value in body.items() if name not in without}
    return reduced | ({"max_completion_tokens": body["max_tokens"]} if "max_tokens" in without else {})


def _decoded(answer: Any) -> dict[str, Any]:
    try:
        response = answer.json()
    except (ValueError, RecursionError):
        raise Unanswered("the reply is no JSON") from None
    if not isinstance(response, dict) or not isinstance(response.get("choices"), list) or not response["choices"]:
        raise Unanswered("the reply has no choices")
    return response


def _message(answer: Any) -> str:
    """The server's own words, wherever it put them."""
    try:
        body = answer.json()
        error = body.get("error", body) if isinstance(body, dict) else body
        words = error.get("message", error) if isinstance(error, dict) else error
    except (ValueError, RecursionError):
        words = answer.text
    return " ".join(str(words).split())[:160]
