"""Synsets of words and phrases, for the metrics that compare meanings with METEOR's tables."""

from __future__ import annotations

from captious.metrics.meteor import resources
from captious.metrics.meteor._compiled_tables import find_synsets


class Synsets:
    """A lookup of the synsets of words and phrases in METEOR's tables or a folder of WordNet; cached."""

    def __init__(self, source: str | None = None) -> None:
        self._source, self.tables = source, resources.load(source)
        self._looked_up: dict[str, frozenset[int]] = {}

    def __call__(self, label: str) -> frozenset[int]:
        """Return the synsets of a word or phrase."""
        if label not in self._looked_up:
            self._looked_up[label] = frozenset(find_synsets(["_".join(label.lower().split())], self.tables)[0])
        return self._looked_up[label]

    def __reduce__(self) -> tuple[type[Synsets], tuple[str | None]]:
        return Synsets, (self._source,)

    @property
    def mark(self) -> str:
        """A digest of the tables' content."""
        return self.tables.hash(("synonym",))
