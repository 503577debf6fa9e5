"""Corpus states: statistics of all references that a metric needs before it scores an item.

A set is read in parts: chunks of a large file, shards, the tasks of workers. Each part is prepared separately. The
states of the parts are merged, in memory or from files, and the merged state is used to score every part.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from functools import reduce
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
import numpy.typing as npt

from captious._core.files import Kind
from captious.errors import InputError

if TYPE_CHECKING:
    from captious.text.ngram_tables import TextTable

S = TypeVar("S", bound="State")
# Types that JSON stores as a list or a mapping, and that are restored from it.
COLLECTIONS: Mapping[str, Any] = {kind.__name__: kind for kind in (tuple, set, frozenset, Counter)}
# Kinds of NumPy numbers that a file can store.
NUMBERS = "biuf"
SAVED = "numbers, texts, lists, tuples, sets, mappings with texts as keys, Counters and NumPy arrays of numbers"


class State(ABC):
    """The state of a corpus, or of a part of one. A metric declares its class as `Metric.corpus_state`.

    A subclass that is a dataclass implements only `merge`, as long as its fields contain numbers, texts, lists, sets,
    mappings with texts as keys, Counters and NumPy arrays. One with other fields implements `save` and `load` too, and
    one too large for memory also `merge_files`.
    """

    @abstractmethod
    def merge(self: S, other: S) -> S:
        """Return the state of two parts together. The order of parts must not matter."""

    @classmethod
    def merge_all(cls: type[S], states: Sequence[S], tables: Sequence[TextTable] = ()) -> S:
        """Merge the states of all parts. ``tables``, if any, are those of the parts, which will be scored with this
        state.

        An implementation may store in them the values that scoring will look up.
        """
        return reduce(lambda one, other: one.merge(other), states)

    def release(self) -> None:  # noqa: B027  # a state that keeps nothing has nothing to do
        """Free the data that the state was computed from, such as a token table, before the next part is read."""

    def save(self, path: str | Path) -> None:
        """Write the state to a file, atomically."""
        header, arrays = _encode(self)
        payload = b"".join(np.ascontiguousarray(array).tobytes() for array in arrays)
        _make_kind(type(self)).write(path, header, payload)

    @classmethod
    def load(cls: type[S], path: str | Path) -> S:
        """Read a state that `save` wrote; raise InputError if the file is of another format, truncated or damaged."""
        kind = _make_kind(cls)
        header, payload = kind.read(path)
        if header.get("class") != _get_class_name(cls):
            raise InputError(f"{path}: contains the state {header.get('class')}, expected {_get_class_name(cls)}")
        try:
            return cls(**_decode(header["fields"], payload))
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise InputError(f"{path}: cannot be read as {kind.what} ({error}); make it again") from None

    @classmethod
    def merge_files(cls, paths: Sequence[str | Path], out: str | Path) -> None:
        """Write the merged state of all parts, from the files of their states. Two states are in memory at a time."""
        if not paths:
            raise InputError(f"no file to merge, expected states of the class {cls.__name__}")
        reduce(lambda one, path: one.merge(cls.load(path)), paths[1:], cls.load(paths[0])).save(out)


def _make_kind(cls: type[State]) -> Kind:
    return Kind("captious-state", 1, f"state of the class {cls.__name__}", "captious score")


def _get_class_name(cls: type[State]) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _encode(state: State) -> tuple[dict[str, Any], list[npt.NDArray[Any]]]:
    """Return the fields of a state for the header of its file, and the arrays that follow it."""
    if not is_dataclass(state):
        raise InputError(
            f"{_get_class_name(type(state))} is not a dataclass: make it one, or write its methods save and load"
        )
    encoded: dict[str, Any] = {}
    arrays: list[npt.NDArray[Any]] = []
    for field in fields(state):
        value = getattr(state, field.name)
        if isinstance(value, np.ndarray) and value.dtype.kind in NUMBERS:
            encoded[field.name] = {"array": value.dtype.str, "shape": value.shape}
            arrays.append(value)
            continue
        try:
            encoded[field.name] = {"value": _to_json(value)}
        except TypeError as error:
            raise InputError(
                f"{_get_class_name(type(state))}: cannot save the field {field.name!r}, which contains {error}; "
                f"expected {SAVED}, or methods save and load"
            ) from None
        if type(value) in COLLECTIONS.values():
            encoded[field.name]["type"] = type(value).__name__
    return {"class": _get_class_name(type(state)), "fields": encoded}, arrays


def _to_json(value: Any, inside: bool = False) -> Any:
    """Convert a value to JSON; raise TypeError with the name of its type if JSON would not restore it unchanged."""
    if isinstance(value, np.generic) and value.dtype.kind in NUMBERS:
        return value.item()
    kind = type(value)
    if value is None or kind in (bool, int, float, str):
        return value
    if kind is dict or (kind is Counter and not inside):
        if all(isinstance(key, str) for key in value):
            return {key: _to_json(value[key], inside=True) for key in sorted(value)}
        raise TypeError(f"{kind.__name__} with keys that are no texts")
    if kind is list or (kind is tuple and not inside):
        return [_to_json(one, inside=True) for one in value]
    if kind in (set, frozenset) and not inside and len(set(map(type, value))) < 2:
        return sorted(_to_json(one, inside=True) for one in value)
    raise TypeError(kind.__name__)


def _decode(encoded: Mapping[str, Mapping[str, Any]], payload: bytes) -> dict[str, Any]:
    values: dict[str, Any] = {}
    start = 0
    for name, one in encoded.items():
        if "array" in one:
            array = np.ndarray(tuple(one["shape"]), np.dtype(one["array"]), payload, start)
            values[name] = array.copy()
            start += array.nbytes
        else:
            values[name] = COLLECTIONS[one["type"]](one["value"]) if "type" in one else one["value"]
    return values
