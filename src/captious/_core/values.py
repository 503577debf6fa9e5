"""Base class of results: a pickle or copy contains the fields, not the cached properties."""

from __future__ import annotations

from functools import cached_property
from typing import Any


class PlainState:
    """A base of classes with cached properties, which are left out of pickles and copies and computed again."""

    def __getstate__(self) -> dict[str, Any]:
        kind = type(self)
        computed = {name for name in vars(self) if isinstance(getattr(kind, name, None), cached_property)}
        return {name: value for name, value in vars(self).items() if name not in computed}
