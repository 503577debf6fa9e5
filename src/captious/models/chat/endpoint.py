"""A server that speaks the OpenAI protocol: one POST, tried again where that helps, as many at a time as it bears."""

from __future__ import annotations

import asyncio
import os
import random
from collections.abc import Mapping
from email.utils import parsedate_to_datetime
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from captious.errors import InputError, one_line, require

TRIES = 6
SLOWEST = 60.0
"""Longest pause before another try, in seconds; a server's Retry-After may ask for up to two minutes."""
AGAIN = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
HOPELESS = frozenset({401, 402, 403, 404})
"""Status codes that every other request would get too: the run stops."""
NO_IMAGES = ("mmproj", "image input", "does not support image", "multimodal")
"""Words of servers that answer 500 to an image because their model has no eyes."""


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
        self._key = key
        self._under_way = 0
        self._halved = 0.0
        self._free: asyncio.Condition
        self._client: Any

    async def __aenter__(self) -> Endpoint:
        httpx = require("httpx", "judge")
        headers = {"Authorization": f"Bearer {self._key}"} if self._key else {}
        limits = httpx.Limits(max_connections=self.most, max_keepalive_connections=self.most)
        timeout = httpx.Timeout(self.timeout, connect=20.0)
        self._client = httpx.AsyncClient(headers=headers, limits=limits, timeout=timeout)
        self._free = asyncio.Condition()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._client.aclose()

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """The response as the server sent it."""
        httpx = require("httpx", "judge")
        for attempt in range(1, TRIES + 1):
            async with self._free:
                await self._free.wait_for(lambda: self._under_way < max(1, int(self.limit)))
                self._under_way += 1
            wait: float | None = None
            try:
                answer = await self._client.post(f"{self.url}/chat/completions", json=body)
                if answer.status_code == 200:
                    self._faster()
                    return _decoded(answer)
                problem = self._problem(answer)
                wait = retry_after(answer.headers.get("retry-after"))
                if answer.status_code == 429:
                    self._slower()
            except (httpx.TransportError, httpx.DecodingError) as error:
                problem = f"{self.url}: cannot be reached ({one_line(error) or type(error).__name__})"
            finally:
                async with self._free:
                    self._under_way -= 1
                    self._free.notify_all()
            if attempt < TRIES:
                self.retries += 1
                await asyncio.sleep(wait if wait is not None else self._backoff(attempt))
        raise Stopped(f"{problem}, {TRIES} times; what was answered is stored, run again to go on")

    def _problem(self, answer: Any) -> str:
        """What went wrong, where another try may help; otherwise an exception."""
        code, words = answer.status_code, self._without_key(_message(answer))
        problem = f"{self.url}: status {code} ({words})" if words else f"{self.url}: status {code}"
        if code in HOPELESS:
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
    if file is None:
        return os.environ.get("OPENAI_API_KEY", "").strip()
    try:
        key = Path(file).read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{file}: cannot be read ({one_line(error)}), expected a file with a key") from None
    if not key or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{file}: expected one line with a key")
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
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname or parts.username or parts.query:
        raise InputError(f"endpoint={url}: expected an address such as http://127.0.0.1:8080/v1")
    return url.rstrip("/").removesuffix("/chat/completions")


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
