"""Edits: functions from a caption to the changed caption and a record of the change, or None if it cannot be made.

Every random number is a function of the seed, the id of the item, the name of the edit and the copy.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, TypeVar, get_args

import numpy as np

from captious._core.random import Keys, draw_uniform, fork, make_keys
from captious.captions import Item
from captious.edits.changes import find_changes
from captious.edits.surroundings import Surroundings
from captious.errors import InputError

T = TypeVar("T")
Group = Literal["harm", "damage", "harmless", "gaming", "pairs"]
GROUPS: dict[Group, str] = {
    "harm": "the caption becomes wrong: a sound metric falls",
    "damage": "the caption becomes worse as text: a sound metric falls",
    "harmless": "the caption says the same: a sound metric does not move",
    "gaming": "the caption becomes longer or emptier, not truer: a sound metric does not rise",
    "pairs": "pairs of a right and a wrong caption: a sound metric prefers the right one",
}


class EditedCaption(NamedTuple):
    """A caption after an edit, and the record of what was changed (`captious.edits.changes`)."""

    text: str
    done: Mapping[str, Any]


class TaggedWord(NamedTuple):
    """A word of a caption with its position and its Penn tag."""

    text: str
    start: int
    stop: int
    tag: str

    @property
    def low(self) -> str:
        """The word in lower case."""
        return self.text.lower()

    @property
    def is_noun(self) -> bool:
        """Whether the tagger calls it a common noun."""
        return self.tag in ("NN", "NNS")


@dataclass(frozen=True, eq=False)
class EditSubject:
    """A caption to be edited, with everything that an edit may need."""

    item: Item
    text: str
    words: Sequence[TaggedWord]
    """The words without punctuation, in order."""
    surroundings: Surroundings
    index: int
    """The index of the item in its surroundings."""

    @property
    def end(self) -> int:
        """The end of the text before its final period."""
        return len(self.text.rstrip().rstrip(".!").rstrip())

    def append(self, more: str) -> str:
        """Insert words before the final period of the text."""
        return self.text[: self.end] + more + self.text[self.end :].rstrip()

    def append_sentence(self, sentence: str) -> str:
        """Append a sentence to the text."""
        text = self.text.rstrip()
        return f"{text}{'' if text[-1:] in '.!?' else '.'} {sentence}"

    def replace(self, start: int, stop: int, new: str) -> EditedCaption:
        """Replace a part of the text; keep a capital at the start, and adapt *a* or *an* before it."""
        old = self.text[start:stop]
        if old[:1].isupper() and start == len(self.text) - len(self.text.lstrip()):
            new = new[:1].upper() + new[1:]
        before = self.text[:start]
        article = next((word for word in self.words if word.stop == len(before.rstrip())), None)
        if article is not None and article.low in ("a", "an"):
            new_article = choose_article(new)
            new_article = new_article.capitalize() if article.text[0].isupper() else new_article
            before = before[: article.start] + new_article + before[article.stop :]
        return EditedCaption(before + new + self.text[stop:], {"replaced": [[old, new]]})


def choose_article(word: str) -> str:
    """Choose the indefinite article of a word.

    >>> choose_article("apple"), choose_article("car")
    ('an', 'a')
    """
    return "an" if word[:1].lower() in "aeiou" and not word.lower().startswith(("uni", "one", "eu")) else "a"


class Draw:
    """A sequence of random choices for one edit of one caption."""

    def __init__(self, seed: int, id: str, edit: str, copy: int = 0) -> None:
        self._key: Keys = make_keys([f"{id}\x1f{edit}\x1f{copy}"], seed)
        self._count = 0

    def choice(self, options: Sequence[T]) -> T:
        """Draw one of some options, all equally likely."""
        return options[int(self.order(len(options))[0])]

    def order(self, size: int) -> list[int]:
        """Draw a random permutation of the first ``size`` integers.

        >>> Draw(0, "7", "shuffle").order(4) == Draw(0, "7", "shuffle").order(4)
        True
        """
        self._count += 1
        numbers: list[int] = np.argsort(
            draw_uniform(fork(self._key, self._count), np.arange(size)), kind="stable"
        ).tolist()
        return numbers

    @property
    def keys(self) -> Keys:
        """A fresh key, for draws that take one."""
        self._count += 1
        return fork(self._key, self._count)


# A function that makes an edit: from a caption, its random draws and a dose.
Maker = Callable[[EditSubject, Draw, int], EditedCaption | None]


@dataclass(frozen=True)
class Edit:
    """A named way to change a caption, with the reaction that a sound metric must have."""

    name: str
    group: Group
    about: str
    make: Maker = field(repr=False, compare=False)
    needs: str = "a word"
    """The condition that a caption must meet, shown with the number of captions that are left out."""
    doses: tuple[int, ...] = ()
    """Doses, such as the numbers of injected objects. Without doses the edit is made once."""

    def __post_init__(self) -> None:
        if self.group not in get_args(Group):
            raise InputError(f"edit {self.name}: group {self.group!r}, expected one of {', '.join(GROUPS)}")

    @property
    def forms(self) -> list[tuple[str, int]]:
        """The written form of every dose: ``inject(1)``, ``inject(2)``, …

        >>> Edit("inject", "harm", "", lambda *given: None, doses=(1, 2)).forms
        [('inject(1)', 1), ('inject(2)', 2)]
        """
        return [(f"{self.name}({dose})", dose) for dose in self.doses] or [(self.name, 1)]

    @classmethod
    def of(cls, function: Callable[[Item], str | None], group: Group, name: str = "", about: str = "") -> Edit:
        """Make an edit from a function of an item that returns the changed caption, or None if it cannot change it."""
        name = name or getattr(function, "__name__", "edit").replace("_", "-")

        def make(subject: EditSubject, draw: Draw, dose: int) -> EditedCaption | None:
            text = function(subject.item)
            if text is not None and not isinstance(text, str):
                raise InputError(f"edit {name}: gave {type(text).__name__} for item {subject.item.id}, expected a text")
            if text is None or text == subject.text:
                return None
            return EditedCaption(text, find_changes(subject.text, text))

        return cls(name, group, about or (function.__doc__ or "").strip().partition("\n")[0], make, "what it changes")
