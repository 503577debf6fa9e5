"""The forecast of completion: its pace rule by hand, and what it says when there is too little to go by."""

from datetime import datetime, timedelta, timezone

import pytest

from captious.studio.owner._forecast import forecast_completion

NOW = datetime(2026, 11, 18, 16, 0, tzinfo=timezone.utc)  # a Wednesday


def times(number, first, last=0.0):
    """So many answers, evenly from `first` to `last` hours ago."""
    step = (first - last) / (number - 1) if number > 1 else 0
    return [NOW - timedelta(hours=first - index * step) for index in range(number)]


def test_today_at_the_pace_since_the_first_answer():
    # 240 answers in 8 hours are 30 per hour; 60 more take 2 hours.
    result = forecast_completion(times(240, 8), 300, NOW)
    assert result.per_hour == pytest.approx(30) and result.at == NOW + timedelta(hours=2)
    assert str(result) == "complete about today 18:00 UTC at today's pace"


def test_the_pace_is_that_of_the_last_24_hours():
    # 100 answers last week do not count for the pace: 48 in 24 hours are 2 per hour, and 44 more take 22 hours.
    result = forecast_completion(times(100, 170, 100) + times(48, 23.9), 192, NOW)
    assert result.per_hour == pytest.approx(2)
    assert str(result) == "complete about Thursday 14:00 UTC at today's pace"


def test_a_pause_takes_no_time():
    # 60 answers in 8 hours of which 2 were a pause: 10 per hour, and 30 more take 3 hours.
    result = forecast_completion(times(60, 8), 90, NOW, paused=timedelta(hours=2))
    assert result.at == NOW + timedelta(hours=3)


def test_a_forecast_is_rounded_up():
    # 10 per hour: 11 more take 66 minutes, until 17:06, which is said as 17:15; 251 take 25.1 hours: 18:00 next day.
    assert f"{forecast_completion(times(80, 8), 91, NOW).at:%H:%M}" == "17:15"
    assert forecast_completion(times(80, 8), 331, NOW).at == datetime(2026, 11, 19, 18, 0, tzinfo=timezone.utc)


def test_a_date_beyond_the_week():
    # 10 per hour: 2,400 more take 240 hours, that is ten days.
    result = forecast_completion(times(80, 8), 2480, NOW)
    assert str(result) == "complete about Saturday 28 November 16:00 UTC at today's pace"


@pytest.mark.parametrize(
    ("answers", "target", "options", "words"),
    [
        ([], 300, {}, "no answer yet"),
        (times(9, 5), 300, {}, "too few answers for a forecast"),
        (times(50, 0.1), 300, {}, "no forecast from the first 10 minutes"),  # 50 answers of 6 minutes
        (times(50, 80, 30), 300, {}, "no answer in the last 24 hours"),
        (times(300, 8), 300, {}, "complete"),
        (times(50, 8), 300, {"running": False}, "no forecast while the study is paused"),
        (times(10, 10), 5000, {}, "more than 60 days at today's pace"),
    ],
)
def test_without_a_forecast_the_reason_is_said(answers, target, options, words):
    result = forecast_completion(answers, target, NOW, **options)
    assert result.at is None and str(result) == words
