"""Entries that Prolific signed: a JSON Web Token in the address, checked against the public keys of Prolific.

The keys are a file that the owner downloads (``https://api.prolific.com/.well-known/study/jwks.json``); the server asks
nobody. Mechanical Turk signs nothing.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import json
import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from captious._core.files import load_json
from captious.errors import InputError

PARAMETER = "prolific_token"
"""The parameter of the address in which Prolific sends the token."""
LONGEST = 8192
"""Most characters of a token."""
SLACK = 60.0
"""Seconds by which the clocks may differ."""
_SHA256 = bytes.fromhex("3031300d060960864801650304020105000420")
"""What stands before a SHA-256 digest in a signature of RSASSA-PKCS1-v1_5 (RFC 8017, section 9.2)."""


class PublicKey(NamedTuple):
    """A public key of RSA."""

    modulus: int
    exponent: int

    def signed(self, message: bytes, signature: bytes) -> bool:
        """Whether a message has this signature (RS256)."""
        size = (self.modulus.bit_length() + 7) // 8
        number = int.from_bytes(signature, "big")
        if len(signature) != size or number >= self.modulus:
            return False
        ending = _SHA256 + hashlib.sha256(message).digest()
        expected = b"\0\1" + b"\xff" * (size - len(ending) - 3) + b"\0" + ending
        return hmac.compare_digest(pow(number, self.exponent, self.modulus).to_bytes(size, "big"), expected)


def read_keys(path: Path) -> dict[str, PublicKey]:
    """The keys of a file by their ids."""
    expected = "expected the keys of Prolific, as https://api.prolific.com/.well-known/study/jwks.json has them"
    try:
        entries = load_json(path)["keys"]
        keys = {str(one["kid"]): PublicKey(_number(one["n"]), _number(one["e"])) for one in entries if _is_rsa(one)}
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}), {expected}") from None
    except (ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{path}: contains no keys, {expected}") from None
    if not keys or not all(
        2048 <= key.modulus.bit_length() <= 8192 and 3 <= key.exponent < 2**32 for key in keys.values()
    ):
        raise InputError(f"{path}: contains no key of RSA with 2,048 to 8,192 bits, {expected}")
    return keys


def _is_rsa(entry: Mapping[str, Any]) -> bool:
    return entry.get("kty") == "RSA" and entry.get("alg", "RS256") == "RS256"


class SignedEntries:
    """Tokens in addresses, and the file of keys. The file is read again for an unknown key, once a minute at most."""

    def __init__(self, path: Path, hosts: Collection[str] = ()) -> None:
        """``hosts`` are the names of the server, of which the token must have one; any where there are none."""
        self.path, self.hosts = path, frozenset(hosts)
        self._keys = read_keys(path)
        self._read = time.monotonic()
        self._lock = threading.Lock()

    def parameters(self, token: str, now: float | None = None) -> dict[str, str] | None:
        """What Prolific says of the visitor; None where the token is not Prolific's, not for us, or too old."""
        head, _, rest = token.partition(".")
        body, _, signature = rest.partition(".")
        header = _decoded(head)
        if len(token) > LONGEST or header is None or header.get("alg") != "RS256":
            return None
        key = self._key(str(header.get("kid")))
        if key is None or not key.signed(f"{head}.{body}".encode(), _bytes(signature) or b""):
            return None
        claims = _decoded(body) or {}
        said = claims.get("prolific")
        if not self._holds(claims, time.time() if now is None else now) or not isinstance(said, dict):
            return None
        return {str(name): value for name, value in said.items() if isinstance(value, str)}

    def _holds(self, claims: Mapping[str, Any], now: float) -> bool:
        """Whether a token is still valid, and meant for this server."""
        end, audience = claims.get("exp"), claims.get("aud")
        if isinstance(end, bool) or not isinstance(end, (int, float)) or end < now - SLACK:
            return False
        names = {_host(one) for one in (audience if isinstance(audience, list) else [audience])}
        return not self.hosts or bool(names & self.hosts)

    def _key(self, id: str) -> PublicKey | None:
        with self._lock:
            if id not in self._keys and time.monotonic() - self._read > 60:
                self._read = time.monotonic()
                try:
                    self._keys = read_keys(self.path)
                except InputError:  # it is being replaced; the keys that are known stay
                    return None
            return self._keys.get(id)


def _host(audience: Any) -> str:
    """The host of an audience, which is an address or a name."""
    try:
        text = str(audience)
        return (urlsplit(text if "//" in text else f"//{text}").hostname or "").lower()
    except ValueError:
        return ""


def _bytes(text: str) -> bytes | None:
    try:
        return base64.urlsafe_b64decode(text.encode("ascii") + b"=" * (-len(text) % 4))
    except (ValueError, binascii.Error):
        return None


def _number(text: str) -> int:
    data = _bytes(text)
    if not data:
        raise ValueError("no number")
    return int.from_bytes(data, "big")


def _decoded(text: str) -> dict[str, Any] | None:
    """The object in a part of a token."""
    try:
        value = json.loads(_bytes(text) or b"")
    except (ValueError, RecursionError):
        return None
    return value if isinstance(value, dict) else None
