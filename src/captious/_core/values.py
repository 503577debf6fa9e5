"""Results are values: they pickle and copy what they hold, without what was computed from it."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class PlainState:
    """A base of classes with cached properties: a pickle or a copy leaves these out, and they are computed again."""

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        computed = {name for name in vars(self) if isinstance(getattr(kind, name, None), cached_property)}
        return {name: value for name, value in vars(self).items() if name not in computed}
