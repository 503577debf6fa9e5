"""The marker of a run, ``captious-run.json``: metrics with their numbers, reading options, and stored parts.

A folder may come from an untrusted source, so every value is checked when the marker is read. Nothing that it names
is imported or opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from captious._core.files import digest
from captious._version import __version__
from captious.errors import InputError
from captious.io.storage import Shard
from captious.metrics.contract import Metric
from captious.options import Resampling
from captious.render.exports import dumps
from captious.stats.bootstrap import Estimate

# The version of the folder's format; a folder of another one is refused.
FORMAT = 2
Unit = Literal["item", "shard"]
# The name of a part, which is used as a file name.
_NAME = re.compile(r"[\w+-][\w.+-]*")
# Counts must be below this number.
LARGEST = 2**63
# The entry of `reading` that marks the run of a training with rewards.
REWARDS = "rewards"
# The entry of `reading` that says which columns and files were read. Of shards it is known when they are scored.
COLUMNS = "columns"


@dataclass(frozen=True)
class MetricFacts:
    """One metric of a run: its numbers, and how its values are shown and sorted."""

    metric: str
    """The written form, which is the name of its column."""
    label: str
    value: float | None = None
    """The value over all items; None if it is undefined, or not known yet."""
    low: float | None = None
    high: float | None = None
    error: float | None = None
    level: float | None = None
    higher_is_better: bool = True
    range: tuple[float | None, float | None] = (0.0, 1.0)
    """The lowest and the highest value possible; None if there is no limit."""
    decimals: int | None = None
    """The decimals of a value that is not a score; None for scores, which may be shown in percent."""
    unscored: int = 0
    signature: str = ""

    @classmethod
    def of(cls, metric: Metric, label: str = "", **numbers: Any) -> MetricFacts:
        """Return the facts of a metric, whose numbers may not be known yet."""
        return cls(
            str(metric),
            label or metric.label,
            higher_is_better=metric.higher_is_better,
            range=metric.range,
            decimals=metric.decimals,
            **numbers,
        )

    @property
    def interval(self) -> Estimate | None:
        """The value with its interval, or None."""
        if self.level is None:
            return None
        numbers = (self.value, self.low, self.high, self.error)
        value, low, high, error = (float("nan") if number is None else number for number in numbers)
        return Estimate(value, low, high, error)


@dataclass(frozen=True)
class Marker:
    """The description of a run. It is written first with the plan, and last with the numbers."""

    name: str
    metrics: tuple[MetricFacts, ...]
    unit: Unit = "item"
    """The unit that is resampled for intervals and swapped in paired tests."""
    items: int = 0
    skipped: int = 0
    """The number of ids that were left out at reading because captions or references were missing."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """The number of items of each part, by its name."""
    shards: tuple[Shard, ...] = ()
    """All shards of the run, including failed ones; empty if a file or values in memory were scored."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Options of reading that are not at their default, digests of files that they name, and the columns read."""
    resampling: Resampling = Resampling()
    failed: Mapping[str, str] = field(default_factory=dict)
    """The reason of each shard that could not be scored, by its name."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    history: tuple[str, ...] = ()
    """Events while shards were scored: a run that was resumed, a worker that died."""
    complete: bool = True
    version: str = __version__
    format: int = FORMAT

    @property
    def reading_options(self) -> dict[str, Any]:
        """The entries of `reading` that are known before anything is read."""
        return {name: value for name, value in self.reading.items() if name != COLUMNS}

    @property
    def digest(self) -> str:
        """The digest of reading options and version. Parts with another digest are not reused."""
        facts = (self.reading_options, self.version, self.format)
        return digest(json.dumps(facts, sort_keys=True).encode())

    def to_json(self) -> str:
        """Return the content of the file."""
        return dumps(self) + "\n"

    @classmethod
    def from_json(cls, content: bytes | str, where: str) -> Marker:
        """Parse and check a marker; ``where`` is the start of every error message."""
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            raise InputError(f"{where}: is not JSON, expected what captious score wrote") from None
        if not isinstance(record, dict):
            raise InputError(f"{where}: is {type(record).__name__}, expected the facts of a run")
        if record.get("format") != FORMAT:
            found = f"has format {record['format']!r:.60}" if "format" in record else "has no format"
            raise InputError(f"{where}: {found}, expected {FORMAT}; score the captions again")
        from captious._core.records import from_json

        try:
            marker: Marker = from_json(cls, record)
        except (ValueError, InputError, RecursionError) as error:
            raise InputError(f"{where}: {error}") from None
        marker._refuse_impossible(where)
        return marker

    def _refuse_impossible(self, where: str) -> None:
        """Raise InputError for impossible counts, and for names of parts that lead out of the folder."""
        shards = {f"shards.{one.name}": one.size for one in self.shards}
        for name, number in {"items": self.items, "skipped": self.skipped, **self.parts, **shards}.items():
            if not 0 <= number < LARGEST:
                raise InputError(f"{where}: {name} is {number!r:.60}, expected a whole number of at least 0")
        for name in (*self.parts, *(one.name for one in self.shards)):
            if not _NAME.fullmatch(name):
                raise InputError(
                    f"{where}: {name!r:.60} is not the name of a part, expected letters, digits, dots and hyphens"
                )
