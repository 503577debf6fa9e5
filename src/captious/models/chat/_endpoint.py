"""Client of a server with the OpenAI protocol: POST with retries and adaptive concurrency."""

from __future__ import annotations

import asyncio
import json
import math
import os
import random
import re
import zlib
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from email.utils import parsedate_to_datetime
from itertools import accumulate
from pathlib import Path
from ssl import SSLContext, create_default_context
from typing import Any, NamedTuple
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from captious._core.files import SMALL, read_regular
from captious.errors import InputError, format_one_line, require

TRIES = 8
# Tries before any request has reached the server: a wrong address is reported within seconds.
TRIES_TO_CONNECT = 3
# Tries if a server accepts the request but does not reply in time.
TRIES_IN_SILENCE = 2
# Timeout of a connection, in seconds.
LONGEST_CONNECT = 20.0
# Longest pause before another try, in seconds.
SLOWEST = 60.0
# Longest Retry-After that is respected, in seconds; a longer one ends the run.
LONGEST_WAIT = 120.0
# Timeout of one request with all its tries and pauses, in seconds.
TOTAL_TIMEOUT = 900.0
# Largest response in bytes, compressed or not; with probabilities of 1,024 tokens it has about 2 million.
LONGEST_REPLY = 32 * 2**20
# Largest header in bytes.
LONGEST_HEADER = 2**16
# Status codes after which the request is tried again.
RETRIED = frozenset({408, 409, 425, 429, 500, 502, 503, 504, 529})
# Status codes that every request would get: the run stops.
FATAL = frozenset({*range(300, 400), 401, 402, 403, 404, 405})
# Words in a 429 response that says that the account has no credit: waiting does not help.
NO_CREDIT = ("insufficient_quota", "exceeded your current quota", "billing")
# Words in a 500 response of servers whose model cannot read images.
NO_IMAGES = ("mmproj", "image input", "does not support image", "multimodal")
# Parameters that some models refuse; the request is repeated without them, and the response records it.
OPTIONAL = ("max_tokens", "temperature", "seed")
REFUSED = ("unsupported", "not support", "unrecognized", "unknown", "extra", "not permitted", "not allowed")


class Unanswered(Exception):
    """Raised if one request has no reply and a retry will not help; other requests may succeed."""


class EndpointUnavailable(InputError):
    """Raised if no request can be answered: the server is down, or it refuses the key or the model."""


class HttpResponse(NamedTuple):
    """Response of a server, read to its end and decompressed."""

    status: int
    content: bytes
    retry_after: str | None

    def json(self) -> Any:
        """Return the parsed content; raise ValueError if it is not JSON."""
        try:
            return json.loads(self.content)
        except RecursionError:
            raise ValueError("it is nested too deeply") from None


class Endpoint:
    """Client of one server. At most `limit` requests are in flight; a 429 halves the limit, success raises it."""

    def __init__(
        self, url: str, key: str = "", concurrency: int = 8, pause: float = 1.0, timeout: float = 300.0
    ) -> None:
        self.url = _check_url(url)
        self.name = redact_address(self.url)
        self.most, self.limit = concurrency, float(concurrency)
        self.pause, self.timeout = pause, timeout
        self.retries = 0
        # Parameters that the model refuses.
        self.without: tuple[str, ...] = ()
        self._answered = 0
        self._key = key
        self._under_way = 0
        self._halved = -math.inf
        self._free: asyncio.Condition
        self._session: Any = None

    async def __aenter__(self) -> Endpoint:
        aiohttp = require("aiohttp", "judge")
        headers = {"Accept-Encoding": "gzip, deflate", "Content-Type": "application/json"}
        headers |= {"Authorization": f"Bearer {self._key}"} if self._key else {}
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=self.most, ssl=_load_certificates(self.url)),
            headers=headers,
            timeout=aiohttp.ClientTimeout(total=self.timeout, sock_connect=LONGEST_CONNECT),
            auto_decompress=False,  # aiohttp's decompression has no size limit
            cookie_jar=aiohttp.DummyCookieJar(),
            proxy=_find_proxy(self.url),
            max_field_size=LONGEST_HEADER,
        )
        self._free = asyncio.Condition()
        return self

    async def __aexit__(self, *error: object) -> None:
        await self._session.close()

    async def complete(self, body: Mapping[str, Any]) -> dict[str, Any]:
        """Send a request with retries and return the response, with a list of the parameters that the model refused."""
        aiohttp = require("aiohttp", "judge")
        answered_before, tries, attempt, loop = self._answered, TRIES, 0, asyncio.get_running_loop()
        end = loop.time() + TOTAL_TIMEOUT
        while True:
            wait: float | None = None
            without = self.without
            async with self._wait_turn():
                try:
                    answer = await self._post(_drop_refused(body, without))
                    if answer.status == 200:
                        self._answered += 1
                        self._raise_limit()
                        return self._decode_response(answer) | ({"without": list(without)} if without else {})
                    if self._learn_refusal(answer, body, without):
                        continue
                    problem = self._describe_problem(answer)
                    wait = parse_retry_after(answer.retry_after)
                    if answer.status == 429:
                        self._lower_limit()
                except aiohttp.ClientError as error:  # before TimeoutError: a connection timeout is both
                    problem = f"{self.name}: cannot be reached ({self._describe_error(error)})"
                    if isinstance(error, aiohttp.ClientConnectorError) and not self._answered:
                        tries = TRIES_TO_CONNECT
                except asyncio.TimeoutError:
                    problem, tries = f"{self.name}: no complete reply within {self.timeout:.0f} s", TRIES_IN_SILENCE
            attempt += 1
            if wait is not None and wait > LONGEST_WAIT:
                raise EndpointUnavailable(f"{problem}; it asks to wait {_format_duration(wait)}: {STORED}")
            pause = wait if wait is not None else self._compute_pause(attempt)
            if attempt >= tries or loop.time() + pause > end:
                break
            self.retries += 1
            await asyncio.sleep(pause)
        if self._answered > answered_before:  # the server answers others, so this request is at fault
            raise Unanswered(f"{problem}, {attempt} times".removeprefix(f"{self.name}: "))
        raise EndpointUnavailable(f"{problem}, {attempt} times; {STORED}")

    async def _post(self, body: Mapping[str, Any]) -> HttpResponse:
        """Send a request, and read the response up to the size limit."""
        address, data = f"{self.url}/chat/completions", json.dumps(body).encode()
        async with self._session.post(address, data=data, allow_redirects=False) as response:
            content = bytearray()
            async for part in response.content.iter_any():
                content += part
                if len(content) > LONGEST_REPLY:
                    raise Unanswered(f"the reply is longer than {LONGEST_REPLY:,} bytes")
            unpacked = _unpack(bytes(content), response.headers.get("content-encoding", ""))
            return HttpResponse(response.status, unpacked, response.headers.get("retry-after"))

    @asynccontextmanager
    async def _wait_turn(self) -> AsyncIterator[None]:
        """Wait until fewer requests than the limit are in flight, and count as one of them inside the block."""
        async with self._free:
            await self._free.wait_for(lambda: self._under_way < max(1, int(self.limit)))
            self._under_way += 1
        try:
            yield
        finally:
            async with self._free:
                self._under_way -= 1
                self._free.notify_all()

    def _learn_refusal(self, answer: HttpResponse, body: Mapping[str, Any], without: tuple[str, ...]) -> bool:
        """Record the optional parameters that the server refuses.

        Return True if the request can be sent again without some: the server named them now, or another request has
        learned of them since this one was sent.
        """
        words = self._extract_message(answer).lower()
        if answer.status not in (400, 422) or not any(word in words for word in REFUSED):
            return False
        refused = [name for name in OPTIONAL if name in body and name not in without and name in words]
        self.without = tuple(name for name in OPTIONAL if name in (*self.without, *refused))
        return bool(refused) or self.without != without

    def _describe_problem(self, answer: HttpResponse) -> str:
        """Return a message if a retry may help; otherwise raise an exception."""
        code, words = answer.status, self._extract_message(answer)
        problem = f"{self.name}: status {code} ({words})" if words else f"{self.name}: status {code}"
        if code in FATAL or (code == 429 and any(word in words.lower() for word in NO_CREDIT)):
            hint = "; set OPENAI_API_KEY or pass key_file=..." if code == 401 else ""
            raise EndpointUnavailable(f"{problem}{hint}")
        blind = code == 500 and any(word in words.lower() for word in NO_IMAGES)
        if code not in RETRIED or blind:
            raise Unanswered(f"status {code}: {words}" if words else f"status {code}")
        return problem

    def _describe_error(self, error: Exception) -> str:
        """Return why a request failed, without the key, which a server may echo and aiohttp then quotes.

        Some of aiohttp's errors name the whole address besides their message.
        """
        named = isinstance(error, require("aiohttp", "judge").InvalidURL)
        words = getattr(error, "message", "" if named else str(error))
        shown = " ".join(words[:10_000].split()) if isinstance(words, str) else ""
        return redact_secret(shown, self._key)[:160] or type(error).__name__

    def _compute_pause(self, attempt: int) -> float:
        """Return the pause before a retry, exponential with jitter, so that clients do not all retry at once."""
        return min(SLOWEST, self.pause * 2.0 ** (attempt - 1)) * random.uniform(0.5, 1.0)

    def _raise_limit(self) -> None:
        self.limit = min(float(self.most), self.limit + 1 / self.limit)

    def _lower_limit(self) -> None:
        """Halve the limit, but only once for refusals that arrive together."""
        now = asyncio.get_running_loop().time()
        if now - self._halved > self.pause:
            self.limit, self._halved = max(1.0, self.limit / 2), now

    def _decode_response(self, answer: HttpResponse) -> dict[str, Any]:
        """Parse the response and redact the key in it."""
        try:
            response = answer.json()
        except ValueError:
            raise Unanswered("the reply is not JSON") from None
        if not isinstance(response, dict) or not isinstance(response.get("choices"), list) or not response["choices"]:
            raise Unanswered("the reply has no choices")
        if len(self._key) >= SECRET:  # a short word is no secret, and may be part of what a model says
            response = _redact_value(response, self._key)
        return dict(response)

    def _extract_message(self, answer: HttpResponse) -> str:
        """Extract the server's error message from the common places, without the key or a part of it."""
        try:
            body = answer.json()
            error = body.get("error", body) if isinstance(body, dict) else body
            words = error.get("message", error) if isinstance(error, dict) else error
        except ValueError:
            words = answer.content[:10_000].decode("utf-8", "replace")
        return redact_secret(" ".join(str(words)[:10_000].split()), self._key)[:160]


STORED = "all replies received are stored; run again to continue"
# Shortest key that is redacted, and shortest part of it.
SECRET, PART = 16, 8


def redact_secret(text: str, key: str, part: int = PART) -> str:
    r"""Replace a key, and every longer part of it, by an ellipsis, even if its characters are escaped.

    >>> redact_secret("bad key: sk-abcdefghijklmnop and sk-abcdef***", "sk-abcdefghijklmnop")
    'bad key: … and …***'
    >>> redact_secret(r"sk\/abcd\u002fefghijklm, sk%2Fabcd%2fefghijklm", "sk/abcd/efghijklm")
    '…, …'
    """
    if len(key) < SECRET:
        return text.replace(key, "…") if key else text
    hidden = _mark_secret(text, key, part)
    if hidden is None:
        return text
    shown = (
        ("" if start and hidden[start - 1] else "…") if hidden[start] else text[start] for start in range(len(text))
    )
    return "".join(shown)


def _mark_secret(text: str, key: str, part: int) -> bytearray | None:
    """Return a mark for each character of a text that belongs to a part of the key; None if there is no such part."""
    if len(text) < part:  # most texts of a reply are names and tokens
        return None
    # Every part of length `part` contains at least one of these pieces completely. Usually no piece is found, and the
    # slow search below is not needed.
    size = (part + 1) // 2
    pieces = [key[start : start + size] for start in range(0, len(key) - size + 1, size)]
    readings: list[tuple[str, list[re.Match[str]]]] = [(text, [])]
    if "\\" in text or "%" in text:
        characters = list(_CHARACTER.finditer(text))
        readings.append(("".join(map(_decode_escape, characters)), characters))
    readings = [(plain, characters) for plain, characters in readings if any(piece in plain for piece in pieces)]
    if not readings:
        return None
    parts = {key[start : start + part] for start in range(len(key) - part + 1)}
    hidden = bytearray(len(text))
    for plain, characters in readings:
        for start in range(len(plain) - part + 1):
            if plain[start : start + part] in parts:
                first, end = start, start + part
                if characters:
                    first, end = characters[start].start(), characters[end - 1].end()
                hidden[first:end] = b"\1" * (end - first)
    return hidden


# One character, or its escape: in JSON (also nested JSON), in a URL, or by a backslash.
_CHARACTER = re.compile(r"\\+u00([0-9a-f]{2})|%([0-9a-f]{2})|\\+([!-~])|.", re.IGNORECASE | re.DOTALL)


def _decode_escape(match: re.Match[str]) -> str:
    code = match[1] or match[2]
    return chr(int(code, 16)) if code else match[3] or match[0]


def _redact_value(value: Any, key: str) -> Any:
    """Redact the key, and half of it or more, in all strings of a JSON value."""
    part = max(PART, len(key) // 2)
    if isinstance(value, str):
        return redact_secret(value, key, part)
    if isinstance(value, list):
        if value and all(isinstance(one, dict) and isinstance(one.get("token"), str) for one in value):
            value = _hide_tokens(value, key, part)
        return [_redact_value(one, key) for one in value]
    if isinstance(value, dict):
        return {redact_secret(name, key, part): _redact_value(one, key) for name, one in value.items()}
    return value


def _hide_tokens(tokens: Sequence[Mapping[str, Any]], key: str, part: int) -> Sequence[Mapping[str, Any]]:
    """Hide the tokens of a key in the list of a reply's tokens, whose strings must be joined to find it."""
    hidden = _mark_secret("".join(one["token"] for one in tokens), key, part)
    if hidden is None:
        return tokens
    ends = list(accumulate(len(one["token"]) for one in tokens))
    return [
        {"token": "…", "logprob": one.get("logprob")} if any(hidden[end - len(one["token"]) : end]) else one
        for one, end in zip(tokens, ends, strict=True)
    ]


def _load_certificates(url: str) -> SSLContext | bool:
    """Load the certificates to verify the server with: the user's own file or folder, or certifi's list."""
    if not url.startswith("https:"):
        return True
    file, folder = os.environ.get("SSL_CERT_FILE"), os.environ.get("SSL_CERT_DIR")
    if not file and not folder:
        file = require("certifi", "judge").where()
    return create_default_context(cafile=file or None, capath=folder or None)


def _find_proxy(url: str) -> str | None:
    """Return the proxy that the environment sets for an address."""
    parts, proxies = urlsplit(url), getproxies()
    proxy = proxies.get(parts.scheme) or proxies.get("all")
    if not proxy or proxy_bypass(parts.netloc):
        return None
    scheme, separator, _ = proxy.partition("://")
    if separator and scheme not in ("http", "https"):
        raise InputError(f"{redact_address(url)}: the environment names a {scheme} proxy, expected one of http")
    return proxy if separator else f"http://{proxy}"


def _unpack(content: bytes, encoding: str) -> bytes:
    """Decompress the content of a response; raise Unanswered beyond the size limit."""
    kind = encoding.strip().lower()
    if kind in ("", "identity"):
        return content
    if kind not in ("gzip", "x-gzip", "deflate"):
        raise Unanswered(f"the reply is compressed as {kind[:40]!r}, which was not requested")
    unpacker = zlib.decompressobj(zlib.MAX_WBITS | 32)
    try:
        unpacked = unpacker.decompress(content, LONGEST_REPLY + 1)
    except zlib.error:
        raise Unanswered("the compressed reply is damaged") from None
    if len(unpacked) > LONGEST_REPLY:
        raise Unanswered(f"the reply is longer than {LONGEST_REPLY:,} bytes")
    return unpacked


def _format_duration(seconds: float) -> str:
    """Format a time in minutes, hours or days.

    >>> _format_duration(300), _format_duration(99999999)
    ('5 minutes', '1157 days')
    """
    for size, unit in ((86_400, "days"), (3600, "hours")):
        if seconds >= 2 * size:
            return f"{seconds / size:.0f} {unit}"
    return f"{seconds / 60:.0f} minutes"


def read_key(file: str | Path | None) -> str:
    """Read the key from a file, or from the variable OPENAI_API_KEY; empty if there is none."""
    source: Any = file or "OPENAI_API_KEY"
    try:
        key = os.environ.get(source, "") if file is None else read_regular(file, SMALL).decode()
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{source}: cannot be read ({format_one_line(error)}), expected a file with a key") from None
    key = key.strip()
    if (file and not key) or not key.isascii() or not key.isprintable() or " " in key:
        raise InputError(f"{source}: expected a key, one word on one line")
    return key


def parse_retry_after(header: str | None) -> float | None:
    """Parse a Retry-After header, a number or a date, to seconds.

    >>> parse_retry_after("2.5"), parse_retry_after("900"), parse_retry_after(None), parse_retry_after("soon")
    (2.5, 900.0, None, None)
    """
    if not header:
        return None
    try:
        seconds = float(header)
    except ValueError:
        from datetime import datetime, timezone

        try:
            seconds = (parsedate_to_datetime(header) - datetime.now(timezone.utc)).total_seconds()
        except (TypeError, ValueError, OverflowError):
            return None
    return max(seconds, 0.0) if math.isfinite(seconds) else None


def _check_url(url: str) -> str:
    try:
        parts = urlsplit(url)
        valid = parts.scheme in ("http", "https") and parts.hostname and parts.port != 0
    except ValueError:  # a port that is none, or half an IPv6 address
        valid = False
    if not valid or "@" in url or parts.query or not url.isprintable():
        raise InputError(f"endpoint={redact_address(url)}: expected an address such as http://127.0.0.1:8080/v1")
    return url.rstrip("/").removesuffix("/chat/completions")


def redact_address(url: str) -> str:
    """Format an address for a message without password, query and long words of the path, which may be keys.

    >>> redact_address("https://me:pass@api.example/v1?key=abc"), redact_address("http://a/0123456789abcdef0/v1")
    ('https://api.example/v1?…', 'http://a/…/v1')
    """
    address, query, _ = url.partition("?")
    scheme, slashes, rest = address.rpartition("://")
    host, *path = rest.rpartition("@")[2].split("/")
    shown = "/".join([host, *("…" if len(part) >= SECRET else part for part in path)])
    return f"{scheme}{slashes}{shown}{'?…' if query else ''}"


def _drop_refused(body: Mapping[str, Any], without: Sequence[str]) -> dict[str, Any]:
    """Return the body without refused parameters; new models of OpenAI have another name for the length."""
    reduced = {name: value for name, value in body.items() if name not in without}
    return reduced | ({"max_completion_tokens": body["max_tokens"]} if "max_tokens" in without else {})
