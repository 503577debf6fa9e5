"""Where METEOR's tables are on this computer, and their compiled form.

captious ships none of METEOR's data. It is looked for, in this order, in

1. the folder (or jar, or compiled file) that the metric's parameter `resources` or the variable CAPTIOUS_METEOR names;
2. what `captious resources add meteor PATH` registered, compiled, in the user's data folder;
3. an installed `pycocoevalcap`, whose package holds `meteor-1.5.jar` and `data/paraphrase-en.gz`; it is not imported.

Sources found in 1 and 3 are compiled once, into the folder `meteor` of the user's data folder (CAPTIOUS_HOME moves it).
"""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from captious.errors import InputError
from captious.files import data_folder
from captious.meteor.compile import Source, compile_tables
from captious.meteor.tables import FORMAT, DamagedTables, Tables

VARIABLE = "CAPTIOUS_METEOR"
_SUFFIX = ".tables"
_WANTED = "expected meteor-1.5.jar and data/paraphrase-en.gz"
_REMEDY = (
    "METEOR's tables are not on this computer: pip install 'captious[meteor]', "
    "or run: captious resources add meteor PATH (a folder with meteor-1.5.jar and data/paraphrase-en.gz)"
)


def load(named: str | None = None, modules: Sequence[str] = ()) -> Tables:
    """METEOR's tables, compiled first if need be; they must serve the modules.

    Raises:
        InputError: there are none, or they are damaged and cannot be rebuilt, or a module lacks its table.
    """
    tables = _find(named)
    if "paraphrase" in modules and not tables.has_paraphrases:
        raise InputError(
            "meteor: these tables lack paraphrase-en.gz: add it beside meteor-1.5.jar, "
            "or ask for meteor(modules=exact+stem+synonym)"
        )
    return tables


def add(path: str | Path) -> Path:
    """Compile the tables found at a path and register them for this user; the sources are not needed afterwards."""
    tables = compile_tables(_source(Path(path).expanduser()))
    target = added_file()
    tables.write(target)
    return target


def added_file() -> Path:
    """The compiled tables that :func:`add` registers."""
    return data_folder() / f"meteor-en{_SUFFIX}"


def cache_folder() -> Path:
    """Where tables are kept that can be compiled again."""
    return data_folder() / "meteor"


def compiled_files() -> list[Path]:
    """The tables that were compiled here, from whatever sources."""
    return sorted(cache_folder().glob(f"*{_SUFFIX}"))


def _find(named: str | None) -> Tables:
    named = named or os.environ.get(VARIABLE)
    if named:
        path = Path(named).expanduser()
        return _opened(path) if path.suffix == _SUFFIX else _compiled(_source(path))
    if added_file().exists():
        return _opened(added_file())
    package = find_spec("pycocoevalcap")
    for folder in (package.submodule_search_locations or []) if package else []:
        if source := Source.at(Path(folder) / "meteor"):
            return _compiled(source)
    raise InputError(_REMEDY)


def _source(path: Path) -> Source:
    source = Source.at(path)
    if source is None:
        raise InputError(f"{path}: holds no data of METEOR 1.5; {_WANTED}")
    return source


def _opened(path: Path) -> Tables:
    """Compiled tables whose sources are not known."""
    try:
        return _open(path)
    except FileNotFoundError:
        raise InputError(f"{path}: no such file; {_WANTED}, or a compiled {_SUFFIX} file") from None
    except DamagedTables as error:
        raise InputError(f"{error}; run again: captious resources add meteor PATH") from None


def _compiled(source: Source) -> Tables:
    path = cache_folder() / f"meteor-en-{FORMAT}-{source.stamp}{_SUFFIX}"
    try:
        return _open(path)
    except (FileNotFoundError, DamagedTables):
        print(f"captious: compiling METEOR's tables into {path} (once)", file=sys.stderr)
    tables = compile_tables(source)
    try:
        tables.write(path)
    except OSError as error:
        raise InputError(f"{path}: cannot be written ({error.strerror}); set CAPTIOUS_HOME to another folder") from None
    return _open(path)


def _open(path: Path) -> Tables:
    facts = path.stat()
    return _mapped(path, facts.st_ino, facts.st_size, facts.st_mtime_ns)


@lru_cache(maxsize=4)
def _mapped(path: Path, *changes: int) -> Tables:
    return Tables.open(path)
