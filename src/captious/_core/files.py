"""Atomic output files and folders, and safe reading of files.

An output is written to a temporary path in the folder of the target and renamed, so it is complete or absent.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import platform
import re
import secrets
import shutil
import stat
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from captious.errors import InputError

# The file that makes a folder a run: what ``captious score`` writes and other commands open.
RUN = "captious-run.json"
# The data of any other folder that captious writes: a comparison, a study, a site, an export.
OUTPUT = "captious-output.json"
# A folder that has none of these files was not written by captious and is never replaced.
OWN = (RUN, OUTPUT)


# Standard input, and the pipes of a shell's process substitution.
_SHELL_PIPE = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/self/fd/\d+")


# Bytes of a file that a person wrote, such as a prompt or a key, at most.
SMALL = 1_000_000


def is_file(path: str | os.PathLike[str]) -> bool:
    """Return True for a regular file. Unlike `Path.is_file`, never raise, as for a name that is too long."""
    return os.path.isfile(path)  # noqa: PTH113


def is_folder(path: str | os.PathLike[str]) -> bool:
    """Return True for a folder. Unlike `Path.is_dir` and `os.DirEntry.is_dir`, never raise, as for a link to itself."""
    return os.path.isdir(path)  # noqa: PTH112


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """Return the content of a regular file. Raise InputError for devices and named pipes, which may block or never end.

    A file of more than ``most`` bytes is refused too: it is a file of another kind, or a pipe that does not end.
    """
    refuse_irregular(path)
    if most is None:
        return Path(path).read_bytes()
    with Path(path).open("rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise InputError(f"{path}: contains more than {most:,} bytes, expected a small text")
    return content


def decode_utf8(content: bytes, name: str) -> str:
    """Decode UTF-8, with or without a byte-order mark."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(
            f"{name}: line {line}: byte 0x{content[error.start]:02x} at offset {error.start} is not UTF-8; if it is "
            "Windows-1252 or Latin-1, save it as UTF-8, or convert it: iconv -f WINDOWS-1252 -t UTF-8 OLD > NEW"
        ) from None


def load_json(path: str | Path) -> Any:
    """Parse a JSON file. Raise ValueError if it is not valid JSON or is nested too deeply."""
    try:
        return json.loads(read_regular(path).decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def refuse_irregular(path: str | os.PathLike[str]) -> None:
    """Raise InputError for a device, a socket or a named pipe; missing files are left to `open()`."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return
    regular = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    if not regular and not (stat.S_ISFIFO(mode) and _SHELL_PIPE.fullmatch(os.fspath(path))):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InputError(f"{path}: is {kind}, expected a regular file")


def make_private(path: str | Path) -> None:
    """Create an empty file that only its owner may read, unless the file exists."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))


# The mode of files that hold what people said, or what was paid for.
PRIVATE = 0o600


@contextmanager
def write_atomically(path: str | Path, mode: int | None = None) -> Iterator[Path]:
    """Yield a temporary path to write to; rename it to the target if the block succeeds.

    The file gets the default mode of new files unless ``mode`` is passed.
    """
    target = Path(path)
    is_new = not target.parent.exists()
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.parent not in _SWEPT:  # once a process: a folder of thousands of files is not listed for each
        if not is_new:
            sweep(target)
        _SWEPT.add(target.parent)
    draft = _make_draft_path(target, ".part")
    draft.touch(mode=0o666 if mode is None else mode, exist_ok=False)  # for most files the umask decides
    mode = draft.stat().st_mode
    try:
        with _naming(draft, target):
            yield draft
            draft.chmod(mode)  # some libraries (safetensors) write for the owner alone
            draft.replace(target)
    finally:
        draft.unlink(missing_ok=True)


@contextmanager
def whole_folder(path: str | Path, overwrite: bool = False, *markers: str) -> Iterator[Path]:
    """Yield a temporary folder to fill; rename it to the target if the block succeeds.

    An existing folder with the file ``marker`` is replaced only with ``overwrite``; one without it is never replaced.
    """
    target = Path(os.path.realpath(path))  # Path.resolve raises RuntimeError for a loop of links
    refuse_occupied(target, overwrite, *markers)  # it has swept
    target.parent.mkdir(parents=True, exist_ok=True)
    with _draft_folder(target) as draft:
        yield draft
        set_default_modes(draft)
        _replace_target(draft, target)


@contextmanager
def make_draft_folder(target: Path) -> Iterator[Path]:
    """Create a hidden folder next to the target, and remove it after the block if it still exists."""
    sweep(target)
    with _draft_folder(target) as draft:
        yield draft


@contextmanager
def _draft_folder(target: Path) -> Iterator[Path]:
    draft = _make_draft_path(target, ".part")
    draft.mkdir()
    _SWEPT.add(draft)  # nobody left anything in a new folder
    try:
        with _naming(draft, target):
            yield draft
    finally:
        shutil.rmtree(draft, ignore_errors=True)


@contextmanager
def _naming(draft: Path, target: Path) -> Iterator[None]:
    """Let an error of writing name the target: a full disk names no file, others name the draft."""
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno in FULL:
            error.filename = str(target)
        elif isinstance(error.filename, (str, os.PathLike)) and Path(error.filename).is_relative_to(draft):
            error.filename = str(target / Path(error.filename).relative_to(draft))
        raise
    except InputError as error:
        error.args = (str(error).replace(str(draft), str(target)), *error.args[1:])
        raise


# Errors of a write that finds no space, which name no file.
FULL = (errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else []))
_SWEPT: set[Path] = set()
_LEFT_BEHIND = re.compile(
    r"\.(?P<name>.+?)\.(?:(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d+)\.)?[0-9a-f]{8}\.(?P<kind>part|old)"
)
# Seconds without a change after which a draft of another host, or one that does not say whose it is, is given up.
_PATIENCE = 24 * 3600.0


def sweep(target: Path) -> None:
    """Remove drafts that killed processes left next to a target, and restore a run that one of them was replacing.

    The name of a draft contains its host, process id and start time, so a draft in use is never touched.
    """
    with suppress(OSError), os.scandir(target.parent) as entries:
        left = [(entry, match) for entry in entries if (match := _LEFT_BEHIND.fullmatch(entry.name))]
        for entry, match in left:
            foreign = match["host"] is None and match["name"] != target.name
            if foreign or _is_alive(match, entry):
                continue
            path, owner = Path(entry.path), target.with_name(match["name"])
            if match["kind"] == "old" and (path / "run").is_dir() and not os.path.lexists(owner):
                (path / "run").rename(owner)
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def remove_drafts(folder: Path) -> None:
    """Remove all drafts of files in a folder. No process may be writing to the folder any more."""
    for path in folder.glob(".*.part"):
        if is_draft(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def is_draft(name: str) -> bool:
    """Return True if a name is that of an unfinished file or folder."""
    return _LEFT_BEHIND.fullmatch(name) is not None


def _is_alive(match: re.Match[str], entry: os.DirEntry[str]) -> bool:
    """Return True if the process that made a draft may still be writing it."""
    if match["host"] != _get_host_id() or sys.platform == "win32":
        return time.time() - entry.stat(follow_symlinks=False).st_mtime < _PATIENCE
    return _get_start_time(int(match["pid"])) == int(match["start"])


@cache
def _get_host_id() -> str:
    """Return eight hexadecimal digits for this machine or container, within which process ids are unique."""
    facts = [platform.node()]
    with suppress(OSError):
        facts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:8]


def _get_start_time(pid: int) -> int | None:
    """Return the start time of a process in clock ticks since boot; None if it does not exist, 0 if unknown."""
    if sys.platform == "win32":  # where asking for a process would interrupt it
        return 0
    try:
        state, *fields = (
            Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace").rpartition(")")[2].split()
        )
        return None if state in "ZX" else int(fields[18])
    except (OSError, ValueError, IndexError):
        if Path("/proc/self/stat").exists():
            return None
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return None
    except OSError:  # of another user
        return 0
    return 0


def _replace_target(draft: Path, target: Path) -> None:
    """Rename the draft to the target, and restore the previous target if that fails."""
    if not target.exists():
        draft.rename(target)
        return
    old = _make_draft_path(target, ".old")
    old.mkdir()
    try:
        target.rename(old / "run")
        try:
            draft.rename(target)
        except OSError:
            (old / "run").rename(target)
            raise
    finally:
        shutil.rmtree(old, ignore_errors=True)


def expand_home(path: str | Path) -> Path:
    """Expand ``~`` in a path; return the path unchanged if there is no such user."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def refuse_unwritable(target: Path) -> None:
    """Raise InputError if nothing can be written to a path: below a file, through a broken link, over a device."""
    refuse_irregular(target)
    if not str(target).isprintable():
        raise InputError(f"{str(target)!a}: contains characters that cannot be printed; name another place")
    if target.is_symlink() and not target.exists():
        raise InputError(f"{target}: is a link to nowhere; name another place")
    parent = next((one for one in target.absolute().parents if os.path.lexists(one)), None)
    if parent is not None and not parent.is_dir():
        raise InputError(f"{target}: cannot be written, for {parent} is no folder")
    if parent is not None:
        _try_to_write(target, parent)


def _try_to_write(target: Path, parent: Path) -> None:
    """Refuse a target beside which no draft can be made: permissions do not tell of read-only and foreign systems."""
    name = target.absolute().relative_to(parent).parts[0]
    draft = _make_draft_path(parent / name, ".part")
    try:
        draft.touch(exist_ok=False)
        draft.unlink()
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); name another place") from None


def refuse_occupied(target: Path, overwrite: bool = False, *markers: str) -> None:
    """Raise InputError, before any work, if an output folder exists already or cannot be created.

    ``markers`` are files one of which shows that captious wrote the folder; without them, those of all results.
    """
    refuse_unwritable(target)
    sweep(target)
    if target.is_dir() and not any(target.iterdir()):
        return
    markers = markers or OWN
    if target.exists() and not any((target / marker).exists() for marker in markers):
        raise InputError(f"{target}: exists and was not written by captious (no {markers[0]}); name another folder")
    if target.exists() and not overwrite:
        raise InputError(f"{target}: already exists; pass overwrite=True to replace it, or name another folder")


def refuse_existing(file: str | Path | None, overwrite: bool = False) -> None:
    """Raise InputError, before any work, if an output file exists already or cannot be created."""
    if file is not None:
        refuse_unwritable(Path(file))
        if Path(file).is_dir():
            raise InputError(f"{file}: is a folder, expected the name of a file to write")
    if file is not None and Path(file).exists() and not overwrite:
        raise InputError(f"{file}: already exists; pass overwrite=True to replace it")


def digest(*parts: bytes) -> str:
    """Return twelve hexadecimal digits of the SHA-256 hash of the parts, for signatures."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()[:12]


def get_data_folder() -> Path:
    """Return the folder of all data that captious stores for this user; CAPTIOUS_HOME overrides it."""
    if chosen := os.environ.get("CAPTIOUS_HOME"):
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_data_dir("captious", appauthor=False))


def set_default_modes(folder: Path) -> None:
    """Give every file in a folder the default mode; safetensors writes files that only the owner can read."""
    sample = _make_draft_path(folder / "mode", ".part")
    sample.touch(exist_ok=False)
    mode = sample.stat().st_mode
    sample.unlink()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)


def _make_draft_path(target: Path, suffix: str) -> Path:
    """Return a unique hidden path next to the target; `sweep` reads its owner from the name."""
    pid = os.getpid()
    return target.with_name(
        f".{target.name}.{_get_host_id()}-{pid}-{_get_start_time(pid) or 0}.{secrets.token_hex(4)}{suffix}"
    )


@dataclass(frozen=True)
class Kind:
    """A file format with a header line: its key and version, its name in messages, and the command that makes it."""

    key: str
    version: int
    what: str
    maker: str

    def write(self, path: str | Path, header: Mapping[str, Any], payload: bytes) -> None:
        """Write a file atomically."""
        facts = {self.key: self.version, **header, "bytes": len(payload)}
        sealed = {**facts, "digest": digest(json.dumps(facts).encode(), payload)}
        with write_atomically(path) as draft:
            draft.write_bytes(json.dumps(sealed).encode() + b"\n" + payload)

    def read(self, path: str | Path) -> tuple[dict[str, Any], bytes]:
        """Return the header and the content. Raise InputError for a foreign, outdated, truncated or damaged file."""
        again = f"make it again with: {self.maker}"
        try:
            head, _, payload = read_regular(path).partition(b"\n")
        except OSError as error:
            raise InputError(f"{path}: cannot be read ({error.strerror}); make it with: {self.maker}") from None
        facts = self.facts(path, head)
        expected, size = facts.pop("digest", None), facts.get("bytes")
        if len(payload) != size:
            raise InputError(f"{path}: {self.what} cut short ({len(payload)} bytes, expected {size}); {again}")
        if digest(json.dumps(facts).encode(), payload) != expected:
            raise InputError(f"{path}: damaged {self.what} (checksum differs); {again}")
        return facts, payload

    def facts(self, path: str | Path, head: bytes) -> dict[str, Any]:
        """Parse the header line. Raise InputError if the file is foreign or of another version."""
        try:
            facts: dict[str, Any] = json.loads(head)
            version = facts[self.key]
        except (ValueError, KeyError, TypeError, RecursionError):
            raise InputError(f"{path}: is no {self.what}; make one with: {self.maker}") from None
        if version != self.version:
            raise InputError(
                f"{path}: {self.what} of format {version}, expected {self.version}; make it again with: {self.maker}"
            )
        return facts
