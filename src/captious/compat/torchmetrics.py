"""Metrics of captious as a ``torchmetrics.Metric``: update, compute, reset, several processes, MetricCollection.

::

    from captious.compat.torchmetrics import CaptionMetric

    metric = CaptionMetric("bleu(n=4), cider(idf=coco-train)")
    metric.update(preds, target)  # in the validation loop
    metric.compute()              # {"bleu(n=4)": tensor(...), "cider(idf=coco-train)": tensor(...)}

The state is text, and the bytes of images that are given as pixels. A metric such as CIDEr with ``idf=refs`` depends
on the whole corpus, so the scores of batches cannot be averaged. Each sample becomes a line of JSON, and the state is
a list of ``uint8`` tensors, the bytes of such lines. torchmetrics gathers such a state by itself
(``dist_reduce_fx="cat"``): the lines of all processes, one after the other, are again lines. They travel over NCCL and
gloo, move with ``.to(device)``, and merge by ``merge_state``. Every process then scores the same whole set, so the
values equal those of one process that saw all samples.
"""

from __future__ import annotations

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Iterable, Sequence
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np

from captious import CaptionSet, InputError, Report, evaluate
from captious.captions import ImageData, ImageSource
from captious.errors import require
from captious.io.images import match_images
from captious.metrics.registry import DEFAULT, parse_all
from captious.metrics.requests import Specs
from captious.options import Resampling
from captious.scorer import warn_of_language

require("torchmetrics", "torchmetrics")
import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torchmetrics import Metric  # noqa: E402

Texts = str | Sequence[str]


class CaptionMetric(Metric):
    """Any metrics of captious over the samples of a loop.

    Parameters
    ----------
    metrics
        Written forms, such as ``"bleu(n=4), cider(idf=coco)"``, or metrics.
    language
        The code of the captions' language, such as ``zh``, as in `captious.evaluate`.
    kwargs
        Those of ``torchmetrics.Metric``, such as ``compute_on_cpu`` or ``process_group``.

    >>> metric = CaptionMetric("rouge")
    >>> metric
    CaptionMetric('rouge')
    >>> metric.update(["a cat", "a dog runs"], [["a cat"], ["the dog runs", "a dog"]])
    >>> metric.compute()
    tensor(0.9150)
    """

    is_differentiable = False
    full_state_update = False
    if TYPE_CHECKING:  # torch.jit.script cannot read such an annotation
        samples: list[Tensor] | Tensor

    def __init__(self, metrics: Specs = DEFAULT, language: str | None = None, **kwargs: Any) -> None:
        super().__init__(**kwargs)
        self.metrics, self.language = tuple(parse_all(metrics)), language
        self.add_state("samples", default=[], dist_reduce_fx="cat")

    @property
    def higher_is_better(self) -> bool | None:  # type: ignore[override]  # a class attribute there
        """Whether all metrics are better when higher, or all when lower; None if they differ."""
        directions = {metric.higher_is_better for metric in self.metrics}
        return directions.pop() if len(directions) == 1 else None

    @property
    def plot_lower_bound(self) -> float | None:  # type: ignore[override]  # a class attribute there, as the next
        """The lowest value, if it is the same for all metrics."""
        return self._get_shared_bound(0)

    @property
    def plot_upper_bound(self) -> float | None:  # type: ignore[override]
        """The highest value, if it is the same for all metrics and finite."""
        return self._get_shared_bound(1)

    def _get_shared_bound(self, side: int) -> float | None:
        bounds = {metric.range[side] for metric in self.metrics}
        return bounds.pop() if len(bounds) == 1 and np.isfinite(next(iter(bounds))) else None

    def __repr__(self) -> str:
        language = f", language={self.language!r}" if self.language else ""
        return f"{type(self).__name__}({', '.join(map(str, self.metrics))!r}{language})"

    def update(
        self,
        preds: str | Sequence[Texts],
        target: str | Sequence[Texts] | None = None,
        ids: Iterable[Any] | None = None,
        images: Any = None,
    ) -> None:
        """Add samples to the state.

        Parameters
        ----------
        preds
            A caption per sample, or a list of several.
        target
            The references of each sample: a list of texts, or one text.
        ids
            The id of each sample, as a list or a tensor. Of several samples with one id the first counts: those that a
            ``DistributedSampler`` repeats to fill the last batch count once.
        images
            The image of each sample, for metrics that need it, as ``captious.evaluate`` takes it: a list of paths, PIL
            images, arrays or tensors of pixels, or a batch of them in one tensor. Pixels become part of the state, as
            the bytes of a PNG file; a path stays a path.
        """
        candidates = [preds] if isinstance(preds, str) else list(preds)
        references = [target] if isinstance(target, str) else [()] * len(candidates) if target is None else target
        keys = ids.tolist() if isinstance(ids, Tensor) else ids
        missing = [None] * len(candidates)
        columns: list[list[Any]] = [
            [_convert_texts("preds", index, texts) for index, texts in enumerate(candidates)],
            [_convert_texts("target", index, texts) for index, texts in enumerate(references)],
            missing if keys is None else list(map(str, keys)),
        ]
        for name, column in zip(("target", "ids"), columns[1:], strict=True):
            if len(column) != len(candidates):
                raise InputError(f"{name} has {len(column)} entries, expected {len(candidates)}: one for each of preds")
        names = [str(index) if key is None else key for index, key in enumerate(columns[2])]
        columns.append(missing if images is None else list(map(_encode_image, match_images(images, names))))
        # A sample is a list: candidates, references, id, image.
        lines = "".join(f"{json.dumps(sample)}\n" for sample in zip(*columns, strict=True))
        assert isinstance(self.samples, list)
        self.samples.append(torch.from_numpy(np.frombuffer(bytearray(lines.encode()), np.uint8)).to(self.device))

    def compute(self) -> Tensor | dict[str, Tensor]:
        """Return the corpus value: a tensor for one metric, a dictionary by metric for several; NaN without samples."""
        values = {str(metric): float("nan") for metric in self.metrics}
        if len(captions := self.captions()):
            report = evaluate(captions, self.metrics, resampling=Resampling(samples=0), language=self.language)
            warn_of_language(self.metrics, report.captions)
            values = {str(measurement.metric): measurement.corpus for measurement in report}
        tensors = {name: torch.tensor(value, device=self.device) for name, value in values.items()}
        return tensors if len(tensors) > 1 else next(iter(tensors.values()))

    def plot(self, val: Any = None, ax: Any = None) -> Any:
        """Draw values with matplotlib, like other metrics of torchmetrics, and return the figure and its axes.

        Parameters
        ----------
        val
            What ``compute`` or ``forward`` returned, or a list of it, which is drawn as steps. Without it, ``compute``
            is called.
        ax
            Axes to draw into.
        """
        require("matplotlib", "plot")
        axes: Any
        figure, axes = self._plot(val, ax)
        axes.set_ylabel(str(self.metrics[0]) if len(self.metrics) == 1 else "")
        return figure, axes

    def report(self, resampling: Resampling = Resampling()) -> Report:
        """Return a report on the samples of this process: intervals, values per item, the worst captions."""
        return evaluate(self.captions(), self.metrics, resampling=resampling, language=self.language)

    def captions(self) -> CaptionSet:
        """Return the samples of this process; inside ``sync_context``, those of all processes."""
        state = self.samples if isinstance(self.samples, list) else [self.samples]
        # ``set_dtype`` turns all states into floats, which represent a byte exactly.
        lines = b"".join(part.to("cpu", torch.uint8).numpy().tobytes() for part in state).decode()
        samples: dict[Any, list[Any]] = {}
        for index, line in enumerate(lines.splitlines()):
            sample = json.loads(line)
            # The first of several samples with one id counts; a sample without an id is never a repetition.
            samples.setdefault(index if sample[2] is None else sample[2], sample)
        ids = [f"#{key}" if isinstance(key, int) else key for key in samples]
        candidates, references, _, stored = zip(*samples.values(), strict=True) if samples else ((),) * 4
        images = [_decode_image(image, key) for image, key in zip(stored, ids, strict=True)]
        return CaptionSet.of(
            dict(zip(ids, candidates, strict=True)),
            dict(zip(ids, references, strict=True)),
            {"image": images} if any(images) else None,
            name="samples",
        )

    def sync(
        self,
        dist_sync_fn: Callable[..., Any] | None = None,
        process_group: Any = None,
        should_sync: bool = True,
        distributed_available: Callable[..., Any] | None = None,
    ) -> None:
        """Gather the samples of all processes."""
        if isinstance(self.samples, list):
            # A process without samples sends no bytes, where torchmetrics would send floats. ``compute_on_cpu`` keeps
            # the state where NCCL cannot gather it.
            empty = torch.zeros(0, dtype=torch.uint8)
            self.samples = [part.to(self.device) for part in self.samples or [empty]]
        super().sync(dist_sync_fn, process_group, should_sync, distributed_available)


def _convert_texts(name: str, index: int, texts: Any) -> list[str]:
    # As in torchmetrics, an empty list of words is an empty text: preds = [[]], target = [[[]]].
    listed = [texts] if isinstance(texts, str) or (name == "preds" and texts == []) else texts
    if isinstance(listed, (list, tuple)):
        listed = ["" if text == [] else text for text in listed]
    if isinstance(listed, (list, tuple)) and all(isinstance(text, str) for text in listed):
        return list(listed)
    raise InputError(f"{name}[{index}] is {texts!r:.60}, expected a text or a list of texts")


# Modes of images that a PNG file keeps as they are.
_PNG = ("1", "L", "LA", "P", "RGB", "RGBA")


def _encode_image(image: ImageSource | None) -> str | dict[str, str] | None:
    """Convert an image for the state: its path, or its file content in base64."""
    if image is None or isinstance(image, str):
        return image
    content = image.value
    if not isinstance(content, bytes):
        try:
            picture, file = image.picture(), BytesIO()
        except InputError as error:
            raise InputError(f"images: {image} {error}") from None
        picture.save(file, "PNG" if picture.mode in _PNG else "TIFF", exif=picture.getexif())
        content = file.getvalue()
    return {"bytes": b64encode(content).decode()}


def _decode_image(image: str | dict[str, str] | None, key: str) -> ImageSource | None:
    return ImageData(b64decode(image["bytes"]), f"image of {key}") if isinstance(image, dict) else image
