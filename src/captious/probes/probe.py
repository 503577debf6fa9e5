"""Base class of the results of probes, and charts of shares with intervals."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePath
from typing import Any, ClassVar

from captious._version import __version__
from captious.captions import CaptionSet
from captious.metrics.contract import Metric
from captious.metrics.measurement import Measurement
from captious.options import Resampling
from captious.render import Answer, Chart, Column, Document, Figure, Result, Series
from captious.render.document import Section
from captious.runs.report import disambiguate_labels
from captious.stats.bootstrap import Estimate

Labeled = tuple[str, Estimate]
# Scores that differ by less are equal: a text truncated at the limit gives the same tokens, but a batch of another size
# rounds differently.
TIE = 1e-6
# Rows of a table that its plain answer puts into a sentence.
SENTENCES = 3


@dataclass(frozen=True, repr=False)
class Probe(Result):
    """The result of a probe on some data."""

    name: str
    """The name of the data: the files that it was read from, with commas between them."""
    resampling: Resampling
    unit: ClassVar[str] = "images"
    """The unit that the bootstrap resamples."""

    def __repr__(self) -> str:
        return f"<{type(self).__name__} of {self.name}>"

    @property
    def short_name(self) -> str:
        """The data without folders."""
        return ", ".join(PurePath(name).name for name in self.name.split(", "))

    @property
    def interval(self) -> str:
        """How intervals were made."""
        return self.resampling.signature(self.unit)

    def build(
        self,
        title: str,
        about: str,
        sections: Sequence[Section],
        settings: str,
        signatures: Iterable[str],
        notes: Sequence[str] = (),
        *,
        answer: Answer = "",
        **data: Any,
    ) -> Document:
        """Build the document of the probe: ``settings`` are its own, ``signatures`` those of encoders or metrics."""
        return Document(
            f"{title}: {self.short_name}",
            about,
            sections,
            notes=notes,
            signatures=(f"{settings}|ci:{self.interval}|captious:{__version__}", *signatures),
            data={"name": self.name, **data, "ci": self.interval},
            answer=answer,
        )

    def percent(self, name: str) -> Column:
        """Return a column of shares in percent, with their intervals."""
        return Column(name, decimals=2, scale=100, level=self.resampling.level)

    def share(self, estimate: Estimate) -> Figure:
        """Return a share with its interval for the plain answer, in percent as in the table."""
        return Figure(estimate, replace(self.percent(""), unit=" %"))


def describe_best(start: str, end: str, rows: Sequence[tuple[str, Figure]]) -> list[str | Figure]:
    """Return a sentence on each of the first rows, the highest first: name, ``start``, number, ``end``."""
    ordered = sorted(rows, key=lambda row: -_get_value(row[1]))
    parts: list[str | Figure] = []
    for name, figure in ordered[:SENTENCES]:
        parts += [f"{name} {start} ", figure, f" {end}. "]
    return [*parts, *([f"{len(rows) - SENTENCES} more are below."] if len(rows) > SENTENCES else [])]


def _get_value(figure: Figure) -> float:
    value = figure.value if isinstance(figure.value, (int, float)) else figure.value.value
    return -math.inf if math.isnan(value) else value


def draw_forest(title: str, groups: Mapping[str, Sequence[Labeled]], note: str, chance: float | None = None) -> Chart:
    """Draw shares with their intervals in percent, a row each; rows of one group have one color."""
    series = [
        Series(
            group,
            [label for label, _ in rows],
            [100 * estimate.value for _, estimate in rows],
            [100 * estimate.low for _, estimate in rows],
            [100 * estimate.high for _, estimate in rows],
        )
        for group, rows in groups.items()
    ]
    reference = None if chance is None else 100 * chance
    return Chart("intervals", series, title, note, reference=reference, reference_name="chance" if chance else "")


def get_encoder_name(identity: str) -> str:
    """Return the name of an encoder without the digest of its content.

    >>> get_encoder_name("captious-mini#ad1cd87d5ad8")
    'captious-mini'
    """
    return identity.partition("#")[0]


def list_encoder_signatures(identities: Iterable[str]) -> tuple[str, ...]:
    """List one signature line per encoder."""
    return tuple(f"encoder:{identity}" for identity in dict.fromkeys(identities))


def measure_all(
    captions: CaptionSet, metrics: Sequence[Metric], progress: Callable[[str], None] | None = None
) -> Iterator[tuple[str, Measurement]]:
    """Yield the measurement of every metric on the captions, with a label that no other metric has."""
    labels = disambiguate_labels({str(metric): metric.label for metric in metrics})
    for metric in metrics:
        if progress:
            progress(metric.label)
        measurement = metric.measure(captions)
        metric.refuse_empty(measurement, captions.name)
        yield labels[str(metric)], measurement
