"""What an analysis found, as one value that a terminal, a page and a file of data are made from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import PurePath
from typing import Any, NamedTuple

from captious.study.resampling import Estimate


class Grid(NamedTuple):
    """A table: words in the first ``words`` columns, numbers in the others."""

    title: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    words: int = 1


class Figure(NamedTuple):
    """A picture as SVG, and what it shows."""

    svg: str
    caption: str


@dataclass(frozen=True)
class Finding:
    """An analysis with everything that moves its numbers."""

    title: str
    about: str
    grids: tuple[Grid, ...]
    figures: tuple[Figure, ...] = ()
    notes: tuple[str, ...] = ()
    signatures: tuple[str, ...] = ()
    data: Mapping[str, Any] = field(default_factory=dict)


def per_cent(value: float) -> str:
    """A share as it is printed.

    >>> per_cent(0.92871), per_cent(float("nan"))
    ('92.87', '—')
    """
    return "—" if value != value else f"{100 * value:.2f}"


def between(estimate: Estimate) -> str:
    """The interval of a share."""
    return "—" if estimate.low != estimate.low else f"{per_cent(estimate.low)} – {per_cent(estimate.high)}"


def plain_name(names: str) -> str:
    """Sources without their folders.

    >>> plain_name("data/swap_obj.json, data/swap_att.json")
    'swap_obj.json, swap_att.json'
    """
    return ", ".join(PurePath(name).name for name in names.split(", "))


def called(encoder: str) -> str:
    """The name in an encoder's mark.

    >>> called("captious-mini#ad1cd87d5ad8")
    'captious-mini'
    """
    return encoder.partition("#")[0]


def marks(encoders: Iterable[str]) -> tuple[str, ...]:
    """Lines for the signatures, one per encoder."""
    return tuple(f"encoder:{encoder}" for encoder in dict.fromkeys(encoders))
