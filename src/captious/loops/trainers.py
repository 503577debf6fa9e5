"""Metrics of captious in a Hugging Face trainer: during evaluation, for its logs and for the best checkpoint.

::

    from captious.compat.transformers import CaptionCallback, CaptionMetrics

    metrics = CaptionMetrics("cider, rouge", tokenizer, references=references)
    trainer = Seq2SeqTrainer(..., compute_metrics=metrics)  # an encoder-decoder that generates while it evaluates

    trainer.add_callback(CaptionCallback(trainer, generate, data, "cider"))  # any other model

Values are logged as ``eval_captious/cider`` with ``eval_captious/cider_low`` and ``_high``, the ends of the interval.
``TrainingArguments(metric_for_best_model="captious/cider")`` selects the best checkpoint by them.
"""

from __future__ import annotations

import re
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import cycle
from typing import Any, NamedTuple

import numpy as np

from captious._core.types import Ints
from captious._evaluate import evaluate
from captious.errors import InputError, require
from captious.io.formats import read_rows
from captious.io.join import gather_references
from captious.metrics.registry import DEFAULT
from captious.metrics.requests import Specs, check_specs
from captious.options import Resampling
from captious.runs.report import Report

require("transformers", "transformers")
from transformers import TrainerCallback  # noqa: E402

# The token id that pads labels and gathered predictions, and that no tokenizer knows.
IGNORED = -100
PREFIX = "eval"
# A function of the model and some examples that gives a caption for each.
Generate = Callable[[Any, Sequence[Any]], Sequence[str]]


class CaptionMetrics:
    """The ``compute_metrics`` of a ``Seq2SeqTrainer`` with ``predict_with_generate=True``.

    Captions, references and images belong together by position, in the order of the evaluation data. Other lengths are
    refused, and so are labels that show another order, or that the captions repeat: a model without an encoder for its
    input, such as most chat models, is given the answer and repeats it. `CaptionCallback` is for those.

    ``report`` is the report of the last evaluation: ``metrics.report.worst(10)``, ``metrics.report.log(run)``.

    Parameters
    ----------
    metrics
        Written forms, such as ``"bleu(n=4), cider(idf=coco)"``, or metrics.
    tokenizer
        The tokenizer, or a processor that has one: it turns token ids into captions.
    references
        The references of each example, as a list in the order of the evaluation data. Without it, the labels are the
        references, one each.
    images
        The image of each example in the same order, for metrics that look at it.
    resampling
        How the bootstrap makes the intervals; ``Resampling(samples=0)`` leaves them out.
    """

    def __init__(
        self,
        metrics: Specs = DEFAULT,
        tokenizer: Any = None,
        references: Sequence[Any] | None = None,
        images: Sequence[Any] | None = None,
        resampling: Resampling = Resampling(),
    ) -> None:
        self.metrics = check_specs(metrics)
        self.tokenizer = getattr(tokenizer, "tokenizer", tokenizer)
        if not hasattr(self.tokenizer, "batch_decode"):
            kind = type(tokenizer).__name__
            raise InputError(f"tokenizer: {kind}, expected the tokenizer that decodes the captions, or its processor")
        if isinstance(references, (str, Mapping)):
            kind = type(references).__name__
            raise InputError(f"references: {kind}, expected a list with an entry for each example, in their order")
        self.references = None if references is None else list(references)
        self.images = images
        self.resampling = resampling
        self.report: Report | None = None

    def __call__(self, prediction: Any) -> dict[str, float]:
        """Return the values of an evaluation, by the names under which a trainer logs them."""
        captions = self._decode(prediction.predictions, "predictions")
        labels = None if prediction.label_ids is None else self._decode(prediction.label_ids, "label_ids")
        if labels is None and self.references is None:
            raise InputError("references: none, and the examples have no labels; pass references=...")
        if _count_processes() > 1:
            number = _count_examples(captions, labels, None if self.references is None else len(self.references))
            captions, labels = captions[:number], None if labels is None else labels[:number]
        if labels is not None:
            _refuse_repeated_labels(captions, labels)
        references = labels if self.references is None else self.references
        assert references is not None
        if len(references) != len(captions):
            raise InputError(
                f"{len(captions):,} captions and {len(references):,} references, expected as many, in the same order"
            )
        if labels is not None and self.references is not None:
            _refuse_other_order(labels, self.references)
        self.report = evaluate(
            captions, self.metrics, resampling=self.resampling, references=references, images=self.images
        )
        return self.report.scalars()

    def _decode(self, ids: Any, what: str) -> list[str]:
        """Decode token ids to texts, without the padding."""
        array = np.asarray(ids[0] if isinstance(ids, tuple) else ids)
        if array.ndim != 2 or not np.issubdtype(array.dtype, np.integer):
            raise InputError(
                f"{what}: {array.dtype} of shape {array.shape}, expected token ids of shape (examples, tokens); pass "
                "predict_with_generate=True to the trainer's arguments"
            )
        texts = self.tokenizer.batch_decode(self._remove_padding(array), skip_special_tokens=True)
        return [text.strip() for text in texts]

    def _remove_padding(self, ids: Ints) -> list[list[int]]:
        return [row[row != IGNORED].tolist() for row in ids]


def _count_processes() -> int:
    """Return the number of training processes."""
    from torch import distributed

    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1


def _count_examples(captions: Sequence[str], labels: Sequence[str] | None, number: int | None) -> int:
    """Return the number of captions without the repetitions at the end, or ``number`` if it is known.

    All processes get batches of one size. The last batches are filled with the first examples again, and Seq2SeqTrainer
    does not remove these::

        examples     0 1 2 3 4        two processes with batches of 2
        captions     0 1 2 3 4 0 1 2  the last three are fillings
    """
    rows = list(zip(captions, labels or captions, strict=True))
    if number is None:
        # The end repeats the beginning: the longest repetition is taken for the filling.
        fillings = (size for size in range(len(rows) // 2, 0, -1) if rows[-size:] == rows[:size])
        return len(rows) - next(fillings, 0)
    # With a known number, captions beyond it are only cut off if their labels are those of the first examples.
    first_labels = cycle(labels[:number]) if labels else ()
    is_filling = labels is None or all(
        label == first for label, first in zip(labels[number:], first_labels, strict=False)
    )
    return number if number < len(rows) and is_filling else len(rows)


def _refuse_repeated_labels(captions: Sequence[str], labels: Sequence[str]) -> None:
    """Raise InputError if all captions repeat their label and some continue: the model received the answer as input.

    If all are equal to their label, only warn: a perfect model has the same result.
    """
    pairs = [(caption, label) for caption, label in zip(captions, labels, strict=False) if label]
    if len(pairs) < 2 or any(label not in caption for caption, label in pairs):
        return
    if any(caption != label for caption, label in pairs):
        raise InputError(
            f"all {len(pairs):,} captions repeat their label and go on, such as {pairs[0][0]!r:.80}: the model is "
            "given the answer in input_ids, as one without an encoder is; expected CaptionCallback for it"
        )
    warnings.warn(
        f"all {len(pairs):,} captions equal their label; is the answer part of the model's input_ids?", stacklevel=3
    )


def _refuse_other_order(labels: Sequence[str], references: Sequence[Any]) -> None:
    """Raise InputError if labels are references of other examples, as with a sampler that groups by length."""
    owners: dict[str, set[int]] = defaultdict(set)
    for index, texts in enumerate(references):
        for text in [texts] if isinstance(texts, str) else texts:
            owners[_normalize(str(text))].add(index)
    known = [(index, owners[_normalize(label)]) for index, label in enumerate(labels) if _normalize(label) in owners]
    misplaced = [index for index, indices in known if index not in indices]
    if len(misplaced) > len(known) / 2:
        index = misplaced[0]
        raise InputError(
            f"example {index + 1}: its label {labels[index]!r:.80} is a reference of another one, and so are those of "
            f"{len(misplaced) - 1:,} more; expected the references in the order of the evaluation data"
        )


def _normalize(text: str) -> str:
    return re.sub(r"\W+", " ", text.lower()).strip()


class CaptionCallback(TrainerCallback):  # type: ignore[misc]  # transformers is not read by the type checker
    """A callback that generates captions at every evaluation of a trainer, scores them, and logs the values.

    Each process generates a share of the captions, and the first one scores all of them. The values are logged, and
    they are among those that ``metric_for_best_model`` chooses from. ``report`` is the report of the last evaluation,
    on the first process.

    Parameters
    ----------
    trainer
        The trainer, to whose logs the values go: ``trainer.add_callback(CaptionCallback(trainer, ...))``.
    generate
        A function of the model and a list of examples that gives a caption for each. The model is in evaluation mode,
        and no gradients are kept.
    data
        The examples: a data set of Hugging Face, or a list of records. Ids, references and images come from the usual
        columns, as in ``captious.read``, unless ``references`` gives them.
    metrics
        Written forms, such as ``"cider, clipscore"``, or metrics.
    every
        Steps between generations, instead of at every evaluation: values are then logged but choose no checkpoint.
    batch
        Examples at a time; without it, as many as the trainer evaluates at a time.
    references, images
        In place of those of ``data``: a list with an entry for each example, in their order.
    resampling
        How the bootstrap makes the intervals.
    """

    def __init__(
        self,
        trainer: Any,
        generate: Generate,
        data: Any,
        metrics: Specs = DEFAULT,
        *,
        every: int | None = None,
        batch: int | None = None,
        references: Sequence[Any] | None = None,
        images: Sequence[Any] | None = None,
        resampling: Resampling = Resampling(),
    ) -> None:
        if every is not None and every < 1:
            raise InputError(f"every={every}, expected a number of steps of at least 1")
        if batch is not None and batch < 1:
            raise InputError(f"batch={batch}, expected a number of examples of at least 1")
        self.trainer, self.generate, self.data = trainer, generate, data
        self.metrics = check_specs(metrics)
        self.every, self.batch, self.resampling = every, batch, resampling
        self.ids, self.references, self.images = _collect_references(data, references, images)
        self.report: Report | None = None

    def on_evaluate(
        self, args: Any, state: Any, control: Any, model: Any = None, metrics: Any = None, **others: Any
    ) -> None:
        """Add the values to the metrics of the trainer's evaluation, which select the best checkpoint."""
        if self.every is None:
            values = self._compute_values(args, model)
            if metrics is not None:
                metrics.update(values)
            self.trainer.log(values)

    def on_step_end(self, args: Any, state: Any, control: Any, model: Any = None, **others: Any) -> None:
        """Log the values every ``every`` steps."""
        if self.every is not None and state.global_step % self.every == 0:
            self.trainer.log(self._compute_values(args, model))

    def _compute_values(self, args: Any, model: Any) -> dict[str, float]:
        """Compute the values of the captions that the model generates now, the same in all processes."""
        from accelerate.utils import broadcast_object_list, gather_object

        count, rank = max(1, args.world_size), args.process_index
        share = range(rank, len(self.ids), count)
        size = self.batch or args.per_device_eval_batch_size
        try:
            with _set_evaluation_mode(model):
                outcome = _Outcome(self._generate_captions(model, share, size))
        except Exception as error:  # the other processes wait for this one, and must learn of it
            if count == 1:
                raise
            outcome = _Outcome({}, f"{type(error).__name__}: {error}")
        outcomes = gather_object([outcome]) if count > 1 else [outcome]
        result = [self._score(outcomes) if rank == 0 else _Outcome({})]
        if count > 1:
            broadcast_object_list(result)
        if result[0].error:
            raise InputError(result[0].error)
        return {f"{PREFIX}_{name}": value for name, value in result[0].values.items()}

    def _generate_captions(self, model: Any, share: Sequence[int], size: int) -> dict[Any, Any]:
        """Generate the captions of some examples, by position."""
        captions: dict[Any, Any] = {}
        for first in range(0, len(share), size):
            indices = share[first : first + size]
            texts = list(self.generate(model, [self.data[index] for index in indices]))
            if len(texts) != len(indices):
                raise InputError(f"generate: {len(texts)} captions for {len(indices)} examples, expected one for each")
            if wrong := [type(text).__name__ for text in texts if not isinstance(text, str)]:
                raise InputError(f"generate: a caption is {wrong[0]}, expected text")
            captions |= dict(zip(indices, texts, strict=True))
        return captions

    def _score(self, outcomes: Sequence[_Outcome]) -> _Outcome:
        """Score all captions; return their values, or what went wrong."""
        if error := next((one.error for one in outcomes if one.error), ""):
            return _Outcome({}, error)
        by_position = {index: text for one in outcomes for index, text in one.values.items()}
        captions = {key: by_position[index] for index, key in enumerate(self.ids)}
        try:
            self.report = evaluate(
                captions, self.metrics, resampling=self.resampling, references=self.references, images=self.images
            )
        except Exception as error:
            if len(outcomes) == 1:
                raise
            return _Outcome({}, f"{type(error).__name__}: {error}")
        return _Outcome(self.report.scalars())


class _Outcome(NamedTuple):
    """The result of a process: captions by position or values by name, or an error message."""

    values: Mapping[Any, Any]
    error: str = ""


@contextmanager
def _set_evaluation_mode(model: Any) -> Iterator[None]:
    """Set the model to evaluation mode without gradients inside the block, then restore its mode."""
    import torch

    training = model.training
    model.eval()
    try:
        with torch.no_grad():
            yield
    finally:
        model.train(training)


def _collect_references(
    data: Any, references: Sequence[Any] | None, images: Sequence[Any] | None
) -> tuple[list[str], Mapping[str, Any], Mapping[str, Any] | None]:
    """Return ids, references and images of the examples, by position or from their columns."""
    number = len(data)
    if references is None:
        gathered = gather_references(read_rows(data, role="references"))
        ids, people = list(gathered.references), gathered.references
        if len(ids) != number:
            raise InputError(
                f"data: {number:,} examples with {len(ids):,} ids, expected an id for each; or pass references=[...]"
            )
        columns = gathered.fields
        stored = {key: columns.get(key, {}).get("image") for key in ids}
        pictures = {key: image for key, image in stored.items() if image is not None} or None
    else:
        ids, pictures = [str(index) for index in range(number)], None
        people = _index_by_id("references", references, ids)
    return ids, people, pictures if images is None else _index_by_id("images", images, ids)


def _index_by_id(name: str, values: Sequence[Any], ids: Sequence[str]) -> dict[str, Any]:
    if isinstance(values, (str, Mapping)) or len(values) != len(ids):
        found = f"{len(values):,} entries" if not isinstance(values, (str, Mapping)) else type(values).__name__
        raise InputError(f"{name}: {found}, expected a list with {len(ids):,}, one for each example")
    return dict(zip(ids, values, strict=True))
