"""``captious.study.plan``: how many captions must be rated for a given interval, before anybody has rated one."""

from __future__ import annotations

from dataclasses import asdict, dataclass

from captious.errors import InputError
from captious.options import LEVEL
from captious.render import Column, Document, Result, Table
from captious.render.document import Value
from captious.stats.looks import find_size


@dataclass(frozen=True, repr=False)
class RatingPlan(Result):
    """Captions to rate for a mean ± ``half_width``, without and with an auxiliary metric."""

    sd: float
    """Standard deviation of the ratings, as assumed."""
    r: float
    """Correlation of the auxiliary metric, or of several together, with the ratings, as assumed."""
    half_width: float
    metrics: int
    """Number of auxiliary metrics."""
    level: float
    without: int
    """Captions to rate without an auxiliary metric."""
    using: int
    """Captions to rate with the auxiliary metrics."""

    def __repr__(self) -> str:
        return f"RatingPlan(± {self.half_width:g}: {self.without} captions, {self.using} with r {self.r:g})"

    def document(self) -> Document:
        """Build the document: the two numbers."""
        answer = f"For a mean ± {self.half_width:g}: rate {self.without:,} captions"
        if self.r:
            metric = "an auxiliary metric" if self.metrics == 1 else f"{self.metrics} auxiliary metrics"
            answer += f", or {self.using:,} with {metric} that correlates with ratings at {self.r:g}"
        rows: list[list[Value]] = [["only ratings", self.without]]
        if self.r:
            rows.append(["with auxiliary metrics", self.using])
        note = (
            "for each system; captions of different images. With several captions of an image rated together, a mean "
            "needs this many images. Ratings of a pilot study give a better number: captious study estimate --precision"
        )
        table = Table("plan", f"Rated captions for ± {self.half_width:g}", ["", Column("captions")], rows, note)
        assumed = f"assumed: ratings have the standard deviation {self.sd:g}; level {100 * self.level:g} %"
        return Document(
            "How many ratings are enough",
            "",
            [table],
            notes=(assumed,),
            data=asdict(self),
            name="plan",
            answer=f"{answer}.",
        )


def plan(sd: float, precision: float, *, r: float = 0.0, metrics: int = 1, level: float = LEVEL) -> RatingPlan:
    """Plan how many captions of a system to rate for a mean ± ``precision``.

    ``sd`` is the standard deviation of ratings, ``r`` the correlation of one auxiliary metric, or the multiple
    correlation of several, with the ratings of captions.

    >>> planned = plan(0.96, 0.1, r=0.6)
    >>> planned.without, planned.using
    (357, 231)
    """
    for name, value in (("sd", sd), ("precision", precision)):
        if not 0 < value < float("inf"):
            raise InputError(f"{name}={value!r}, expected a number above 0")
    if not -1 < r < 1:
        raise InputError(f"r={r!r}, expected a correlation between -1 and 1")
    if metrics < 1:
        raise InputError(f"metrics={metrics!r}, expected at least 1")
    without = find_size(sd, precision, level=level)
    using = find_size(sd, precision, r * r, metrics, level) if r else without
    return RatingPlan(sd, r, precision, metrics, level, without, using)
