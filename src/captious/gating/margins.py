"""Margins of a gate: how much each metric may lose, in its own unit or as a share of the base's value."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from captious._core.records import parse_toml, read_text, record
from captious._core.specs import split_specs
from captious._evaluate import Specs, metric_specs
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.registry import find_key, parse_all

Margins: TypeAlias = "float | str | os.PathLike[str] | Mapping[str, float | str] | Sequence[str]"
EXPECTED = "a number such as 0.02, or a share such as 1%"


@dataclass(frozen=True)
class AllowedLoss:
    """What a metric may lose: an amount in its own unit, or a share of the base's value."""

    amount: float
    relative: bool = False

    @classmethod
    def of(cls, value: Any, where: str = "margin") -> AllowedLoss:
        """The loss that a number or a text such as ``1%`` means.

        >>> AllowedLoss.of("1%"), AllowedLoss.of(0.02)
        (AllowedLoss(amount=0.01, relative=True), AllowedLoss(amount=0.02, relative=False))
        """
        text = str(value).strip()
        relative = text.endswith("%")
        try:
            if isinstance(value, bool):
                raise ValueError
            amount = float(text.removesuffix("%")) / (100 if relative else 1)
        except ValueError:
            raise InputError(f"{where} {text[:60]!r}, expected {EXPECTED}") from None
        if not (math.isfinite(amount) and amount >= 0):
            raise InputError(f"{where} {text[:60]!r}, expected {EXPECTED}, of at least 0")
        return cls(amount, relative)

    def absolute(self, base: float) -> float:
        """The loss in the unit of the metric, if the base has this value."""
        return self.amount * abs(base) if self.relative else self.amount

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


@dataclass(frozen=True)
class GateFile:
    """What a gate's file in TOML says."""

    metrics: str | tuple[str, ...] = ()
    margin: float | str = ""
    """The margin of every metric that ``[margins]`` does not name."""
    undecided: Literal["", "warn", "fail"] = ""
    margins: Mapping[str, float | str] | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> GateFile:
        """Read the file; a mistake is one line."""
        where = os.fspath(path)
        table = parse_toml(read_text(Path(path), "file of margins"), where, "file of margins")
        margins = table.pop("margins", {})
        if not isinstance(margins, dict):
            raise InputError(f"{where}: margins = {margins!r}, expected a table [margins] such as cider = 0.02")
        return record(cls, table, where, margins=margins)

    @property
    def specs(self) -> list[str]:
        """The metrics to test; those of the margins if it names none."""
        named = [self.metrics] if isinstance(self.metrics, str) else list(self.metrics)
        return named or ([] if self.margin != "" else list(self.margins or ()))

    def asked(self, metrics: Specs | None) -> list[str | Metric] | None:
        """The metrics that an argument names, otherwise those of the file; None if neither names any."""
        named = self.specs or None if metrics is None else metrics
        return None if named is None else metric_specs(named)

    @property
    def by_name(self) -> dict[str, AllowedLoss]:
        """The margins by the name of the metric; that of all others under the empty name."""
        named = {name: AllowedLoss.of(value, f"margin of {name}") for name, value in (self.margins or {}).items()}
        return named | ({"": AllowedLoss.of(self.margin)} if self.margin != "" else {})


def gate_file(margin: Margins | None) -> GateFile:
    """What margins in any form say: a number, ``1%``, ``cider=0.02,rouge=1%``, a mapping, or a file in TOML.

    >>> gate_file("cider=0.02, 1%").by_name
    {'cider': AllowedLoss(amount=0.02, relative=False), '': AllowedLoss(amount=0.01, relative=True)}
    """
    if margin is None:
        return GateFile()
    if isinstance(margin, Mapping):
        return GateFile(margins={str(name): value for name, value in margin.items()})
    if isinstance(margin, (int, float)):
        return GateFile(margin=margin)
    texts = [os.fspath(margin)] if isinstance(margin, (str, os.PathLike)) else list(map(str, margin))
    if len(texts) == 1 and texts[0].endswith(".toml"):
        return GateFile.read(texts[0])
    every, named = "", dict[str, float | str]()
    for part in (part for text in texts for part in split_specs(text)):
        name, equals, value = part.rpartition("=")
        if equals and (")" not in value):
            if name.strip() in named:
                raise InputError(f"margin {part!r}: {name.strip()} has two margins, expected one")
            named[name.strip()] = value
        elif every:
            raise InputError(f"margin {part!r} as well as {every!r}, expected one for all metrics")
        else:
            every = part
    return GateFile(margin=every, margins=named)


def margins_of(by_name: Mapping[str, AllowedLoss], labels: Mapping[str, str]) -> dict[str, AllowedLoss]:
    """The margin of each metric by its written form; every metric must have one, and every name must be a metric.

    A name that stands for several metrics, such as ``bleu``, means all of those that are tested.
    """
    found: dict[str, AllowedLoss] = {}
    for name, loss in by_name.items():
        for key in _named(name, labels) if name else ():
            found[key] = loss
    lacking = [key for key in labels if key not in found]
    if lacking and "" not in by_name:
        known = f"{lacking[0]}=0.02" if by_name else "1%"
        raise InputError(f"no margin for {', '.join(lacking)}, expected one such as margin={known}")
    return {key: found.get(key, by_name.get("", AllowedLoss(0))) for key in labels}


def _named(name: str, labels: Mapping[str, str]) -> list[str]:
    try:
        variants = [str(metric) for metric in parse_all(name)]
    except InputError:
        variants = []
    return [key for key in variants if key in labels] or [find_key(name, labels, "margin")]
