"""densevid_eval: dense captions of videos, paired with the references by their overlap in time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar, Literal

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet
from captious.errors import InputError
from captious.metrics.bleu import Bleu
from captious.metrics.cider import ORDERS, SIGMA
from captious.metrics.contract import CandidateMetric, Need, Shared
from captious.metrics.dense._event_pairs import (
    EventMetric,
    EventPairs,
    TextPairs,
    average_files,
    check_files,
    format_time,
    mean_of_files,
    sum_by,
)
from captious.metrics.explanation import Breakdown, Contribution
from captious.metrics.meteor.meteor import Meteor
from captious.metrics.rouge import Rouge
from captious.metrics.statistic_rows import Scored
from captious.render import Column, Table
from captious.text.corpus_states import State
from captious.text.ngram_tables import TextTable, run_indices
from captious.text.tokenizers import find_tokenizer

# The text in place of a reference for a prediction that overlaps no reference. Since June 2019 densevid_eval draws
# random letters for each: one token that nobody writes. Before, it was a fixed text, which METEOR's normalizer splits
# into several tokens, so that the reference is longer and METEOR lower.
UNMATCHED = {"2019": "qzxjvkwqyxjz", "2018": "abc123!@#"}
LABELS = {"meteor": "METEOR", "rouge": "ROUGE-L", "cider": "CIDEr-D", "f": "F"}
SHOWN_TIOU = 0.5


@dataclass(frozen=True)
class Densecap(EventMetric):
    """Dense captioning after densevid_eval: captions are compared with the references that they overlap in time.

    For each threshold ``tiou`` every predicted event is paired with every reference event whose overlap in time, the
    intersection over the union, is at least the threshold. A predicted event that overlaps none is paired with a text
    that nobody writes. All pairs of a video are one corpus: METEOR and BLEU come from counts summed over its pairs,
    ROUGE-L is the mean, and CIDEr-D counts document frequencies over the pairs of the video, so that a video with one
    pair has 0. The value of a threshold is the mean over videos, and the value of the metric the mean over thresholds.

    ``precision`` is the share of predictions that overlap some reference by *more* than the threshold, ``recall`` that
    of references, ``f`` the harmonic mean of both means at each threshold. Of several files of references the better
    one counts, for each of precision and recall. ``rules=2018`` pairs unmatched predictions with the text of the
    program before June 2019, which lowers METEOR; the other values do not change. ``idf=all`` counts document
    frequencies over the pairs of all videos. ``files=joint`` pairs with the events of all files of references,
    ``files=each`` is the mean of the numbers of each file, ``files=1`` the number of the first. Only the first ``most``
    predictions of a video in its file are scored.

    >>> import captious
    >>> reference = {"v": {"duration": 9, "timestamps": [[0, 9]], "sentences": ["a dog"]}}
    >>> captions = captious.read({"v": [{"timestamp": [0, 8], "sentence": "a dog"}]}, references=reference)
    >>> round(Densecap("rouge").measure(captions).corpus, 6)  # 8/9 = .89 reaches three of four thresholds
    0.75
    """

    value: Literal["meteor", "bleu-1", "bleu-2", "bleu-3", "bleu-4", "rouge", "cider", "precision", "recall", "f"] = (
        "meteor"
    )
    tiou: str = "0.3+0.5+0.7+0.9"
    rules: str = "2019"
    most: int = 1000
    files: str = "joint"
    idf: Literal["video", "all"] = "video"
    resources: str | None = None
    """METEOR's data; without it the usual places are searched."""

    name: ClassVar[str] = "densecap"
    main: ClassVar[str] = "value"
    always_shown: ClassVar[tuple[str, ...]] = ("value",)
    needs: ClassVar[tuple[Need, ...]] = ("references", "events")
    citation: ClassVar[str] = (
        "Krishna, Hata, Ren, Fei-Fei, Niebles. Dense-captioning events in videos. ICCV 2017. Program: densevid_eval."
    )

    def __post_init__(self) -> None:
        super().__post_init__()
        object.__setattr__(self, "tiou", str(self.tiou))
        object.__setattr__(self, "rules", str(self.rules))
        object.__setattr__(self, "files", str(self.files))
        check_files(self.name, self.files, ("joint", "each"))
        if self.rules not in UNMATCHED:
            raise InputError(f"densecap(rules={self.rules}): expected {' or '.join(UNMATCHED)}")
        if self.most < 1:
            raise InputError(f"densecap(most={self.most}): expected a number of events from 1")
        if self.idf == "all" and self.value != "cider":
            raise InputError(f"densecap(value={self.value},idf=all): only value=cider has document frequencies")
        if not self.thresholds:
            raise InputError(f"densecap(tiou={self.tiou}): expected thresholds from 0 to 1, such as 0.3+0.5")

    @cached_property
    def thresholds(self) -> tuple[float, ...]:
        """The overlaps in time from which a prediction is paired with a reference; empty if one is no number."""
        try:
            values = tuple(float(one) for one in self.tiou.split("+"))
        except ValueError:
            return ()
        return values if all(0 < one <= 1 for one in values) else ()

    @property
    def label(self) -> str:
        """The value of densevid_eval, such as *dense METEOR*, with what differs from the default."""
        name = LABELS.get(self.value) or (self.value.upper() if self.value.startswith("bleu") else self.value)
        notes = [f"tIoU {self.tiou}"] if self.tiou != type(self).tiou else []
        notes += ["2018 rules"] if self.rules != type(self).rules else []
        notes += [f"first {self.most}"] if self.most != type(self).most else []
        notes += ["idf of all videos"] if self.idf == "all" else []
        if self.files != "joint":
            notes.append("mean of files" if self.files == "each" else f"file {self.files}")
        return f"dense {name} ({', '.join(notes)})" if notes else f"dense {name}"

    @property
    def range(self) -> tuple[float, float]:
        """The range of the inner metric."""
        return (0.0, 10.0 if self.value == "cider" else 1.0)

    @property
    def installed(self) -> bool:
        """Whether METEOR's tables are installed, if they are needed."""
        return self.value != "meteor" or Meteor(resources=self.resources).installed

    @property
    def corpus_state(self) -> type[PairFrequencies] | None:
        """Document frequencies of the pairs of all videos with ``idf=all``."""
        return PairFrequencies if self.idf == "all" else None

    def prepare(self, captions: CaptionSet) -> PairFrequencies | Shared[None]:
        """Count document frequencies over the pairs of all videos, if they are needed."""
        if self.idf != "all":
            return Shared(None, "")
        if "events" not in captions.settings:
            return PairFrequencies(Counter(), Counter())
        counts, pairs = Counter[str](), Counter[str]()
        for file, corpus in self._list_corpora(captions):
            for threshold, items, numbers in corpus.pairings:
                prefix = _make_prefix(file, threshold)
                pairs[prefix] += len(items)
                for n in range(1, ORDERS + 1):
                    frequency = corpus.count_documents(n, numbers)
                    for gram in np.flatnonzero(frequency).tolist():
                        counts[f"{prefix}{corpus.table.ngram(n, gram)}"] += int(frequency[gram])
        return PairFrequencies(counts, pairs)

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return for each file the value of a video, and 1; for ``f`` precision and recall at each threshold."""
        if "events" not in captions.settings:
            return Scored(np.full((len(captions), self._width), np.nan))
        parts = []
        for file, corpus in self._list_corpora(captions):
            table = self._compute_columns(corpus, state, file)
            table = np.where(corpus.pairs.has_references[:, None], table, 0.0)
            parts += [table, corpus.pairs.has_references[:, None].astype(np.float64)]
        return Scored(np.concatenate(parts, axis=1))

    @property
    def _width(self) -> int:
        """The number of columns of a row of one file."""
        return 2 * len(self.thresholds) + 1 if self.value == "f" else 2

    def _compute_columns(self, corpus: PairCorpus, state: Any, file: int | None) -> Floats:
        """Return the columns of each video that are averaged over videos."""
        if self.value == "f":
            columns: Floats = np.concatenate([corpus.coverage("precision"), corpus.coverage("recall")]).T
            return columns
        mean: Floats = self._compute_values(corpus, state, file).mean(axis=0)
        return mean[:, None]

    def _compute_values(self, corpus: PairCorpus, state: Any, file: int | None) -> Floats:
        """Return the value of each video (columns) at each threshold (rows)."""
        if self.value in ("precision", "recall"):
            return corpus.coverage(self.value)
        if self.value == "cider":
            frequencies = state if isinstance(state, PairFrequencies) else None
            return corpus.cider(frequencies, file)
        return corpus.sums(self._inner)

    @property
    def _inner(self) -> CandidateMetric:
        """The metric of a corpus of pairs."""
        if self.value == "meteor":
            return Meteor(resources=self.resources)
        return Rouge() if self.value == "rouge" else Bleu(int(self.value[-1]))

    def _list_corpora(self, captions: CaptionSet) -> Iterator[tuple[int | None, PairCorpus]]:
        """Yield each file of references with its pairs, which metrics of the same set share; None is all files."""
        for file in self._choose_files(captions, self.files, ("joint",)):
            key = ("densecap", file, self.most, self.thresholds, self.rules)
            yield file, captions.once(key, lambda file=file: self._pair(captions, file))  # type: ignore[misc]

    def _pair(self, captions: CaptionSet, file: int | None) -> PairCorpus:
        return PairCorpus.of(EventPairs.of(captions, file, self.most), self.thresholds, UNMATCHED[self.rules])

    def aggregate(self, rows: Floats) -> Floats:
        """Return the mean over files of the means over videos; for ``f`` the harmonic mean at each threshold."""
        means, _ = average_files(np.asarray(rows), np.shape(rows)[-1] // self._width)
        if self.value == "f":
            precision, recall = np.split(means, 2, axis=-1)
            total = precision + recall
            with np.errstate(invalid="ignore", divide="ignore"):
                f = np.where(total == 0, 0.0, 2 * precision * recall / total)
            return mean_of_files(f.mean(axis=-1))
        return mean_of_files(means[..., 0])

    def text_settings(self, captions: CaptionSet) -> Mapping[str, str]:
        """Return the tokenizer of the sentences."""
        return {**super().text_settings(captions), "tok": str(find_tokenizer("ptb"))}

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return thresholds, rules and files, and the settings of METEOR, BLEU or ROUGE-L."""
        own = {"tiou": self.tiou, "rules": self.rules, "most": str(self.most), "mode": self.files}
        if self.value in ("precision", "recall", "f"):
            return {name: value for name, value in own.items() if name != "rules"}
        if self.value == "cider":
            return {**own, "idf": self.idf}
        return {**own, **self._inner.settings(Shared(None, ""))}

    def break_down(self, item: CaptionSet, state: Any) -> Breakdown:
        """List the events of a video with what each adds, and the values at each threshold."""
        corpora = list(self._list_corpora(item))
        counted = [(file, corpus) for file, corpus in corpora if corpus.pairs.has_references[0]]
        parts: list[Contribution] = []
        rows: list[Sequence[Any]] = []
        for file, corpus in counted:
            values = self._list_threshold_values(corpus, state, file)
            name = "all" if file is None else str(file + 1)
            for (threshold, _, numbers), value in zip(corpus.pairings, values, strict=True):
                rows.append((name, threshold, len(numbers), value))
            parts += self._list_parts(corpus, values, len(counted))
        columns = [Column("start", "text"), Column("end", "text"), Column("iou", decimals=2), Column("pairs")]
        table = Table(
            "thresholds",
            "values at each threshold",
            ["files", Column("tIoU", decimals=2), Column("pairs"), Column("value")],
            rows,
        )
        shares = "" if self.value in ("precision", "recall") else "; a threshold's value is divided among events"
        return Breakdown(
            parts,
            unit="event",
            columns=[] if self.value == "f" else columns,
            formula=f"{self.label} = mean over tIoU {self.tiou.replace('+', ', ')} of the value of the pairs{shares}",
            tables=[table],
            ordered=True,
            shown=None,
        )

    def _list_threshold_values(self, corpus: PairCorpus, state: Any, file: int | None) -> list[float]:
        """Return the value of the only video at each threshold."""
        if self.value != "f":
            return [float(value) for value in self._compute_values(corpus, state, file)[:, 0]]
        precision, recall = corpus.coverage("precision")[:, 0], corpus.coverage("recall")[:, 0]
        total = precision + recall
        f: Floats = np.divide(2 * precision * recall, total, out=np.zeros(len(total)), where=total > 0)
        return list(map(float, f))

    def _list_parts(self, corpus: PairCorpus, values: Sequence[float], files: int) -> Iterator[Contribution]:
        """Yield what each event adds to the value of the only video."""
        pairs, scale = corpus.pairs, 1 / (len(values) * files)
        if self.value == "f":
            for threshold, value in zip(self.thresholds, values, strict=True):
                yield Contribution(f"F at tIoU {threshold:g}", value * scale)
            return
        events, side = (pairs.references, pairs.right) if self.value == "recall" else (pairs.predicted, pairs.left)
        best = np.zeros(len(events.owners))
        np.maximum.at(best, side, pairs.iou)
        number = np.zeros(len(best), dtype=np.int64)
        np.add.at(number, side[pairs.iou >= SHOWN_TIOU], 1)
        adds = np.zeros(len(best))
        for position, value in enumerate(values):
            adds += scale * value * self._compute_shares(corpus, position, best)
        for index, (start, end) in enumerate(events.times.tolist()):
            details = {"start": format_time(start), "end": format_time(end), "iou": float(best[index])}
            details["pairs"] = int(number[index])
            yield Contribution(f"{index + 1}. {events.texts[index].strip()}", float(adds[index]), None, details)

    def _compute_shares(self, corpus: PairCorpus, position: int, best: Floats) -> Floats:
        """Compute the share of each event in the value of the only video at a threshold; shares add up to 1.

        ``position`` is that of the threshold, and ``best`` the largest overlap of each event.
        """
        threshold, _, numbers = corpus.pairings[position]
        if self.value in ("precision", "recall"):
            weights = (best > threshold).astype(np.float64)
        else:
            # A value of summed counts is not a sum over pairs, so it is divided in proportion to the pairs' own values.
            # A pair has no CIDEr-D of its own, which needs the document frequencies of all pairs: ROUGE-L replaces it.
            by_pair = corpus.score_pairs(Rouge() if self.value == "cider" else self._inner)[numbers]
            weights = np.bincount(corpus.events[position], weights=by_pair, minlength=len(best)).astype(np.float64)
        total = weights.sum()
        return weights / total if total > 0 else weights


def _make_prefix(file: int | None, threshold: float) -> str:
    """Return the beginning of the keys of `PairFrequencies` for a file and a threshold."""
    return f"{'' if file is None else file}|{threshold:g}|"


@dataclass(frozen=True, eq=False)
class PairFrequencies(State):
    """Numbers of pairs whose reference has an n-gram, by file, threshold and n-gram, and numbers of pairs."""

    counts: Counter[str]
    pairs: Counter[str]

    def merge(self, other: PairFrequencies) -> PairFrequencies:
        """Add the counts of other videos."""
        return PairFrequencies(self.counts + other.counts, self.pairs + other.pairs)


@dataclass(frozen=True, eq=False)
class PairCorpus:
    """The pairs of every video at each threshold; each distinct pair of sentences is scored once."""

    pairs: EventPairs
    thresholds: tuple[float, ...]
    texts: CaptionSet
    """Distinct pairs of sentences, one item each."""
    pairings: Sequence[tuple[float, Ints, Ints]]
    """For each threshold: the threshold, the video of each pair, and its item in ``texts``."""
    events: Sequence[Ints]
    """For each threshold the predicted event of each pair."""

    @classmethod
    def of(cls, pairs: EventPairs, thresholds: tuple[float, ...], unmatched: str) -> PairCorpus:
        """Pair predicted events with all references that they overlap, or with a text that nobody writes."""
        predicted, references = pairs.predicted, pairs.references
        lefts, rights = [], []
        for threshold in thresholds:
            overlapping = np.flatnonzero(pairs.iou >= threshold)
            is_unmatched = np.ones(len(predicted.owners), dtype=np.bool_)
            is_unmatched[pairs.left[overlapping]] = False
            is_unmatched &= pairs.has_references[predicted.owners]
            # The text that nobody writes follows the references, so its index is their number.
            unmatched_index = np.full(int(is_unmatched.sum()), len(references.texts))
            lefts.append(np.concatenate([pairs.left[overlapping], np.flatnonzero(is_unmatched)]))
            rights.append(np.concatenate([pairs.right[overlapping], unmatched_index]))
        distinct = TextPairs.of(
            predicted.texts, [*references.texts, unmatched], np.concatenate(lefts), np.concatenate(rights)
        )
        numbers = np.split(distinct.numbers, np.cumsum([len(one) for one in lefts])[:-1])
        pairings = [
            (threshold, predicted.owners[left], number)
            for threshold, left, number in zip(thresholds, lefts, numbers, strict=True)
        ]
        return cls(pairs, thresholds, distinct.captions, pairings, lefts)

    @property
    def items(self) -> int:
        """The number of videos."""
        return self.pairs.predicted.items

    @cached_property
    def table(self) -> TextTable:
        """The tokens of the distinct pairs."""
        return TextTable.of(self.texts, "ptb")

    def _get_rows(self, metric: CandidateMetric) -> Floats:
        """Return the statistics of each distinct pair, computed once."""

        def score() -> Floats:
            return np.asarray(metric.score_candidates(self.texts, Shared(None, "")).rows)

        return self.texts.once(("rows", str(metric)), score)

    def score_pairs(self, metric: CandidateMetric) -> Floats:
        """Return the value of each distinct pair by itself."""
        return metric.aggregate(self._get_rows(metric))

    def sums(self, metric: CandidateMetric) -> Floats:
        """Return the value of each video at each threshold, from statistics summed over its pairs; 0 without pairs."""
        rows, values = self._get_rows(metric), []
        for _, items, numbers in self.pairings:
            summed = sum_by(items, rows[numbers], self.items)
            present = np.bincount(items, minlength=self.items) > 0
            with np.errstate(invalid="ignore"):
                values.append(np.where(present, metric.aggregate(summed), 0.0))
        return np.array(values)

    def coverage(self, side: Literal["precision", "recall"]) -> Floats:
        """Return the share of events of each video that overlap the other side by more than each threshold.

        Of several files of references the best counts.
        """
        pairs = self.pairs
        values = np.zeros((len(self.thresholds), self.items))
        for file in np.unique(pairs.files).tolist():
            in_file = pairs.files == file
            for row, threshold in enumerate(self.thresholds):
                overlapping = np.flatnonzero((pairs.iou > threshold) & in_file[pairs.right])
                if side == "precision":
                    owners, total = pairs.predicted.owners[np.unique(pairs.left[overlapping])], pairs.predicted.counts
                else:
                    owners = pairs.references.owners[np.unique(pairs.right[overlapping])]
                    total = np.bincount(pairs.references.owners[in_file], minlength=self.items)
                share = np.bincount(owners, minlength=self.items) / np.maximum(total, 1)
                values[row] = np.maximum(values[row], share)
        return values

    def count_documents(self, n: int, numbers: Ints) -> Ints:
        """Return the number of these pairs whose reference has each n-gram."""
        rows, _, gram, _ = self._expand(n, self.table.references[numbers])
        return np.bincount(gram[rows], minlength=self.table.ngrams(n).size)

    def _expand(self, n: int, captions: Ints) -> tuple[Ints, Ints, Ints, Ints]:
        """Find the rows of these captions in the table of n-grams, one caption after the other.

        Return the indices of the rows, the position in ``captions`` of each row's caption, and the n-gram and count of
        every row of the whole table, into which the indices point.
        """
        gram, count, first, sizes = self.texts.once(("by caption", n), lambda: self._sort_by_caption(n))
        owners = np.repeat(np.arange(len(captions)), sizes[captions])
        return run_indices(first[captions], sizes[captions]), owners, gram, count

    def _sort_by_caption(self, n: int) -> tuple[Ints, Ints, Ints, Ints]:
        grams = self.table.ngrams(n)
        order = np.argsort(grams.caption, kind="stable")
        sizes = np.bincount(grams.caption, minlength=len(self.table.lengths))
        gram, count = grams.gram[order].astype(np.int64), grams.count[order].astype(np.int64)
        return gram, count, np.cumsum(sizes) - sizes, sizes

    def cider(self, frequencies: PairFrequencies | None, file: int | None) -> Floats:
        """Return CIDEr-D of each video at each threshold; document frequencies are counted over the pairs of a video.

        If ``frequencies`` are given, those of the pairs of all videos, they replace those of the video.
        """
        table, values = self.table, []
        bigrams = np.maximum(table.lengths - 1, 0)
        for threshold, items, numbers in self.pairings:
            prefix = _make_prefix(file, threshold)
            number = np.bincount(items, minlength=self.items)
            total = np.zeros(len(items))
            candidates, references = table.candidates[numbers], table.references[numbers]
            for n in range(1, ORDERS + 1):
                idf: _VideoIdf | _CommonIdf
                if frequencies is None:
                    idf = _VideoIdf(self, n, items, references, number)
                else:
                    idf = _CommonIdf(self, n, frequencies, prefix)
                total += self._compute_cosines(n, items, numbers, idf)
            total *= np.exp(-np.square(bigrams[candidates] - bigrams[references]) / (2 * SIGMA**2)) * 10 / ORDERS
            summed = np.bincount(items, weights=total, minlength=self.items)
            values.append(summed / np.maximum(number, 1))
        return np.array(values)

    def _compute_cosines(self, n: int, items: Ints, numbers: Ints, idf: _VideoIdf | _CommonIdf) -> Floats:
        """Compute the clipped cosine of the n-grams of each pair."""
        table = self.table
        norms = []
        for captions in (table.candidates[numbers], table.references[numbers]):
            rows, owners, gram, count = self._expand(n, captions)
            weights = count[rows] * idf.weigh(items[owners], gram[rows])
            norms.append(np.sqrt(np.bincount(owners, weights=np.square(weights), minlength=len(numbers))))
        gram, product, first, sizes = self.texts.once(("shared", n), lambda: self._find_shared(n))
        owners = np.repeat(np.arange(len(numbers)), sizes[numbers])
        rows = run_indices(first[numbers], sizes[numbers])
        squares = np.square(idf.weigh(items[owners], gram[rows])) * product[rows]
        dot = np.bincount(owners, weights=squares, minlength=len(numbers))
        product_of_norms = norms[0] * norms[1]
        result: Floats = np.divide(dot, product_of_norms, out=np.zeros(len(dot)), where=product_of_norms > 0)
        return result

    def _find_shared(self, n: int) -> tuple[Ints, Floats, Ints, Ints]:
        """Return the n-grams that both sentences of a pair have, with min(c, r) · r of their counts, sorted by pair.

        c is the count in the candidate and r that in the reference. Return also the first row and the number of rows of
        each pair.
        """
        grams = self.table.ngrams(n)
        # A pair has one reference, so each row of a candidate matches one row.
        rows, reference_rows, _ = grams.matches
        pair = self.table.item[grams.caption[rows]]
        order = np.argsort(pair, kind="stable")
        c, r = grams.count[rows].astype(np.float64), grams.count[reference_rows].astype(np.float64)
        sizes = np.bincount(pair, minlength=self.table.items)
        product = (np.minimum(c, r) * r)[order]
        return grams.gram[rows][order].astype(np.int64), product, np.cumsum(sizes) - sizes, sizes


class _VideoIdf:
    """Weights of n-grams, with document frequencies over the pairs of each video."""

    def __init__(self, corpus: PairCorpus, n: int, items: Ints, references: Ints, pairs: Ints) -> None:
        rows, owners, gram, _ = corpus._expand(n, references)
        self.size = max(corpus.table.ngrams(n).size, 1)
        self.keys, self.counts = np.unique(items[owners] * self.size + gram[rows], return_counts=True)
        self.logarithms = np.log(np.maximum(pairs, 1).astype(np.float64))

    def weigh(self, items: Ints, gram: Ints) -> Floats:
        """Return log N − log max(1, df) of n-grams of videos."""
        if not len(self.keys):
            return self.logarithms[items]
        keys = items * self.size + gram
        index = np.minimum(np.searchsorted(self.keys, keys), len(self.keys) - 1)
        frequency = np.where(self.keys[index] == keys, self.counts[index], 1)
        result: Floats = self.logarithms[items] - np.log(frequency)
        return result


class _CommonIdf:
    """Weights of n-grams, with document frequencies over the pairs of all videos."""

    def __init__(self, corpus: PairCorpus, n: int, frequencies: PairFrequencies, prefix: str) -> None:
        counts, table = frequencies.counts, corpus.table
        pairs = max(frequencies.pairs.get(prefix, 0), 1)
        df = [counts.get(f"{prefix}{table.ngram(n, gram)}", 0) for gram in range(table.ngrams(n).size)]
        self.weights = np.log(pairs) - np.log(np.maximum(df, 1))

    def weigh(self, items: Ints, gram: Ints) -> Floats:
        """Return log N − log max(1, df) of n-grams."""
        result: Floats = self.weights[gram]
        return result
