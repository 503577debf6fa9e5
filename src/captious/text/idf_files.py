"""Idf corpora kept: one versioned, checksummed file each, found by path or by the name they were given."""

from __future__ import annotations

import io
import pickle
from collections import defaultdict
from collections.abc import Mapping
from functools import lru_cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from captious.errors import InputError, nearest
from captious.files import data_folder
from captious.sealed import Kind
from captious.text.idf import ORDERS, DocumentFrequency

KIND = Kind("captious-idf", 1, "idf corpus", "captious idf build")
SUFFIX = ".idf"


def save(corpus: DocumentFrequency, path: str | Path) -> None:
    """Write a corpus whole."""
    arrays: dict[str, npt.NDArray[Any]] = {}
    for n in range(ORDERS):
        arrays |= {f"parent{n}": corpus.parents[n], f"last{n}": corpus.lasts[n], f"count{n}": corpus.counts[n]}
    buffer = io.BytesIO()
    np.savez_compressed(buffer, words=np.array("\n".join(corpus.vocabulary)), **arrays)  # type: ignore[arg-type]
    header = {
        "items": corpus.items,
        "tokeniser": corpus.tokeniser,
        "fingerprint": corpus.fingerprint,
        "name": corpus.name,
    }
    KIND.write(path, header, buffer.getvalue())


def load(path: str | Path) -> DocumentFrequency:
    """Read a file that `save` wrote; a damaged or foreign one is refused."""
    header, payload = KIND.read(path)
    with np.load(io.BytesIO(payload), allow_pickle=False) as arrays:
        return DocumentFrequency(
            items=header["items"],
            tokeniser=header["tokeniser"],
            vocabulary=str(arrays["words"]).split("\n"),
            parents=tuple(arrays[f"parent{n}"] for n in range(ORDERS)),
            lasts=tuple(arrays[f"last{n}"] for n in range(ORDERS)),
            counts=tuple(arrays[f"count{n}"] for n in range(ORDERS)),
            fingerprint=header["fingerprint"],
            name=header["name"],
            complete=True,
        )


def named_path(name: str) -> Path:
    """Where a named corpus is kept for this user."""
    return data_folder() / "idf" / f"{name}{SUFFIX}"


def named() -> list[str]:
    """The corpora this user has named."""
    return sorted(path.stem for path in (data_folder() / "idf").glob(f"*{SUFFIX}"))


def find(where: str) -> DocumentFrequency:
    """A corpus by path or by name."""
    path = Path(where)
    if not path.is_file():
        path = named_path(where)
    if not path.is_file():
        known = named()
        listed = f"named corpora: {', '.join(known)}" if known else "no corpus is named yet"
        raise InputError(
            f"no idf corpus {where!r}: neither a file nor a name ({listed}{nearest(where, known)}); "
            f"make one with: captious idf build captions.jsonl --name {path.stem}"
        )
    return _opened(path, path.stat().st_mtime_ns)


@lru_cache(maxsize=4)
def _opened(path: Path, changed: int) -> DocumentFrequency:
    return load(path)


def from_pickle(path: str | Path, name: str, items: int | None = None) -> DocumentFrequency:
    """A corpus from CIDEr's reference code, a pickled ``{ref_len, document_frequency}``, read without running it."""
    try:
        with Path(path).open("rb") as file:
            content = _Restricted(file, encoding="latin1").load()
        # Older files hold the table alone and leave the number of items to the code that reads them.
        counts: Mapping[tuple[str, ...], float] = content.get("document_frequency", content)
        number = items if items is not None else round(float(content["ref_len"]))
        return from_counts(counts, number, name)
    except (pickle.UnpicklingError, KeyError, TypeError, ValueError, EOFError, AttributeError, OSError) as error:
        wanted = "with ref_len and document_frequency, or a bare table and --items"
        raise InputError(f"{path}: not a pickled idf table {wanted} ({error})") from None


def from_counts(counts: Mapping[tuple[str, ...], float], items: int, name: str) -> DocumentFrequency:
    """A corpus from n-grams written out.

    >>> corpus = from_counts({("a",): 2, ("dog",): 1, ("a", "dog"): 1}, items=2, name="tiny")
    >>> corpus.vocabulary, corpus.parents[1].tolist(), corpus.lasts[1].tolist()
    (['a', 'dog'], [0], [1])
    """
    vocabulary = {word: index for index, word in enumerate(sorted({word for gram in counts for word in gram}))}
    numbers: dict[tuple[str, ...], int] = {(): 0}
    parents, lasts, values = [], [], []
    for n in range(1, ORDERS + 1):
        rows = sorted(
            (numbers[gram[:-1]], vocabulary[gram[-1]], int(count), gram)
            for gram, count in counts.items()
            if len(gram) == n and gram[:-1] in numbers
        )
        numbers = {gram: index for index, (*_, gram) in enumerate(rows)}
        parents.append(np.array([row[0] for row in rows], dtype=np.int32))
        lasts.append(np.array([row[1] for row in rows], dtype=np.int32))
        values.append(np.array([row[2] for row in rows], dtype=np.int64))
    mark = int.from_bytes(blake2b(repr(sorted(counts.items())).encode(), digest_size=8).digest(), "little")
    return DocumentFrequency(items, "ptb.1", list(vocabulary), tuple(parents), tuple(lasts), tuple(values), mark, name)


class _Restricted(pickle.Unpickler):
    """Reads dictionaries, tuples, strings and numbers, and nothing that could run code."""

    def find_class(self, module: str, name: str) -> Any:
        allowed = {"defaultdict": defaultdict, "dict": dict, "float": float, "int": int}
        if module in ("collections", "builtins", "__builtin__") and name in allowed:
            return allowed[name]
        raise pickle.UnpicklingError(f"it would load {module}.{name}")
