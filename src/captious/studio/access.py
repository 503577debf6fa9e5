"""Access control of the server: tokens, form tokens, security headers, rate limits, and media files inside one folder.

Nothing here depends on studies or runs: the rating pages, the owner's page and the explorer use the same two ASGI
middlewares. `Guard` wraps the whole app. `TokenGate` wraps the pages that only the owner may see.
"""

from __future__ import annotations

import hashlib
import hmac
import ipaddress
import json
import re
import secrets
import time
from collections import deque
from collections.abc import Awaitable, Callable, Iterable, MutableMapping
from dataclasses import dataclass, field
from http import HTTPStatus
from http.cookies import CookieError, SimpleCookie
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from captious._core.files import SMALL, read_regular, refuse_irregular
from captious.errors import InputError

Scope = MutableMapping[str, Any]
Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Scope, Receive, Send], Awaitable[None]]

# Maximum size of a request's body, in bytes.
BODY = 65_536
# Methods that change nothing on the server.
SAFE = ("GET", "HEAD", "OPTIONS")
LOCAL = frozenset({"localhost", "127.0.0.1", "::1"})
# Minimum length of a token that an owner chooses.
SHORTEST = 16


def make_token() -> str:
    """Return 128 random bits as text that is safe in a URL."""
    return secrets.token_urlsafe(16)


def hash_token(token: str) -> str:
    """Return the SHA-256 hash of a token, which is stored instead of the token.

    >>> hash_token("abc")[:16]
    'ba7816bf8f01cfea'
    """
    return hashlib.sha256(token.encode()).hexdigest()


def is_same_token(token: str, expected: str) -> bool:
    """Compare two tokens in constant time."""
    return hmac.compare_digest(token.encode(), expected.encode())


def make_form_token(session: str) -> str:
    """Return the CSRF token in a session's forms. Other sites cannot compute it, since they cannot read the cookie.

    >>> make_form_token("abc") == make_form_token("abc") != make_form_token("abd")
    True
    """
    return hmac.new(session.encode(), b"captious form", hashlib.sha256).hexdigest()[:32]


def read_owner_token(path: Path | None) -> str:
    """Read the owner's token from a file; return a new one if there is no file."""
    if path is None:
        return make_token()
    expected = f"expected a token of at least {SHORTEST} characters without spaces"
    try:
        token = read_regular(path, SMALL).decode().strip()
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}), {expected}") from None
    except UnicodeDecodeError:
        token = ""
    if len(token) < SHORTEST or not token.isascii() or not token.isprintable() or " " in token:
        raise InputError(f"{path}: {expected}")
    return token


def _render_plain_page(status: int, message: str) -> str:
    return f"<!doctype html><html lang='en'><title>{status}</title><p>{message}</p></html>"


_PUBLIC_URL = re.compile(r"(?i:https?)://[A-Za-z0-9.:\[\]-]+/?")


@dataclass(frozen=True)
class Rules:
    """Settings that apply to every request to one server."""

    hosts: frozenset[str] = frozenset()
    """Names by which the server may be called, besides IP addresses and localhost."""
    origin: str = ""
    """Scheme and host of the public URL, such as https://studio.example.org behind a proxy; empty if there is none."""
    secure: bool = False
    """Whether people reach the server by https; cookies are sent only by https then."""
    error_page: Callable[[int, str], str] = field(default=_render_plain_page, compare=False)
    """Function that makes an error page from a status code and a message; messages need no HTML escaping."""

    @classmethod
    def of_server(cls, host: str, public_url: str | None = None, **others: Any) -> Rules:
        """Make the rules of a server that listens on `host` and that people reach at `public_url`.

        >>> rules = Rules.of_server("127.0.0.1", "https://studio.example.org")
        >>> rules.secure, rules.allows_host("studio.example.org"), rules.allows_host("evil.example")
        (True, True, False)
        """
        names = {host.lower()} - {"0.0.0.0", "::"}
        if public_url is None:
            return cls(hosts=frozenset(names), **others)
        try:
            address = urlsplit(public_url)
            name, _ = address.hostname, address.port  # `port` raises ValueError if it is not a valid number
        except ValueError:
            name = None
        if not name or not _PUBLIC_URL.fullmatch(public_url):
            raise InputError(f"public_url={public_url!r}: expected an address such as https://studio.example.org")
        origin = f"{address.scheme}://{address.netloc}".lower()
        return cls(hosts=frozenset({*names, name}), origin=origin, secure=address.scheme == "https", **others)

    @property
    def security_policy(self) -> str:
        """The Content-Security-Policy: nothing from other origins, no inline script or style."""
        return "; ".join(
            [
                "default-src 'none'",
                "script-src 'self'",
                "style-src 'self'",
                "img-src 'self'",
                "media-src 'self'",
                "connect-src 'self'",
                "form-action 'self'",
                "base-uri 'none'",
                "frame-ancestors 'none'",
            ]
        )

    def headers(self) -> dict[str, str]:
        """Return the headers of every response; an app that sets one of them itself keeps its own."""
        return {
            "content-security-policy": self.security_policy,
            "x-content-type-options": "nosniff",
            "referrer-policy": "no-referrer",
            "cross-origin-opener-policy": "same-origin",
            "cross-origin-resource-policy": "same-origin",
            "cache-control": "no-store",
        }

    def allows_host(self, header: str) -> bool:
        """Return True if the Host header names this server, which guards against DNS rebinding.

        >>> Rules().allows_host("[::1]:8000"), Rules().allows_host("192.168.0.7"), Rules().allows_host("a.example:80")
        (True, True, False)
        """
        try:
            name = urlsplit(f"//{header}").hostname or ""
        except ValueError:
            return False
        return name in LOCAL or name in self.hosts or _is_ip_address(name)

    def cookie(self, name: str, value: str) -> str:
        """Return the Set-Cookie header of a session: valid for a year, or deleted if the value is empty."""
        age = 31_536_000 if value else 0
        secure = "; Secure" if self.secure else ""
        return f"{name}={value}; Max-Age={age}; Path=/; HttpOnly; SameSite=Lax{secure}"


def explain_reach(address: str) -> str:
    """Explain in a sentence who cannot open an address, and what to do; empty if it is a public https address.

    >>> explain_reach("http://192.168.0.7:8765").partition(":")[0]
    'only people in your own network can open 192.168.0.7'
    >>> explain_reach("https://rate.example.org")
    ''
    """
    parts = urlsplit(address)
    name = parts.hostname or ""
    remedy = "serve the study behind a web server or a tunnel with --public-url https://… "
    remedy += "(guide: From your laptop to raters)"
    try:
        number = ipaddress.ip_address(name)
    except ValueError:
        number = None
    if number is not None and number.is_unspecified:
        return f"raters cannot open {name}: name an address that they can open with --public-url"
    if name == "localhost" or (number is not None and number.is_loopback):
        return f"only this computer can open {name}: for raters elsewhere, {remedy}"
    in_network = number.is_private if number is not None else name.endswith(".local") or "." not in name
    if in_network:
        return f"only people in your own network can open {name}: for raters elsewhere, {remedy}"
    return "" if parts.scheme == "https" else f"{name} is reached by plain http, so others can read the links: {remedy}"


def _is_ip_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


class Limit:
    """Rate limit: at most `most` events of a key within `seconds`, such as wrong tokens from an address.

    >>> limit = Limit(2, seconds=60, clock=lambda: 0.0)
    >>> limit.add("a"), limit.wait("a"), limit.add("a"), limit.wait("a"), limit.wait("b")
    (None, 0.0, None, 60.0, 0.0)
    """

    def __init__(self, most: int, seconds: float, clock: Callable[[], float] = time.monotonic) -> None:
        self.most, self.seconds, self._clock = most, seconds, clock
        self._times: dict[str, deque[float]] = {}
        self._lock = Lock()

    def wait(self, key: str) -> float:
        """Return the seconds until the key may have another event, 0 if it may now; do not block."""
        with self._lock:
            times = self._times.get(key, deque())
            return max(0.0, times[0] + self.seconds - self._clock()) if len(times) == self.most else 0.0

    def add(self, key: str) -> None:
        """Count an event of the key."""
        now = self._clock()
        with self._lock:
            # To bound memory, forget keys without a recent event.
            if key not in self._times and len(self._times) > 10_000:
                self._times = {name: times for name, times in self._times.items() if times[-1] > now - self.seconds}
            self._times.setdefault(key, deque(maxlen=self.most)).append(now)


class Guard:
    """Middleware that checks Host and Origin, limits the size of the body, and adds the security headers."""

    def __init__(self, app: App, rules: Rules, body: int = BODY) -> None:
        self.app, self.rules, self.body = app, rules, body
        self._headers = [(name.encode(), value.encode()) for name, value in rules.headers().items()]

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Refuse a request to another host, from another site or with too large a body; pass others to the app."""
        if scope["type"] != "http":  # startup and shutdown are passed on, websockets are not served
            if scope["type"] == "lifespan":
                await self.app(scope, receive, send)
            return
        send = self._add_headers(send)
        headers = read_headers(scope)
        if not self.rules.allows_host(headers.get("host", "")):
            await refuse(scope, send, self.rules, 400, "This server does not answer under this name.")
        elif scope["method"] not in SAFE and not _is_from_own_page(headers, self.rules.origin):
            await refuse(scope, send, self.rules, 403, "The request came from a page of another site.")
        elif scope["method"] in SAFE:
            await self.app(scope, receive, send)
        else:
            await self._handle_body(scope, receive, send)

    async def _handle_body(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Read the whole body, then call the app: an incomplete form of a closed browser must not become an answer."""
        body = bytearray()
        while len(body) <= self.body:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            body += message.get("body", b"")
            if not message.get("more_body"):
                break
        if len(body) > self.body:
            await refuse(scope, send, self.rules, 413, f"More than {self.body // 1024} KB were sent.")
        else:
            await self.app(scope, _replay(bytes(body), receive), send)

    def _add_headers(self, send: Send) -> Send:
        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                own = {bytes(name).lower() for name, _ in message.get("headers", ())}
                missing = [pair for pair in self._headers if pair[0] not in own]
                message = {**message, "headers": [*message.get("headers", ()), *missing]}
            await send(message)

        return send_with_headers


class TokenGate:
    """Middleware around an app that requires a token.

    The token comes once in the URL, ``?token=…``; it is moved into a cookie, and the browser is
    redirected to the URL without it.
    """

    def __init__(self, app: App, token: str, cookie: str, rules: Rules, wrong: Limit | None = None) -> None:
        self.app, self.token, self.cookie, self.rules = app, token, cookie, rules
        self.wrong = wrong or Limit(10, seconds=60)
        self._refused: set[str] = set()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request with the right cookie to the app, move a right token from the URL into a cookie, or refuse."""
        if scope["type"] != "http":
            await self.app(scope, receive, send)
            return
        (token,) = parse_qs(scope["query_string"].decode("latin-1")).get("token", [""])[:1]
        session = read_cookie(scope, self.cookie)
        address = get_client_address(scope)
        if not token and session and is_same_token(session, self.token):
            await self.app(scope, receive, send)
        elif self.wrong.wait(address):
            await refuse(scope, send, self.rules, 429, "Too many wrong tokens. Try again in a minute.")
        elif token and is_same_token(token, self.token):
            cookie = self.rules.cookie(self.cookie, self.token)
            headers = [(b"location", scope["path"].encode()), (b"set-cookie", cookie.encode())]
            await send({"type": "http.response.start", "status": 303, "headers": headers})
            await send({"type": "http.response.body", "body": b""})
        else:
            # A repeated old cookie is refused, but does not count towards the rate limit.
            if token or (session and self._record_wrong_cookie(session)):
                self.wrong.add(address)
            await refuse(scope, send, self.rules, 403, "Open the link that the server printed when it started.")

    def _record_wrong_cookie(self, session: str) -> bool:
        """Record a wrong cookie; return True if it is the first time.

        A page that was open before the server restarted repeats its old cookie for hours; it counts as one wrong token.
        """
        digest = hash_token(session)
        if digest in self._refused:
            return False
        if len(self._refused) >= 10_000:  # to bound memory
            self._refused.clear()
        self._refused.add(digest)
        return True


def read_headers(scope: Scope) -> dict[str, str]:
    """Return the headers of a request by name in lower case; the last one counts if a name occurs twice."""
    return {name.decode("latin-1").lower(): value.decode("latin-1") for name, value in scope["headers"]}


def read_cookie(scope: Scope, name: str) -> str:
    """Return the value of a cookie; empty if the request has none."""
    try:
        cookies = SimpleCookie(read_headers(scope).get("cookie", ""))
    except CookieError:
        return ""
    return cookies[name].value if name in cookies else ""


def get_client_address(scope: Scope) -> str:
    """Return the client's address for rate limits; for IPv6 the /64 network, which usually belongs to one subscriber.

    >>> get_client_address({"client": ("10.0.0.1", 5000)}), get_client_address({"client": ("2001:db8::17", 5000)})
    ('10.0.0.1', '2001:db8::/64')
    """
    text = str(scope["client"][0]) if scope.get("client") else ""
    try:
        network = ipaddress.IPv6Network((text, 64), strict=False)
    except ValueError:
        return text
    mapped = ipaddress.IPv6Address(text).ipv4_mapped  # an IPv4 client of a server that listens on IPv6
    return str(network if mapped is None else mapped)


async def refuse(
    scope: Scope, send: Send, rules: Rules, status: int, message: str, headers: Iterable[tuple[str, str]] = ()
) -> None:
    """Send an error: an HTML page for people, JSON for a script that asked for it."""
    if "application/json" in read_headers(scope).get("accept", ""):
        kind, body = "application/json", json.dumps({"error": message, "status": HTTPStatus(status).phrase})
    else:
        kind, body = "text/html; charset=utf-8", rules.error_page(status, message)
    all_headers = [("content-type", kind), ("content-length", str(len(body.encode()))), *headers]
    pairs = [(name.encode(), value.encode()) for name, value in all_headers]
    await send({"type": "http.response.start", "status": status, "headers": pairs})
    await send({"type": "http.response.body", "body": b"" if scope["method"] == "HEAD" else body.encode()})


def _is_from_own_page(headers: dict[str, str], public: str) -> bool:
    """Return False if the headers of a POST request show that it came from a page of another site.

    Browsers send Sec-Fetch-Site. Old ones send only Origin, which our referrer policy makes "null" for our own forms.
    A request with Origin "null" or without both headers is accepted here; the check of its form token decides.
    """
    site = headers.get("sec-fetch-site")
    if site is not None:
        return site in ("same-origin", "none")
    origin = headers.get("origin", "null")
    return origin in ("null", public) or urlsplit(origin).netloc == headers.get("host")


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return a receive channel that gives the body once, then forwards to `receive`."""
    messages = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_body() -> Message:
        return messages.pop() if messages else await receive()

    return receive_body


_BEGINNINGS = (
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
)


# Brands of AVIF, and of still images of the same family that browsers do not show.
_AVIF = (b"avif", b"avis")
_IMAGE_BRANDS = (*_AVIF, b"heic", b"heix", b"mif1", b"msf1")


def detect_image_type(beginning: bytes) -> str | None:
    """Return the media type by the first 16 bytes of a file; None for SVG (scripts) and what browsers do not show.

    >>> detect_image_type(b"GIF89a..."), detect_image_type(b"RIFF0000WEBPVP8 "), detect_image_type(b"<svg xmlns=")
    ('image/gif', 'image/webp', None)
    """
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WEBP":
        return "image/webp"
    if beginning[4:8] == b"ftyp" and beginning[8:12] in _AVIF:
        return "image/avif"
    return next((kind for start, kind in _BEGINNINGS if beginning.startswith(start)), None)


# How to make a video that every browser plays.
CONVERT = "convert others with ffmpeg -i x -c:v libx264 -pix_fmt yuv420p y.mp4"
_SOUNDS = ((b"fLaC", "audio/flac"), (b"OggS", "audio/ogg"), (b"ID3", "audio/mpeg"))


def detect_sound_type(beginning: bytes) -> str | None:
    """Return the media type by the first 16 bytes of a file; None if browsers do not play it.

    >>> [detect_sound_type(start) for start in (b"RIFF0000WAVEfmt ", b"OggS", bytes([0xFF, 0xFB, 0x90]), b"<svg")]
    ['audio/wav', 'audio/ogg', 'audio/mpeg', None]
    """
    if beginning[:4] == b"RIFF" and beginning[8:12] == b"WAVE":
        return "audio/wav"
    if beginning[4:8] == b"ftyp" and beginning[8:11] in (b"M4A", b"mp4", b"iso"):
        return "audio/mp4"
    if len(beginning) > 1 and beginning[0] == 0xFF and beginning[1] & 0xE0 == 0xE0:
        # A frame of MPEG audio starts with eleven 1 bits; layer bits of zero mean AAC.
        return "audio/mpeg" if beginning[1] & 0x06 else "audio/aac"
    return next((kind for start, kind in _SOUNDS if beginning.startswith(start)), None)


# An MKV file begins like a WebM file, and browsers that play its codecs play it under this type.
_VIDEOS = ((b"\x1a\x45\xdf\xa3", "video/webm"), (b"OggS", "video/ogg"))


def detect_video_type(beginning: bytes) -> str | None:
    r"""Return the media type by the first 16 bytes of a file; None if browsers do not play it, such as AVI or MPEG-2.

    An MP4 file with only sound begins like one with pictures: the folder that it is in decides what it is.

    >>> [detect_video_type(start) for start in (b"\0\0\0 ftypisom", b"\x1a\x45\xdf\xa3", b"RIFF0000AVI ")]
    ['video/mp4', 'video/webm', None]
    """
    if beginning[4:8] == b"ftyp" and beginning[8:12] not in _IMAGE_BRANDS:
        return "video/mp4"
    return next((kind for start, kind in _VIDEOS if beginning.startswith(start)), None)


def find_image_file(folder: Path, name: str) -> tuple[Path, str]:
    """Return the path and the media type of an image; raise `InputError` if it is not an image inside the folder."""
    return _find_media_file(folder, name, detect_image_type, "an image", "a JPEG, PNG, GIF, WebP, AVIF or BMP image")


def find_sound_file(folder: Path, name: str) -> tuple[Path, str]:
    """Return the path and the media type of a sound; raise `InputError` if it is not a sound inside the folder."""
    return _find_media_file(folder, name, detect_sound_type, "a sound", "a WAV, FLAC, MP3, Ogg, M4A or AAC sound")


def find_video_file(folder: Path, name: str) -> tuple[Path, str]:
    """Return the path and the media type of a video; raise `InputError` if browsers play no such file of the folder."""
    return _find_media_file(
        folder, name, detect_video_type, "a video", f"an MP4, WebM or Ogg video, which browsers play; {CONVERT}"
    )


def _find_media_file(
    folder: Path, name: str, type_of: Callable[[bytes], str | None], what: str, kinds: str
) -> tuple[Path, str]:
    """Return the path and the media type of a file inside a folder.

    Links are resolved first, so that a link to a file outside the folder is refused like ``../``.
    """
    path, beginning = _resolve_inside(folder, name, what)
    kind = type_of(beginning)
    if kind is None:
        raise InputError(f"{name!r} in {folder}: expected {kinds}")
    return path, kind


def find_media_path(folder: Path, name: str, what: str = "a video") -> Path:
    """Return the path of a file inside the folder, whatever it contains; raise `InputError` if it is not there."""
    return _resolve_inside(folder, name, what)[0]


def _resolve_inside(folder: Path, name: str, what: str) -> tuple[Path, bytes]:
    """Return the path of a file and its first bytes, after following links; raise `InputError` if it is outside."""
    root = folder.resolve()
    try:
        path = (root / name).resolve(strict=True)
        inside = path.is_relative_to(root)
        beginning = _read_first_bytes(path) if inside else b""
    except (OSError, RuntimeError, ValueError) as error:  # absent; a loop of links; a null character
        raise InputError(f"{name!r}: cannot be read in {folder}, expected {what}") from error
    if not inside:
        raise InputError(f"{name!r}: is outside {folder}, expected {what} inside it")
    return path, beginning


def _read_first_bytes(path: Path) -> bytes:
    refuse_irregular(path)
    with path.open("rb") as file:
        return file.read(16)
