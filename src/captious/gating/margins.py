"""Margins of a gate: the allowed loss of each metric, in its unit or as a share of the base's value."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

from captious._core.notation import split_specs
from captious._core.numbers import parse_number
from captious._core.records import parse_record, parse_toml, read_text
from captious.errors import InputError
from captious.metrics.contract import Metric
from captious.metrics.registry import find_key, parse_all
from captious.metrics.requests import Specs, check_specs

Margins: TypeAlias = "float | str | os.PathLike[str] | Mapping[str, float | str] | Sequence[str]"
EXPECTED = "a number such as 0.02, or a share such as 1%"


@dataclass(frozen=True)
class AllowedLoss:
    """The allowed loss of a metric: an amount in its unit, or a share of the base's value."""

    amount: float
    relative: bool = False

    @classmethod
    def of(cls, value: Any, where: str = "margin") -> AllowedLoss:
        """Parse a number or a text such as ``1%``.

        >>> AllowedLoss.of("1%"), AllowedLoss.of(0.02)
        (AllowedLoss(amount=0.01, relative=True), AllowedLoss(amount=0.02, relative=False))
        """
        text = str(value).strip()
        relative = text.endswith("%")
        try:
            if isinstance(value, bool):
                raise ValueError
            amount = parse_number(text.removesuffix("%")) / (100 if relative else 1)
        except ValueError:
            raise InputError(f"{where} {text[:60]!r}, expected {EXPECTED}") from None
        if not (math.isfinite(amount) and amount >= 0):
            raise InputError(f"{where} {text[:60]!r}, expected {EXPECTED}, of at least 0")
        return cls(amount, relative)

    def absolute(self, base: float) -> float:
        """Return the loss in the unit of the metric, for this value of the base."""
        return self.amount * abs(base) if self.relative else self.amount

    def __str__(self) -> str:
        return f"{100 * self.amount:g}%" if self.relative else f"{self.amount:g}"


@dataclass(frozen=True)
class GateFile:
    """The content of a gate's TOML file."""

    metrics: str | tuple[str, ...] = ()
    margin: float | str = ""
    """The margin of every metric that ``[margins]`` does not name."""
    undecided: Literal["", "warn", "fail"] = ""
    margins: Mapping[str, float | str] | None = None

    @classmethod
    def read(cls, path: str | os.PathLike[str]) -> GateFile:
        """Read the file; raise InputError with one line if it is invalid."""
        where = os.fspath(path)
        table = parse_toml(read_text(Path(path), "file of margins"), where, "file of margins")
        margins = table.pop("margins", {})
        if not isinstance(margins, dict):
            raise InputError(f"{where}: margins = {margins!r}, expected a table [margins] such as cider = 0.02")
        return parse_record(cls, table, where, margins=margins)

    @property
    def specs(self) -> list[str]:
        """The metrics to test; without them, those of the margins."""
        named = [self.metrics] if isinstance(self.metrics, str) else list(self.metrics)
        return named or ([] if self.margin != "" else list(self.margins or ()))

    def select_specs(self, metrics: Specs | None) -> list[str | Metric] | None:
        """Return the metrics of an argument, otherwise those of the file; None if neither has any."""
        named = self.specs or None if metrics is None else metrics
        return None if named is None else check_specs(named)

    @property
    def by_name(self) -> dict[str, AllowedLoss]:
        """The margins by the name of the metric; the default margin under the empty name."""
        named = {name: AllowedLoss.of(value, f"margin of {name}") for name, value in (self.margins or {}).items()}
        return named | ({"": AllowedLoss.of(self.margin)} if self.margin != "" else {})


def parse_margins(margin: Margins | None) -> GateFile:
    """Parse margins in any form: a number, ``1%``, ``cider=0.02,rouge=1%``, a mapping, or a TOML file.

    >>> parse_margins("cider=0.02, 1%").by_name
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
    default, named = "", dict[str, float | str]()
    for part in (part for text in texts for part in split_specs(text)):
        name, equals, value = part.rpartition("=")
        # In bleu(n=4) the last equals sign is that of a parameter, so the text names no margin.
        if equals and (")" not in value):
            if name.strip() in named:
                raise InputError(f"margin {part!r}: {name.strip()} has two margins, expected one")
            named[name.strip()] = value
        elif default:
            raise InputError(f"margin {part!r} as well as {default!r}, expected one for all metrics")
        else:
            default = part
    return GateFile(margin=default, margins=named)


def match_margins(by_name: Mapping[str, AllowedLoss], labels: Mapping[str, str]) -> dict[str, AllowedLoss]:
    """Return the margin of each metric by its written form; raise InputError for missing margins and unknown names.

    A name of several metrics, such as ``bleu``, means all of those that are tested.
    """
    margins: dict[str, AllowedLoss] = {}
    for name, loss in by_name.items():
        for key in _find_metrics(name, labels) if name else ():
            margins[key] = loss
    missing = [key for key in labels if key not in margins]
    if missing and "" not in by_name:
        example = f"{missing[0]}=0.02" if by_name else "1%"
        raise InputError(f"no margin for {', '.join(missing)}, expected one such as margin={example}")
    return {key: margins.get(key, by_name.get("", AllowedLoss(0))) for key in labels}


def _find_metrics(name: str, labels: Mapping[str, str]) -> list[str]:
    """Return the tested metrics that a name means: all of its variants, or the one with this label."""
    try:
        variants = [str(metric) for metric in parse_all(name)]
    except InputError:
        variants = []
    return [key for key in variants if key in labels] or [find_key(name, labels, "margin")]
