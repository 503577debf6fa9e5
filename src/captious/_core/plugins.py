"""Plugins: entry points of installed packages, and objects that are passed instead of names."""

from __future__ import annotations

import re
import sys
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import WeakValueDictionary

from captious.errors import InputError, format_one_line

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

METRICS = "captious.metrics"
TOKENIZERS = "captious.tokenizers"
ENCODERS = "captious.encoders"


def find_points(group: str) -> dict[str, EntryPoint]:
    """Return the entry points of a group by name; Python looks for them once per ``sys.path``."""
    return _find_points(group, tuple(sys.path))


@lru_cache(maxsize=12)
def _find_points(group: str, path: tuple[str, ...]) -> dict[str, EntryPoint]:
    from importlib.metadata import entry_points  # with the parser of e-mails, which most commands do not need

    return {point.name: point for point in entry_points(group=group)}


def describe_point(point: EntryPoint, kind: str) -> str:
    """Return what messages call an entry point: ``metric 'rare_words' of the package captious-rare-words 1.2``."""
    package = f" of the package {point.dist.name} {point.dist.version}" if point.dist else ""
    return f"{kind} {point.name!r}{package}"


def load_point(point: EntryPoint, kind: str) -> Any:
    """Import what an entry point names; an error of the import names the package."""
    try:
        return point.load()
    except Exception as error:
        where = describe_point(point, kind)
        raise InputError(f"{where} cannot be imported: {type(error).__name__}: {format_one_line(error)}") from error


class ObjectName(str):
    """The name of an object that was given where a name is expected, together with the object.

    A metric with an encoder or a tokenizer of one's own has this in the place of a name. So it is compared, hashed and
    written like any metric, and takes the object along to other processes. The name says what the object is: its own
    name with its version or fingerprint, as in a signature.
    """

    object: Any

    def __new__(cls, name: str, value: Any) -> ObjectName:
        """Return the name of an object, which is known by it in this process as long as something has the name."""
        known = _NAMES.get(name)
        if known is not None and known.object is value:
            return known
        made = super().__new__(cls, name)
        made.object = value
        _NAMES[name] = made
        return made

    def __reduce__(self) -> tuple[type[ObjectName], tuple[str, Any]]:
        return ObjectName, (str(self), self.object)

    def __deepcopy__(self, memo: Any) -> ObjectName:
        return self  # not a second encoder for the copy of a metric


# Names in use. Weak, because an encoder may be large, and a training loop may make one after the other.
_NAMES: WeakValueDictionary[str, ObjectName] = WeakValueDictionary()
_NAME = re.compile(r"[^\s|#,()\"']+")


def find_object(name: str) -> ObjectName | None:
    """Return the name with its object, if an object has this name in this process."""
    return name if isinstance(name, ObjectName) else _NAMES.get(name)


def check_name(name: Any, what: str) -> None:
    """Refuse a name or a fingerprint that could not be written in a signature."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(f"{what} is {name!r}, expected text without spaces and without any of | # , ( ) and quotes")
