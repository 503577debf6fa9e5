"""Signed entries from Prolific: a JSON Web Token in the URL, verified with Prolific's public keys.

The owner downloads the keys into a file (``https://api.prolific.com/.well-known/study/jwks.json``); the server makes no
requests.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Collection, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from captious._core.files import load_json
from captious.errors import InputError, require

# The query parameter in which Prolific sends the token.
PARAMETER = "prolific_token"
# Maximum length of a token.
LONGEST = 8192
# Tolerated difference of the clocks, in seconds.
LEEWAY = 60.0
# The only accepted algorithm: the one in the header of a token is never trusted.
ALGORITHM = "RS256"
# The claims that a token must have.
REQUIRED = ("exp", "aud", "prolific")


def read_keys(path: Path) -> dict[str, Any]:
    """Read the public keys of a file, each a ``jwt.PyJWK``, by their ids."""
    jwt = require("jwt", "studio")
    expected = "expected the keys of Prolific, as https://api.prolific.com/.well-known/study/jwks.json has them"
    try:
        entries = [entry for entry in load_json(path)["keys"] if _is_rsa(entry)]
        # Only the public numbers: a private key in the file is never loaded.
        keys = {
            str(one["kid"]): jwt.PyJWK({name: one[name] for name in ("kty", "n", "e")}, ALGORITHM) for one in entries
        }
    except OSError as error:
        raise InputError(f"{path}: cannot be read ({error.strerror}), {expected}") from None
    except (jwt.PyJWTError, ValueError, TypeError, KeyError, AttributeError):
        raise InputError(f"{path}: contains no keys, {expected}") from None
    if not keys or not all(2048 <= key.key.key_size <= 8192 for key in keys.values()):
        raise InputError(f"{path}: contains no key of RSA with 2,048 to 8,192 bits, {expected}")
    return keys


def _is_rsa(entry: Mapping[str, Any]) -> bool:
    return entry.get("kty") == "RSA" and entry.get("alg", ALGORITHM) == ALGORITHM


class SignedEntries:
    """Verifier of tokens with a file of keys. For an unknown key, the file is read again, once a minute at most."""

    def __init__(self, path: Path, hosts: Collection[str] = ()) -> None:
        """Read the keys. `hosts` are the names of the server, of which a token must name one; any if it is empty."""
        self.path, self.hosts = path, frozenset(hosts)
        self._keys = read_keys(path)
        self._read = time.monotonic()
        self._lock = threading.Lock()

    def read_parameters(self, token: str) -> dict[str, str] | None:
        """Return Prolific's claims about the visitor; None if the token is not Prolific's, not for us, or too old."""
        jwt = require("jwt", "studio")
        if len(token) > LONGEST:
            return None
        try:
            key = self._find_key(str(jwt.get_unverified_header(token).get("kid")))
            if key is None:
                return None
            # The audience is the whole address of the study with its parameters; `_is_for_us` compares hosts.
            options = {"require": REQUIRED, "verify_aud": False}
            claims = jwt.decode(token, key, algorithms=[ALGORITHM], leeway=LEEWAY, options=options)
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError):
            return None
        visitor = claims["prolific"]
        if not self._is_for_us(claims["aud"]) or not isinstance(visitor, dict):
            return None
        return {str(name): value for name, value in visitor.items() if isinstance(value, str)}

    def _is_for_us(self, audience: Any) -> bool:
        names = {_get_host(one) for one in (audience if isinstance(audience, list) else [audience])}
        return not self.hosts or bool(names & self.hosts)

    def _find_key(self, id: str) -> Any:
        with self._lock:
            if id not in self._keys and time.monotonic() - self._read > 60:
                self._read = time.monotonic()
                try:
                    self._keys = read_keys(self.path)
                except InputError:  # the file is being replaced; keep the old keys
                    return None
            return self._keys.get(id)


def _get_host(audience: Any) -> str:
    """Return the host of an audience, which is a URL or a name."""
    try:
        text = str(audience)
        return (urlsplit(text if "//" in text else f"//{text}").hostname or "").lower()
    except ValueError:
        return ""
