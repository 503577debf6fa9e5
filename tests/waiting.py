"""Waiting for something that another thread or process does, however busy the machine is."""

import time

SECONDS = 120


def until(condition, what):
    """Return when the condition holds; fail with what was waited for if it does not come in two minutes."""
    deadline = time.monotonic() + SECONDS
    while not condition():
        assert time.monotonic() < deadline, f"not within {SECONDS} s: {what}"
        time.sleep(0.01)
