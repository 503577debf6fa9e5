"""Zero-shot classification: the class whose name, in some templates, is nearest to the image."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from captious._core.files import read_regular
from captious.errors import InputError
from captious.io.formats import get_name, read_rows
from captious.io.images import get_image_name
from captious.models.encoder import Encoder, Features, encoder_id
from captious.options import Resampling
from captious.probes._probe_files import find_image_paths
from captious.probes.probe import Probe, describe_best, draw_forest, get_encoder_name, list_encoder_signatures
from captious.probes.vectors import load_encoders
from captious.render import Cell, Column, Document, Table
from captious.stats.bootstrap import Estimate
from captious.stats.shares import compute_shares, number_clusters

TEMPLATES = ("a photo of a {}.",)
DEPTHS = (1, 5)
# Number of most frequent mistakes listed per encoder.
MISTAKES = 5
LABEL_COLUMNS = ("label", "class", "category")


@dataclass(frozen=True)
class LabeledImages:
    """Images with the name of their class."""

    name: str
    images: tuple[str, ...]
    paths: tuple[str, ...]
    labels: tuple[str, ...]
    classes: tuple[str, ...]


@dataclass(frozen=True)
class Accuracy:
    """The accuracies of one encoder."""

    encoder: str
    images: int
    accuracy: tuple[Estimate, ...]
    """Accuracy at 1 and, if there are more than five classes, at 5."""
    by_class: dict[str, tuple[int, float]]
    """Images and accuracy of each class."""
    confused: tuple[tuple[str, str, int], ...]
    """The most frequent mistakes: what it is, what it was taken for, how often."""
    faults: int
    """Images that cannot be used."""


@dataclass(frozen=True, repr=False)
class Classification(Probe):
    """Zero-shot accuracy of encoders."""

    rows: Sequence[Accuracy]
    classes: int
    templates: Sequence[str]

    def document(self) -> Document:
        """Build the page: the accuracies of each encoder, its most frequent mistakes, and a chart."""
        depths = DEPTHS[: len(self.rows[0].accuracy)]
        sections = [
            Table(
                "classification",
                "Accuracy in percent",
                ("encoder", Column("images"), *(self.percent(f"accuracy at {depth}") for depth in depths)),
                [(get_encoder_name(row.encoder), row.images, *map(Cell.of, row.accuracy)) for row in self.rows],
            )
        ]
        mistakes = [(get_encoder_name(row.encoder), *mistake) for row in self.rows for mistake in row.confused]
        if mistakes:
            columns = ("encoder", "is", "taken for", Column("images"))
            sections.append(Table("mistakes", "Most frequent mistakes", columns, mistakes))
        points = {"all": [(get_encoder_name(row.encoder), row.accuracy[0]) for row in self.rows]}
        note = "Accuracy at 1 with its interval over images."
        chance = 1 / self.classes
        number = len(self.templates)
        return self.build(
            "Zero-shot classification",
            f"The nearest of {self.classes:,} class names in {number} template{'s' * (number != 1)}, in percent; "
            f"chance is {100 * chance:.1f}.",
            (*sections, draw_forest("Accuracy at 1", points, note, chance)),
            f"classification(classes={self.classes},templates={number})",
            list_encoder_signatures(row.encoder for row in self.rows),
            [f"{row.encoder}: {row.faults:,} images cannot be used" for row in self.rows if row.faults],
            answer=describe_best(
                "names the right class of",
                f"of the images; chance is {100 * chance:.1f} %",
                [(get_encoder_name(row.encoder), self.share(row.accuracy[0])) for row in self.rows],
            ),
            templates=self.templates,
            classification=self.rows,
        )


def probe_classification(
    labeled: LabeledImages,
    encoders: Sequence[str],
    resampling: Resampling = Resampling(),
    *,
    templates: Sequence[str] = TEMPLATES,
    progress: Callable[[str], None] | None = None,
) -> Classification:
    """Compute the accuracy at 1 and 5 of the nearest class name for each encoder, with intervals over images."""
    rows = [measure_accuracy(labeled, encoder, resampling, templates) for encoder in load_encoders(encoders, progress)]
    return Classification(labeled.name, resampling, rows, len(labeled.classes), tuple(templates))


def read_labeled(
    source: Any, images: str | Path | None, classes: str | Path | None = None, column: str | None = None
) -> LabeledImages:
    """Read images with their labels. The class names are the lines of the file ``classes``, by default the distinct
    labels.
    """
    names, labels = [], []
    for row in read_rows(source):
        columns = (column,) if column else LABEL_COLUMNS
        label = next((row.fields[name] for name in columns if row.fields.get(name) is not None), None)
        if label is None:
            raise InputError(f"{row.where}: no label: found {', '.join(row.fields)}, expected {' or '.join(columns)}")
        names.append(get_image_name(row))
        labels.append(str(label))
    if not labels:
        raise InputError(f"{get_name(source)}: contains no labels")
    class_names = _read_lines(classes, "class names") if classes is not None else sorted(set(labels))
    if unknown := sorted(set(labels) - set(class_names)):
        raise InputError(f"{get_name(source)}: {len(unknown)} labels are not in {classes}, such as {unknown[0]!r}")
    if len(class_names) < 2:
        raise InputError(f"{get_name(source)}: one class only ({class_names[0]}), expected at least two")
    paths = find_image_paths(names, images)
    return LabeledImages(
        get_name(source), tuple(names), tuple(paths[image] for image in names), tuple(labels), tuple(class_names)
    )


def read_templates(path: str | Path) -> list[str]:
    """Read templates from a file, one per line, each with ``{}`` in place of the name."""
    templates = _read_lines(path, "templates")
    for template in templates:
        if "{}" not in template:
            raise InputError(f"{path}: the template {template!r} has no {{}} for the class name")
    return templates


def _read_lines(path: str | Path, what: str) -> list[str]:
    """Read the distinct nonempty lines of a file."""
    try:
        text = read_regular(path).decode("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path}: cannot be read as {what} ({error})") from None
    lines = list(dict.fromkeys(line.strip() for line in text.splitlines() if line.strip()))
    if not lines:
        raise InputError(f"{path}: is empty, expected {what}, one per line")
    return lines


def encode_classes(encoder: Encoder, classes: Sequence[str], templates: Sequence[str] = TEMPLATES) -> Features:
    """Return a unit vector per class: the normalized mean of the vectors of its name in each template."""
    from captious.models.features import text_features

    texts = [template.replace("{}", name) for name in classes for template in templates]
    encoded = text_features(encoder, texts)
    rows = encoded.rows[encoded.index].reshape(len(classes), len(templates), -1).mean(axis=1)
    unit: Features = rows / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-12)
    return unit


def measure_accuracy(
    labeled: LabeledImages, encoder: Encoder, resampling: Resampling, templates: Sequence[str] = TEMPLATES
) -> Accuracy:
    """Predict the nearest class of each image, and compute accuracies and mistakes; the earlier class wins a tie."""
    from captious.models.features import image_features

    vectors = encode_classes(encoder, labeled.classes, templates)
    images = image_features(encoder, labeled.paths)
    usable = np.flatnonzero(images.index >= 0)
    if not len(usable):
        raise InputError(f"{labeled.name}: no image can be used: {next(iter(images.faults.values()))}")
    numbers = {name: number for number, name in enumerate(labeled.classes)}
    truth = np.array([numbers[labeled.labels[image]] for image in usable.tolist()])
    # The classes of each image, nearest first. Equal images share a row: sort once per row, then expand by the index.
    order = np.argsort(-(images.rows @ vectors.T), axis=1, kind="stable")[images.index[usable]]
    rank = (order == truth[:, None]).argmax(axis=1)  # of the true class, from 0
    depths = [depth for depth in DEPTHS if depth == 1 or depth < len(labeled.classes)]
    hits = np.stack([(rank < depth).astype(np.float64) for depth in depths], axis=1)
    cluster = number_clusters([labeled.images[image] for image in usable.tolist()])
    counts = np.bincount(truth, minlength=len(labeled.classes))
    class_accuracy = np.bincount(truth, weights=hits[:, 0], minlength=len(labeled.classes)) / np.maximum(counts, 1)
    by_class = dict(zip(labeled.classes, zip(counts.tolist(), class_accuracy.tolist(), strict=True), strict=True))
    wrong = rank > 0
    # Pairs of the true class and the nearest one, with their frequencies.
    pairs, times = np.unique(np.stack([truth[wrong], order[wrong, 0]], axis=1), axis=0, return_counts=True)
    confused = [
        (labeled.classes[pairs[pair, 0]], labeled.classes[pairs[pair, 1]], int(times[pair]))
        for pair in np.argsort(-times, kind="stable")[:MISTAKES].tolist()
    ]
    return Accuracy(
        encoder_id(encoder),
        len(usable),
        tuple(compute_shares(hits, np.ones_like(hits), cluster, resampling).estimates()),
        by_class,
        tuple(confused),
        len(labeled.paths) - len(usable),
    )
