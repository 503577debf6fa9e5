"""A captioner's masked captions, ready to be cut into tasks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from captious.bias.leaks import Leak, leaks
from captious.bias.masking import Tokens, masked, only_symbols, tokenised
from captious.bias.protocol import Protocol
from captious.bias.reading import Subject
from captious.bias.splits import balanced_split, classes_of
from captious.bias.tasks import Task
from captious.bias.vocabulary import unknown_share, vocabulary


@dataclass(frozen=True, eq=False)
class Corpus:
    """Masked model captions, masked and aligned human captions by index, and classes as numbers."""

    subject: Subject
    protocol: Protocol
    classes: tuple[str, ...]
    labels: npt.NDArray[np.int64]
    model: list[Tokens]
    humans: list[list[Tokens]]
    unknown: float
    """Which part of the human words alignment hid."""

    @classmethod
    def of(cls, subject: Subject, protocol: Protocol) -> Corpus:
        """Tokenise, mask and align."""
        classes = classes_of(subject.labels, subject.name)
        model = tokenised(subject.captions, protocol.style)
        humans = [tokenised(column, protocol.style) for column in zip(*subject.humans, strict=True)]
        people = [caption for column in humans for caption in column]
        raw = (subject.captions, [text for texts in subject.humans for text in texts]) if protocol.spaces else None
        known = vocabulary(protocol.vocabulary, subject.name, model, people, raw)
        numbers = {label: number for number, label in enumerate(classes)}
        return cls(
            subject,
            protocol,
            classes,
            np.array([numbers[label] for label in subject.labels], dtype=np.int64),
            masked(model, protocol.mask),
            [masked(column, protocol.mask, known) for column in humans],
            unknown_share(people, known, protocol.mask.words),
        )

    def tasks(self, seed: int) -> list[Task]:
        """One task for the model and one per human caption index."""
        ids, labels = self.subject.ids, self.labels.tolist()
        first = balanced_split(ids, labels, seed, "" if self.protocol.paired else "model")
        second = first if self.protocol.paired else balanced_split(ids, labels, seed, "human")
        token, style, number = self.protocol.mask.token, self.protocol.style, len(self.classes)
        return [
            Task(self.model, self.labels, number, first, seed, "model", token, style),
            *(
                Task(captions, self.labels, number, second, seed, f"human-{index}", token, style)
                for index, captions in enumerate(self.humans)
            ),
        ]

    def notes(self) -> list[str]:
        """What a reader of the numbers should know about the captions."""
        notes = list(self.subject.notes)
        people = [caption for column in self.humans for caption in column]
        for who, captions in (("model", self.model), ("human", people)):
            if empty := only_symbols(captions):
                notes.append(
                    f"{self.subject.name}: {who} captions that say nothing once masked, kept as they are: {empty}"
                )
        return notes

    def leaks(self, share: float = 0.9) -> dict[str, list[Leak]]:
        """Words that still predict a label almost alone, in the model's and in the human captions."""
        people = [caption for column in self.humans for caption in column]
        return {
            "model": leaks(self.model, self.labels, self.classes, share),
            "human": leaks(people, np.tile(self.labels, len(self.humans)), self.classes, share),
        }
