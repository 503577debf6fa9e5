"""Finished runs on disk, so that a stopped audit resumes and a longer one reuses what is done."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from captious._files import digest, whole_file
from captious._typing import Floats
from captious._version import __version__
from captious.bias.corpus import Classifier, Corpus, Subject, Task
from captious.bias.leaks import Leak
from captious.bias.lic import POINTS, Lic, chance, item_scores
from captious.bias.protocol import Protocol
from captious.errors import InputError


@dataclass(frozen=True)
class Store:
    """Test probabilities by task, in a folder named after the classifier's settings; None keeps nothing."""

    folder: Path | None

    def of(self, settings: Mapping[str, Any]) -> Store:
        """The part for one classifier, exactly as configured."""
        if self.folder is None:
            return self
        key = digest(json.dumps({**settings, "captious": __version__}, sort_keys=True).encode())
        return Store(self.folder / f"{str(settings['classifier']).split('(')[0]}-{key}")

    def get(self, task: Task) -> Floats | None:
        """What was kept of a task; a damaged file counts as absent."""
        if self.folder is None:
            return None
        try:
            kept: Floats = np.load(self.folder / f"{task.digest}.npy", allow_pickle=False)
        except (OSError, ValueError, EOFError):
            return None
        return kept if kept.shape == (len(task.split.test), task.classes) else None

    def put(self, task: Task, probabilities: Floats) -> None:
        """Keep a finished task, whole or not at all."""
        if self.folder is None:
            return
        with whole_file(self.folder / f"{task.digest}.npy") as draft, draft.open("wb") as file:
            np.save(file, probabilities, allow_pickle=False)


Report = Callable[[str, float, float], None]
"""Told what is at work, how many runs are done, and of how many."""


@dataclass(frozen=True, eq=False)
class Run:
    """One trained classifier and what it said of its test captions."""

    task: Task
    probabilities: Floats

    @property
    def items(self) -> Floats:
        """Score of each test caption."""
        return item_scores(self.probabilities, self.task.test_labels)

    @property
    def score(self) -> float:
        """In points."""
        return POINTS * float(self.items.mean())

    @property
    def accuracy(self) -> float:
        """Share of the test captions whose class is found."""
        return float((self.probabilities.argmax(axis=1) == self.task.test_labels).mean())

    @property
    def by_class(self) -> list[float]:
        """Score in points over the test captions of each class."""
        truth, items = self.task.test_labels, self.items
        return [POINTS * float(items[truth == number].mean()) for number in range(self.task.classes)]


@dataclass(frozen=True, eq=False)
class Row:
    """One captioner under one classifier; runs are seeds × (model, human-0, …)."""

    corpus: Corpus
    classifier: str
    runs: list[list[Run]]

    @property
    def model(self) -> str:
        """The captioner's name."""
        return self.corpus.subject.name

    @property
    def lic(self) -> Lic:
        """The score of the row."""
        protocol, first = self.corpus.protocol, self.runs[0]
        scores = np.array([[run.score for run in seed] for seed in self.runs])
        split = first[0].task.split
        if protocol.paired:
            difference = first[0].items - np.mean([run.items for run in first[1:]], axis=0)
            error = difference.std() / math.sqrt(len(difference))
        else:
            people = np.mean([run.items for run in first[1:]], axis=0)
            error = math.hypot(first[0].items.std(), people.std()) / math.sqrt(len(people))
        ratio = len(split.test) / len(split.train)
        return Lic(scores[:, 0], scores[:, 1:], ratio, protocol.ddof, protocol.level, POINTS * float(error))

    def accuracy(self) -> tuple[float, float]:
        """Mean accuracy on model and on human captions."""
        shares = np.array([[run.accuracy for run in seed] for seed in self.runs])
        return float(shares[:, 0].mean()), float(shares[:, 1:].mean())


@dataclass(frozen=True, eq=False)
class Audit:
    """Everything an audit found."""

    protocol: Protocol
    classifiers: Mapping[str, Mapping[str, Any]]
    corpora: list[Corpus]
    rows: list[Row]
    notes: list[str] = field(default_factory=list)

    @property
    def chance(self) -> float:
        """Score of knowing nothing, in points."""
        return chance(len(self.corpora[0].classes))

    def leaks(self, share: float = 0.9) -> dict[str, dict[str, list[Leak]]]:
        """The leak audit of every captioner."""
        return {corpus.subject.name: corpus.leaks(share) for corpus in self.corpora}


def audit(
    subjects: Sequence[Subject],
    protocol: Protocol,
    classifiers: Sequence[Classifier],
    *,
    work: str | Path | None = None,
    report: Report = lambda what, done, total: None,
) -> Audit:
    """Measure LIC of every captioner with every classifier.

    Runs that ``work`` holds from before are not trained again. Tasks that are equal, such as those of human captions
    that no vocabulary changes, are trained once.
    """
    if not subjects:
        raise InputError("no captions to audit")
    if not protocol.seeds:
        raise InputError("no seeds: expected at least one")
    corpora = [Corpus.of(subject, protocol) for subject in subjects]
    different = {corpus.classes for corpus in corpora}
    if len(different) > 1:
        shown = " and ".join(", ".join(classes) for classes in sorted(different))
        raise InputError(f"the captioners' labels differ: {shown}; expected the same classes for all")
    plans = [[corpus.tasks(seed) for seed in protocol.seeds] for corpus in corpora]
    rows = []
    for classifier in classifiers:
        # Seed by seed over all captioners, so that what is finished first is whole seeds.
        tasks = [task for seed in zip(*plans, strict=True) for group in seed for task in group]
        found = _trained(classifier, tasks, Store(Path(work) if work else None), report)
        for corpus, plan in zip(corpora, plans, strict=True):
            runs = [[Run(task, found[task.digest]) for task in group] for group in plan]
            rows.append(Row(corpus, classifier.name, runs))
    settings = {classifier.name: classifier.settings() for classifier in classifiers}
    return Audit(protocol, settings, corpora, rows, [note for corpus in corpora for note in corpus.notes()])


def _trained(classifier: Classifier, tasks: Sequence[Task], store: Store, report: Report) -> dict[str, Floats]:
    store = store.of(classifier.settings())
    distinct = {task.digest: task for task in tasks}
    found = {key: kept for key, task in distinct.items() if (kept := store.get(task)) is not None}
    done, total = float(len(found)), float(len(distinct))
    report(classifier.name, done, total)

    def progress(more: float) -> None:
        nonlocal done
        done += more
        report(classifier.name, done, total)

    for stack in classifier.stacks([task for key, task in distinct.items() if key not in found]):
        for task, probabilities in zip(stack, classifier.train(stack, progress), strict=True):
            store.put(task, probabilities)
            found[task.digest] = probabilities
    return found
