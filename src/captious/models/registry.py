"""Models that stay loaded: at most so many, the least recently used one goes first."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar

Model = TypeVar("Model")


class ModelRegistry(Generic[Model]):
    """Models by key. Threads may share it: each model is loaded once, the others wait for it.

    >>> registry = ModelRegistry[str](limit=2)
    >>> [registry.get(key, lambda key=key: key.upper()) for key in "aba"]
    ['A', 'B', 'A']
    >>> registry.get("c", lambda: "C"), "a" in registry, "b" in registry
    ('C', True, False)
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._models: OrderedDict[Hashable, Model] = OrderedDict()
        self._lock = RLock()

    def get(self, key: Hashable, load: Callable[[], Model]) -> Model:
        """The model of a key, loaded where it is not there; a load that fails leaves nothing behind."""
        with self._lock:
            if key not in self._models:
                self._models[key] = load()
                while len(self._models) > self.limit:
                    self._models.popitem(last=False)
            self._models.move_to_end(key)
            return self._models[key]

    def __contains__(self, key: Hashable) -> bool:
        return key in self._models

    def __len__(self) -> int:
        return len(self._models)
