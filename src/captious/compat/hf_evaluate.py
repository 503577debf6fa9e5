"""Metrics of captious as an ``EvaluationModule`` of Hugging Face's ``evaluate``: add, add_batch, compute, combine.

::

    from captious.compat.hf_evaluate import load

    cider = load("cider(idf=coco-train)")
    cider.add_batch(predictions=captions, references=references)
    cider.compute()  # {"cider(idf=coco-train)": ...}

``evaluate.load`` fetches a script from the hub. `load` here makes the module from captious and needs no network. What
it returns can stand wherever a loaded module can, in ``evaluate.combine`` too.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product
from typing import Any

from captious import CaptionSet, evaluate
from captious.errors import require
from captious.evaluation import Specs
from captious.metrics.registry import DEFAULT, parse_all
from captious.options import Resampling

require("evaluate", "evaluate")
import evaluate as hugging_face  # noqa: E402
from datasets import Features, Value  # noqa: E402
from datasets import Sequence as ListOf  # noqa: E402

USAGE = """
Args:
    predictions: a caption per item, or a list of several.
    references: the references of each item, a list of texts or one text; where a metric needs them.
    images: the path of each item's image; where a metric needs it.
Returns:
    the corpus value of each metric by its written form.
"""


class Captious(hugging_face.Metric):  # type: ignore[misc]  # evaluate has no types
    """Any metrics of captious over the items that were added.

    Parameters
    ----------
    metrics
        Written forms, such as ``"bleu(n=4), cider(idf=coco)"``, or metrics.
    kwargs
        Those of ``evaluate.EvaluationModule``, such as ``num_process``, ``experiment_id`` or ``keep_in_memory``.

    >>> rouge = Captious("rouge", keep_in_memory=True)
    >>> values = rouge.compute(predictions=["a cat", "a dog runs"], references=[["a cat"], ["the dog runs", "a dog"]])
    >>> {name: round(value, 4) for name, value in values.items()}
    {'rouge': 0.915}
    """

    def __init__(self, metrics: Specs = DEFAULT, **kwargs: Any) -> None:
        self.metrics = tuple(parse_all(metrics))
        # Two modules at work need two folders for their files; evaluate takes the folder's name from this.
        written = "-".join(map(str, self.metrics))
        kwargs.setdefault("config_name", re.sub(r"[^\w.=-]+", "_", written)[:100].strip("_"))
        super().__init__(**kwargs)

    def _info(self) -> Any:
        needs = {need for metric in self.metrics for need in metric.needs}
        text, texts = Value("string"), ListOf(Value("string"))
        choices: dict[str, tuple[Any, ...]] = {"predictions": (text, texts)}
        if "references" in needs:
            choices["references"] = (texts, text)
        if "image" in needs:
            choices["images"] = (text,)
        return hugging_face.MetricInfo(
            description=f"captious: {', '.join(metric.label for metric in self.metrics)}",
            citation="\n".join(dict.fromkeys(metric.citation for metric in self.metrics if metric.citation)),
            inputs_description=USAGE,
            features=[Features(dict(zip(choices, kinds, strict=True))) for kinds in product(*choices.values())],
        )

    def _compute(
        self,
        predictions: Sequence[Any],
        references: Sequence[Any] | None = None,
        images: Sequence[str] | None = None,
    ) -> dict[str, float]:
        captions = CaptionSet.of(
            dict(enumerate(predictions)),
            None if references is None else dict(enumerate(references)),
            None if images is None else {"image": images},
            name="predictions",
        )
        report = evaluate(captions, self.metrics, Resampling(samples=0))
        return {str(measurement.metric): measurement.corpus for measurement in report}


def load(metrics: Specs = DEFAULT, **kwargs: Any) -> Captious:
    """The module of these metrics, as ``evaluate.load`` would give it.

    >>> sorted(load("bleu(n=4), cider").features[0])
    ['predictions', 'references']
    """
    return Captious(metrics, **kwargs)
