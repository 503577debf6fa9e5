"""What ``captious-run.json`` says of a run: its metrics with their numbers, what was read, and what is stored.

The marker of a foreign folder may say anything, so every value is checked when it is read. Nothing that it names is
imported or opened.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, get_args

from captious._core.files import digest
from captious._version import __version__
from captious.errors import InputError
from captious.io.shards import Shard
from captious.metrics.contract import Metric
from captious.options import Interval, Resampling
from captious.render.tables import dumps
from captious.stats.bootstrap import Estimate

FORMAT = 1
"""The version of the folder's format; a folder of another one is refused."""
Unit = Literal["item", "shard"]
_NAME = re.compile(r"[\w+-][\w.+-]*")
"""The name of a part, which is that of a file."""


@dataclass(frozen=True)
class MetricFacts:
    """One metric of a run: its numbers, and what helps to show and to sort its values."""

    metric: str
    """The written form, which is the name of its column."""
    label: str
    value: float | None = None
    """The value over all items; None where it is undefined, or not known yet."""
    low: float | None = None
    high: float | None = None
    error: float | None = None
    level: float | None = None
    higher_is_better: bool = True
    range: tuple[float | None, float | None] = (0.0, 1.0)
    """The lowest and the highest value possible; None where there is no such limit."""
    decimals: int | None = None
    """The decimals of a value that is no score; None for scores, which are shown × 100 where that is asked for."""
    unscored: int = 0
    signature: str = ""

    @classmethod
    def of(cls, metric: Metric, label: str = "", **numbers: Any) -> MetricFacts:
        """The facts of a metric, whose numbers may not be known yet."""
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
        """The value with its interval, where it has one."""
        if self.level is None:
            return None
        numbers = (self.value, self.low, self.high, self.error)
        value, low, high, error = (float("nan") if number is None else number for number in numbers)
        return Estimate(value, low, high, error)


@dataclass(frozen=True)
class Marker:
    """What a run is. It is written first with what is planned, and last with the numbers."""

    name: str
    metrics: tuple[MetricFacts, ...]
    unit: Unit = "item"
    """What is resampled for intervals and changes sides in paired tests."""
    items: int = 0
    skipped: int = 0
    """Ids that were left out at reading because one side lacked them."""
    parts: Mapping[str, int] = field(default_factory=dict)
    """How many items each part holds, by its name."""
    shards: tuple[Shard, ...] = ()
    """All that were named, those that failed too; none where a file or values in memory were scored."""
    reading: Mapping[str, Any] = field(default_factory=dict)
    """Options of reading that are not at their default, and digests of files that they name."""
    resampling: Resampling = Resampling()
    failed: Mapping[str, str] = field(default_factory=dict)
    """Why a shard could not be scored, by its name."""
    warnings: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    complete: bool = True
    version: str = __version__
    format: int = FORMAT

    @property
    def digest(self) -> str:
        """The digest of how the captions are read and by which captious. Parts of another digest are not mixed in."""
        facts = (dict(self.reading), self.version, self.format)
        return digest(json.dumps(facts, sort_keys=True).encode())

    def to_json(self) -> str:
        """The content of the file."""
        return dumps(
            {
                "format": self.format,
                "captious": self.version,
                "name": self.name,
                "items": self.items,
                "skipped": self.skipped,
                "unit": self.unit,
                "metrics": self.metrics,
                "read": {**self.reading, **({"shards": self.shards} if self.shards else {})},
                "parts": self.parts,
                "resampling": self.resampling,
                "failed": self.failed,
                "warnings": self.warnings,
                "notes": self.notes,
                "complete": self.complete,
            }
        ) + "\n"  # fmt: skip

    @classmethod
    def from_json(cls, content: bytes | str, where: str) -> Marker:
        """The marker again; ``where`` opens the line that says what is wrong with it."""
        try:
            record = json.loads(content)
        except (ValueError, RecursionError):
            raise InputError(f"{where}: is not JSON, expected what captious score wrote") from None
        if not isinstance(record, dict):
            raise InputError(f"{where}: is {type(record).__name__}, expected the facts of a run")
        if "systems" in record and "metrics" not in record:
            raise InputError(f"{where}: is of a comparison, expected a run; name the folder of one of its systems")
        if "languages" in record and "metrics" not in record:
            raise InputError(f"{where}: is of several languages, expected a run; name the folder of one of them")
        if "format" not in record or "metrics" not in record:
            raise InputError(f"{where}: is not of a run, expected one that captious score wrote")
        if record["format"] != FORMAT:
            raise InputError(f"{where}: has format {record['format']!r}, expected {FORMAT}; score the captions again")
        facts = _Facts(record, where)
        read = dict(facts.mapping("read"))
        shards = _each(read.pop("shards", []), "read.shards", where)
        return cls(
            name=facts.text("name"),
            metrics=tuple(_metric(one, where) for one in facts.sequence("metrics")),
            unit=facts.choice("unit", ("item", "shard")),  # type: ignore[arg-type]
            items=facts.whole("items"),
            skipped=facts.whole("skipped"),
            parts={
                _safe(name, where): _whole(one, f"parts.{name}", where) for name, one in facts.mapping("parts").items()
            },
            shards=tuple(_shard(one, where) for one in shards),
            reading=read,
            resampling=_resampling(facts.mapping("resampling"), where),
            failed={str(name): str(line) for name, line in facts.mapping("failed").items()},
            warnings=tuple(map(str, facts.sequence("warnings"))),
            notes=tuple(map(str, facts.sequence("notes"))),
            complete=facts.truth("complete"),
            version=facts.text("captious"),
        )


class _Facts:
    """A JSON object whose values have the types that they should have, or an `InputError` says which has not."""

    def __init__(self, record: Mapping[str, Any], where: str, inside: str = "") -> None:
        self.record, self.where, self.inside = record, where, inside

    def get(self, name: str, kinds: type | tuple[type, ...], expected: str) -> Any:
        """The value of a name."""
        value = self.record.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and kinds is not bool):
            found = f"is {value!r:.60}" if name in self.record else "is missing"
            raise InputError(f"{self.where}: {self.inside}{name} {found}, expected {expected}")
        return value

    def text(self, name: str) -> str:
        return str(self.get(name, str, "a text"))

    def whole(self, name: str) -> int:
        return _whole(self.record.get(name), f"{self.inside}{name}", self.where)

    def truth(self, name: str) -> bool:
        return bool(self.get(name, bool, "true or false"))

    def number(self, name: str) -> float | None:
        value = self.get(name, (int, float, type(None)), "a number or null")
        return None if value is None else float(value)

    def choice(self, name: str, choices: tuple[str, ...]) -> str:
        value = self.text(name)
        if value not in choices:
            raise InputError(f"{self.where}: {self.inside}{name} is {value!r:.60}, expected {' or '.join(choices)}")
        return value

    def mapping(self, name: str) -> Mapping[str, Any]:
        return dict(self.get(name, dict, "an object"))

    def sequence(self, name: str) -> list[Any]:
        return list(self.get(name, list, "a list"))


def _whole(value: Any, name: str, where: str) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < 2**63:
        raise InputError(f"{where}: {name} is {value!r:.60}, expected a whole number")
    return value


def _each(values: Any, name: str, where: str) -> Iterable[Any]:
    if not isinstance(values, list):
        raise InputError(f"{where}: {name} is {values!r:.60}, expected a list")
    return values


def _safe(name: str, where: str) -> str:
    """The name of a part, which must not lead out of the folder."""
    if not _NAME.fullmatch(name):
        raise InputError(f"{where}: {name!r:.60} is not the name of a part, expected letters, digits, dots and hyphens")
    return name


def _metric(record: Any, where: str) -> MetricFacts:
    if not isinstance(record, dict):
        raise InputError(f"{where}: a metric is {record!r:.60}, expected its facts")
    facts = _Facts(record, where, f"{record.get('metric', 'a metric')!s:.60}: ")
    low, high = _ends(facts)
    return MetricFacts(
        metric=facts.text("metric"),
        label=facts.text("label"),
        higher_is_better=facts.truth("higher_is_better"),
        range=(low, high),
        decimals=None if record.get("decimals") is None else facts.whole("decimals"),
        unscored=facts.whole("unscored"),
        signature=facts.text("signature"),
        **{name: facts.number(name) for name in ("value", "low", "high", "error", "level")},
    )


def _ends(facts: _Facts) -> tuple[float | None, float | None]:
    ends = facts.sequence("range")
    numbers = [end for end in ends if end is None or (isinstance(end, (int, float)) and not isinstance(end, bool))]
    if len(ends) != 2 or len(numbers) != 2:
        raise InputError(f"{facts.where}: {facts.inside}range is {ends!r:.60}, expected two numbers")
    return ends[0], ends[1]


def _shard(record: Any, where: str) -> Shard:
    if not isinstance(record, dict):
        raise InputError(f"{where}: a shard is {record!r:.60}, expected its facts")
    facts = _Facts(record, where, "a shard's ")
    return Shard(_safe(facts.text("name"), where), facts.text("address"), facts.whole("size"))


def _resampling(record: Mapping[str, Any], where: str) -> Resampling:
    facts = _Facts(record, where, "resampling.")
    values: dict[str, Any] = {name: facts.whole(name) for name in ("samples", "seed")}
    values["level"] = facts.number("level") or 0.0
    if "interval" in record:
        values["interval"] = facts.choice("interval", get_args(Interval))
    try:
        return Resampling(**values)
    except InputError as error:
        raise InputError(f"{where}: {error}") from None
