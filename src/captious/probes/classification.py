"""Zero-shot classification: the class whose name, in some templates, lies nearest to the image."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious._version import __version__
from captious.errors import InputError
from captious.io.formats import name_of, rows_of
from captious.models.encoder import Encoder, Features, encoder_id
from captious.options import Resampling
from captious.probes.finding import Figure, Finding, Grid, between, called, marks, per_cent, plain_name
from captious.probes.vectors import image_of, paths_of
from captious.report.plot import Mark, intervals
from captious.stats.bootstrap import Estimate
from captious.stats.shares import clusters_of, shares

TEMPLATES = ("a photo of a {}.",)
DEPTHS = (1, 5)
LABELS = ("label", "class", "category")


@dataclass(frozen=True)
class Labeled:
    """Images with the name of their class."""

    name: str
    images: tuple[str, ...]
    paths: tuple[str, ...]
    labels: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Classified:
    """One encoder's accuracies."""

    encoder: str
    images: int
    accuracy: tuple[Estimate, ...]
    """At 1 and, where there are more classes than that, at 5."""
    by_class: dict[str, tuple[int, float]]
    """Images and accuracy of each class."""
    confused: tuple[tuple[str, str, int], ...]
    """The most frequent mistakes: what it is, what it was taken for, how often."""
    faults: int


def read_labeled(
    source: Any, images: str | Path | None, classes: str | Path | None = None, column: str | None = None
) -> Labeled:
    """Rows of image and label; classes from a file, one name a line, or those that occur."""
    named, labels = [], []
    for row in rows_of(source):
        wanted = (column,) if column else LABELS
        label = next((row.fields[name] for name in wanted if row.fields.get(name) is not None), None)
        if label is None:
            raise InputError(f"{row.where}: no label: found {', '.join(row.fields)}, expected {' or '.join(wanted)}")
        named.append(image_of(row))
        labels.append(str(label))
    known = listed(classes, "class names") if classes is not None else sorted(set(labels))
    if unknown := sorted(set(labels) - set(known)):
        raise InputError(f"{name_of(source)}: {len(unknown)} labels are not in {classes}, such as {unknown[0]!r}")
    if len(known) < 2:
        raise InputError(f"{name_of(source)}: one class only ({known[0]}), expected at least two")
    paths = paths_of(named, images, name_of(source))
    return Labeled(name_of(source), tuple(named), tuple(paths[image] for image in named), tuple(labels), tuple(known))


def listed(path: str | Path, what: str) -> list[str]:
    """The lines of a file, without empty ones."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as {what} ({error})") from None
    found = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not found:
        raise InputError(f"{path}: is empty, expected {what}, one a line")
    return found


def read_templates(path: str | Path) -> list[str]:
    """Templates from a file, one a line, each with ``{}`` where the name goes."""
    found = listed(path, "templates")
    for line in found:
        if "{}" not in line:
            raise InputError(f"{path}: the template {line!r} has no {{}} for the class name")
    return found


def class_vectors(encoder: Encoder, classes: Sequence[str], templates: Sequence[str] = TEMPLATES) -> Features:
    """The mean direction of each class's name in all templates."""
    from captious.models.features import text_features

    texts = [template.replace("{}", name) for name in classes for template in templates]
    found = text_features(encoder, texts)
    rows = found.rows[found.index].reshape(len(classes), len(templates), -1).mean(axis=1)
    unit: Features = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def classify(data: Labeled, encoder: Encoder, how: Resampling, templates: Sequence[str] = TEMPLATES) -> Classified:
    """Accuracy at 1 and 5, intervals over images; a tie between classes is a miss for the later one."""
    from captious.models.features import image_features

    vectors = class_vectors(encoder, data.classes, templates)
    seen = image_features(encoder, data.paths)
    usable = np.flatnonzero(seen.index >= 0)
    if not len(usable):
        raise InputError(f"{data.name}: no image can be used: {next(iter(seen.faults.values()))}")
    numbers = {name: number for number, name in enumerate(data.classes)}
    truth = np.array([numbers[data.labels[place]] for place in usable.tolist()])
    cosines = seen.rows @ vectors.T
    order = np.argsort(-cosines, axis=1, kind="stable")[seen.index[usable]]
    rank = (order == truth[:, None]).argmax(axis=1)
    depths = [depth for depth in DEPTHS if depth == 1 or depth < len(data.classes)]
    hits = np.stack([(rank < depth).astype(np.float64) for depth in depths], axis=1)
    cluster = clusters_of([data.images[place] for place in usable.tolist()])
    by_class = {
        name: (int((truth == number).sum()), float(hits[truth == number, 0].mean()) if (truth == number).any() else 0.0)
        for number, name in enumerate(data.classes)
    }
    wrong = rank > 0
    pairs, often = np.unique(np.stack([truth[wrong], order[wrong, 0]], axis=1), axis=0, return_counts=True)
    worst = np.argsort(-often, kind="stable")[:5]
    return Classified(
        encoder_id(encoder),
        len(usable),
        tuple(shares(hits, np.ones_like(hits), cluster, how).estimates()),
        by_class,
        tuple((data.classes[pairs[one, 0]], data.classes[pairs[one, 1]], int(often[one])) for one in worst.tolist()),
        len(data.paths) - len(usable),
    )


def classification_finding(
    data: Labeled, found: Sequence[Classified], templates: Sequence[str], how: Resampling
) -> Finding:
    """One row per encoder, and the most frequent mistakes."""
    columns = ["encoder", "images"]
    for depth, _ in zip(DEPTHS, found[0].accuracy, strict=False):
        columns += [f"accuracy at {depth}", f"{how.level:.0%} interval"]
    rows = tuple(
        (
            called(one.encoder),
            f"{one.images:,}",
            *(cell for e in one.accuracy for cell in (per_cent(e.value), between(e))),
        )
        for one in found
    )
    mistakes = tuple((called(one.encoder), *pair[:2], f"{pair[2]:,}") for one in found for pair in one.confused)
    points = [
        Mark(called(one.encoder), *(100 * end for end in (e.value, e.low, e.high)))
        for one in found
        for e in one.accuracy[:1]
    ]
    wrong = Grid("Most frequent mistakes", ("encoder", "is", "taken for", "images"), mistakes, 3)
    chance = 100 / len(data.classes)
    lost = [f"{one.encoder}: {one.faults:,} images cannot be used" for one in found if one.faults]
    ways = "1 template" if len(templates) == 1 else f"{len(templates)} templates"
    return Finding(
        f"Zero-shot classification: {plain_name(data.name)}",
        f"The nearest of {len(data.classes):,} class names in {ways}, in per cent; chance is {chance:.1f}.",
        (Grid("Accuracy", tuple(columns), rows), *([wrong] if mistakes else [])),
        (Figure(intervals({"all": points}, "Accuracy at 1", chance), "Accuracy at 1 with its interval over images."),),
        tuple(lost),
        (
            f"classification(classes={len(data.classes)},templates={len(templates)})|ci:{how.signature('images')}|captious:{__version__}",
            *marks(one.encoder for one in found),
        ),
        {
            "captious": __version__,
            "name": data.name,
            "templates": list(templates),
            "classification": [asdict(one) for one in found],
            "ci": how.signature("images"),
        },
    )
