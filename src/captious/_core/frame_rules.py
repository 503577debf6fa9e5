"""Frame rules, written as ``uniform:10``: which frames of a video are used."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import numpy as np

from captious._core.types import Bools, Floats, Ints
from captious.errors import InputError, format_suggestion

Sampling = Literal["uniform", "middle", "fps", "key", "all"]
# Rules without a number.
PLAIN = ("key", "all")
# Largest number of frames, and of frames per second, that a rule may name: more is a mistake.
MAX_FRAMES, MAX_RATE = 100_000, 500
# Times are compared with this tolerance, in seconds: 10 · 0.1 s and 1 s are the same time.
TOLERANCE = 1e-6
EXAMPLES = "uniform:10, middle:8, fps:1, key or all"


@dataclass(frozen=True)
class FrameRule:
    """A rule that chooses frames of a clip.

    >>> str(FrameRule.parse("fps:0.5")), FrameRule.parse("uniform:8").choose([0.0, 0.1, 0.2]).tolist()
    ('fps:0.5', [0, 1, 2])
    """

    sampling: Sampling = "uniform"
    number: float = 10
    """Number of frames, or frames per second; 0 for `key` and `all`."""

    @classmethod
    def parse(cls, text: str | FrameRule) -> FrameRule:
        """Parse a rule; raise InputError if the text is not a rule."""
        if isinstance(text, FrameRule):
            return text
        if not isinstance(text, str):
            raise InputError(f"frames={text!r}: expected a rule such as {EXAMPLES}")
        sampling, colon, digits = text.strip().lower().partition(":")
        names = get_args(Sampling)
        if sampling not in names:
            raise InputError(f"frames={text}: expected {EXAMPLES}{format_suggestion(sampling, names)}")
        if sampling in PLAIN:
            if colon:
                raise InputError(f"frames={text}: {sampling} takes no number, expected {sampling}")
            return cls(sampling, 0)  # type: ignore[arg-type]
        if sampling == "fps":
            return cls("fps", _parse_rate(text, digits))
        if not (digits.isascii() and digits.isdecimal() and 1 <= int(digits[:9]) <= MAX_FRAMES):
            most = f" to {MAX_FRAMES:,}" if len(digits) > 5 else ""
            raise InputError(f"frames={text}: expected a number of frames from 1{most}")
        return cls(sampling, int(digits))  # type: ignore[arg-type]

    def __str__(self) -> str:
        if self.sampling in PLAIN:
            return self.sampling
        return f"{self.sampling}:{np.format_float_positional(self.number, trim='-')}"  # all digits, and no exponent

    @property
    def needs_times(self) -> bool:
        """Whether only a clip with times, not a folder of images, has such frames."""
        return self.sampling in ("fps", "key")

    @property
    def wants(self) -> int:
        """The number of frames that the rule takes from a clip that is long enough; 0 if it depends on the clip."""
        return int(self.number) if self.sampling in ("uniform", "middle") else 0

    def choose(
        self,
        times: Sequence[float] | Floats,
        keys: Sequence[bool] | Bools | None = None,
        start: float = 0.0,
        end: float | None = None,
    ) -> Ints:
        """Return the indices of the chosen frames in increasing order, each once.

        ``times`` are those of all frames in presentation order, in seconds; ``keys`` says which are key frames.
        ``start`` and ``end`` are the times at which the clip begins and ends, between which ``fps`` takes frames.
        """
        n = len(times)
        if not n or self.sampling == "all":
            return np.arange(n)
        if self.sampling == "key":
            return np.flatnonzero(np.ones(n, bool) if keys is None else np.asarray(keys))
        if self.sampling == "fps":
            return self._choose_by_time(np.asarray(times, dtype=np.float64), start, end)
        k = int(self.number)
        numbers = np.arange(k, dtype=np.int64)
        if self.sampling == "middle":
            return np.unique((2 * numbers + 1) * n // (2 * k))
        return np.unique(numbers * (n - 1) // max(k - 1, 1))

    def _choose_by_time(self, times: Floats, start: float, end: float | None) -> Ints:
        """Return the frames on screen at ``start``, ``start`` + 1 / rate, … before ``end``."""
        end = float(times[-1]) + TOLERANCE * 2 if end is None else end
        number = max(1, math.ceil((end - start - TOLERANCE) * self.number))
        moments = start + np.arange(number) / self.number
        on_screen = np.searchsorted(times, moments + TOLERANCE, side="right") - 1
        return np.unique(np.maximum(on_screen, 0))


def _parse_rate(text: str, digits: str) -> float:
    try:
        rate = float(digits)
    except ValueError:
        rate = math.nan
    if not 0 < rate <= MAX_RATE or not set(digits) <= set("0123456789."):
        raise InputError(f"frames={text}: expected a number of frames per second, such as fps:1 or fps:0.5")
    return rate


# The default of a run: EMScore's protocol.
DEFAULT_FRAMES = FrameRule()
