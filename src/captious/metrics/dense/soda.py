"""SODA: dense captions of a video as a story, matched with the references in their order in time."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Literal

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.metrics.contract import Metric, Need, Shared
from captious.metrics.dense._event_pairs import (
    EventMetric,
    EventPairs,
    TextPairs,
    average_files,
    check_files,
    clean_sentence,
    format_time,
    mean_of_files,
    merge_settings,
)
from captious.metrics.explanation import Breakdown, Contribution
from captious.metrics.registry import parse
from captious.metrics.statistic_rows import Scored
from captious.render import Column, Table
from captious.text.corpus_states import State

IOU = "iou"
PARTS = {"precision": 0, "recall": 1, "f": 2}


@dataclass(frozen=True)
class Soda(EventMetric):
    """SODA: the best matching of predicted and reference events that keeps their order in time.

    Events of both sides are sorted by their start. The gain of a pair is its overlap in time, the intersection over the
    union, times a score of its sentences. S is the largest sum of gains over pairs of which no two cross and no event
    is used twice::

        P = S / predicted events,  R = S / reference events,  F = 2PR / (P + R)

    The value of the metric is the mean over videos. ``score`` is the metric of a pair of sentences, METEOR as in
    SODA_c; with ``score=iou`` only the overlap counts, as in SODA_d. The definition is that of the paper. The released
    program exchanges the prediction and the reference when it calls METEOR, so published numbers are probably those of
    ``roles=exchanged``. METEOR weighs recall more than precision, so either may be higher.

    Of several files of references, ``files=each`` is the mean of the numbers of each file, and ``best`` takes the file
    with the highest F of each video. ``merged`` puts the events of all files into one list, as the program does by
    default, which halves recall with two files. ``files=1`` is the number of the first file. Published values leave out
    videos without predictions.

    >>> import captious
    >>> reference = {"v": {"duration": 9, "timestamps": [[0, 9]], "sentences": ["a dog"]}}
    >>> captions = captious.read({"v": [{"timestamp": [0, 8], "sentence": "a dog"}]}, references=reference)
    >>> round(Soda(score="iou").measure(captions).corpus, 6)  # 8 of 9 seconds
    0.888889
    """

    value: Literal["f", "precision", "recall"] = "f"
    score: str = "meteor"
    roles: Literal["paper", "exchanged"] = "paper"
    files: str = "each"

    name: ClassVar[str] = "soda"
    main: ClassVar[str] = "value"
    citation: ClassVar[str] = (
        "Fujita, Hirao, Kamigaito, Okumura, Nagata. SODA: story oriented dense video captioning evaluation framework. "
        "ECCV 2020."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "files", str(self.files))
        check_files(self.name, self.files, ("each", "best", "merged"))
        if self.score == IOU:
            return
        inner = parse(self.score)
        if "events" in inner.needs or not set(inner.needs) <= {"references", "model"}:
            raise InputError(f"soda(score={self.score}): expected a metric of a caption and its reference, or {IOU}")
        object.__setattr__(self, "score", str(inner))

    @property
    def inner(self) -> Metric | None:
        """The metric of a pair of sentences; None if only the overlap counts."""
        return None if self.score == IOU else parse(self.score)

    @property
    def needs(self) -> tuple[Need, ...]:
        """References with times, and what the metric of a pair needs."""
        own = () if self.inner is None else self.inner.needs
        return tuple(dict.fromkeys(("references", "events", *own)))

    @property
    def label(self) -> str:
        """SODA_c, SODA_d, or SODA with the metric of a pair."""
        inner = self.inner
        name = "SODA_d" if inner is None else "SODA_c" if inner.name == "meteor" else f"SODA ({inner.label})"
        notes = ["exchanged roles"] if self.roles == "exchanged" else []
        notes += {"each": [], "best": ["best file"], "merged": ["merged files"]}.get(self.files, [f"file {self.files}"])
        part = {"f": "", "precision": " P", "recall": " R"}[self.value]
        return f"{name}{part} ({', '.join(notes)})" if notes else f"{name}{part}"

    @property
    def range(self) -> tuple[float, float]:
        """The range of the metric of a pair."""
        low, high = (0.0, 1.0) if self.inner is None else self.inner.range
        return (min(low, 0.0), high)

    @property
    def installed(self) -> bool:
        """Whether the tables of the metric of a pair are installed."""
        return bool(getattr(self.inner, "installed", True))

    @property
    def corpus_state(self) -> type[State] | None:
        """The corpus state of the metric of a pair, such as document frequencies."""
        return None if self.inner is None else self.inner.corpus_state

    def prepare(self, captions: CaptionSet) -> Any:
        """Prepare the metric of a pair, on a set that has one item for each reference event."""
        if self.inner is None:
            return Shared(None, "")
        texts = tuple(map(clean_sentence, captions.references.values))
        owners, first = captions.references.owners, captions.references.offsets
        numbers = np.arange(len(texts)) - first[owners]
        ids = tuple(f"{captions.ids[owner]}#{number}" for owner, number in zip(owners.tolist(), numbers, strict=True))
        no_candidates = Ragged((), np.zeros(len(texts) + 1, dtype=np.int64))
        one_reference_each = Ragged(texts, np.arange(len(texts) + 1))
        return self.inner.prepare(CaptionSet(ids, no_candidates, one_reference_each, name=captions.name))

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return for each file the value of a video, and 1."""
        if "events" not in captions.settings:
            return Scored(np.full((len(captions), 2), np.nan))
        files = self._choose_files(captions, self.files, ("best", "merged"))
        if self.files == "best":
            files = self._choose_files(captions, "each", ())
        stories, reasons = [], dict[int, str]()
        for file in files:
            story = self._compute_stories(captions, state, file)
            stories.append(story)
            reasons |= story.reasons
        tables = [self._compute_values(story) for story in stories]
        present = [story.pairs.has_references for story in stories]
        if self.files == "best":
            # A file without references of the video is never the best.
            f = np.where(np.array(present), np.array(tables)[:, :, PARTS["f"]], -1.0)
            best = f.argmax(axis=0)
            tables = [np.array(tables)[best, np.arange(len(captions))]]
            present = [np.logical_or.reduce(present)]
        columns = []
        for table, has_references in zip(tables, present, strict=True):
            columns += [np.where(has_references, table[:, PARTS[self.value]], 0.0), has_references.astype(np.float64)]
        return Scored(np.stack(columns, axis=1), reasons)

    def _compute_stories(self, captions: CaptionSet, state: Any, file: int | None) -> Stories:
        """Return the pairs of a file of references with their gains, computed once for each set if possible."""
        if self.corpus_state is not None:  # gains depend on the state too, which may be that of another set
            return self._score_pairs(captions, state, file)
        key = ("soda", file, self.score, self.roles)
        return captions.once(key, lambda: self._score_pairs(captions, state, file))

    def _score_pairs(self, captions: CaptionSet, state: Any, file: int | None) -> Stories:
        """Compute the gain of each pair: its overlap in time times the score of its sentences."""
        pairs = EventPairs.of(captions, file, sort=True)
        gains = pairs.iou.copy()
        if self.inner is None:
            return Stories(pairs, gains, {})
        # Only pairs that overlap are scored: the gain of the others is 0.
        overlapping = np.flatnonzero(gains > 0)
        left, right = pairs.left[overlapping], pairs.right[overlapping]
        texts = TextPairs.of(pairs.predicted.texts, pairs.references.texts, left, right)
        texts = texts.exchange() if self.roles == "exchanged" else texts
        measurement = self.inner.measure(texts.captions, state)
        values = measurement.values[texts.numbers]
        reasons = {
            int(pairs.predicted.owners[left[pair]]): measurement.reasons.get(
                str(texts.numbers[pair]), "a pair of sentences has no value"
            )
            for pair in np.flatnonzero(np.isnan(values)).tolist()
        }
        gains[overlapping] *= np.nan_to_num(values)
        return Stories(pairs, gains, reasons)

    def _compute_values(self, stories: Stories) -> Floats:
        """Return precision, recall and F of each video."""
        predicted, references = stories.pairs.predicted.counts, stories.pairs.references.counts
        total = stories.sums()
        precision = total / np.maximum(predicted, 1)
        recall = total / np.maximum(references, 1)
        f = np.divide(2 * precision * recall, precision + recall, out=np.zeros(len(total)), where=total > 0)
        return np.stack([precision, recall, f], axis=1)

    def aggregate(self, rows: Floats) -> Floats:
        """Return the mean over files of the means over videos."""
        means, _ = average_files(np.asarray(rows), np.shape(rows)[-1] // 2)
        return mean_of_files(means[..., 0])

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return the score, the roles and the files, and the settings of the metric of a pair."""
        own = {"score": self.score, "roles": self.roles, "mode": self.files}
        return own if self.inner is None else merge_settings(own, self.inner.settings(state))

    def model_settings(self, state: Any) -> Mapping[str, str]:
        """Return the models of the metric of a pair."""
        return {} if self.inner is None else self.inner.model_settings(state)

    def text_settings(self, captions: CaptionSet) -> Mapping[str, str]:
        """Return the tokenizer of the metric of a pair."""
        own = super().text_settings(captions)
        return own if self.inner is None else merge_settings(own, self.inner.text_settings(CaptionSet.of({})))

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """List the pairs of the best matching with what each adds, and the events without a partner."""
        files = self._choose_files(item, "each" if self.files == "best" else self.files, ("merged",))
        stories = [self._compute_stories(item, state, file) for file in files]
        stories = [story for story in stories if story.pairs.has_references[0]]
        if self.files == "best":
            stories = [max(stories, key=lambda story: float(self._compute_values(story)[0, PARTS["f"]]))]
        parts: list[Contribution] = []
        rows: list[Sequence[Any]] = []
        for story in stories:
            parts += self._list_parts(story, len(stories))
            precision, recall, f = self._compute_values(story)[0].tolist()
            predicted, references = story.pairs.predicted, story.pairs.references
            rows.append((len(predicted.owners), len(references.owners), float(story.sums()[0]), precision, recall, f))
        columns: list[Column | str] = [Column("predicted"), Column("references"), Column("S"), Column("P"), Column("R")]
        return Breakdown(
            parts,
            unit="event",
            columns=[
                Column("start", "text"),
                Column("end", "text"),
                Column("reference", "text"),
                Column("iou", decimals=2),
                Column("score", decimals=4),
            ],
            formula=f"{self.label}: S is the largest sum of iou · score over pairs in the order of time; "
            "P = S / predicted, R = S / references, F = 2PR / (P + R)",
            tables=[Table("files", "matching with each file of references", [*columns, Column("F")], rows)],
            ordered=True,
            shown=None,
        )

    def _list_parts(self, story: Stories, files: int) -> list[Contribution]:
        """Return what each predicted event of the only video adds."""
        predicted, references = story.pairs.predicted, story.pairs.references
        n, m = len(predicted.owners), len(references.owners)
        # F = 2S / (n + m), because P = S / n and R = S / m.
        scale = {"precision": 1 / max(n, 1), "recall": 1 / max(m, 1), "f": 2 / (n + m)}[self.value] / files
        partners = dict(find_matching(story.gains.reshape(n, m)))
        parts = []
        for index, (start, end) in enumerate(predicted.times.tolist()):
            details: dict[str, Any] = {"start": format_time(start), "end": format_time(end)}
            details |= {"reference": "", "iou": None, "score": None}
            gain = 0.0
            if (partner := partners.get(index)) is not None:
                pair = index * m + partner
                gain, iou = float(story.gains[pair]), float(story.pairs.iou[pair])
                details |= {"reference": references.texts[partner].strip(), "iou": iou, "score": gain / iou}
            parts.append(Contribution(f"{index + 1}. {predicted.texts[index].strip()}", gain * scale, None, details))
        return parts


@dataclass(frozen=True, eq=False)
class Stories:
    """All pairs of events of each video, in the order of time, with their gains."""

    pairs: EventPairs
    gains: Floats
    """The gain of each pair: overlap · score."""
    reasons: Mapping[int, str]
    """The reason why a video has no value, by its index: one of its pairs has none."""

    def sums(self) -> Floats:
        """Return the largest sum of each video over pairs that do not cross."""
        rows, columns = self.pairs.predicted.counts.tolist(), self.pairs.references.counts.tolist()
        sums, first = np.zeros(len(rows)), 0
        for video, (n, m) in enumerate(zip(rows, columns, strict=True)):
            if n and m:
                sums[video] = compute_largest_sums(self.gains[first : first + n * m].reshape(n, m))[-1, -1]
            first += n * m
        return sums


def compute_largest_sums(gains: Floats) -> Floats:
    """Return the largest sum over pairs that do not cross, of the first i rows and j columns, for all i and j.

    >>> crossing = np.array([[0.0, 0.6], [0.5, 0.0]])
    >>> compute_largest_sums(crossing)[-1, -1].item()  # only one of two pairs that cross
    0.6
    """
    n, m = gains.shape
    sums = np.zeros((n + 1, m + 1))
    # sums[i, j] = max(sums[i − 1, j], sums[i, j − 1], sums[i − 1, j − 1] + gain), a row at a time: the running maximum
    # is the case of sums[i, j − 1].
    for row in range(n):
        without_left = np.maximum(sums[row, 1:], sums[row, :-1] + gains[row])
        np.maximum.accumulate(without_left, out=sums[row + 1, 1:])
    return sums


def find_matching(gains: Floats) -> list[tuple[int, int]]:
    """Return the pairs (row, column) of the largest sum, in their order.

    >>> find_matching(np.array([[0.5, 0.6], [0.0, 0.5]]))
    [(0, 0), (1, 1)]
    """
    sums = compute_largest_sums(gains)
    row, column = gains.shape
    pairs = []
    while row and column:
        if sums[row, column] == sums[row - 1, column]:
            row -= 1
        elif sums[row, column] == sums[row, column - 1]:
            column -= 1
        else:
            row, column = row - 1, column - 1
            pairs.append((row, column))
    return pairs[::-1]
