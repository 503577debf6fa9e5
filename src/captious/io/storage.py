"""Folders on a disk, or in an object store that fsspec supports (``s3://``, ``gs://``, ``memory://``).

Files are written atomically: on a disk under a temporary name that is then renamed, in a store by one PUT.
"""

from __future__ import annotations

import glob
import io
import os
import re
import shutil
import tempfile
import time
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import IO, Any, TypeVar

from captious._core.files import refuse_irregular, write_atomically
from captious.errors import InputError, MissingExtra, format_one_line, require

RETRIES = 3
# The wait before the first retry; it doubles before each further one.
BACKOFF_SECONDS = 0.5
# Bytes of a large object that are in memory at a time.
BLOCK = 1 << 23
# A character that makes a path a glob.
MAGIC = re.compile(r"[*?\[]")
_SCHEME = re.compile(r"(?:[a-z][a-z0-9+.-]*::)*[a-z][a-z0-9+.-]*://", re.IGNORECASE)
T = TypeVar("T")


def is_remote(address: str) -> bool:
    """Return True if an address has a scheme that needs fsspec.

    >>> is_remote("s3://bucket/0.tar"), is_remote("file:///data/0.tar"), is_remote("data/0.tar")
    (True, False, False)
    """
    return bool(_SCHEME.match(address)) and not address.lower().startswith("file://")


def split_address(address: str) -> tuple[str, str]:
    """Split an address into a folder and the rest, which begins at the first glob or at the last name.

    >>> split_address("s3://bucket/shards/**/*.tar"), split_address("0.tar"), split_address("/a/b.tar")
    (('s3://bucket/shards', '**/*.tar'), ('', '0.tar'), ('/a', 'b.tar'))
    """
    scheme = _SCHEME.match(address)
    start = scheme.end() if scheme else 0
    magic = MAGIC.search(address, start)
    end = address.rfind("/", start, magic.start() if magic else len(address))
    if end < 0:
        return address[:start], address[start:]
    return address[: end or 1], address[end + 1 :]


@dataclass(frozen=True)
class Shard:
    """One file of captions: its address, its size in bytes, and a name for the files that are made from it."""

    name: str
    """Unique among the shards of a source, and safe as the name of a file."""
    address: str
    size: int

    @property
    def format(self) -> str | None:
        """The format by the ending of the address; None if it is unknown.

        >>> Shard("0", "data/0.jsonl.gz", 10).format
        'jsonl'
        """
        from captious.io.shards import guess_format

        return guess_format(self.address)


class Storage(ABC):
    """A folder on a disk or on an object store. Names of files are relative to it, with slashes.

    >>> isinstance(Storage.at("scores"), Disk), Storage.at("scores").get_address("items/0.parquet")
    (True, 'scores/items/0.parquet')
    """

    address: str

    @staticmethod
    def at(address: str | os.PathLike[str]) -> Storage:
        """Return the folder with this address, which need not exist."""
        text = os.fspath(address)
        return ObjectStore(text) if is_remote(text) else Disk(text.removeprefix("file://"))

    def get_address(self, name: str) -> str:
        """Return the address of a file."""
        return f"{self.address}{'' if not self.address or self.address.endswith('/') else '/'}{name}"

    def names(self, folder: str = "") -> list[str]:
        """Return the sorted names of the files in a folder; an empty list if there is no such folder."""
        return sorted(self.sizes(folder))

    def exists(self, name: str) -> bool:
        """Return True if the file exists."""
        return self.size(name) is not None

    @abstractmethod
    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the size in bytes of each file in a folder, by name."""

    @abstractmethod
    def glob(self, pattern: str) -> dict[str, int]:
        """Return the size in bytes of each file that matches a pattern, by name; ``**`` matches any folders."""

    @abstractmethod
    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""

    @abstractmethod
    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading, with random access."""

    def open_large(self, name: str) -> IO[bytes]:
        """Open a file of which only blocks are kept in memory."""
        return self.open(name)

    def read(self, name: str) -> bytes:
        """Return the content of a file."""
        with self.open(name) as file:
            return file.read()

    @abstractmethod
    def write(self, name: str, content: bytes) -> None:
        """Write a file atomically."""

    @abstractmethod
    def remove(self, name: str) -> None:
        """Remove a file if it exists."""


@dataclass(frozen=True)
class Disk(Storage):
    """A folder of the local file system."""

    address: str

    def _get_path(self, name: str) -> Path:
        return Path(self.address) / name

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the size in bytes of each file in a folder, without hidden files."""
        try:
            with os.scandir(self._get_path(folder)) as entries:
                return {
                    entry.name: entry.stat().st_size
                    for entry in entries
                    if not entry.name.startswith(".") and entry.is_file()
                }
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return {}
        except OSError as error:
            raise InputError(f"{self._get_path(folder)}: cannot be listed ({error.strerror})") from None

    def glob(self, pattern: str) -> dict[str, int]:
        """Return the size in bytes of each file that matches a pattern, without hidden files."""
        try:
            names = glob.glob(pattern, root_dir=self.address or None, recursive=True)  # noqa: PTH207, which finds hidden ones
        except ValueError:  # no file can have such a name: it has a null byte or a lone surrogate
            return {}
        sizes = {name: self.size(name) for name in sorted(set(names))}
        return {name: size for name, size in sizes.items() if size is not None}

    def size(self, name: str) -> int | None:
        """Return the size of a file in bytes; None if it does not exist."""
        path = self._get_path(name)
        try:
            return path.stat().st_size if path.is_file() else None
        except (OSError, ValueError):
            return None

    def open(self, name: str) -> IO[bytes]:
        """Open a file for reading."""
        path = self._get_path(name)
        refuse_irregular(path)
        try:
            return path.open("rb")
        except FileNotFoundError:
            raise InputError(f"{path}: no such file") from None
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror})") from None

    def write(self, name: str, content: bytes) -> None:
        """Write a file under a temporary name and rename it."""
        try:
            with write_atomically(self._get_path(name)) as draft:
                draft.write_bytes(content)
        except OSError as error:
            raise InputError(f"{self._get_path(name)}: cannot be written ({error.strerror})") from None

    def remove(self, name: str) -> None:
        """Remove a file if it exists."""
        try:
            self._get_path(name).unlink(missing_ok=True)
        except OSError as error:
            raise InputError(f"{self._get_path(name)}: cannot be removed ({error.strerror})") from None


@dataclass(frozen=True)
class ObjectStore(Storage):
    """A folder of an object store. Failed requests are repeated a few times; listings are never cached."""

    address: str

    def _locate(self, name: str = "") -> tuple[Any, str]:
        """Return the fsspec file system and the path in it."""
        fsspec = require("fsspec", "remote")
        address = self.get_address(name) if name else self.address
        try:
            system, path = fsspec.core.url_to_fs(address)
        except ImportError as error:
            raise MissingExtra(f"{address}: {format_one_line(error)}") from None
        except ValueError as error:
            raise InputError(f"{address}: {format_one_line(error)}") from None
        return system, path

    def _call(self, name: str, participle: str, call: Callable[[Any, str], T]) -> T:
        """Call a function with the file system and the path of a file, and retry if it fails.

        FileNotFoundError is raised at once. Other errors are raised after the last retry, with the message that the
        file cannot be ``participle``, such as "listed".
        """
        system, path = self._locate(name)
        for attempt in range(RETRIES + 1):
            try:
                return call(system, path)
            except (FileNotFoundError, NotADirectoryError):
                raise
            except Exception as error:  # the library of each object store has its own error classes
                if attempt == RETRIES or isinstance(error, (PermissionError, NotImplementedError)):
                    why = format_one_line(error) or type(error).__name__
                    raise InputError(f"{self.get_address(name)}: cannot be {participle} ({why})") from None
            time.sleep(BACKOFF_SECONDS * 2**attempt)
        raise AssertionError("the last attempt returns or raises")

    def sizes(self, folder: str = "") -> dict[str, int]:
        """Return the size in bytes of each object directly in a folder; objects of unknown size are left out."""

        def list_folder(system: Any, path: str) -> list[dict[str, Any]]:
            system.invalidate_cache(path)
            return list(system.ls(path, detail=True))

        try:
            entries = self._call(folder, "listed", list_folder)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        files = {PurePosixPath(name).name: size for name, size in _get_file_sizes(entries).items()}
        return {name: size for name, size in files.items() if size is not None}

    def glob(self, pattern: str) -> dict[str, int]:
        """Return the size in bytes of each object that matches a pattern."""
        _, root = self._locate()

        def match_pattern(system: Any, path: str) -> list[dict[str, Any]]:
            system.invalidate_cache(root)
            return list(system.glob(path, detail=True).values())

        try:
            entries = self._call(pattern, "listed", match_pattern)
        except (FileNotFoundError, NotADirectoryError):
            return {}
        files = {name[len(root) :].lstrip("/"): size for name, size in _get_file_sizes(entries).items()}
        sizes = {name: self.size(name) if size is None else size for name, size in files.items()}
        return {name: size for name, size in sizes.items() if size is not None}

    def size(self, name: str) -> int | None:
        """Return the size of an object in bytes; None if it does not exist."""
        try:
            info = self._call(name, "found", lambda system, path: system.info(path))
        except (FileNotFoundError, NotADirectoryError):
            return None
        if info["type"] != "file":
            return None
        if info.get("size") is None:
            raise InputError(f"{self.get_address(name)}: the store does not say how large it is")
        return int(info["size"])

    def open(self, name: str) -> IO[bytes]:
        """Read a whole object into memory."""
        return io.BytesIO(self.read(name))

    def open_large(self, name: str) -> IO[bytes]:
        """Copy an object to a temporary file, which is deleted when it is closed."""
        file = tempfile.TemporaryFile()  # noqa: SIM115, closed by the caller

        def copy(system: Any, path: str) -> None:
            file.seek(0)
            file.truncate()
            with system.open(path, "rb", block_size=BLOCK) as source:
                shutil.copyfileobj(source, file, BLOCK)

        try:
            self._call(name, "read", copy)
        except (FileNotFoundError, NotADirectoryError):
            file.close()
            raise InputError(f"{self.get_address(name)}: no such object") from None
        except BaseException:
            file.close()
            raise
        file.seek(0)
        return file

    def read(self, name: str) -> bytes:
        """Return the content of an object."""
        try:
            return self._call(name, "read", lambda system, path: bytes(system.cat_file(path)))
        except (FileNotFoundError, NotADirectoryError):
            raise InputError(f"{self.get_address(name)}: no such object") from None

    def write(self, name: str, content: bytes) -> None:
        """Write an object by one PUT."""
        self._call(name, "written", lambda system, path: system.pipe_file(path, content))

    def remove(self, name: str) -> None:
        """Remove an object if it exists."""
        try:
            self._call(name, "removed", lambda system, path: system.rm_file(path))
        except FileNotFoundError:
            return


def _get_file_sizes(entries: list[dict[str, Any]]) -> dict[str, int | None]:
    """Return the sizes of the files in a listing; None for unknown sizes, as over HTTP."""
    return {entry["name"]: entry.get("size") for entry in entries if entry["type"] == "file"}
