"""The contract of metrics: a small frozen value that prepares, scores items and aggregates.

A metric prints as ``cider(idf=coco)`` and parses back. Scoring has three steps. `Metric.prepare` collects statistics
of the whole corpus. `Metric.score_items` gives each item a row of statistics. `Metric.aggregate` makes values from
rows: of one item, or summed over many. Per-item values, the corpus value, intervals, paired tests and the merging of
shards follow from these.
"""

from __future__ import annotations

import inspect
import os
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from typing import Any, ClassVar, Generic, Literal, TypeVar, cast

import numpy as np

from captious._core.languages import AUTO, ENGLISH, ENGLISH_MODELS, choose_tokenizer, find_language
from captious._core.notation import write_spec
from captious._core.plugins import ObjectName, check_name, find_object
from captious._core.types import Floats
from captious.captions import VIDEO, CaptionSet
from captious.errors import InputError
from captious.io.columns import NO_SUCH, NO_VIDEO
from captious.metrics.abilities import Explains, ExplainsMissing
from captious.metrics.explanation import Breakdown, Explanation
from captious.metrics.measurement import Measurement, Signature
from captious.metrics.statistic_rows import (
    ONLY_VIDEO,
    Rows,
    Scored,
    TypeSets,
    find_missing_inputs,
    item_means,
)
from captious.text.corpus_states import State
from captious.text.ngram_tables import TextTable
from captious.text.tokenizers import Tokenizer, find_tokenizer, name_tokenizer

T = TypeVar("T")
Need = Literal["references", "events", "several candidates", "image", "style", "objects", "model", "judge"]

# Advice that follows the reason of an item without a value in a message.
HINTS = {
    "no references": "; pass references=..., a file of references",
    "no events": "; it scores dense captions: sentences of videos with the start and the end of each",
    "one candidate, needs several": "; give several candidates per item",
    "no image": "; pass images=..., their folder or a list, or a column 'image' with their paths",
    f"video: {NO_VIDEO}": "; none of the videos exists: pass videos=..., the folder that has them",
    f"image: {NO_SUCH}": "; none of the image files exists: pass images=..., the folder with them",
    "no source text": "; give a column 'source'",
}


@dataclass(frozen=True, eq=False)
class Shared(Generic[T]):
    """A state that is the same for every shard, such as a model: merging only checks that."""

    value: T
    key: str

    def merge(self, other: Shared[T]) -> Shared[T]:
        """Return self. Raise InputError if the shards used different models."""
        if self.key != other.key:
            raise InputError(f"cannot merge shards scored by {self.key} and {other.key}")
        return self


@dataclass(frozen=True)
class Metric(ABC):
    """Base of all metrics. A subclass is a frozen dataclass whose fields are the parameters.

    A property of this class may be a class variable in a subclass, or depend on the parameters. A metric must have a
    name, `score_items`, and `aggregate`, which `MeanMetric` has already. Usually it also declares what it needs, its
    range and its label. The guide "Add a metric" has examples, and `captious.metrics.abilities` lists what else a
    metric may offer.
    """

    name: ClassVar[str]
    citation: ClassVar[str] = ""
    main: ClassVar[str] = ""
    """The parameter that may be written without its name, as in ``clipscore(captious-mini)``."""
    always_shown: ClassVar[tuple[str, ...]] = ()
    """Parameters that are printed even at their default."""
    variants: ClassVar[Mapping[str, tuple[Any, ...]]] = {}
    """A parameter and its values: a written form without it means one metric per value."""
    reads_videos: ClassVar[bool] = False
    """Whether a video serves as the image, by the frames that `CaptionSet.frames` chooses."""
    reads: ClassVar[str] = "images"
    """The input of a metric of images that does not read videos, for the message that refuses videos."""
    by_chunk: ClassVar[bool] = False
    """Whether a large set is scored chunk by chunk. A metric that runs a model makes its own batches."""

    def __post_init__(self) -> None:
        """Replace an object given as a parameter, such as an encoder, by its name.

        A subclass that checks its own parameters calls this first.
        """
        for one in fields(self):
            if isinstance(one.default, str):
                object.__setattr__(
                    self, one.name, convert_parameter(getattr(self, one.name), type(self).__name__, one.name)
                )

    @property
    def needs(self) -> tuple[Need, ...]:
        """The inputs that an item must have in addition to its candidates."""
        return ("references",)

    @property
    def languages(self) -> tuple[str, ...]:
        """Codes of the languages that the metric supports, such as ``("en",)``; empty if it takes any language."""
        return ()

    @property
    def range(self) -> tuple[float, float]:
        """The lowest and the highest possible value."""
        return (0.0, 1.0)

    @property
    def higher_is_better(self) -> bool:
        """Whether the better of two captions has the higher value."""
        return True

    @property
    def decimals(self) -> int | None:
        """Decimals that tables print of a value on its own scale, such as 0 for a number of words; never × 100.

        None: the value is a score, printed as scores are, with four decimals or in percent with one.
        """
        return None

    @property
    def scores_batches(self) -> bool:
        """Whether a value depends on the neighbors of an item, so that shards and single captions are refused."""
        return False

    @property
    def undefined_reason(self) -> str:
        """The reason of an item whose row is NaN without a reason of its own, or 0 / 0 in a ratio of sums."""
        return "the value is undefined"

    @property
    def undefined_by_caption(self) -> bool:
        """Whether the caption is to blame if an item has no value for `undefined_reason`.

        Otherwise its references, its image or the model are. A reward punishes only a fault of the caption.
        """
        return True

    @property
    def label(self) -> str:
        """The name of the metric in tables."""
        return str(self)

    @property
    def corpus_state(self) -> type[State] | None:
        """The class of what `prepare` returns if a value depends on the other items; None if it does not.

        Then all shards are prepared before one is scored, and their states are merged.
        """
        return None

    @property
    def needs_corpus(self) -> bool:
        """Whether a value depends on the other items. This follows from `corpus_state` and is not declared."""
        return self.corpus_state is not None

    def choose_inputs(self, references: bool, images: bool) -> Metric:
        """Return the metric for captions of which some have references, or images or videos, or both.

        A metric that can do with either returns itself with the parameter that says which it compares.
        """
        return self

    def prepare(self, captions: CaptionSet) -> Any:
        """Return the state that scoring needs: a `corpus_state` of the whole corpus, or any other object.

        Return a state that is the same for every shard, such as a model, as `Shared`.
        """
        return Shared(None, "")

    @abstractmethod
    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return one row of statistics per item. `measure` handles items without the inputs that the metric needs."""

    @abstractmethod
    def aggregate(self, rows: Floats) -> Floats:
        """Return one value per row; a row is that of one item, or summed over many."""

    def settings(self, state: Any) -> Mapping[str, str]:
        """Return the entries of the signature beyond the parameters."""
        return {}

    def model_settings(self, state: Any) -> Mapping[str, str]:
        """Return the entries of the signature for the metric's models; `EncoderMetric` names its encoder."""
        return {}

    def frame_settings(self, captions: CaptionSet) -> Mapping[str, str]:
        """Return the entry of the signature for the frames of videos, if the metric reads any."""
        if not self.reads_videos or VIDEO not in captions.columns:
            return {}
        from captious.io.videos import describe_frames

        return {"frames": describe_frames(captions)}

    def text_settings(self, captions: CaptionSet) -> Mapping[str, str]:
        """Return the entries of the signature for reading the captions as text: their language, if one was named."""
        return {"lang": captions.language} if captions.language else {}

    def text_warnings(self, captions: CaptionSet) -> list[str]:
        """Warn if the metric or its model does not support the language of the captions.

        The language may be one that was not named and that the metric does not know, or one that its model was not
        trained on.
        """
        if captions.language:
            return self._warn_foreign_language(captions.language)
        scripts = captions.scripts
        if not self.languages or scripts.main == "Latin":
            return []
        return [f"{self.label} knows English only, and {scripts.describe_share([scripts.main])}: it means nothing here"]

    def _warn_foreign_language(self, language: str) -> list[str]:
        """Warn about a parameter that names a model of English texts if the captions are in another language."""
        texts = [value for one in fields(self) if isinstance(value := getattr(self, one.name), str)]
        english = [text for text in texts if text in ENGLISH_MODELS and language != ENGLISH]
        name = find_language(language).name
        return [f"{self.label}: {model} was trained on English, name a model that knows {name}" for model in english]

    @property
    def explains(self) -> bool:
        """Whether `explain` works: whether the metric has `Explains.break_down`."""
        return isinstance(self, Explains)

    def explain(self, captions: CaptionSet, id: Any, state: Any = None) -> Explanation:
        """Explain the value of an item: return the parts that add up to it.

        The item belongs to a set, whose statistics count, such as document frequencies. ``state`` is what `prepare`
        returned; without it the set is prepared, once for all its items.
        """
        if not isinstance(self, Explains):
            raise InputError(f"{self} does not explain single values")
        index = captions.position(id)
        if state is None:
            state = captions.once(("state", self), lambda: self.prepared(captions))
        item = captions.take([index])
        measured, key = self.measure(item, state), captions.ids[index]
        reason = measured.reasons.get(key, "")
        if not reason:
            breakdown = self.break_down(item, state)
        else:
            breakdown = self.break_down_missing(item, state) if isinstance(self, ExplainsMissing) else Breakdown([])
        return Explanation(
            metric=str(self),
            label=self.label,
            id=key,
            value=float(measured.values[0]),
            breakdown=breakdown,
            reason=reason,
            signature=str(Signature.of(self, captions, state, 0, {})),
        )

    def hint(self, reason: str) -> str:
        """Return the advice that follows this reason in a message, or an empty string."""
        further = "; for videos videos=..., their folder" if reason == "no image" and self.reads_videos else ""
        return HINTS.get(reason, "") + further

    def measure(self, captions: CaptionSet, state: Any = None) -> Measurement:
        """Score a set. ``state`` is what `prepare` returned; for a shard, that of the whole corpus."""
        if state is None:
            state = self.prepared(captions)
        return self.measurement(captions, state, self.score_set(captions, state))

    def score_set(self, captions: CaptionSet, state: Any) -> Scored:
        """Score a set and return its rows, with a reason for every item without a value."""
        return self.fill_reasons(captions, self.score_items(captions, state))

    def fill_reasons(self, captions: CaptionSet, scored: Scored) -> Scored:
        """Check what `score_items` returned, and add a reason for every item without a value."""
        if not isinstance(scored, Scored):
            raise InputError(f"{self}: score_items returned {type(scored).__name__}, expected Scored(rows)")
        rows = self._check_rows(scored.rows, captions)
        scored = replace(scored, rows=rows).fill_reasons(
            find_missing_inputs(captions, self.needs, self.reads_videos), self.undefined_reason
        )
        return self._mark_undefined(scored)

    def _mark_undefined(self, scored: Scored) -> Scored:
        """Add a reason for every item whose finite row has no value: 0 / 0 in a ratio of sums.

        The row stays. The item has its part in the value of the set, and in paired tests.
        """
        if isinstance(scored.rows, TypeSets) or not len(scored.rows):
            return scored
        undefined = np.flatnonzero(np.isnan(self.aggregate(scored.rows))).tolist()
        return replace(scored, reasons={**dict.fromkeys(undefined, self.undefined_reason), **scored.reasons})

    def _check_rows(self, rows: Rows, captions: CaptionSet) -> Rows:
        """Convert the rows of `score_items` to an array. Raise InputError if there is not one row per item."""
        if isinstance(rows, TypeSets):
            shape: tuple[int, ...] = (len(rows.types), 2)
        else:
            try:
                rows = np.asarray(rows, dtype=np.float64)
            except (TypeError, ValueError) as error:
                raise InputError(f"{self}: score_items gave rows that are no numbers ({error})") from None
            rows = self._as_rows(rows, len(captions))
            shape = rows.shape
        if len(shape) == 2 and shape[0] == len(captions):
            return rows
        candidates = shape and shape[0] == len(captions.candidates.values)
        helper = "candidate_means(captions, values)" if candidates else "item_means(values)"
        raise InputError(
            f"{self}: score_items gave rows of the shape {shape}, expected a row of statistics for each of "
            f"{len(captions)} items; captious.metrics.{helper} makes the rows of a mean"
        )

    def _as_rows(self, array: Floats, items: int) -> Floats:
        """Convert an array to rows; MeanMetric accepts one value per item."""
        return array

    def measurement(self, captions: CaptionSet, state: Any, scored: Scored) -> Measurement:
        """Build the measurement of a set from its rows."""
        return Measurement(
            self,
            captions.ids,
            scored.rows,
            Signature.of(self, captions, state, len(scored.reasons), scored.counts),
            {captions.ids[index]: reason for index, reason in scored.reasons.items()},
            (*self.text_warnings(captions), *scored.warnings),
            tuple(scored.notes),
        )

    def refuse_language(self, language: str) -> None:
        """Raise InputError if the captions are in a language that the metric does not support."""
        if language and self.languages and language not in self.languages:
            known = ", ".join(find_language(code).name for code in self.languages)
            raise InputError(
                f"{self} knows {known} only, the captions are in {find_language(language).name} "
                f"(language={language!r}); leave this metric out"
            )

    def refuse_unfit(self, captions: CaptionSet) -> None:
        """Raise InputError before anything is computed if the metric cannot score any item of a set.

        It does not support the language, or no item has the inputs that it needs.
        """
        self.refuse_language(captions.language)
        if captions.settings.get("events") == "video" and self.needs and "events" not in self.needs:
            raise InputError(
                f"{captions.name}: dense captions of {len(captions):,} videos; {self.name} needs one text per item: "
                "pass reading=Reading(events='paragraph') or reading=Reading(events='segment'), or use densecap, soda"
            )
        missing = find_missing_inputs(captions, self.needs, self.reads_videos)
        if missing and len(missing) == len(captions):
            raise self._make_refusal(missing.values(), captions.name)

    def refuse_empty(self, measurement: Measurement, name: str) -> None:
        """Raise InputError with advice if no item of a whole set has a value."""
        if measurement.ids and len(measurement.reasons) == len(measurement.ids):
            raise self._make_refusal(measurement.reasons.values(), name)

    def prepared(self, captions: CaptionSet) -> Any:
        """Call `prepare` and check its result. If it fails and no item could be scored anyway, the error says that."""
        self.refuse_language(captions.language)
        try:
            state = self.prepare(captions)
        except InputError:
            if captions.candidates.values:  # items of a scorer have none until a batch comes
                self.refuse_unfit(captions)
            raise
        if self.corpus_state is not None and not isinstance(state, self.corpus_state):
            found, expected = type(state).__name__, self.corpus_state.__name__
            raise InputError(f"{self}: prepare returned {found}, expected {expected}, which is its corpus_state")
        return state

    def _make_refusal(self, reasons: Iterable[str], name: str) -> InputError:
        ((reason, _),) = Counter(reasons).most_common(1)
        if reason == ONLY_VIDEO:
            return InputError(f"{self} reads {self.reads}; videos are not supported")
        return InputError(f"{self} cannot score {name}: {reason}{self.hint(reason)}")

    def __str__(self) -> str:
        return write_spec(self, self.name, self.always_shown)


@dataclass(frozen=True)
class MeanMetric(Metric):
    """A metric whose corpus value is the mean over captions or items.

    A row is the sum of an item's values and their number. `candidate_means` makes rows from a value for each candidate.
    A value for each item is accepted in place of a row: its row is the value and 1.
    """

    def _as_rows(self, array: Floats, items: int) -> Floats:
        return item_means(array) if array.shape == (items,) else array

    def aggregate(self, rows: Floats) -> Floats:
        """Divide the sum of values by their number."""
        with np.errstate(invalid="ignore"):
            result: Floats = rows[..., 0] / rows[..., 1]
        return result


def convert_parameter(value: Any, metric: str, parameter: str) -> Any:
    """Return a parameter as a metric stores it: an encoder or a tokenizer given as an object becomes its name."""
    if isinstance(value, str):
        return find_object(value) or value
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, Tokenizer):
        return name_tokenizer(value)
    where = f"{metric}({parameter}={type(value).__name__})"
    if hasattr(value, "name") and hasattr(value, "fingerprint"):
        for attribute in ("name", "fingerprint"):
            check_name(getattr(value, attribute), f"{where}: {attribute}")
        return ObjectName(f"{value.name}#{value.fingerprint}", value)
    if value is None or isinstance(value, (bool, int, float, tuple)):
        return value
    encoder = "an encoder, an object with a name, a fingerprint and the other members of captious.models.Encoder"
    expected = "a captious.text.Tokenizer(name, version, function)" if parameter == "tokenizer" else encoder
    raise InputError(f"{where}: expected a name, or {expected}")


class TokenMetric(Metric):
    """A metric over the token table of a set. Its tokenizer is a parameter and part of the signature.

    ``tokenizer=auto``, the usual default, is the tokenizer of the captions' language: ``ptb`` for English and other
    languages with spaces. If the metric needs only captions, `prepare` gets shards without their further columns.
    """

    tokenizer: str | Tokenizer

    by_chunk: ClassVar[bool] = True

    def __post_init__(self) -> None:
        """Raise InputError if the tokenizer is unknown."""
        super().__post_init__()
        if not isinstance(self.tokenizer, str):
            raise InputError(f"{type(self).__name__}(tokenizer={self.tokenizer!r}): expected a name or a Tokenizer")
        if self.tokenizer != AUTO:
            find_tokenizer(self.tokenizer)

    def table(self, captions: CaptionSet) -> TextTable:
        """Return the token table of a set."""
        return TextTable.of(captions, self.tokenizer)

    def tokenizer_name(self, captions: CaptionSet) -> str:
        """Return the name of the tokenizer that the metric uses for these captions."""
        return choose_tokenizer(cast(str, self.tokenizer), captions.language, captions.tokenizer)

    def text_settings(self, captions: CaptionSet) -> Mapping[str, str]:
        """Return the language, if one was named, and the tokenizer with its version."""
        return {**super().text_settings(captions), "tok": str(find_tokenizer(self.tokenizer_name(captions)))}

    def text_warnings(self, captions: CaptionSet) -> list[str]:
        """Warn also if the tokenizer takes a whole clause for one word."""
        clause = captions.scripts.explain_unsplit_clauses(self.tokenizer_name(captions), captions.language)
        return [*([clause] if clause else []), *super().text_warnings(captions)]


class CandidateMetric(TokenMetric):
    """A metric with one row per candidate; the row of an item is their sum."""

    compares_jointly: ClassVar[bool] = False
    """Whether candidates of several systems may be scored as those of one item, with the references they share.

    `score_candidates` must then return only rows and warnings, no counts, and a warning must be true of each system.
    """

    @abstractmethod
    def score_candidates(self, captions: CaptionSet, state: Any) -> Scored:
        """Return one row of statistics per candidate."""

    def score_items(self, captions: CaptionSet, state: Any) -> Scored:
        """Return the rows of each item's candidates, summed."""
        scored = self.score_candidates(captions, state)
        return replace(scored, rows=self.table(captions).sum_per_item(np.asarray(scored.rows)))


class NgramMetric(TokenMetric):
    """A metric over n-grams of one order, which is a parameter and always printed."""

    n: int

    main: ClassVar[str] = "n"
    always_shown: ClassVar[tuple[str, ...]] = ("n",)
    highest_n: ClassVar[int] = 1000
    """The largest n, more than the words of most captions."""

    def __post_init__(self) -> None:
        """Raise InputError if n is out of range."""
        super().__post_init__()
        if not 1 <= self.n <= self.highest_n:
            raise InputError(f"{self.name}(n={self.n}): expected n from 1 to {self.highest_n}")


def refuse_batches(metric: Metric, where: str) -> None:
    """Raise InputError if a metric scores batches of a whole set; ``where`` says what has only parts of it."""
    if metric.scores_batches:
        raise InputError(
            f"{metric} scores the captions of a whole file in batches, not those of {where}; leave batch out"
        )


def refuse_undeclared(metric: Metric) -> None:
    """Raise InputError if a metric depends on the whole corpus but does not declare its state."""
    state = metric.corpus_state
    if state is not None and not (isinstance(state, type) and issubclass(state, State)):
        raise InputError(f"{metric}: corpus_state is {state!r}, expected a subclass of captious.metrics.State")
    if state is not None and inspect.isabstract(state):
        methods = ", ".join(sorted(getattr(state, "__abstractmethods__", ())))
        raise InputError(f"{metric}: the corpus_state {state.__name__} must have: {methods}")
    if metric.needs_corpus != (state is not None):
        raise InputError(
            f"{metric} declares needs_corpus={metric.needs_corpus}, which follows from corpus_state: declare that "
            "instead, the class of what prepare returns, a subclass of captious.metrics.State"
        )
