"""A task: what one page asks a rater, as the database keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True)
class Choice:
    """One caption of a task. The system that wrote it never reaches a rater's page."""

    id: str
    text: str
    system: str = ""


@dataclass(frozen=True)
class Task:
    """One page for one rater: an image, captions, things or a text, and what is known of the right answer."""

    id: str
    image: str | None = None
    """File name inside the plan's folder of images; pages ask for it by task and number, never by name."""
    choices: tuple[Choice, ...] = ()
    references: tuple[str, ...] = ()
    things: tuple[str, ...] = ()
    """What a yes/no list asks about."""
    heading: str = ""
    """A text above the answer: the style of a ranking, the caption that a picture was painted from."""
    gold: Mapping[str, Any] | None = None
    """The expected answer of a check, in the form that its kind writes; None for a task like any other."""
    fields: Mapping[str, Any] = field(default_factory=dict)
    """Columns that go through to the export unchanged, such as painter, seed, style and set."""

    def to_dict(self) -> dict[str, Any]:
        """The task as JSON keeps it."""
        return {
            "id": self.id,
            "image": self.image,
            "choices": [[choice.id, choice.text, choice.system] for choice in self.choices],
            "references": list(self.references),
            "things": list(self.things),
            "heading": self.heading,
            "gold": None if self.gold is None else dict(self.gold),
            "fields": dict(self.fields),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Task:
        """The task that `to_dict` wrote.

        >>> task = Task("im3", "im3.jpg", (Choice("im3/sat", "a dog", "sat"),), heading="happy")
        >>> Task.from_dict(task.to_dict()) == task
        True
        """
        choices = tuple(Choice(*choice) for choice in data["choices"])
        lists = {name: tuple(data[name]) for name in ("references", "things")}
        return cls(**{**data, **lists, "choices": choices})
