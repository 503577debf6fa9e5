"""Files of our own: a line of JSON, then the content, under one checksum; versioned and written whole."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from captious.errors import InputError
from captious.files import digest, whole_file


@dataclass(frozen=True)
class Kind:
    """One sort of file: its key in the header, its version, what messages call it, and the command that makes it."""

    key: str
    version: int
    what: str
    maker: str

    def write(self, path: str | Path, header: Mapping[str, Any], payload: bytes) -> None:
        """Write a file whole."""
        facts = {self.key: self.version, **header, "bytes": len(payload)}
        sealed = {**facts, "digest": digest(json.dumps(facts).encode(), payload)}
        with whole_file(path) as draft:
            draft.write_bytes(json.dumps(sealed).encode() + b"\n" + payload)

    def read(self, path: str | Path) -> tuple[dict[str, Any], bytes]:
        """Header and content of a file; a foreign, differently versioned, cut or damaged one is refused."""
        again = f"make it again with: {self.maker}"
        try:
            head, _, payload = Path(path).read_bytes().partition(b"\n")
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); make it with: {self.maker}") from None
        try:
            facts = json.loads(head)
            version = facts[self.key]
        except (ValueError, KeyError, TypeError):
            raise InputError(f"{path}: is no {self.what}; make one with: {self.maker}") from None
        if version != self.version:
            raise InputError(f"{path}: {self.what} of format {version}, expected {self.version}; {again}")
        expected, size = facts.pop("digest", None), facts.get("bytes")
        if len(payload) != size:
            raise InputError(f"{path}: {self.what} cut short ({len(payload)} bytes, expected {size}); {again}")
        if digest(json.dumps(facts).encode(), payload) != expected:
            raise InputError(f"{path}: damaged {self.what} (checksum differs); {again}")
        return facts, payload
