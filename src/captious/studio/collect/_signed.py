"""Entries that Prolific signed: a JSON Web Token in the address, checked against the public keys of Prolific.

The keys are a file that the owner downloads (``https://api.prolific.com/.well-known/study/jwks.json``); the server asks
nobody. Mechanical Turk signs nothing.
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

PARAMETER = "prolific_token"
"""The parameter of the address in which Prolific sends the token."""
LONGEST = 8192
"""Most characters of a token."""
LEEWAY = 60.0
"""Seconds by which the clocks may differ."""
ALGORITHM = "RS256"
"""The only algorithm that is accepted: what a token says of its own algorithm is never trusted."""
REQUIRED = ("exp", "aud", "prolific")
"""The claims that a token must have."""


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
    """Tokens in addresses, and the file of keys. The file is read again for an unknown key, once a minute at most."""

    def __init__(self, path: Path, hosts: Collection[str] = ()) -> None:
        """``hosts`` are the names of the server, of which the token must have one; any where there are none."""
        self.path, self.hosts = path, frozenset(hosts)
        self._keys = read_keys(path)
        self._read = time.monotonic()
        self._lock = threading.Lock()

    def parameters(self, token: str) -> dict[str, str] | None:
        """Return what Prolific says of the visitor; None if the token is not Prolific's, not for us, or too old."""
        jwt = require("jwt", "studio")
        if len(token) > LONGEST:
            return None
        try:
            key = self._key(str(jwt.get_unverified_header(token).get("kid")))
            if key is None:
                return None
            # The audience is the whole address of the study with its parameters; `_is_for_us` compares hosts.
            options = {"require": REQUIRED, "verify_aud": False}
            claims = jwt.decode(token, key, algorithms=[ALGORITHM], leeway=LEEWAY, options=options)
        except (jwt.PyJWTError, ValueError, OverflowError, RecursionError):
            return None
        said = claims["prolific"]
        if not self._is_for_us(claims["aud"]) or not isinstance(said, dict):
            return None
        return {str(name): value for name, value in said.items() if isinstance(value, str)}

    def _is_for_us(self, audience: Any) -> bool:
        names = {_get_host(one) for one in (audience if isinstance(audience, list) else [audience])}
        return not self.hosts or bool(names & self.hosts)

    def _key(self, id: str) -> Any:
        with self._lock:
            if id not in self._keys and time.monotonic() - self._read > 60:
                self._read = time.monotonic()
                try:
                    self._keys = read_keys(self.path)
                except InputError:  # it is being replaced; the keys that are known stay
                    return None
            return self._keys.get(id)


def _get_host(audience: Any) -> str:
    """The host of an audience, which is an address or a name."""
    try:
        text = str(audience)
        return (urlsplit(text if "//" in text else f"//{text}").hostname or "").lower()
    except ValueError:
        return ""
