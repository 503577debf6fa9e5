"""``captious.testing``: contract tests of metrics, tokenizers and encoders, each in one line.

The test of a package that brings a metric::

    from captious.testing import check_metric

    def test_the_metric():
        check_metric("rare_words")

`check_tokenizer` and `check_encoder` do the same for tokenizers and encoders of a package. The metrics, tokenizers and
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
    find_given_encoder,
    record_models,
)
from captious.models.loading import load
from captious.text.corpus_states import State
from captious.text.tokenizers import Tokenizer, find_tokenizer, name_tokenizer

M = TypeVar("M", Measurement, State)
# Largest difference of sums over items in another order.
ROUNDING = 1e-9
# Largest difference of values of a model on another batch.
MODELS = 1e-6


class ContractError(AssertionError):
    """Raised if a metric, tokenizer or encoder violates its contract. Each line names one fault."""

    def __init__(self, name: str, faults: Sequence[str], kind: str = "a metric") -> None:
        super().__init__("\n".join([f"{name} does not keep the contract of {kind}:", *(f"- {one}" for one in faults)]))
        self.faults = tuple(faults)


def check_metric(metric: str | Metric | type[Metric], captions: Any = None, *, tolerance: float | None = None) -> None:
    """Check a metric on some captions; raise a `ContractError` with a line for every fault.

    Parameters
    ----------
    metric
        The metric, its class, or its written form, by which users of a package name it.
    captions
        Whatever ``captious.evaluate`` takes, with at least six items; a small set of captions with references unless
        given. A metric that needs more, such as images, must be given captions that have them. Items without
        something belong in it too.
    tolerance
        The largest difference of an item's value if the corpus is read in parts: 1e-9 unless given, and 1e-6 for a
        metric that needs a model. 0 asks for every digit.

    >>> check_metric("rouge")
    """
    name = str(metric)
    try:
        metric = parse(metric) if isinstance(metric, str) else metric() if isinstance(metric, type) else metric
        name = str(metric)
        exact = MODELS if {"model", "judge"} & set(metric.needs) else ROUNDING
        trial = Trial(
            metric, make_sample() if captions is None else read(captions), exact if tolerance is None else tolerance
        )
        if len(trial.captions) < LEAST:
            raise InputError(f"{len(trial.captions)} captions, expected at least {LEAST} items to check a metric with")
    except (InputError, TypeError) as error:
        raise ContractError(name, [format_one_line(error)]) from error
    for names in (FIRST, [promise for promise in CHECKS if promise not in FIRST]):
        if faults := [fault for promise in names for fault in _find_faults(promise, trial)]:
            raise ContractError(name, faults)


# Longest error message of a metric that is shown, in characters.
LONGEST = 400
# Smallest number of items for a check, which reads them in three parts.
LEAST = 6
WORDS = ("a", "the", "red", "green", "dog", "cat", "ball", "on", "runs", "sits", "two", "day")


def make_sample() -> CaptionSet:
    """Return twelve items of three candidates and two references, and items with missing inputs."""
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
    """A metric, the captions that it is checked on, and the tolerance for values of parts."""

    metric: Metric
    captions: CaptionSet
    tolerance: float = ROUNDING

    @cached_property
    def _measurement_and_models(self) -> tuple[Measurement, dict[str, str]]:
        with record_models() as models:
            # A copy of the captions has an empty cache.
            return self.metric.measure(replace(self.captions)), models

    @property
    def measured(self) -> Measurement:
        """The metric on all captions."""
        return self._measurement_and_models[0]

    @property
    def models(self) -> dict[str, str]:
        """The models that the metric used, names by fingerprint."""
        return self._measurement_and_models[1]

    @cached_property
    def parts(self) -> list[CaptionSet]:
        """The captions in three parts, of which the second has one item."""
        size = len(self.captions)
        first = min(size // 2, 5)
        return [self.captions.take(part) for part in (range(first), [first], range(first + 1, size))]

    def describe_differences(self, other: Measurement, tolerance: float) -> Iterator[str]:
        """Yield each difference of another measurement of the same items, in words."""
        values, others = self.measured.items, other.items
        keys = [key for key, value in values.items() if not _is_close(value, others.get(key, math.inf), tolerance)]
        if keys:
            more = f", and {len(keys) - 1} more items differ" if len(keys) > 1 else ""
            yield f"item {keys[0]!r} has {others.get(keys[0])!r} instead of {values[keys[0]]!r}{more}"
        if not _is_close(self.measured.corpus, other.corpus, max(tolerance, ROUNDING)):
            yield f"the corpus value is {other.corpus!r} instead of {self.measured.corpus!r}"
        if not keys and dict(self.measured.reasons) != dict(other.reasons):
            yield f"the reasons for missing values are {dict(other.reasons)} instead of {dict(self.measured.reasons)}"
        if str(self.measured.signature) != str(other.signature):
            yield f"the signature is {other.signature} instead of {self.measured.signature}"


Check = Callable[[Trial], Iterator[str]]


def _is_close(one: float, other: float, tolerance: float) -> bool:
    return one == other or (math.isnan(one) and math.isnan(other)) or abs(one - other) <= tolerance


def _merge_all(parts: Sequence[M]) -> M:
    return reduce(lambda one, other: one.merge(other), parts)


def _find_faults(promise: str, trial: Trial) -> list[str]:
    """Return the faults that a check finds; an exception is one too."""
    try:
        return list(CHECKS[promise](trial))
    except InputError as error:
        return [format_one_line(error, LONGEST)]
    except Exception as error:
        return [f"it fails where {promise}: {type(error).__name__}: {format_one_line(error, LONGEST)}"]


def _check_declarations(trial: Trial) -> Iterator[str]:
    """Check the class attributes of a metric."""
    metric, kind = trial.metric, type(trial.metric)
    if not re.fullmatch(r"[a-z][a-z0-9_-]*", str(getattr(metric, "name", ""))):
        yield f"name is {getattr(metric, 'name', None)!r}, expected lower-case letters, digits, _ and -"
    yield from _find_undeclared(kind)
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


def _find_undeclared(kind: type) -> Iterator[str]:
    """Yield annotations that look like parameters, of a class that is not decorated as a dataclass."""
    declared = {field.name for field in fields(kind)}
    for name, hint in vars(kind).get("__annotations__", {}).items():
        if name not in declared and not str(hint).startswith(("ClassVar", "typing.ClassVar")):
            yield f"{name} looks like a parameter of {kind.__name__}, which is not decorated by @dataclass(frozen=True)"


def _is_range(range: Any) -> bool:
    numbers = isinstance(range, tuple) and len(range) == 2 and all(isinstance(end, (int, float)) for end in range)
    return numbers and range[0] < range[1]


def _check_measurement(trial: Trial) -> Iterator[str]:
    """Check that the metric can score the captions, and names its models in the signature."""
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


def _check_written_form(trial: Trial) -> Iterator[str]:
    """Check that the written form of the metric is parsed back."""
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


def _check_pickle(trial: Trial) -> Iterator[str]:
    """Check that the metric can be pickled to the processes that score shards."""
    again = pickle.loads(pickle.dumps(trial.metric))
    if again != trial.metric:
        yield f"pickled and read back it is another metric: {again!r} instead of {trial.metric!r}"


def _check_repetition(trial: Trial) -> Iterator[str]:
    """Check that the same captions get the same values again."""
    for difference in trial.describe_differences(trial.metric.measure(replace(trial.captions)), trial.tolerance):
        yield f"scored a second time, {difference}"


def _check_reasons(trial: Trial) -> Iterator[str]:
    """Check that an item has a value or a reason, never both and never neither."""
    measured = trial.measured
    for key, value in measured.items.items():
        if math.isnan(value) and not str(measured.reasons.get(key, "")).strip():
            yield f"item {key!r} has no value and no reason: put one into Scored.reasons"
        elif math.isinf(value):
            yield f"item {key!r} has the value {value!r}, expected a number, or NaN and a reason in Scored.reasons"
    if math.isnan(measured.corpus):
        yield "the corpus value is NaN though items have values"


def _check_range(trial: Trial) -> Iterator[str]:
    """Check that values are within the declared range."""
    low, high = trial.metric.range
    values = {f"item {key!r} has": value for key, value in trial.measured.items.items()}
    for what, value in {**values, "the corpus value is": trial.measured.corpus}.items():
        if not math.isnan(value) and not low - MODELS <= value <= high + MODELS:
            yield f"{what} {value!r}, outside the declared range from {low:g} to {high:g}"
            return


def _check_order(trial: Trial) -> Iterator[str]:
    """Check that the order of items does not matter."""
    order = np.random.default_rng(0).permutation(len(trial.captions)).tolist()
    for difference in trial.describe_differences(trial.metric.measure(trial.captions.take(order)), MODELS):
        yield f"with the items in another order, {difference}"


def _check_rows(trial: Trial) -> Iterator[str]:
    """Check that the corpus value and its intervals come from sums of rows."""
    measured = trial.measured
    if measured.additive:
        rows = measured.statistic.rows
        (again,) = measured.statistic.aggregate(np.ones((1, len(rows))) @ rows).tolist()
        if not _is_close(again, measured.corpus, ROUNDING):
            yield f"aggregate gives {again!r} for the summed rows of all items, and {measured.corpus!r} the first time"
        shape = np.shape(trial.metric.aggregate(rows))
        if shape != (len(rows),):
            yield f"aggregate gives an array of the shape {shape} for {len(rows)} rows, expected one value per row"


def _check_merged_parts(trial: Trial) -> Iterator[str]:
    """Check that parts that are prepared, merged and scored in memory equal the whole."""
    metric = trial.metric
    states = [metric.prepared(part) for part in trial.parts]
    if isinstance(states[0], State):
        for state in states:
            state.release()
    elif not hasattr(states[0], "merge"):
        states = states[:1]
    measured = _merge_all([metric.measure(part, _merge_all(states)) for part in trial.parts])
    for difference in trial.describe_differences(measured, max(trial.tolerance, 1e-12)):
        yield f"prepared and scored in three parts, {difference}"


def _check_single_parts(trial: Trial) -> Iterator[str]:
    """Check that a part scored by itself has the values of the whole, with the state of the whole if there is one."""
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
            state = yield from _merge_from_files(trial, metric.corpus_state, Path(folder))
        how, advice = "scored by states that were saved, merged and loaded", ""
    measured = _merge_all([metric.measure(part, state) for part in trial.parts])
    for difference in trial.describe_differences(measured, trial.tolerance):
        yield f"{how}, {difference}{advice}"


def _merge_from_files(trial: Trial, kind: type[State], folder: Path) -> Any:
    """Return the state of the whole from files of parts, merged in several orders; yield faults of the orders."""
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


def _check_chunks(trial: Trial) -> Iterator[str]:
    """Check that a set larger than a chunk has the same values as without chunks."""
    metric = trial.metric
    (measured,) = measure_all(replace(trial.captions), [metric], chunk=2 * len(trial.captions) // 5).values()
    for difference in trial.describe_differences(measured, trial.tolerance):
        yield f"scored chunk by chunk, as sets of more than 20,000 items are, {difference}"


def _check_explanations(trial: Trial) -> Iterator[str]:
    """Check that the parts of an explanation add up to the value."""
    if trial.metric.explains:
        for key, value in trial.measured.items.items():
            explanation = trial.metric.explain(trial.captions, key)
            total = sum(part.adds for part in explanation.parts)
            if not math.isnan(value) and not _is_close(total, value, ROUNDING):
                yield f"the parts that explain item {key!r} add up to {total!r}, and its value is {value!r}"
            if math.isnan(value) and (explanation.parts or explanation.reason != trial.measured.reasons[key]):
                yield f"item {key!r} has no value, and its explanation does not say why"


# The promises of a metric, each with its check, which yields a line for every fault.
CHECKS: Mapping[str, Check] = {
    "it declares what it is": _check_declarations,
    "it scores the captions": _check_measurement,
    "its written form is read back": _check_written_form,
    "it is pickled": _check_pickle,
    "it scores a second time": _check_repetition,
    "a missing value has a reason": _check_reasons,
    "values are within the range": _check_range,
    "the order of items does not matter": _check_order,
    "the corpus value comes from the rows": _check_rows,
    "parts are merged": _check_merged_parts,
    "parts have the values of the whole": _check_single_parts,
    "chunks have the values of the whole": _check_chunks,
    "explanations add up": _check_explanations,
}
# Checks that must pass before the others run.
FIRST = list(CHECKS)[:2]


# Texts with capitals, punctuation, several spaces and other scripts.
TEXTS = (
    "A dog's ball (red) isn't there.",
    "two DOGS  run, after 3.5 balls!",
    "Él corrió — “hola” — 一只狗",
    "a",
    "",
    "   ",
)


def check_tokenizer(tokenizer: str | Tokenizer, texts: Sequence[str] = ()) -> None:
    """Check a tokenizer; raise a `ContractError` with a line for every fault.

    ``tokenizer`` is the tokenizer or its name. ``texts`` are tokenized in addition to a fixed list.

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
        faults = [fault for text in (*TEXTS, *texts) for fault in _find_token_faults(tool, text)]
        if pickle.loads(pickle.dumps(tool)) != tool:
            faults.append("pickled and read back it is another tokenizer")
    except Exception as error:
        faults.append(f"{type(error).__name__}: {format_one_line(error, LONGEST)}")
    if faults:
        raise ContractError(tool.name, list(dict.fromkeys(faults)), "a tokenizer")


def _find_token_faults(tool: Tokenizer, text: str) -> Iterator[str]:
    """Yield each fault in the tokens of a text."""
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
    """Check an encoder of images and texts, or of texts; raise a `ContractError` with a line for every fault.

    ``encoder`` is the encoder, or a name that ``captious.models.load`` takes.

    >>> check_encoder("captious-mini")
    """
    name = encoder if isinstance(encoder, str) else type(encoder).__name__
    try:
        model: Any = load(encoder) if isinstance(encoder, str) else find_given_encoder(encoder, TEXT_MEMBERS)
        faults = [*_find_declaration_faults(model), *_find_text_faults(model)]
        if hasattr(model, "prepare") or hasattr(model, "image_features"):
            faults += _find_image_faults(find_given_encoder(model))
    except InputError as error:
        raise ContractError(name, [format_one_line(error)], "an encoder") from error
    except Exception as error:
        raise ContractError(
            name, [f"{type(error).__name__}: {format_one_line(error, LONGEST)}"], "an encoder"
        ) from error
    if faults:
        raise ContractError(name, faults, "an encoder")


def _find_declaration_faults(encoder: TextEncoder) -> Iterator[str]:
    if encoder.precision not in ("fp32", "fp16", "bf16"):
        yield f"precision is {encoder.precision!r}, expected fp32, fp16 or bf16"
    for attribute in ("dimension", "limit"):
        number = getattr(encoder, attribute)
        if not isinstance(number, int) or number < 1:
            yield f"{attribute} is {number!r}, expected a whole number above 0"


def _find_text_faults(encoder: TextEncoder) -> Iterator[str]:
    """Yield each fault in tokens and vectors of texts."""
    texts = ["a red dog on the grass", "two cats", "a dog " * encoder.limit]
    tokens = encoder.tokenize(texts)
    ids, lengths = np.asarray(tokens.ids), np.asarray(tokens.lengths)
    if ids.ndim != 2 or len(ids) != len(texts) or ids.shape[1] > encoder.limit:
        yield f"tokenize gives ids of the shape {ids.shape} for {len(texts)} texts, expected rows of at most limit ids"
        return
    if lengths.shape != (len(texts),) or lengths[2] <= encoder.limit:
        yield "tokenize gives lengths that do not count the tokens beyond the limit"
    features = np.asarray(encoder.text_features(tokens.ids))
    yield from _find_feature_faults("text_features", features, len(texts), encoder.dimension)
    alone = np.concatenate([encoder.text_features(encoder.tokenize([text]).ids) for text in texts])
    yield from _find_batch_faults("text", features, alone)


def _find_image_faults(encoder: Encoder) -> Iterator[str]:
    """Yield each fault in pixels and vectors of images."""
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
    yield from _find_feature_faults("image_features", features, len(pixels), encoder.dimension)
    alone = np.concatenate([encoder.image_features(array[None]) for array in pixels])
    yield from _find_batch_faults("image", features, alone)


def _find_feature_faults(what: str, features: Any, number: int, dimension: int) -> Iterator[str]:
    if features.shape != (number, dimension):
        yield f"{what} gives the shape {features.shape} for {number} inputs, expected {(number, dimension)}"
    elif not np.isfinite(features).all():
        yield f"{what} gives numbers that are not finite"


def _find_batch_faults(what: str, together: Any, alone: Any) -> Iterator[str]:
    """Yield a fault if the vector of an input depends on the others of its batch."""
    if together.shape == alone.shape:
        norms = [np.linalg.norm(rows, axis=1) for rows in (together, alone)]
        product = norms[0] * norms[1]
        cosine = np.divide((together * alone).sum(axis=1), product, out=np.zeros(len(alone)), where=product > 0)
        if ((norms[0] + norms[1] > 0) & (cosine < 1 - BATCHES)).any():
            yield f"the vector of {'an' if what == 'image' else 'a'} {what} depends on the others of its batch"


# Largest cosine distance between the vectors of one input, encoded singly and in a batch: half precision.
BATCHES = 1e-3
