"""Forecast of the time at which a study is complete, from the pace of its answers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

# The pace is measured over a whole day, so that it includes a night.
WINDOW = timedelta(hours=24)
# Fewest answers, and shortest time since the first of them, for a forecast.
FEWEST, SHORTEST = 10, timedelta(minutes=10)
# A completion later than this is not given as a date.
FARTHEST = timedelta(days=60)


@dataclass(frozen=True)
class Forecast:
    """The time at which a study will be complete at the pace of the last 24 hours, or the reason why it is unknown."""

    now: datetime
    at: datetime | None = None
    """The forecast; None if there is none."""
    per_hour: float = math.nan
    """Answers per hour in the last 24 hours."""
    reason: str = ""
    """The reason why there is no forecast."""

    def __str__(self) -> str:
        """Return the forecast in a few words, or the reason why there is none."""
        if self.at is None:
            return self.reason
        day = "today" if self.at.date() == self.now.date() else f"{self.at:%A}"
        if self.at - self.now >= timedelta(days=6):
            day = f"{self.at:%A} {self.at.day} {self.at:%B}"
        return f"complete about {day} {self.at:%H:%M} UTC at today's pace"

    def data(self) -> dict[str, Any]:
        """Return the forecast as JSON values."""
        return {"text": str(self), "at": self.at and self.at.isoformat(), "per_hour": self.per_hour}


def forecast_completion(
    times: Sequence[datetime],
    target: int,
    now: datetime,
    paused: timedelta = timedelta(0),
    running: bool = True,
) -> Forecast:
    """Forecast the time at which the study will have `target` answers.

    The pace is the number of answers of the last 24 hours, divided by the hours since the first of them (24 at most,
    without pauses). All other answers are expected at this pace, day and night. No forecast is given from fewer than
    10 answers or from less than 10 minutes.

    Parameters
    ----------
    times
        Times of the answers that count.
    target
        Answers that the study needs.
    now
        The current time.
    paused
        Time of the last 24 hours in which the study was paused.
    running
        Whether the study is not paused now.
    """
    missing = target - len(times)
    recent = sorted(at for at in times if at > now - WINDOW)
    if missing <= 0:
        return Forecast(now, reason="complete")
    if not running:
        return Forecast(now, reason="no forecast while the study is paused")
    if not recent:
        reason = "no answer in the last 24 hours" if times else "no answer yet"
        return Forecast(now, reason=reason)
    # A study of which all answers are recent is younger than the window: it began with its first answer.
    begin = recent[0] if len(recent) == len(times) else now - WINDOW
    elapsed = now - begin - paused
    if len(recent) < FEWEST:
        return Forecast(now, reason="too few answers for a forecast")
    if elapsed < SHORTEST:
        return Forecast(now, reason=f"no forecast from the first {SHORTEST.seconds // 60} minutes")
    per_hour = len(recent) / (elapsed / timedelta(hours=1))
    left = timedelta(hours=missing / per_hour)
    if left > FARTHEST:
        reason = f"more than {FARTHEST.days} days at today's pace"
        return Forecast(now, per_hour=per_hour, reason=reason)
    return Forecast(now, _round_up(now + left, left), per_hour)


def _round_up(at: datetime, left: timedelta) -> datetime:
    """Round a forecast up to the next quarter of an hour, or to the next hour if it is more than a day ahead."""
    step = timedelta(hours=1) if left > timedelta(days=1) else timedelta(minutes=15)
    midnight = at.replace(hour=0, minute=0, second=0, microsecond=0)
    return midnight + step * math.ceil((at - midnight) / step)
