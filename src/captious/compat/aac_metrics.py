"""The functions of ``aac_metrics.functional``, for people who come from aac-metrics: the metrics of audio captioning.

Change the import lines of a script, and nothing else::

    from captious.compat.aac_metrics import evaluate, spider

    corpus, sentences = evaluate(candidates, mult_references, metrics="dcase2020")

Candidates are a list of captions, references a list of lists. As in the original, a function splits at spaces, and
`evaluate` tokenizes first. Values are numbers and NumPy arrays instead of tensors. SPICE reads spaCy's parses instead
of Stanford's, so ``spice`` and what is made from it are close to the original's and not equal.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from captious._typing import Floats
from captious.captions import CaptionSet
from captious.errors import InputError, choices_for
from captious.metrics.chunks import measure_all
from captious.metrics.contract import Metric
from captious.metrics.fense import Fense
from captious.metrics.registry import parse
from captious.metrics.sbert import Sbert
from captious.metrics.spider import Spider
from captious.models.encoder import TextWeights
from captious.text.tokenizers import tokenizer_named

Captions: TypeAlias = Sequence[str]
References: TypeAlias = Sequence[Sequence[str]]
Scores: TypeAlias = tuple[dict[str, float], dict[str, Floats]]
"""The value of the corpus and those of all items, by name."""
WORDS = "whitespace"
METRICS_SETS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("default", "dcase2020"), ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "spider")),
    "dcase2023": ("meteor", "spider_fl"),
    "dcase2024": ("meteor", "spider_fl", "fense"),
}
"""The sets of metrics by the names of the original; its ``vocab``, ``bert_score`` and ``mace`` are not among them."""


def evaluate(
    candidates: Captions,
    mult_references: References,
    preprocess: bool = True,
    metrics: str | Iterable[str] = "default",
    **options: Any,
) -> Scores:
    """Every metric of a set, or of a list of names, after the tokenizer of coco-caption unless ``preprocess`` is False.

    ``options`` go to the functions that take them, such as ``fluency`` and ``resources``.

    >>> man = ["a man speaks.", "someone speaks.", "a man is speaking while a bird is chirping in the background"]
    >>> references = [man, ["rain is falling hard on a surface"]]
    >>> corpus, _ = evaluate(["a man is speaking", "rain falls"], references, metrics=["bleu_1", "cider_d"])
    >>> {name: round(value, 4) for name, value in corpus.items()}
    {'bleu_1': 0.4278, 'cider_d': 0.9614}
    """
    if isinstance(metrics, str) and metrics not in METRICS_SETS:
        raise InputError(f"metrics={metrics!r}{choices_for(metrics, METRICS_SETS)}")
    _refuse_flat(candidates, mult_references)
    if preprocess:
        candidates, mult_references = _tokenized(candidates), [_tokenized(texts) for texts in mult_references]
    corpus: dict[str, float] = {}
    sentences: dict[str, Floats] = {}
    for name in METRICS_SETS[metrics] if isinstance(metrics, str) else metrics:
        if name not in FUNCTIONS:
            raise InputError(f"no metric {name!r}{choices_for(name, FUNCTIONS)}")
        taken = {key: value for key, value in options.items() if key in OPTIONS.get(name, ())}
        values, items = FUNCTIONS[name](candidates, mult_references, **taken)
        corpus |= values
        sentences |= items
    return corpus, sentences


def spider(candidates: Captions, mult_references: References, *, resources: str | None = None) -> Scores:
    """SPIDEr with its parts: ``cider_d``, ``spice``, ``spider``."""
    return _scores(_spiders(resources=resources), candidates, mult_references)


def spider_max(mult_candidates: References, mult_references: References, *, resources: str | None = None) -> Scores:
    """SPIDEr-max with the parts of the best candidate: ``cider_d_max``, ``spice_max``, ``spider_max``."""
    if len({len(texts) for texts in mult_candidates}) > 1:
        raise InputError("mult_candidates: items with different numbers of candidates, expected as many of each")
    best = {f"{name}_max": one for name, one in _spiders(best=True, resources=resources).items()}
    return _scores(best, mult_candidates, mult_references)


def spider_fl(
    candidates: Captions,
    mult_references: References,
    *,
    fluency: str | Sequence[float],
    error_threshold: float = 0.9,
    penalty: float = 0.9,
    resources: str | None = None,
) -> Scores:
    """SPIDEr-FL with SPIDEr, its parts and ``fer``.

    ``fluency`` takes the place of ``echecker``: the folder of a detector, or a probability for each candidate.
    """
    source, columns = _fluency(fluency)
    fluent = Spider(fluency=source, threshold=error_threshold, penalty=penalty, tokenizer=WORDS, resources=resources)
    metrics = {**_spiders(resources=resources), "spider_fl": fluent}
    return _with_fer(_scores(metrics, candidates, mult_references, columns), candidates, fluency, error_threshold)


def fense(
    candidates: Captions,
    mult_references: References,
    *,
    fluency: str | Sequence[float],
    sbert_model: TextWeights = Fense.weights,
    error_threshold: float = 0.9,
    penalty: float = 0.9,
) -> Scores:
    """FENSE with ``sbert_sim`` and ``fer``; ``fluency`` as in `spider_fl`."""
    source, columns = _fluency(fluency)
    metrics = {
        "sbert_sim": Sbert(sbert_model, over="mean"),
        "fense": Fense(sbert_model, source, error_threshold, penalty),
    }
    return _with_fer(_scores(metrics, candidates, mult_references, columns), candidates, fluency, error_threshold)


def _spiders(best: bool = False, resources: str | None = None) -> dict[str, Metric]:
    def one(value: Any) -> Spider:
        return Spider(value, best, tokenizer=WORDS, resources=resources)

    return {"cider_d": one("cider"), "spice": one("spice"), "spider": one("spider")}


def _fluency(given: str | Sequence[float]) -> tuple[str, Mapping[str, Sequence[Any]]]:
    """The source of the probabilities, and the column that has them where they are given."""
    return (given, {}) if isinstance(given, str) else (Fense.fluency, {Fense.fluency: list(given)})


def _with_fer(scores: Scores, candidates: Captions, fluency: str | Sequence[float], threshold: float) -> Scores:
    """The scores with the rate of captions that have a fluency error."""
    if isinstance(fluency, str):
        from captious.models.fluency import load_detector

        fluency = load_detector(fluency).probabilities(candidates).tolist()
    errors = (np.asarray(fluency) > threshold).astype(np.float64)
    return {**scores[0], "fer": float(errors.mean())}, {**scores[1], "fer": errors}


def _scores(
    metrics: Mapping[str, Metric],
    candidates: Sequence[str] | References,
    references: References,
    columns: Mapping[str, Sequence[Any]] | None = None,
) -> Scores:
    _refuse_flat(candidates, references)
    if len(candidates) != len(references):
        raise InputError(f"{len(candidates)} candidates and {len(references)} lists of references, expected as many")
    if not candidates:
        raise InputError("candidates: none, expected at least one caption")
    ids = [str(number) for number in range(len(candidates))]
    captions = CaptionSet.of(
        dict(zip(ids, candidates, strict=True)), dict(zip(ids, references, strict=True)), columns or {}
    )
    measured = measure_all(captions, list(metrics.values()))
    chosen = {name: measured[str(metric)] for name, metric in metrics.items()}
    return {name: one.corpus for name, one in chosen.items()}, {name: one.values for name, one in chosen.items()}


def _refuse_flat(candidates: Any, references: Any) -> None:
    """Refuse a text where a list of texts is meant: its letters would be taken for captions."""
    if isinstance(candidates, str):
        raise InputError("candidates: one text, expected a list of captions")
    flat = next((one for one in references if isinstance(one, str)), None)
    if flat is not None or isinstance(references, str):
        raise InputError(f"mult_references: the text {flat or references!r}, expected a list of texts for each caption")


def _tokenized(texts: Captions) -> list[str]:
    tokenizer = tokenizer_named("ptb")
    return [" ".join(words) for words in map(tokenizer.tokenize, texts)]


def _single(name: str, written: str) -> Callable[..., Scores]:
    def function(candidates: Captions, mult_references: References) -> Scores:
        return _scores({name: parse(written)}, candidates, mult_references)

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"``{name}`` of captions that are tokenized already, as ``{written}``."
    return function


bleu_1, bleu_2, bleu_3, bleu_4 = (_single(f"bleu_{n}", f"bleu(n={n},tokenizer={WORDS})") for n in (1, 2, 3, 4))
rouge_l = _single("rouge_l", f"rouge(tokenizer={WORDS})")
cider_d = _single("cider_d", f"cider(tokenizer={WORDS})")
meteor = _single("meteor", "meteor")

FUNCTIONS: Mapping[str, Callable[..., Scores]] = {
    **{f"bleu_{n}": one for n, one in enumerate((bleu_1, bleu_2, bleu_3, bleu_4), 1)},
    "rouge_l": rouge_l,
    "cider_d": cider_d,
    "meteor": meteor,
    "spider": spider,
    "spider_fl": spider_fl,
    "fense": fense,
}
"""The functions that `evaluate` knows by name."""
OPTIONS = {
    "spider": ("resources",),
    "spider_fl": ("fluency", "error_threshold", "penalty", "resources"),
    "fense": ("fluency", "error_threshold", "penalty", "sbert_model"),
}
"""What `evaluate` hands on to each function."""
