"""Items and the immutable, columnar table of them that every metric reads."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from hashlib import blake2b
from itertools import accumulate, chain
from pathlib import PurePath
from typing import Any, TypeVar

import numpy as np

from captious._typing import Bools, Ints
from captious.errors import InputError
from captious.render import Document, Entry, Gallery, Line, Picture

FIRST = 4
"""Items that a notebook shows."""
T = TypeVar("T")


@dataclass(frozen=True)
class Item:
    """One thing that is described: its candidate captions, its references, and whatever else its row carried."""

    id: str
    candidates: tuple[str, ...] = ()
    references: tuple[str, ...] = ()
    fields: Mapping[str, Any] = field(default_factory=dict)

    @property
    def candidate(self) -> str:
        """The only candidate, or the first of several."""
        return self.candidates[0]


class Memo:
    """A base of immutable values: what several users need of one is computed by the first that asks."""

    def once(self, key: Any, make: Callable[[], T]) -> T:
        """What ``make`` returns, computed once for each key."""
        if key not in self._computed:
            self._computed[key] = make()
        result: T = self._computed[key]
        return result

    @cached_property
    def _computed(self) -> dict[Any, Any]:
        return {}


@dataclass(frozen=True, eq=False)
class Ragged(Sequence[tuple[str, ...]]):
    """Lists of texts of any lengths, stored flat: list ``i`` is ``values[offsets[i]:offsets[i + 1]]``."""

    values: Sequence[str]
    offsets: Ints

    @classmethod
    def of(cls, lists: Iterable[Sequence[str]]) -> Ragged:
        """Flatten lists of texts.

        >>> Ragged.of([["a dog", "dogs"], [], ["a cat"]]).offsets.tolist()
        [0, 2, 2, 3]
        """
        lists = list(lists)
        offsets = np.fromiter(accumulate(map(len, lists), initial=0), dtype=np.int64, count=len(lists) + 1)
        return cls(tuple(chain.from_iterable(lists)), offsets)

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, index: int) -> tuple[str, ...]:  # type: ignore[override]  # no slices
        return tuple(self.values[self.offsets[index] : self.offsets[index + 1]])

    @property
    def counts(self) -> Ints:
        """How many texts each list holds."""
        return np.diff(self.offsets)

    @cached_property
    def owners(self) -> Ints:
        """The list that each text stands in.

        >>> Ragged.of([["a dog", "dogs"], [], ["a cat"]]).owners.tolist()
        [0, 0, 2]
        """
        return np.repeat(np.arange(len(self)), self.counts)

    @cached_property
    def blank(self) -> Bools:
        """Which texts hold nothing but white space."""
        return np.fromiter((not text.strip() for text in self.values), dtype=np.bool_, count=len(self.values))


@dataclass(frozen=True, eq=False, repr=False)
class CaptionSet(Memo):
    """An immutable table of items, keyed by item id.

    >>> captions = CaptionSet.of({"7": "a dog runs"}, {"7": ["a dog is running", "the dog runs"]})
    >>> captions["7"].references
    ('a dog is running', 'the dog runs')
    """

    ids: tuple[str, ...]
    candidates: Ragged
    references: Ragged
    columns: Mapping[str, tuple[Any, ...]] = field(default_factory=dict)
    name: str = "captions"
    skipped: int = 0
    """How many ids were left out at reading because one side lacked them."""

    def __post_init__(self) -> None:
        if len(self._positions) != len(self.ids):
            raise InputError(f"{self.name}: {len(self.ids) - len(self._positions)} ids occur more than once")
        for part, texts in (("candidate", self.candidates), ("reference", self.references)):
            if len(texts) != len(self.ids):
                raise InputError(f"{self.name}: {len(texts)} {part} lists for {len(self.ids)} ids")
            if strange := {kind.__name__ for kind in set(map(type, texts.values)) - {str}}:
                raise InputError(f"{self.name}: a {part} caption is of type {strange.pop()}, expected a string")

        for column, values in self.columns.items():
            if len(values) != len(self.ids):
                raise InputError(f"{self.name}: column {column!r} has {len(values)} values for {len(self.ids)} ids")

    @classmethod
    def of(
        cls,
        candidates: Mapping[Any, str | Sequence[str]],
        references: Mapping[Any, str | Sequence[str]] | None = None,
        columns: Mapping[str, Sequence[Any]] | None = None,
        name: str = "captions",
    ) -> CaptionSet:
        """Build a set from plain dictionaries; ``captious.read`` also joins, checks and explains."""
        by_id = {str(key): value for key, value in (references or {}).items()}
        return cls(
            ids=tuple(str(key) for key in candidates),
            candidates=Ragged.of([_listed(value) for value in candidates.values()]),
            references=Ragged.of([_listed(by_id.get(str(key), ())) for key in candidates]),
            columns={column: tuple(values) for column, values in (columns or {}).items()},
            name=name,
        )

    def __repr__(self) -> str:
        numbers = f"{len(self.candidates.values)} candidates, {len(self.references.values)} references"
        return f"<CaptionSet {PurePath(self.name).name}: {len(self)} items, {numbers}>"

    def _repr_html_(self) -> str:
        from captious.render.notebook import notebook

        images = self.image_paths
        entries = [gallery_entry(self.item(index), images[index]) for index in range(min(FIRST, len(self)))]
        columns = f"; columns: {', '.join(self.columns)}" if self.columns else ""
        about = f"{len(self.candidates.values):,} candidates, {len(self.references.values):,} references{columns}"
        first = f"the first {FIRST}" if len(self) > FIRST else ""
        title = f"{PurePath(self.name).name}: {len(self):,} items"
        return notebook(Document(title, about, [Gallery(first, entries, replaces="items")]))

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Item]:
        return (self.item(index) for index in range(len(self)))

    def __getitem__(self, key: str | int) -> Item:
        try:
            return self.item(self._positions[str(key)])
        except KeyError:
            raise InputError(f"{self.name}: no item with id {str(key)!r}") from None

    def __contains__(self, key: object) -> bool:
        return str(key) in self._positions

    def item(self, index: int) -> Item:
        """The item at a position; use the id where there is one."""
        fields = {column: values[index] for column, values in self.columns.items()}
        return Item(self.ids[index], self.candidates[index], self.references[index], fields)

    def take(self, indices: Sequence[int]) -> CaptionSet:
        """The items at these positions, in this order: a shard, a filter, a reordering."""
        return replace(
            self,
            ids=tuple(self.ids[index] for index in indices),
            candidates=Ragged.of([self.candidates[index] for index in indices]),
            references=Ragged.of([self.references[index] for index in indices]),
            columns={name: tuple(values[index] for index in indices) for name, values in self.columns.items()},
        )

    def positions(self, ids: Iterable[str]) -> list[int]:
        """Where these ids stand."""
        return [self._positions[key] for key in ids]

    @property
    def image_paths(self) -> list[str | None]:
        """The path of each item's image; None where it has none."""
        images = self.columns.get("image", (None,) * len(self))
        return [path if isinstance(path, str) and path else None for path in images]

    @cached_property
    def fingerprint(self) -> int:
        """Of ids and references, whatever the order of the items; those of shards add up modulo 2**64."""
        values, bounds, total = self.references.values, self.references.offsets.tolist(), 0
        for key, first, end in zip(self.ids, bounds[:-1], bounds[1:], strict=True):
            content = "\x1f".join((key, *values[first:end])).encode("utf-8", "surrogatepass")
            total += int.from_bytes(blake2b(content, digest_size=8).digest(), "little")
        return total % 2**64

    @cached_property
    def _positions(self) -> dict[str, int]:
        return {key: index for index, key in enumerate(self.ids)}


def _listed(value: str | Sequence[str]) -> Sequence[str]:
    return (value,) if isinstance(value, str) else value


def gallery_entry(item: Item, image: str | None, facts: Sequence[str] = ()) -> Entry:
    """An item as galleries show it."""
    lines = [Line(text) for text in item.candidates]
    return Entry(item.id, lines, Picture(image) if image else None, facts, references=item.references)
