"""The functions and classes of aac-metrics: the metrics of audio captioning.

Change the import lines of a script, whichever module of aac-metrics they name, and nothing else::

    from captious.compat.aac_metrics import cider_d, evaluate, preprocess_mono_sents

    corpus, sentences = evaluate(candidates, mult_references, metrics="dcase2020")

Candidates are a list of captions, references a list of lists. As in the original, a function splits at spaces, and
`evaluate` tokenizes first. Values are tensors of float64 if torch is installed, otherwise numbers and NumPy arrays.
What differs on purpose:

- SPICE reads spaCy's parses instead of Stanford's, so ``spice`` and what is made from it are close and not equal.
- Nothing is downloaded. FENSE, ``fer`` and SPIDEr-FL take the detector of fluency errors that aac-metrics has stored,
  or ``fluency=``: the folder of one, or a probability for each candidate.
- Options of Java and of devices, such as ``java_path`` and ``device``, have no effect.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, ClassVar, TypeAlias

import numpy as np

from captious._core.types import Floats
from captious.captions import CaptionSet
from captious.errors import InputError, format_choices
from captious.metrics.chunks import measure_all
from captious.metrics.contract import Metric
from captious.metrics.fense import Fense
from captious.metrics.registry import parse
from captious.metrics.sbert import Sbert
from captious.metrics.spider import Spider
from captious.models.encoder import TextWeights
from captious.text.tokenizers import find_tokenizer

Captions: TypeAlias = Sequence[str]
References: TypeAlias = Sequence[Sequence[str]]
# The value of the corpus and those of all items, by name.
Scores: TypeAlias = tuple[dict[str, float], dict[str, Floats]]
# `Scores` as tensors, or the main value of the corpus if ``return_all_scores`` is False.
Result: TypeAlias = Any
WORDS = "whitespace"
# The sets of metrics by the names of the original. Two metrics of ``all`` are among `ABSENT`.
METRICS_SETS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(("default", "dcase2020"), ("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l", "spider")),
    "dcase2023": ("meteor", "spider_fl"),
    "dcase2024": ("meteor", "spider_fl", "fense", "vocab"),
    "all": (
        *("bleu_1", "bleu_2", "bleu_3", "bleu_4", "meteor", "rouge_l"),
        *("fense", "spider_fl", "vocab", "bert_score", "mace"),
    ),
}
# Metrics of the original that this module does not have.
ABSENT = ("bert_score", "clap_sim", "mace")
# Options of the original about Java, devices and messages.
WITHOUT_EFFECT = frozenset(
    {"batch_size", "cache_path", "device", "java_max_memory", "java_path", "n_threads", "reset_state", "timeout"}
    | {"tmp_path", "verbose"}
)
ECHECKER = "echecker_clotho_audiocaps_base"


def evaluate(
    candidates: Captions,
    mult_references: References,
    preprocess: bool | Callable[[list[str]], list[str]] = True,
    metrics: str | Iterable[str | Callable[..., Any]] = "default",
    **options: Any,
) -> Result:
    """Compute all metrics of a set or of a list of names, after tokenizing as coco-caption does.

    ``preprocess`` is False if the captions are tokenized already, or another tokenizer of a list of texts. ``options``
    are passed to the functions that take them, such as ``fluency`` and ``resources``.

    >>> man = ["a man speaks.", "someone speaks.", "a man is speaking while a bird is chirping in the background"]
    >>> references = [man, ["rain is falling hard on a surface"]]
    >>> corpus, _ = evaluate(["a man is speaking", "rain falls"], references, metrics=["bleu_1", "cider_d"])
    >>> {name: round(float(value), 4) for name, value in corpus.items()}
    {'bleu_1': 0.4278, 'cider_d': 0.9614}
    """
    functions = _find_functions(metrics)
    _refuse_flat(candidates, mult_references)
    taken = {key for one in functions if isinstance(one, str) for key in OPTIONS.get(one, ())}
    _refuse_options("evaluate", {key: value for key, value in options.items() if key not in taken})
    if preprocess:
        tokenize = preprocess if callable(preprocess) else preprocess_mono_sents
        candidates, mult_references = tokenize(list(candidates)), [tokenize(list(texts)) for texts in mult_references]
    corpus: dict[str, Any] = {}
    sentences: dict[str, Any] = {}
    for one in functions:
        function = FUNCTIONS[one] if isinstance(one, str) else one
        passed = {key: options[key] for key in OPTIONS.get(one, ()) if key in options} if isinstance(one, str) else {}
        values, items = function(candidates, mult_references, **passed)
        corpus |= values
        sentences |= items
    return corpus, sentences


def dcase2023_evaluate(candidates: Captions, mult_references: References, **options: Any) -> Result:
    """Return the metrics of the challenge DCASE 2023."""
    return evaluate(candidates, mult_references, metrics="dcase2023", **options)


def dcase2024_evaluate(candidates: Captions, mult_references: References, **options: Any) -> Result:
    """Return the metrics of the challenge DCASE 2024."""
    return evaluate(candidates, mult_references, metrics="dcase2024", **options)


def preprocess_mono_sents(sentences: Captions, **options: Any) -> list[str]:
    """Tokenize texts as coco-caption does; join the tokens with spaces.

    >>> preprocess_mono_sents(["A man's dog, barking."])
    ["a man 's dog barking"]
    """
    _refuse_options("preprocess_mono_sents", options)
    tokenizer = find_tokenizer("ptb")
    return [" ".join(words) for words in map(tokenizer.tokenize, sentences)]


def preprocess_mult_sents(mult_sentences: References, **options: Any) -> list[list[str]]:
    """Tokenize lists of texts like `preprocess_mono_sents`."""
    _refuse_options("preprocess_mult_sents", options)
    return list(map(preprocess_mono_sents, mult_sentences))


def bleu(
    candidates: Captions, mult_references: References, return_all_scores: bool = True, *, n: int = 4, **options: Any
) -> Result:
    """Return ``bleu_n`` of tokenized captions."""
    return _make_function(f"bleu_{n}", f"bleu(n={n},tokenizer={WORDS})")(
        candidates, mult_references, return_all_scores, **options
    )


def spice(
    candidates: Captions,
    mult_references: References,
    return_all_scores: bool = True,
    *,
    resources: str | None = None,
    **options: Any,
) -> Result:
    """Return ``spice``, computed from spaCy's parses."""
    _refuse_options("spice", options)
    metrics = {"spice": _make_spiders(resources=resources)["spice"]}
    return _convert_result("spice", _compute_scores(metrics, candidates, mult_references), return_all_scores)


def spider(
    candidates: Captions,
    mult_references: References,
    return_all_scores: bool = True,
    *,
    resources: str | None = None,
    **options: Any,
) -> Result:
    """Return SPIDEr with its parts: ``cider_d``, ``spice``, ``spider``."""
    _refuse_options("spider", options)
    return _convert_result(
        "spider", _compute_scores(_make_spiders(resources=resources), candidates, mult_references), return_all_scores
    )


def spider_max(
    mult_candidates: References,
    mult_references: References,
    return_all_scores: bool = True,
    *,
    resources: str | None = None,
    **options: Any,
) -> Result:
    """Return SPIDEr-max with the parts of the best candidate: ``cider_d_max``, ``spice_max``, ``spider_max``."""
    _refuse_options("spider_max", options)
    if len({len(texts) for texts in mult_candidates}) > 1:
        raise InputError("mult_candidates: items with different numbers of candidates, expected as many of each")
    best = {f"{name}_max": one for name, one in _make_spiders(best=True, resources=resources).items()}
    return _convert_result("spider_max", _compute_scores(best, mult_candidates, mult_references), return_all_scores)


def spider_fl(
    candidates: Captions,
    mult_references: References,
    return_all_scores: bool = True,
    *,
    fluency: str | Sequence[float] | None = None,
    echecker: str = ECHECKER,
    error_threshold: float = 0.9,
    penalty: float = 0.9,
    resources: str | None = None,
    **options: Any,
) -> Result:
    """Return SPIDEr-FL with SPIDEr, its parts and ``fer``.

    ``fluency`` is the folder of a detector, or a probability for each candidate; without it the checkpoint
    ``echecker`` is used, if it is where aac-metrics stores it.
    """
    _refuse_options("spider_fl", options)
    fluency, source, columns = _find_fluency("spider_fl", fluency, echecker)
    fluent = Spider(fluency=source, threshold=error_threshold, penalty=penalty, tokenizer=WORDS, resources=resources)
    metrics = {**_make_spiders(resources=resources), "spider_fl": fluent}
    scores = _compute_scores(metrics, candidates, mult_references, columns)
    return _convert_result("spider_fl", _add_fer(scores, candidates, fluency, error_threshold), return_all_scores)


def fense(
    candidates: Captions,
    mult_references: References,
    return_all_scores: bool = True,
    *,
    fluency: str | Sequence[float] | None = None,
    echecker: str = ECHECKER,
    sbert_model: TextWeights = Fense.weights,
    error_threshold: float = 0.9,
    penalty: float = 0.9,
    **options: Any,
) -> Result:
    """Return FENSE with ``sbert_sim`` and ``fer``; ``fluency`` as in `spider_fl`."""
    _refuse_options("fense", options)
    fluency, source, columns = _find_fluency("fense", fluency, echecker)
    metrics = {
        "sbert_sim": Sbert(sbert_model, over="mean"),
        "fense": Fense(sbert_model, source, error_threshold, penalty),
    }
    scores = _compute_scores(metrics, candidates, mult_references, columns)
    return _convert_result("fense", _add_fer(scores, candidates, fluency, error_threshold), return_all_scores)


def sbert_sim(
    candidates: Captions,
    mult_references: References,
    return_all_scores: bool = True,
    *,
    sbert_model: TextWeights = Fense.weights,
    **options: Any,
) -> Result:
    """Return the mean cosine similarity of sentence embeddings with the references."""
    _refuse_options("sbert_sim", options)
    metrics = {"sbert_sim": Sbert(sbert_model, over="mean")}
    return _convert_result("sbert_sim", _compute_scores(metrics, candidates, mult_references), return_all_scores)


def vocab(
    candidates: Captions,
    mult_references: References | None,
    return_all_scores: bool = True,
    *,
    seed: int = 1234,
    **options: Any,
) -> Result:
    """Return the number of distinct words, and its comparison with the references.

    ``vocab.mrefs_avg`` is the mean over random selections of one reference per item, as many as the most references of
    an item. As in the original they are drawn with torch's generator, so it and ``vocab.ratio_avg`` are missing without
    torch.

    >>> corpus, _ = vocab(["a dog barks", "a cat"], [["a dog"], ["two cats", "a cat"]])
    >>> [float(corpus[f"vocab.{name}"]) for name in ("cands", "mrefs_full", "precision", "recall")]
    [4.0, 5.0, 0.75, 0.6]
    """
    _refuse_options("vocab", options)
    _refuse_flat(candidates, mult_references or ())
    words = [set(text.split()) for text in candidates]
    own = set[str]().union(*words)
    corpus = {"vocab.cands": float(len(own))}
    if mult_references is not None:
        _refuse_counts(candidates, mult_references)
        references = [[set(text.split()) for text in texts] for texts in mult_references]
        others = set[str]().union(*(one for texts in references for one in texts))
        shared = len(own & others)
        # 2pr / (p + r), with p = shared / own and r = shared / others
        parts = {"precision": len(own), "recall": len(others), "f1": (len(own) + len(others)) / 2}
        corpus |= {"vocab.mrefs_full": float(len(others)), "vocab.ratio_full": _divide(len(own), len(others))}
        if (drawn := _count_drawn_words(references, seed)) is not None:
            corpus |= {"vocab.mrefs_avg": drawn, "vocab.ratio_avg": _divide(len(own), drawn)}
        corpus |= {f"vocab.{name}": _divide(shared, number) for name, number in parts.items()}
        corpus["vocab.jaccard"] = _divide(shared, len(own | others))
    return _convert_result(
        "vocab.cands", (corpus, {"vocab.cands": np.array([len(one) for one in words], float)}), return_all_scores
    )


def _divide(part: float, whole: float) -> float:
    return part / whole if whole else float("nan")


def _count_drawn_words(references: Sequence[Sequence[set[str]]], seed: int) -> float | None:
    """Return the mean number of distinct words in one random reference per item, drawn as in the original."""
    if (torch := _import_torch()) is None:
        return None
    generator = torch.Generator().manual_seed(seed)

    def draw(number: int) -> int:
        return int(torch.randint(0, number, (), generator=generator))

    rounds = range(max(map(len, references)))
    sizes = [len(set[str]().union(*(texts[draw(len(texts))] for texts in references))) for _ in rounds]
    return float(np.mean(sizes))


def fer(
    candidates: Captions,
    return_all_scores: bool = True,
    *,
    fluency: str | Sequence[float] | None = None,
    echecker: str = ECHECKER,
    error_threshold: float = 0.9,
    **options: Any,
) -> Result:
    """Return the rate of captions with a fluency error; ``fluency`` as in `spider_fl`."""
    _refuse_options("fer", options)
    fluency, _, _ = _find_fluency("fer", fluency, echecker)
    return _convert_result("fer", _add_fer(({}, {}), candidates, fluency, error_threshold), return_all_scores)


def _find_functions(metrics: Any) -> list[str | Callable[..., Any]]:
    """Return the metrics of a set or a list: names in `FUNCTIONS`, or functions."""
    names = list(METRICS_SETS.get(metrics, (metrics,)) if isinstance(metrics, str) else metrics)
    if absent := [name for name in names if name in ABSENT]:
        raise InputError(
            f"metrics={metrics!r}: captious does not have {', '.join(absent)}{format_choices('', FUNCTIONS)}"
        )
    for name in names:
        if not callable(name) and name not in FUNCTIONS:
            known = (*METRICS_SETS, *FUNCTIONS) if isinstance(metrics, str) else FUNCTIONS
            raise InputError(f"metrics={metrics!r}: no metric {name!r}{format_choices(str(name), known)}")
    return names


def _make_spiders(best: bool = False, resources: str | None = None) -> dict[str, Metric]:
    def one(value: Any) -> Spider:
        return Spider(value, best, tokenizer=WORDS, resources=resources)

    return {"cider_d": one("cider"), "spice": one("spice"), "spider": one("spider")}


def _find_fluency(
    name: str, fluency: str | Sequence[float] | None, echecker: str
) -> tuple[str | Sequence[float], str, Mapping[str, Sequence[Any]]]:
    """Return the detector or the probabilities, the fluency source of the metric, and the column of probabilities."""
    if fluency is None:
        fluency = _find_stored_detector(name, echecker)
    if isinstance(fluency, str):
        return fluency, fluency, {}
    return fluency, Fense.fluency, {Fense.fluency: list(fluency)}


def _find_stored_detector(name: str, echecker: str) -> str:
    """Return the path of the detector checkpoint where aac-metrics stores it."""
    torch = _import_torch()
    hub = torch.hub.get_dir() if torch else "~/.cache/torch/hub"
    path = Path(os.environ.get("FENSE_DATA", Path(hub) / "fense_data")).expanduser() / f"{echecker}.ckpt"
    if not path.is_file():
        raise InputError(
            f"{name} needs a detector of fluency errors, and there is no {path}: give fluency=, the folder of one or a "
            "probability for each caption, or leave out spider_fl, fense and fer"
        )
    return str(path)


def _add_fer(scores: Scores, candidates: Captions, fluency: str | Sequence[float], threshold: float) -> Scores:
    """Add the fluency error rate to the scores."""
    if isinstance(fluency, str):
        from captious.models.fluency import load_detector

        fluency = load_detector(fluency).probabilities(candidates).tolist()
    errors = (np.asarray(fluency) > threshold).astype(np.float64)
    return {**scores[0], "fer": float(errors.mean())}, {**scores[1], "fer": errors}


def _compute_scores(
    metrics: Mapping[str, Metric],
    candidates: Sequence[str] | References,
    references: References,
    columns: Mapping[str, Sequence[Any]] | None = None,
) -> Scores:
    _refuse_flat(candidates, references)
    _refuse_counts(candidates, references)
    ids = [str(number) for number in range(len(candidates))]
    captions = CaptionSet.of(
        dict(zip(ids, candidates, strict=True)), dict(zip(ids, references, strict=True)), columns or {}
    )
    measured = measure_all(captions, list(metrics.values()))
    chosen = {name: measured[str(metric)] for name, metric in metrics.items()}
    return {name: one.corpus for name, one in chosen.items()}, {name: one.values for name, one in chosen.items()}


def _import_torch() -> Any:
    """Return torch, or None if it is not installed."""
    try:
        import torch
    except ImportError:
        return None
    return torch


def _convert_result(main: str, scores: Scores, everything: bool) -> Result:
    """Convert the scores to the return value of the original, or to the main corpus value."""
    torch = _import_torch()

    def convert(value: Any) -> Any:
        return value if torch is None else torch.as_tensor(value, dtype=torch.float64)

    if not everything:
        return convert(scores[0][main])
    corpus, sentences = ({name: convert(value) for name, value in one.items()} for one in scores)
    return corpus, sentences


def _refuse_flat(candidates: Any, references: Any) -> None:
    """Raise InputError for a text instead of a list of texts, whose letters would be read as captions."""
    if isinstance(candidates, str):
        raise InputError("candidates: one text, expected a list of captions")
    flat = next((one for one in references if isinstance(one, str)), None)
    if flat is not None or isinstance(references, str):
        raise InputError(f"mult_references: the text {flat or references!r}, expected a list of texts for each caption")


def _refuse_counts(candidates: Sequence[Any], references: Sequence[Any]) -> None:
    if len(candidates) != len(references):
        raise InputError(f"{len(candidates)} candidates and {len(references)} lists of references, expected as many")
    if not candidates:
        raise InputError("candidates: none, expected at least one caption")


def _refuse_options(name: str, options: Mapping[str, Any]) -> None:
    if unknown := sorted(options.keys() - WITHOUT_EFFECT):
        raise InputError(f"{name}: captious does not have the options {', '.join(unknown)}")


def _make_function(name: str, written: str) -> Callable[..., Result]:
    def function(
        candidates: Captions, mult_references: References, return_all_scores: bool = True, **options: Any
    ) -> Result:
        _refuse_options(name, options)
        return _convert_result(
            name, _compute_scores({name: parse(written)}, candidates, mult_references), return_all_scores
        )

    function.__name__ = function.__qualname__ = name
    function.__doc__ = f"Return ``{name}`` of captions that are tokenized already, as ``{written}``."
    return function


bleu_1, bleu_2, bleu_3, bleu_4 = (_make_function(f"bleu_{n}", f"bleu(n={n},tokenizer={WORDS})") for n in (1, 2, 3, 4))
rouge_l = _make_function("rouge_l", f"rouge(tokenizer={WORDS})")
cider_d = _make_function("cider_d", f"cider(tokenizer={WORDS})")
meteor = _make_function("meteor", "meteor")


def _compute_fer(candidates: Captions, mult_references: References, **options: Any) -> Result:
    return fer(candidates, **options)


# The functions that `evaluate` knows by name.
FUNCTIONS: Mapping[str, Callable[..., Result]] = {
    "bleu": bleu,
    **{f"bleu_{n}": one for n, one in enumerate((bleu_1, bleu_2, bleu_3, bleu_4), 1)},
    "rouge_l": rouge_l,
    "cider_d": cider_d,
    "meteor": meteor,
    "spice": spice,
    "spider": spider,
    "spider_max": spider_max,
    "spider_fl": spider_fl,
    "sbert_sim": sbert_sim,
    "fense": fense,
    "fer": _compute_fer,
    "vocab": vocab,
}
# The arguments that `evaluate` passes to each function.
OPTIONS = {
    "spice": ("resources",),
    "spider": ("resources",),
    "spider_max": ("resources",),
    "spider_fl": ("fluency", "echecker", "error_threshold", "penalty", "resources"),
    "fense": ("fluency", "echecker", "error_threshold", "penalty", "sbert_model"),
    "fer": ("fluency", "echecker", "error_threshold"),
    "sbert_sim": ("sbert_model",),
    "vocab": ("seed",),
}


class AACMetric:
    """A function of this module as an object: ``update`` collects captions, ``compute`` scores all of them.

    >>> metric = CIDErD()
    >>> metric.update(["a man is speaking"], [["a man speaks"]])
    >>> metric.update(["rain falls"], [["rain falls hard"]])
    >>> corpus, sentences = metric.compute()
    >>> len(sentences["cider_d"])
    2
    """

    name: ClassVar[str] = ""

    def __init__(self, return_all_scores: bool = True, **options: Any) -> None:
        self._function = partial(FUNCTIONS[self.name], return_all_scores=return_all_scores, **options)
        self.reset()

    def update(self, candidates: Sequence[Any], mult_references: References = ()) -> None:
        """Add captions and their references."""
        self._candidates += candidates
        self._references += mult_references

    def compute(self) -> Result:
        """Return the scores of all captions so far."""
        return self._function(self._candidates, self._references)

    def reset(self) -> None:
        """Forget all captions."""
        self._candidates: list[Any] = []
        self._references: list[Sequence[str]] = []

    def __call__(self, candidates: Sequence[Any], mult_references: References = ()) -> Result:
        """Return the scores of these captions, and forget all."""
        self.update(candidates, mult_references)
        result = self.compute()
        self.reset()
        return result


class Evaluate(AACMetric):
    """`evaluate` as an object."""

    def __init__(self, preprocess: Any = True, metrics: Any = "default", **options: Any) -> None:
        self._function = partial(evaluate, preprocess=preprocess, metrics=metrics, **options)
        self.reset()


class DCASE2023Evaluate(Evaluate):
    """The metrics of the challenge DCASE 2023."""

    def __init__(self, preprocess: Any = True, **options: Any) -> None:
        super().__init__(preprocess, "dcase2023", **options)


class DCASE2024Evaluate(Evaluate):
    """The metrics of the challenge DCASE 2024."""

    def __init__(self, preprocess: Any = True, **options: Any) -> None:
        super().__init__(preprocess, "dcase2024", **options)


class BLEU(AACMetric):
    """`bleu` as an object."""

    name: ClassVar[str] = "bleu"


class BLEU1(AACMetric):
    """`bleu_1` as an object."""

    name: ClassVar[str] = "bleu_1"


class BLEU2(AACMetric):
    """`bleu_2` as an object."""

    name: ClassVar[str] = "bleu_2"


class BLEU3(AACMetric):
    """`bleu_3` as an object."""

    name: ClassVar[str] = "bleu_3"


class BLEU4(AACMetric):
    """`bleu_4` as an object."""

    name: ClassVar[str] = "bleu_4"


class ROUGEL(AACMetric):
    """`rouge_l` as an object."""

    name: ClassVar[str] = "rouge_l"


class CIDErD(AACMetric):
    """`cider_d` as an object."""

    name: ClassVar[str] = "cider_d"


class METEOR(AACMetric):
    """`meteor` as an object."""

    name: ClassVar[str] = "meteor"


class SPICE(AACMetric):
    """`spice` as an object."""

    name: ClassVar[str] = "spice"


class SPIDEr(AACMetric):
    """`spider` as an object."""

    name: ClassVar[str] = "spider"


class SPIDErMax(AACMetric):
    """`spider_max` as an object."""

    name: ClassVar[str] = "spider_max"


class SPIDErFL(AACMetric):
    """`spider_fl` as an object."""

    name: ClassVar[str] = "spider_fl"


class SBERTSim(AACMetric):
    """`sbert_sim` as an object."""

    name: ClassVar[str] = "sbert_sim"


class FENSE(AACMetric):
    """`fense` as an object."""

    name: ClassVar[str] = "fense"


class FER(AACMetric):
    """`fer` as an object."""

    name: ClassVar[str] = "fer"


class Vocab(AACMetric):
    """`vocab` as an object."""

    name: ClassVar[str] = "vocab"
