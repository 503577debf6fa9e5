"""Captioners to audit: their labeled captions, masked and aligned, and the tasks of the classifiers."""

from __future__ import annotations

import hashlib
import random
import typing
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious.bias.masks import (
    Style,
    Tokens,
    choose_vocabulary,
    count_empty,
    mask_captions,
    measure_unknown_share,
    tokenize_captions,
)
from captious.bias.protocol import Protocol
from captious.errors import InputError, format_suggestion
from captious.io.formats import get_name, get_stem, read_rows
from captious.io.join import Gathered, gather_candidates, gather_column, gather_references
from captious.io.read import refuse_unused
from captious.options import Reading

# Fewest images of a class: fewer cannot be split into training and test.
LEAST = 10
# Default number of human captions per image.
HUMANS = 5


class TrainTestSplit(NamedTuple):
    """Indices of the images to train on and to test on."""

    train: Ints
    test: Ints


def draw_split(
    ids: Sequence[str], labels: Sequence[int], seed: int, stream: str = "", share: float = 0.1
) -> TrainTestSplit:
    """Draw a class-balanced split of images without replacement, independent of the order of ids.

    With m images in the rarest class, round(share·m) of every class are tested and m − round(share·m) trained on.
    ``stream`` selects one of several independent draws of the seed: the originals draw one for LIC_M and another for
    LIC_D, so the two are not measured on the same images.

    >>> split = draw_split([str(i) for i in range(50)], [0] * 30 + [1] * 20, seed=0)
    >>> len(split.train), len(split.test), len(set(split.train) & set(split.test))
    (36, 4, 0)
    """
    rng = random.Random(f"{seed}/{stream}")
    by_class: dict[int, list[int]] = {}
    # Sorted by id, so that the draw does not depend on the order of rows in a file.
    for index in sorted(range(len(ids)), key=ids.__getitem__):
        by_class.setdefault(labels[index], []).append(index)
    rarest = min(map(len, by_class.values()))
    test_size = round(share * rarest)
    train: list[int] = []
    test: list[int] = []
    for label in sorted(by_class):
        drawn = rng.sample(by_class[label], rarest)
        train += drawn[test_size:]
        test += drawn[:test_size]
    rng.shuffle(train)
    rng.shuffle(test)
    return TrainTestSplit(np.array(train, dtype=np.int64), np.array(test, dtype=np.int64))


def list_classes(labels: Sequence[str], name: str) -> tuple[str, ...]:
    """List the classes in order; raise InputError if there are fewer than two, or too few images of one.

    >>> list_classes(["old"] * 12 + ["young"] * 10, "preds")
    ('old', 'young')
    """
    counts = {label: labels.count(label) for label in sorted(set(labels))}
    if len(counts) < 2:
        problem = f"all {len(labels)} labels are {next(iter(counts))!r}" if counts else "there are no labels"
        raise InputError(f"{name}: {problem}, expected at least two classes")
    small = {label: count for label, count in counts.items() if count < LEAST}
    if small:
        label, count = next(iter(small.items()))
        raise InputError(f"{name}: class {label!r} has {count} images, expected at least {LEAST} of every class")
    return tuple(counts)


@dataclass(frozen=True, eq=False)
class AuditedCaptioner:
    """A captioner: images with label, caption and equally many human captions; ``notes`` describe omitted images."""

    name: str
    ids: tuple[str, ...]
    labels: tuple[str, ...]
    captions: tuple[str, ...]
    humans: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()

    @classmethod
    def of(
        cls,
        name: str,
        labels: Mapping[str, Any],
        captions: Mapping[str, str],
        humans: Mapping[str, Sequence[str]],
        number: int | None = None,
    ) -> AuditedCaptioner:
        """Join labels, captions and human captions by id.

        Images without a label are left out and counted; images without human captions are an error. The first
        ``number`` human captions of each image are used, and images with fewer are left out; by default five, or as
        many as every image has.
        """
        texts = {str(key): text for key, text in captions.items()}
        people = {str(key): list(several) for key, several in humans.items()}
        label_of = {str(key): "" if labels.get(key) is None else str(labels[key]).strip() for key in captions}
        ids = [key for key in texts if label_of[key]]
        notes = []
        if len(ids) < len(texts):
            notes.append(f"{_format_ids(set(texts) - set(ids))} without a label left out")
        without = [key for key in ids if not people.get(key)]
        if without:
            raise InputError(
                f"{name}: {_format_ids(without)} without human captions, expected references for every image"
            )
        counts = Counter(len(people[key]) for key in ids)
        per_image = number or min(HUMANS, min(counts, default=HUMANS))
        short = [key for key in ids if len(people[key]) < per_image]
        if short:
            notes.append(f"{_format_ids(short)} with fewer than {per_image} human captions left out")
            ids = [key for key in ids if len(people[key]) >= per_image]
        if len(counts) > 1:
            numbers = ", ".join(f"{count} × {length}" for length, count in sorted(counts.items()))
            notes.append(f"images have unequal numbers of human captions ({numbers}); the first {per_image} are used")
        subject = cls(
            name,
            tuple(ids),
            tuple(label_of[key] for key in ids),
            tuple(texts[key] for key in ids),
            tuple(tuple(people[key][:per_image]) for key in ids),
            tuple(notes),
        )
        list_classes(subject.labels, name)
        return subject


# Endings of files that are captions of a captioner in a folder.
CAPTION_FILES = (".jsonl", ".json", ".csv", ".tsv", ".parquet", ".jsonl.gz", ".json.gz", ".csv.gz")


def list_captioner_files(sources: Sequence[str]) -> list[str]:
    """Replace each folder by its files of captions, sorted by name; raise InputError for a folder without any."""
    files: list[str] = []
    for source in sources:
        folder = Path(source)
        if not folder.is_dir():
            files.append(source)
            continue
        paths = sorted(path for path in folder.iterdir() if path.is_file() and path.name.endswith(CAPTION_FILES))
        if not paths:
            raise InputError(f"{source}: a folder without files of captions ({', '.join(CAPTION_FILES[:5])})")
        files += [str(path) for path in paths]
    return files


def read_subjects(
    sources: Any,
    label: str,
    reading: Reading = Reading(),
    number: int | None = None,
    labels: Any = None,
) -> list[AuditedCaptioner]:
    """Read one captioner per source, or per source and column if ``candidate_column`` names several with commas.

    Sources are a list, or a dictionary by the name of the captioner: files, or anything else that ``captious.read``
    takes. Labels are the column ``label`` of the captions or of the references; or ``labels`` is a file, or rows, that
    has them by id for all images.
    """
    refuse_unused(reading)
    if isinstance(sources, Mapping):
        names, sources = list(map(str, sources)), list(sources.values())
    else:
        sources = list(sources) if isinstance(sources, (list, tuple)) else [sources]
        names = [get_stem(get_name(source)) for source in sources]
    humans = (
        None
        if reading.references is None
        else gather_references(read_rows(reading.references, role="references"), reading)
    )
    by_id = None if labels is None else gather_column(read_rows(labels, role="labels"), label, reading)
    columns: list[str | None] = [part.strip() for part in (reading.candidate_column or "").split(",") if part.strip()]
    subjects = []
    for name, source in zip(names, sources, strict=True):
        for column in columns or [None]:
            rows = gather_candidates(read_rows(source, reading.format), replace(reading, candidate_column=column))
            # A captioner is called by what distinguishes it: its source, its column, or both.
            parts = [name] * (len(sources) > 1) + [column] * (len(columns) > 1)
            full_name = "-".join(filter(None, parts)) or column or name
            own_labels = _collect_labels(get_name(source), rows, humans, label) if by_id is None else by_id
            subjects.append(_build_subject(full_name, get_name(source), rows, humans, own_labels, number))
    if repeated := [name for name, number in Counter(one.name for one in subjects).items() if number > 1]:
        raise InputError(f"two captioners are called {repeated[0]!r}: pass a dictionary of sources by different names")
    return subjects


def _build_subject(
    name: str, source: str, rows: Gathered, people: Gathered | None, labels: Mapping[str, Any], number: int | None
) -> AuditedCaptioner:
    if not rows.candidates:
        raise InputError(f"{source}: contains no captions")
    humans = (people or rows).references
    if not humans:
        raise InputError(f"{source}: no human captions: pass references=FILE, or rows with references")
    captions = {key: texts[0] for key, texts in rows.candidates.items()}
    if not labels.keys() & captions.keys():
        ids, labeled = ", ".join(list(captions)[:3]), ", ".join(list(labels)[:3])
        raise InputError(f"{source}: no id has a label: found ids such as {ids}, and labels of {labeled or 'none'}")
    return AuditedCaptioner.of(name, labels, captions, humans, number)


def _collect_labels(source: str, rows: Gathered, people: Gathered | None, label: str) -> dict[str, Any]:
    """Collect the labels from the rows of the captions or of the references."""
    parts = [part for part in (rows, people) if part]
    labels = {
        key: next((value for part in parts if (value := part.fields.get(key, {}).get(label)) is not None), None)
        for key in rows.candidates
    }
    if all(value is None for value in labels.values()):
        columns = sorted({column for part in parts for row in part.fields.values() for column in row})
        hint = format_suggestion(label, columns)
        raise InputError(f"{source}: no column {label!r} for the labels, found {', '.join(columns) or 'none'}{hint}")
    return labels


def _format_ids(keys: Sequence[str] | set[str]) -> str:
    ids = sorted(keys)
    more = ", …" if len(ids) > 5 else ""
    return f"{len(ids)} {'image' if len(ids) == 1 else 'images'} ({', '.join(ids[:5])}{more})"


# A callback with the number of tasks, perhaps a fraction, that were done since the last call.
Progress = Callable[[float], None]


@dataclass(frozen=True, eq=False)
class ClassifierTask:
    """What a classifier is trained and tested on: masked captions with labels, split for one seed.

    ``role`` is ``model`` or ``human-0`` … ``human-4``. All randomness of a task comes from its seed and role: not from
    the captioner's name, so that captioners are compared under the same draws, and not from other tasks.
    """

    captions: Sequence[Tokens]
    labels: Ints
    classes: int
    split: TrainTestSplit
    seed: int
    role: str
    token: str = "maskword"
    style: Style = "plain"

    @property
    def train_labels(self) -> Ints:
        """Classes of the captions to train on."""
        return self.labels[self.split.train]

    @property
    def test_labels(self) -> Ints:
        """Classes of the captions to test on."""
        return self.labels[self.split.test]

    @cached_property
    def entropy(self) -> list[int]:
        """Integers that seed the random generators of the task."""
        words = np.frombuffer(hashlib.sha256(f"{self.seed}/{self.role}".encode()).digest(), dtype="<u4")
        return [int(word) for word in words]

    @cached_property
    def digest(self) -> str:
        """A hash of everything that a classifier's result depends on, except its own settings."""
        state = hashlib.sha256(f"{self.seed}|{self.role}|{self.token}|{self.style}|{self.classes}".encode())
        labels = self.labels.tolist()
        for part in self.split:
            lines = [f"{labels[index]}\x1f{' '.join(self.captions[index])}\x1e" for index in part.tolist()]
            state.update(f"{''.join(lines)}\x1d".encode("utf-8", "surrogatepass"))
        return state.hexdigest()[:24]


class Classifier(typing.Protocol):
    """The interface of classifiers that predict a label from captions."""

    @property
    def name(self) -> str:
        """The name in tables."""

    def settings(self) -> Mapping[str, Any]:
        """Return every setting that can change results."""

    def group_tasks(self, tasks: Sequence[ClassifierTask]) -> list[list[ClassifierTask]]:
        """Group tasks that are trained together."""

    def train(self, tasks: Sequence[ClassifierTask], progress: Progress) -> list[Floats]:
        """Train each task and return the class probabilities of its test captions, one row each."""


@dataclass(frozen=True, eq=False)
class MaskedCorpus:
    """Masked captions of a model and of people, with the index of each class.

    ``humans[i]`` are the i-th human captions of all images, with words outside the allowed vocabulary replaced.
    """

    subject: AuditedCaptioner
    protocol: Protocol
    classes: tuple[str, ...]
    labels: Ints
    model: list[Tokens]
    humans: list[list[Tokens]]

    @classmethod
    def of(cls, subject: AuditedCaptioner, protocol: Protocol) -> MaskedCorpus:
        """Tokenize, mask and align the captions of a captioner."""
        classes = list_classes(subject.labels, subject.name)
        model = tokenize_captions(subject.captions, protocol.style)
        humans = [tokenize_captions(column, protocol.style) for column in zip(*subject.humans, strict=True)]
        people = [caption for column in humans for caption in column]
        # RELIC chose its vocabulary from words between spaces, so it needs the captions before tokenization.
        raw = (subject.captions, [text for texts in subject.humans for text in texts]) if protocol.spaces else None
        allowed = choose_vocabulary(protocol.vocabulary, subject.name, model, people, raw)
        numbers = {label: number for number, label in enumerate(classes)}
        return cls(
            subject,
            protocol,
            classes,
            np.array([numbers[label] for label in subject.labels], dtype=np.int64),
            mask_captions(model, protocol.mask),
            [mask_captions(column, protocol.mask, allowed) for column in humans],
        )

    def tasks(self, seed: int) -> list[ClassifierTask]:
        """Make one task for the model and one per human caption index."""
        ids, labels = self.subject.ids, self.labels.tolist()
        first = draw_split(ids, labels, seed, "" if self.protocol.paired else "model")
        second = first if self.protocol.paired else draw_split(ids, labels, seed, "human")
        token, style, number = self.protocol.mask.token, self.protocol.style, len(self.classes)
        return [
            ClassifierTask(self.model, self.labels, number, first, seed, "model", token, style),
            *(
                ClassifierTask(captions, self.labels, number, second, seed, f"human-{index}", token, style)
                for index, captions in enumerate(self.humans)
            ),
        ]

    @property
    def people(self) -> list[Tokens]:
        """All human captions, those of the first index first."""
        return [caption for column in self.humans for caption in column]

    @cached_property
    def unknown(self) -> float:
        """The share of words of human captions that were replaced because they are not in the allowed vocabulary."""
        return measure_unknown_share(self.people)

    @property
    def empty(self) -> tuple[int, int]:
        """The numbers of model captions and of human captions that have only symbols left after masking."""
        return count_empty(self.model), count_empty(self.people)
