"""The lock file of a gate: the expected values of a system with their signatures, in one JSON file.

With the item statistics, the test of a new system is paired, as against the run itself. Without them only the values
are known: the new system is tested against fixed numbers, which needs a larger margin, because nothing cancels out.
Captions are never stored, only a hash of those of each item, which shows whether they changed.
"""

from __future__ import annotations

import base64
import binascii
import json
import os
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path, PurePath
from typing import Any

import numpy as np

from captious._core.files import load_json, refuse_unwritable, write_atomically
from captious._core.hashing import hash_texts
from captious._core.records import from_json
from captious._core.types import Floats
from captious._version import __version__
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.registry import parse
from captious.render.exports import dumps
from captious.runs.pairing import load_statistics
from captious.runs.report import Report
from captious.stats.resampling import Statistic, sort_ids

# The first key of a lock file; its value is the format.
KEY = "captious_lock"
FORMAT = 1
# The first key must be within this many bytes of a lock file.
BEGINNING = 200
NOT_STORED = "no value when the lock file was written"


@dataclass(frozen=True)
class LockedMetric:
    """The expected value of one metric, with the item statistics in the order of the ids."""

    signature: Signature
    value: float
    width: int = 0
    """Numbers in a row of statistics; 0 if none are stored."""
    rows: str = ""
    unscored: tuple[int, ...] = ()
    """Items without a value, as positions in the order of the ids."""

    def build_measurement(self, metric: Metric, ids: Sequence[str], where: str) -> Measurement:
        """Return the measurement of the base on these items, which are sorted by id."""
        rows = _unpack_array(self.rows, len(ids) * self.width, where, self.signature.metric).reshape(
            len(ids), self.width
        )
        if any(not 0 <= index < len(ids) for index in self.unscored):
            raise InputError(f"{where}: {self.signature.metric} has an unscored item that does not exist")
        reasons = {ids[index]: NOT_STORED for index in self.unscored}
        return Measurement(metric, tuple(ids), rows, self.signature, reasons)

    def build_statistic(self, items: int) -> Statistic:
        """Return the expected value as a statistic that is the same in every resample."""
        value = self.value
        nothing = np.zeros((items, 1))
        return Statistic(nothing, lambda sums: np.full(len(sums), value), nothing.sum(axis=0), value)


@dataclass(frozen=True)
class Lock:
    """The content of a lock file."""

    path: str
    name: str
    version: str
    """The version of the captious that wrote it."""
    metrics: Mapping[str, LockedMetric]
    captions: str = ""
    """Hashes of the items' captions, in the order of the ids."""

    def metric(self, key: str) -> Metric:
        """Return a metric of the file."""
        return parse(key)

    def find_changed(self, captions: CaptionSet) -> list[bool] | None:
        """Return a mask of the items whose captions differ from the base's; None if the file has no hashes."""
        if not self.captions:
            return None
        stored = _unpack_array(self.captions, len(captions), self.path, "captions", "<u8")
        changed: list[bool] = (stored != hash_captions(captions)).tolist()
        return changed


def is_lock(path: Any) -> bool:
    """Return True if a path is that of a lock file, by its first key."""
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return f'"{KEY}"'.encode() in file.read(BEGINNING)


def write_lock(
    path: str | os.PathLike[str], report: Report, metrics: Sequence[str] | None = None, *, statistics: bool = True
) -> None:
    """Write the values of a report as those that a gate expects; other files are not overwritten.

    ``statistics=False`` stores only the values.
    """
    refuse_other_file(path)
    report = load_statistics(report)
    captions, keys = report.captions, list(report.measurements) if metrics is None else list(metrics)
    order = sort_ids(captions.ids)
    locked = []
    for key in keys:
        measurement = report.measurements[key]
        if not measurement.additive:
            raise InputError(f"{key} counts distinct things over the whole set, which no gate can test")
        if np.isnan(measurement.corpus):
            raise InputError(f"{key}: has no value, expected one to lock")
        entry: dict[str, Any] = {"signature": asdict(measurement.signature), "value": measurement.corpus}
        if statistics:
            rows = np.asarray(measurement.rows, dtype=np.float64)[order]
            positions = [place for place, index in enumerate(order) if captions.ids[index] in measurement.reasons]
            entry |= {"width": rows.shape[1], "rows": _pack_array(rows), "unscored": positions}
        locked.append({"metric": key, **entry})
    data: dict[str, Any] = {KEY: FORMAT, "captious": __version__, "name": PurePath(report.name).name, "metrics": locked}
    if statistics:
        data["captions"] = _pack_array(hash_captions(captions.take(order)))
    with write_atomically(Path(path)) as draft:
        draft.write_text(dumps(data, indent=1) + "\n", encoding="utf-8", errors="replace")


def refuse_other_file(path: str | os.PathLike[str]) -> None:
    """Raise InputError if the path is another file than a lock file, or cannot be written."""
    refuse_unwritable(Path(path))
    if Path(path).exists() and not is_lock(path):
        raise InputError(f"{path}: is not a lock file, expected one, or a name that is free")


def read_lock(path: str | os.PathLike[str]) -> Lock:
    """Read a lock file; imports only the metrics that it names, and computes nothing."""
    where = os.fspath(path)
    try:
        data = load_json(where)
    except (ValueError, json.JSONDecodeError):
        raise InputError(f"{where}: is not JSON, expected a lock file that captious gate --update wrote") from None
    if not isinstance(data, dict):
        raise InputError(f"{where}: is not an object of JSON, expected a lock file that captious gate --update wrote")
    if data.get(KEY) != FORMAT:
        raise InputError(f"{where}: {KEY} is {data.get(KEY)!r}, expected {FORMAT}: another captious wrote it")
    metrics: dict[str, LockedMetric] = {}
    try:
        for entry in data["metrics"]:
            locked: LockedMetric = from_json(LockedMetric, entry)
            metrics[str(entry["metric"])] = locked
        name, version, captions = (str(data.get(key, "")) for key in ("name", "captious", "captions"))
    except (KeyError, TypeError, ValueError) as error:
        raise InputError(f"{where}: is not a whole lock file ({str(error)[:120]}); write it again") from None
    for key, locked in metrics.items():
        if key != locked.signature.metric or not np.isfinite(locked.value) or not 0 <= locked.width <= 10_000:
            raise InputError(f"{where}: the entry of {key[:60]} is inconsistent; write the lock file again")
    if not metrics:
        raise InputError(f"{where}: contains no metric, expected at least one")
    return Lock(where, name, version, metrics, captions)


def hash_captions(captions: CaptionSet) -> Any:
    """Return a hash of the captions of each item."""
    return hash_texts(json.dumps(list(texts)) for texts in captions.candidates)


def _pack_array(values: Any) -> str:
    little = np.ascontiguousarray(values, dtype=np.dtype(values.dtype).newbyteorder("<"))
    return base64.b64encode(zlib.compress(little.tobytes(), 9)).decode("ascii")


def _unpack_array(text: str, number: int, where: str, what: str, kind: str = "<f8") -> Floats:
    """Decode ``number`` values of eight bytes each; longer data are rejected without decompressing all of them."""
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 8 * number + 1)
    except (binascii.Error, ValueError, zlib.error):
        content = b""
    if len(content) != 8 * number:
        raise InputError(f"{where}: the statistics of {what[:60]} are damaged; write the lock file again")
    return np.frombuffer(content, dtype=kind).astype(np.dtype(kind).newbyteorder("="))
