"""Optional protocols of metrics: a metric has an ability by having its methods, and declares nothing."""

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
    from captious.models.encoder import Encoder


@runtime_checkable
class Explains(Protocol):
    """A metric that can break the value of an item down into parts."""

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """Return the parts of the value of a set's only item, which has a value. The parts must add up to it."""


@runtime_checkable
class ExplainsMissing(Protocol):
    """A metric that can also explain an item without a value."""

    def break_down_missing(self, item: CaptionSet, state: Any) -> Breakdown:
        """Return what is known of a set's only item, which has no value, as notes of the breakdown."""


@runtime_checkable
class ExplainsOnPage(Protocol):
    """A metric whose explanations the report's page shows with the items."""

    @property
    def explains_on_page(self) -> bool:
        """Whether the page shows explanations with these parameters."""

    def page_explanations(self, captions: CaptionSet, indices: Sequence[int], state: Any) -> list[Why]:
        """Return the page's explanation of each of these items; an empty list if they can no longer be computed."""


@runtime_checkable
class ReadsFrames(Protocol):
    """A metric that encodes frames of videos."""

    def frame_encoders(self) -> list[Encoder]:
        """Return the encoders of its frames, so that all metrics of a run share one decoding."""


@runtime_checkable
class HasSeeds(Protocol):
    """A metric whose values depend on random seeds."""

    def seed_values(self, measurement: Measurement) -> Floats:
        """Return an array of items × seeds: the values under each seed."""


@runtime_checkable
class HasTables(Protocol):
    """A metric that reads tables which may not be installed."""

    @property
    def installed(self) -> bool:
        """Whether the tables are installed."""


@runtime_checkable
class ForeignMetric(Protocol):
    """A metric whose values another program computed; a report compares them with those of captious."""

    def compares_with(self, other: Metric) -> bool:
        """Return True if a metric of captious measures the same as this one."""
