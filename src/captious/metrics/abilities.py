"""What some metrics offer beyond the contract: a metric has an ability by having its methods, and declares nothing."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.metrics.explanation import Breakdown
from captious.render import Why

if TYPE_CHECKING:
    from captious.metrics.contract import Metric
    from captious.metrics.measurement import Measurement


@runtime_checkable
class Explains(Protocol):
    """A metric that says which parts made the value of an item."""

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """What made the value of the one item of a set, which has a value. The parts must add up to it."""


@runtime_checkable
class ExplainsMissing(Protocol):
    """A metric that also has something to say of an item without a value."""

    def break_down_missing(self, item: CaptionSet, state: Any) -> Breakdown:
        """What is known of the one item of a set that has no value, in its notes."""


@runtime_checkable
class ExplainsOnPage(Protocol):
    """A metric whose explanations the report's page shows beside the items."""

    @property
    def explains_on_page(self) -> bool:
        """Whether it does so with these parameters."""

    def page_explanations(self, captions: CaptionSet, indices: Sequence[int], state: Any) -> list[Why]:
        """What the page shows of these items; nothing at all where it cannot be said any more."""


@runtime_checkable
class HasSeeds(Protocol):
    """A metric whose values depend on random seeds."""

    def seed_values(self, measurement: Measurement) -> Floats:
        """Items × seeds: the values under each seed."""


@runtime_checkable
class HasTables(Protocol):
    """A metric that reads tables which may be absent from this computer."""

    @property
    def installed(self) -> bool:
        """Whether this computer has the tables."""


@runtime_checkable
class ForeignMetric(Protocol):
    """A metric whose values another program computed, so that a report compares them with those of captious."""

    def compares_with(self, other: Metric) -> bool:
        """Whether a metric of captious stands for the same values."""
