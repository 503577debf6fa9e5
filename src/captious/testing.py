"""``captious.testing``: what every metric, tokenizer and encoder owes its users, as a test in one line.

The test of a package that brings a metric::

    from captious.testing import check_metric

    def test_the_metric():
        check_metric("rare_words")

`check_tokenizer` and `check_encoder` do the same for what else a package may bring. The metrics, tokenizers and
encoders of captious pass the same checks.
"""

from __future__ import annotations

import math
import pickle
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import cached_property, reduce
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, TypeVar, get_args

import numpy as np

from captious.captions import CaptionSet
from captious.errors import InputError, format_one_line
from captious.io.read import read
from captious.metrics.chunks import measure_all
from captious.metrics.contract import Metric, Need, refuse_undeclared
from captious.metrics.measurement import Measurement
from captious.metrics.registry import parse, parse_all
from captious.models.encoder import (
    TEXT_MEMBERS,
    Encoder,
    TextEncoder,
    TextWeights,
    Weights,
    given_encoder,
    record_models,
)
from captious.models.loading import load
from captious.text.states import State
from captious.text.tokenizers import Tokenizer, find_tokenizer, name_tokenizer

M = TypeVar("M", Measurement, State)
ROUNDING = 1e-9
"""Sums over items in another order may differ by so much."""
MODELS = 1e-6
"""Values of a model on another batch may differ by so much."""


class ContractError(AssertionError):
    """A metric, tokenizer or encoder does not keep its contract. Each line says one thing that is wrong."""

    def __init__(self, name: str, faults: Sequence[str], kind: str = "a metric") -> None:
        super().__init__("\n".join([f"{name} does not keep the contract of {kind}:", *(f"- {one}" for one in faults)]))
        self.faults = tuple(faults)


def check_metric(metric: str | Metric | type[Metric], captions: Any = None, *, tolerance: float | None = None) -> None:
    """Check a metric on some captions, and raise a `ContractError` with a line for everything that is wrong.

    Parameters
    ----------
    metric
        The metric, its class, or its written form, by which users of a package name it.
    captions
        Whatever ``captious.evaluate`` takes, with at least six items; a small set of captions with references unless
        given. A metric that needs more, such as images, must be given captions that have them. Items without
        something belong in it too.
    tolerance
        By how much the value of an item may differ where the corpus is read in parts: 1e-9 unless given, and 1e-6 for a
        metric that needs a model. 0 asks for every digit.

    >>> check_metric("rouge")
    """
    name = str(metric)
    try:
        metric = parse(metric) if isinstance(metric, str) else metric() if isinstance(metric, type) else metric
        name = str(metric)
        exact = MODELS if {"model", "judge"} & set(metric.needs) else ROUNDING
        trial = Trial(
            metric, sample() if captions is None else read(captions), exact if tolerance is None else tolerance
        )
        if len(trial.captions) < LEAST:
            raise InputError(f"{len(trial.captions)} captions, expected at least {LEAST} items to check a metric with")
    except (InputError, TypeError) as error:
        raise ContractError(name, [format_one_line(error)]) from error
    for names in (FIRST, [promise for promise in CHECKS if promise not in FIRST]):
        if faults := [fault for promise in names for fault in _faults(promise, trial)]:
            raise ContractError(name, faults)


LONGEST = 400
"""Characters of an error of the metric that are shown."""
LEAST = 6
"""Items that a check needs, which it reads in three parts."""
WORDS = ("a", "the", "red", "green", "dog", "cat", "ball", "on", "runs", "sits", "two", "day")


def sample() -> CaptionSet:
    """Twelve items of three candidates and two references, and items that lack something."""
    generator = np.random.default_rng(1)

    def texts(number: int) -> list[str]:
        sizes = generator.integers(2, 9, number).tolist()
        return [" ".join(generator.choice(WORDS, size).tolist()) for size in sizes]

    ids = [*map(str, range(12)), "blank", "no candidates", "no references", "one candidate"]
    candidates, references = {key: texts(3) for key in ids}, {key: texts(2) for key in ids}
    candidates |= {"blank": ["  ", *texts(2)], "no candidates": [], "one candidate": texts(1)}
    references["no references"] = []
    return CaptionSet.of(candidates, references)


@dataclass(frozen=True, eq=False)
class Trial:
    """A metric, the captions that it is checked on, and how exact parts must be."""

    metric: Metric
    captions: CaptionSet
    tolerance: float = ROUNDING

    @cached_property
    def _measured_with(self) -> tuple[Measurement, dict[str, str]]:
        with record_models() as models:
            # A copy of the captions has nothing that was computed for them before.
            return self.metric.measure(replace(self.captions)), models

    @property
    def measured(self) -> Measurement:
        """The metric on all captions."""
        return self._measured_with[0]

    @property
    def models(self) -> dict[str, str]:
        """The models that the metric used, names by fingerprint."""
        return self._measured_with[1]

    @cached_property
    def parts(self) -> list[CaptionSet]:
        """The captions in three parts, of which the second has one item."""
        size = len(self.captions)
        first = min(size // 2, 5)
        return [self.captions.take(part) for part in (range(first), [first], range(first + 1, size))]

    def differing(self, other: Measurement, tolerance: float) -> Iterator[str]:
        """Each way in which another measurement of the same items differs, in words."""
        values, others = self.measured.items, other.items
        keys = [key for key, value in values.items() if not _same(value, others.get(key, math.inf), tolerance)]
        if keys:
            more = f", and {len(keys) - 1} more items differ" if len(keys) > 1 else ""
            yield f"item {keys[0]!r} has {others.get(keys[0])!r} instead of {values[keys[0]]!r}{more}"
        if not _same(self.measured.corpus, other.corpus, max(tolerance, ROUNDING)):
            yield f"the corpus value is {other.corpus!r} instead of {self.measured.corpus!r}"
        if not keys and dict(self.measured.reasons) != dict(other.reasons):
            yield f"the reasons for missing values are {dict(other.reasons)} instead of {dict(self.measured.reasons)}"
        if str(self.measured.signature) != str(other.signature):
            yield f"the signature is {other.signature} instead of {self.measured.signature}"


Check = Callable[[Trial], Iterator[str]]


def _same(one: float, other: float, tolerance: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other)) or abs(one - other) <= tolerance


def _merged(parts: Sequence[M]) -> M:
    return reduce(lambda one, other: one.merge(other), parts)


def _faults(promise: str, trial: Trial) -> list[str]:
    """The faults that a check finds; an error on the way is one too."""
    try:
        return list(CHECKS[promise](trial))
    except InputError as error:
        return [format_one_line(error, LONGEST)]
    except Exception as error:
        return [f"it fails where {promise}: {type(error).__name__}: {format_one_line(error, LONGEST)}"]


def _declarations(trial: Trial) -> Iterator[str]:
    """What a metric says of itself."""
    metric, kind = trial.metric, type(trial.metric)
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", str(getattr(metric, "name", ""))):
        yield f"name is {getattr(metric, 'name', None)!r}, expected lower-case letters, digits, _ and -"
    yield from _undeclared_parameters(kind)
    if not (kind.__doc__ or "").strip() or str(kind.__doc__).startswith(f"{kind.__name__}("):
        yield f"{kind.__name__} has no docstring, which captious metrics {metric.name} prints"
    if not isinstance(metric.label, str) or not metric.label.strip():
        yield f"label is {metric.label!r}, expected a text"
    if not isinstance(metric.higher_is_better, bool):
        yield f"higher_is_better is {metric.higher_is_better!r}, expected True or False"
    if not _is_range(metric.range):
        yield f"range is {metric.range!r}, expected the lowest and the highest value, such as (0.0, 1.0)"
    if metric.decimals is not None and (not isinstance(metric.decimals, int) or metric.decimals < 0):
        yield f"decimals is {metric.decimals!r}, expected a whole number, or None where the value is a score"
    legal = get_args(Need)
    for need in [metric.needs] if isinstance(metric.needs, str) else metric.needs:
        if need not in legal or isinstance(metric.needs, str):
            yield f"needs has {need!r}, expected a tuple of these: {', '.join(legal)}"
    refuse_undeclared(metric)


def _undeclared_parameters(kind: type) -> Iterator[str]:
    """Annotations that look like parameters, of a class that is not decorated as a dataclass."""
    declared = {field.name for field in fields(kind)}
    for name, hint in vars(kind).get("__annotations__", {}).items():
        if name not in declared and not str(hint).startswith(("ClassVar", "typing.ClassVar")):
            yield f"{name} looks like a parameter of {kind.__name__}, which is not decorated by @dataclass(frozen=True)"


def _is_range(range: Any) -> bool:
    numbers = isinstance(range, tuple) and len(range) == 2 and all(isinstance(end, (int, float)) for end in range)
    return numbers and range[0] < range[1]


def _measures(trial: Trial) -> Iterator[str]:
    """The metric can score the captions at all."""
    trial.metric.refuse_unfit(trial.captions)
    trial.metric.refuse_empty(trial.measured, trial.captions.name)
    settings = trial.measured.signature.settings
    for name, value in settings.items():
        if not isinstance(name, str) or not isinstance(value, str) or re.search(r"[|\n]", name + value):
            yield f"settings has {name!r}: {value!r}, expected texts on one line without '|'"
    signature = str(trial.measured.signature)
    for fingerprint, model in trial.models.items():
        if fingerprint not in signature:
            yield (
                f"it uses the model {model}#{fingerprint}, which its signature does not name; derive the metric from "
                "captious.metrics.EncoderMetric, or put it into settings"
            )


def _written_form(trial: Trial) -> Iterator[str]:
    """The metric prints as it is written, and is read back."""
    metric, written = trial.metric, str(trial.metric)
    try:
        again = parse(written)
    except InputError as error:
        yield f"its written form {written} is not read back: {format_one_line(error)}"
        return
    if again != metric or hash(again) != hash(metric):
        yield f"its written form {written} is read back as another metric: {again!r}"
    elif metric not in (several := parse_all(written)):
        yield f"its written form {written} stands for other metrics in a list: {', '.join(map(str, several))}"


def _pickles(trial: Trial) -> Iterator[str]:
    """The metric travels to the processes that score shards."""
    again = pickle.loads(pickle.dumps(trial.metric))
    if again != trial.metric:
        yield f"pickled and read back it is another metric: {again!r} instead of {trial.metric!r}"


def _repeats(trial: Trial) -> Iterator[str]:
    """The same captions have the same values again."""
    for difference in trial.differing(trial.metric.measure(replace(trial.captions)), trial.tolerance):
        yield f"scored a second time, {difference}"


def _reasons(trial: Trial) -> Iterator[str]:
    """An item has a value or a reason, never both and never neither."""
    measured = trial.measured
    for key, value in measured.items.items():
        if math.isnan(value) and not str(measured.reasons.get(key, "")).strip():
            yield f"item {key!r} has no value and no reason: put one into Scored.reasons"
        elif math.isinf(value):
            yield f"item {key!r} has the value {value!r}, expected a number, or NaN and a reason in Scored.reasons"
    if math.isnan(measured.corpus):
        yield "the corpus value is NaN though items have values"


def _range(trial: Trial) -> Iterator[str]:
    """Values are within the declared range."""
    low, high = trial.metric.range
    values = {f"item {key!r} has": value for key, value in trial.measured.items.items()}
    for what, value in {**values, "the corpus value is": trial.measured.corpus}.items():
        if not math.isnan(value) and not low - MODELS <= value <= high + MODELS:
            yield f"{what} {value!r}, outside the declared range from {low:g} to {high:g}"
            return


def _order(trial: Trial) -> Iterator[str]:
    """The order of items does not matter."""
    order = np.random.default_rng(0).permutation(len(trial.captions)).tolist()
    for difference in trial.differing(trial.metric.measure(trial.captions.take(order)), MODELS):
        yield f"with the items in another order, {difference}"


def _rows(trial: Trial) -> Iterator[str]:
    """The corpus value and its intervals come from sums of rows."""
    measured = trial.measured
    if measured.additive:
        rows = measured.statistic.rows
        (again,) = measured.statistic.aggregate(np.ones((1, len(rows))) @ rows).tolist()
        if not _same(again, measured.corpus, ROUNDING):
            yield f"aggregate gives {again!r} for the summed rows of all items, and {measured.corpus!r} the first time"
        shape = np.shape(trial.metric.aggregate(rows))
        if shape != (len(rows),):
            yield f"aggregate gives an array of the shape {shape} for {len(rows)} rows, expected one value per row"


def _parts_merge(trial: Trial) -> Iterator[str]:
    """Parts that are prepared, merged and scored in memory equal the whole."""
    metric = trial.metric
    states = [metric.prepared(part) for part in trial.parts]
    if isinstance(states[0], State):
        for state in states:
            state.release()
    elif not hasattr(states[0], "merge"):
        states = states[:1]
    measured = _merged([metric.measure(part, _merged(states)) for part in trial.parts])
    for difference in trial.differing(measured, max(trial.tolerance, 1e-12)):
        yield f"prepared and scored in three parts, {difference}"


def _parts_alone(trial: Trial) -> Iterator[str]:
    """A part that is scored by itself has the values of the whole, by the state of the whole where there is one."""
    metric = trial.metric
    if metric.corpus_state is None:
        try:
            state = metric.prepared(trial.captions.take([]))
        except Exception as error:
            text = f"{type(error).__name__}: {format_one_line(error, LONGEST)}"
            yield f"prepare fails on a set without items, which workers prepare before they read a shard: {text}"
            return
        how = "scored in parts by themselves"
        advice = "; where a value depends on the other items, declare corpus_state, the class of what prepare returns"
    else:
        with TemporaryDirectory(prefix="captious-") as folder:
            state = yield from _from_files(trial, metric.corpus_state, Path(folder))
        how, advice = "scored by states that were saved, merged and loaded", ""
    measured = _merged([metric.measure(part, state) for part in trial.parts])
    for difference in trial.differing(measured, trial.tolerance):
        yield f"{how}, {difference}{advice}"


def _from_files(trial: Trial, kind: type[State], folder: Path) -> Any:
    """The state of the whole from files of parts, merged in several orders; faults of the orders are yielded."""
    for number, part in enumerate(trial.parts):
        trial.metric.prepared(part).save(folder / str(number))
    for tree in ("012", "(01)2", "0(12)", "(20)1", "2(10)"):
        names = list(re.sub(r"\(.*\)", "", tree))
        if inner := re.search(r"\((.*)\)", tree):
            kind.merge_files([folder / one for one in inner[1]], folder / "inner")
            names.insert(tree.index("("), "inner")
        kind.merge_files([folder / one for one in names], folder / tree)
        if not trial.tolerance and (folder / tree).read_bytes() != (folder / "012").read_bytes():
            yield f"states merged in the order {tree} are saved as another file than in the order 012"
    for number in range(3):
        if not (folder / str(number)).is_file():
            yield f"{kind.__name__}.save wrote no file"
    return kind.load(folder / "(20)1")


def _chunks(trial: Trial) -> Iterator[str]:
    """A set that is larger than a chunk has the values of one that is not."""
    metric = trial.metric
    (measured,) = measure_all(replace(trial.captions), [metric], chunk=2 * len(trial.captions) // 5).values()
    for difference in trial.differing(measured, trial.tolerance):
        yield f"scored chunk by chunk, as sets of more than 20,000 items are, {difference}"


def _explanations(trial: Trial) -> Iterator[str]:
    """The parts of an explanation add up to the value."""
    if trial.metric.explains:
        for key, value in trial.measured.items.items():
            explanation = trial.metric.explain(trial.captions, key)
            total = sum(part.adds for part in explanation.parts)
            if not math.isnan(value) and not _same(total, value, ROUNDING):
                yield f"the parts that explain item {key!r} add up to {total!r}, and its value is {value!r}"
            if math.isnan(value) and (explanation.parts or explanation.reason != trial.measured.reasons[key]):
                yield f"item {key!r} has no value, and its explanation does not say why"


CHECKS: Mapping[str, Check] = {
    "it declares what it is": _declarations,
    "it scores the captions": _measures,
    "its written form is read back": _written_form,
    "it is pickled": _pickles,
    "it scores a second time": _repeats,
    "a missing value has a reason": _reasons,
    "values are within the range": _range,
    "the order of items does not matter": _order,
    "the corpus value comes from the rows": _rows,
    "parts are merged": _parts_merge,
    "parts have the values of the whole": _parts_alone,
    "chunks have the values of the whole": _chunks,
    "explanations add up": _explanations,
}
"""What a metric promises, each with the check that gives a line for everything that is wrong."""
FIRST = list(CHECKS)[:2]
"""Checks that all others need."""


TEXTS = (
    "A dog's ball (red) isn't there.",
    "two DOGS  run, after 3.5 balls!",
    "Él corrió — “hola” — 一只狗",
    "a",
    "",
    "   ",
)
"""Texts with capitals, punctuation, several spaces and other scripts."""


def check_tokenizer(tokenizer: str | Tokenizer, texts: Sequence[str] = ()) -> None:
    """Check a tokenizer, and raise a `ContractError` with a line for everything that is wrong.

    ``tokenizer`` is the tokenizer or its name. ``texts`` are tokenized besides those that are always tried.

    >>> check_tokenizer("13a")
    """
    try:
        tool = find_tokenizer(tokenizer)
        if isinstance(tokenizer, Tokenizer):
            name_tokenizer(tokenizer)
    except InputError as error:
        raise ContractError(str(tokenizer), [format_one_line(error)], "a tokenizer") from error
    faults: list[str] = []
    try:
        faults = [fault for text in (*TEXTS, *texts) for fault in _token_faults(tool, text)]
        if pickle.loads(pickle.dumps(tool)) != tool:
            faults.append("pickled and read back it is another tokenizer")
    except Exception as error:
        faults.append(f"{type(error).__name__}: {format_one_line(error, LONGEST)}")
    if faults:
        raise ContractError(tool.name, list(dict.fromkeys(faults)), "a tokenizer")


def _token_faults(tool: Tokenizer, text: str) -> Iterator[str]:
    """Each way in which the tokens of a text are wrong."""
    tokens = tool.tokenize(text)
    if not isinstance(tokens, (list, tuple)) or not all(isinstance(token, str) for token in tokens):
        yield f"{text!r} gives {tokens!r}, expected a list of texts"
        return
    if not all(token.strip() for token in tokens) or any(" " in token for token in tokens):
        yield f"{text!r} gives {tokens!r}, expected tokens that are not empty and have no space"
    if tokens and not text.strip():
        yield f"{text!r} gives {tokens!r}, expected no tokens"
    if list(tool.tokenize(text)) != list(tokens):
        yield f"{text!r} gives other tokens the second time"
    chunks = [chunk for chunk in text.split(" ") if chunk]
    if tool.is_local is not None and all(map(tool.is_local, chunks)):
        alone = [token for chunk in chunks for token in tool.tokenize(chunk)]
        if alone != list(tokens):
            yield f"is_local says that {text!r} may be cut at spaces, which gives {alone} instead of {list(tokens)}"
    for chunk in chunks if tool.cuts else ():
        word = tool.plain_word(chunk)
        if word is not None and [word] != list(tool.tokenize(chunk)):
            yield f"plain_word gives {word!r} for {chunk!r}, and tokenize {tool.tokenize(chunk)!r}"


def check_encoder(encoder: Weights | TextWeights) -> None:
    """Check an encoder of images and texts, or of texts, and raise a `ContractError` with a line for every fault.

    ``encoder`` is the encoder, or a name that ``captious.models.load`` takes.

    >>> check_encoder("captious-mini")
    """
    name = encoder if isinstance(encoder, str) else type(encoder).__name__
    try:
        model: Any = load(encoder) if isinstance(encoder, str) else given_encoder(encoder, TEXT_MEMBERS)
        faults = [*_declared_faults(model), *_text_faults(model)]
        if hasattr(model, "prepare") or hasattr(model, "image_features"):
            faults += _image_faults(given_encoder(model))
    except InputError as error:
        raise ContractError(name, [format_one_line(error)], "an encoder") from error
    except Exception as error:
        raise ContractError(
            name, [f"{type(error).__name__}: {format_one_line(error, LONGEST)}"], "an encoder"
        ) from error
    if faults:
        raise ContractError(name, faults, "an encoder")


def _declared_faults(encoder: TextEncoder) -> Iterator[str]:
    if encoder.precision not in ("fp32", "fp16", "bf16"):
        yield f"precision is {encoder.precision!r}, expected fp32, fp16 or bf16"
    for attribute in ("dimension", "limit"):
        number = getattr(encoder, attribute)
        if not isinstance(number, int) or number < 1:
            yield f"{attribute} is {number!r}, expected a whole number above 0"


def _text_faults(encoder: TextEncoder) -> Iterator[str]:
    """Each way in which tokens and vectors of texts are wrong."""
    texts = ["a red dog on the grass", "two cats", "a dog " * encoder.limit]
    tokens = encoder.tokenize(texts)
    ids, lengths = np.asarray(tokens.ids), np.asarray(tokens.lengths)
    if ids.ndim != 2 or len(ids) != len(texts) or ids.shape[1] > encoder.limit:
        yield f"tokenize gives ids of the shape {ids.shape} for {len(texts)} texts, expected rows of at most limit ids"
        return
    if lengths.shape != (len(texts),) or lengths[2] <= encoder.limit:
        yield "tokenize gives lengths that do not count the tokens beyond the limit"
    features = np.asarray(encoder.text_features(tokens.ids))
    yield from _feature_faults("text_features", features, len(texts), encoder.dimension)
    alone = np.concatenate([encoder.text_features(encoder.tokenize([text]).ids) for text in texts])
    yield from _batch_faults("text", features, alone)


def _image_faults(encoder: Encoder) -> Iterator[str]:
    """Each way in which pixels and vectors of images are wrong."""
    from PIL import Image

    noise = np.random.default_rng(0).integers(0, 256, (70, 90, 4), np.uint8)
    image = Image.fromarray(noise)
    pictures = [
        image.convert(mode).resize(size) for mode, size in (("RGB", (90, 70)), ("L", (40, 80)), ("P", (64, 64)))
    ]
    pixels = [np.asarray(encoder.prepare(picture)) for picture in (*pictures, image)]
    shapes = {(array.shape, str(array.dtype)) for array in pixels}
    if len(shapes) > 1 or pixels[0].ndim != 3 or pixels[0].shape[2] != 3 or pixels[0].dtype != np.uint8:
        yield f"prepare gives {sorted(map(str, shapes))}, expected bytes of one shape, height × width × 3"
        return
    features = np.asarray(encoder.image_features(np.stack(pixels)))
    yield from _feature_faults("image_features", features, len(pixels), encoder.dimension)
    alone = np.concatenate([encoder.image_features(array[None]) for array in pixels])
    yield from _batch_faults("image", features, alone)


def _feature_faults(what: str, features: Any, number: int, dimension: int) -> Iterator[str]:
    if features.shape != (number, dimension):
        yield f"{what} gives the shape {features.shape} for {number} inputs, expected {(number, dimension)}"
    elif not np.isfinite(features).all():
        yield f"{what} gives numbers that are not finite"


def _batch_faults(what: str, together: Any, alone: Any) -> Iterator[str]:
    """Say it where the vector of an input depends on the others of its batch."""
    if together.shape == alone.shape:
        norms = [np.linalg.norm(rows, axis=1) for rows in (together, alone)]
        product = norms[0] * norms[1]
        cosine = np.divide((together * alone).sum(axis=1), product, out=np.zeros(len(alone)), where=product > 0)
        if ((norms[0] + norms[1] > 0) & (cosine < 1 - BATCHES)).any():
            yield f"the vector of {'an' if what == 'image' else 'a'} {what} depends on the others of its batch"


BATCHES = 1e-3
"""The cosine of the vectors of one input, encoded alone and in a batch, may be below 1 by so much: half precision."""
