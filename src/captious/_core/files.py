"""Outputs are written completely or not at all: into a temporary file beside the target first, then renamed."""

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

RUN = "captious-run.json"
"""The file that makes a folder a run: what ``captious score`` writes and other commands open."""
OUTPUT = "captious-output.json"
"""The data of any other folder that captious writes: a comparison, a study, a site, an export."""
OWN = (RUN, OUTPUT)
"""A folder that has none of these files was not written by captious and is never replaced."""


_SHELL_PIPE = re.compile(r"/dev/(?:stdin|fd/\d+)|/proc/self/fd/\d+")
"""Standard input, and the pipes of a shell's process substitution."""


SMALL = 1_000_000
"""Bytes of a file that a person wrote, such as a prompt or a key, at most."""


def read_regular(path: str | os.PathLike[str], most: int | None = None) -> bytes:
    """The content of a regular file. Devices and named pipes are refused: they may never end, or never begin.

    A file of more than ``most`` bytes is refused too: a file of another kind was named, or a pipe that does not end.
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
    """The value in a JSON file; a ValueError where it is none, or nested too deeply to be read."""
    try:
        return json.loads(read_regular(path).decode("utf-8-sig"))
    except RecursionError:
        raise ValueError("it is nested too deeply") from None


def refuse_irregular(path: str | os.PathLike[str]) -> None:
    """Refuse a device, a socket or a named pipe. Whoever opens a file that does not exist says so himself."""
    try:
        mode = Path(path).stat().st_mode
    except (OSError, ValueError):
        return
    regular = stat.S_ISREG(mode) or stat.S_ISDIR(mode)
    if not regular and not (stat.S_ISFIFO(mode) and _SHELL_PIPE.fullmatch(os.fspath(path))):
        kind = "a named pipe" if stat.S_ISFIFO(mode) else "a socket" if stat.S_ISSOCK(mode) else "a device"
        raise InputError(f"{path}: is {kind}, expected a regular file")


def make_private(path: str | Path) -> None:
    """Make an empty file that its owner alone may read, unless there is a file already."""
    with suppress(FileExistsError):
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, PRIVATE))


PRIVATE = 0o600
"""The mode of files that hold what people said, or what was paid for."""


@contextmanager
def whole_file(path: str | Path, mode: int | None = None) -> Iterator[Path]:
    """A temporary path to write to; it takes the target's name only when the block ends well.

    The file has the mode of any new file, unless another is passed.
    """
    target = Path(path)
    is_new = not target.parent.exists()
    target.parent.mkdir(parents=True, exist_ok=True)
    if target.parent not in _SWEPT:  # once a process: a folder of thousands of files is not listed for each
        if not is_new:
            sweep(target)
        _SWEPT.add(target.parent)
    draft = _neighbor(target, ".part")
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
    """A temporary folder to fill; it takes the target's name only when the block ends well.

    A folder with one of ``markers`` is replaced only with ``overwrite``, and one that holds other things never is.
    """
    target = Path(path).resolve()
    refuse_occupied(target, overwrite, *markers)  # it has swept
    target.parent.mkdir(parents=True, exist_ok=True)
    with _draft_folder(target) as draft:
        yield draft
        with_default_modes(draft)
        _take_place(draft, target)


@contextmanager
def draft_folder(target: Path) -> Iterator[Path]:
    """A hidden folder beside the target, removed at the end if it is still there."""
    sweep(target)
    with _draft_folder(target) as draft:
        yield draft


@contextmanager
def _draft_folder(target: Path) -> Iterator[Path]:
    draft = _neighbor(target, ".part")
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


FULL = (errno.ENOSPC, errno.EFBIG, *([errno.EDQUOT] if hasattr(errno, "EDQUOT") else []))
"""Errors of a write that finds no space, which name no file."""
_SWEPT: set[Path] = set()
_LEFT_BEHIND = re.compile(
    r"\.(?P<name>.+?)\.(?:(?P<host>[0-9a-f]{8})-(?P<pid>\d+)-(?P<start>\d+)\.)?[0-9a-f]{8}\.(?P<kind>part|old)"
)
_PATIENCE = 24 * 3600.0
"""Seconds without a change after which a draft of another host, or one that does not say whose it is, is given up."""


def sweep(target: Path) -> None:
    """Remove what killed processes left beside a target; a run that one of them had set aside comes back.

    A draft's name has its host, its process and the time that this began, so that one at work is never touched.
    """
    with suppress(OSError), os.scandir(target.parent) as entries:
        left = [(entry, match) for entry in entries if (match := _LEFT_BEHIND.fullmatch(entry.name))]
        for entry, match in left:
            foreign = match["host"] is None and match["name"] != target.name
            if foreign or _alive(match, entry):
                continue
            path, owner = Path(entry.path), target.with_name(match["name"])
            if match["kind"] == "old" and (path / "run").is_dir() and not os.path.lexists(owner):
                (path / "run").rename(owner)
            if entry.is_dir(follow_symlinks=False):
                shutil.rmtree(path, ignore_errors=True)
            else:
                path.unlink(missing_ok=True)


def remove_drafts(folder: Path) -> None:
    """Remove all drafts of files in a folder, whoever made them: for a folder that nobody has work in any more."""
    for path in folder.glob(".*.part"):
        if is_draft(path.name) and path.is_file():
            path.unlink(missing_ok=True)


def is_draft(name: str) -> bool:
    """Whether a name is that of a file or folder that is not whole yet."""
    return _LEFT_BEHIND.fullmatch(name) is not None


def _alive(match: re.Match[str], entry: os.DirEntry[str]) -> bool:
    """Whether the process that made a draft may still be at work on it."""
    if match["host"] != _host() or sys.platform == "win32":
        return time.time() - entry.stat(follow_symlinks=False).st_mtime < _PATIENCE
    return _started(int(match["pid"])) == int(match["start"])


@cache
def _host() -> str:
    """Eight digits for this machine, or for this container: where the number of a process means the same process."""
    facts = [platform.node()]
    with suppress(OSError):
        facts.append(str(Path("/proc/self/ns/pid").readlink()))
    return hashlib.sha256(" ".join(facts).encode()).hexdigest()[:8]


def _started(pid: int) -> int | None:
    """When a process began, in ticks since the machine did; None where there is none, 0 where no one says."""
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


def _take_place(draft: Path, target: Path) -> None:
    """Give the draft the target's name; what stood there comes back if that fails."""
    if not target.exists():
        draft.rename(target)
        return
    old = _neighbor(target, ".old")
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


def expanded(path: str | Path) -> Path:
    """The path with the home of a user in place of ``~``; where there is no such user, as it is."""
    try:
        return Path(path).expanduser()
    except RuntimeError:
        return Path(path)


def refuse_unwritable(target: Path) -> None:
    """Say at once that nothing can be written at a place: below a file, through a broken link, in place of a device."""
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
    draft = _neighbor(parent / name, ".part")
    try:
        draft.touch(exist_ok=False)
        draft.unlink()
    except OSError as error:
        raise InputError(f"{target}: cannot be written ({error.strerror}); name another place") from None


def refuse_occupied(target: Path, overwrite: bool = False, *markers: str) -> None:
    """Say at once, before any work, that an output folder is taken, or that it cannot be made.

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
    """Say at once, before any work, that an output file already exists, or that it cannot be made."""
    if file is not None:
        refuse_unwritable(Path(file))
        if Path(file).is_dir():
            raise InputError(f"{file}: is a folder, expected the name of a file to write")
    if file is not None and Path(file).exists() and not overwrite:
        raise InputError(f"{file}: already exists; pass overwrite=True to replace it")


def digest(*parts: bytes) -> str:
    """Twelve hexadecimal digits that stand for the content in a signature."""
    state = hashlib.sha256()
    for part in parts:
        state.update(len(part).to_bytes(8, "little"))
        state.update(part)
    return state.hexdigest()[:12]


def data_folder() -> Path:
    """The one folder of everything captious keeps for this user; the variable CAPTIOUS_HOME moves it."""
    if chosen := os.environ.get("CAPTIOUS_HOME"):
        return Path(chosen)
    import platformdirs

    return Path(platformdirs.user_data_dir("captious", appauthor=False))


def with_default_modes(folder: Path) -> None:
    """Give every file of a folder the mode of a new one; some libraries (safetensors) write for the owner alone."""
    sample = _neighbor(folder / "mode", ".part")
    sample.touch(exist_ok=False)
    mode = sample.stat().st_mode
    sample.unlink()
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            path.chmod(mode)


def _neighbor(target: Path, suffix: str) -> Path:
    """A hidden name beside the target that nothing else has; `sweep` reads in it whose it is."""
    pid = os.getpid()
    return target.with_name(f".{target.name}.{_host()}-{pid}-{_started(pid) or 0}.{secrets.token_hex(4)}{suffix}")


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
        """The first line of a file; one of a foreign or differently versioned file is refused."""
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
