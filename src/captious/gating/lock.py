"""The lock file of a gate: what a system is expected to score, with the signatures of the numbers, in one JSON file.

With the statistics of the items, the test of a new system is paired, as against the run itself. Without them only the
values are known: the new system is tested against fixed numbers, which needs a larger margin, because nothing cancels
out. The captions themselves are never stored, only a hash of those of each item, which tells whether they changed.
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
from captious.render.tables import dumps
from captious.runs.pairing import by_item
from captious.runs.report import Report
from captious.stats.resampling import Statistic, id_order

KEY = "captious_lock"
"""The first key of a lock file; its value is the format."""
FORMAT = 1
BEGINNING = 200
"""Characters of a file in which the first key is looked for."""
NOT_STORED = "no value when the lock file was written"


@dataclass(frozen=True)
class LockedMetric:
    """The expected value of one metric; with the statistics of the items, in the order of their ids."""

    signature: Signature
    value: float
    width: int = 0
    """Numbers in a row of statistics; 0 where none are stored."""
    rows: str = ""
    unscored: tuple[int, ...] = ()
    """Items without a value, as positions in the order of the ids."""

    def measurement(self, metric: Metric, ids: Sequence[str], where: str) -> Measurement:
        """The measurement of the base on these items, which are in the order of their ids."""
        rows = _unpacked(self.rows, len(ids) * self.width, where, self.signature.metric).reshape(len(ids), self.width)
        if any(not 0 <= index < len(ids) for index in self.unscored):
            raise InputError(f"{where}: {self.signature.metric} has an unscored item that does not exist")
        reasons = {ids[index]: NOT_STORED for index in self.unscored}
        return Measurement(metric, tuple(ids), rows, self.signature, reasons)

    def statistic(self, items: int) -> Statistic:
        """The expected value as a statistic that no resample moves."""
        value = self.value
        nothing = np.zeros((items, 1))
        return Statistic(nothing, lambda sums: np.full(len(sums), value), nothing.sum(axis=0), value)


@dataclass(frozen=True)
class Lock:
    """What a lock file says."""

    path: str
    name: str
    version: str
    """The version of the captious that wrote it."""
    metrics: Mapping[str, LockedMetric]
    captions: str = ""
    """Hashes of the items' captions, in the order of the ids."""

    def metric(self, key: str) -> Metric:
        """A metric of the file."""
        return parse(key)

    def changed(self, captions: CaptionSet) -> list[bool] | None:
        """Which items have other captions than the base had; nothing if the file has no hashes."""
        if not self.captions:
            return None
        stored = _unpacked(self.captions, len(captions), self.path, "captions", "<u8")
        changed: list[bool] = (stored != caption_hashes(captions)).tolist()
        return changed


def is_lock(path: Any) -> bool:
    """Whether a path is that of a lock file, which its first key says."""
    if not isinstance(path, (str, os.PathLike)) or not Path(path).is_file():
        return False
    with Path(path).open("rb") as file:
        return f'"{KEY}"'.encode() in file.read(BEGINNING)


def write_lock(
    path: str | os.PathLike[str], report: Report, metrics: Sequence[str] | None = None, *, statistics: bool = True
) -> None:
    """Write the values of a report as those that a gate expects; a file that is not a lock file is not replaced.

    ``statistics=False`` stores only the values.
    """
    refuse_other_file(path)
    report = by_item(report)
    captions, keys = report.captions, list(report.measurements) if metrics is None else list(metrics)
    order = id_order(captions.ids)
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
            entry |= {"width": rows.shape[1], "rows": _packed(rows), "unscored": positions}
        locked.append({"metric": key, **entry})
    data: dict[str, Any] = {KEY: FORMAT, "captious": __version__, "name": PurePath(report.name).name, "metrics": locked}
    if statistics:
        data["captions"] = _packed(caption_hashes(captions.take(order)))
    with write_atomically(Path(path)) as draft:
        draft.write_text(dumps(data, indent=1) + "\n", encoding="utf-8", errors="replace")


def refuse_other_file(path: str | os.PathLike[str]) -> None:
    """Refuse to replace what is not a lock file, and a place where nothing can be written."""
    refuse_unwritable(Path(path))
    if Path(path).exists() and not is_lock(path):
        raise InputError(f"{path}: is not a lock file, expected one, or a name that is free")


def read_lock(path: str | os.PathLike[str]) -> Lock:
    """Read a lock file; only the metrics that it names are imported, and nothing is computed."""
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
            raise InputError(f"{where}: the entry of {key[:60]} does not hold together; write the lock file again")
    if not metrics:
        raise InputError(f"{where}: contains no metric, expected at least one")
    return Lock(where, name, version, metrics, captions)


def caption_hashes(captions: CaptionSet) -> Any:
    """A hash of the captions of each item."""
    return hash_texts(json.dumps(list(texts)) for texts in captions.candidates)


def _packed(values: Any) -> str:
    little = np.ascontiguousarray(values, dtype=np.dtype(values.dtype).newbyteorder("<"))
    return base64.b64encode(zlib.compress(little.tobytes(), 9)).decode("ascii")


def _unpacked(text: str, number: int, where: str, what: str, kind: str = "<f8") -> Floats:
    """Numbers of eight bytes each; a file that would unpack to more of them is refused first."""
    try:
        content = zlib.decompressobj().decompress(base64.b64decode(text, validate=True), 8 * number + 1)
    except (binascii.Error, ValueError, zlib.error):
        content = b""
    if len(content) != 8 * number:
        raise InputError(f"{where}: the statistics of {what[:60]} are damaged; write the lock file again")
    return np.frombuffer(content, dtype=kind).astype(np.dtype(kind).newbyteorder("="))
