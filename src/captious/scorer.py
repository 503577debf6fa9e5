"""``captious.Scorer``: a value for each caption of a batch, for training loops. References are prepared once."""

from __future__ import annotations

import os
import warnings
from collections.abc import Collection, Mapping, Sequence
from copy import copy
from dataclasses import replace
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from captious._core.types import Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.io.columns import OBJECT_COLUMN
from captious.io.formats import get_name, read_rows
from captious.io.images import add_images, index_images
from captious.io.join import format_first, gather_references, set_language
from captious.metrics.contract import CandidateMetric, Metric, Need, Shared, TokenMetric, refuse_batches
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.registry import DEFAULT, parse_all
from captious.metrics.requests import Specs
from captious.metrics.statistic_rows import TypeSets, find_missing_inputs
from captious.options import Reading, Runtime, get_runtime, using
from captious.runs.report import ByMetric
from captious.text.ngram_tables import TextTable, make_table_key, mark_changes


class CaptionValues(NamedTuple):
    """The value of each caption of a batch by one metric."""

    values: Floats
    """NaN if ``reasons`` has an entry."""
    reasons: Mapping[int, str]
    """The reason for each missing value, by the index of the caption."""


class Scorer:
    """Scores batches of captions against references that are prepared once.

    A caption's value is that of `captious.evaluate` on an item with only this caption. Only ``cider(idf=refs)`` needs
    more than the item: its document frequencies are those of all references of the scorer, not of the batch.

    A call changes nothing, so threads can share a scorer. It pickles, so workers of a data loader can have one each;
    models are left out of the pickle, and each process loads its own once.

    Parameters
    ----------
    metrics
        Written forms, such as ``"cider(idf=coco-train), bleu(n=4)"``, or metrics. Each must score single captions:
        metrics of several captions, such as ``mbleu``, are refused.
    references
        References by id: whatever ``captious.read`` reads.
    images
        Images by id, or their folder, for metrics that look at them. Without references, the ids are those of images.
    runtime
        Where and how models run.
    language
        The code of the captions' language, such as ``zh``, as in `captious.evaluate`.
    later
        Inputs that the items do not have yet and get by ``with_items``: ``references``, ``image`` or ``objects``.

    >>> references = {"7": ["a dog runs", "the dog is running"], "9": ["two cats"]}
    >>> scorer = Scorer("bleu(n=1), rouge", references=references)
    >>> scores = scorer(["7", "7", "9"], ["a dog runs", "a cat runs", "two cats"])
    >>> scores["bleu"].round(4).tolist(), scores["ROUGE-L"].round(4).tolist()
    ([1.0, 0.6667, 1.0], [1.0, 0.6667, 1.0])

    Several captions of each id, as samples of a captioner, give an array with a row per id:

    >>> scorer([7, 9], [["a dog", "dogs"], ["a cat", "two cats"]])["rouge"].shape
    (2, 2)
    """

    def __init__(
        self,
        metrics: Specs = DEFAULT,
        *,
        references: Any = None,
        images: Any = None,
        runtime: Runtime | None = None,
        language: str | None = None,
        later: Collection[Need] = (),
    ) -> None:
        self._runtime = runtime
        self._items = set_language(_make_items(references, images), language)
        self.metrics = parse_all(metrics, [self._items])
        for metric in self.metrics:
            _refuse_unfit(metric, self._items, later)
        warn_of_language(self.metrics, self._items)
        with using(self._runtime or get_runtime()):
            self._states = {metric: metric.prepared(self._items) for metric in self.metrics}
        self._read_references()

    def _read_references(self) -> None:
        """Tokenize the references; copies leave their n-grams behind, which only document frequencies needed."""
        tokenizers = {one.tokenizer_name(self._items) for one in self.metrics if isinstance(one, TokenMetric)}
        self._tables = {name: replace(TextTable.of(self._items, name)) for name in tokenizers}
        self._items = replace(self._items)

    def with_items(self, items: CaptionSet) -> Scorer:
        """Return a scorer of other items with the same metrics, models and document frequencies."""
        other = copy(self)
        other._items = items
        other._read_references()
        return other

    def __getstate__(self) -> dict[str, Any]:
        """Return everything but models and other shared states, which `_get_state` loads again."""
        kept = {metric: state for metric, state in self._states.items() if not isinstance(state, Shared)}
        return {**vars(self), "_states": kept}

    def __copy__(self) -> Scorer:
        other = object.__new__(type(self))
        vars(other).update(vars(self))
        return other

    def _get_state(self, metric: Metric) -> Any:
        """Return the prepared state of a metric; after unpickling, it is prepared on first use."""
        if metric not in self._states:
            self._states[metric] = metric.prepared(self._items)
        return self._states[metric]

    def __call__(self, ids: Sequence[Any], captions: Sequence[str] | Sequence[Sequence[str]]) -> ByMetric[Floats]:
        """Return the value of each caption by each metric.

        ``captions`` has one caption for each id, and an id may occur several times; or it has a list of captions for
        each id, all of the same length. The arrays have the shape of ``captions``. NaN marks a caption without a value,
        such as an empty one under a model that cannot read it.
        """
        positions, texts, shape = self._parse_batch(ids, captions)
        scores = self._score(positions, texts, self.metrics)
        return ByMetric({metric: one.values.reshape(shape) for metric, one in scores.items()})

    def explain_values(
        self, ids: Sequence[Any], captions: Sequence[str], metrics: Sequence[Metric] | None = None
    ) -> ByMetric[CaptionValues]:
        """Return the values for one caption of each id, with the reason of each missing value.

        >>> scorer = Scorer("div_n(n=3, strict=yes)", references={"7": ["a dog runs"]})
        >>> scorer.explain_values(["7", "7"], ["the dog runs", "a dog"])["div_n"].reasons
        {1: 'fewer than 3 tokens'}
        """
        positions, texts, _ = self._parse_batch(ids, captions)
        return self.explain_values_at(positions, texts, self.metrics if metrics is None else metrics)

    def explain_values_at(
        self, positions: Ints, captions: Sequence[str], metrics: Sequence[Metric]
    ) -> ByMetric[CaptionValues]:
        """Return the same for items by their indices, as `positions` returns them; nothing is checked again."""
        return ByMetric(self._score(positions, captions, metrics))

    def positions(self, ids: Sequence[str]) -> Ints:
        """Return the index of each id among the items; -1 for an unknown id."""
        return self._items.find_positions(ids)

    def measure_captions(
        self, ids: Sequence[Any], captions: Sequence[str], names: Sequence[str], columns: Mapping[str, Sequence[Any]]
    ) -> tuple[CaptionSet, dict[str, Measurement]]:
        """Return the captions as a separate set, one item each, and the measurement of each metric."""
        positions, texts, _ = self._parse_batch(ids, captions)
        items = [self._items.item(index) for index in positions.tolist()]
        fields = {name: [values[index] for index in positions.tolist()] for name, values in self._items.columns.items()}
        batch = CaptionSet(
            tuple(names),
            Ragged.of([[text] for text in texts]),
            Ragged.of([item.references for item in items]),
            {name: tuple(values) for name, values in {**fields, **columns}.items()},
            name=self._items.name,
            language=self._items.language,
        )
        batch.keep("item ids", tuple(item.id for item in items))
        with using(self._runtime or get_runtime()):
            states = {metric: self._get_state(metric) for metric in self.metrics}
            return batch, {str(one): one.measurement(batch, of, one.score_set(batch, of)) for one, of in states.items()}

    def _score(self, positions: Ints, texts: Sequence[str], metrics: Sequence[Metric]) -> dict[Metric, CaptionValues]:
        """Return values and reasons in the order of the texts."""
        if not texts:
            return {metric: CaptionValues(np.empty(0), {}) for metric in metrics}
        # Sort by item, so that the references of an item are processed once for all its captions.
        order = np.argsort(positions, kind="stable")
        batch = self._make_captions(positions[order], [texts[index] for index in order.tolist()])
        scores = {}
        with using(self._runtime or get_runtime()):
            for metric in metrics:
                sorted_values, reasons = _score_candidates(metric, batch, self._get_state(metric))
                values = np.empty(len(texts))
                values[order] = sorted_values
                scores[metric] = CaptionValues(values, {int(order[index]): why for index, why in reasons.items()})
        return scores

    @property
    def ids(self) -> tuple[str, ...]:
        """The ids of its items."""
        return self._items.ids

    def take(self, ids: Sequence[Any]) -> CaptionSet:
        """Return some of the items, without captions."""
        return self._items.take(self._items.positions(map(_format_id, ids)))

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return _format_id(key) in self._items

    def __repr__(self) -> str:
        metrics = ", ".join(map(str, self.metrics))
        return f"<Scorer {metrics}: {len(self)} items, {len(self._items.references.values)} references>"

    @property
    def signatures(self) -> dict[str, str]:
        """The signature of each metric, with the items and references of the scorer."""
        with using(self._runtime or get_runtime()):
            states = {metric: self._get_state(metric) for metric in self.metrics}
            return {str(one): str(Signature.of(one, self._items, state, 0, {})) for one, state in states.items()}

    def _parse_batch(self, ids: Sequence[Any], captions: Sequence[Any]) -> tuple[Ints, list[str], tuple[int, ...]]:
        """Return the index of the item of each caption, the captions, and the shape of the result."""
        keys = _convert_to_list(ids, "ids")
        keys = keys if {str}.issuperset(map(type, keys)) else list(map(_format_id, keys))
        captions = _convert_to_list(captions, "captions")
        if len(keys) != len(captions):
            raise InputError(
                f"{len(captions)} captions for {len(keys)} ids, expected one caption, or one list of captions, per id"
            )
        positions = self._items.find_positions(keys)
        if positions.min(initial=0) < 0:
            unknown, known = (
                [key for key in dict.fromkeys(keys) if key not in self._items],
                format_first(self._items.ids),
            )
            raise InputError(f"{len(unknown)} ids ({format_first(unknown)}) are not in the scorer, which has {known}")
        shape: tuple[int, ...] = (len(captions),)
        if captions and not isinstance(captions[0], str):
            rows = captions
            if not {list, tuple}.issuperset(map(type, captions)):
                rows = [
                    _convert_to_list(row, f"captions of id {key!r}") for key, row in zip(keys, captions, strict=True)
                ]
            sizes = sorted(set(map(len, rows)))
            if len(sizes) > 1:
                raise InputError(
                    f"from {sizes[0]} to {sizes[-1]} captions per id, expected the same number of each; "
                    "or give one list of captions and repeat the ids"
                )
            shape = (len(rows), sizes[0])
            positions, captions = np.repeat(positions, sizes[0]), list(chain.from_iterable(rows))
        if set(map(type, captions)) - {str}:
            for index, text in zip(positions.tolist(), captions, strict=True):
                if not isinstance(text, str):
                    key = self._items.ids[index]
                    raise InputError(f"id {key!r}: a caption is of type {type(text).__name__}, expected a string")
        return positions, captions, shape

    def _make_captions(self, positions: Ints, texts: Sequence[str]) -> CaptionSet:
        """Return the batch as a set, from ascending positions; the references are not tokenized again."""
        starts = mark_changes(positions).nonzero()[0]
        items = positions.take(starts)
        candidates = Ragged(tuple(texts), np.append(starts, len(texts)))
        indices = items.tolist()
        batch = replace(
            self._items,
            ids=tuple([self._items.ids[index] for index in indices]),
            candidates=candidates,
            references=self._items.references.take(indices),
            columns={name: tuple([column[index] for index in indices]) for name, column in self._items.columns.items()},
            name="batch",
        )
        for name, table in self._tables.items():
            batch.once(make_table_key(name), partial(table.with_candidates, candidates, items))
        return batch


def warn_of_language(metrics: Sequence[Metric], captions: CaptionSet) -> None:
    """Emit a Python warning for captions in a language that metrics do not support."""
    for line in dict.fromkeys(line for metric in metrics for line in metric.text_warnings(captions)):
        warnings.warn(f"captious: {line}", RuntimeWarning, stacklevel=3)


def _score_candidates(metric: Metric, captions: CaptionSet, state: Any) -> tuple[Floats, Mapping[int, str]]:
    """Return the value of each candidate as if it were the only one of its item, and the reason of each NaN."""
    if isinstance(metric, CandidateMetric):
        values = metric.aggregate(np.asarray(metric.score_candidates(captions, state).rows))
        reasons = {}
        if missing := find_missing_inputs(captions, metric.needs, metric.reads_videos):
            owners = captions.candidates.owners.tolist()
            reasons = {index: missing[owner] for index, owner in enumerate(owners) if owner in missing}
        for index in np.flatnonzero(np.isnan(values)).tolist():
            reasons.setdefault(index, metric.undefined_reason)
    else:
        alone = captions.once("candidates alone", captions.split_candidates)
        scored = metric.score_set(alone, state)
        values = metric.aggregate(scored.rows.counts if isinstance(scored.rows, TypeSets) else scored.rows)
        reasons = dict(scored.reasons)
    if reasons:
        values = values.copy()
        values[list(reasons)] = np.nan
    return values, reasons


def _make_items(references: Any, images: Any) -> CaptionSet:
    """Return items without captions, by the ids of the references, or of the images if there are no references."""
    if references is None:
        if isinstance(images, (str, os.PathLike)):
            images = index_images(Path(images))
        if not isinstance(images, Mapping):
            raise InputError(
                "no references, expected them by id; or images for metrics that need no more, by id or a folder"
            )
        keys = [_format_id(key) for key in images]
        nothing = Ragged.of([()] * len(keys))
        return CaptionSet(tuple(keys), nothing, nothing, {"image": tuple(images.values())}, name="images")
    if isinstance(references, CaptionSet):
        items = replace(references, candidates=Ragged.of([()] * len(references)))
    else:
        gathered = gather_references(read_rows(references), Reading())
        keys = list(gathered.references)
        names = dict.fromkeys(name for key in keys for name in gathered.fields.get(key, {}))
        items = CaptionSet(
            ids=tuple(keys),
            candidates=Ragged.of([()] * len(keys)),
            references=Ragged.of(gathered.references.values()),
            columns={name: tuple(gathered.fields.get(key, {}).get(name) for key in keys) for name in names},
            name=get_name(references),
        )
    if not len(items):
        raise InputError(f"{items.name}: contains no references")
    return items if images is None else add_images(items, images)


def _refuse_unfit(metric: Metric, items: CaptionSet, later: Collection[Need]) -> None:
    """Raise InputError for a metric that cannot score one caption, or whose inputs are missing for every item."""
    if "several candidates" in metric.needs:
        raise InputError(f"{metric} compares several captions of an item, expected metrics that score one caption")
    if "events" in metric.needs:
        raise InputError(
            f"{metric} scores all events of a video together, and a scorer scores single captions; use "
            "captious.evaluate, or a metric of texts such as meteor"
        )
    refuse_batches(metric, "a scorer")
    if "references" in metric.needs and "references" not in later and not items.references.values:
        raise InputError(f"{metric} needs references{metric.hint('no references')}")
    if "image" in metric.needs and "image" not in later and not any(items.images):
        raise InputError(f"{metric} needs images{metric.hint('no image')}")
    if "objects" in metric.needs and "objects" not in later and not has_column(items, OBJECT_COLUMN):
        raise InputError(f"{metric} needs objects{metric.hint('no objects')}")


def has_column(items: CaptionSet, name: str) -> bool:
    """Return True if a column has a value for at least one item."""
    return any(value is not None for value in items.columns.get(name, ()))


def _convert_to_list(values: Any, what: str) -> list[Any]:
    """Return a list from a sequence, an array or a tensor."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"{what} are {values!r}, expected a list")
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _format_id(key: Any) -> str:
    """Return an id as a string; a tensor or array of one element is unwrapped."""
    return str(key.item() if hasattr(key, "item") else key)
