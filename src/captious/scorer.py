"""``captious.Scorer``: a value for each caption of a batch, for training loops. References are prepared once."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from captious._evaluate import Specs
from captious._typing import Floats, Ints
from captious.captions import CaptionSet, Ragged
from captious.errors import InputError
from captious.io.formats import name_of, rows_of
from captious.io.images import with_images
from captious.io.join import first_few, gather_references
from captious.metrics.contract import CandidateMetric, Metric, TokenMetric
from captious.metrics.measurement import Signature
from captious.metrics.registry import DEFAULT, parse_all
from captious.metrics.rows import TypeSets, missing_inputs
from captious.options import Reading, Runtime, current, using
from captious.runs.report import ByMetric
from captious.text.tables import TextTable


class Scorer:
    """Scores batches of captions against references that are prepared once.

    A caption's value is that of `captious.evaluate` on an item with this caption alone. Only ``cider(idf=refs)`` needs
    more than the item: its document frequencies are those of all references of the scorer, not of the batch.

    A call changes nothing, so threads can share a scorer. It pickles, so workers of a data loader can have one each.

    Parameters
    ----------
    metrics
        Written forms, such as ``"cider(idf=coco-train), bleu(n=4)"``, or metrics. Each must score a caption alone:
        metrics of several captions, such as ``mbleu``, are refused.
    references
        References by id: whatever ``captious.read`` reads.
    images
        Images by id, or their folder, for metrics that look at them. Without references, the ids are those of images.
    runtime
        Where and how models run.

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
        references: Any = None,
        images: Any = None,
        runtime: Runtime | None = None,
    ) -> None:
        self._runtime = runtime
        self._items = _items(references, images)
        self.metrics = parse_all(metrics, [self._items])
        for metric in self.metrics:
            _refuse_unfit(metric, self._items)
        with using(self._runtime or current()):
            self._states = {metric: metric.prepared(self._items) for metric in self.metrics}
        tokenizers = {metric.tokenizer for metric in self.metrics if isinstance(metric, TokenMetric)}
        # Copies leave the n-grams of all references behind, which only the document frequencies needed.
        self._tables = {name: replace(TextTable.of(self._items, name)) for name in tokenizers}
        self._items = replace(self._items)

    def __call__(self, ids: Sequence[Any], captions: Sequence[str] | Sequence[Sequence[str]]) -> ByMetric[Floats]:
        """The value of each caption by each metric.

        ``captions`` has one caption for each id, and an id may occur several times; or it has a list of captions for
        each id, all of the same length. The arrays have the shape of ``captions``. NaN marks a caption without a value,
        such as an empty one under a model that cannot read it.
        """
        positions, texts, shape = self._batch(ids, captions)
        if not texts:
            return ByMetric({metric: np.empty(shape) for metric in self.metrics})
        # The captions of an item stand together, so that its references are looked at once.
        order = np.argsort(positions, kind="stable")
        batch = self._captions(positions[order], [texts[index] for index in order.tolist()])
        scores = {}
        with using(self._runtime or current()):
            for metric, state in self._states.items():
                values = np.empty(len(texts))
                values[order] = _candidate_values(metric, batch, state)
                scores[metric] = values.reshape(shape)
        return ByMetric(scores)

    def __len__(self) -> int:
        return len(self._items)

    def __contains__(self, key: object) -> bool:
        return _id(key) in self._items

    def __repr__(self) -> str:
        metrics = ", ".join(map(str, self.metrics))
        return f"<Scorer {metrics}: {len(self)} items, {len(self._items.references.values)} references>"

    @property
    def signatures(self) -> dict[str, str]:
        """What moves the values of each metric, with the items and references of the scorer."""
        with using(self._runtime or current()):
            return {str(one): str(Signature.of(one, self._items, state, 0, {})) for one, state in self._states.items()}

    def _batch(self, ids: Sequence[Any], captions: Sequence[Any]) -> tuple[Ints, list[str], tuple[int, ...]]:
        """The item of each caption, the captions, and the shape of the result."""
        keys = [_id(key) for key in _listed(ids, "ids")]
        captions = _listed(captions, "captions")
        if len(keys) != len(captions):
            raise InputError(
                f"{len(captions)} captions for {len(keys)} ids, expected one caption, or one list of captions, per id"
            )
        if unknown := [key for key in dict.fromkeys(keys) if key not in self._items]:
            known = first_few(self._items.ids)
            raise InputError(f"{len(unknown)} ids ({first_few(unknown)}) are not in the scorer, which has {known}")
        shape: tuple[int, ...] = (len(captions),)
        if captions and not isinstance(captions[0], str):
            rows = [_listed(row, f"captions of id {key!r}") for key, row in zip(keys, captions, strict=True)]
            sizes = sorted(set(map(len, rows)))
            if len(sizes) > 1:
                raise InputError(
                    f"from {sizes[0]} to {sizes[-1]} captions per id, expected the same number of each; "
                    "or give one list of captions and repeat the ids"
                )
            shape = (len(rows), sizes[0])
            keys, captions = [key for key in keys for _ in range(sizes[0])], [text for row in rows for text in row]
        for key, text in zip(keys, captions, strict=True):
            if not isinstance(text, str):
                raise InputError(f"id {key!r}: a caption is of type {type(text).__name__}, expected a string")
        return np.array(self._items.positions(keys), dtype=np.int64), captions, shape

    def _captions(self, positions: Ints, texts: Sequence[str]) -> CaptionSet:
        """The batch as a set; the references are not tokenized again."""
        items, starts = np.unique(positions, return_index=True)
        candidates = Ragged(tuple(texts), np.append(starts, len(texts)))
        batch = replace(self._items.take(items.tolist()), candidates=candidates, name="batch")
        for name, table in self._tables.items():
            batch.once(("tokens", name), partial(table.with_candidates, candidates, items))
        return batch


def _candidate_values(metric: Metric, captions: CaptionSet, state: Any) -> Floats:
    """The value of each candidate as if it were the only one of its item, NaN where it has none."""
    if isinstance(metric, CandidateMetric):
        values = metric.aggregate(np.asarray(metric.score_candidates(captions, state).rows))
        missing = np.zeros(len(captions), dtype=np.bool_)
        missing[list(missing_inputs(captions, metric.needs))] = True
        return np.where(missing[captions.candidates.owners], np.nan, values)
    alone = captions.once("candidates alone", captions.candidates_alone)
    scored = metric.score(alone, state)
    values = metric.aggregate(scored.rows.counts if isinstance(scored.rows, TypeSets) else scored.rows)
    values[list(scored.reasons)] = np.nan
    return values


def _items(references: Any, images: Any) -> CaptionSet:
    """Items without captions, by the ids of the references, or of the images where there are none."""
    if references is None:
        if not isinstance(images, Mapping):
            raise InputError("no references, expected references by id, or images by id for metrics that need no more")
        keys = [_id(key) for key in images]
        nothing = Ragged.of([()] * len(keys))
        return CaptionSet(tuple(keys), nothing, nothing, {"image": tuple(images.values())}, name="images")
    if isinstance(references, CaptionSet):
        items = replace(references, candidates=Ragged.of([()] * len(references)))
    else:
        gathered = gather_references(rows_of(references), Reading())
        keys = list(gathered.references)
        names = dict.fromkeys(name for key in keys for name in gathered.fields.get(key, {}))
        items = CaptionSet(
            ids=tuple(keys),
            candidates=Ragged.of([()] * len(keys)),
            references=Ragged.of(gathered.references.values()),
            columns={name: tuple(gathered.fields.get(key, {}).get(name) for key in keys) for name in names},
            name=name_of(references),
        )
    if not len(items):
        raise InputError(f"{items.name}: holds no references")
    return items if images is None else with_images(items, images)


def _refuse_unfit(metric: Metric, items: CaptionSet) -> None:
    """Refuse a metric that cannot score one caption, or that lacks what it needs of every item."""
    if "several candidates" in metric.needs:
        raise InputError(f"{metric} compares several captions of an item, expected metrics that score a caption alone")
    if "references" in metric.needs and not items.references.values:
        raise InputError(f"{metric} needs references{metric.hint('no references')}")
    if "image" in metric.needs and not any(items.images):
        raise InputError(f"{metric} needs images{metric.hint('no image')}")


def _listed(values: Any, what: str) -> list[Any]:
    """A list of what may be an array or a tensor."""
    if isinstance(values, str) or not hasattr(values, "__iter__"):
        raise InputError(f"{what} are {values!r}, expected a list")
    return list(values.tolist() if hasattr(values, "tolist") else values)


def _id(key: Any) -> str:
    """An id as a string; of a tensor or an array of one element, that element."""
    return str(key.item() if hasattr(key, "item") else key)
