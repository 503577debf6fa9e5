"""Metrics of captious as an ``EvaluationModule`` of Hugging Face's ``evaluate``: add, add_batch, compute, combine.

::

    from captious.compat.hf_evaluate import load

    cider = load("cider(idf=coco-train)")
    cider.add_batch(predictions=captions, references=references)
    cider.compute()  # {"cider(idf=coco-train)": ...}

``evaluate.load`` downloads a script from the hub; `load` of this module needs no network. Its result can be used like
any loaded module, also in ``evaluate.combine``.

The names ``bleu``, ``rouge`` and ``sacrebleu`` without parameters mean the modules of the hub: their definitions,
arguments and keys. Every other text means metrics of captious, and `Captious` always does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from captious import CaptionSet, evaluate
from captious.compat import _hub_metrics
from captious.errors import InputError, require
from captious.metrics.registry import DEFAULT, parse_all
from captious.metrics.requests import Specs
from captious.options import Resampling
from captious.scorer import warn_of_language
from captious.text.tokenizers import tokenize_13a_cased

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


HUB_USAGE = """
Args:
    predictions: a text per item.
    references: the references of each item, a list of texts or one text.
"""


class Module(hugging_face.Metric):  # type: ignore[misc]  # evaluate has no types
    """A module that checks its inputs before evaluate writes them to a file."""

    def add_batch(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> None:
        """Add predictions, references and other inputs of the module, one for each item."""
        given = {"predictions": predictions, "references": references, **kwargs}
        for name in self.features if isinstance(self.features, Mapping) else self.features[0]:
            if given.get(name) is None:
                raise InputError(f"{name}: none, expected a list with an entry for each item; pass {name}=...")
            if not len(given[name]):
                raise InputError(f"{name}: is empty, expected an entry for each item")
        super().add_batch(predictions=predictions, references=references, **kwargs)

    def compute(self, *, predictions: Any = None, references: Any = None, **kwargs: Any) -> dict[str, Any] | None:
        """Compute the values of the inputs added before, or of these.

        All arguments are keywords, so that predictions and references cannot be exchanged by mistake.
        """
        if predictions is None and references is None and self.writer is None:
            raise InputError("predictions: none was added, expected predictions=... here, or add_batch(...) before")
        computed: dict[str, Any] | None = super().compute(predictions=predictions, references=references, **kwargs)
        return computed


class Captious(Module):
    """Any metrics of captious as an ``EvaluationModule``.

    Parameters
    ----------
    metrics
        Written forms, such as ``"bleu(n=4), cider(idf=coco)"``, or metrics.
    language
        The code of the captions' language, such as ``zh``, as in `captious.evaluate`.
    kwargs
        Those of ``evaluate.EvaluationModule``, such as ``num_process``, ``experiment_id`` or ``keep_in_memory``.

    >>> rouge = Captious("rouge", keep_in_memory=True)
    >>> values = rouge.compute(predictions=["a cat", "a dog runs"], references=[["a cat"], ["the dog runs", "a dog"]])
    >>> {name: round(value, 4) for name, value in values.items()}
    {'rouge': 0.915}
    """

    def __init__(self, metrics: Specs = DEFAULT, language: str | None = None, **kwargs: Any) -> None:
        self.metrics, self.language = tuple(parse_all(metrics)), language
        # evaluate names the folder of its files after config_name; modules in use at the same time need different ones.
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
        # One entry per combination of inputs that are a text or a list of texts: evaluate takes the first that fits.
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
        report = evaluate(captions, self.metrics, resampling=Resampling(samples=0), language=self.language)
        warn_of_language(self.metrics, report.captions)
        return {str(measurement.metric): measurement.corpus for measurement in report}


class HubModule(Module):
    """A module with the definition, arguments and keys of one on the hub, computed by captious."""

    definition = ""
    """One sentence about the metric, for its description."""

    def _info(self) -> Any:
        text, texts = Value("string"), ListOf(Value("string"))
        return hugging_face.MetricInfo(
            description=self.definition,
            citation="",
            inputs_description=HUB_USAGE,
            features=[Features({"predictions": text, "references": kind}) for kind in (texts, text)],
        )


class HubBleu(HubModule):
    """BLEU of the hub."""

    definition = "BLEU as on the hub: the reference length is that of the shortest reference, words keep their case."

    def _compute(
        self, predictions: Sequence[str], references: Sequence[Any], tokenizer: Any = None, **options: Any
    ) -> dict[str, Any]:
        return _hub_metrics.bleu(predictions, _convert_to_lists(references), tokenizer or tokenize_13a_cased, **options)


class HubRouge(HubModule):
    """ROUGE of the hub, which is that of Google's rouge_score."""

    definition = (
        "F1 of ROUGE-1, ROUGE-2, ROUGE-L and ROUGE-Lsum with the best reference; means, not medians of a bootstrap."
    )

    def _compute(
        self, predictions: Sequence[str], references: Sequence[Any], rouge_types: Any = None, **options: Any
    ) -> dict[str, Any]:
        return _hub_metrics.rouge(
            predictions, _convert_to_lists(references), rouge_types or _hub_metrics.ROUGE_TYPES, **options
        )


class HubSacreBleu(HubModule):
    """BLEU of sacrebleu, which must be installed."""

    definition = "BLEU from 0 to 100, computed by sacrebleu itself."

    def _compute(self, predictions: Sequence[str], references: Sequence[Any], **options: Any) -> dict[str, Any]:
        sacrebleu = require("sacrebleu", "evaluate")
        lists = _convert_to_lists(references)
        if len({len(texts) for texts in lists}) > 1:
            raise InputError("sacrebleu requires the same number of references for each prediction")
        score = sacrebleu.corpus_bleu(list(predictions), [list(texts) for texts in zip(*lists, strict=True)], **options)
        return {name: getattr(score, name) for name in SACREBLEU_KEYS}


SACREBLEU_KEYS = ("score", "counts", "totals", "precisions", "bp", "sys_len", "ref_len")
HUB: dict[str, type[HubModule]] = {"bleu": HubBleu, "rouge": HubRouge, "sacrebleu": HubSacreBleu}
REFUSED = {
    "meteor": "the hub's meteor is NLTK's, captious's is METEOR 1.5, and their values differ; write "
    "Captious('meteor') for METEOR 1.5, or evaluate.load('meteor') for NLTK's",
}


def _convert_to_lists(references: Sequence[Any]) -> list[list[str]]:
    return [[entry] if isinstance(entry, str) else list(entry) for entry in references]


def load(metrics: Specs = DEFAULT, **kwargs: Any) -> Module:
    """Return the module of the hub with this name, or a module of these captious metrics.

    >>> load("bleu").compute(predictions=["a dog runs in a park"], references=["a dog runs in a park"])["bleu"]
    1.0
    >>> sorted(load("bleu(n=4), cider").features[0])
    ['predictions', 'references']
    """
    name = metrics if isinstance(metrics, str) else ""
    if name in REFUSED:
        raise InputError(f"load({name!r}): {REFUSED[name]}")
    return HUB[name](**kwargs) if name in HUB else Captious(metrics, **kwargs)
