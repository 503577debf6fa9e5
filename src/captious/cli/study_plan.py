"""``captious study plan``: how many captions to rate, before anybody has rated one."""

from __future__ import annotations

from typing import Annotated

from captious.cli.params import Only
from captious.cli.session import Session
from captious.options import Option


def plan(
    session: Annotated[Session, Only("level", "json")],
    sd: Annotated[float, Option("Standard deviation of ratings; about 1 on five points.")] = 1.0,
    precision: Annotated[float, Option("Half width of the interval of a mean, such as 0.1.")] = 0.1,
    r: Annotated[float, Option("Correlation of the auxiliary metrics with ratings of captions.")] = 0.0,
) -> None:
    """Plan how many captions of a system to rate for a mean with a given interval, without and with a metric.

    After a pilot, captious study estimate --precision plans from its ratings, which is more exact.

    Example: captious study plan --sd 0.96 --r 0.6 --precision 0.1
    """
    from captious.study import plan as plan_ratings

    session.deliver(plan_ratings(sd, precision, r=r, level=session.resampling.level))
